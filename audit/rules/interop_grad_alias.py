"""Declares the rule ``interop-grad-alias``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Wrap
from warp_audit.audit.rule import Finding, Rule, Safety
from warp_audit.audit.source.captures import host
from warp_audit.audit.source.constants import constant
from warp_audit.audit.source.scopes import dotted
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostCall, HostFunction
    from warp_audit.audit.source.module import Module
    from warp_audit.audit.source.scopes import Scope


class InteropGradAlias(Rule):
    """A Torch autograd function shares its tensors' gradient buffers with Warp.

    What it finds: in a ``torch.autograd.Function``, ``wp.from_torch`` of a tensor that ``forward`` was given, without
    ``detach()``, whose array's ``.grad`` the ``backward`` returns; and that return, if it makes no ``clone()``.

    Why it matters: the array takes over ``tensor.grad``. Warp adds into that buffer, then Torch adds the returned
    buffer, which is the same memory, once more; zeroing it for the next step clears what Torch holds.

    Instead: wrap ``tensor.detach()`` with ``requires_grad=True`` and return ``wp.to_torch(x.grad).clone()``.
    """

    code = "WPA722"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("NVIDIA/warp#159",)
    fix_safety = Safety.UNSAFE
    words = ("grad",)
    BAD = (
        """
        import torch

        @wp.kernel
        def cube(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            y[i] = x[i] * x[i] * x[i]

        class Cube(torch.autograd.Function):
            @staticmethod
            def forward(ctx, points, scale):
                x = wp.from_torch(points, dtype=float, requires_grad=True)  # error: WPA722
                ctx.x = x
                ctx.y = wp.zeros(x.shape, dtype=float, requires_grad=True)
                wp.launch(cube, dim=x.shape, inputs=[x], outputs=[ctx.y])
                return wp.to_torch(ctx.y)

            @staticmethod
            def backward(ctx, grad):
                ctx.y.grad = wp.from_torch(grad.contiguous())
                wp.launch(cube, dim=ctx.x.shape, inputs=[ctx.x], outputs=[ctx.y],
                          adj_inputs=[ctx.x.grad], adj_outputs=[ctx.y.grad], adjoint=True)
                gradient = wp.to_torch(ctx.x.grad)  # error: WPA722
                return gradient, None

        class Taped(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a, b):
                ctx.tape = wp.Tape()
                ctx.a = wp.from_torch(a)  # error: WPA722
                ctx.b = wp.from_torch(t=b)
                ctx.c = wp.from_torch(b)  # error: WPA722
                with ctx.tape:
                    ctx.y = wp.zeros(3, dtype=float, requires_grad=True)
                    wp.launch(cube, dim=3, inputs=[ctx.a], outputs=[ctx.y])
                return wp.to_torch(ctx.y)

            @staticmethod
            def backward(ctx, grad):
                ctx.tape.backward(grads={ctx.y: wp.from_torch(grad)})
                first = wp.to_torch(ctx.tape.gradients[ctx.a])  # error: WPA722
                return first, wp.to_torch(ctx.c.grad, requires_grad=False).clone()
        """,
    )
    GOOD = (
        """
        import torch

        @wp.kernel
        def cube(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            y[i] = x[i] * x[i] * x[i]

        class Cube(torch.autograd.Function):
            @staticmethod
            def forward(ctx, points, weights):
                points = points.detach().contiguous()
                ctx.x = wp.from_torch(points, requires_grad=True)
                ctx.w = wp.from_torch(weights, requires_grad=False)
                ctx.y = wp.zeros(ctx.x.shape, dtype=float, requires_grad=True)
                return wp.to_torch(ctx.y)

            @staticmethod
            def backward(ctx, grad):
                ctx.y.grad = wp.from_torch(grad.contiguous())
                return wp.to_torch(ctx.x.grad).clone(), None

        class Copied(torch.autograd.Function):
            @staticmethod
            def forward(ctx, points):
                ctx.x = wp.from_torch(points, grad=wp.zeros(3, dtype=float))
                return points

            @staticmethod
            def backward(ctx, grad):
                return wp.to_torch(ctx.x.grad)
        """,
    )

    def module(self, module: Module) -> Iterator[Finding]:
        if "from_torch" not in module.text or "utograd" not in module.text:
            return
        for scope in module.scope.walk():
            if scope.kind == "class" and _is_autograd(scope):
                yield from self._class(scope)

    def _class(self, owner: Scope) -> Iterator[Finding]:
        methods = {child.name: child for child in owner.children if child.kind == "function"}
        if "forward" not in methods or "backward" not in methods:
            return
        forward, backward = host(methods["forward"]), host(methods["backward"])
        shared = {path: call for call in forward.calls if (path := _shared_as(forward, call)) is not None}
        told: set[ast.Call] = set()
        for call in backward.calls:
            path = _gradient_of(backward, call)
            if path not in shared or (returned := _is_returned(backward, call.node)) is None:
                continue
            wrapper = shared[path]
            if wrapper.node not in told:
                told.add(wrapper.node)
                tensor = wrapper.node.args[0]
                yield self.at(
                    forward, wrapper.node, f"the array takes over the gradient of '{ast.unparse(tensor)}', which Torch "
                    "owns", f"wrap {ast.unparse(tensor)}.detach() with requires_grad=True",
                    fix=self.mend("Detach the tensor", Wrap(Place.of(tensor), "", ".detach()")),
                )  # fmt: skip
            if returned == "copy":
                continue
            yield self.at(
                backward, call.node, f"Torch adds '{ast.unparse(call.node.args[0])}' to itself: it is the tensor's own "
                "gradient buffer", "return a clone of it",
                fix=self.mend("Clone the gradient", Wrap(Place.of(call.node), "", ".clone()")),
            )  # fmt: skip


def _is_autograd(scope: Scope) -> bool:
    names = [scope.module.qualified(base, scope.parent) for base in scope.node.bases] if scope.parent else []  # type: ignore[attr-defined]
    return any(name is not None and name.endswith("autograd.Function") for name in names)


def _shared_as(forward: HostFunction, call: HostCall) -> str | None:
    """The attribute of ``ctx`` that keeps an array made of one of forward's own tensors, undetached."""
    if call.name != "warp.from_torch" or not call.node.args or not isinstance(call.node.args[0], ast.Name):
        return None
    definition = forward.flow.uses.get(call.node.args[0])
    grad = call.argument("requires_grad")
    if definition is None or definition.kind != "parameter" or call.argument("grad") is not None:
        return None
    if grad is not None and constant(grad, forward.scope) is False:
        return None
    context = forward.parameters[0].arg if forward.parameters else ""
    for one in forward.flow.defs:
        if one.name.startswith(f"{context}.") and one.value is not None and forward.value_of(one.value) is call.node:
            return one.name.partition(".")[2]
    return None


def _gradient_of(backward: HostFunction, call: HostCall) -> str | None:
    """The attribute of ``ctx`` whose gradient ``wp.to_torch(ctx.x.grad)`` or ``(tape.gradients[ctx.x])`` gives."""
    if call.name != "warp.to_torch" or not call.node.args:
        return None
    value = backward.value_of(call.node.args[0])
    if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Attribute) and value.value.attr == "gradients":
        path = dotted(backward.value_of(value.slice))
        return path.partition(".")[2] if path is not None else None
    path = dotted(value)
    if path is None or not path.endswith(".grad"):
        return None
    owner = value.value if isinstance(value, ast.Attribute) else value
    return (dotted(backward.value_of(owner)) or "").partition(".")[2]


def _is_returned(backward: HostFunction, call: ast.Call) -> str | None:
    """Whether a function returns a call's result ``as it is``, or a ``copy``, or not at all."""
    for value in backward.scope.returns:
        for item in value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]:
            given = backward.value_of(item)
            if given is call:
                return "as it is"
            if any(backward.value_of(part) is call for part in walk(given) if isinstance(part, (ast.Call, ast.Name))):
                return "copy"
    return None

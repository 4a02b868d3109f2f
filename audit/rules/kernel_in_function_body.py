"""Declares the rule ``kernel-in-function-body``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.captures import host
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.scopes import Scope

_CACHES = ("cache", "lru_cache", "cached_property", "cached", "memoize")
_ONCE = ("__init__", "__post_init__", "__new__", "setUp", "setUpClass", "main", "setup", "wrapper")


class KernelInFunctionBody(Rule):
    """A kernel is defined anew at each call of the function that launches it.

    What it finds: a kernel defined in the body of a function or method that launches it itself and neither returns nor
    keeps it. Constructors, tests and functions that take no argument, which run once, are left alone.

    Why it matters: each call makes a new kernel object: its source is parsed and hashed again, its module is marked for
    another load, and versions before 1.15 never let the old ones go.

    Instead: define the kernel at the file's top level, or make it in a cached factory.
    """

    code = "WPA731"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("newton-physics/newton#3243", "NVIDIA/warp#1589")
    BAD = (
        """
        class Damper:
            def step(self, vel):
                if vel.shape[0] > 0:
                    @wp.kernel(enable_backward=False)  # error: WPA731
                    def damp(v: wp.array(dtype=float), s: float):
                        i = wp.tid()
                        v[i] = v[i] * s

                    wp.launch(kernel=damp, dim=vel.shape[0], inputs=[vel, 0.5])

        def scale(values, factor):
            def body(v: wp.array(dtype=float)):
                i = wp.tid()
                v[i] = v[i] * factor

            kernel = wp.Kernel(func=body)  # error: WPA731
            wp.launch(kernel, dim=values.shape[0], inputs=[values])
        """,
    )
    GOOD = (
        """
        import functools

        class Damper:
            def __init__(self, vel):
                @wp.kernel
                def damp(v: wp.array(dtype=float), s: float):
                    i = wp.tid()
                    v[i] = v[i] * s

                wp.launch(damp, dim=vel.shape[0], inputs=[vel, 1.0])

            def make(self):
                @wp.kernel
                def damp(v: wp.array(dtype=float), s: float):
                    i = wp.tid()
                    v[i] = v[i] * s

                self.kernel = damp
                wp.launch(damp, dim=3, inputs=[self.vel, 1.0])

        def factory(order):
            @wp.kernel(module="unique")
            def power(v: wp.array(dtype=float)):
                i = wp.tid()
                v[i] = wp.pow(v[i], float(order))

            return power

        def test_scale(device):
            @wp.kernel
            def scale(v: wp.array(dtype=float)):
                i = wp.tid()
                v[i] = 2.0 * v[i]

            wp.launch(scale, dim=3, inputs=[wp.zeros(3, dtype=float)])

        KERNELS = {}

        def cached(v, order):
            if order not in KERNELS:
                @wp.kernel
                def power(v: wp.array(dtype=float)):
                    i = wp.tid()
                    v[i] = wp.pow(v[i], float(order))

                KERNELS[order] = power
            wp.launch(KERNELS[order], dim=3, inputs=[v])
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        scope = kernel.scope
        if scope.kind != "function" or kernel.decorator is None or not _runs_often(scope):
            return
        called = kernel.decorator.func if isinstance(kernel.decorator, ast.Call) else kernel.decorator
        if kernel.module.qualified(called, scope) not in ("warp.kernel", "warp.Kernel"):
            return  # a decorator of the project's own may keep what it makes
        function = host(scope)
        launches = [launch for launch in function.launches if kernel in launch.kernels]
        if not launches or _is_kept(kernel, scope):
            return
        yield self.at(
            kernel, kernel.decorator, f"each call of '{scope.qualified}' makes the kernel '{kernel.name}' anew",
            "define it at the file's top level, or make it in a cached factory",
        )  # fmt: skip


def _runs_often(scope: Scope) -> bool:
    """Whether a function takes arguments that change, and is neither a constructor nor a test nor cached."""
    node = scope.node
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name in _ONCE:
        return False
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name in _CACHES:
            return False
    outer: Scope | None = scope
    while outer is not None:
        if "test" in outer.name.lower() or "bench" in outer.name.lower():
            return False
        if outer is not scope and outer.kind == "function":
            return False
        outer = outer.parent
    arguments = node.args
    names = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    method = scope.parent is not None and scope.parent.kind == "class"
    return method or bool(names)


def _is_kept(kernel: DeviceFunction, scope: Scope) -> bool:
    """Whether the kernel goes anywhere but into a launch: it may be a factory's, or cached."""
    function = host(scope)
    launched = {launch.argument("kernel") for launch in function.launches}
    names = {kernel.name}
    for definition in function.flow.defs:
        if (
            definition.kind == "assign"
            and isinstance(definition.value, ast.Call)
            and definition.value is kernel.decorator
        ):
            names.add(definition.name)
    if any("." in name for name in names):
        return True
    makers = set(walk(kernel.decorator)) if kernel.decorator is not None else set()
    return any(
        node.id in names and node not in launched and node not in makers  # type: ignore[attr-defined]
        and isinstance(node.ctx, ast.Load)  # type: ignore[attr-defined]
        for node in function.flow.of(ast.Name)
    )  # fmt: skip

"""Declares the rule ``ad-where-singular``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.autodiff import differentiated_functions
from warp_audit.audit.source.builtin_facts import SINGULAR
from warp_audit.audit.source.gradients import Gradients
from warp_audit.audit.source.walk import children
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.symbolic import Atom

_SAFE = {"max", "where", "clamp", "abs", "exp", "cosh", "select"}


class AdWhereSingular(Rule):
    """``wp.where`` chooses away a value whose derivative is infinite.

    What it finds: in a kernel that a tape records, or a func that it calls: ``wp.where(x > 0.0, wp.sqrt(x), 0.0)`` and
    the like: an operand with a square root, logarithm, power or quotient that has no finite derivative where the
    condition turns it down.

    Why it matters: both operands are computed and both are differentiated. The one not chosen contributes zero times
    infinity, so that the gradient is NaN although the value is right.

    Instead: use an ``if`` statement, or make the argument harmless first:
    ``wp.sqrt(wp.where(x > 0.0, x, 1.0))`` inside the outer ``wp.where``.
    """

    code = "WPA417"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    BAD = (
        """
        @wp.kernel
        def speed(head: wp.array(dtype=float), drop: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            out[i] = wp.where(head[i] > 0.0, wp.sqrt(head[i]), 0.0)  # error: WPA417
            d = drop[i]
            ratio = head[i] / d
            out[i] += wp.where(d == 0.0, 0.0, ratio)  # error: WPA417

        def gradient(head, drop, out):
            with wp.Tape() as tape:
                wp.launch(speed, dim=head.shape[0], inputs=[head, drop], outputs=[out])
            tape.backward(grads={out: wp.ones_like(out)})
        """,
        """
        @wp.func
        def log_or_zero(x: float):
            return wp.where(x > 0.0, wp.log(x), 0.0)  # error: WPA417

        @wp.kernel
        def entropy(p: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            out[i] = p[i] * log_or_zero(p[i])

        def gradient(p, out):
            with wp.Tape() as tape:
                wp.launch(entropy, dim=p.shape[0], inputs=[p], outputs=[out])
            tape.backward(grads={out: wp.ones_like(out)})
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def speed(head: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
            i = wp.tid()
            h = wp.where(head[i] > 0.0, head[i], 1.0)
            out[i] = wp.where(head[i] > 0.0, wp.sqrt(h), 0.0) + h
            out[i] += wp.where(head[i] > 0.0, wp.sqrt(wp.max(head[i], 1.0e-6)), 0.0)
            out[i] += wp.where(i > 3, wp.sqrt(head[i]), 0.0)
            out[i] += wp.where(head[i] > 0.0, head[i] / float(n), 0.0)
            if head[i] > 0.0:
                out[i] += wp.sqrt(head[i])

        def gradient(head, out):
            with wp.Tape() as tape:
                wp.launch(speed, dim=head.shape[0], inputs=[head, out, 3])
            tape.backward(grads={out: wp.ones_like(out)})
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function not in differentiated_functions(function.module):
            return
        for call, _ in function.calls():
            if len(call.args) == 3 and function.builtin(call) in ("where", "select"):
                singular = _singular(function, call)
                if singular is not None:
                    yield self.at(
                        function,
                        call,
                        f"{singular} is differentiated also where the condition turns it down: the gradient is NaN",
                    )


def _singular(function: DeviceFunction, call: ast.Call) -> str | None:
    condition = function.symbols.form(call.args[0]).all_atoms()
    for operand in call.args[1:]:
        for node in _parts(function, operand):
            found = _risk(function, node)
            if found is not None and condition & _values(function, found[1]):
                return found[0]
    return None


def _values(function: DeviceFunction, node: ast.expr) -> set[Atom]:
    """The values that an argument is made of, thread coordinates and parameters of kernels left out."""
    atoms = function.symbols.form(node).all_atoms()
    outer = ("tid",) if function.kind != "kernel" else ("tid", "parameter")
    return {atom for atom in atoms if atom[0] not in outer}


def _parts(function: DeviceFunction, operand: ast.expr) -> Iterator[ast.expr]:
    """The expressions of an operand, a local's value for its name; not those inside another choice."""
    stack: list[ast.AST] = [operand]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            definition = function.flow.uses.get(node)
            if definition is not None and definition.kind == "assign" and id(definition) not in seen:
                seen.add(id(definition))
                if definition.index is None and definition.value is not None:
                    stack.append(definition.value)
            continue
        if isinstance(node, ast.Call) and function.builtin(node) in ("where", "select"):
            continue
        if isinstance(node, ast.expr):
            yield node
        stack.extend(children(node))


def _risk(function: DeviceFunction, node: ast.expr) -> tuple[str, ast.expr] | None:
    """What has no finite derivative somewhere, and the argument that leads there."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Pow)):
        argument = node.right if isinstance(node.op, ast.Div) else node.left
        if isinstance(node.op, ast.Pow) and isinstance(function.constant(node.right), int):
            return None
        words = "the quotient" if isinstance(node.op, ast.Div) else "the power"
    elif isinstance(node, ast.Call) and node.args:
        name = function.builtin(node)
        known = SINGULAR.get(name) if name is not None else None
        if known is None or known.gradient not in ("infinite", "nan"):
            return None
        argument, words = node.args[1 if name == "div" and len(node.args) > 1 else 0], f"'{name}'"
    else:
        return None
    if not Gradients.of(function).active(argument) or _harmless(function, argument):
        return None
    return words, argument


def _harmless(function: DeviceFunction, argument: ast.expr) -> bool:
    """Whether an argument is kept away from where the derivative fails."""
    while isinstance(argument, ast.Name):
        definition = function.flow.uses.get(argument)
        if (
            definition is None
            or definition.kind != "assign"
            or definition.value is None
            or definition.index is not None
        ):
            return definition is not None and definition.kind in ("phi", "loop_phi")
        argument = definition.value
    if isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.Add):
        return any(isinstance(side, ast.Constant) for side in (argument.left, argument.right))
    return isinstance(argument, ast.Call) and function.builtin(argument) in _SAFE

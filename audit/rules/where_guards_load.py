"""Declares the rule ``where-guards-load``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import called_indices, clamped, guards_on, indices, protects
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Site
    from warp_audit.audit.source.symbolic import Fact, Form


class WhereGuardsLoad(Rule):
    """``wp.where`` is to keep an access in bounds, but evaluates it first.

    What it finds: ``wp.where(cond, a[k], other)`` where ``cond`` compares ``k`` and nothing else guards the access.

    Why it matters: both operands are evaluated before one is chosen. The access happens out of bounds all the same.

    Instead: ``a[k] if cond else other``, which evaluates only one side.
    """

    code = "WPA205"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1574",)
    fix_safety = Safety.SAFE
    words = ("where", "select")
    BAD = (
        """
        @wp.func
        def at(a: wp.array2d(dtype=float), y: int, x: int):
            inside = x >= 0 and x < a.shape[1]
            left = wp.where(x > 0, a[y, x - 1], 0.0)  # error: WPA205
            return left + wp.where(inside, 2.0 * a[y, x], 0.0)  # error: WPA205

        @wp.func
        def value(a: wp.array(dtype=float), k: int):
            return a[k]

        @wp.kernel
        def shift(a: wp.array(dtype=float), up: wp.array(dtype=int), out: wp.array(dtype=float), by: int):
            k = wp.tid() + by
            p = up[k]
            v = a[k]  # error: WPA205
            out[k] = wp.where(k < a.shape[0], v, 0.0)
            out[k] = wp.where(p < 0, 0.0, value(a, p))  # error: WPA205
            out[k] = wp.where(cond=p != -1, value_if_true=a[p], value_if_false=0.0)  # error: WPA205
        """,
    )
    GOOD = (
        """
        @wp.func
        def at(a: wp.array(dtype=float), x: int, gain: float):
            k = wp.clamp(x, 0, a.shape[0] - 1)
            if x > 0:
                return wp.where(gain > 0.0, a[x], 0.0)
            i = wp.tid()
            if gain > 2.0:
                return wp.where(i > 3, a[i], 0.0) + wp.where(i % 2 == 0, a[i], 0.0)
            return wp.where(x < a.shape[0], a[k], 0.0) + (a[x] if x < a.shape[0] else 0.0)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for call, site in function.calls():
            name = function.builtin(call)
            if name not in ("where", "select"):
                continue
            parts = _parts(call)
            if parts is None:
                continue
            test, yes, no = parts
            if name == "select":
                yes, no = no, yes
            for operand, positive in ((yes, True), (no, False)):
                facts = function.symbols.conclusions(test, positive)
                read = _guarded(function, operand, facts, site) if facts else None
                if read is not None:
                    code = f"({ast.unparse(yes)} if {ast.unparse(test)} else {ast.unparse(no)})"
                    inside = any(part is read for part in walk(operand))
                    yield self.at(
                        function,
                        call if inside else read,
                        f"'{ast.unparse(read)}' is read before the choice is made, also where the condition forbids it",
                        "a conditional expression evaluates only one side",
                        fix=self.mend("choose with if … else", Replace(Place.of(call), code)) if inside else None,
                    )
                    break


def _parts(call: ast.Call) -> tuple[ast.expr, ast.expr, ast.expr] | None:
    """The condition and the two operands."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    names = ("cond", "value_if_true", "value_if_false")
    found = [*call.args, *(given[name] for name in names[len(call.args) :] if name in given)]
    return (found[0], found[1], found[2]) if len(found) == 3 else None


def _guarded(function: DeviceFunction, operand: ast.expr, facts: list[Fact], site: Site) -> ast.expr | None:
    """The read, in an operand or in the one assignment that it names, that only the condition would guard."""
    inside = set(walk(operand))
    if isinstance(operand, ast.Name):
        definition = function.flow.uses.get(operand)
        if definition is None or definition.kind != "assign" or definition.index is not None:
            return None
        value = definition.value
        if not isinstance(value, ast.Subscript) or len(function.flow.reads_of(definition)) != 1:
            return None
        inside = {value}
    for access in function.accesses:
        if access.node in inside:
            for _, _, form in indices(function, access):
                if _unguarded(function, form, facts, access.site):
                    return access.node
    for node in inside:
        if isinstance(node, ast.Call):
            for _, _, form in called_indices(function, node):
                if _unguarded(function, form, facts, site):
                    return node
    return None


def _unguarded(function: DeviceFunction, form: Form, facts: list[Fact], site: Site) -> bool:
    return not clamped(form) and protects(facts, form) and not guards_on(function, site, set(form.atoms))

"""Declares the rule ``where-guards-load``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import clamped, guards_on, indices
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.symbolic import Atom


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
    BAD = (
        """
        @wp.func
        def at(a: wp.array2d(dtype=float), y: int, x: int):
            inside = x >= 0 and x < a.shape[1]
            left = wp.where(x > 0, a[y, x - 1], 0.0)  # error: WPA205
            return left + wp.where(inside, 2.0 * a[y, x], 0.0)  # error: WPA205
        """,
    )
    GOOD = (
        """
        @wp.func
        def at(a: wp.array(dtype=float), x: int, gain: float):
            k = wp.clamp(x, 0, a.shape[0] - 1)
            if x > 0:
                return wp.where(gain > 0.0, a[x], 0.0)
            return wp.where(x < a.shape[0], a[k], 0.0) + (a[x] if x < a.shape[0] else 0.0)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for call, site in function.calls():
            if function.builtin(call) not in ("where", "select") or len(call.args) != 3 or call.keywords:
                continue
            inside = {
                id(node) for operand in call.args[1:] for node in ast.walk(operand) if isinstance(node, ast.Subscript)
            }
            accesses = [access for access in function.accesses if id(access.node) in inside]
            if not accesses:
                continue
            tested = _compared(function, call.args[0], 0)
            for access in accesses:
                form = next(
                    (f for _, _, f in indices(function, access) if set(f.atoms) & tested and not clamped(f)), None
                )
                if form is None or guards_on(function, site, set(form.atoms)):
                    continue
                fix = None
                if function.builtin(call) == "where":
                    test, yes, no = (ast.unparse(argument) for argument in call.args)
                    fix = self.mend("choose with if … else", Replace(Place.of(call), f"({yes} if {test} else {no})"))
                yield self.at(
                    function,
                    call,
                    f"'{ast.unparse(access.node)}' is read before the choice is made, also where the condition "
                    "forbids it",
                    "a conditional expression evaluates only one side",
                    fix=fix,
                )
                break


def _compared(function: DeviceFunction, test: ast.expr, depth: int) -> set[Atom]:
    """The values that a condition compares with a bound."""
    if isinstance(test, ast.Name) and depth < 4:
        definition = function.flow.uses.get(test)
        if definition is not None and definition.kind == "assign" and definition.value is not None:
            return _compared(function, definition.value, depth + 1)
    found: set[Atom] = set()
    for part in ast.walk(test):
        if isinstance(part, ast.Compare):
            for side in (part.left, *part.comparators):
                found |= {
                    atom for atom in function.symbols.form(side).atoms if atom[0] not in ("shape", "size", "free")
                }
    return found

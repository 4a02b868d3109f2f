"""Declares the rule ``parallel-assign-in-loop``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Fix, Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.loops import is_dynamic
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Site


class ParallelAssignInLoop(Rule):
    """Variables exchange their values in one assignment, inside a loop.

    What it finds: ``a, b = b, a`` and the like, where a value on the right is a variable that an earlier target on
    the left has just changed, in a loop that Warp keeps as a loop.

    Why it matters: Warp writes one assignment after the other. The second one reads the new value, so one of the values
    is lost, without a word.

    Instead: keep one value in a variable of its own: ``held = a; a = b; b = held``.
    """

    code = "WPA606"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    fix_safety = Safety.UNSAFE
    BAD = (
        """
        @wp.func
        def gcd(a: int, b: int):
            x = int(a)
            y = int(b)
            while y != 0:
                x, y = y, x % y  # error: WPA606
            return x
        """,
    )
    GOOD = (
        """
        @wp.func
        def fib(n: int, p: wp.array(dtype=wp.vec2)):
            a = int(0)
            b = int(1)
            for _ in range(n):
                c = a + b
                a = b
                b = c
                lo, hi = p[_][0], p[_][1]
                lo, hi = hi, lo
                if lo > hi:
                    a, b = b, a
            return a
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for statement, site in function.flow.steps.items():
            if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Tuple):
                continue
            if not isinstance(statement.value, ast.Tuple) or not site.loops:
                continue
            lost = _lost(statement.targets[0], statement.value)
            if lost is not None and _is_carried(function, lost, site):
                yield self.at(
                    function,
                    statement,
                    f"Warp assigns these one after the other: '{lost}' has its new value when it is read on the right",
                    f"keep the old '{lost}' in a variable of its own",
                    fix=self._fix(statement),
                )

    def _fix(self, statement: ast.Assign) -> Fix | None:
        target, value = statement.targets[0], statement.value
        assert isinstance(target, ast.Tuple)
        assert isinstance(value, ast.Tuple)
        if not all(isinstance(item, ast.Name) for item in target.elts):
            return None
        names = [item.id for item in target.elts if isinstance(item, ast.Name)]
        held = "; ".join(f"new_{name} = {ast.unparse(item)}" for name, item in zip(names, value.elts, strict=True))
        moved = "; ".join(f"{name} = new_{name}" for name in names)
        return self.mend("compute both before assigning", Replace(Place.of(statement), f"{held}; {moved}"))


def _is_carried(function: DeviceFunction, name: str, site: Site) -> bool:
    """Whether a variable lives from pass to pass of a loop that stays a loop, and is assigned straight in its body.

    Elsewhere, also under an ``if``, Warp gives each side a variable of its own and the exchange is right.
    """
    loop = site.loops[-1].node
    if not is_dynamic(function, loop):
        return False
    around = len(function.flow.steps[loop].guards) + isinstance(loop, ast.While)
    if len(site.guards) > around:
        return False
    phis = (one for one in function.flow.defs if one.kind == "loop_phi" and one.node is loop and one.name == name)
    return any(phi.sources and phi.sources[0].kind != "unassigned" for phi in phis)


def _lost(target: ast.Tuple, value: ast.Tuple) -> str | None:
    changed: list[str] = []
    for place, item in zip(target.elts, value.elts, strict=False):
        for part in walk(item):
            if isinstance(part, ast.Name) and part.id in changed:
                return part.id
        if isinstance(place, ast.Name):
            changed.append(place.id)
    return None

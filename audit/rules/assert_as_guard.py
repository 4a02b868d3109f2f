"""Declares the rule ``assert-as-guard``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import indices
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.symbolic import Atom


class AssertAsGuard(Rule):
    """An ``assert`` in a kernel is all that keeps an index in bounds.

    What it finds: an ``assert`` that compares a value, not a thread coordinate, with the length of an array that it
    then indexes, where no test does the same.

    Why it matters: asserts are compiled only in debug mode. In a release build nothing guards the access.

    Instead: ``if k >= a.shape[0]: return``.
    """

    code = "WPA204"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    BAD = (
        """
        @wp.func
        def put(a: wp.array(dtype=int), k: int, v: int):
            assert k >= 0 and k < len(a), "full"  # error: WPA204
            a[k] = v
        """,
    )
    GOOD = (
        """
        @wp.func
        def put(a: wp.array(dtype=int), k: int, v: int):
            assert v > 0
            if k < len(a):
                assert k < len(a)
                a[k] = v
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        asserts = [statement for statement in function.flow.steps if isinstance(statement, ast.Assert)]
        for statement in asserts:
            site = function.flow.steps[statement]
            tested = _tested(function, statement.test)
            if not tested:
                continue
            for access in function.accesses:
                if access.site.order <= site.order:
                    continue
                form = next((f for _, _, f in indices(function, access) if set(f.atoms) & tested), None)
                if form is not None and not function.symbols.upper_bounds(form, access.site):
                    yield self.at(
                        function,
                        statement,
                        f"this assert guards the index of '{access.root}' in line {access.node.lineno}, but "
                        "asserts are left out of "
                        "release builds",
                        "test it and return",
                    )
                    break


def _tested(function: DeviceFunction, test: ast.expr) -> set[Atom]:
    """The values that an assert keeps below a length."""
    found: set[Atom] = set()
    for part in ast.walk(test):
        if isinstance(part, ast.Compare):
            atoms = {atom for side in (part.left, *part.comparators) for atom in function.symbols.form(side).atoms}
            if any(atom[0] in ("shape", "size") for atom in atoms):
                found |= {atom for atom in atoms if atom[0] not in ("shape", "size", "tid")}
    return found

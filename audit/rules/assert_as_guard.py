"""Declares the rule ``assert-as-guard``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import clamped, guards_on, indices, protects
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction
    from warp_audit.audit.source.symbolic import Fact


class AssertAsGuard(Rule):
    """An ``assert`` in a kernel is all that keeps an index in bounds.

    What it finds: an ``assert`` that bounds a value from above, or keeps it from being negative, where the value then
    indexes an array and no test bounds it.

    Why it matters: asserts are compiled only in debug mode. In a release build nothing guards the access.

    Instead: ``if k >= a.shape[0]: return``.
    """

    code = "WPA204"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    words = ("assert",)
    BAD = (
        """
        @wp.func
        def put(a: wp.array(dtype=int), k: int, v: int):
            assert k >= 0 and k < len(a), "full"  # error: WPA204
            a[k] = v

        @wp.kernel
        def climb(up: wp.array(dtype=int), x: wp.array(dtype=float), room: int):
            i = wp.tid()
            assert i < room  # error: WPA204
            p = up[i]
            assert p != -1  # error: WPA204
            x[p] = 1.0
        """,
    )
    GOOD = (
        """
        @wp.func
        def put(a: wp.array(dtype=int), k: int, v: int):
            assert v > 0 and len(a) > 0
            if k < len(a):
                assert k < len(a)
                a[k] = v
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        asserts = [statement for statement in function.flow.steps if isinstance(statement, ast.Assert)]
        for statement in asserts:
            site = function.flow.steps[statement]
            facts = function.symbols.conclusions(statement.test, True)
            for access in function.accesses if facts else ():
                if access.site.order > site.order and _only_asserted(function, access, facts):
                    yield self.at(
                        function,
                        statement,
                        f"this assert guards the index of '{access.root}' in line {access.node.lineno}, but "
                        "asserts are left out of release builds",
                        "test it and return",
                    )
                    break


def _only_asserted(function: DeviceFunction, access: Access, facts: list[Fact]) -> bool:
    """Whether asserted facts keep an index in bounds, and no condition does."""
    for _, _, form in indices(function, access):
        if form.is_constant or clamped(form) or not protects(facts, form):
            continue
        if not protects(function.symbols.facts(access.site), form) and not guards_on(
            function, access.site, set(form.atoms)
        ):
            return True
    return False

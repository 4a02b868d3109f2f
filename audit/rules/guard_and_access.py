"""Declares the rule ``guard-and-access``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import indices
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class GuardAndAccess(Rule):
    """A test and the access that it protects stand in one condition.

    What it finds: ``if i < n and a[i] > x`` and ``if i == 0 or a[i - 1] > x``, for projects that support a Warp
    older than 1.13.

    Why it matters: before Warp 1.13 both sides of ``and`` and ``or`` were evaluated, so the access ran out of
    bounds anyway.

    Instead: nest the two: ``if i < n:`` and inside it ``if a[i] > x:``, or ask for ``warp-lang>=1.13``.
    """

    code = "WPA220"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1329", "google-deepmind/mujoco_warp#225")
    below = "1.13"
    BAD = (
        """
        @wp.func
        def ahead(a: wp.array(dtype=float), i: int):
            while i + 1 < len(a) and a[i + 1] > a[i]:  # error: WPA220
                i += 1
            return i
        """,
    )
    GOOD = (
        """
        @wp.func
        def ahead(a: wp.array(dtype=float), i: int, x: float):
            if x > 0.0 and a[i] > x:
                return i
            if i < len(a):
                if a[i] > x:
                    return 0
            return i
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        nodes = {id(access.node): access for access in function.accesses}
        for test in function.flow.of(ast.BoolOp):
            assert isinstance(test, ast.BoolOp)
            for place, value in enumerate(test.values[1:], 1):
                inside = [nodes[id(part)] for part in ast.walk(value) if id(part) in nodes]
                atoms = {atom for access in inside for _, _, form in indices(function, access) for atom in form.atoms}
                before = [
                    part
                    for earlier in test.values[:place]
                    for part in ast.walk(earlier)
                    if isinstance(part, ast.Compare)
                ]
                tested = {atom for part in before for side in (part.left, *part.comparators)
                          for atom in function.symbols.form(side).atoms}  # fmt: skip
                if atoms & tested:
                    yield self.at(
                        function,
                        test,
                        f"before Warp 1.13 '{ast.unparse(inside[0].node)}' is read whatever the left side says",
                        "nest the two conditions",
                    )
                    break

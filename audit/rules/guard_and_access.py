"""Declares the rule ``guard-and-access``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import called_indices, indices, protects
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction
    from warp_audit.audit.source.symbolic import Fact, Form


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

        @wp.func
        def value(a: wp.array(dtype=float), i: int):
            return a[i]

        @wp.kernel
        def linked(up: wp.array(dtype=int), a: wp.array(dtype=float), out: wp.array(dtype=int)):
            i = wp.tid()
            p = up[i]
            inside = i < a.shape[0]
            if p >= 0 and value(a, p) > 0.0:  # error: WPA220
                out[i] = 1
            out[i] = 2 if inside and a[i] > 0.0 else 3  # error: WPA220
        """,
    )
    GOOD = (
        """
        @wp.func
        def ahead(a: wp.array(dtype=float), i: int, x: float):
            if x > 0.0 and a[i] > x:
                return i
            if i < len(a) and i >= 0:
                if i > 2 and a[i] > x:
                    return 0
            k = wp.tid()
            if k % 2 == 0 and a[k] > x:
                return k
            return i
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        tests = function.flow.of(ast.BoolOp)
        if not tests:
            return
        nodes = {access.node: access for access in function.accesses}
        for test in tests:
            assert isinstance(test, ast.BoolOp)
            read = _guarded(function, test, nodes)
            if read is not None:
                yield self.at(
                    function,
                    test,
                    f"before Warp 1.13 '{ast.unparse(read)}' is read whatever the left side says",
                    "nest the two conditions",
                )


def _guarded(function: DeviceFunction, test: ast.BoolOp, nodes: dict[ast.expr, Access]) -> ast.expr | None:
    """The access in one part of a condition that an earlier part keeps in bounds."""
    facts: list[Fact] = []
    for value in test.values:
        for part in walk(value) if facts else ():
            for form in _indices(function, part, nodes):
                if protects(facts, form):
                    assert isinstance(part, ast.expr)
                    return part
        facts += function.symbols.conclusions(value, isinstance(test.op, ast.And))
    return None


def _indices(function: DeviceFunction, node: ast.AST, nodes: dict[ast.expr, Access]) -> list[Form]:
    """The indices of an access, and of the accesses that a called func makes at its own parameters."""
    if isinstance(node, ast.Subscript) and node in nodes:
        return [form for _, _, form in indices(function, nodes[node])]
    if isinstance(node, ast.Call):
        return [form for _, _, form in called_indices(function, node)]
    return []

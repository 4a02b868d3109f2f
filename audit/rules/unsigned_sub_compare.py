"""Declares the rule ``unsigned-sub-compare``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.symbolic import Form
from warp_audit.audit.source.types import Scalar
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class UnsignedSubCompare(Rule):
    """The difference of two unsigned integers is compared with zero.

    What it finds: ``a - b > 0``, ``>= 0`` and ``< 0`` where both sides are unsigned.

    Why it matters: an unsigned difference is never negative: if ``b`` is larger, it wraps to a huge number, so ``> 0``
    holds whenever the two differ, and ``< 0`` never.

    Instead: compare the two with each other: ``a > b``.
    """

    code = "WPA505"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    fix_safety = Safety.UNSAFE
    BAD = (
        """
        @wp.func
        def late(now: wp.uint64, then: wp.uint64):
            gap = now - then
            if gap < wp.uint64(0):  # error: WPA505
                return False
            return now - then >= wp.uint64(0)  # error: WPA505
        """,
    )
    GOOD = (
        """
        @wp.func
        def late(now: wp.uint64, then: wp.uint64, a: int, b: int):
            if a - b > 0:
                return now > then
            return now - then > wp.uint64(10) and now - then != wp.uint64(0)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for node in function.flow.of(ast.Compare):
            assert isinstance(node, ast.Compare)
            if len(node.ops) != 1:
                continue
            left, right, op = node.left, node.comparators[0], node.ops[0]
            if _is_zero(function, left):
                left, right, op = right, left, _FLIPPED.get(type(op), ast.Eq)()
            if not isinstance(op, (ast.Gt, ast.GtE, ast.Lt)) or not _is_zero(function, right):
                continue
            difference = _difference(function, left)
            if difference is None:
                continue
            wrapped = function.type_of(left)
            fix = None
            if difference is left:
                sign = {ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<"}[op.__class__]
                text = f"{ast.unparse(difference.left)} {sign} {ast.unparse(difference.right)}"
                fix = self.mend("compare the two with each other", Replace(Place.of(node), text))
            yield self.at(
                function,
                node,
                f"'{ast.unparse(difference)}' is {wrapped}, which is never negative: it wraps to a huge number",
                "compare the two with each other",
                fix=fix,
            )


ZERO = Form(0)
_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}


def _is_zero(function: DeviceFunction, node: ast.expr) -> bool:
    return function.symbols.form(node) == ZERO


def _difference(function: DeviceFunction, node: ast.expr) -> ast.BinOp | None:
    """The subtraction of two unsigned values that a value is."""
    if isinstance(node, ast.Name):
        definition = function.flow.uses.get(node)
        if definition is None or definition.kind != "assign" or definition.index is not None or definition.value is None:
            return None
        node = definition.value
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub):
        return None
    type = function.type_of(node)
    return node if isinstance(type, Scalar) and type.is_unsigned else None

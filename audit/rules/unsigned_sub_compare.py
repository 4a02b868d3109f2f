"""Declares the rule ``unsigned-sub-compare``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Fix, Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.literals import settled
from warp_audit.audit.source.symbolic import Atom, Form
from warp_audit.audit.source.types import Scalar
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Site


class UnsignedSubCompare(Rule):
    """The difference of two unsigned integers is compared with zero.

    What it finds: ``a - b > 0`` and the like, and ``max(a - b, 0)``, where both sides are unsigned and no test says
    which is larger; ``x < 0`` and ``x >= 0`` of an unsigned ``x``.

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
        """
        @wp.kernel
        def drain(level: wp.array(dtype=wp.uint32), taken: wp.array(dtype=wp.uint32), rest: wp.array(dtype=wp.uint32)):
            i = wp.tid()
            left = level[i]
            left -= taken[i]
            if left > wp.uint32(0):  # error: WPA505
                rest[i] = left
            if wp.uint32(0) < level[i] - taken[i] - wp.uint32(1):  # error: WPA505
                rest[i] = level[i]
            rest[i] = wp.max(level[i] - taken[i], wp.uint32(0))  # error: WPA505
            k = wp.uint32(7)
            while k >= 0:  # error: WPA505
                k -= wp.uint32(1)
        """,
    )
    GOOD = (
        """
        @wp.func
        def late(now: wp.uint64, then: wp.uint64, a: int, b: int):
            if a - b > 0:
                return now > then
            if int(now - then) > 0 or now > wp.uint64(0):
                return True
            return now - then > wp.uint64(10) and now - then != wp.uint64(0)
        """,
        """
        @wp.kernel
        def guarded(level: wp.array(dtype=wp.uint32), taken: wp.array(dtype=wp.uint32)):
            i = wp.tid()
            a, b = level[i], taken[i]
            if a >= b and a - b > wp.uint32(0):
                level[i] = a - b
            k = wp.uint32(7)
            while k > wp.uint32(0):
                k -= wp.uint32(1)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for node in function.flow.of(ast.Compare):
            if len(node.ops) == 1:  # type: ignore[attr-defined]
                yield from self._compare(function, node)  # type: ignore[arg-type]
        for call, site in function.calls():
            if function.builtin(call) == "max" and len(call.args) == 2 and not call.keywords:
                one, other = call.args
                difference = _difference(function, one if _is_zero(function, other) else other, site)
                if difference is not None and (_is_zero(function, one) or _is_zero(function, other)):
                    yield self._wraps(function, call, difference)

    def _compare(self, function: DeviceFunction, node: ast.Compare) -> Iterator[Finding]:
        left, right, op = node.left, node.comparators[0], type(node.ops[0])
        if _is_zero(function, left):
            left, right, op = right, left, _FLIPPED.get(op, ast.Eq)
        if op not in _SIGNS or not _is_zero(function, right):
            return
        difference = _difference(function, left, function.flow.sites[node])
        if difference is None:
            if op in (ast.Lt, ast.GtE) and _is_unsigned(function, left) and not _is_zero(function, left):
                always = "never" if op is ast.Lt else "always"
                yield self.at(
                    function,
                    node,
                    f"'{ast.unparse(left)}' is {function.type_of(left)}, so this {always} holds: it is never negative",
                    "count in a signed type, or test before going below zero",
                )
            return
        fix = None
        if difference is left and isinstance(difference, ast.BinOp):
            text = f"{ast.unparse(difference.left)} {_SIGNS[op]} {ast.unparse(difference.right)}"
            fix = self.mend("compare the two with each other", Replace(Place.of(node), text))
        yield self._wraps(function, node, difference, fix)

    def _wraps(
        self, function: DeviceFunction, node: ast.AST, difference: ast.BinOp | ast.AugAssign, fix: Fix | None = None
    ) -> Finding:
        return self.at(
            function,
            node,
            f"'{ast.unparse(difference)}' is unsigned and never negative: it wraps to a huge number",
            "compare the two with each other",
            fix=fix,
        )


ZERO = Form(0)
_SIGNS: dict[type[ast.cmpop], str] = {ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<", ast.LtE: "<="}
_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}


def _is_zero(function: DeviceFunction, node: ast.expr) -> bool:
    return function.symbols.form(node) == ZERO


def _is_unsigned(function: DeviceFunction, node: ast.expr) -> bool:
    type = function.type_of(node)
    return isinstance(type, Scalar) and type.is_unsigned


def _difference(function: DeviceFunction, node: ast.expr, site: Site) -> ast.BinOp | ast.AugAssign | None:
    """The subtraction of two unsigned values that a value is, unless a test says which one is larger."""
    node = settled(function, node)
    if isinstance(node, ast.Name):
        definition = function.flow.uses.get(node)
        if definition is None or definition.kind != "augment" or not isinstance(definition.node, ast.AugAssign):
            return None
        return definition.node if isinstance(definition.node.op, ast.Sub) and _is_unsigned(function, node) else None
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub) or not _is_unsigned(function, node):
        return None
    left, right = function.symbols.form(node.left), function.symbols.form(node.right)
    atoms = set(left.atoms) | set(right.atoms)
    tests = [guard.test for guard in site.guards] + _beside(function, node)
    return None if any(_orders(function, test, atoms) for test in tests) else node


def _orders(function: DeviceFunction, test: ast.expr, atoms: set[Atom]) -> bool:
    """Whether a condition compares two of the values with each other; their difference with zero says nothing."""
    if isinstance(test, ast.Compare) and any(_is_zero(function, side) for side in (test.left, *test.comparators)):
        return False
    return len(function.symbols.form(test).all_atoms() & atoms) > 1


def _beside(function: DeviceFunction, node: ast.expr) -> list[ast.expr]:
    """The conditions that stand left of a node in an ``and``."""
    found: list[ast.expr] = []
    for whole in function.flow.of(ast.BoolOp):
        if isinstance(whole, ast.BoolOp) and isinstance(whole.op, ast.And):
            for number, part in enumerate(whole.values):
                if any(inner is node for inner in walk(part)):
                    found += whole.values[:number]
    return found

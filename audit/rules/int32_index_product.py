"""Declares the rule ``int32-index-product``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.literals import whole_number
from warp_audit.audit.source.types import Scalar
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class Int32IndexProduct(Rule):
    """Integers are multiplied in 32 bits and only then widened.

    What it finds: ``wp.int64(a * b)`` or ``wp.uint64(…)`` around a product of 32-bit values that are not constants,
    or around one that is shifted left; also where a variable or a func's result holds the product.

    Why it matters: the product overflows before the cast sees it. Signed overflow is undefined in the C++ that Warp
    generates, and nothing reports it; a grid of 2048³ cells counts as 0.

    Instead: cast each factor: ``wp.int64(a) * wp.int64(b)``.
    """

    code = "WPA507"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("NVIDIA/nvalchemi-toolkit-ops#120", "NVIDIA/warp#1815")
    fix_safety = Safety.SAFE
    BAD = (
        """
        @wp.kernel
        def size(rows: wp.array(dtype=int), cols: int, total: wp.array(dtype=wp.int64)):
            i = wp.tid()
            cells = rows[i] * cols
            total[i] = wp.int64(cells)  # error: WPA507
            wp.atomic_add(total, 0, wp.int64(rows[i] * cols + i))  # error: WPA507
            bits = wp.uint64(rows[i] << 20)  # error: WPA507
            area = wp.int64(rows[i] * cols)  # error: WPA507
        """,
        """
        @wp.func
        def area(size: wp.vec2i) -> int:
            return size[0] * size[1]

        @wp.func
        def volume(size: wp.vec3i, base: wp.vec2i):
            cells = int(1)
            for axis in range(3):
                cells *= size[axis]
            return wp.int64(cells) + wp.int64(area(base))  # error: WPA507
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def size(rows: wp.array(dtype=int), cols: int, total: wp.array(dtype=wp.int64)):
            i = wp.tid()
            total[i] = wp.int64(rows[i]) * wp.int64(cols) + wp.int64(3 * i)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for call, _ in function.calls():
            if function.builtin(call) not in ("int64", "uint64", "long") or len(call.args) != 1:
                continue
            product = _product(function, call.args[0], 0)
            if product is None:
                continue
            fix = None
            if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult) and product is call.args[0]:
                word = ast.unparse(call.func)
                factors = " * ".join(f"{word}({ast.unparse(factor)})" for factor in _factors(product))
                fix = self.mend("cast each factor", Replace(Place.of(call), f"({factors})"))
            yield self.at(
                function,
                call,
                f"'{ast.unparse(product)}' is multiplied in 32 bits, and overflows before it is widened",
                "cast each factor by itself",
                fix=fix,
            )


def _factors(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [*_factors(node.left), *_factors(node.right)]
    return [node]


def _product(function: DeviceFunction, node: ast.expr, depth: int) -> ast.BinOp | ast.AugAssign | None:
    """A product of 32-bit values in a sum, behind a name, or in a func's result."""
    if depth > 6:
        return None
    if isinstance(node, ast.Name):
        return _named(function, node, depth + 1)
    if isinstance(node, ast.Call):
        return _returned(function, node, depth + 1)
    if not isinstance(node, ast.BinOp):
        return None
    if isinstance(node.op, (ast.Add, ast.Sub)):
        return _product(function, node.left, depth + 1) or _product(function, node.right, depth + 1)
    if not isinstance(node.op, (ast.Mult, ast.LShift)) or not _is_short(function, node):
        return None
    if isinstance(node.op, ast.LShift):
        shift = whole_number(function, node.right)
        return node if shift is not None and 8 <= shift < 32 and function.constant(node.left) is None else None
    open_factors = [factor for factor in _factors(node) if whole_number(function, factor) is None]
    return node if len(open_factors) > 1 else None


def _is_short(function: DeviceFunction, node: ast.expr) -> bool:
    type = function.type_of(node)
    return isinstance(type, Scalar) and type.is_integer and type.bits == 32


def _named(function: DeviceFunction, node: ast.Name, depth: int) -> ast.BinOp | ast.AugAssign | None:
    definition = function.flow.uses.get(node)
    if definition is None or definition.kind == "free":
        return None
    for origin in definition.origins():
        if origin.kind == "assign" and origin.index is None and origin.value is not None:
            found = _product(function, origin.value, depth)
            if found is not None:
                return found
        statement = origin.node if origin.kind == "augment" else None
        if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Mult) and _is_short(function, node):
            if whole_number(function, statement.value) is None:
                return statement
    return None


def _returned(function: DeviceFunction, call: ast.Call, depth: int) -> ast.BinOp | ast.AugAssign | None:
    """The product that a func gives back."""
    callee = function.callee(call)
    if callee is None or callee.kind != "func" or any(parameter.generic for parameter in callee.parameters):
        return None
    returns = [step for step in callee.flow.steps if isinstance(step, ast.Return) and step.value is not None]
    if len(returns) != 1 or returns[0].value is None:
        return None
    return _product(callee, returns[0].value, depth)

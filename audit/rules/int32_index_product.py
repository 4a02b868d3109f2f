"""Declares the rule ``int32-index-product``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.types import Scalar
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class Int32IndexProduct(Rule):
    """Integers are multiplied in 32 bits and only then widened.

    What it finds: ``wp.int64(a * b)`` or ``wp.uint64(…)`` around a product of 32-bit values that are not constants.

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
            if product is call.args[0]:
                word = ast.unparse(call.func)
                factors = " * ".join(f"{word}({ast.unparse(factor)})" for factor in _factors(product))
                fix = self.mend("cast each factor", Replace(Place.of(call), factors))
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


def _product(function: DeviceFunction, node: ast.expr, depth: int) -> ast.BinOp | None:
    """A product of 32-bit values in a sum, or behind a name."""
    if depth > 6:
        return None
    if isinstance(node, ast.Name):
        definition = function.flow.uses.get(node)
        if definition is None or definition.kind != "assign" or definition.index is not None or definition.value is None:
            return None
        return _product(function, definition.value, depth + 1)
    if not isinstance(node, ast.BinOp):
        return None
    if isinstance(node.op, (ast.Add, ast.Sub)):
        return _product(function, node.left, depth + 1) or _product(function, node.right, depth + 1)
    if not isinstance(node.op, ast.Mult):
        return None
    type = function.type_of(node)
    if not isinstance(type, Scalar) or not type.is_integer or type.bits != 32:
        return None
    open_factors = [factor for factor in _factors(node) if function.constant(factor) is None]
    return node if len(open_factors) > 1 else None

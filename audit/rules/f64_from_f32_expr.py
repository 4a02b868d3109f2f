"""Declares the rule ``f64-from-f32-expr``."""

from __future__ import annotations

import ast
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class F64FromF32Expr(Rule):
    """A double is made from a constant that was rounded to single precision before.

    What it finds: ``wp.float64(…)`` around an expression of float literals, or around a local variable whose value is
    a float literal that single precision cannot hold.

    Why it matters: Warp computes float literals in float32; the cast widens the rounded number. ``wp.float64(0.1)`` is
    exact, ``wp.float64(1.0 / 3.0)`` and ``x = float(0.1); wp.float64(x)`` are off in the eighth digit.

    Instead: cast each literal: ``wp.float64(1.0) / wp.float64(3.0)``, or use a ``wp.constant(wp.float64(…))``.
    """

    code = "WPA501"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#485",)
    BAD = (
        """
        @wp.func
        def third(x: wp.float64):
            step = 0.1
            return x * wp.float64(2.0 / 3.0) + wp.float64(step)  # error: WPA501
        """,
    )
    GOOD = (
        """
        @wp.func
        def third(x: wp.float64, y: float):
            half = 0.5
            return x * wp.float64(0.1) + wp.float64(y) + wp.float64(half) + wp.float64(1.0 / 4.0)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for call, _ in function.calls():
            if function.builtin(call) != "float64" or len(call.args) != 1:
                continue
            argument = call.args[0]
            value = _rounded(function, argument)
            if value is not None:
                yield self.at(
                    function,
                    call,
                    f"'{ast.unparse(argument)}' is rounded to float32 ({value!r}) before it becomes a double",
                    "cast each literal by itself",
                )


def _rounded(function: DeviceFunction, node: ast.expr) -> float | None:
    """The single precision value of an expression of float literals, where that differs from the double's."""
    if isinstance(node, (ast.Constant, ast.UnaryOp)):
        return None
    exact = _literal(function, node, 0)
    if exact is None:
        return None
    (single,) = struct.unpack("f", struct.pack("f", exact)) if abs(exact) < 3e38 else (exact,)
    return float(single) if single != exact else None


def _literal(function: DeviceFunction, node: ast.expr, depth: int) -> float | None:
    """The value of an expression that holds nothing but float literals and locals made of them."""
    if depth > 8:
        return None
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, float) else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _literal(function, node.operand, depth + 1)
        return -inner if inner is not None else None
    if isinstance(node, ast.BinOp):
        left, right = _literal(function, node.left, depth + 1), _literal(function, node.right, depth + 1)
        if left is None or right is None:
            return None
        match node.op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div():
                return left / right if right else None
        return None
    if isinstance(node, ast.Call) and function.builtin(node) in ("float", "float32") and len(node.args) == 1:
        return _literal(function, node.args[0], depth + 1)
    if isinstance(node, ast.Name):
        definition = function.flow.uses.get(node)
        if definition is not None and definition.kind == "assign" and definition.index is None and definition.value:
            return _literal(function, definition.value, depth + 1)
    return None

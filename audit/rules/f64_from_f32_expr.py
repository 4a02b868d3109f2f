"""Declares the rule ``f64-from-f32-expr``."""

from __future__ import annotations

import ast
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Fix, Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.literals import is_literal_variable, single_values
from warp_audit.audit.source.types import FLOAT32
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class F64FromF32Expr(Rule):
    """A double is made from a number that was computed in single precision before.

    What it finds: ``wp.float64(…)`` around an expression, or a local variable, that only float literals, constants and
    whole numbers have a part in, where single precision cannot hold the result.

    Why it matters: Warp computes float literals in float32; the cast widens the rounded number. ``wp.float64(0.1)`` is
    exact, ``wp.float64(1.0 / 3.0)`` and ``x = float(0.1); wp.float64(x)`` are off in the eighth digit.

    Instead: cast each literal: ``wp.float64(1.0) / wp.float64(3.0)``, or use a ``wp.constant(wp.float64(…))``.
    """

    code = "WPA501"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#485",)
    fix_safety = Safety.UNSAFE
    BAD = (
        """
        import math

        @wp.func
        def third(x: wp.float64, i: int):
            step = float(0.1)
            root = wp.float64(wp.sqrt(2.0))  # error: WPA501
            turn = wp.float64(2.0 * math.pi)  # error: WPA501
            at = wp.float64(float(i) * 0.1)  # error: WPA501
            return x * wp.float64(2.0 / 3.0) + wp.float64(step)  # error: WPA501
        """,
        """
        from warp import float32, float64 as double

        RATE = 0.3

        @wp.kernel
        def rates(fast: bool, out: wp.array(dtype=double)):
            out[0] = double(wp.where(fast, 0.9, 0.1))  # error: WPA501
            out[1] = double(float32(RATE))  # error: WPA501
            scale = 0.1
            if fast:
                scale = 0.2
            out[2] = double(-scale)  # error: WPA501
        """,
    )
    GOOD = (
        """
        import math

        RATE = 0.3

        @wp.func
        def third(x: wp.float64, y: float, i: int):
            half = 0.5
            tenth = 0.1
            data = wp.float64(y) + wp.float64(0.1 * y) + wp.float64(i) + wp.float64(float(i))
            static = wp.float64(wp.static(1.0 / 3.0)) + wp.float64(math.pi) + wp.float64(-RATE) + wp.float64(tenth)
            return x * wp.float64(0.1) + data + static + wp.float64(half) + wp.float64(1.0 / 4.0)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for call, _ in function.calls():
            if function.builtin(call) != "float64" or len(call.args) != 1 or call.keywords:
                continue
            argument = call.args[0]
            if isinstance(argument, ast.Constant) or is_literal_variable(function, argument):
                continue
            why = _why(function, argument)
            if why is not None:
                yield self.at(
                    function,
                    call,
                    f"'{ast.unparse(argument)}' {why} before it becomes a double",
                    "cast each part by itself",
                    fix=self._fix(function, call),
                )

    def _fix(self, function: DeviceFunction, call: ast.Call) -> Fix | None:
        text = _wide(function, call.args[0], ast.unparse(call.func))
        return self.mend("cast each part", Replace(Place.of(call), f"({text})")) if text is not None else None


def _why(function: DeviceFunction, node: ast.expr) -> str | None:
    values = single_values(function, node)
    if values:
        value = next((value for value in values if _rounded(value) != value), None)
        return f"is rounded to float32 ({_rounded(value)!r})" if value is not None else None
    if isinstance(node, ast.BinOp) and _counts(function, node) and function.type_of(node) == FLOAT32:
        return "is computed in float32"
    return None


def _rounded(value: float) -> float:
    """The nearest number of single precision."""
    if not abs(value) < 3.4e38:
        return value
    (single,) = struct.unpack("f", struct.pack("f", value))
    return float(single)


def _counts(function: DeviceFunction, node: ast.expr) -> bool:
    """Whether a product or quotient is one of whole numbers and a literal that single precision rounds."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Mult, ast.Div)):
        return False
    counts = [side for side in (node.left, node.right) if _is_count(function, side)]
    if len(counts) == 2:
        return isinstance(node.op, ast.Div)
    literal = node.right if node.left in counts else node.left
    values = single_values(function, literal)
    return len(counts) == 1 and values is not None and any(_rounded(value) != value for value in values)


def _is_count(function: DeviceFunction, node: ast.expr) -> bool:
    """``float(i)`` of a whole number."""
    if not isinstance(node, ast.Call) or function.builtin(node) not in ("float", "float32") or len(node.args) != 1:
        return False
    type = function.type_of(node.args[0])
    return type is not None and getattr(type, "is_integer", False)


def _wide(function: DeviceFunction, node: ast.expr, word: str) -> str | None:
    """The expression with each literal cast by itself."""
    if isinstance(node, ast.Constant) or is_literal_variable(function, node):
        return f"{word}({ast.unparse(node)})"
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
        left, right = _wide(function, node.left, word), _wide(function, node.right, word)
        sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}[type(node.op)]
        return f"({left}) {sign} ({right})" if left is not None and right is not None else None
    if isinstance(node, ast.Call) and function.builtin(node) in ("float", "float32") and len(node.args) == 1:
        return f"{word}({ast.unparse(node.args[0])})"
    return None

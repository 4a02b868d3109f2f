"""Declares the rule ``int-true-div``."""

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


class IntTrueDiv(Rule):
    """Two integers are divided by ``/`` as if that gave a fraction.

    What it finds: ``float(…)`` around ``/`` between two integers.

    Why it matters: in a kernel ``int / int`` truncates, as in C. ``float(used / capacity)`` is 0.0 or 1.0.

    Instead: cast before dividing, ``float(used) / float(capacity)``; write ``//`` where a whole number is meant.
    """

    code = "WPA506"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    fix_safety = Safety.UNSAFE
    BAD = (
        """
        @wp.func
        def share(part: int, whole: wp.array(dtype=int), i: int):
            ratio = float(part / whole[i])  # error: WPA506
            half = wp.float32(i / 2)  # error: WPA506
            return ratio + half
        """,
    )
    GOOD = (
        """
        @wp.func
        def share(part: int, whole: int, x: float):
            middle = part / 2 + part // 2
            return float(part) / float(whole) + float(int(x / 2.0)) + float(middle)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for call, _ in function.calls():
            if function.builtin(call) not in ("float", "float16", "float32", "float64") or len(call.args) != 1:
                continue
            division = _division(function, call.args[0])
            if division is None:
                continue
            word = ast.unparse(call.func)
            text = f"{word}({ast.unparse(division.left)}) / {word}({ast.unparse(division.right)})"
            fix = self.mend("cast before dividing", Replace(Place.of(call), text))
            yield self.at(
                function,
                call,
                f"'{ast.unparse(division)}' divides integers and truncates before it becomes a float",
                "cast both sides before dividing",
                fix=fix,
            )


def _division(function: DeviceFunction, node: ast.expr) -> ast.BinOp | None:
    """The integer division that an expression is."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
        return None
    sides = function.type_of(node.left), function.type_of(node.right)
    return node if all(isinstance(side, Scalar) and side.is_integer for side in sides) else None

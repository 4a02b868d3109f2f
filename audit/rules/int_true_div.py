"""Declares the rule ``int-true-div``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.literals import settled
from warp_audit.audit.source.types import Scalar
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class IntTrueDiv(Rule):
    """Two integers are divided by ``/`` as if that gave a fraction.

    What it finds: ``float(…)`` around ``/`` between two integers, or around a variable that holds such a quotient.

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
            percent = float(100 * (part / whole[i]))  # error: WPA506
            rest = part / 7
            return ratio + half + percent + wp.float64(rest)  # error: WPA506
        """,
    )
    GOOD = (
        """
        @wp.func
        def share(part: int, whole: int, x: float, a: wp.array(dtype=float)):
            middle = part / 2
            row = float(part / whole)
            column = float(part % whole)
            block = float(whole / 4 * 4) + float(part - whole / 2)
            return float(part) / float(whole) + float(int(x / 2.0)) + float(middle) + a[middle] + row + column + block
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for call, _ in function.calls():
            if function.builtin(call) not in ("float", "float16", "float32", "float64") or len(call.args) != 1:
                continue
            argument = call.args[0]
            division = _division(function, argument)
            if division is None or _splits(function, division):
                continue
            if isinstance(argument, ast.Name) and _is_packed(function, division):
                continue
            fix = None
            if division is argument:
                word = ast.unparse(call.func)
                text = f"({word}({ast.unparse(division.left)}) / {word}({ast.unparse(division.right)}))"
                fix = self.mend("cast before dividing", Replace(Place.of(call), text))
            yield self.at(
                function,
                call,
                f"'{ast.unparse(division)}' divides integers and truncates before it becomes a float",
                "cast both sides before dividing",
                fix=fix,
            )


def _division(function: DeviceFunction, node: ast.expr) -> ast.BinOp | None:
    """The integer division in a sum or product, or behind a name that is only cast."""
    if isinstance(node, ast.Name):
        behind = settled(function, node)
        return _division(function, behind) if behind is not node and _is_only_cast(function, node) else None
    if not isinstance(node, ast.BinOp):
        return None
    if isinstance(node.op, (ast.Add, ast.Sub)):
        found = _division(function, node.left) or _division(function, node.right)
        # `i - n / 2` counts from a middle cell.
        return found if found is None or function.constant(found.right) is None else None
    if isinstance(node.op, ast.Mult):
        # `n / 4 * 4` cuts on purpose.
        found = _division(function, node.left) or _division(function, node.right)
        other = node.right if found in (node.left, None) else node.left
        return None if found is not None and ast.dump(found.right) == ast.dump(other) else found
    return node if isinstance(node.op, ast.Div) and _is_whole(function, node) else None


def _is_packed(function: DeviceFunction, node: ast.BinOp) -> bool:
    """Whether a quotient of 64-bit integers is taken out of a key that two numbers were packed into."""
    type = function.type_of(node)
    return isinstance(type, Scalar) and type.bits == 64


def _is_whole(function: DeviceFunction, node: ast.BinOp) -> bool:
    sides = function.type_of(node.left), function.type_of(node.right)
    return all(isinstance(side, Scalar) and side.is_integer for side in sides)


def _is_only_cast(function: DeviceFunction, name: ast.Name) -> bool:
    """Whether every read of a variable is a cast to a float: it is not needed as a whole number."""
    casts = {
        call.args[0]
        for call, _ in function.calls()
        if len(call.args) == 1 and (function.builtin(call) or "").startswith("float")
    }
    return set(function.flow.reads_of(function.flow.uses[name])) <= casts


def _splits(function: DeviceFunction, division: ast.BinOp) -> bool:
    """Whether the remainder of the same two is taken as well: a row and a column of a flat index."""
    sides = ast.dump(division.left), ast.dump(division.right)
    return any(
        isinstance(other, ast.BinOp)
        and isinstance(other.op, ast.Mod)
        and (ast.dump(other.left), ast.dump(other.right)) == sides
        for other in function.flow.of(ast.BinOp)
    )

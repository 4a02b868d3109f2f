"""Values of expressions that only literals, constants from outside and locals made of them have a part in."""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

from warp_audit.audit.source.types import FLOAT32

if TYPE_CHECKING:
    from collections.abc import Callable

    from warp_audit.audit.source.device import DeviceFunction

_DEPTH = 8
_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt, "sin": math.sin, "cos": math.cos, "tan": math.tan, "asin": math.asin, "acos": math.acos,
    "atan": math.atan, "exp": math.exp, "log": math.log, "log10": math.log10, "radians": math.radians,
    "degrees": math.degrees, "abs": abs, "tanh": math.tanh, "sinh": math.sinh, "cosh": math.cosh,
}  # fmt: skip


def settled(function: DeviceFunction, node: ast.expr) -> ast.expr:
    """The expression behind a name that is assigned once on the way here; others as they are."""
    for _ in range(_DEPTH):
        if not isinstance(node, ast.Name):
            break
        definition = function.flow.uses.get(node)
        if (
            definition is None
            or definition.kind != "assign"
            or definition.index is not None
            or definition.value is None
        ):
            break
        node = definition.value
    return node


def whole_number(function: DeviceFunction, node: ast.expr, depth: int = 0) -> int | None:
    """The value, without wrapping, of an integer expression of literals, constants and locals made of them."""
    node = settled(function, node)
    value = function.constant(node)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if depth > _DEPTH or not isinstance(node, ast.BinOp):
        return None
    left, right = whole_number(function, node.left, depth + 1), whole_number(function, node.right, depth + 1)
    if left is None or right is None:
        return None
    match node.op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.LShift() if 0 <= right <= 128:
            return left << right
    return None


def is_literal_variable(function: DeviceFunction, node: ast.expr) -> bool:
    """Whether Warp still knows the number itself: a literal, a constant from outside, or a local that is set to one.

    Computed values are not: Warp folds nothing but a sign.
    """
    node = settled(function, node)
    if isinstance(node, ast.UnaryOp):
        node = settled(function, node.operand)
    if isinstance(node, (ast.Name, ast.Attribute)):
        return isinstance(function.constant(node), (int, float))
    if isinstance(node, ast.Call):
        return function.builtin(node) == "static"
    return isinstance(node, ast.Constant)


def single_values(function: DeviceFunction, node: ast.expr, depth: int = 0) -> tuple[float, ...] | None:
    """The exact values that a single precision expression of literals and constants may have."""
    if depth > _DEPTH:
        return None
    inner = depth + 1
    if isinstance(node, ast.Constant):
        return (node.value,) if isinstance(node.value, float) else None
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _named(function, node, inner)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        values = single_values(function, node.operand, inner)
        return tuple(-value for value in values) if values is not None else None
    if isinstance(node, ast.BinOp):
        return _combined(node.op, single_values(function, node.left, inner), single_values(function, node.right, inner))
    if isinstance(node, ast.IfExp):
        return _either(single_values(function, node.body, inner), single_values(function, node.orelse, inner))
    if isinstance(node, ast.Call):
        return _called(function, node, inner)
    return None


def _named(function: DeviceFunction, node: ast.Name | ast.Attribute, depth: int) -> tuple[float, ...] | None:
    definition = function.flow.uses.get(node)
    if definition is not None and definition.kind != "free":
        values: tuple[float, ...] | None = ()
        for origin in definition.origins():
            if origin.kind != "assign" or origin.index is not None or origin.value is None:
                return None
            values = _either(values, single_values(function, origin.value, depth))
        return values
    value = function.constant(node)
    return (value,) if isinstance(value, float) and function.type_of(node) == FLOAT32 else None


def _called(function: DeviceFunction, node: ast.Call, depth: int) -> tuple[float, ...] | None:
    name = function.builtin(node)
    if name in ("float", "float32") and len(node.args) == 1:
        return single_values(function, node.args[0], depth)
    if name == "where" and len(node.args) == 3:
        return _either(single_values(function, node.args[1], depth), single_values(function, node.args[2], depth))
    apply = _FUNCTIONS.get(name or "")
    if apply is None or len(node.args) != 1:
        return None
    values = single_values(function, node.args[0], depth)
    try:
        return tuple(map(apply, values)) if values is not None else None
    except (ArithmeticError, ValueError):
        return None


def _either(one: tuple[float, ...] | None, other: tuple[float, ...] | None) -> tuple[float, ...] | None:
    return (*one, *other) if one is not None and other is not None and len(one) + len(other) < 16 else None


def _combined(
    op: ast.operator, left: tuple[float, ...] | None, right: tuple[float, ...] | None
) -> tuple[float, ...] | None:
    if left is None or right is None or len(left) * len(right) > 16:
        return None
    pairs = [(a, b) for a in left for b in right]
    match op:
        case ast.Add():
            return tuple(a + b for a, b in pairs)
        case ast.Sub():
            return tuple(a - b for a, b in pairs)
        case ast.Mult():
            return tuple(a * b for a, b in pairs)
        case ast.Div() if 0.0 not in right:
            return tuple(a / b for a, b in pairs)
    return None

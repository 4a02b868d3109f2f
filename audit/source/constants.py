"""Values that source text fixes: numbers, tuples of them, and types."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from warp_audit.audit.source.scopes import Binding, Scope

Constant: TypeAlias = "int | float | bool | str | tuple[Constant, ...]"

_BINARY: dict[type[ast.operator], Callable[[int, int], int | float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.BitXor: operator.xor,
}  # fmt: skip
# Wrappers whose value is their argument's.
_TRANSPARENT = {"warp.constant", "warp.static", "builtins.int", "builtins.float", "builtins.bool", "builtins.tuple"}
_TRANSPARENT |= {f"warp.{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_TRANSPARENT |= {"warp.float16", "warp.float32", "warp.float64", "warp.bool"}
_KNOWN: dict[str, Constant] = {
    **dict.fromkeys(("math.pi", "numpy.pi", "warp.pi", "warp.PI"), math.pi),
    **dict.fromkeys(("math.tau", "warp.tau", "warp.TAU"), math.tau),
    **dict.fromkeys(("math.e", "numpy.e", "warp.e", "warp.E"), math.e),
}


def constant(node: ast.expr | None, scope: Scope, depth: int = 0) -> Constant | None:
    """The value of an expression, if its names are bound once, to constants, here or in an imported file."""
    if node is None or depth > 12:
        return None
    if isinstance(node, ast.Constant):
        literal = node.value
        return literal if isinstance(literal, (int, float, str)) else None
    if isinstance(node, (ast.Tuple, ast.List)):
        items = [constant(item, scope, depth + 1) for item in node.elts]
        return None if any(item is None for item in items) else tuple(item for item in items if item is not None)
    if isinstance(node, ast.UnaryOp):
        value = constant(node.operand, scope, depth + 1)
        if not isinstance(value, (int, float)):
            return None
        if isinstance(node.op, ast.USub):
            return -value
        if isinstance(node.op, ast.Not):
            return not value
        return ~value if isinstance(node.op, ast.Invert) and isinstance(value, int) else value
    if isinstance(node, ast.BinOp):
        return _binary(node, scope, depth)
    if isinstance(node, ast.Name):
        return _name(node.id, scope, depth)
    if isinstance(node, ast.Attribute):
        return _attribute(node, scope, depth)
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        name = scope.module.qualified(node.func, scope)
        if name in _TRANSPARENT:
            value = constant(node.args[0], scope, depth + 1)
            if name.endswith("int") or ".int" in name or ".uint" in name:
                return int(value) if isinstance(value, (int, float)) and abs(value) < 1e300 else None
            return value
        if name == "builtins.len":
            value = constant(node.args[0], scope, depth + 1)
            return len(value) if isinstance(value, (tuple, str)) else None
    return None


def _binary(node: ast.BinOp, scope: Scope, depth: int) -> Constant | None:
    left, right = constant(node.left, scope, depth + 1), constant(node.right, scope, depth + 1)
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        return None
    if isinstance(node.op, ast.Pow):
        small = abs(right) <= 64 and abs(left) <= 2**20
        try:
            return left**right if small and not isinstance(left**right, complex) else None
        except (ArithmeticError, ValueError):
            return None
    if isinstance(node.op, (ast.LShift, ast.RShift)) and not (isinstance(right, int) and 0 <= right <= 128):
        return None
    apply = _BINARY.get(type(node.op))
    try:
        return apply(left, right) if apply else None  # type: ignore[arg-type]
    except (ArithmeticError, TypeError, ValueError):
        return None


def binding_of(node: ast.expr, scope: Scope) -> tuple[Scope, Binding] | None:
    """The one binding of a name or dotted name, here or in an imported file."""
    if isinstance(node, ast.Name):
        found = scope.lookup(node.id)
        if found is None or len(found[1]) != 1:
            return None
        if found[1][0].kind != "import":
            return found[0], found[1][0]
    name = scope.module.qualified(node, scope)
    return scope.module.project.binding(name, scope.module) if name is not None else None


def _name(name: str, scope: Scope, depth: int) -> Constant | None:
    found = scope.lookup(name)
    if found is None:
        return None
    where, bindings = found
    if len(bindings) != 1:
        return None
    binding = bindings[0]
    if binding.kind == "import":
        return _imported(binding.target, scope, depth)
    if binding.kind != "assign" or binding.index is not None:
        return None
    return constant(binding.value, where, depth + 1)


def _attribute(node: ast.Attribute, scope: Scope, depth: int) -> Constant | None:
    name = scope.module.qualified(node, scope)
    if name is None:
        return None
    return _imported(name, scope, depth)


def _imported(name: str, scope: Scope, depth: int) -> Constant | None:
    if name in _KNOWN:
        return _KNOWN[name]
    found = scope.module.project.binding(name, scope.module)
    if found is None:
        return None
    where, binding = found
    if binding.kind == "import":
        return _imported(binding.target, where, depth + 1) if depth < 12 else None
    if binding.kind != "assign" or binding.index is not None:
        return None
    value = constant(binding.value, where, depth + 1)
    if (
        value is None
        and isinstance(binding.value, ast.Call)
        and where.kind == "class"
        and "auto" in ast.dump(binding.value)
    ):
        return None
    return value

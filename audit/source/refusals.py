"""Operations and calls that Warp refuses to build for the types of their operands."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warp_audit.audit.source import builtins
from warp_audit.audit.source.types import Matrix, Quaternion, Scalar, StructType, Transformation, Type, Vector, element
from warp_audit.audit.source.walk import walk

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction

SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip


_MORE_TYPES = {"transform_compose", "transform_decompose", "transform_from_matrix", "transform_to_matrix"}
"""Funcs of Warp's own, in three precisions."""


@dataclass(frozen=True)
class Refusal:
    """An operation or a call of a builtin that no overload takes.

    Args:
        node: the operation, the augmented assignment or the call.
        name: the operator's sign or the builtin's name.
        operands: the arguments, in order.
        types: their types.
        mixed: whether scalars of different types are all that is wrong.
    """

    node: ast.expr | ast.AugAssign
    name: str
    operands: tuple[ast.expr, ...]
    types: tuple[Type, ...]
    mixed: bool


def refusals(function: DeviceFunction) -> tuple[Refusal, ...]:
    """The refused operations and calls of a function; none where a type follows from a generic parameter."""
    found: tuple[Refusal, ...] | None = function.__dict__.get("_refusals")
    if found is None:
        generic = any(parameter.generic for parameter in function.parameters)
        found = () if generic or function.kind == "integrand" else tuple(_refusals(function))
        function.__dict__["_refusals"] = found
    return found


def inside_static(function: DeviceFunction) -> frozenset[ast.AST]:
    """Nodes inside ``wp.static(…)``, which Python evaluates."""
    found: frozenset[ast.AST] | None = function.__dict__.get("_inside_static")
    if found is None:
        calls = [call for call, _ in function.calls() if function.builtin(call) == "static"]
        found = frozenset(part for call in calls for argument in call.args for part in walk(argument))
        function.__dict__["_inside_static"] = found
    return found


def _refusals(function: DeviceFunction) -> Iterator[Refusal]:
    static = inside_static(function)
    for node in function.flow.of(ast.BinOp):
        if isinstance(node, ast.BinOp) and type(node.op) in SIGNS and node not in static:
            yield from _operation(function, node, SIGNS[type(node.op)], node.left, node.right)
    for statement in function.flow.steps:
        # `/=` and the like of an array's element go by other rules.
        if isinstance(statement, ast.AugAssign) and isinstance(statement.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
            yield from _operation(function, statement, SIGNS[type(statement.op)], statement.target, statement.value)
    for call, _ in function.calls():
        name = function.builtin(call)
        if name is None or call.keywords or any(isinstance(argument, ast.Starred) for argument in call.args):
            continue
        if call in static or name in _MORE_TYPES or name.startswith("expect_"):
            continue
        if name == "range" and all(function.constant(argument) is not None for argument in call.args):
            continue  # unrolled before any types are compared
        types = [function.type_of(argument) for argument in call.args]
        if not all(types) or not all(is_sure(function, argument) for argument in call.args):
            continue
        known = tuple(type for type in types if type is not None)
        if any(isinstance(element(type) or type, StructType) for type in known):
            continue  # structs may declare operators and functions of their own
        if builtins.refuses(name, known):
            yield Refusal(call, name, tuple(call.args), known, _would_fit(name, known))


def _operation(
    function: DeviceFunction, node: ast.expr | ast.AugAssign, sign: str, left: ast.expr, right: ast.expr
) -> Iterator[Refusal]:
    one, other = function.type_of(left), function.type_of(right)
    if one is None or other is None or (one == other and isinstance(one, Scalar) and sign != "**"):
        return
    if isinstance(element(one) or one, StructType) or isinstance(element(other) or other, StructType):
        return
    if not builtins.refuses_operation(sign, one, other) or not is_sure(function, left) or not is_sure(function, right):
        return
    mixed = any(
        not builtins.refuses_operation(sign, *_retyped((one, other), scalar)) for scalar in _scalars((one, other))
    )
    yield Refusal(node, sign, (left, right), (one, other), mixed and len(_scalars((one, other))) > 1)


def _would_fit(name: str, types: tuple[Type, ...]) -> bool:
    """Whether a call would be taken if all its numbers had the type of one of them."""
    scalars = _scalars(types)
    return len(scalars) > 1 and any(not builtins.refuses(name, _retyped(types, scalar)) for scalar in scalars)


def scalar_of(type: Type | None) -> Scalar | None:
    """The type of the numbers that a type is made of."""
    if isinstance(type, Scalar):
        return type
    return type.scalar if isinstance(type, (Vector, Matrix, Quaternion, Transformation)) else None


def _scalars(types: tuple[Type, ...]) -> set[Scalar]:
    return {scalar for scalar in map(scalar_of, types) if scalar is not None and scalar.name != "bool"}


def _retyped(types: tuple[Type, ...], scalar: Scalar) -> tuple[Type, ...]:
    changed: list[Type] = []
    for type in types:
        match type:
            case Scalar():
                changed.append(scalar if type.name != "bool" else type)
            case Vector(length=length):
                changed.append(Vector(length, scalar))
            case Matrix(rows=rows, columns=columns):
                changed.append(Matrix(rows, columns, scalar))
            case Quaternion():
                changed.append(Quaternion(scalar))
            case Transformation():
                changed.append(Transformation(scalar))
            case _:
                changed.append(type)
    return tuple(changed)


def is_sure(function: DeviceFunction, node: ast.expr) -> bool:
    """Whether a type does not rest on a name from outside, whose Python value may have another."""
    for part in walk(node):
        if isinstance(part, ast.Name):
            definition = function.flow.uses.get(part)
            if definition is not None and definition.kind == "free" and isinstance(part.ctx, ast.Load):
                found = function.scope.lookup(part.id)
                if found is not None and found[1][-1].kind in ("assign", "parameter", "loop", "import"):
                    if function.constant(part) is not None or found[1][-1].kind != "import":
                        return False
    return True

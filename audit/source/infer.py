"""Types of the expressions in kernels and funcs. ``None`` where the text does not tell."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from warp_audit.audit.source import builtins
from warp_audit.audit.source.annotations import annotation_type
from warp_audit.audit.source.constants import binding_of, constant
from warp_audit.audit.source.types import (
    BOOL,
    FLOAT32,
    INT32,
    STRING,
    Array,
    Matrix,
    Opaque,
    Quaternion,
    StructType,
    Tile,
    Transformation,
    TupleType,
    Type,
    Vector,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Def
    from warp_audit.audit.source.scopes import Scope

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip

_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Not: "not", ast.Invert: "~"}


def type_of(function: DeviceFunction, node: ast.expr) -> Type | None:
    """The type of an expression."""
    known = _memory(function)
    found = known.get(node, known)
    if found is known:
        known[node] = None  # for cycles through loops
        found = known[node] = _type_of(function, node)
    return found  # type: ignore[return-value]


def _memory(function: DeviceFunction) -> dict[object, object]:
    memory: dict[object, object] | None = function.__dict__.get("_types")
    if memory is None:
        memory = function.__dict__["_types"] = {}
    return memory


def def_type(function: DeviceFunction, definition: Def) -> Type | None:
    """The type of a definition's value."""
    known = _memory(function)
    found = known.get(definition, known)
    if found is known:
        known[definition] = None
        found = known[definition] = _def_type(function, definition)
    return found  # type: ignore[return-value]


def _def_type(function: DeviceFunction, definition: Def) -> Type | None:
    kind = definition.kind
    if kind == "parameter":
        parameter = function.by_name.get(definition.name)
        return parameter.type if parameter else None
    if kind == "free":
        return _free_type(function, definition.name)
    if kind in ("component", "augment") and definition.previous is not None:
        # Warp keeps a variable's type; a mixed operation is refused when the kernel is built.
        return def_type(function, definition.previous)
    if kind in ("phi", "loop_phi"):
        for source in definition.sources:
            if source.kind != "unassigned":
                found = def_type(function, source)
                if found is not None:
                    return found
        return None
    if definition.value is None:
        return None
    if kind == "loop":
        value = definition.value
        if isinstance(value, ast.Call) and function.builtin(value) == "range":
            return _range_type(function, value)
        return None
    if kind == "assign":
        whole = type_of(function, definition.value)
        if definition.index is None:
            return whole
        if isinstance(definition.value, ast.Call) and function.builtin(definition.value) == "tid":
            return INT32
        if isinstance(whole, TupleType):
            items = whole.items
            return items[definition.index] if definition.index < len(items) else None
        if isinstance(whole, (Vector, Quaternion, Transformation)):
            return whole.scalar
    return None


def _range_type(function: DeviceFunction, call: ast.Call) -> Type | None:
    for argument in call.args:
        found = type_of(function, argument)
        if found is not None and found != INT32:
            return found
    return INT32


def _free_type(function: DeviceFunction, name: str) -> Type | None:
    return outer_type(ast.Name(name, ast.Load()), function.scope)


def outer_type(node: ast.expr, scope: Scope, depth: int = 0) -> Type | None:
    """The type that a value from outside has in a kernel.

    Python's numbers are 32 bits wide, Warp's are what they say.
    """
    if depth > 10:
        return None
    if isinstance(node, ast.Constant):
        return _python_type(node.value)
    if isinstance(node, ast.UnaryOp):
        return outer_type(node.operand, scope, depth + 1)
    if isinstance(node, ast.BinOp):
        left, right = outer_type(node.left, scope, depth + 1), outer_type(node.right, scope, depth + 1)
        if isinstance(node.op, ast.Div) and left == right == INT32:
            return FLOAT32  # Python divides
        if {left, right} == {INT32, FLOAT32}:
            return FLOAT32
        return left if left == right else None
    if isinstance(node, ast.Call):
        name = scope.module.qualified(node.func, scope)
        if name in ("warp.constant", "warp.static") and node.args:
            return outer_type(node.args[0], scope, depth + 1)
        if name is not None and name.startswith(("math.", "numpy.")):
            return FLOAT32 if name.startswith("math.") and name[5:] not in _MATH_INTEGERS else None
        return annotation_type(node.func, scope) if name is not None else None
    if isinstance(node, (ast.Name, ast.Attribute)):
        found = binding_of(node, scope)
        if found is not None and found[1].kind == "assign" and found[1].value is not None and found[1].index is None:
            return outer_type(found[1].value, found[0], depth + 1)
        return _python_type(constant(node, scope))
    return None


_MATH_INTEGERS = ("ceil", "floor", "trunc", "comb", "perm", "gcd", "lcm", "isqrt", "factorial", "prod")


def _python_type(value: object) -> Type | None:
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INT32
    if isinstance(value, float):
        return FLOAT32
    return STRING if isinstance(value, str) else None


def _type_of(function: DeviceFunction, node: ast.expr) -> Type | None:
    if isinstance(node, ast.Constant):
        return _python_type(node.value)
    if isinstance(node, ast.Name):
        definition = function.flow.uses.get(node)
        return def_type(function, definition) if definition is not None else _free_type(function, node.id)
    if isinstance(node, ast.Attribute):
        return _attribute(function, node)
    if isinstance(node, ast.Subscript):
        return _subscript(function, node)
    if isinstance(node, ast.Call):
        return _call(function, node)
    if isinstance(node, ast.BinOp):
        op = _OPERATORS[type(node.op)]
        return builtins.binary(op, type_of(function, node.left), type_of(function, node.right))
    if isinstance(node, ast.UnaryOp):
        return builtins.unary(_UNARY[type(node.op)], type_of(function, node.operand))
    if isinstance(node, (ast.Compare, ast.BoolOp)):
        return BOOL
    if isinstance(node, ast.IfExp):
        return type_of(function, node.body) or type_of(function, node.orelse)
    if isinstance(node, ast.Tuple):
        return TupleType(tuple(type_of(function, item) for item in node.elts))
    return None


def _attribute(function: DeviceFunction, node: ast.Attribute) -> Type | None:
    if function.constant(node) is not None:
        return outer_type(node, function.scope)
    base = type_of(function, node.value)
    if isinstance(base, StructType) and base.declared is not None:
        return base.declared.type_of(node.attr)
    if base is None:
        definition = function.flow.uses.get(node)
        return def_type(function, definition) if definition is not None else None
    return builtins.attribute(base, node.attr)


def _subscript(function: DeviceFunction, node: ast.Subscript) -> Type | None:
    base = type_of(function, node.value)
    items = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if any(isinstance(item, ast.Slice) for item in items):
        if isinstance(base, Array) and base.ndim is not None:
            kept = base.ndim - sum(1 for item in items if not isinstance(item, ast.Slice))
            return Array(base.dtype, kept, base.flavour) if kept > 0 else base.dtype
        return None
    if isinstance(base, Array):
        if base.ndim is None:
            return None
        left = base.ndim - len(items)
        if left > 0:
            return Array(base.dtype, left, base.flavour)
        return _inside(base.dtype, -left)
    if isinstance(base, Tile):
        if base.shape is None:
            return None
        if any(isinstance(type_of(function, item), (Tile, Array)) for item in items):
            return None  # a gather
        left = len(base.shape) - len(items)
        return Tile(base.dtype, base.shape[len(items) :]) if left > 0 else _inside(base.dtype, -left)
    if isinstance(base, TupleType):
        index = function.constant(node.slice)
        if isinstance(index, int) and -len(base.items) <= index < len(base.items):
            return base.items[index]
        return INT32 if base.items and all(item == INT32 for item in base.items) else None
    if isinstance(base, Opaque) and base.name == "shape_t":
        return INT32
    return _inside(base, len(items))


def _inside(type: Type | None, count: int) -> Type | None:
    """What is left of an element after some component indices."""
    if count == 0 or type is None:
        return type
    if isinstance(type, Matrix):
        return Vector(type.columns, type.scalar) if count == 1 else type.scalar
    if isinstance(type, (Vector, Quaternion, Transformation)):
        return type.scalar if count == 1 else None
    return None


def _call(function: DeviceFunction, node: ast.Call) -> Type | None:
    name = function.builtin(node)
    if name == "static" and len(node.args) == 1:
        return outer_type(node.args[0], function.scope)
    if name is not None:
        arguments = [type_of(function, argument) for argument in node.args]
        keywords: Mapping[str, Type | None] = {k.arg: type_of(function, k.value) for k in node.keywords if k.arg}
        return builtins.result(name, arguments, keywords, _Constants(function, node))
    constructed = annotation_type(node.func, function.scope)
    if constructed is not None and not isinstance(constructed, (Array, Tile)) and function.qualify(node.func):
        return constructed
    callee = function.callee(node)
    if callee is None:
        return None
    results = {return_type(one) for one in callee.overloads}
    return results.pop() if len(results) == 1 else None


class _Constants:
    """The constants among a call's arguments, by place or keyword; a ``dtype`` is a type."""

    def __init__(self, function: DeviceFunction, node: ast.Call) -> None:
        self.function = function
        self.node = node

    def __call__(self, which: int | str) -> object:
        if isinstance(which, int):
            given = self.node.args[which] if which < len(self.node.args) else None
        else:
            given = next((k.value for k in self.node.keywords if k.arg == which), None)
        if given is None:
            return None
        value = self.function.constant(given)
        if value is not None:
            return value
        if isinstance(given, (ast.Tuple, ast.List)):
            items = [self.function.constant(item) for item in given.elts]
            return tuple(item if isinstance(item, int) else None for item in items)
        return annotation_type(given, self.function.scope)


def return_type(function: DeviceFunction) -> Type | None:
    """The type that a func gives back: its annotation, else what its returns have in common."""
    memory = _memory(function)
    if "return" not in memory:
        memory["return"] = None
        memory["return"] = _return_type(function)
    return memory["return"]  # type: ignore[return-value]


def _return_type(function: DeviceFunction) -> Type | None:
    if function.node.returns is not None:
        found = annotation_type(function.node.returns, function.scope)
        if found is not None:
            return found
    if function.kind == "native":
        return None
    for statement in function.flow.steps:
        if isinstance(statement, ast.Return) and statement.value is not None:
            found = type_of(function, statement.value)
            if found is not None:
                return found
    return None

"""What host code says of the arrays it makes: element type, rank, shape, device, gradient."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from warp_audit.audit.source.annotations import annotation_type
from warp_audit.audit.source.types import FLOAT32, FLOAT64, INT32, INT64, Scalar, Type, components

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction

MAKERS = {"warp.zeros", "warp.ones", "warp.empty", "warp.full"}
"""Functions that make an array of a shape."""
LIKE = {"warp.zeros_like", "warp.ones_like", "warp.empty_like", "warp.full_like", "warp.clone"}
"""Functions that make an array like another."""
_UNKNOWN_DEVICE = ast.Name("<unknown>", ast.Load())


@dataclass(frozen=True, slots=True, eq=False)
class ArrayFact:
    """What is known of an array.

    ``device`` is the expression that names it; ``None`` with ``default_device`` set means that none was given.
    ``shape`` holds the extents' expressions, each ``None`` if not known. ``made`` is the call that made it.
    """

    made: ast.Call
    maker: str
    dtype: Type | None = None
    ndim: int | None = None
    shape: tuple[ast.expr, ...] | None = None
    device: ast.expr | None = None
    default_device: bool = False
    requires_grad: bool | None = None
    function: HostFunction | None = None
    """Where it was made."""


def rank_of(function: HostFunction, node: ast.expr, depth: int = 0) -> int | None:
    """The number of extents that a shape has; a bare number is one."""
    if depth > 8:
        return None
    if isinstance(node, ast.Constant):
        return 1 if isinstance(node.value, int) and not isinstance(node.value, bool) else None
    if isinstance(node, (ast.Tuple, ast.List)):
        return None if any(isinstance(item, ast.Starred) for item in node.elts) else len(node.elts)
    if isinstance(node, ast.UnaryOp):
        return 1
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, (ast.FloorDiv, ast.Sub, ast.Mod, ast.Div)):
            return 1
        left, right = rank_of(function, node.left, depth + 1), rank_of(function, node.right, depth + 1)
        if isinstance(node.op, ast.Mult) and 1 in (left, right) and None not in (left, right):
            return 1
        if isinstance(node.op, ast.Add) and left == 1 and right == 1:
            plain = not any(isinstance(side, (ast.Tuple, ast.List)) for side in (node.left, node.right))
            return 1 if plain else 2
        return None
    if isinstance(node, ast.Subscript):
        base = function.value_of(node.value)
        if isinstance(base, ast.Attribute) and base.attr == "shape":
            if isinstance(node.slice, ast.Slice):
                return _slice_length(function, node.slice, base.value)
            return 1
        return None
    if isinstance(node, ast.Attribute):
        if node.attr == "shape":
            known = function.array(node.value)
            return known.ndim if known is not None else None
        definition = function.flow.uses.get(node)
        if definition is not None and definition.kind == "assign" and definition.index is None and definition.value:
            return rank_of(function, definition.value, depth + 1)
        value = function.constant(node)
        if value is not None:
            return len(value) if isinstance(value, tuple) else 1
        if node.attr == "size" and not function.attribute_values(node):
            return 1
        return _attribute_rank(function, node, depth)
    if isinstance(node, ast.Name):
        definition = function.flow.uses.get(node)
        if definition is None or definition.kind == "free":
            value = function.constant(node)
            return None if value is None else len(value) if isinstance(value, tuple) else 1
        if definition.kind == "assign" and definition.value is not None:
            if definition.index is None:
                return rank_of(function, definition.value, depth + 1)
            shape = function.value_of(definition.value)
            return 1 if isinstance(shape, ast.Attribute) and shape.attr == "shape" else None
        if definition.kind == "phi":
            ranks = {_def_rank(function, one, depth) for one in definition.origins()}
            return ranks.pop() if len(ranks) == 1 else None
        if definition.kind == "augment":
            return 1
        if definition.kind == "parameter":
            return 1 if _is_int(definition.node, function) else None
        return None
    if isinstance(node, ast.Call):
        name = function.module.qualified(node.func, function.scope)
        if name in (
            "builtins.len",
            "builtins.int",
            "builtins.max",
            "builtins.min",
            "builtins.sum",
            "math.ceil",
            "builtins.round",
        ):
            return 1
        if name in ("builtins.tuple", "builtins.list") and node.args:
            return rank_of(function, node.args[0], depth + 1)
        return None
    if isinstance(node, ast.IfExp):
        ranks = {rank_of(function, part, depth + 1) for part in (node.body, node.orelse)}
        return ranks.pop() if len(ranks) == 1 else None
    return None


def _def_rank(function: HostFunction, definition: object, depth: int) -> int | None:
    value, index = getattr(definition, "value", None), getattr(definition, "index", None)
    return rank_of(function, value, depth + 1) if value is not None and index is None else None


def _is_int(node: ast.AST | None, function: HostFunction) -> bool:
    """Whether a parameter is annotated as one integer."""
    annotation = getattr(node, "annotation", None)
    return annotation is not None and annotation_type(annotation, function.scope) == INT32


def _slice_length(function: HostFunction, part: ast.Slice, array: ast.expr) -> int | None:
    if part.step is not None:
        return None
    lower = function.constant(part.lower) if part.lower is not None else 0
    upper = function.constant(part.upper) if part.upper is not None else None
    if isinstance(lower, int) and isinstance(upper, int) and 0 <= lower <= upper:
        return upper - lower
    known = function.array(array)
    if known is None or known.ndim is None or not isinstance(lower, int):
        return None
    return len(range(known.ndim)[lower : upper if isinstance(upper, int) else None])


def _attribute_rank(function: HostFunction, node: ast.Attribute, depth: int) -> int | None:
    values = function.attribute_values(node)
    ranks = {
        rank_of(where, value, depth + 2)
        for value, where in values
        if value in where.flow.sites or isinstance(value, ast.Constant)
    }
    return ranks.pop() if len(ranks) == 1 and values else None


def array_of(function: HostFunction, node: ast.expr) -> ArrayFact | None:
    """What is known of the array that an expression is."""
    if isinstance(node, ast.Call):
        return _made(function, node)
    if isinstance(node, (ast.Name, ast.Attribute)):
        definition = function.flow.uses.get(node)
        if (
            definition is not None
            and definition.kind == "assign"
            and definition.index is None
            and definition.value is not None
        ):
            return function.array(definition.value)
        if definition is not None and definition.kind != "free":
            return None
        if isinstance(node, ast.Attribute):
            values = [pair for pair in function.attribute_values(node) if not _is_none(pair[0])]
            if len(values) == 1:
                value, where = values[0]
                return where.array(value) if where is not function or value is not node else None
            return None
        found = function.scope.lookup(node.id)
        if found is not None and len(found[1]) == 1 and found[1][0].kind == "assign" and found[1][0].index is None:
            owner = function.module.host_of(found[0])
            outer = found[1][0].value
            if owner is not None and owner is not function and outer is not None:
                return owner.array(outer)
    if isinstance(node, ast.Subscript):
        return _view(function, node)
    return None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _view(function: HostFunction, node: ast.Subscript) -> ArrayFact | None:
    base = function.array(node.value)
    if base is None or base.ndim is None:
        return None
    items = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    dropped = sum(1 for item in items if isinstance(item, ast.Constant))
    if all(isinstance(item, (ast.Slice, ast.Constant)) for item in items) and base.ndim - dropped > 0:
        return replace(base, ndim=base.ndim - dropped, shape=None)
    return None


def _made(function: HostFunction, node: ast.Call) -> ArrayFact | None:
    if node not in function.flow.sites:
        return None
    call = function._call(node)
    name = call.name
    if name in MAKERS:
        shape_node = call.argument("shape", 0)
        dtype_node = call.argument("dtype", 2 if name == "warp.full" else 1)
        device_node = call.argument("device", 3 if name == "warp.full" else 2)
        grad_node = call.argument("requires_grad", 4 if name == "warp.full" else 3)
        dtype = annotation_type(dtype_node, function.scope) if dtype_node is not None else FLOAT32
        if name == "warp.full" and dtype_node is None:
            dtype = _value_type(function, call.argument("value", 1))
        return ArrayFact(node, name, dtype, rank_of(function, shape_node) if shape_node is not None else None,
                         _extents(function, shape_node), device_node, device_node is None,
                         _flag(function, grad_node, False), function)  # fmt: skip
    if name in LIKE and node.args:
        base = function.array(node.args[0])
        device_node = call.argument("device")
        grad = _flag(function, call.argument("requires_grad"), None)
        if base is None:
            return ArrayFact(node, name, device=device_node or _UNKNOWN_DEVICE, requires_grad=grad, function=function)
        return replace(
            base, made=node, maker=name, device=device_node or base.device,
            default_device=base.default_device and device_node is None,
            requires_grad=base.requires_grad if grad is None else grad, function=function,
        )  # fmt: skip
    if name == "warp.array":
        return _from_data(function, node)
    if name in ("warp.from_numpy", "warp.from_torch"):
        dtype_node = call.argument("dtype", 1)
        dtype = annotation_type(dtype_node, function.scope) if dtype_node is not None else None
        device_node = call.argument("device")
        grad = _flag(function, call.argument("requires_grad"), None)
        device = device_node or _UNKNOWN_DEVICE
        return ArrayFact(node, name, dtype, device=device, requires_grad=grad, function=function)
    if name in (".flatten", ".reshape", ".view", ".contiguous", ".transpose") and call.receiver is not None:
        base = function.array(call.receiver)
        if base is None:
            return None
        if name == ".flatten":
            return replace(base, ndim=1, shape=None)
        if name == ".view":
            dtype = annotation_type(call.argument("dtype", 0), function.scope)
            both = isinstance(base.dtype, Scalar) and isinstance(dtype, Scalar)
            same = both or (components(dtype) is not None and components(base.dtype) == components(dtype))
            return replace(base, dtype=dtype, ndim=base.ndim if same else None, shape=None)
        if name == ".reshape":
            shape = call.argument("shape", 0)
            several = len(node.args) > 1
            ndim = len(node.args) if several else rank_of(function, shape) if shape is not None else None
            return replace(base, ndim=ndim, shape=None)
        return replace(base, shape=None) if name == ".transpose" else base
    return None


def _extents(function: HostFunction, node: ast.expr | None) -> tuple[ast.expr, ...] | None:
    if node is None:
        return None
    value = function.value_of(node)
    if isinstance(value, (ast.Tuple, ast.List)):
        return None if any(isinstance(item, ast.Starred) for item in value.elts) else tuple(value.elts)
    return (node,) if rank_of(function, node) == 1 else None


def _flag(function: HostFunction, node: ast.expr | None, default: bool | None) -> bool | None:
    if node is None:
        return default
    value = function.constant(node)
    return value if isinstance(value, bool) else None


def _value_type(function: HostFunction, node: ast.expr | None) -> Type | None:
    if node is None:
        return None
    value = function.constant(node)
    if isinstance(value, bool):
        return annotation_type(ast.Name("bool", ast.Load()), function.scope)
    if isinstance(value, int):
        return INT32
    if isinstance(value, float):
        return FLOAT32
    inner = function.value_of(node)
    return annotation_type(inner.func, function.scope) if isinstance(inner, ast.Call) else None


def _from_data(function: HostFunction, node: ast.Call) -> ArrayFact:
    call = function._call(node)
    dtype_node = call.argument("dtype", 1)
    data = call.argument("data", 0)
    device_node = call.argument("device")
    grad = _flag(function, call.argument("requires_grad"), False)
    dtype = annotation_type(dtype_node, function.scope) if dtype_node is not None else None
    ndim: int | None = None
    shape_node = call.argument("shape", 2)
    if shape_node is not None:
        ndim = rank_of(function, shape_node)
    elif call.argument("ndim") is not None:
        value = function.constant(call.argument("ndim"))
        ndim = value if isinstance(value, int) else None
    else:
        value_node = function.value_of(data) if data is not None else None
        if isinstance(value_node, (ast.List, ast.Tuple)):
            depth, scalar = _nesting(function, value_node)
            inner = components(dtype) if dtype is not None and not isinstance(dtype, Scalar) else ()
            if depth is not None and inner is not None:
                if scalar is not None:
                    ndim = depth - len(inner)
                    ndim = ndim if ndim > 0 else None
                if dtype_node is None:
                    dtype = {int: INT64, float: FLOAT64}.get(scalar) if scalar is not None else None
    return ArrayFact(node, "warp.array", dtype, ndim, _extents(function, shape_node), device_node,
                     device_node is None, grad, function)  # fmt: skip


def _nesting(function: HostFunction, node: ast.expr) -> tuple[int | None, type | None]:
    """How deep a literal list goes, and what numbers it holds: ``float`` if one is, ``int`` if all are."""
    if isinstance(node, (ast.List, ast.Tuple)):
        if not node.elts:
            return None, None
        parts = [_nesting(function, item) for item in node.elts]
        depths = {depth for depth, _ in parts}
        if len(depths) != 1 or None in depths:
            return None, None
        kinds = {kind for _, kind in parts}
        kind = float if float in kinds and None not in kinds else int if kinds == {int} else None
        return (depths.pop() or 0) + 1, kind
    value = function.constant(node)
    if isinstance(value, bool):
        return 0, None
    if isinstance(value, (int, float)):
        return 0, type(value)
    return None, None

"""Annotations and ``dtype`` expressions read as Warp types."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from warp_audit.audit.source.constants import constant
from warp_audit.audit.source.types import (
    NAMED,
    Array,
    Matrix,
    Opaque,
    Quaternion,
    Scalar,
    StructType,
    Tile,
    Transformation,
    TupleType,
    Type,
    Vector,
)
from warp_audit.audit.source.walk import children

if TYPE_CHECKING:
    from warp_audit.audit.source.scopes import Scope

_ARRAYS: dict[str, tuple[str, int | None]] = {
    "warp.array": ("array", None), "warp.array1d": ("array", 1), "warp.array2d": ("array", 2),
    "warp.array3d": ("array", 3), "warp.array4d": ("array", 4), "warp.fixedarray": ("fixedarray", None),
    "warp.indexedarray": ("indexedarray", None), "warp.fabricarray": ("fabricarray", None),
    "warp.fabricarrayarray": ("fabricarrayarray", None), "warp.indexedfabricarray": ("indexedfabricarray", None),
} | {
    f"warp.{flavour}{n}d": (flavour, n) for flavour in ("indexedarray", "fabricarray") for n in (1, 2, 3, 4)
}  # fmt: skip
_BUILTIN_NAMES = {"builtins.int": "int", "builtins.float": "float", "builtins.bool": "bool"}
_NUMPY = {f"numpy.{name}": name for name in NAMED if name[:3] in ("int", "uin", "flo")} | {
    "numpy.bool_": "bool", "numpy.bool": "bool", "numpy.half": "float16", "numpy.single": "float32",
    "numpy.double": "float64",
}  # fmt: skip
_TORCH = {f"torch.{name}": name for name in NAMED if name[:3] in ("int", "uin", "flo", "boo")} | {
    "torch.half": "float16", "torch.double": "float64", "torch.long": "int64", "torch.short": "int16"
}  # fmt: skip


def annotation_type(node: ast.expr | None, scope: Scope, depth: int = 0) -> Type | None:
    """The type that an annotation names; ``None`` for none, ``Any`` and what cannot be told."""
    if node is None or depth > 10:
        return None
    if isinstance(node, ast.Constant):
        return _string(node.value, scope, depth)
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _named(node, scope, depth)
    if isinstance(node, ast.Subscript):
        return _subscript(node, scope, depth)
    if isinstance(node, ast.Call):
        return _call(node, scope, depth)
    return None


dtype_of = annotation_type
"""The type that a ``dtype=`` argument names."""


def _string(value: object, scope: Scope, depth: int) -> Type | None:
    if not isinstance(value, str):
        return None
    try:
        inner = ast.parse(value, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return annotation_type(inner, scope, depth + 1)


def _named(node: ast.expr, scope: Scope, depth: int) -> Type | None:
    name = scope.module.qualified(node, scope)
    if name is not None:
        known = named_type(name)
        if known is not None:
            return known
        struct = scope.module.project.struct(name, scope.module)
        if struct is not None:
            return StructType(struct.name, struct)
    return _alias(node, name, scope, depth)


def named_type(name: str) -> Type | None:
    """The type behind a qualified name of Python, Warp, NumPy or Torch."""
    if name in _BUILTIN_NAMES:
        return NAMED[_BUILTIN_NAMES[name]]
    if name.startswith("warp."):
        short = name[5:]
        if name in _ARRAYS:
            flavour, ndim = _ARRAYS[name]
            return Array(None, ndim, flavour)
        return NAMED.get(short) if short not in ("int", "float", "long") else None
    foreign = _NUMPY.get(name) or _TORCH.get(name)
    return NAMED[foreign] if foreign else None


def _alias(node: ast.expr, name: str | None, scope: Scope, depth: int) -> Type | None:
    """``vec6 = wp.types.vector(length=6, dtype=float)`` and the like, here or in an imported file."""
    if isinstance(node, ast.Name):
        found = scope.lookup(node.id)
        if found is not None and len(found[1]) == 1:
            where, (binding,) = found
            if binding.kind == "assign" and binding.value is not None and binding.index is None:
                return annotation_type(binding.value, where, depth + 1)
            if binding.kind == "class":
                return _vector_class(binding.node, where, depth)
    if name is not None:
        elsewhere = scope.module.project.binding(name, scope.module)
        if elsewhere is not None:
            where, binding = elsewhere
            if binding.kind == "assign" and binding.value is not None and binding.index is None:
                return annotation_type(binding.value, where, depth + 1)
            if binding.kind == "class":
                return _vector_class(binding.node, where, depth)
    return None


def _vector_class(node: ast.AST, scope: Scope, depth: int) -> Type | None:
    """``class vec5(wp.types.vector(length=5, dtype=float)): pass``."""
    if isinstance(node, ast.ClassDef) and len(node.bases) == 1 and isinstance(node.bases[0], (ast.Call, ast.Subscript)):
        return annotation_type(node.bases[0], scope, depth + 1)
    return None


def _subscript(node: ast.Subscript, scope: Scope, depth: int) -> Type | None:
    """``wp.array[float]``, ``wp.array2d[wp.vec3]``, ``wp.vec[3, float]``, ``tuple[…]``, ``wp.tile[…]``."""
    name = scope.module.qualified(node.value, scope)
    items = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name in _ARRAYS:
        flavour, ndim = _ARRAYS[name]
        if ndim is None and flavour != "fixedarray":
            ndim = 1
        if len(items) > 1:
            written = constant(items[1], scope)
            ndim = written if isinstance(written, int) else _literal(items[1], scope)
        return Array(annotation_type(items[0], scope, depth + 1), ndim, flavour)
    if name in ("builtins.tuple", "typing.Tuple"):
        return TupleType(tuple(annotation_type(item, scope, depth + 1) for item in items))
    if name in ("typing.Annotated", "typing.Final") and items:
        return annotation_type(items[0], scope, depth + 1)
    if name in ("warp.tile", "warp.Tile"):
        return Tile(annotation_type(items[0], scope, depth + 1), None)
    if name in ("warp.vector", "warp.vec", "warp.Vector") and len(items) == 2:
        return _vector(items[0], items[1], scope, depth)
    if name in ("warp.matrix", "warp.mat", "warp.Matrix") and len(items) == 3:
        scalar = annotation_type(items[2], scope, depth + 1)
        return Matrix(_integer(items[0], scope), _integer(items[1], scope), _scalar(scalar))
    return None


def _literal(node: ast.expr, scope: Scope) -> int | None:
    """The N of ``typing.Literal[N]``."""
    if isinstance(node, ast.Subscript):
        value = constant(node.slice, scope)
        return value if isinstance(value, int) else None
    return None


def _integer(node: ast.expr | None, scope: Scope) -> int | None:
    value = constant(node, scope)
    if isinstance(value, int):
        return value
    return _literal(node, scope) if node is not None else None


def _scalar(type: Type | None) -> Scalar | None:
    return type if isinstance(type, Scalar) else None


def _vector(length: ast.expr | None, dtype: ast.expr | None, scope: Scope, depth: int) -> Vector:
    return Vector(_integer(length, scope), _scalar(annotation_type(dtype, scope, depth + 1)))


def _call(node: ast.Call, scope: Scope, depth: int) -> Type | None:
    """``wp.array(dtype=float, ndim=2)``, ``wp.types.vector(length=6, dtype=float)`` and their kin."""
    name = scope.module.qualified(node.func, scope)
    if name is None:
        return None
    given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    positional = list(node.args)

    def argument(word: str, place: int) -> ast.expr | None:
        return given.get(word) or (positional[place] if place < len(positional) else None)

    if name in _ARRAYS:
        flavour, ndim = _ARRAYS[name]
        if flavour == "fixedarray":
            return Array(
                annotation_type(argument("dtype", 0), scope, depth + 1),
                _integer(given.get("ndim"), scope) or 1,
                flavour,
            )
        dtype = given.get("dtype") or (positional[0] if positional else None)
        if ndim is None:
            ndim = _integer(given["ndim"], scope) if "ndim" in given else 1
        return Array(annotation_type(dtype, scope, depth + 1), ndim, flavour)
    if name in ("warp.vector", "warp.types.vector", "warp.vec"):
        return _vector(argument("length", 0), argument("dtype", 1), scope, depth)
    if name in ("warp.matrix", "warp.types.matrix", "warp.mat"):
        shape = argument("shape", 0)
        scalar = _scalar(annotation_type(argument("dtype", 1), scope, depth + 1))
        extents = constant(shape, scope)
        if isinstance(extents, tuple) and len(extents) == 2:
            rows, columns = extents
            return Matrix(
                rows if isinstance(rows, int) else None, columns if isinstance(columns, int) else None, scalar
            )
        return Matrix(None, None, scalar)
    if name in ("warp.quaternion", "warp.types.quaternion"):
        return Quaternion(_scalar(annotation_type(argument("dtype", 0), scope, depth + 1)))
    if name in ("warp.transformation", "warp.types.transformation"):
        return Transformation(_scalar(annotation_type(argument("dtype", 0), scope, depth + 1)))
    if name in ("warp.tile", "warp.Tile"):
        written = constant(argument("shape", 1), scope)
        known = tuple(n if isinstance(n, int) else None for n in written) if isinstance(written, tuple) else None
        return Tile(annotation_type(argument("dtype", 0), scope, depth + 1), known)
    return None


def is_generic(node: ast.expr | None, scope: Scope) -> bool:
    """Whether an annotation holds ``Any``, a type variable, or an array without an element type."""
    return node is not None and (_names_any(node, scope) or isinstance(annotation_type(node, scope), Opaque))


def _names_any(node: ast.AST, scope: Scope) -> bool:
    """Whether ``Any`` or a type variable is named in an annotation; what a call is of, an array, does not count."""
    kind = node.__class__
    if kind is ast.Constant:
        return False
    if kind is ast.Name or kind is ast.Attribute:
        name = scope.module.qualified(node, scope)  # type: ignore[arg-type]
        if name in ("typing.Any", "warp.Any", "warp.Scalar", "warp.Float", "warp.Int"):
            return True
        found = scope.lookup(node.id) if kind is ast.Name else None  # type: ignore[attr-defined]
        value = found[1][-1].value if found else None
        return isinstance(value, ast.Call) and scope.module.qualified(value.func, scope) == "typing.TypeVar"
    if kind is ast.Call:
        given = (*node.args, *(keyword.value for keyword in node.keywords))  # type: ignore[attr-defined]
        return any(_names_any(part, scope) for part in given)
    return any(_names_any(part, scope) for part in children(node))

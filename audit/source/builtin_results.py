"""The results that follow from more than types: from a constant shape, a ``dtype``, a number of arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from warp_audit.audit.source.types import (
    FLOAT32,
    INT32,
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
    element,
)

Shape: TypeAlias = "tuple[int | None, ...] | None"
_TYPES = (Scalar, Vector, Matrix, Quaternion, Transformation, Array, StructType, Tile, TupleType, Opaque)


def as_type(constant: object) -> Type | None:
    """A constant, if it is a type."""
    return constant if isinstance(constant, _TYPES) else None


@dataclass(frozen=True)
class Call:
    """A call whose arguments are bound to the parameters of an overload.

    Args:
        name: the builtin.
        types: the types of the arguments that are given, by parameter.
        where: the place or the keyword of each.
        constants: what the source says an argument is, by place or keyword.
        rest: type and constant of each argument of ``*args``.
        variadic: whether the overload has ``*args``.
    """

    name: str
    types: Mapping[str, Type | None]
    where: Mapping[str, int | str]
    constants: Callable[[int | str], object]
    rest: tuple[tuple[Type | None, object], ...]
    variadic: bool

    def constant(self, name: str) -> object:
        """What the source says an argument is; ``None`` if it is not given either."""
        return self.constants(self.where[name]) if name in self.where else None

    def dtype(self, default: Type | None) -> Type | None:
        """The argument ``dtype``, or ``default`` if it is left out."""
        return self.types.get("dtype", default)

    def scalar(self, default: Scalar | None) -> Scalar | None:
        """The argument ``dtype``, if it is a scalar."""
        found = self.dtype(default)
        return found if isinstance(found, Scalar) else None

    def extents(self, name: str = "shape") -> Shape:
        """A shape, as far as the source says it."""
        value, type_ = self.constant(name), self.types.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return (value,)
        if isinstance(value, tuple):
            return tuple(n if isinstance(n, int) else None for n in value)
        if isinstance(type_, TupleType):
            return (None,) * len(type_.items)
        return (None,) if isinstance(type_, Scalar) else None

    def tile(self, name: str) -> Tile | None:
        """The type of an argument, if it is a tile."""
        found = self.types.get(name)
        return found if isinstance(found, Tile) else None

    @property
    def storage(self) -> str | None:
        """Where the tile that is made is kept."""
        if "storage" not in self.where:
            return "register"
        value = self.constant("storage")
        return value if isinstance(value, str) else None


Rule: TypeAlias = Callable[[Call], "Type | None"]
RULES: dict[str, Rule] = {}
"""How to find the result, by builtin."""


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def enter(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return enter


def _common(types: list[Type | None]) -> Scalar | None:
    """The scalar type that values share; ``None`` if one is not known or they differ."""
    scalars = {t if isinstance(t, Scalar) else element(t) for t in types}
    found = scalars.pop() if len(scalars) == 1 else None
    return found if isinstance(found, Scalar) else None


# Values


@_rule("cast", "volume_lookup", "volume_sample", "volume_sample_grad", "texture_sample")
def _asked(call: Call) -> Type | None:
    return call.dtype(None)


@_rule("norm_l1", "norm_l2", "norm_huber", "norm_pseudo_huber")
def _norm(call: Call) -> Type | None:
    return FLOAT32  # declared so; Warp refuses others


@_rule("smooth_normalize")
def _smooth_normalize(call: Call) -> Type | None:
    return call.types["v"]


@_rule("volume_sample_grad_index")
def _voxel(call: Call) -> Type | None:
    return element(call.types.get("voxel_data"))


@_rule("tuple")
def _tuple(call: Call) -> Type | None:
    return TupleType(tuple(type_ for type_, _ in call.rest))


@_rule("vector")
def _vector(call: Call) -> Type | None:
    types = [type_ for type_, _ in call.rest]
    length = call.constant("length")
    if len(types) == 1 and types[0] is None:
        return None
    if len(types) == 1 and isinstance(types[0], Vector):
        return Vector(types[0].length, call.scalar(types[0].scalar))
    if "length" not in call.types:
        length = len(types)
    scalar = call.scalar(_common(types) if types else FLOAT32)
    return Vector(length if isinstance(length, int) else None, scalar)


@_rule("matrix")
def _matrix(call: Call) -> Type | None:
    if not call.variadic:
        return None  # a form that Warp took away
    types = [type_ for type_, _ in call.rest]
    if len(types) == 1 and isinstance(types[0], Matrix):
        return Matrix(types[0].rows, types[0].columns, call.scalar(types[0].scalar))
    rows, columns = shape if len(shape := call.extents() or ()) == 2 else (None, None)
    return Matrix(rows, columns, call.scalar(_common(types) if types else FLOAT32))


@_rule("matrix_from_cols", "matrix_from_rows")
def _matrix_of_vectors(call: Call) -> Type | None:
    vectors = [type_ for type_, _ in call.rest if isinstance(type_, Vector)]
    if not vectors:
        return None
    lengths = {vector.length for vector in vectors} - {None}
    length = lengths.pop() if len(lengths) == 1 else None
    scalars = {vector.scalar for vector in vectors} - {None}
    scalar = scalars.pop() if len(scalars) == 1 else None
    rows, columns = (length, len(call.rest)) if call.name == "matrix_from_cols" else (len(call.rest), length)
    return Matrix(rows, columns, scalar)


@_rule("identity")
def _identity(call: Call) -> Type | None:
    n = call.constant("n")
    extent = n if isinstance(n, int) else None
    return Matrix(extent, extent, call.scalar(None))


@_rule("quaternion", "spatial_vector", "transformation")
def _composite(call: Call) -> Type | None:
    types = [type_ for type_, _ in call.rest] + [type_ for name, type_ in call.types.items() if name != "dtype"]
    scalar = call.scalar(_common(types) if types else FLOAT32)
    if call.name == "quaternion":
        return Quaternion(scalar)
    return Vector(6, scalar) if call.name == "spatial_vector" else Transformation(scalar)


@_rule("array")
def _array(call: Call) -> Type | None:
    shape = call.extents()
    return Array(call.dtype(None), len(shape) if shape is not None else None)


@_rule("zeros")
def _zeros(call: Call) -> Type | None:
    shape = call.extents()
    return Array(call.dtype(None), len(shape) if shape is not None else None, "fixedarray")


# Tiles that are made


@_rule("tile_zeros", "tile_ones", "tile_empty")
def _tile_of(call: Call) -> Type | None:
    return Tile(call.dtype(FLOAT32), call.extents(), call.storage)


@_rule("tile_full")
def _tile_full(call: Call) -> Type | None:
    return Tile(call.dtype(call.types.get("value")), call.extents(), call.storage)


@_rule("tile_from_thread")
def _tile_from_thread(call: Call) -> Type | None:
    return Tile(call.types.get("value"), call.extents(), call.storage)


@_rule("tile_randi")
def _tile_randi(call: Call) -> Type | None:
    return Tile(INT32, call.extents(), call.storage)


@_rule("tile_randf")
def _tile_randf(call: Call) -> Type | None:
    return Tile(FLOAT32, call.extents(), call.storage)


@_rule("tile_arange")
def _tile_arange(call: Call) -> Type | None:
    values = [value for _, value in call.rest if isinstance(value, int)]
    count = None
    if len(values) == len(call.rest) and 1 <= len(values) <= 3:
        start, stop, step = (0, values[0], 1) if len(values) == 1 else (*values, 1)[:3]
        count = max(1, math.ceil((stop - start) / step)) if step and abs(stop - start) < 2**24 else None
    return Tile(call.dtype(FLOAT32), (count,), call.storage)


@_rule("tile_load", "tile_load_indexed")
def _tile_load(call: Call) -> Type | None:
    return Tile(element(call.types.get("a")), call.extents(), call.storage)


@_rule("tile")
def _tile(call: Call) -> Type | None:
    value, whole = call.types.get("x"), call.constant("preserve_type")
    if value is None or ("preserve_type" in call.types and not isinstance(whole, bool)):
        return None
    match value:
        case Vector(length=n) if not whole:
            return Tile(value.scalar, (n, None))
        case Quaternion() if not whole:
            return Tile(value.scalar, (4, None))
        case Matrix(rows=n, columns=m) if not whole:
            return Tile(value.scalar, (n, m, None))
    return Tile(value, (None,))


@_rule("tile_bvh_query_next", "bvh_query_next_tiled", "tile_mesh_query_aabb_next", "mesh_query_aabb_next_tiled")
def _tile_query_next(call: Call) -> Type | None:
    return Tile(INT32, (None,), "register")


@_rule("tile_stack")
def _tile_stack(call: Call) -> Type | None:
    return Opaque("tile_stack")


@_rule("tile_stack_pop")
def _tile_stack_pop(call: Call) -> Type | None:
    return TupleType((None, INT32))


# Tiles of tiles


@_rule("tile_atomic_add", "tile_atomic_add_indexed")
def _tile_added(call: Call) -> Type | None:
    return call.tile("t")


@_rule("untile")
def _untile(call: Call) -> Type | None:
    tile = call.tile("a")
    if tile is None or tile.shape is None:
        return None
    if len(tile.shape) == 1:
        return tile.dtype
    scalar = tile.dtype if isinstance(tile.dtype, Scalar) else None
    if len(tile.shape) == 2:
        return Vector(tile.shape[0], scalar)
    return Matrix(tile.shape[0], tile.shape[1], scalar) if len(tile.shape) == 3 else None


@_rule("tile_extract")
def _tile_extract(call: Call) -> Type | None:
    tile = call.tile("a")
    if tile is None or tile.shape is None:
        return None
    extra = len(call.types) - 1 - len(tile.shape)
    if extra == 0:
        return tile.dtype
    if isinstance(tile.dtype, Matrix):
        return {1: Vector(tile.dtype.columns, tile.dtype.scalar), 2: tile.dtype.scalar}.get(extra)
    return tile.dtype.scalar if extra == 1 and isinstance(tile.dtype, Vector) else None


@_rule("tile_view")
def _tile_view(call: Call) -> Type | None:
    tile, offset = call.tile("t"), call.types.get("offset")
    if tile is None:
        return None
    if "shape" in call.types:
        return Tile(tile.dtype, call.extents(), "shared")
    if tile.shape is None or not isinstance(offset, TupleType) or any(item is None for item in offset.items):
        return Tile(tile.dtype, None, "shared")
    kept: tuple[int | None, ...] = tuple(None for item in offset.items if not isinstance(item, Scalar))
    return Tile(tile.dtype, kept + tile.shape[len(offset.items) :], "shared")


@_rule("tile_slice_indexed")
def _tile_slice_indexed(call: Call) -> Type | None:
    tile = call.tile("t")
    return Tile(tile.dtype, (None,) * len(tile.shape) if tile.shape else None, "register") if tile else None


@_rule("tile_squeeze")
def _tile_squeeze(call: Call) -> Type | None:
    tile = call.tile("t")
    if tile is None:
        return None
    shape: Shape = None
    if tile.shape is not None:
        axes = call.extents("axis") if "axis" in call.types else ()
        if "axis" in call.types and axes is not None and None not in axes:
            taken = {axis % len(tile.shape) for axis in axes if axis is not None}
            shape = tuple(n for i, n in enumerate(tile.shape) if i not in taken)
        elif "axis" not in call.types and None not in tile.shape:
            shape = tuple(n for n in tile.shape if n != 1)
    return Tile(tile.dtype, shape, "shared")


@_rule("tile_reshape")
def _tile_reshape(call: Call) -> Type | None:
    tile, shape = call.tile("t"), call.extents()
    if tile is None or shape is None:
        return Tile(tile.dtype, None, "shared") if tile else None
    if -1 in shape:
        others = [n for n in shape if n != -1]
        count = None
        if tile.shape is not None and None not in tile.shape and None not in others and 0 not in others:
            count = math.prod(n or 0 for n in tile.shape) // math.prod(n or 1 for n in others)
        shape = tuple(count if n == -1 else n for n in shape)
    return Tile(tile.dtype, shape, "shared")


@_rule("tile_astype")
def _tile_astype(call: Call) -> Type | None:
    tile = call.tile("t")
    return Tile(call.dtype(None), tile.shape) if tile else None


@_rule("tile_transpose")
def _tile_transpose(call: Call) -> Type | None:
    tile = call.tile("a")
    return Tile(tile.dtype, tile.shape[::-1] if tile.shape is not None else None, "shared") if tile else None


@_rule("tile_broadcast")
def _tile_broadcast(call: Call) -> Type | None:
    tile = call.tile("a")
    return Tile(tile.dtype, call.extents(), "shared") if tile else None


@_rule("tile_sum", "tile_reduce")
def _tile_reduced(call: Call) -> Type | None:
    tile, axis = call.tile("a"), call.constant("axis")
    if tile is None:
        return None
    if "axis" not in call.types:
        return Tile(tile.dtype, (1,))
    if tile.shape is None:
        return Tile(tile.dtype, None)
    if len(tile.shape) == 1:
        return Tile(tile.dtype, (1,))
    if not isinstance(axis, int):
        return Tile(tile.dtype, (None,) * (len(tile.shape) - 1))
    return Tile(tile.dtype, tile.shape[:axis] + tile.shape[axis + 1 :])


@_rule("tile_dot")
def _tile_dot(call: Call) -> Type | None:
    tile = call.tile("a")
    dtype = tile.dtype if tile else None
    return Tile(dtype if isinstance(dtype, Scalar) else element(dtype), (1,))


@_rule("tile_map")
def _tile_map(call: Call) -> Type | None:
    tile = call.tile("a")
    return Tile(None, tile.shape) if tile else None


@_rule("mul", "div")
def _tile_product(call: Call) -> Type | None:
    left, right = call.types.get("a"), call.types.get("b")
    tile = left if isinstance(left, Tile) else right
    if not isinstance(tile, Tile) or left is None or right is None:
        return None
    dtypes = [side.dtype if isinstance(side, Tile) else side for side in (left, right)]
    if None in dtypes:
        return Tile(None, tile.shape)
    if _common(dtypes) is None:
        return None
    return Tile(next((t for t in dtypes if isinstance(t, (Vector, Matrix))), tile.dtype), tile.shape)


@_rule("tile_diag_add", "tile_cholesky")
def _tile_like_first(call: Call) -> Type | None:
    tile = call.tile("a") or call.tile("A")
    return Tile(tile.dtype, tile.shape, "shared") if tile else None


@_rule("tile_cholesky_solve", "tile_lower_solve", "tile_upper_solve")
def _tile_like_right_side(call: Call) -> Type | None:
    tile = call.tile("y") or call.tile("z")
    return Tile(tile.dtype, tile.shape, "shared") if tile else None


@_rule("tile_matmul")
def _tile_matmul(call: Call) -> Type | None:
    left, right = call.tile("a"), call.tile("b")
    if left is None or right is None or not isinstance(left.dtype, Scalar):
        return None
    rows = left.shape[0] if left.shape is not None and len(left.shape) == 2 else None
    columns = right.shape[1] if right.shape is not None and len(right.shape) == 2 else None
    return Tile(left.dtype, (rows, columns), "shared")

"""Warp's types, as far as source text tells them. ``None`` stands for a type that is not known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from warp_audit.audit.source.module import Struct

INTEGERS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}
"""Integer type names and their bits."""
FLOATS = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}
"""Float type names and their bits."""


@dataclass(frozen=True)
class Scalar:
    """``int32``, ``float64``, ``bool`` …, by Warp's name without the module."""

    name: str

    @property
    def is_integer(self) -> bool:
        return self.name in INTEGERS

    @property
    def is_float(self) -> bool:
        return self.name in FLOATS

    @property
    def is_unsigned(self) -> bool:
        return self.name.startswith("uint")

    @property
    def bits(self) -> int:
        return INTEGERS.get(self.name) or FLOATS.get(self.name) or 1

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        bits = INTEGERS[self.name]
        return (0, 2**bits - 1) if self.is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Vector:
    """``vec3`` and its kin; spatial vectors too."""

    length: int | None
    scalar: Scalar | None

    def __str__(self) -> str:
        return f"vec{self.length or ''}[{self.scalar or 'Any'}]"


@dataclass(frozen=True)
class Matrix:
    """``mat33`` and its kin; spatial matrices too."""

    rows: int | None
    columns: int | None
    scalar: Scalar | None

    def __str__(self) -> str:
        return f"mat{self.rows or ''}{self.columns or ''}[{self.scalar or 'Any'}]"


@dataclass(frozen=True)
class Quaternion:
    """Four numbers x, y, z, w."""

    scalar: Scalar | None

    def __str__(self) -> str:
        return f"quat[{self.scalar or 'Any'}]"


@dataclass(frozen=True)
class Transformation:
    """A position and a quaternion: seven numbers."""

    scalar: Scalar | None

    def __str__(self) -> str:
        return f"transform[{self.scalar or 'Any'}]"


@dataclass(frozen=True)
class Array:
    """An array parameter or field; also indexed, fabric and fixed arrays, by ``flavour``."""

    dtype: Type | None
    ndim: int | None
    flavour: str = "array"

    def __str__(self) -> str:
        return f"{self.flavour}{self.ndim or ''}d[{self.dtype or 'Any'}]"


@dataclass(frozen=True)
class StructType:
    """A ``@wp.struct`` class."""

    name: str
    declared: Struct | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Tile:
    """A tile; an extent that is not known is ``None``, a shape that is not known too."""

    dtype: Type | None
    shape: tuple[int | None, ...] | None
    storage: str | None = None

    def __str__(self) -> str:
        shape = ", ".join(str(n) if n is not None else "?" for n in self.shape or ())
        return f"tile[{self.dtype or 'Any'}, ({shape})]"


@dataclass(frozen=True)
class TupleType:
    """Several results of a function; a shape is one of ``int32``."""

    items: tuple[Type | None, ...]

    def __str__(self) -> str:
        return f"({', '.join(str(item) for item in self.items)})"


@dataclass(frozen=True)
class Opaque:
    """A query, a handle, a string, a function: a type that only its own builtins understand."""

    name: str

    def __str__(self) -> str:
        return self.name


Type: TypeAlias = (
    "Scalar | Vector | Matrix | Quaternion | Transformation | Array | StructType | Tile | TupleType | Opaque"
)

INT32, INT64, UINT64 = Scalar("int32"), Scalar("int64"), Scalar("uint64")
FLOAT32, FLOAT64, BOOL = Scalar("float32"), Scalar("float64"), Scalar("bool")
STRING = Opaque("str")

_SUFFIX = {
    "": FLOAT32, "f": FLOAT32, "d": FLOAT64, "h": Scalar("float16"), "i": INT32, "l": INT64, "s": Scalar("int16"),
    "b": Scalar("int8"), "ub": Scalar("uint8"), "us": Scalar("uint16"), "ui": Scalar("uint32"), "ul": UINT64,
}  # fmt: skip


def _named() -> dict[str, Type]:
    table: dict[str, Type] = {name: Scalar(name) for name in (*INTEGERS, *FLOATS, "bool")}
    table |= {"int": INT32, "float": FLOAT32, "long": INT64}
    for suffix, scalar in _SUFFIX.items():
        for n in (2, 3, 4):
            table[f"vec{n}{suffix}"] = Vector(n, scalar)
            if suffix in ("", "f", "d", "h"):
                table[f"mat{n}{n}{suffix}"] = Matrix(n, n, scalar)
        if suffix in ("", "f", "d", "h"):
            table[f"quat{suffix}"] = Quaternion(scalar)
            table[f"transform{suffix}"] = Transformation(scalar)
            table[f"spatial_vector{suffix}"] = Vector(6, scalar)
            table[f"spatial_matrix{suffix}"] = Matrix(6, 6, scalar)
    return table


NAMED: dict[str, Type] = _named()
"""Warp's named types, by their name in ``warp`` (``int`` and ``float`` as Python's are read)."""


def element(type: Type | None) -> Type | None:
    """What one element of a composite is: an array's or tile's element, a vector's or matrix's scalar."""
    if isinstance(type, (Array, Tile)):
        return type.dtype
    if isinstance(type, (Vector, Matrix, Quaternion, Transformation)):
        return type.scalar
    return None


def components(type: Type | None) -> tuple[int, ...] | None:
    """The extents of a vector, matrix, quaternion or transformation, where they are known."""
    match type:
        case Vector(length=int(n)):
            return (n,)
        case Matrix(rows=int(r), columns=int(c)):
            return (r, c)
        case Quaternion():
            return (4,)
        case Transformation():
            return (7,)
    return None

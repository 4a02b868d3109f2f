"""Types of IR values: what a value is, how ``.wir`` spells it, and its C++ type in Warp's headers.

The C++ spellings are Warp's own (``Var.type_to_ctype``); the tap compares each with
Warp's when it reads a type, so a difference is found while listening and not later.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SCALARS = frozenset(
    [
        "bool",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "str",
    ]
)
ARRAY_FAMILIES = frozenset(["array", "indexedarray", "fabricarray", "indexedfabricarray"])


class TypeTextError(ValueError):
    """A type's text in a ``.wir`` file cannot be read."""


class Type:
    """What a value is. Subclasses are immutable and compare by content."""

    __slots__ = ()

    def ctype(self) -> str:
        """The type as the generated C++ spells it."""
        raise NotImplementedError

    def initial(self, dual: bool) -> str | None:
        """The C++ initializer of a local of this type in a forward or reverse function."""
        del dual
        return None

    def __str__(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Scalar(Type):
    """``bool``, an integer, a float, or a string constant."""

    name: str

    def ctype(self) -> str:
        return "bool" if self.name == "bool" else f"wp::{self.name}"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Composite(Type):
    """A vector, matrix, quaternion or transform: ``vec<3, float32>``, ``mat<2, 3, float64>``."""

    family: str  # vec, mat, quat, transform
    shape: tuple[int, ...]  # as the C++ template states it: none for quat and transform
    scalar: Scalar

    def ctype(self) -> str:
        parameters = [*map(str, self.shape), self.scalar.ctype()]
        return f"wp::{self.family}_t<{', '.join(parameters)}>"

    def __str__(self) -> str:
        return f"{self.family}<{', '.join([*map(str, self.shape), str(self.scalar)])}>"


@dataclass(frozen=True, slots=True)
class Struct(Type):
    """A ``@wp.struct`` by its native name; its fields stand in the module."""

    name: str

    def ctype(self) -> str:
        return self.name

    def __str__(self) -> str:
        return f"struct<{self.name}>"


@dataclass(frozen=True, slots=True)
class Array(Type):
    """An array descriptor: element type and rank, in one of Warp's four families."""

    family: str
    element: Type
    rank: int

    def ctype(self) -> str:
        return f"wp::{self.family}_t<{self.element.ctype()}>"

    def __str__(self) -> str:
        return f"{self.family}<{self.element}, {self.rank}>"


@dataclass(frozen=True, slots=True)
class FixedArray(Type):
    """An array of fixed size in a thread's own memory (``wp.zeros`` inside a kernel)."""

    element: Type
    size: int
    rank: int

    def ctype(self) -> str:
        return f"wp::fixedarray_t<{self.size}, {self.element.ctype()}>"

    def __str__(self) -> str:
        return f"fixedarray<{self.element}, {self.size}, {self.rank}>"


@dataclass(frozen=True, slots=True)
class Reference(Type):
    """The address of a value: what ``address`` and field accesses give."""

    target: Type

    def ctype(self) -> str:
        return f"{self.target.ctype()}*"

    def __str__(self) -> str:
        return f"ref<{self.target}>"


@dataclass(frozen=True, slots=True)
class Tile(Type):
    """A block's tile, in registers or in shared memory; an owner allocates, others alias."""

    element: Type
    shape: tuple[int, ...]
    storage: str
    strides: tuple[int, ...]
    owner: bool

    def ctype(self) -> str:
        shape = f"wp::tile_shape_t<{','.join(map(str, self.shape))}>"
        element = self.element.ctype()
        if self.storage == "register":
            return f"wp::tile_register_t<{element},wp::tile_layout_register_t<{shape}>>"
        strides = f"wp::tile_stride_t<{','.join(map(str, self.strides))}>"
        owner = "true" if self.owner else "false"
        return f"wp::tile_shared_t<{element},wp::tile_layout_strided_t<{shape}, {strides}>, {owner}>"

    def initial(self, dual: bool) -> str | None:
        if self.storage == "register":
            return self.ctype() + "{}"
        if not self.owner:
            return "nullptr"
        shape = f"wp::tile_shape_t<{','.join(map(str, self.shape))}>"
        strides = f"wp::tile_stride_t<{','.join(map(str, self.strides))}>"
        grad = "true" if dual else "false"
        return f"wp::tile_alloc_empty<{self.element.ctype()},{shape},{strides},{grad}>()"

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape))
        strides = "x".join(map(str, self.strides))
        owner = "owner" if self.owner else "alias"
        return f"tile<{self.element}, {shape}, {self.storage}, {strides}, {owner}>"


@dataclass(frozen=True, slots=True)
class Tuple(Type):
    """Several values in one."""

    items: tuple[Type, ...]

    def ctype(self) -> str:
        return f"wp::tuple_t<{', '.join(t.ctype() for t in self.items)}>"

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.items))}>"


@dataclass(frozen=True, slots=True)
class Native(Type):
    """A type of Warp's headers that the IR knows by name alone: a range, a query, a texture.

    ``init`` is the initializer that Warp writes for a local of it, if it writes one.
    """

    name: str
    init: str = ""

    def ctype(self) -> str:
        return self.name

    def initial(self, dual: bool) -> str | None:
        del dual
        return self.init or None

    def __str__(self) -> str:
        return f"native<{self.name} = {self.init}>" if self.init else f"native<{self.name}>"


BOOL = Scalar("bool")
INT32 = Scalar("int32")

_HEAD = re.compile(r"[A-Za-z_]\w*")


def parse_type(text: str) -> Type:
    """The type that ``text`` spells.

    Raises:
        TypeTextError: with the part that is wrong.
    """
    return _parse(text.strip(), 0)


def _parse(text: str, depth: int) -> Type:
    if depth > 32:
        raise TypeTextError("type nested too deeply")
    if text in SCALARS:
        return Scalar(text)
    head = _HEAD.match(text)
    if not head or not text.endswith(">") or text[head.end() : head.end() + 1] != "<":
        raise TypeTextError(f"{text[:40]!r} is not a type")
    inside = text[head.end() + 1 : -1]
    family = head[0]
    if family == "struct":
        return Struct(inside)
    if family == "native":
        name, _, init = inside.partition(" = ")
        return Native(name, init)
    parts = _split(inside)
    try:
        return _build(family, parts, depth + 1)
    except (ValueError, IndexError) as wrong:
        if isinstance(wrong, TypeTextError):
            raise
        raise TypeTextError(f"{text[:40]!r} is not a type") from None


def _build(family: str, parts: list[str], depth: int) -> Type:
    if family in ("vec", "mat", "quat", "transform"):
        scalar = _parse(parts[-1], depth)
        if not isinstance(scalar, Scalar):
            raise TypeTextError(f"{parts[-1]!r} is not a scalar type")
        return Composite(family, tuple(map(int, parts[:-1])), scalar)
    if family in ARRAY_FAMILIES:
        return Array(family, _parse(parts[0], depth), int(parts[1]))
    if family == "fixedarray":
        return FixedArray(_parse(parts[0], depth), int(parts[1]), int(parts[2]))
    if family == "ref":
        return Reference(_parse(parts[0], depth))
    if family == "tuple":
        return Tuple(tuple(_parse(p, depth) for p in parts))
    if family == "tile":
        shape = tuple(map(int, parts[1].split("x")))
        strides = tuple(map(int, parts[3].split("x")))
        if parts[2] not in ("register", "shared") or parts[4] not in ("owner", "alias"):
            raise TypeTextError(f"tile of {parts[2]!r}, {parts[4]!r} is unknown")
        return Tile(_parse(parts[0], depth), shape, parts[2], strides, parts[4] == "owner")
    raise TypeTextError(f"{family!r} is not a family of types")


def _split(text: str) -> list[str]:
    """Split at the commas that are not inside angle brackets."""
    parts: list[str] = []
    depth = start = 0
    for position, char in enumerate(text):
        if char == "<":
            depth += 1
        elif char == ">":
            depth -= 1
        elif char == "," and not depth:
            parts.append(text[start:position].strip())
            start = position + 1
    if rest := text[start:].strip():
        parts.append(rest)
    return parts

"""Types as the table of builtins writes them: read, compared with the types of arguments, and filled in."""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from typing import Any, TypeAlias, cast

from warp_audit.audit.source.types import (
    BOOL,
    FLOATS,
    INTEGERS,
    STRING,
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

Pattern: TypeAlias = "tuple[str, tuple[Pattern, ...]]"
"""A head and its parts: ``vec[N, S]`` is ``("vec", (("N", ()), ("S", ())))``."""

_VARIABLE = re.compile(r"[A-Z]\d*")
_SCALARS = {**INTEGERS, **FLOATS, "bool": 1}
_KIND = {"T": "Any", "S": "Scalar", "F": "Float", "I": "Int"}


class Conflict(Exception):
    """A variable would stand for two types: Warp refuses the call."""


class Bindings(dict[str, object]):
    """What each variable stands for; ``conflict`` if one stands for two things."""

    conflict = False

    def bind(self, name: str, value: object) -> None:
        """Let a variable stand for a type, an extent or a shape too."""
        try:
            self[name] = merged(self.get(name), value)
        except Conflict:
            self.conflict = True


def merged(a: object, b: object) -> object:
    """What both say, where one of them knows more.

    Raises:
        Conflict: if they differ.
    """
    if a is None or b is None or a == b:
        return b if a is None else a
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(map(merged, a, b))
    if type(a) is not type(b) or isinstance(a, (int, str, tuple, Scalar, Opaque)):
        raise Conflict
    if isinstance(a, StructType) and isinstance(b, StructType):
        if a.name != b.name:
            raise Conflict
        return a
    whole: Any = a
    fields = {}
    for field in dataclasses.fields(whole):
        one, two = getattr(a, field.name), getattr(b, field.name)
        # Where a tile is kept, Warp changes by itself.
        fields[field.name] = (one if one == two else None) if field.name == "storage" else merged(one, two)
    return dataclasses.replace(whole, **fields)


@cache
def pattern(text: str) -> Pattern:
    """The tree of a type's text."""
    text = text.strip()
    parts = _cut(text, "/")
    if len(parts) > 1:
        return "/", tuple(map(pattern, parts))
    if text.startswith("("):
        return "()", tuple((part, ()) for part in text[1:-1].replace(",", " ").split())
    head, bracket, inside = text.partition("[")
    return head, tuple(map(pattern, _cut(inside[:-1], ","))) if bracket else ()


def _cut(text: str, mark: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += (character in "[(") - (character in "])")
        if character == mark and not depth:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]


def matches(shape: Pattern, type_: Type | None, bindings: Bindings) -> bool | None:
    """Whether Warp takes an argument for a parameter; ``None`` if what is known of its type leaves it open.

    As in Warp, a variable that stands for another type already does not matter here; it is noted as a conflict.
    """
    head, parts = shape
    if head == "/":
        for part in parts:
            trial = Bindings(bindings)
            found = matches(part, type_, trial)
            if found is not False:
                if type_ is not None:
                    bindings.update(trial)
                    bindings.conflict |= trial.conflict
                return found
        return False
    if head in ("Any", "Scalar", "Float", "Int") or _VARIABLE.fullmatch(head):
        fits = _is_kind(_KIND.get(head[0], head) if len(head) < 3 else head, type_)
        if fits is not False and type_ is not None and _VARIABLE.fullmatch(head):
            bindings.bind(head, type_)
        return fits
    if type_ is None:
        return None
    if head in _SCALARS:
        return isinstance(type_, Scalar) and (type_.name == head or (head, type_.name) == ("uint64", "handle"))
    if head == "str":
        return type_ == STRING
    if head == "callable":
        return isinstance(type_, Opaque) and type_ != STRING
    return _matches_whole(head, parts, type_, bindings)


def _matches_whole(head: str, parts: tuple[Pattern, ...], type_: Type, bindings: Bindings) -> bool | None:
    """A composite or a type that only its own builtins understand."""
    match type_:
        case Vector() if head == "vec":
            return both(_extent(parts[0], type_.length, bindings), matches(parts[1], type_.scalar, bindings))
        case Matrix() if head == "mat":
            extents = both(_extent(parts[0], type_.rows, bindings), _extent(parts[1], type_.columns, bindings))
            return both(extents, matches(parts[2], type_.scalar, bindings))
        case Quaternion() if head == "quat":
            return matches(parts[0], type_.scalar, bindings)
        case Transformation() if head == "transform":
            return matches(parts[0], type_.scalar, bindings)
        case Array() if head == type_.flavour or {head, type_.flavour} == {"array", "fixedarray"}:
            return matches(parts[0], type_.dtype, bindings)
        case Tile() if head == "tile":
            if len(parts) > 1 and type_.shape is not None:
                bindings.bind(parts[1][0], type_.shape)
            return matches(parts[0], type_.dtype, bindings)
        case TupleType():
            if head == "shape_t":
                return True
            if head != "tuple":
                return False
            repeated = parts[:1] * len(type_.items) if parts[1:] == (("...", ()),) else parts
            if parts and len(repeated) != len(type_.items):
                return False
            fits: bool | None = True
            for part, item in zip(repeated, type_.items, strict=False):
                fits = both(fits, matches(part, item, bindings))
            return fits
        case Opaque(name=name):
            # A particular kind of query goes where the general one is asked for.
            return name == head or (name.startswith(head) and "Query" in head)
    return False


def both(a: bool | None, b: bool | None) -> bool | None:
    """Whether two things hold; ``None`` if that is open."""
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def _extent(part: Pattern, extent: int | None, bindings: Bindings) -> bool | None:
    head = part[0]
    if head == "Any":
        return True
    if _VARIABLE.fullmatch(head):
        if extent is not None:
            bindings.bind(head, extent)
        return True
    return None if extent is None else extent == int(head)


def _is_kind(kind: str, type_: Type | None) -> bool | None:
    if kind == "Any":
        return True
    if type_ is None:
        return None
    if not isinstance(type_, Scalar):
        return False
    return {"Scalar": type_.is_integer or type_.is_float, "Float": type_.is_float, "Int": type_.is_integer}[kind]


def made(shape: Pattern, bindings: Bindings) -> Type | None:
    """The type that a pattern becomes once its variables are known; ``None`` where they are not."""
    head, parts = shape
    if _VARIABLE.fullmatch(head):
        return cast("Type | None", bindings.get(head))
    if head in _SCALARS:
        return BOOL if head == "bool" else Scalar(head)
    if head in ("None", "Any", "Scalar", "Float", "Int", "/"):
        return None
    if head == "str":
        return STRING
    if head == "vec":
        return Vector(_made_extent(parts[0], bindings), _made_scalar(parts[1], bindings))
    if head == "mat":
        rows, columns = (_made_extent(part, bindings) for part in parts[:2])
        return Matrix(rows, columns, _made_scalar(parts[2], bindings))
    if head == "quat":
        return Quaternion(_made_scalar(parts[0], bindings))
    if head == "transform":
        return Transformation(_made_scalar(parts[0], bindings))
    if head == "tile":
        return Tile(made(parts[0], bindings), _made_shape(parts[1:], bindings))
    if head.endswith("array"):
        return Array(made(parts[0], bindings), None, head)
    if head == "tuple":
        return TupleType(tuple(made(part, bindings) for part in parts))
    return Opaque(head)


def _made_scalar(part: Pattern, bindings: Bindings) -> Scalar | None:
    found = made(part, bindings)
    return found if isinstance(found, Scalar) else None


def _made_extent(part: Pattern, bindings: Bindings) -> int | None:
    found = bindings.get(part[0]) if _VARIABLE.fullmatch(part[0]) else None
    return int(part[0]) if part[0].isdigit() else cast("int | None", found)


def _made_shape(parts: tuple[Pattern, ...], bindings: Bindings) -> tuple[int | None, ...] | None:
    if not parts:
        return None
    head, extents = parts[0]
    if head == "()":
        return tuple(int(extent[0]) for extent in extents)
    return cast("tuple[int | None, ...] | None", bindings.get(head))

"""What Warp's builtins take and give, from the table ``builtins.txt``; Warp itself is not needed.

A line of the table is one overload: ``dot(a: vec[N, S], b: vec[N, S]) -> S | Vector Math``. ``Any``, ``Scalar``,
``Float`` and ``Int`` stand for types, ``Any`` for an extent or a shape too; a capital letter with or without a
digit stands for one that is the same wherever it is written: ``T`` any type, ``S`` a scalar, ``F`` a float, ``I`` an
integer, ``N`` an extent, ``X`` a tile's shape. ``a/b`` takes either. A result with ``?`` behind it follows from
more than types; ``audit.source.builtin_results`` says how. ``compiler.tap.signature_table`` writes the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from warp_audit.audit.source import builtin_results
from warp_audit.audit.source.builtin_facts import ATOMICS, SINGULAR, TILE_OPS, WRITES, Singularity
from warp_audit.audit.source.builtin_patterns import Bindings, Conflict, both, made, matches, pattern
from warp_audit.audit.source.types import (
    BOOL,
    FLOAT32,
    INT32,
    NAMED,
    UINT64,
    Array,
    Opaque,
    Quaternion,
    Tile,
    Transformation,
    TupleType,
    Type,
    Vector,
)

_OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "@": "mul", "/": "div", "//": "floordiv", "%": "mod", "**": "pow",
    "&": "bit_and", "|": "bit_or", "^": "bit_xor", "<<": "lshift", ">>": "rshift",
}  # fmt: skip
_LOGICAL = {"<", "<=", ">", ">=", "==", "!=", "in", "not in", "is", "is not", "and", "or", "not", "compare"}
_UNARY = {"-": "neg", "+": "pos", "~": "invert"}
_PARAMETER = re.compile(r"(\*{0,2}\w+): (.*?)(?: = (.*))?")

Constants = Callable[["int | str"], object]
"""What the source says an argument is, by its place or keyword: a number, a string, a tuple, a type, or ``None``."""


@dataclass(frozen=True)
class Parameter:
    """A parameter: its type and its default as the table has them."""

    name: str
    type: str
    default: str | None = None
    variadic: bool = False


@dataclass(frozen=True)
class Signature:
    """One overload.

    Args:
        name: the builtin's name in ``warp``.
        parameters: what it takes.
        returns: what it gives, ``None`` if nothing.
        computed: whether the result follows from more than the types; ``returns`` then says what kind it is.
        group: the heading under which Warp's manual has it.
        differentiable: whether gradients go through it.
        hidden: whether Warp's manual leaves it out.
        since: the first version that has it, if the oldest one supported has it not.
        until: the last version that has it, if the newest one supported has it not.
    """

    name: str
    parameters: tuple[Parameter, ...]
    returns: str
    computed: bool
    group: str
    differentiable: bool
    hidden: bool
    since: str | None = None
    until: str | None = None


@cache
def _lines() -> dict[str, list[str]]:
    """The table's lines, by name."""
    table: dict[str, list[str]] = {}
    for line in Path(__file__).with_name("builtins.txt").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            table.setdefault(line.partition("(")[0], []).append(line)
    return table


@cache
def signature(name: str) -> tuple[Signature, ...] | None:
    """The overloads of a builtin, in the order in which Warp tries them; those of older versions last."""
    lines = _lines().get(name)
    return tuple(map(_signature, lines)) if lines is not None else None


def is_builtin(name: str) -> bool:
    """Whether ``wp.NAME`` can be called in a kernel without being declared: a function or a named type of Warp's."""
    return name in _lines() or name in NAMED


@cache
def names() -> tuple[str, ...]:
    """The builtins that Warp's manual lists, without attributes."""
    shown = (name for name, lines in _lines().items() if "." not in name and not all("hidden" in one for one in lines))
    return (*shown, *NAMED)


def _signature(line: str) -> Signature:
    text, group, *more = line.split(" | ")
    words = more[0].split(", ") if more else []
    name, _, rest = text.partition("(")
    inside, _, returns = rest.rpartition(") -> ")
    parameters = []
    for part in _split(inside):
        found = _PARAMETER.fullmatch(part)
        if found is not None:
            stars = found[1].lstrip("*")
            parameters.append(Parameter(stars, found[2], found[3], found[1].startswith("*")))
    versions = dict(word.split(" ") for word in words if word.startswith(("since ", "until ")))
    return Signature(
        name,
        tuple(parameters),
        returns.rstrip("?"),
        returns.endswith("?"),
        group,
        "no gradient" not in words,
        "hidden" in words,
        versions.get("since"),
        versions.get("until"),
    )


def _split(text: str) -> list[str]:
    """The parts between the commas that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += (character in "[(") - (character in "])")
        if character == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()] if text.strip() else []


_KEPT = 65_536
"""How many answers are kept: expressions of the same types come again and again."""


def _nothing(_: int | str) -> object:
    return None


def result(
    name: str,
    arguments: Sequence[Type | None] = (),
    keywords: Mapping[str, Type | None] | None = None,
    constants: Constants = _nothing,
) -> Type | None:
    """The type that a call of a builtin gives.

    Args:
        name: the builtin's name in ``warp``.
        arguments: the types of the arguments by place; ``None`` where the type is not known.
        keywords: those by keyword.
        constants: what the source says an argument is, by place or keyword.

    Returns:
        The type, ``None`` where it is not known, where Warp would refuse the call, or where there is no result.
    """
    named = NAMED.get(name)
    if named is not None:
        return named
    if not keywords and _goes_by_types(name):
        return _result_by_types(name, tuple(arguments))
    return _result(name, arguments, keywords or {}, constants)


@lru_cache(maxsize=_KEPT)
def _result_by_types(name: str, arguments: tuple[Type | None, ...]) -> Type | None:
    return _result(name, arguments, {}, _nothing)


@cache
def _goes_by_types(name: str) -> bool:
    """Whether the types of a builtin's arguments alone say what it gives, and not their values."""
    signatures = signature(name) or ()
    return not any(one.computed or any(p.name == "dtype" for p in one.parameters) for one in signatures)


def _result(
    name: str, arguments: Sequence[Type | None], keywords: Mapping[str, Type | None], constants: Constants
) -> Type | None:
    signatures = signature(name)
    if signatures is None:
        return None
    for versions in ([s for s in signatures if s.until is None], [s for s in signatures if s.until is not None]):
        answers = _answers(versions, arguments, keywords, constants)
        if answers:
            return answers[0] if all(answer == answers[0] for answer in answers) else None
    return None


def refuses(
    name: str,
    arguments: Sequence[Type | None],
    keywords: Mapping[str, Type | None] | None = None,
    constants: Constants = _nothing,
) -> bool:
    """Whether Warp surely refuses a call of a builtin, by the number or the types of its arguments.

    The arguments are those of ``result``. Overloads that only older versions have count too.
    """
    if not keywords and _goes_by_types(name):
        return _refuses_types(name, tuple(arguments))
    return _refuses(name, arguments, keywords or {}, constants)


@lru_cache(maxsize=_KEPT)
def _refuses_types(name: str, arguments: tuple[Type | None, ...]) -> bool:
    return _refuses(name, arguments, {}, _nothing)


def _refuses(
    name: str, arguments: Sequence[Type | None], keywords: Mapping[str, Type | None], constants: Constants
) -> bool:
    for one in signature(name) or ():
        call = _bound(one, arguments, keywords, constants)
        if call is None:
            continue
        if call.variadic:
            return False
        bindings = Bindings()
        fits: bool | None = True
        for parameter in one.parameters:
            if parameter.name in call.types:
                fits = both(fits, matches(pattern(parameter.type), call.types[parameter.name], bindings))
        if fits is not False:
            # Warp settles on the first overload that fits, and then minds what a variable stands for.
            return bool(fits) and bindings.conflict
    return name in _lines()


def refuses_operation(op: str, left: Type | None, right: Type | None) -> bool:
    """Whether Warp surely refuses ``left op right``."""
    name = _OPERATORS.get(op)
    return name is not None and refuses(name, (left, right))


def _answers(
    signatures: Sequence[Signature],
    arguments: Sequence[Type | None],
    keywords: Mapping[str, Type | None],
    constants: Constants,
) -> list[Type | None]:
    """The result of every overload that may be meant; Warp takes the first that fits."""
    answers: list[Type | None] = []
    for one in signatures:
        call = _bound(one, arguments, keywords, constants)
        if call is None:
            continue
        bindings = Bindings()
        fits: bool | None = True
        if not call.variadic:
            for parameter in one.parameters:
                if parameter.name in call.types:
                    fits = both(fits, matches(pattern(parameter.type), call.types[parameter.name], bindings))
        if fits is False:
            continue
        try:
            answer = _answer(one, call, bindings)
        except Conflict:
            if fits:
                return [*answers, None]  # Warp settles on it and then refuses
            continue
        answers.append(answer)
        if fits:
            break
    return answers


def _answer(one: Signature, call: builtin_results.Call, bindings: Bindings) -> Type | None:
    if bindings.conflict:
        raise Conflict
    if one.computed:
        rule = builtin_results.RULES.get(one.name)
        return rule(call) if rule is not None else None
    return made(pattern(one.returns), bindings)


def _bound(
    one: Signature, arguments: Sequence[Type | None], keywords: Mapping[str, Type | None], constants: Constants
) -> builtin_results.Call | None:
    """The arguments by the overload's parameters, as Python binds them; ``None`` if it cannot."""
    types: dict[str, Type | None] = {}
    where: dict[str, int | str] = {}
    rest: list[int] | None = None
    places = list(range(len(arguments)))
    for parameter in one.parameters:
        if parameter.variadic:
            rest, places = places, []
        elif places and rest is None:
            if parameter.name in keywords:
                return None
            types[parameter.name], where[parameter.name] = arguments[places[0]], places.pop(0)
        elif parameter.name in keywords:
            types[parameter.name], where[parameter.name] = keywords[parameter.name], parameter.name
        elif parameter.default is None:
            return None
        if parameter.name == "dtype" and parameter.name in types:
            # A type is its own type, for Warp too.
            types["dtype"] = builtin_results.as_type(constants(where["dtype"]))
        elif parameter.name == "dtype" and parameter.default == "None" and not one.computed:
            types["dtype"] = FLOAT32
    if places or not set(keywords) <= {parameter.name for parameter in one.parameters}:
        return None
    others = tuple((arguments[place], constants(place)) for place in rest or ())
    return builtin_results.Call(one.name, types, where, constants, others, rest is not None)


def binary(op: str, left: Type | None, right: Type | None) -> Type | None:
    """The type of ``left op right``; ``op`` as Python writes it, or ``compare``. Warp mixes no scalar types."""
    if op in _LOGICAL:
        return BOOL
    name = _OPERATORS.get(op)
    return result(name, (left, right)) if name is not None else None


def unary(op: str, operand: Type | None) -> Type | None:
    """The type of ``op operand``."""
    if op == "not":
        return BOOL
    name = _UNARY.get(op)
    return result(name, (operand,)) if name is not None else None


def attribute(base: Type, name: str) -> Type | None:
    """The type of ``base.name``. A shape of unknown length is ``Opaque("shape_t")``; structs are not known here."""
    match base:
        case Vector(length=length):
            return base.scalar if len(name) == 1 and name in "xyzw"[: 4 if length is None else length] else None
        case Quaternion():
            return base.scalar if len(name) == 1 and name in "xyzw" else None
        case Transformation():
            parts: dict[str, Type] = {"p": Vector(3, base.scalar), "q": Quaternion(base.scalar)}
            return parts.get(name)
        case Array(flavour=flavour):
            if "fabric" in flavour:
                return UINT64 if name == "size" else None
            if name == "shape":
                return Opaque("shape_t") if base.ndim is None else TupleType((INT32,) * base.ndim)
            if name == "ndim":
                return INT32
            return UINT64 if name == "ptr" and flavour != "indexedarray" else None
        case Tile():
            if name == "shape" and base.shape is not None:
                return TupleType((INT32,) * len(base.shape))
            return INT32 if name == "size" else None
        case Opaque():
            found = signature(f"{base.name}.{name}")
            type_ = made(pattern(found[0].returns), Bindings()) if found else None
            return Array(type_.dtype, 1, type_.flavour) if isinstance(type_, Array) else type_
    return None


__all__ = [
    "ATOMICS",
    "SINGULAR",
    "TILE_OPS",
    "WRITES",
    "Constants",
    "Parameter",
    "Signature",
    "Singularity",
    "attribute",
    "binary",
    "is_builtin",
    "names",
    "refuses",
    "refuses_operation",
    "result",
    "signature",
    "unary",
]

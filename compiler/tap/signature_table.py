"""Prints the table of Warp's builtin signatures that ``audit/source/builtins.txt`` holds.

Run ``python -m warp_audit.compiler.tap.signature_table TABLE`` with a Warp installed: it merges that
version's signatures into the table, so that the table serves all versions, in whichever order they come.

Warp says with a Python function, not with a type, what a generic builtin returns. That function is called
here with every combination of a few types; what it refuses shows which parameters must agree, and what it
answers shows how the result follows from them. ``dot(a: vec[N, S], b: vec[N, S]) -> S`` is found like this.
Where the answer follows from something else, a constant or an attribute, the result is marked with ``?``.
"""

from __future__ import annotations

import itertools
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from warp_audit.compiler.tap.signature_lines import Overload, folded, merge
from warp_audit.errors import BadInput

_LETTERS = {"Any": "T", "Scalar": "S", "Float": "F", "Int": "I", "extent": "N", "shape": "X"}
_NARROWEST = ("Int", "Float", "Scalar", "Any")
_MOST = 5000
_WORD = re.compile(r"\w+")


class _NotInTypes(Exception):
    """The result depends on more than the types of the arguments."""


class _Touchy(dict[str, Any]):
    """Argument values that must not be looked at."""

    def __init__(self, names: set[str]) -> None:
        super().__init__()
        self.names = names

    def __contains__(self, key: object) -> bool:
        if key in self.names:
            raise _NotInTypes
        return False

    def __getitem__(self, key: str) -> Any:
        raise _NotInTypes

    def get(self, key: str, default: Any = None) -> Any:
        return default if key not in self else None


@dataclass(eq=False)
class _Slot:
    """A place of a signature that takes several types or extents."""

    kind: str


@dataclass(eq=False)
class _Node:
    """A type of a signature: its name, its parts, and how to make Warp's type of concrete parts."""

    head: str
    parts: tuple[_Slot | _Node | str, ...] = ()
    make: Callable[..., Any] | None = None


def _name(cls: Any) -> str:
    """A class as users know it: a private kind of query goes by its public parent."""
    name = str(cls.__name__)
    if name.startswith("_"):
        parent = getattr(cls, "_wp_erase_to_", None)
        return str(parent.__name__ if parent else getattr(cls, "_wp_public_name_", name))
    return {"int": "int32", "float": "float32", "slice_t": "slice", "function": "callable"}.get(name, name)


def _pattern(type_: Any) -> _Slot | _Node | str:
    """Warp's description of a parameter as a tree."""
    from warp._src import types

    for kind in _NARROWEST:
        if type_ is (Any if kind == "Any" else getattr(types, kind)):
            return _Slot(kind)
    hint = getattr(type_, "_wp_generic_type_hint_", None)
    if hint is not None:
        scalar = _pattern(type_._wp_scalar_type_)
        if isinstance(scalar, _Slot) and scalar.kind == "Any":
            scalar = _Slot("Scalar")
        extents = tuple(n if n > 0 else _Slot("extent") for n in type_._shape_)
        shown = tuple(n if isinstance(n, _Slot) else str(n) for n in extents)
        if hint is types.Vector:
            return _Node("vec", (*shown, scalar), lambda n, s: types.vector(int(n), s))
        if hint is types.Matrix:
            return _Node("mat", (*shown, scalar), lambda r, c, s: types.matrix((int(r), int(c)), s))
        if hint is types.Quaternion:
            return _Node("quat", (scalar,), types.quaternion)
        return _Node("transform", (scalar,), types.transformation)
    if types.is_array(type_):
        cls = types.concrete_array_type(type_)
        if cls is types.fixedarray:
            fixed = lambda dtype, ndim=1: types.fixedarray(dtype=dtype, shape=(2,) * ndim)  # noqa: E731
            return _Node("fixedarray", (_pattern(type_.dtype),), fixed)
        return _Node(cls.__name__, (_pattern(type_.dtype),), lambda dtype, ndim=1: cls(dtype=dtype, ndim=ndim))
    if types.is_tile(type_):
        make = lambda dtype, shape: types.tile(dtype=dtype, shape=shape)  # noqa: E731
        return _Node("tile", (_pattern(type_.dtype), _Slot("shape")), make)
    if getattr(types, "is_tile_stack", None) and types.is_tile_stack(type_):
        return _Node("tile_stack", (_pattern(type_.dtype),), lambda dtype: types.tile_stack(dtype=dtype, capacity=4))
    if get_origin(type_) is tuple:
        items = [x for x in get_args(type_) if x is not Ellipsis]
        more = ("...",) if Ellipsis in get_args(type_) else ()
        return _Node("tuple", (*(_text(_pattern(x), {}) for x in items), *more), lambda *_: type_)
    if type_ is Callable or get_origin(type_) is Callable or getattr(type_, "__name__", "") == "Callable":
        return "callable"
    if isinstance(type_, types.Reference):
        return _Node("ref", (_pattern(type_.value_type),), types.Reference)
    if isinstance(type_, Sequence) and not isinstance(type_, str):
        return _Node("tuple", tuple(_pattern(x) for x in type_), lambda *parts: parts)
    if not isinstance(type_, type):
        type_ = type(type_)
    return _Node(_name(type_), (), lambda type_=type_: type_)


def _slots(pattern: _Slot | _Node | str) -> Iterator[_Slot]:
    if isinstance(pattern, _Slot):
        yield pattern
    elif isinstance(pattern, _Node):
        for part in pattern.parts:
            yield from _slots(part)


def _text(pattern: _Slot | _Node | str, names: dict[_Slot, str]) -> str:
    if isinstance(pattern, str):
        return pattern
    if isinstance(pattern, _Slot):
        return names.get(pattern, "Any" if pattern.kind in ("extent", "shape") else pattern.kind)
    parts = [_text(part, names) for part in pattern.parts]
    if pattern.head == "tile" and parts[-1] == "Any":
        parts.pop()
    return f"{pattern.head}[{', '.join(parts)}]" if parts else pattern.head


def _concrete(pattern: _Slot | _Node | str, chosen: dict[_Slot, Any], ndim: int) -> Any:
    if isinstance(pattern, _Slot):
        return chosen[pattern]
    if isinstance(pattern, str):
        return Callable if pattern == "callable" else pattern
    assert pattern.make is not None
    parts = [_concrete(part, chosen, ndim) for part in pattern.parts]
    if pattern.head.endswith("array"):
        return pattern.make(*parts, ndim=ndim)
    return pattern.make(*parts)


def _choices(kind: str) -> tuple[Any, ...]:
    from warp._src import types

    if kind == "Any":
        vectors = (types.vector(3, types.int32), types.vector(2, types.float64))
        return (types.int32, types.uint32, types.float32, *vectors, types.matrix((2, 2), types.float32), types.quatf)
    return {
        "Scalar": (types.float32, types.int32, types.int64, types.uint8),
        "Float": (types.float32, types.float64),
        "Int": (types.int32, types.uint8),
        "extent": (2, 3),
        "shape": ((3,), (8, 2), (3, 3)),
    }[kind]


def _same(a: Any, b: Any) -> bool:
    from warp._src import types

    if isinstance(a, (int, tuple, str)) or isinstance(b, (int, tuple, str)):
        return bool(a == b)
    return a is b or bool(types.types_equal(a, b))


def _parts(type_: Any) -> tuple[str, tuple[Any, ...]] | None:
    """A concrete type's head and parts, if it has parts."""
    from warp._src import types

    if isinstance(type_, (list, tuple)):
        return None if all(isinstance(part, int) for part in type_) else ("tuple", tuple(type_))
    hint = getattr(type_, "_wp_generic_type_hint_", None)
    if hint is not None:
        head = {types.Vector: "vec", types.Matrix: "mat", types.Quaternion: "quat"}.get(hint, "transform")
        extents = type_._shape_ if head in ("vec", "mat") else ()
        return head, (*extents, type_._wp_scalar_type_)
    if types.is_tile(type_):
        return "tile", (type_.dtype, tuple(type_.shape))
    if types.is_array(type_):
        return types.concrete_array_type(type_).__name__, (type_.dtype,)
    return None


def _expressed(results: Sequence[Any], variables: dict[str, list[Any]]) -> str:
    """How all results follow from the variables.

    Raises:
        _NotInTypes: if they do not.
    """
    for name, values in variables.items():
        if all(map(_same, results, values)):
            return name
    whole = [_parts(result) for result in results]
    if all(whole):
        heads = {part[0] for part in whole if part}
        counts = {len(part[1]) for part in whole if part}
        if len(heads) == len(counts) == 1:
            columns = zip(*(part[1] for part in whole if part), strict=True)
            if heads == {"tile"}:
                dtypes, shapes = columns
                return f"tile[{_expressed(dtypes, variables)}, {_expressed(shapes, variables)}]"
            return f"{heads.pop()}[{', '.join(_expressed(column, variables) for column in columns)}]"
    if not all(_same(result, results[0]) for result in results):
        raise _NotInTypes
    first = results[0]
    if isinstance(first, int):
        return str(first)
    if isinstance(first, tuple):
        return f"({', '.join(map(str, first))}{',' if len(first) == 1 else ''})"
    return _text(_pattern(first), {})


def _answers(function: Any, patterns: dict[str, Any]) -> tuple[list[dict[_Slot, Any]], list[Any]]:
    """Every choice for the slots that Warp takes, and the result that it gives.

    Raises:
        _NotInTypes: if Warp looked at more than types.
    """
    from warp._src import codegen

    slots = [slot for pattern in patterns.values() for slot in _slots(pattern)]
    ndim = max(1, sum(name in ("i", "j", "k", "l") for name in patterns))
    combinations: Any = itertools.product(*(_choices(slot.kind) for slot in slots))
    if len(slots) > 1:
        everything = list(combinations)
        combinations = everything if len(everything) <= _MOST else random.Random(0).sample(everything, _MOST)
    accepted, results = [], []
    for combination in combinations:
        chosen = dict(zip(slots, combination, strict=True))
        for block_dim in (64, 128):
            codegen.options["block_dim"] = block_dim
            try:
                types = {name: _concrete(pattern, chosen, ndim) for name, pattern in patterns.items()}
                if function.is_builtin():
                    result = function.value_func(types, _Touchy({name.lstrip("*") for name in patterns}))
                else:
                    result = _built(function, types)
            except _NotInTypes:
                raise
            except Exception:
                continue  # refused: the reason does not matter
            result = result.type if isinstance(result, codegen.Var) else result
            result = codegen.strip_reference(result)
            accepted.append(chosen)
            results.append(result)
    if any(all(_same(chosen[slot], accepted[0][slot]) for chosen in accepted) for slot in slots if accepted):
        raise _NotInTypes  # too few were taken to tell how the result follows from them
    return accepted, results


def _built(function: Any, types: dict[str, Any]) -> Any:
    """The result of a builtin that is written in Python."""
    overload = function.get_overload(list(types.values()), {})
    if overload.value_func is None:
        overload.build(None)
    return overload.value_func(types, None)


def _classes(slots: Sequence[_Slot], accepted: Sequence[dict[_Slot, Any]]) -> list[list[_Slot]]:
    """The slots, in groups that are always the same."""
    groups: list[list[_Slot]] = []
    for slot in slots:
        for group in groups:
            first = group[0]
            if slot.kind != first.kind and "NX".find(_LETTERS[slot.kind]) + "NX".find(_LETTERS[first.kind]) > -2:
                continue  # an extent is not a type
            if all(_same(chosen[slot], chosen[first]) for chosen in accepted):
                group.append(slot)
                break
        else:
            groups.append([slot])
    return groups


def _signature(key: str, function: Any) -> str:
    """One overload, as the table has it."""
    patterns = {name: _pattern(type_) for name, type_ in function.input_types.items() if name != "return"}
    names: dict[_Slot, str] = {}
    documented: Any = None
    void = False
    if function.is_builtin():
        try:
            documented = function.value_func(None, None)
            void = documented is None
        except Exception:
            documented = Any
    else:
        documented = Any
    try:
        if any(name.startswith("*") for name in patterns) and not void:
            raise _NotInTypes
        accepted, results = _answers(function, patterns) if not void else ([], [])
        if not accepted and not void:
            raise _NotInTypes
        slots = [slot for pattern in patterns.values() for slot in _slots(pattern)]
        groups = _classes(slots, accepted) if accepted else []
        labelled: dict[str, list[_Slot]] = {}
        for group in groups:
            kind = min((slot.kind for slot in group), key=lambda k: _NARROWEST.index(k) if k in _NARROWEST else 0)
            letter = _LETTERS[kind]
            labelled[f"{letter}{len(labelled)}"] = group
        variables = {label: [chosen[group[0]] for chosen in accepted] for label, group in labelled.items()}
        if void or all(result is None for result in results):
            returns = "None"
        else:
            returns = _expressed(results, variables)
        used: dict[str, str] = {}
        for label, group in labelled.items():
            if len(group) > 1 or label in _words(returns):
                number = 1 + sum(name[0] == label[0] for name in used.values())
                used[label] = label[0] if number == 1 else f"{label[0]}{number}"
                names |= dict.fromkeys(group, used[label])
        returns = _WORD.sub(lambda word: used.get(word[0], word[0]), returns)
    except _NotInTypes:
        returns = _text(_pattern(documented), {})
        if returns not in ("int32", "bool") or "dtype" in patterns:
            returns += "?"
    parameters = []
    for name, pattern in patterns.items():
        text = f"{name}: {_text(pattern, names)}"
        if name in function.defaults:
            default = function.defaults[name]
            text += f" = {_name(default) if isinstance(default, type) else repr(default)}"
        parameters.append(text)
    return f"{key}({', '.join(parameters)}) -> {returns}"


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text))


def _specialised(function: Any, others: Sequence[Any]) -> bool:
    """Whether an overload only spells out a more general one for types that Python callers may pass."""
    from warp._src import types

    mine = function.input_types
    if not function.hidden:
        return False
    rank = sum(1 for type_ in mine.values() for _ in _slots(_pattern(type_)))
    for other in others:
        theirs = other.input_types
        if other is function or list(mine) != list(theirs):
            continue
        if not all(types.types_equal_generic(theirs[name], mine[name]) for name in mine):
            continue
        if sum(1 for type_ in theirs.values() for _ in _slots(_pattern(type_))) > rank:
            return True
    return False


def current() -> dict[str, list[Overload]]:
    """Name → overloads, of the installed Warp."""
    from warp._src import context

    table: dict[str, list[Overload]] = {}
    for key, function in context.builtin_functions.items():
        found = table.setdefault(key, [])
        overloads = list(getattr(function, "overloads", None) or [function])
        for overload in overloads:
            if function.is_builtin() and _specialised(overload, overloads):
                continue
            flags = [] if overload.is_differentiable else ["no gradient"]
            flags += ["hidden"] if overload.hidden else []
            line = Overload(_signature(key, overload), overload.group, tuple(flags))
            if all(line.text != known.text for known in found):
                found.append(line)
    return {key: folded(lines) for key, lines in table.items()} | _attributes()


def _attributes() -> dict[str, list[Overload]]:
    """The attributes of the objects that builtins give, as functions of nothing: ``MeshQueryRay.t() -> float32``."""
    from warp._src import types

    table: dict[str, list[Overload]] = {}
    for cls in vars(types).values():
        attributes = vars(cls).get("vars") if isinstance(cls, type) else None
        if isinstance(attributes, dict):
            for name, var in attributes.items():
                key = f"{cls.__name__}.{name}"
                table[key] = [Overload(f"{key}() -> {_text(_pattern(var.type), {})}", "Attributes", ())]
    return table


def main(path: Path) -> None:
    """Merge the installed Warp's signatures into the table at ``path``.

    Raises:
        BadInput: if the folder of ``path`` is not there.
    """
    import warp

    if not path.parent.is_dir():
        raise BadInput("there is no such folder", where=str(path.parent))
    version = ".".join(warp.__version__.split(".")[:2])
    path.write_text(merge(path, version, current()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The builtins' results without Warp, beside those that Warp's own functions give for the same arguments."""

import itertools
import random
from collections import Counter
from typing import Any

import pytest

wp = pytest.importorskip("warp")

from warp._src import codegen, context, types  # noqa: E402

from warp_audit.audit.source import builtins  # noqa: E402
from warp_audit.audit.source import types as audit_types  # noqa: E402
from warp_audit.audit.source.types import (  # noqa: E402
    Array,
    Matrix,
    Opaque,
    Quaternion,
    Scalar,
    StructType,
    Tile,
    Transformation,
    TupleType,
    Vector,
)

CALLS = 30
"""How many calls of an overload are tried."""
FLOOR = 0.97
"""The part of the calls whose whole result must be known, where every argument's type is known."""
INTERNAL = {"view", "slice", "extract", "store", "load", "copy", "assign", "static"}
"""Builtins that the code generator calls by itself, with things that no source can say."""


@wp.struct
class Pair:
    a: float
    b: int


def known(type_):
    """Warp's type, as the linter has it."""
    if type_ is None:
        return None
    if isinstance(type_, (list, tuple)):
        return TupleType(tuple(map(known, type_)))
    if types.is_tuple(type_):
        return TupleType(tuple(map(known, type_.types)))
    if type_ in (int, float, bool):
        return audit_types.NAMED[type_.__name__]
    if isinstance(type_, codegen.Struct):
        return StructType(type_.cls.__name__)
    hint = getattr(type_, "_wp_generic_type_hint_", None)
    if hint is not None:
        scalar = known(type_._wp_scalar_type_)
        if hint is types.Vector:
            return Vector(type_._shape_[0], scalar)
        if hint is types.Matrix:
            return Matrix(*type_._shape_, scalar)
        return Quaternion(scalar) if hint is types.Quaternion else Transformation(scalar)
    if types.is_tile(type_):
        return Tile(known(type_.dtype), tuple(type_.shape), type_.storage)
    if types.is_array(type_):
        return Array(known(type_.dtype), type_.ndim, types.concrete_array_type(type_).__name__)
    if type_ in types.scalar_types or type_ is types.bool:
        return Scalar(type_.__name__)
    if type(type_).__name__ == "tile_stack":
        return Opaque("tile_stack")
    cls = type_ if isinstance(type_, type) else type(type_)
    if cls.__name__.startswith("_"):
        parent = getattr(cls, "_wp_erase_to_", None)
        return Opaque(parent.__name__ if parent else getattr(cls, "_wp_public_name_", cls.__name__))
    return Opaque(cls.__name__)


def whole(type_) -> bool:
    """Whether nothing of a type is left open, but where a tile is kept and a block's size."""
    if type_ is None:
        return False
    match type_:
        case TupleType(items=items):
            return all(map(whole, items))
        case Tile():
            return whole(type_.dtype) and type_.shape is not None
        case Array():
            return whole(type_.dtype)
        case Vector() | Matrix() | Quaternion() | Transformation():
            return None not in vars(type_).values()
    return True


def agree(ours, theirs) -> bool:
    """Whether what we say of a type is true, as far as we say anything."""
    if ours is None or ours == theirs:
        return True
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        return len(ours) == len(theirs) and all(map(agree, ours, theirs))
    if type(ours) is not type(theirs) or not hasattr(ours, "__dataclass_fields__"):
        return False
    fields = [name for name in ours.__dataclass_fields__ if name != "declared"]
    if isinstance(ours, Tile) and ours.storage is None:
        fields.remove("storage")
    return all(agree(getattr(ours, name), getattr(theirs, name)) for name in fields)


def choices(name, type_):
    """Values for one parameter: Warp's argument and what the source says it is."""
    if name == "dtype":
        return [(t, known(t)) for t in (types.float32, types.float64, types.int32, types.vec3f)]
    if name == "storage":
        return [("shared", "shared"), ("register", "register")]
    if name in ("shape", "offset") and type_ is not int:
        return [((4,), (4,)), ((2, 3), (2, 3)), ((4, 4), (4, 4)), ((2, 2, 2), (2, 2, 2))]
    if name in ("shape", "length", "n", "capacity"):
        return [(4, 4), (3, 3)]
    if name == "axis":
        return [(0, 0), (1, 1)] if type_ is int else [((0,), (0,))]
    if name in ("preserve_type", "bounds_check", "aligned"):
        return [(True, True), (False, False)]
    if type_ is str:
        return [("lower", "lower")]
    return [(codegen.Var(name, t), None) for t in concrete(type_)]


def concrete(type_):
    """Warp types that a parameter may take."""
    if type_ is types.Float:
        return [types.float32, types.float64, types.float16]
    if type_ is types.Int:
        return [types.int32, types.uint64, types.int8]
    if type_ is types.Scalar:
        return [types.float32, types.int32, types.float64, types.uint8]
    if type_ is Any:
        return [types.float32, types.int32, types.vec3f, types.vec2d, types.mat33d, types.quatf, Pair, tile(wp.float32)]
    hint = getattr(type_, "_wp_generic_type_hint_", None)
    if hint is not None:
        scalars = concrete(type_._wp_scalar_type_)
        scalars = [s for s in scalars if s in types.scalar_types] or [type_._wp_scalar_type_]
        extents = [[n] if n > 0 else [2, 3, 5] for n in type_._shape_]
        if hint is types.Vector:
            return [types.vector(n, s) for n, s in itertools.product(*extents, scalars)]
        if hint is types.Matrix:
            return [types.matrix((n, m), s) for n, m, s in itertools.product(*extents, scalars)]
        return [(types.quaternion if hint is types.Quaternion else types.transformation)(s) for s in scalars]
    if types.is_tile(type_):
        dtypes = [t for t in concrete(type_.dtype) if not types.is_tile(t)]
        return [tile(t, shape) for t in dtypes for shape in ((4,), (2, 3), (4, 4))]
    if types.is_array(type_):
        cls = types.concrete_array_type(type_)
        dtypes = [t for t in concrete(type_.dtype) if not types.is_tile(t)]
        if cls is types.fixedarray:
            return [cls(dtype=t, shape=(2,) * n) for t in dtypes for n in (1, 2)]
        return [cls(dtype=t, ndim=n) for t in dtypes for n in (1, 2, 3)]
    return [type_]


def tile(dtype, shape=(4,)):
    return types.tile(dtype=dtype, shape=shape)


def calls(overload, generator):
    """Arguments for an overload: all of them, or the required ones, or as keywords."""
    parameters = {n: t for n, t in overload.input_types.items() if n != "return"}
    required = [n for n in parameters if n not in overload.defaults and not n.startswith("*")]
    variadic = [n for n in parameters if n.startswith("*")]
    for turn in range(CALLS):
        given = required if generator.random() < 0.5 else [n for n in parameters if not n.startswith("*")]
        positional = []
        if variadic:
            options = choices("args", parameters[variadic[0]])
            same = generator.choice(options)
            count = generator.choice((0, 1, 2, 3, 4, 7, 9))
            positional = [same if generator.random() < 0.9 else generator.choice(options) for _ in range(count)]
        values = {}
        for name in given:
            options = choices(name, parameters[name])
            # Parameters of one kind are mostly of one type: others are refused.
            seed = generator.choice((0, 1, 2, 3)) if generator.random() < 0.3 else turn
            values[name] = options[seed % len(options)]
        keywords = set(values) if variadic else {n for n in values if n in overload.defaults}
        before = [values[n] for n in given if n not in keywords]
        # What stands before ``*args`` is given by place.
        if variadic:
            first = list(parameters)[: list(parameters).index(variadic[0])]
            before = [values[n] for n in given if n in first]
            keywords -= set(first)
        yield [*before, *positional], {n: values[n] for n in given if n in keywords}


def theirs(function, arguments, keywords):
    """Warp's answer.

    Raises:
        Exception: if Warp refuses the call.
    """
    values = [value for value, _ in arguments]
    named = {name: value for name, (value, _) in keywords.items()}
    taken = tuple(map(codegen.get_arg_type, values))
    overload = codegen.Adjoint.resolve_func(
        None, function, taken, {n: codegen.get_arg_type(v) for n, v in named.items()}, None
    )
    bound = overload.signature.bind(*values, **named)
    defaults = {n: v for n, v in overload.defaults.items() if v is not None}
    # ``wp.spatial_vector`` is a type and a builtin: the type says the ``dtype``.
    said = getattr(getattr(wp, function.key, None), "_wp_type_args_", {})
    if any(n in bound.arguments and bound.arguments[n] != v for n, v in said.items()):
        raise TypeError("said twice")
    defaults |= {n: v for n, v in said.items() if n in overload.input_types}
    codegen.apply_defaults(bound, {n: v for n, v in defaults.items() if n not in bound.arguments})
    bound_types = {n: codegen.get_arg_type(v) for n, v in bound.arguments.items()}
    bound_values = {n: codegen.get_arg_value(v) for n, v in bound.arguments.items()}
    answer = overload.value_func(bound_types, bound_values)
    answer = answer.type if isinstance(answer, codegen.Var) else answer
    if isinstance(answer, (list, tuple)) and len(answer) == 1:
        answer = answer[0]
    return known(codegen.strip_reference(answer))


def seen(value, constant):
    """The type of an argument, as inference has it."""
    if isinstance(value, codegen.Var):
        return known(value.type)
    if isinstance(constant, bool):
        return audit_types.BOOL
    if isinstance(constant, int):
        return audit_types.INT32
    if isinstance(constant, str):
        return audit_types.STRING
    return TupleType((audit_types.INT32,) * len(constant)) if isinstance(constant, tuple) else None


def ours(name, arguments, keywords, unknown=None):
    """Our answer, with one argument's type not known if asked."""

    def constants(which):
        given = arguments[which] if isinstance(which, int) else keywords[which]
        return given[1] if which != unknown else None

    taken = [seen(*given) if i != unknown else None for i, given in enumerate(arguments)]
    named = {n: seen(*given) if n != unknown else None for n, given in keywords.items()}
    return builtins.result(name, taken, named, constants)


def test_results_are_those_of_warp():
    generator = random.Random(7)
    codegen.options["block_dim"] = 4  # the extent of the tiles here
    wrong, open_, count, refused = [], Counter(), 0, 0
    partly = 0
    for name, function in context.builtin_functions.items():
        if not function.is_builtin() or name in INTERNAL or name.startswith("tile_map"):
            continue
        for overload in function.overloads:
            if overload.hidden and len(function.overloads) > 30:
                continue  # spelled out for Python callers
            for arguments, keywords in calls(overload, generator):
                try:
                    expected = theirs(function, arguments, keywords)
                except Exception:
                    refused += 1
                    continue
                if expected is None:
                    found = ours(name, arguments, keywords)
                    if found is not None:
                        wrong.append(f"{name}: {found} for nothing")
                    continue
                shown = f"{name}({', '.join(map(str, [*map(_show, arguments), keywords.keys()]))})"
                found = ours(name, arguments, keywords)
                count += 1
                if not agree(found, expected):
                    wrong.append(f"{shown}: {found}, Warp says {expected}")
                if not whole(found):
                    open_[name] += 1
                for unknown in [*range(len(arguments)), *keywords]:
                    found = ours(name, arguments, keywords, unknown)
                    partly += found is not None
                    if not agree(found, expected):
                        wrong.append(f"{shown} without {unknown}: {found}, Warp says {expected}")
    part = 1 - open_.total() / count
    message = f"{count} calls ({refused} refused), {part:.1%} wholly known, {partly} known with a gap; open: {open_}"
    print(message)
    assert not wrong, "\n".join([message, f"{len(wrong)} contradictions", *sorted(set(wrong))[:40]])
    assert part >= FLOOR, message
    assert count > 5000


def _show(given):
    return seen(*given) if given[1] is None else given[1]


def test_attributes_are_those_of_warp():
    for cls in (wp.MeshQueryPoint, wp.MeshQueryRay, wp.Mesh):
        for name, var in cls.vars.items():
            assert builtins.attribute(Opaque(cls.__name__), name) == known(var.type)


def test_every_builtin_of_warp_is_known():
    assert [name for name in context.builtin_functions if not builtins.is_builtin(name)] == []

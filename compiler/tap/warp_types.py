"""Warp's types as IR types."""

from __future__ import annotations

from typing import Any

from warp_audit.compiler.ir.types import (
    SCALARS,
    Array,
    Composite,
    FixedArray,
    Native,
    Reference,
    Scalar,
    Struct,
    Tile,
    Tuple,
    Type,
)

_FAMILIES = {"vec_t": "vec", "mat_t": "mat", "quat_t": "quat", "transform_t": "transform"}


class TypeReader:
    """Reads Warp types, each once; remembers the structs met."""

    def __init__(self) -> None:
        self.structs: dict[str, Any] = {}
        self._known: dict[int, tuple[Any, Type]] = {}

    def read(self, warp_type: Any) -> Type:
        """The IR type of a Warp type.

        A type that the IR has no shape for, or whose C++ spelling differs from ours, is kept by
        its C++ name.
        """
        known = self._known.get(id(warp_type))
        if known is not None:
            return known[1]
        from warp._src.codegen import Var

        try:
            spelled = Var.type_to_ctype(warp_type)
        except (AttributeError, TypeError):
            found: Type = Native(f"python:{getattr(warp_type, '__name__', warp_type)}".replace(">", ")"))
        else:
            found = self._shape(warp_type) or Native(spelled)
            if found.ctype() != spelled:
                found = Native(spelled)
        self._known[id(warp_type)] = (warp_type, found)
        return found

    def _shape(self, t: Any) -> Type | None:
        from warp._src import codegen, types

        if types.is_reference(t) if hasattr(types, "is_reference") else codegen.is_reference(t):
            return Reference(self.read(t.value_type))
        if types.is_tile(t):
            if not isinstance(t.shape, (tuple, list)) or not t.shape:
                return None
            strides = tuple(int(s) for s in t.strides)
            return Tile(self.read(t.dtype), tuple(int(s) for s in t.shape), t.storage, strides, bool(t.owner))
        is_stack = getattr(types, "is_tile_stack", None)
        if is_stack is not None and is_stack(t):
            return Native(t.ctype(), t.cinit())
        if isinstance(t, types.fixedarray):
            return FixedArray(self.read(t.dtype), int(t.size), int(t.ndim))
        if types.is_array(t):
            family = getattr(t, "_concrete_cls", type(t)).__name__
            return Array(family, self.read(t.dtype), int(t.ndim)) if isinstance(t.ndim, int) else None
        if types.is_tuple(t):
            return Tuple(tuple(self.read(x) for x in t.types))
        if isinstance(t, codegen.Struct):
            self.structs.setdefault(t.native_name, t)
            return Struct(t.native_name)
        if isinstance(t, type) and issubclass(t, codegen.StructInstance):
            return Struct(str(getattr(t, "native_name", t.__name__)))
        generic = getattr(t, "_wp_generic_type_str_", None)
        if generic in _FAMILIES:
            parameters = list(t._wp_type_params_)
            scalar = self.read(parameters[-1])
            if isinstance(scalar, Scalar):
                return Composite(_FAMILIES[generic], tuple(int(p) for p in parameters[:-1]), scalar)
        name = getattr(t, "__name__", "")
        return Scalar(name) if name in SCALARS else None

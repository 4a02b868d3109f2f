"""Declares the rule ``func-mutates-value-param``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.device import store_bases, through_array
from warp_audit.audit.source.literals import settled
from warp_audit.audit.source.types import Matrix, Quaternion, Transformation, Vector
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Def


class FuncMutatesValueParam(Rule):
    """A func changes a parameter that it was given by value.

    What it finds: a func that stores to a component or field of a vector, matrix or struct parameter and neither
    returns nor uses it afterwards.

    Why it matters: parameters that are not arrays are copies. The caller's value stays as it was, without a word.

    Instead: return the changed value, or take the array and the index.
    """

    code = "WPA605"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#878",)
    BAD = (
        """
        @wp.struct
        class Ray:
            origin: wp.vec3
            length: float

        @wp.func
        def shorten(ray: Ray, by: float):
            ray.length -= by  # error: WPA605

        @wp.func
        def lift(p: wp.vec3, h: float):
            if p.y < h:
                p.y = h  # error: WPA605

        @wp.func
        def push(v: wp.vec3, by: wp.vec3, n: int):
            v += by  # error: WPA605
            n += 1
        """,
    )
    GOOD = (
        """
        @wp.func
        def lift(p: wp.vec3, h: float) -> wp.vec3:
            p[1] = h
            return p

        @wp.func
        def height(p: wp.vec3, out: wp.array(dtype=float), i: int):
            p[1] = 0.0
            out[i] = wp.length(p)
            out[0] = 1.0

        @wp.func
        def longest(size: wp.vec3):
            radius = size[0]
            size[0] = 0.0
            result = wp.length(size)
            size[0] = radius
            return result
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function.kind != "func":
            return
        for definition in function.flow.defs:
            if definition.kind not in ("component", "augment") or definition.node is None:
                continue
            if not _is_parameter(function, definition):
                continue
            if definition.kind == "augment" and not isinstance(function.def_type(definition), _COMPOSITE):
                continue  # Python's numbers are copies too
            if through_array(function, definition.node) or _restores(function, definition):
                continue
            if not function.flow.uses_of(definition) - store_bases(function):
                yield self.at(
                    function,
                    definition.node,
                    f"'{definition.name}' is a copy of what the caller gave, so this change is lost",
                    f"return '{definition.name}', or take an array",
                )


def _restores(function: DeviceFunction, definition: Def) -> bool:
    """Whether a store puts back what was read from the same place."""
    value = settled(function, definition.value) if definition.value is not None else None
    return (
        value is not None
        and value is not definition.value
        and ast.unparse(value) == ast.unparse(definition.node or value)
    )


_COMPOSITE = (Vector, Matrix, Quaternion, Transformation)


def _is_parameter(function: DeviceFunction, definition: Def) -> bool:
    first: Def | None = definition
    while first is not None and first.kind in ("component", "augment"):
        first = first.previous
    if first is not None and first.kind in ("phi", "loop_phi"):
        return any(origin.kind == "parameter" for origin in first.origins())
    return first is not None and first.kind == "parameter"

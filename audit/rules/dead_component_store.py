"""Declares the rule ``dead-component-store``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.device import split_subscript, store_bases, through_array
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Def


class DeadComponentStore(Rule):
    """A component of a local copy is changed, and the copy is never used again.

    What it finds: ``v = a[i]`` followed by ``v[2] = x`` (or ``v.z = x``, ``s.field = x``), where nothing reads
    ``v`` behind the store.

    Why it matters: a vector, matrix or struct that is read from an array is a copy. The array stays as it was,
    without a word.

    Instead: store the copy back, ``a[i] = v``, or store through the array: ``a[i][2] = x``.
    """

    code = "WPA602"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#124",)
    BAD = (
        """
        @wp.struct
        class Body:
            mass: float
            place: wp.vec3

        @wp.kernel
        def heavier(bodies: wp.array(dtype=Body), speed: wp.array(dtype=wp.vec3)):
            i = wp.tid()
            b = bodies[i]
            b.mass = b.mass * 2.0  # error: WPA602
            v = speed[i]
            v[0] += 1.0  # error: WPA602
            p = bodies[i].place
            p.x = 0.0  # error: WPA602
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def flatten(pos: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
            i = wp.tid()
            p = pos[i]
            p[2] = 0.0
            out[i] = wp.length(p)
            q = pos[i]
            for k in range(3):
                out[i] += q[k]
                q[k] = 0.0
            pos[i][1] = 0.0
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for definition in function.flow.defs:
            if definition.kind != "component" or definition.site is None or definition.node is None:
                continue
            source = _copied(function, definition)
            if source is None or through_array(function, definition.node) or _is_read(function, definition):
                continue
            yield self.at(
                function,
                definition.node,
                f"'{definition.name}' is a copy of '{source}' and is not used again, so the change is lost",
                f"store it back: {source} = {definition.name}",
            )


def _copied(function: DeviceFunction, definition: Def) -> str | None:
    """The array element that a local was copied from."""
    first = definition.previous
    while first is not None and first.kind == "component":
        first = first.previous
    if first is None or first.kind != "assign" or first.index is not None:
        return None
    element = first.value
    while isinstance(element, ast.Attribute):
        element = element.value
    if not isinstance(element, ast.Subscript) or first.value is None:
        return None
    base, _ = split_subscript(element)
    return ast.unparse(first.value) if function.array_type(base) is not None else None


def _is_read(function: DeviceFunction, definition: Def) -> bool:
    """Whether anything but another store to a component reads the value, or a field of it."""
    return bool(function.flow.uses_of(definition) - store_bases(function))

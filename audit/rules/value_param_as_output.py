"""Declares the rule ``value-param-as-output``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.device import store_bases, through_array
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Def


class ValueParamAsOutput(Rule):
    """A kernel changes a parameter that it was given by value.

    What it finds: a kernel that stores to a component or field of a vector, matrix or struct parameter and does not
    use it afterwards.

    Why it matters: the kernel has a copy. The object of the host keeps its old value, also if it stands among the
    outputs.

    Instead: pass an array of one element and store to ``out[0]``.
    """

    code = "WPA111"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#541", "NVIDIA/warp#411")
    BAD = (
        """
        @wp.struct
        class Range:
            low: float
            high: float

        @wp.kernel
        def fit(x: wp.array(dtype=float), r: Range, m: wp.mat22):
            i = wp.tid()
            if x[i] > r.high:
                r.high = x[i]  # error: WPA111
            m[0, 0] += x[i]  # error: WPA111
        """,
    )
    GOOD = (
        """
        @wp.struct
        class Range:
            values: wp.array(dtype=float)
            high: float

        @wp.kernel
        def clip(x: wp.array(dtype=float), r: Range, v: wp.vec3):
            i = wp.tid()
            v[1] = 0.0
            r.values[i] = wp.min(x[i], r.high) + v[0]
            r.high = 2.0 * r.high
            x[i] = r.high + wp.length(v)
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        for definition in kernel.flow.defs:
            if definition.kind != "component" or definition.node is None or through_array(kernel, definition.node):
                continue
            if not any(origin.kind == "parameter" for origin in _first(definition).origins()):
                continue
            if not kernel.flow.uses_of(definition) - store_bases(kernel):
                yield self.at(
                    kernel,
                    definition.node,
                    f"'{definition.name}' is passed by value: this change stays in the thread and is lost",
                    "pass an array and store to its element",
                )


def _first(definition: Def) -> Def:
    first = definition
    while first.kind == "component" and first.previous is not None:
        first = first.previous
    return first

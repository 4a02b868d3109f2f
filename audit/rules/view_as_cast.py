"""Declares the rule ``view-as-cast``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.annotations import annotation_type
from warp_audit.audit.source.types import Scalar, Type, element
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction


class ViewAsCast(Rule):
    """A view with another element type stands where a conversion is meant.

    What it finds: ``x.view(dtype)`` of an array whose scalars have another kind or width than the new type's.

    Why it matters: a view reads the same bits as another type: a float's bits become some integer. Warp raises only
    if the sizes differ.

    Instead: convert: ``wp.utils.array_cast(in_array=x, out_array=y)``, or a kernel.
    """

    code = "WPA119"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#3986",)
    calls = frozenset(("view",))
    BAD = (
        """
        class Terrain:
            def __init__(self, heights):
                self.h = wp.array(heights, dtype=wp.float64)

            def steps(self):
                return self.h.view(dtype=wp.int64)  # error: WPA119
        """,
    )
    GOOD = (
        """
        def flat(points, other):
            p = wp.array(points, dtype=wp.vec3)
            bits = wp.zeros(8, dtype=wp.uint32)
            return p.view(wp.float32), other.view(wp.int32), bits.view(wp.int32)
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        for call in function.calls:
            if call.name != ".view" or call.receiver is None:
                continue
            wanted = _scalar(annotation_type(call.argument("dtype", 0), function.scope))
            fact = function.array(call.receiver)
            have = _scalar(fact.dtype) if fact is not None else None
            if wanted is None or have is None:
                continue
            if have.is_float != wanted.is_float or have.bits != wanted.bits:
                yield self.at(
                    function, call.node, f"the view reads the bits of {have} as {wanted}; it does not convert them",
                    "convert with wp.utils.array_cast",
                )  # fmt: skip


def _scalar(type: Type | None) -> Scalar | None:
    inner = type if isinstance(type, Scalar) else element(type)
    return inner if isinstance(inner, Scalar) else None

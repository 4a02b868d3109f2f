"""Declares the rule ``unannotated-parameter``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class UnannotatedParameter(Rule):
    """A parameter of a kernel or func has no type.

    What it finds: a kernel or ``@wp.func`` with a parameter that is not annotated.

    Why it matters: Warp refuses the declaration while the file is imported.

    Instead: annotate it; ``typing.Any`` lets each call decide.
    """

    code = "WPA615"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    BAD = (
        """
        @wp.func
        def scale(x, factor: float):  # error: WPA615
            return x * factor

        @wp.kernel
        def apply(a: wp.array(dtype=float), factor):  # error: WPA615
            i = wp.tid()
            a[i] = scale(a[i], factor)
        """,
    )
    GOOD = (
        """
        from typing import Any

        @wp.func
        def scale(x: Any, factor: float):
            return x * factor

        def plain(x, factor):
            return x * factor

        class Emitter:
            @wp.kernel
            def age(self, t: wp.array(dtype=float)):
                t[wp.tid()] += 1.0
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function.kind not in ("kernel", "func", "native"):
            return
        for parameter in function.parameters[1 if function.is_method else 0 :]:
            if parameter.node.annotation is None:
                yield self.at(
                    function,
                    parameter.node,
                    f"'{parameter.name}' of '{function.name}' has no type, and Warp asks for one",
                )

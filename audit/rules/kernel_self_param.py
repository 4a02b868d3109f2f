"""Declares the rule ``kernel-self-param``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class KernelSelfParam(Rule):
    """A kernel is declared as a method of an object.

    What it finds: a kernel or func in a class whose first parameter has no annotation, such as ``self``.

    Why it matters: Warp wants a type for each parameter and refuses the declaration, so the module cannot be imported.

    Instead: leave ``self`` out and launch it as ``Class.kernel``; give the kernel what it needs as arguments.
    """

    code = "WPA645"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#87",)
    BAD = (
        """
        class Emitter:
            @wp.func
            def decay(self, t: float):  # error: WPA645
                return 0.5 * t

            @wp.kernel
            def clear(emitter, t: wp.array(dtype=float)):  # error: WPA645
                t[wp.tid()] = 0.0
        """,
    )
    GOOD = (
        """
        class Emitter:
            @wp.kernel
            def age(t: wp.array(dtype=float)):
                i = wp.tid()
                t[i] = t[i] + 1.0

            def run(self, t):
                wp.launch(Emitter.age, dim=t.shape[0], inputs=[t])
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if not function.parameters or function.node.args.args[:1] == []:
            return
        first = function.parameters[0]
        if (function.is_method or first.name in ("self", "cls")) and first.node.annotation is None:
            yield self.at(
                function,
                first.node,
                f"'{function.name}' takes '{first.name}' as its first parameter, which has no Warp type",
            )

"""Declares the rule ``launch-missing-device``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Safety, SetKeyword
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.devices import kept_device, scoped
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import Launch


class LaunchMissingDevice(Rule):
    """An object that carries its own device starts a kernel without passing it on.

    What it finds: a launch without ``device`` in a method of a class that keeps ``self.device`` and passes it to
    other launches or allocations, outside a ``wp.ScopedDevice``.

    Why it matters: Warp takes the current default device instead and, in its default mode, checks nothing. On a machine
    with two GPUs, or for an object on the CPU, the kernel runs in the wrong place.

    Instead: pass ``device=self.device``.
    """

    code = "WPA113"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("newton-physics/newton#3456",)
    fix_safety = Safety.SAFE
    BAD = (
        """
        @wp.kernel
        def clear(x: wp.array(dtype=float)):
            x[wp.tid()] = 0.0

        class Filter:
            def __init__(self, n, device):
                self.device = device
                self.x = wp.zeros(n, device=device)
                self.y = wp.zeros(n, device=self.device)

            def reset(self):
                wp.launch(clear, dim=len(self.x), inputs=[self.x])  # error: WPA113
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def clear(x: wp.array(dtype=float)):
            x[wp.tid()] = 0.0

        class Filter:
            def __init__(self, n, device):
                self.device = device
                self.x = wp.zeros(n, device=self.device)

            def reset(self):
                with wp.ScopedDevice(self.device):
                    wp.launch(clear, dim=len(self.x), inputs=[self.x])
                wp.launch(clear, dim=len(self.x), inputs=[self.x], device=self.x.device)

        class Plain:
            def reset(self):
                wp.launch(clear, dim=len(self.x), inputs=[self.x])
        """,
    )

    def launch(self, launch: Launch) -> Iterator[Finding]:
        owner = launch.function.class_scope
        if owner is None or launch.argument("device") is not None or launch.argument("stream") is not None:
            return
        if any(keyword.arg is None for keyword in launch.node.keywords) or scoped(launch.function, launch.site):
            return
        device = kept_device(owner)
        if device is not None:
            edit = SetKeyword(Place.of(launch.node), "device", f"self.{device}")
            yield self.at(
                launch,
                launch.node.func,
                f"'{owner.name}' keeps its device in 'self.{device}', but this launch goes to the default device",
                fix=self.mend(f"pass device=self.{device}", edit),
            )

"""Declares the rule ``array-device-mismatch``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.devices import scoped, sets_default
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.arrays import ArrayFact
    from warp_audit.audit.source.host import Launch


class ArrayDeviceMismatch(Rule):
    """An array of a launch was made on another device than the launch names.

    What it finds: a launch with a constant ``device``, such as ``"cpu"``, and an argument that was made in the same
    function on the default device, or on another constant one.

    Why it matters: Warp does not check this in its default mode. On a machine with a GPU the default device is the GPU,
    and the process ends with a segmentation fault or error 700.

    Instead: make the array with the same ``device``.
    """

    code = "WPA115"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1693",)
    BAD = (
        """
        @wp.kernel
        def twice(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = 2.0 * x[i]

        def on_host(n):
            x = wp.ones(n, dtype=float, device="cuda:0")
            y = wp.array([1.0, 2.0], dtype=float)
            wp.launch(twice, dim=n, inputs=[x], device="cpu")  # error: WPA115
            wp.launch(twice, dim=n, inputs=[y], device="cpu")  # error: WPA115
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def twice(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = 2.0 * x[i]

        def on_host(n, other):
            x = wp.ones(n, dtype=float, device="cpu")
            wp.launch(twice, dim=n, inputs=[x], device="cpu")
            wp.launch(twice, dim=n, inputs=[other], device="cpu")
            with wp.ScopedDevice("cpu"):
                y = wp.ones(n, dtype=float)
            wp.launch(twice, dim=n, inputs=[y], device="cpu")
        """,
    )

    def launch(self, launch: Launch) -> Iterator[Finding]:
        device = launch.argument("device")
        name = launch.function.constant(device) if device is not None else None
        if not isinstance(name, str):
            return
        for argument in launch.arguments or []:
            fact = launch.function.array(argument)
            if fact is None or fact.function is not launch.function or sets_default(launch.function):
                continue
            where = self._elsewhere(launch, fact, name)
            if where is not None:
                yield self.at(
                    launch,
                    argument,
                    f"'{ast.unparse(argument)}' was made on {where} in line {fact.made.lineno}, but the launch "
                    f"goes to '{name}'",
                    f"make it with device={name!r}",
                )

    def _elsewhere(self, launch: Launch, fact: ArrayFact, name: str) -> str | None:
        """Where the array is, if that is another device."""
        if fact.default_device:
            if name != "cpu":
                return None  # the default device is the GPU where there is one
            site = launch.function.flow.sites[fact.made]
            return None if scoped(launch.function, site) else "the default device"
        own = launch.function.constant(fact.device)
        if not isinstance(own, str) or own == name or {own, name} <= {"cuda", "cuda:0"}:
            return None
        return f"'{own}'"

"""Declares the rule ``launch-arg-count``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import Launch


class LaunchArgCount(Rule):
    """A launch gives the kernel another number of arguments than it has parameters.

    What it finds: a launch whose ``inputs`` and ``outputs`` are listed in the text and add up to more or fewer
    items than the kernel declares.

    Why it matters: Warp counts only when the line runs. A launch on a path that no test takes fails in production.

    Instead: give one item for each parameter, inputs first; ``None`` stands for an array that is not needed.
    """

    code = "WPA102"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    BAD = (
        """
        @wp.kernel
        def scale(x: wp.array(dtype=float), factor: float, y: wp.array(dtype=float)):
            i = wp.tid()
            y[i] = factor * x[i]

        def run(x, y):
            args = [x, 2.0]
            wp.launch(scale, dim=x.shape[0], inputs=args)  # error: WPA102
            wp.launch(scale, x.shape[0], [x, 2.0], [y, y])  # error: WPA102
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def scale(x: wp.array(dtype=float), factor: float, y: wp.array(dtype=float)):
            i = wp.tid()
            y[i] = factor * x[i]

        def run(x, y, more):
            args = [x, 2.0]
            wp.launch(scale, dim=x.shape[0], inputs=args, outputs=[y])
            wp.launch(scale, dim=x.shape[0], inputs=[x, *more])
            args.append(y)
            wp.launch(scale, dim=x.shape[0], inputs=args)
        """,
    )

    def launch(self, launch: Launch) -> Iterator[Finding]:
        given = launch.arguments
        if given is None or not launch.kernels or not launch.reached.complete:
            return
        counts = {len(kernel.parameters) for kernel in launch.kernels}
        if len(given) in counts or any(kernel.node.args.vararg for kernel in launch.kernels):
            return
        kernel = launch.kernels[0]
        if "entry_point_abi" in kernel.options or "entry_point_abi" in str(kernel.options.keys()):
            return
        names = [parameter.name for parameter in kernel.parameters]
        notes = []
        if len(given) < len(names):
            notes.append(f"nothing is given for {', '.join(repr(name) for name in names[len(given) :])}")
        yield self.at(
            launch,
            launch.node.func,
            f"the launch gives {len(given)} arguments, but '{kernel.name}' has {len(names)} parameters",
            *notes,
        )

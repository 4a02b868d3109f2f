"""Declares the rule ``launch-scalar-range``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.types import Scalar
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import Launch


class LaunchScalarRange(Rule):
    """A constant argument of a launch does not fit the parameter's integer type.

    What it finds: an integer constant beyond the range of the integer type that the kernel declares for it.

    Why it matters: Warp packs the value through ``ctypes``, which cuts it to the type's bits without a message.

    Instead: declare the parameter wider: ``wp.int64``.
    """

    code = "WPA105"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    BAD = (
        """
        LIMIT = 5 * 10**9

        @wp.kernel
        def fill(limit: wp.int32, level: wp.uint8, out: wp.array(dtype=int)):
            i = wp.tid()
            out[i] = limit + int(level)

        def run(out):
            top = LIMIT + 1
            wp.launch(fill, dim=1, inputs=[top, 0, out])  # error: WPA105
            wp.launch(fill, dim=1, inputs=[0, -1, out])  # error: WPA105
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def fill(limit: wp.int64, level: wp.uint8, out: wp.array(dtype=int)):
            i = wp.tid()
            out[i] = int(limit) + int(level)

        def run(out):
            wp.launch(fill, dim=1, inputs=[5 * 10**9, 255, out])
        """,
    )

    def launch(self, launch: Launch) -> Iterator[Finding]:
        kernel = launch.kernel
        if kernel is None:
            return
        for parameter, argument in launch.pairs(kernel):
            wanted = parameter.type
            if not isinstance(wanted, Scalar) or not wanted.is_integer:
                continue
            value = launch.function.constant(argument)
            if not isinstance(value, int) or isinstance(value, bool):
                continue
            low, high = wanted.limits
            if not low <= value <= high:
                yield self.at(
                    launch,
                    argument,
                    f"{value} does not fit the parameter '{parameter.name}' of '{kernel.name}', which is "
                    f"{wanted}: it is cut",
                )

"""Declares the rule ``tid-flatten-int32``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import Launch

LARGEST = 2**31 - 1
"""The largest thread coordinate: it is a signed 32-bit integer."""


class TidFlattenInt32(Rule):
    """A launch has more threads along one extent than a thread coordinate can count.

    What it finds: an extent that is a constant of 2³¹ or more.

    Why it matters: ``wp.tid()`` is a signed 32-bit integer. Warp 1.19 refuses the launch; older versions wrapped to
    negative indices, silently.

    Instead: launch over several extents and unpack as many coordinates.
    """

    code = "WPA110"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1799",)
    BAD = (
        """
        SIDE = wp.constant(1300)

        @wp.kernel
        def clear(grid: wp.array3d(dtype=float)):
            i = wp.tid()
            grid[i // (SIDE * SIDE), (i // SIDE) % SIDE, i % SIDE] = 0.0

        def run(grid):
            total = 2048 * 1024 * 1024
            wp.launch(clear, dim=total, inputs=[grid])  # error: WPA110
            wp.launch(clear, dim=(1 << 31,), inputs=[grid])  # error: WPA110
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def clear(grid: wp.array3d(dtype=float)):
            x, y, z = wp.tid()
            grid[x, y, z] = 0.0

        def run(grid):
            wp.launch(clear, dim=(2048, 1024, 1024), inputs=[grid])
        """,
    )

    def launch(self, launch: Launch) -> Iterator[Finding]:
        for extent in launch.extents or []:
            value = launch.function.constant(extent)
            if isinstance(value, int) and value > LARGEST:
                yield self.at(
                    launch,
                    extent,
                    f"{value:,} threads along one extent are more than a 32-bit thread coordinate counts",
                )

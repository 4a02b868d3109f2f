"""Declares the rule ``launch-dim-rank``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import Launch


class LaunchDimRank(Rule):
    """A launch has more or fewer extents than the kernel reads thread coordinates.

    What it finds: a launch whose ``dim`` has another number of extents than the kernel's
    ``i, j = wp.tid()`` unpacks, where the text tells both.

    Why it matters: Warp does not compare the two. An extent too many repeats every thread, so sums
    come out too large and stores race; one too few counts as 1, so most of the work is never done.

    Instead: give ``dim`` one extent for each coordinate, or unpack as many coordinates as ``dim`` has extents.
    """

    code = "WPA101"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1389", "NVIDIA/warp#1390")
    BAD = (
        """
        @wp.kernel
        def row_sums(grid: wp.array2d(dtype=float), sums: wp.array(dtype=float)):
            row = wp.tid()
            for col in range(grid.shape[1]):
                sums[row] += grid[row, col]

        def sum_rows(grid, sums):
            wp.launch(row_sums, dim=grid.shape, inputs=[grid, sums])  # error: WPA101
        """,
        """
        @wp.kernel
        def fade(image: wp.array2d(dtype=float)):
            y, x = wp.tid()
            image[y, x] *= 0.5

        def fade_all(image, height):
            wp.launch(fade, int(height), [image])  # error: WPA101
            wp.launch(fade, dim=len(image), inputs=[image])  # error: WPA101
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def fade(image: wp.array2d(dtype=float)):
            y, x = wp.tid()
            image[y, x] *= 0.5

        def fade_all(image, size):
            wp.launch(fade, dim=image.shape, inputs=[image])
            wp.launch(fade, dim=size, inputs=[image])
            wp.launch_tiled(fade, dim=[image.shape[0]], inputs=[image], block_dim=32)
        """,
    )

    def launch(self, launch: Launch) -> Iterator[Finding]:
        kernel, rank = launch.kernel, launch.rank
        if kernel is None or rank is None or launch.dim is None:
            return
        read = kernel.tid_arity
        if read is None:
            return
        # `launch_tiled` adds the lane as a last coordinate, which a kernel may read or leave.
        allowed = {rank, rank + 1} if launch.tiled else {rank}
        if read in allowed:
            return
        extents, coordinates = _count(rank, "extent"), _count(read, "thread coordinate")
        effect = "every thread runs again for the surplus" if rank > read else "the missing extent counts as 1"
        yield self.at(
            launch, launch.dim, f"the launch has {extents}, but '{kernel.name}' reads {coordinates}: {effect}"
        )


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"

"""Declares the rule ``tile-block-dim``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.tiles import tile_calls
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.host import Launch

SORTING = {1, 32, 64, 128, 256, 512}
"""Block sizes with which ``tile_sort`` is right: whole warps, and a number of warps that divides the 16 buckets of
a radix pass (``native/tile_radix_sort.h``); 1 is the CPU's block."""
LARGEST = 1024
"""Threads that a CUDA block can have."""


class TileBlockDim(Rule):
    """A block size that a tile operation, or the GPU, does not handle.

    What it finds: a launch with a constant ``block_dim`` above 1024, or one that is not 32, 64, 128, 256 or 512 for a
    kernel that sorts a tile.

    Why it matters: ``wp.tile_sort`` works with whole warps and 16 buckets for all of them. With other block sizes it
    returns a wrong order or reads out of bounds, without a message.

    Instead: launch the kernel with one of these block sizes.
    """

    code = "WPA810"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1748", "NVIDIA/warp#1617")
    words = ("tile",)
    BAD = (
        """
        @wp.func
        def order(x: wp.array(dtype=float), y: wp.array(dtype=int)):
            k = wp.tile_load(x, shape=64, storage="shared")
            v = wp.tile_load(y, shape=64, storage="shared")
            wp.tile_sort(k, v)
            wp.tile_store(y, v)

        @wp.kernel
        def sort_rows(x: wp.array2d(dtype=float), y: wp.array2d(dtype=int)):
            row = wp.tid()
            order(x[row], y[row])

        WIDTH = 96

        def run(x, y):
            wp.launch_tiled(sort_rows, dim=[x.shape[0]], inputs=[x, y], block_dim=WIDTH)  # error: WPA810
            wp.launch_tiled(sort_rows, dim=[x.shape[0]], inputs=[x, y], block_dim=2048)  # error: WPA810
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def sort_rows(x: wp.array2d(dtype=float), y: wp.array2d(dtype=int)):
            row = wp.tid()
            k = wp.tile_load(x[row], shape=64, storage="shared")
            v = wp.tile_load(y[row], shape=64, storage="shared")
            wp.tile_sort(k, v)
            wp.tile_store(y[row], v)

        @wp.kernel
        def sums(x: wp.array2d(dtype=float), out: wp.array(dtype=float)):
            row = wp.tid()
            wp.tile_store(out, wp.tile_sum(wp.tile_load(x[row], shape=64)), offset=row)

        def run(x, y, out, width):
            wp.launch_tiled(sort_rows, dim=[x.shape[0]], inputs=[x, y], block_dim=128)
            wp.launch_tiled(sort_rows, dim=[x.shape[0]], inputs=[x, y], block_dim=width)
            wp.launch_tiled(sums, dim=[x.shape[0]], inputs=[x, out], block_dim=1024)
        """,
    )

    def launch(self, launch: Launch) -> Iterator[Finding]:
        given = launch.argument("block_dim")
        if given is None:
            return
        size = launch.function.constant(given)
        if not isinstance(size, int) or isinstance(size, bool):
            return
        if size > LARGEST:
            yield self.at(launch, given, f"a block of {size} threads is more than the {LARGEST} that a GPU can have")
        elif size not in SORTING:
            for kernel in launch.kernels:
                if _sorts(kernel):
                    yield self.at(
                        launch,
                        given,
                        f"'{kernel.name}' sorts a tile, which goes wrong in a block of {size} threads",
                        "use 32, 64, 128, 256 or 512",
                    )
                    break


def _sorts(function: DeviceFunction, depth: int = 0) -> bool:
    if any(call.name == "tile_sort" for call in tile_calls(function)):
        return True
    if depth > 6:
        return False
    callees = (function.callee(call) for call, _ in function.calls())
    return any(callee is not None and callee is not function and _sorts(callee, depth + 1) for callee in callees)

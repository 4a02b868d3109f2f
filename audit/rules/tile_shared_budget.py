"""Declares the rule ``tile-shared-budget``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.tiles import bytes_of, tile_calls
from warp_audit.audit.source.types import Tile
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction

LARGEST = 227 * 1024
"""Bytes of shared memory that a block can have at most: compute capability 9.0 and 10.0 (CUDA C++ Programming Guide,
technical specifications per compute capability). 8.0 has 163 KiB, 8.6 and 8.9 have 99."""


class TileSharedBudget(Rule):
    """The shared tiles of a kernel need more memory than a block can have.

    What it finds: tiles with ``storage="shared"`` of known shape and element whose bytes add up to more than
    227 KiB, the most that any GPU gives a block.

    Why it matters: Warp refuses the launch, but only on a GPU; on the CPU the kernel runs, so tests pass.

    Instead: use smaller tiles in a loop, or leave some in registers.
    """

    code = "WPA809"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1701",)
    words = ("tile",)
    BAD = (
        """
        SIDE = wp.constant(256)

        @wp.kernel
        def square(x: wp.array2d(dtype=wp.float64)):
            a = wp.tile_load(x, shape=(SIDE, SIDE), storage="shared")  # error: WPA809
            wp.tile_store(x, a)
        """,
    )
    GOOD = (
        """
        SIDE = wp.constant(256)

        @wp.kernel
        def square(x: wp.array2d(dtype=wp.float64)):
            a = wp.tile_load(x, shape=(SIDE, SIDE))
            b = wp.tile_load(x, shape=(64, 64), storage="shared")
            wp.tile_store(x, a)
            wp.tile_store(x, b)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        shared: list[tuple[ast.Call, int]] = []
        for call in tile_calls(function):
            storage = call.argument("storage")
            if isinstance(storage, ast.Constant) and storage.value == "shared":
                type = function.type_of(call.node)
                size = bytes_of(type) if isinstance(type, Tile) else None
                if size is not None:
                    shared.append((call.node, size))
        total = sum(size for _, size in shared)
        if total <= LARGEST:
            return
        for node, size in shared:
            yield self.at(
                function,
                node,
                f"this shared tile has {size:,} bytes; with the others of '{function.name}' it makes {total:,}, "
                f"more than the {LARGEST:,} of a block",
            )

"""Declares the rule ``tile-dynamic-shape``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.tiles import items, tile_calls
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class TileDynamicShape(Rule):
    """A tile's shape is computed when the kernel runs.

    What it finds: a ``shape`` argument of a tile builtin with an extent that depends on a parameter, a thread
    coordinate, an array or a value that changes.

    Why it matters: tiles live in registers and shared memory, whose size is fixed when the kernel is built. Warp stops
    the build, at the first launch.

    Instead: use a constant extent. Loads fill up with zeros behind the array, so the last, partial block needs
    no other shape. For several sizes make the kernel in a function that takes the size.
    """

    code = "WPA807"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#451",)
    words = ("tile",)
    BAD = (
        """
        @wp.kernel
        def rows(x: wp.array2d(dtype=float), width: int, out: wp.array(dtype=float)):
            r = wp.tid()
            t = wp.tile_load(x[r], shape=width)  # error: WPA807
            z = wp.tile_zeros(shape=(4, x.shape[1]), dtype=float)  # error: WPA807
            wp.tile_store(out, wp.tile_sum(t), offset=r)
        """,
    )
    GOOD = (
        """
        TILE = wp.constant(16)

        class Sizes:
            WIDE = 64

        def make(width: int):
            @wp.kernel
            def rows(x: wp.array2d(dtype=float), out: wp.array(dtype=float)):
                r = wp.tid()
                half = width // 2
                t = wp.tile_load(x[r], shape=width)
                u = wp.tile_load(x[r], shape=(Sizes.WIDE,))
                v = wp.tile_zeros(shape=(wp.static(width * 2), TILE), dtype=float)
                w = wp.tile_zeros(shape=half, dtype=float)
                both = (wp.static(width), 1)
                z = wp.tile_zeros(shape=both, dtype=float)
                wp.tile_store(out, wp.tile_sum(t), offset=r)
            return rows
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        for call in tile_calls(kernel):
            for extent in items(kernel, call.shape):
                if kernel.constant(extent) is None and _changes(kernel, extent):
                    yield self.at(
                        kernel,
                        call.node,
                        f"the extent '{ast.unparse(extent)}' of the tile is known only when the kernel runs",
                        "a tile's shape must be a constant of the kernel",
                    )
                    break


def _changes(kernel: DeviceFunction, node: ast.expr) -> bool:
    """Whether a value surely depends on the run: parameters, thread coordinates, loads."""
    atoms = kernel.symbols.form(node).all_atoms()
    return any(atom[0] in ("parameter", "tid", "load", "shape", "size") for atom in atoms)

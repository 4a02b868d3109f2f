"""Declares the rule ``tile-offset-not-scaled``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Safety, Wrap
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.tiles import extents, items, lanes, tile_calls
from warp_audit.audit.source.types import Tile
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.tiles import TileCall


class TileOffsetNotScaled(Rule):
    """A block's number is given as a tile's offset, which counts elements.

    What it finds: a tile load, store or atomic add whose offset on an axis is a bare thread coordinate,
    while the tile is longer than 1 on that axis.

    Why it matters: block ``b`` then starts one element behind block ``b - 1``. The tiles overlap, most of the
    array is never read, and stores of neighbouring blocks race.

    Instead: multiply by the tile's extent: ``offset=b * TILE``.
    """

    code = "WPA805"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    fix_safety = Safety.UNSAFE
    words = ("tile",)
    BAD = (
        """
        TILE = wp.constant(16)

        @wp.kernel
        def copy(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            block = wp.tid()
            t = wp.tile_load(x, TILE, block)  # error: WPA805
            wp.tile_store(y, t, offset=block)  # error: WPA805
        """,
        """
        @wp.kernel
        def copy(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
            r, c = wp.tid()
            t = wp.tile_load(x, shape=(4, 8), offset=(r * 4, c))  # error: WPA805
            wp.tile_store(y, t, offset=(r * 4, c * 8))
        """,
    )
    GOOD = (
        """
        TILE = wp.constant(16)

        @wp.kernel
        def sums(x: wp.array2d(dtype=float), y: wp.array(dtype=float), first: wp.array(dtype=int)):
            row = wp.tid()
            t = wp.tile_load(x, shape=(1, TILE), offset=(row, 0))
            wp.tile_store(y, wp.tile_sum(t), offset=row)
            u = wp.tile_load(y, shape=TILE, offset=first[row])
            wp.tile_store(y, u, offset=row * TILE)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function.tid_arity is None:
            return
        for call in tile_calls(function):
            if call.offset is None:
                continue
            lengths = _lengths(function, call)
            for axis, offset in enumerate(items(function, call.offset)):
                length = lengths[axis] if axis < len(lengths) else None
                atom = function.symbols.form(offset).single()
                if length is None or length < 2 or atom is None or atom[0] != "tid" or atom in lanes(function):
                    continue
                text = _extent_text(function, call, axis) or str(length)
                fix = self.mend(f"multiply the offset by {text}", Wrap(Place.of(offset), "", f" * {text}"))
                yield self.at(
                    function,
                    call.node,
                    f"the offset '{ast.unparse(offset)}' counts blocks, but '{call.name}' counts elements: "
                    f"its tiles are {length} long and overlap",
                    fix=fix if isinstance(offset, ast.Name) else None,
                )
                break


def _lengths(function: DeviceFunction, call: TileCall) -> list[int | None]:
    if call.name == "tile_load":
        return extents(function, call.shape)
    tile = call.argument("t", 1) or call.argument("a", 1)
    type = function.type_of(tile) if tile is not None else None
    return list(type.shape) if isinstance(type, Tile) and type.shape is not None else []


def _extent_text(function: DeviceFunction, call: TileCall, axis: int) -> str | None:
    shape = items(function, call.shape)
    return ast.unparse(shape[axis]) if axis < len(shape) else None

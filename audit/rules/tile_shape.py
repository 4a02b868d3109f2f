"""Declares the rule ``tile-shape``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.tiles import array_argument, extents, items, tile_calls, written
from warp_audit.audit.source.types import Tile
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.tiles import TileCall


class TileShape(Rule):
    """The shapes of a tile operation do not fit together.

    What it finds: a broadcast to fewer dimensions or to an extent that does not fit, a reshape that changes the
    number of elements, a product whose inner extents differ, a sum of tiles of different shapes, a tile of another
    rank than its array, and an offset of another length than the shape.

    Why it matters: some of these stop the build at the first launch; a broadcast to fewer dimensions is accepted and
    the result has no defined meaning.

    Instead: reduce with ``wp.tile_sum(t, axis=…)`` to lose a dimension, and give shape and offset one entry for each
    dimension of the array.
    """

    code = "WPA808"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1780",)
    words = ("tile",)
    BAD = (
        """
        @wp.kernel
        def mixed(x: wp.array2d(dtype=float), v: wp.array(dtype=float), out: wp.array2d(dtype=float)):
            a = wp.tile_load(x, shape=(4, 8), offset=(0, 0))
            b = wp.tile_broadcast(a, shape=(8,))  # error: WPA808
            c = wp.tile_reshape(a, shape=(4, 4))  # error: WPA808
            d = wp.tile_load(x, shape=(4, 8), offset=(0, 8))
            e = wp.tile_matmul(a, d)  # error: WPA808
            f = wp.tile_load(v, shape=(4, 8))  # error: WPA808
            g = wp.tile_load(v, shape=4)
            h = wp.tile_broadcast(g, shape=(4, 8))  # error: WPA808
            k = wp.tile_load(x, shape=(4, 8), offset=4)  # error: WPA808
            m = wp.tile_load(x, shape=(8, 8))
            n = a + m  # error: WPA808
            wp.tile_store(v, a)  # error: WPA808
        """,
    )
    GOOD = (
        """
        N = wp.constant(8)

        @wp.kernel
        def mixed(x: wp.array2d(dtype=float), v: wp.array(dtype=float), out: wp.array2d(dtype=float)):
            a = wp.tile_load(x, shape=(4, N), offset=(0, 0))
            b = wp.tile_broadcast(wp.tile_load(v, shape=N), shape=(4, N))
            c = wp.tile_reshape(a, shape=(2, 16))
            r = wp.tile_reshape(a, shape=(-1,))
            d = wp.tile_load(x, shape=(N, 4), offset=(0, N))
            e = wp.tile_matmul(a, d)
            s = wp.tile_sum(a, axis=0)
            one = wp.tile_broadcast(wp.tile_load(x, shape=(4, 1)), shape=(4, N))
            wp.tile_store(v, s)
            wp.tile_store(out, a + b)
            wp.tile_store(out[3], s)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        calls = tile_calls(function)
        if not calls:
            return
        for call in calls:
            why = _why(function, call)
            if why is not None:
                yield self.at(function, call.node, why)
        for node in function.flow.of(ast.BinOp):
            left, right = function.type_of(node.left), function.type_of(node.right)  # type: ignore[attr-defined]
            if isinstance(left, Tile) and isinstance(right, Tile) and not isinstance(node.op, ast.MatMult):  # type: ignore[attr-defined]
                if _differ(left.shape, right.shape):
                    yield self.at(function, node, f"the tiles have the shapes {left.shape} and {right.shape}")


def _why(function: DeviceFunction, call: TileCall) -> str | None:
    """What does not fit in a call."""
    name = call.name
    if name in ("tile_load", "tile_store", "tile_atomic_add"):
        return _array(function, call)
    if name in ("tile_broadcast", "tile_reshape"):
        source = _tile(function, call.argument("a", 0))
        wanted = extents(function, call.shape)
        if source is None or source.shape is None or not wanted or not _is_shape(function, call):
            return None
        return _broadcast(source.shape, wanted) if name == "tile_broadcast" else _reshape(source.shape, wanted)
    if name == "tile_matmul" and len(call.node.args) >= 2:
        left, right = _tile(function, call.node.args[0]), _tile(function, call.node.args[1])
        if left is None or right is None or left.shape is None or right.shape is None:
            return None
        if len(left.shape) == len(right.shape) == 2:
            a, b = left.shape[1], right.shape[0]
            if a is not None and b is not None and a != b:
                return f"the product of tiles {left.shape} and {right.shape} has inner extents {a} and {b}"
    return None


def _is_shape(function: DeviceFunction, call: TileCall) -> bool:
    """Whether the shape's number of entries is known: a tuple, or one number."""
    node = written(function, call.shape) if call.shape is not None else None
    return isinstance(node, (ast.Tuple, ast.List)) or (node is not None and function.constant(node) is not None)


def _array(function: DeviceFunction, call: TileCall) -> str | None:
    array = array_argument(function, call)
    if array is None or array.ndim is None:
        return None
    if call.name == "tile_load":
        if not _is_shape(function, call):
            return None
        rank = len(extents(function, call.shape))
    else:
        tile = _tile(function, call.argument("t", 1))
        if tile is None or tile.shape is None:
            return None
        rank = len(tile.shape)
    if rank != array.ndim:
        return f"'{call.name}' uses a tile of {rank} dimensions on an array of {array.ndim}"
    offset = written(function, call.offset) if call.offset is not None else None
    if isinstance(offset, (ast.Tuple, ast.List)) or (offset is not None and function.constant(offset) is not None):
        given = len(extents(function, offset)) or len(items(function, offset))
        if given != rank:
            return f"'{call.name}' has an offset of {given} for a tile of {rank} dimensions"
    return None


def _tile(function: DeviceFunction, node: ast.expr | None) -> Tile | None:
    type = function.type_of(node) if node is not None else None
    return type if isinstance(type, Tile) else None


def _broadcast(source: tuple[int | None, ...], wanted: list[int | None]) -> str | None:
    if len(wanted) < len(source):
        return f"a tile of shape {source} cannot be broadcast to fewer dimensions: {tuple(wanted)}"
    for have, want in zip(reversed(source), reversed(wanted), strict=False):
        if have is not None and want is not None and have not in (1, want):
            return f"a tile of shape {source} cannot be broadcast to {tuple(wanted)}"
    return None


def _reshape(source: tuple[int | None, ...], wanted: list[int | None]) -> str | None:
    if None in source or None in wanted or -1 in wanted:
        return None
    have, want = prod(n for n in source if n is not None), prod(n for n in wanted if n is not None)
    return f"a tile of {have} elements cannot be reshaped to {tuple(wanted)}" if have != want else None


def _differ(left: tuple[int | None, ...] | None, right: tuple[int | None, ...] | None) -> bool:
    if left is None or right is None:
        return False
    if len(left) != len(right):
        return True
    return any(a is not None and b is not None and a != b for a, b in zip(left, right, strict=True))

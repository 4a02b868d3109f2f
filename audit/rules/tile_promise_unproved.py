"""Declares the rule ``tile-promise-unproved``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Safety, SetKeyword
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.tiles import items, rounds_up, tile_calls
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.host import Launch
    from warp_audit.audit.source.symbolic import Form
    from warp_audit.audit.source.tiles import TileCall


class TilePromiseUnproved(Rule):
    """A tile operation promises to stay in bounds where the last block does not.

    What it finds: ``bounds_check=False`` on a tile whose offset grows with the block or a loop, where the number of
    blocks or rounds is rounded up and no test compares with the array's extent.

    Why it matters: Warp believes the promise. With a length that is no multiple of the tile the last block reads or
    writes behind the array, silently.

    Instead: leave the check on, or return before the access if ``offset + extent > array.shape[0]``.
    """

    code = "WPA806"
    severity = Severity.ERROR
    confidence = Confidence.MEDIUM
    references = ("newton-physics/newton#1533",)
    fix_safety = Safety.SAFE
    words = ("tile",)
    BAD = (
        """
        TILE = wp.constant(32)

        @wp.kernel
        def scale(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            b = wp.tid()
            t = wp.tile_load(x, shape=TILE, offset=b * TILE, bounds_check=False)  # error: WPA806
            wp.tile_store(y, t * 2.0, offset=b * TILE, bounds_check=False)  # error: WPA806

        def run(x, y):
            n = x.shape[0]
            wp.launch_tiled(scale, dim=-(-n // 32), inputs=[x, y], block_dim=32)
        """,
        """
        TILE = wp.constant(32)

        @wp.kernel
        def total(x: wp.array2d(dtype=float), out: wp.array(dtype=float)):
            row = wp.tid()
            s = float(0.0)
            for k in range((x.shape[1] + TILE - 1) // TILE):
                t = wp.tile_load(x[row], shape=TILE, offset=k * TILE, bounds_check=False)  # error: WPA806
                s += wp.tile_extract(wp.tile_sum(t), 0)
            out[row] = s
        """,
    )
    GOOD = (
        """
        TILE = wp.constant(32)

        @wp.kernel
        def scale(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            b = wp.tid()
            t = wp.tile_load(x, shape=TILE, offset=b * TILE, bounds_check=False)
            wp.tile_store(y, t * 2.0, offset=b * TILE)

        @wp.kernel
        def guarded(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            b = wp.tid()
            if b * TILE + TILE > x.shape[0]:
                return
            t = wp.tile_load(x, shape=TILE, offset=b * TILE, bounds_check=False)
            wp.tile_store(y, t * 2.0, offset=b * TILE)

        def run(x, y):
            wp.launch_tiled(scale, dim=x.shape[0] // 32, inputs=[x, y], block_dim=32)
            wp.launch_tiled(guarded, dim=(x.shape[0] + 31) // 32, inputs=[x, y], block_dim=32)
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        for call in tile_calls(kernel):
            promise = call.argument("bounds_check", 4 if call.name == "tile_load" else 3)
            if promise is None or kernel.constant(promise) is not False or call.offset is None:
                continue
            forms = [kernel.symbols.form(offset) for offset in items(kernel, call.offset)]
            if _is_guarded(kernel, call, forms):
                continue
            if any(_is_rounded_up(kernel, call, form) for form in forms):
                keyword = [SetKeyword(Place.of(call.node), "bounds_check", "True")]
                yield self.at(
                    kernel,
                    call.node,
                    f"'{call.name}' promises to stay in bounds, but its last block does not if the length is no "
                    "multiple of the tile",
                    fix=self.mend("check the bounds", *keyword),
                )


def _is_guarded(kernel: DeviceFunction, call: TileCall, forms: list[Form]) -> bool:
    own = {atom for form in forms for atom in form.atoms if atom[0] in ("tid", "loop", "def")}
    return any(kernel.symbols.form(guard.test).all_atoms() & own for guard in call.site.guards)


def _is_rounded_up(kernel: DeviceFunction, call: TileCall, form: Form) -> bool:
    for atom, coefficient in form.terms:
        if not isinstance(coefficient, int) or coefficient < 2:
            continue
        if atom[0] == "tid" and any(_launch_rounds_up(x, atom[1]) for x in kernel.module.launches_of(kernel)):
            return True
        if atom[0] == "loop":
            for loop in call.site.loops:
                if isinstance(loop.node, ast.For) and any(kernel.symbols.of_def(d).single() == atom for d in loop.defs):
                    stop = (
                        loop.node.iter.args[-1]
                        if isinstance(loop.node.iter, ast.Call) and loop.node.iter.args
                        else None
                    )
                    return stop is not None and rounds_up(kernel.symbols.form(stop))
    return False


def _launch_rounds_up(launch: Launch, axis: int) -> bool:
    extents = launch.extents
    if extents is None or axis >= len(extents):
        return False
    return rounds_up(launch.function.symbols.form(extents[axis]))

"""Declares the rule ``tiled-launch-without-tile-ops``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.tiles import knows_block
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import Launch


class TiledLaunchWithoutTileOps(Rule):
    """A kernel that works thread by thread is started with ``launch_tiled``.

    What it finds: ``wp.launch_tiled`` of a kernel that has no tile operation, never asks for ``wp.block_dim()`` and
    does not read the lane as a last thread coordinate.

    Why it matters: ``launch_tiled`` starts ``block_dim`` threads for each extent. All of them then do the same work
    item: sums come out ``block_dim`` times too large and stores race. On the CPU a block is one thread, so tests pass.

    Instead: start it with ``wp.launch``.
    """

    code = "WPA803"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("google-deepmind/mujoco_warp#1246",)
    fix_safety = Safety.UNSAFE
    words = ("tile",)
    BAD = (
        """
        @wp.func
        def push(f: wp.array(dtype=float), i: int, by: float):
            f[i] = f[i] + by

        @wp.kernel
        def drag(v: wp.array(dtype=float), f: wp.array(dtype=float)):
            i = wp.tid()
            push(f, i, -0.1 * v[i])

        def apply(v, f):
            wp.launch_tiled(drag, dim=[v.shape[0]], inputs=[v], outputs=[f], block_dim=64)  # error: WPA803
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def drag(v: wp.array(dtype=float), f: wp.array(dtype=float)):
            i = wp.tid()
            f[i] = f[i] - 0.1 * v[i]

        @wp.kernel
        def clear(f: wp.array2d(dtype=float)):
            row, lane = wp.tid()
            for k in range(lane, f.shape[1], wp.block_dim()):
                f[row, k] = 0.0

        @wp.kernel
        def total(f: wp.array2d(dtype=float), out: wp.array(dtype=float)):
            row = wp.tid()
            wp.tile_store(out, wp.tile_sum(wp.tile_load(f[row], shape=32)), offset=row)

        def apply(v, f, table, out):
            wp.launch(drag, dim=v.shape[0], inputs=[v], outputs=[f])
            wp.launch_tiled(clear, dim=[table.shape[0]], inputs=[table], block_dim=64)
            wp.launch_tiled(total, dim=[table.shape[0]], inputs=[table, out], block_dim=64)
        """,
    )

    def launch(self, launch: Launch) -> Iterator[Finding]:
        kernel = launch.kernel
        if not launch.tiled or kernel is None or launch.rank is None:
            return
        block_dim = launch.argument("block_dim")
        if block_dim is not None and launch.function.constant(block_dim) == 1:
            return
        if (kernel.tid_arity or 0) > launch.rank or knows_block(kernel):
            return
        fix = None
        if isinstance(launch.node.func, ast.Attribute):
            plain = f"{ast.unparse(launch.node.func.value)}.launch"
            fix = self.mend("start it with wp.launch", Replace(Place.of(launch.node.func), plain))
        yield self.at(
            launch,
            launch.node.func,
            f"'{kernel.name}' has no tile operation and reads no lane: every thread of a block repeats its work",
            fix=fix,
        )

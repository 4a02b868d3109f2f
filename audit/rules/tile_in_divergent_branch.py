"""Declares the rule ``tile-in-divergent-branch``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.builtins import TILE_OPS
from warp_audit.audit.source.tiles import cooperates, differs, lanes
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Site
    from warp_audit.audit.source.symbolic import Atom, Form


class TileInDivergentBranch(Rule):
    """A tile operation is reached by only some threads of the block.

    What it finds: a tile operation, or a call of a func that holds one, under a condition, behind an early
    return, or in a loop whose bounds depend on the thread's place in the block.

    Why it matters: tile operations share the work among all threads of a block and hold block-wide barriers.
    If some threads do not come, a GPU hangs or works on garbage; on the CPU a block is one thread, so tests pass.

    Instead: let every thread reach the operation, and choose what a thread contributes by values, or test
    only what is the same for the whole block.
    """

    code = "WPA801"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#3904",)
    words = ("tile",)
    BAD = (
        """
        SIZE = wp.constant(64)

        @wp.kernel
        def norms(x: wp.array2d(dtype=float), out: wp.array(dtype=float)):
            row, lane = wp.tid()
            if lane >= 16:
                return
            t = wp.tile_load(x[row], shape=SIZE)  # error: WPA801
            wp.tile_store(out, wp.tile_sum(t), offset=row)  # error: WPA801

        def run(x, out):
            wp.launch_tiled(norms, dim=[x.shape[0]], inputs=[x, out], block_dim=64)
        """,
        """
        SIZE = wp.constant(64)

        @wp.func
        def total(x: wp.array(dtype=float)):
            return wp.tile_extract(wp.tile_sum(wp.tile_load(x, shape=SIZE)), 0)

        @wp.kernel
        def picked(x: wp.array2d(dtype=float), mask: wp.array2d(dtype=int), out: wp.array(dtype=float)):
            row, k = wp.tid()
            wanted = mask[row, k] != 0
            if wanted:
                out[row] = total(x[row])  # error: WPA801

        def run(x, mask, out):
            wp.launch_tiled(picked, dim=x.shape[0], inputs=[x, mask, out], block_dim=32)
        """,
    )
    GOOD = (
        """
        SIZE = wp.constant(64)

        @wp.kernel
        def norms(x: wp.array2d(dtype=float), active: wp.array(dtype=int), out: wp.array(dtype=float)):
            row, lane = wp.tid()
            if active[row] == 0:
                return
            for k in range(x.shape[1] / SIZE):
                t = wp.tile_load(x[row], shape=SIZE, offset=k * SIZE)
                s = wp.tile_sum(t)
                if lane == 0:
                    out[row] += wp.tile_extract(s, 0)
            width = wp.block_dim()
            end = (x.shape[1] + width - 1) // width * width
            for k in range(lane, end, width):
                v = float(0.0)
                if k < x.shape[1]:
                    v = x[row, k]
                out[row] += wp.tile_extract(wp.tile_sum(wp.tile(v)), 0)

        def run(x, active, out):
            wp.launch_tiled(norms, dim=[x.shape[0]], inputs=[x, active, out], block_dim=64)
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        if not cooperates(kernel):
            return
        lane_atoms = lanes(kernel)
        if not lane_atoms:
            return
        reported: set[ast.stmt] = set()
        for call, site in kernel.calls():
            name = kernel.builtin(call)
            if name is None:
                callee = kernel.callee(call)
                if callee is None or not cooperates(callee):
                    continue
                name = callee.name
            elif name not in TILE_OPS:
                continue
            if site.statement in reported:
                continue
            why = _divergence(kernel, site, lane_atoms)
            if why is not None:
                reported.add(site.statement)
                yield self.at(
                    kernel,
                    call,
                    f"'{name}' must be reached by every thread of the block, but {why}",
                    "a block-wide barrier in it then waits for threads that never come",
                )


def _divergence(kernel: DeviceFunction, site: Site, lane_atoms: set[Atom]) -> str | None:
    for guard in site.guards:
        if differs(kernel.symbols.form(guard.test), lane_atoms):
            place = f"line {guard.test.lineno}"
            return f"the test in {place} lets only some pass" if not guard.early else f"some have left by {place}"
    for loop in site.loops:
        if isinstance(loop.node, ast.For) and isinstance(loop.node.iter, ast.Call):
            arguments = [kernel.symbols.form(argument) for argument in loop.node.iter.args]
            if any(differs(form, lane_atoms) for form in arguments) and not _shares_evenly(arguments, lane_atoms):
                return f"the loop in line {loop.node.lineno} has its own bounds for each"
    return None


def _shares_evenly(arguments: list[Form], lane_atoms: set[Atom]) -> bool:
    """Whether ``range(lane, stop, step)`` has as many rounds for each lane: the stop is a multiple of the step."""
    if len(arguments) != 3 or arguments[0].single() not in lane_atoms:
        return False
    _, stop, step = arguments
    if stop.is_constant and step.is_constant and step.constant:
        return stop.constant % step.constant == 0
    if step.is_constant:
        return (
            all(coefficient % step.constant == 0 for _, coefficient in stop.terms)
            and stop.constant % step.constant == 0
        )
    product = stop.single()
    return product is not None and product[0] == "mul" and step in product[2:]

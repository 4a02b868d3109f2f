"""Declares the rule ``tile-lane-dependent-code``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.tiles import lanes
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Def
    from warp_audit.audit.source.symbolic import Atom, Form


class TileLaneDependentCode(Rule):
    """The lanes of a block share a loop by a fixed count, although a block may have fewer.

    What it finds: a loop that a block's threads divide among themselves, by ``k * 64 + lane`` or by a stride of 64,
    with a constant in the place of the block's size.

    Why it matters: on the CPU a block is a single thread, and a launch may name another ``block_dim``. The loop
    then leaves out most of the elements, silently.

    Instead: use ``wp.block_dim()`` as the stride: ``for k in range(lane, n, wp.block_dim())``.
    """

    code = "WPA802"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("google-deepmind/mujoco_warp#1424", "NVIDIA/warp#1580")
    words = ("tile",)
    BAD = (
        """
        WIDTH = wp.constant(32)

        @wp.kernel
        def clear(x: wp.array2d(dtype=float)):
            row, lane = wp.tid()
            for k in range(lane, x.shape[1], WIDTH):  # error: WPA802
                x[row, k] = 0.0

        def run(x):
            wp.launch_tiled(clear, dim=[x.shape[0]], inputs=[x], block_dim=32)
        """,
        """
        @wp.kernel
        def clear(x: wp.array2d(dtype=float), rounds: int):
            row, lane = wp.tid()
            for r in range(rounds):  # error: WPA802
                if lane + r * 128 < x.shape[1]:
                    x[row, lane + r * 128] = 0.0

        def run(x):
            wp.launch_tiled(clear, dim=[x.shape[0]], inputs=[x, (x.shape[1] + 127) // 128], block_dim=128)
        """,
        """
        @wp.kernel
        def clear(x: wp.array2d(dtype=float)):
            row, lane = wp.tid()
            k = int(lane)
            while k < x.shape[1]:  # error: WPA802
                x[row, k] = 0.0
                k += 64

        def run(x):
            wp.launch_tiled(clear, dim=[x.shape[0]], inputs=[x], block_dim=64)
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def clear(x: wp.array2d(dtype=float), n: int):
            row, lane = wp.tid()
            width = wp.block_dim()
            for r in range((n + width - 1) // width):
                if r * width + lane < n:
                    x[row, r * width + lane] = 0.0
            for k in range(lane, n, wp.block_dim()):
                x[row, k] = 1.0

        @wp.kernel
        def pixels(image: wp.array(dtype=float), rows: int):
            y, x = wp.tid()
            for k in range(rows):
                image[k * 640 + x] = 0.0

        def run(x, image):
            wp.launch_tiled(clear, dim=[x.shape[0]], inputs=[x, x.shape[1]], block_dim=64)
            wp.launch(pixels, dim=(480, 640), inputs=[image, 480])
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        if not any(launch.tiled for launch in kernel.module.launches_of(kernel)):
            return
        lane_atoms = lanes(kernel)
        if not lane_atoms:
            return
        for loop in kernel.flow.steps:
            if isinstance(loop, (ast.For, ast.While)):
                width = _fixed_width(kernel, loop, lane_atoms)
                if width is not None:
                    at = loop.iter if isinstance(loop, ast.For) else loop.test
                    yield self.at(
                        kernel,
                        at,
                        f"the threads of a block share this loop in steps of {width}, whatever the block's size is",
                        "use wp.block_dim() for the step: on the CPU a block is one thread",
                    )


def _fixed_width(kernel: DeviceFunction, loop: ast.For | ast.While, lane_atoms: set[Atom]) -> int | None:
    """The constant that stands for the block's size."""
    if isinstance(loop, ast.While):
        return _stepped(kernel, loop, lane_atoms)
    if not isinstance(loop.iter, ast.Call) or not isinstance(loop.target, ast.Name):
        return None
    arguments = loop.iter.args
    if len(arguments) == 3:
        step = kernel.constant(arguments[2])
        start = kernel.symbols.form(arguments[0])
        return int(step) if _is_width(step) and _has_lane(start, lane_atoms) else None  # type: ignore[arg-type]
    definition = next((d for d in kernel.flow.defs if d.node is loop.target), None)
    return _multiplied(kernel, definition, lane_atoms) if definition is not None else None


def _is_width(value: object) -> bool:
    return isinstance(value, int) and value > 1


def _has_lane(form: Form, lane_atoms: set[Atom]) -> bool:
    return any(form.coefficient(atom) == 1 for atom in lane_atoms)


def _multiplied(kernel: DeviceFunction, definition: Def, lane_atoms: set[Atom]) -> int | None:
    """The C of an index ``k * C + lane``, where k is the loop's variable."""
    variable = kernel.symbols.of_def(definition).single()
    if variable is None:
        return None
    for access in kernel.accesses:
        for index in access.indices:
            form = kernel.symbols.form(index)
            width = form.coefficient(variable)
            if _is_width(width) and _has_lane(form, lane_atoms):
                return int(width)
    return None


def _stepped(kernel: DeviceFunction, loop: ast.While, lane_atoms: set[Atom]) -> int | None:
    """The C of ``k += C`` in a loop whose k starts at the lane."""
    for definition in kernel.flow.defs:
        if definition.kind != "augment" or definition.site is None or definition.value is None:
            continue
        if not any(inner.node is loop for inner in definition.site.loops):
            continue
        step = kernel.constant(definition.value)
        phi = definition.previous
        if not _is_width(step) or phi is None or phi.kind != "loop_phi" or not phi.sources:
            continue
        if _has_lane(kernel.symbols.of_def(phi.sources[0]), lane_atoms):
            return int(step)  # type: ignore[arg-type]
    return None

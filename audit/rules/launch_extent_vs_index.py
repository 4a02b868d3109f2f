"""Declares the rule ``launch-extent-vs-index``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction
    from warp_audit.audit.source.host import Launch


class LaunchExtentVsIndex(Rule):
    """A launch takes an extent from one array while the kernel uses that coordinate to index another.

    What it finds: an extent ``a.shape[k]`` of a launch where the kernel indexes another axis of ``a`` with a thread
    coordinate, but axis ``k`` with something else, and uses the coordinate of that extent to index another argument,
    unguarded.

    Why it matters: where the other array is shorter, the kernel reads or writes out of bounds, silently.

    Instead: take the extent from the array that the coordinate indexes, or test the coordinate in the kernel.
    """

    code = "WPA108"
    severity = Severity.ERROR
    confidence = Confidence.MEDIUM
    references = ("google-deepmind/mujoco_warp#589",)
    opt_in = True
    BAD = (
        """
        @wp.kernel
        def gather(column: wp.array(dtype=int), table: wp.array2d(dtype=float), out: wp.array(dtype=float)):
            row, k = wp.tid()
            wp.atomic_add(out, row, table[row, column[k]])

        def run(column, table, out):
            rows, columns = table.shape
            wp.launch(gather, dim=(rows, columns), inputs=[column, table, out])  # error: WPA108
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def gather(index: wp.array(dtype=int), src: wp.array(dtype=float), dst: wp.array(dtype=float)):
            i = wp.tid()
            dst[i] = src[index[i]]

        @wp.kernel
        def checked(index: wp.array(dtype=int), src: wp.array(dtype=float), dst: wp.array(dtype=float)):
            i = wp.tid()
            if i >= index.shape[0]:
                return
            dst[i] = src[index[i]]

        def run(index, src, dst):
            wp.launch(gather, dim=index.shape[0], inputs=[index, src, dst])
            wp.launch(gather, dim=src.shape[0], inputs=[index, src, dst])
            wp.launch(checked, dim=src.shape[0], inputs=[index, src, dst])
        """,
    )

    def launch(self, launch: Launch) -> Iterator[Finding]:
        kernel, extents = launch.kernel, launch.extents
        if kernel is None or extents is None or launch.tiled or kernel.tid_arity != len(extents):
            return
        roots = {
            parameter.name: launch.function.root_name(argument)
            for parameter, argument in launch.pairs(kernel)
            if parameter.is_array
        }
        for axis, extent in enumerate(extents):
            atom = launch.function.symbols.form(extent).single()
            if atom is None or atom[0] != "shape" or atom[1] not in roots.values():
                continue
            mine = [name for name, root in roots.items() if root == atom[1]]
            used = _indexed(kernel, axis)
            if any((name, atom[2]) in used for name in mine):
                continue
            others = sorted({name for name, _ in used if name in roots and name not in mine})
            partly = any(name in mine for other in range(len(extents)) for name, _ in _indexed(kernel, other))
            if others and partly and not _is_guarded(kernel, axis):
                yield self.at(
                    launch,
                    extent,
                    f"extent {axis} is that of '{ast.unparse(extent)}', but '{kernel.name}' uses that "
                    "coordinate to index "
                    f"'{others[0]}'",
                    f"'{mine[0]}' is not indexed by it",
                )


def _indexed(kernel: DeviceFunction, axis: int) -> dict[tuple[str, int], Access]:
    """The arrays and axes that a thread coordinate indexes by itself."""
    atom = ("tid", axis)
    found: dict[tuple[str, int], Access] = {}
    for access in kernel.accesses:
        for place, index in enumerate(access.indices):
            if kernel.symbols.form(index).single() == atom:
                found.setdefault((access.root, place), access)
    return found


def _is_guarded(kernel: DeviceFunction, axis: int) -> bool:
    """Whether the kernel compares the coordinate with anything."""
    atom = ("tid", axis)
    return any(
        atom in kernel.symbols.form(side).atoms
        for node in kernel.flow.of(ast.Compare)
        for side in (node.left, *node.comparators)  # type: ignore[attr-defined]
    )

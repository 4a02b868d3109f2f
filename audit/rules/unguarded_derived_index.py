"""Declares the rule ``unguarded-derived-index``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import guards_on, indices
from warp_audit.audit.source.symbolic import Form
from warp_audit.audit.source.tiles import rounds_up
from warp_audit.audit.source.types import Scalar
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction
    from warp_audit.audit.source.symbolic import Atom


class UnguardedDerivedIndex(Rule):
    """An index behind the thread's own element is used without a look at the array's length.

    What it finds: an index ``i + c`` of a thread coordinate, or ``block * chunk`` with a run-time ``chunk``, where
    nothing compares it and the launches of the file do not take fewer threads for it.

    Why it matters: the last thread reads or writes behind the end, silently; only debug mode aborts.

    Instead: test first: ``if i + 1 < a.shape[0]``.
    """

    code = "WPA207"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("NVIDIA/warp#667", "NVIDIA/nvalchemi-toolkit-ops#17")
    BAD = (
        """
        @wp.kernel
        def slope(h: wp.array2d(dtype=float), g: wp.array2d(dtype=float)):
            y, x = wp.tid()
            g[y, x] = h[y, x + 1] - h[y, x]  # error: WPA207

        @wp.kernel
        def first(a: wp.array(dtype=float), width: int, out: wp.array(dtype=float)):
            b = wp.tid()
            start = b * width
            out[b] = a[start]  # error: WPA207

        def run(h, g, a, out):
            wp.launch(slope, dim=h.shape, inputs=[h, g])
            wp.launch(first, dim=(a.shape[0] + 31) // 32, inputs=[a, 32, out])
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def slope(h: wp.array(dtype=float), g: wp.array(dtype=float)):
            i = wp.tid()
            g[i] = h[i + 1] - h[i]

        @wp.kernel
        def rows(start: wp.array(dtype=int), tri: wp.array(dtype=int), out: wp.array(dtype=int)):
            i = wp.tid()
            out[i] = start[i + 1] - start[i] + tri[3 * i + 2]

        @wp.kernel
        def guarded(h: wp.array(dtype=float), width: int):
            i = wp.tid()
            if i * width < h.shape[0]:
                h[i * width] = 0.0

        def run(h, g, start, tri, out):
            wp.launch(slope, dim=h.shape[0] - 1, inputs=[h, g])
            wp.launch(rows, dim=len(out), inputs=[start, tri, out])
            wp.launch(guarded, dim=8, inputs=[h, 4])
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        reported: set[ast.stmt] = set()
        for access in kernel.accesses:
            if access.site.statement in reported:
                continue
            for axis, index, form in indices(kernel, access):
                tid = _offset(form) or _chunk(form)
                if tid is None or guards_on(kernel, access.site, {tid, *form.atoms}):
                    continue
                if kernel.symbols.upper_bounds(form, access.site) or _is_row_table(kernel, access, form):
                    continue
                if not _launched_to_the_end(kernel, access, axis, tid, form):
                    continue
                reported.add(access.site.statement)
                yield self.at(
                    kernel,
                    access.node,
                    f"the index '{ast.unparse(index)}' of '{access.root}' may be behind the end for the last "
                    "thread: nothing compares it",
                    f"test it first: if {ast.unparse(index)} < {access.root}.shape[{axis}]",
                )
                break


def _minds_the_end(kernel: DeviceFunction, root: str, axis: int) -> bool:
    """Whether a loop of the kernel ends at the array's extent: then its last block is partial."""
    extent = ("shape", root, axis)
    for loop in kernel.flow.steps:
        if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and loop.iter.args:
            if any(extent in kernel.symbols.form(argument).all_atoms() for argument in loop.iter.args):
                return True
    return False


def _offset(form: Form) -> Atom | None:
    """The coordinate of ``i + c``."""
    if form.constant > 0 and len(form.terms) == 1:
        ((atom, coefficient),) = form.terms
        return atom if atom[0] == "tid" and coefficient == 1 else None
    return None


def _chunk(form: Form) -> Atom | None:
    """The coordinate of ``block * chunk``."""
    atom = form.single()
    if atom is None or atom[0] != "mul":
        return None
    sides = [part.single() for part in atom[2:]]
    tid = next((side for side in sides if side is not None and side[0] == "tid"), None)
    other = next((side for side in sides if side is not None and side[0] in ("parameter", "free")), None)
    return tid if other is not None else None


def _is_row_table(kernel: DeviceFunction, access: Access, form: Form) -> bool:
    """Offsets of rows have one entry more than there are rows: ``start[i + 1] - start[i]``."""
    own = isinstance(access.type.dtype, Scalar) and access.type.dtype.is_integer
    before = Form(form.constant - 1, form.terms)
    return own and any(
        other.root == access.root and any(f == before for _, _, f in indices(kernel, other))
        for other in kernel.accesses
    )


def _launched_to_the_end(kernel: DeviceFunction, access: Access, axis: int, tid: Atom, form: Form) -> bool:
    """Whether a launch of the file takes as many threads as the array, or one that the same size was given "
    "to, is long.
    """
    if form.constant == 0 and _minds_the_end(kernel, access.root, axis):
        return True
    for launch in kernel.module.launches_of(kernel):
        extents = launch.extents
        if launch.rank is None:
            continue
        if extents is None:
            return True  # `dim=a.shape`
        if tid[1] >= len(extents):
            continue
        extent = launch.function.symbols.form(extents[tid[1]])
        if extent.constant < 0 or extent.is_constant:
            continue
        if form.constant == 0:
            return rounds_up(extent)
        pairs = {parameter.name: argument for parameter, argument in launch.pairs(kernel)}
        argument = pairs.get(access.root)
        root = launch.function.root_name(argument) if argument is not None else None
        if root is not None and extent == Form.of(("shape", root, axis)):
            return True
    return False

"""Declares the rule ``read-after-atomic``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source import races
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.races import Touch


class ReadAfterAtomic(Rule):
    """An array is read in the same launch that updates it atomically.

    What it finds: a plain read of an element behind an atomic update of it, or in the same loop.

    Why it matters: the read sees the sum of those threads that came before, which differs from run to run. In Warp's
    deterministic mode, which defers atomics to the end of the launch, it sees none of them, or the kernel is refused.

    Instead: read in a second launch; use what the atomic operation returns; in code that one thread runs,
    write ``a[k] = a[k] + v``, which is no atomic.
    """

    code = "WPA305"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("newton-physics/newton#3443",)
    BAD = (
        """
        @wp.kernel
        def subtree(parent: wp.array(dtype=int), mass: wp.array(dtype=float), count: int):
            for k in range(count - 1):
                child = count - 1 - k
                m = mass[child]  # error: WPA305
                wp.atomic_add(mass, parent[child], m)
        """,
        """
        @wp.kernel
        def mean(x: wp.array(dtype=float), total: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            wp.atomic_add(total, 0, x[i])
            out[i] = x[i] / total[0]  # error: WPA305
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def subtree(parent: wp.array(dtype=int), mass: wp.array(dtype=float), sums: wp.array(dtype=float)):
            link = wp.tid()
            wp.atomic_add(sums, parent[link], mass[link])

        @wp.kernel
        def append(x: wp.array(dtype=float), count: wp.array(dtype=int), out: wp.array(dtype=float)):
            i = wp.tid()
            if count[0] < out.shape[0]:
                slot = wp.atomic_add(count, 0, 1)
                if slot < out.shape[0]:
                    out[slot] = x[i]

        @wp.func
        def add_row(row: wp.array(dtype=float), v: float):
            for k in range(3):
                row[k] += v * row[k + 1]

        @wp.kernel
        def rows(grid: wp.array2d(dtype=float)):
            world = wp.tid()
            add_row(grid[world], 2.0)

        @wp.kernel
        def own(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            x[i] += y[i]
            y[i] = 2.0 * x[i]
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        if not any(effect.reads and effect.atomics for effect in kernel.effects.values()):
            return
        touches = races.touches(kernel)
        atomics = [touch for touch in touches if touch.access.atomic]
        if not atomics or races.orders_itself(kernel):
            return
        roots = {touch.root for touch in atomics}
        axes = races.axes_of(kernel)
        for read in touches:
            if read.access.what != "read" or read.root not in roots:
                continue
            atomic = next((one for one in atomics if one.root == read.root and _stale(read, one, axes)), None)
            if atomic is not None:
                yield self.at(
                    kernel,
                    read.node,
                    f"'{read.root}' is read while the launch still updates it atomically",
                    f"the atomic operation is on line {atomic.access.node.lineno}",
                )


def _stale(read: Touch, atomic: Touch, axes: frozenset[int]) -> bool:
    if read.picked.claimed or read.dependence.claimed:
        return False
    first, second = atomic.frames[0].site, read.frames[0].site
    around = set(first.loops) & set(second.loops)
    if first.order >= second.order and not around:
        return False
    if not races.may_meet(read, atomic) or races.exclusive(read, atomic):
        return False
    if atomic.shared(axes) or (atomic.scattered(axes) and not atomic.dependence.parted):
        return read.access.site.order > atomic.access.site.order or not read.dependence.own >= axes
    return bool(around) and read.indices != atomic.indices and atomic.access.builtin is not None

"""Declares the rule ``scatter-may-alias``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source import races
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.races import Touch


class ScatterMayAlias(Rule):
    """Values are scattered through a table of indices that may hold one index twice.

    What it finds: a plain store whose index is read from an array and whose value is the thread's own. It speaks only
    when asked for: whether the indices are distinct is not in the text.

    Why it matters: if two threads have the same index, the last one wins, and which that is differs from run to run.

    Instead: reduce with an atomic operation (``wp.atomic_max``), remove duplicates first, or gather: let the
    thread of each target look for its source.
    """

    code = "WPA304"
    severity = Severity.WARNING
    confidence = Confidence.LOW
    opt_in = True
    BAD = (
        """
        @wp.kernel
        def mark(voxel: wp.array(dtype=int), kind: wp.array(dtype=int), mask: wp.array(dtype=int)):
            i = wp.tid()
            mask[voxel[i]] = kind[i]  # error: WPA304
        """,
        """
        @wp.func
        def put(field: wp.array(dtype=float), at: int, value: float):
            field[at] = value  # error: WPA304

        @wp.kernel
        def corners(face: wp.array2d(dtype=int), area: wp.array(dtype=float), field: wp.array(dtype=float)):
            f = wp.tid()
            for k in range(3):
                v = face[f, k]
                put(field, v, area[f])
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def mark(voxel: wp.array(dtype=int), kind: wp.array(dtype=int), mask: wp.array(dtype=int)):
            i = wp.tid()
            v = voxel[i]
            wp.atomic_max(mask, v, kind[i])
            mask[v] = 1
            mask[v] = mask[v + 1]

        @wp.kernel
        def gather(voxel: wp.array(dtype=int), kind: wp.array(dtype=int), mask: wp.array(dtype=int)):
            i = wp.tid()
            kind[i] = mask[voxel[i]]

        @wp.kernel
        def invert(order: wp.array(dtype=int), place: wp.array(dtype=int)):
            i = wp.tid()
            place[order[i]] = i
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        if not any(effect.writes for effect in kernel.effects.values()):
            return
        touches = races.touches(kernel)
        axes: frozenset[int] | None = None
        for touch in touches:
            if touch.access.what != "write" or not touch.dependence.gathered:
                continue
            if axes is None:
                if races.orders_itself(kernel):
                    return
                axes = races.axes_of(kernel)
            if touch.scattered(axes) and _own_value(touch):
                yield self.at(
                    kernel,
                    touch.node,
                    f"the index into '{touch.root}' comes from a table; threads with one index overwrite each other",
                )


def _own_value(touch: Touch) -> bool:
    """Whether the value differs between threads that store to the same element."""
    dependence, value = touch.dependence, touch.access.value
    if value is None or dependence.shifted or dependence.parted or races.own_read(touch) is not None:
        return False
    form = touch.threads.function.symbols.form(value).single()
    if form is not None and form[0] == "tid":
        return False  # the inverse of a permutation
    return bool(touch.threads.without(touch.own_indices).of(value).axes)

"""Declares the rule ``unused-tid-axis-with-side-effect``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source import races
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.races import Touch

_REPEATABLE = {"atomic_min", "atomic_max", "atomic_and", "atomic_or", "atomic_cas", "atomic_exch"}


class UnusedTidAxisWithSideEffect(Rule):
    """A thread coordinate is never used, and the kernel adds to an array atomically.

    What it finds: a name of ``i, lane = wp.tid()`` that nothing reads, in a kernel that adds or subtracts atomically. A
    name with a leading underscore is taken as meant, unless a launch of the file shows more than one thread along it.

    Why it matters: every thread along the coordinate does the same, so each count or sum comes out too large by the
    extent of the axis.

    Instead: let one thread do it (``if lane == 0``), or do not launch with the axis.
    """

    code = "WPA307"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("newton-physics/newton#2105",)
    BAD = (
        """
        @wp.kernel
        def count_pairs(flag: wp.array(dtype=int), count: wp.array(dtype=int)):
            pair, lane = wp.tid()
            if flag[pair] != 0:
                wp.atomic_add(count, 0, 1)  # error: WPA307
        """,
        """
        LANES = 4

        @wp.func
        def push(total: wp.array(dtype=float), value: float):
            total[0] += value  # error: WPA307

        @wp.kernel
        def add_up(value: wp.array(dtype=float), total: wp.array(dtype=float)):
            item, _ = wp.tid()
            push(total, value[item])

        def run(value, total):
            wp.launch(add_up, dim=(value.shape[0], LANES), inputs=[value, total])
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def leader(flag: wp.array(dtype=int), count: wp.array(dtype=int)):
            pair, lane = wp.tid()
            if lane == 0 and flag[pair] != 0:
                wp.atomic_add(count, 0, 1)

        @wp.kernel
        def clear(flag: wp.array(dtype=int), peak: wp.array(dtype=int)):
            pair, lane = wp.tid()
            flag[pair] = 0
            wp.atomic_max(peak, 0, pair)

        @wp.kernel
        def one(flag: wp.array(dtype=int), count: wp.array(dtype=int)):
            pair, lane = wp.tid()
            wp.atomic_add(count, 0, flag[pair])

        @wp.kernel
        def meant(flag: wp.array(dtype=int), count: wp.array(dtype=int)):
            pair, _lane = wp.tid()
            wp.atomic_add(count, 0, flag[pair])

        def run(flag, count):
            wp.launch(one, dim=(flag.shape[0], 1), inputs=[flag, count])
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        if (kernel.tid_arity or 0) < 2:
            return
        unused = {axis: one.name for axis, one in races.coordinates(kernel).items() if not kernel.flow.reads_of(one)}
        if not unused:
            return
        for touch in races.touches(kernel):
            if not touch.access.atomic or _repeatable(touch) or touch.picked.claimed:
                continue
            names = [name for axis, name in sorted(unused.items()) if axis not in touch.pins]
            if names:
                yield self.at(
                    kernel,
                    touch.node,
                    f"every thread along '{names[0]}' adds the same to '{touch.root}': nothing uses that coordinate",
                )


def _repeatable(touch: Touch) -> bool:
    """Whether it does not matter how often it is done."""
    access = touch.access
    if access.builtin is not None:
        return access.builtin in _REPEATABLE
    return isinstance(getattr(access.site.statement, "op", None), (ast.BitAnd, ast.BitOr))

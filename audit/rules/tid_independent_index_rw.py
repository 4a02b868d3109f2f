"""Declares the rule ``tid-independent-index-rw``."""

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


class TidIndependentIndexRw(Rule):
    """Threads test or read an element that others of the same launch write.

    What it finds: a kernel that reads an element and stores to it, where the index leaves out one of the thread
    coordinates and no condition picks one thread, so that all threads along that coordinate share the element.

    Why it matters: whether a thread reads the old or the new value depends on how threads are scheduled: a "first one
    does it" flag lets several through, or none that was meant. On the CPU the first thread wins, always.

    Instead: give the array an axis for the coordinate, let one thread of it decide (``if world == 0``), or claim the
    element with ``wp.atomic_cas`` or ``wp.atomic_exch`` and use what it returns.
    """

    code = "WPA302"
    severity = Severity.ERROR
    confidence = Confidence.MEDIUM
    references = ("google-deepmind/mujoco_warp#809",)
    BAD = (
        """
        @wp.kernel
        def place(offset: wp.array2d(dtype=wp.vec3), done: wp.array(dtype=int), pos: wp.array2d(dtype=wp.vec3)):
            world, g = wp.tid()
            if done[g] == 0:
                pos[world, g] = pos[world, g] + offset[world, g]
                done[g] = 1  # error: WPA302
        """,
        """
        @wp.func
        def warm(state: wp.array(dtype=int), at: int):
            if state[at] > 0:
                return False
            state[at] = 1  # error: WPA302
            return True

        @wp.kernel
        def start(state: wp.array(dtype=int), best: wp.array(dtype=float), cost: wp.array2d(dtype=float)):
            robot, sample = wp.tid()
            c = cost[robot, sample]
            if c < best[robot]:
                best[robot] = c  # error: WPA302
            if warm(state, robot):
                cost[robot, sample] = 0.0
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def place(fixed: wp.array(dtype=int), done: wp.array2d(dtype=int), pos: wp.array2d(dtype=wp.vec3)):
            world, g = wp.tid()
            if fixed[g] == 1:
                return
            if done[world, g] == 0:
                pos[world, g] = wp.vec3(0.0)
                done[world, g] = 1
            if world == 0 and fixed[g] == 0:
                fixed[g] = 2

        @wp.kernel
        def claim(owner: wp.array(dtype=int), pick: wp.array(dtype=int)):
            world, g = wp.tid()
            if wp.atomic_exch(owner, g, 1) == 0:
                pick[g] = pick[g] + world
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        if not any(effect.reads and effect.writes for effect in kernel.effects.values()):
            return
        touches = races.touches(kernel)
        written = {touch.root for touch in touches if touch.access.what == "write"}
        reads = [touch for touch in touches if touch.access.what == "read" and touch.root in written]
        if not reads or races.orders_itself(kernel):
            return
        axes = races.axes_of(kernel)
        for touch in touches:
            if touch.access.what != "write" or not touch.shared(axes) or races.own_read(touch) is not None:
                continue
            if _raises_flag(touch, axes):
                continue
            read = next((read for read in reads if _sees(read, touch) and read.shared(axes)), None)
            if read is not None:
                yield self.at(
                    kernel,
                    touch.node,
                    f"threads that differ in a coordinate only read and write the same element of '{touch.root}'",
                    f"it is read on line {read.access.node.lineno}, before or after another thread's store",
                )


def _sees(read: Touch, write: Touch) -> bool:
    """Whether a read of the same element comes before a store in a thread's own course."""
    if read.root != write.root or read.access.component != write.access.component or read.indices != write.indices:
        return False
    first, second = read.frames[0].site, write.frames[0].site
    if first.order < second.order or (first.order == second.order and read.access.site.order < write.access.site.order):
        return True
    return bool(set(first.loops) & set(second.loops))


def _raises_flag(touch: Touch, axes: frozenset[int]) -> bool:
    """Whether any of the threads may raise a flag when it comes upon something: who is first does not matter."""
    if not isinstance(touch.access.value, ast.Constant):
        return False
    own = touch.shared(axes)
    return any(frame.threads.of(guard.test).axes & own for frame in touch.frames for guard in frame.site.guards)

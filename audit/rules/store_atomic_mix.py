"""Declares the rule ``store-atomic-mix``."""

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


class StoreAtomicMix(Rule):
    """A plain store and an atomic operation of other threads go to the same element in one launch.

    What it finds: a kernel that stores to an array plainly and also updates it atomically, where the element of
    the store may be one that other threads update.

    Why it matters: nothing orders the two. What was added before the store is lost, how much differs from run to run.
    The CPU runs thread 0 first, so that "thread 0 initialises" seems to work.

    Instead: set the start value before the launch, or add it atomically as well, from one thread.
    """

    code = "WPA303"
    severity = Severity.ERROR
    confidence = Confidence.MEDIUM
    references = ("google-deepmind/mujoco_warp#982",)
    BAD = (
        """
        @wp.kernel
        def total(kinetic: wp.array(dtype=float), potential: float, energy: wp.array(dtype=float)):
            i = wp.tid()
            if i == 0:
                energy[0] = potential  # error: WPA303
            wp.atomic_add(energy, 0, kinetic[i])
        """,
        """
        @wp.kernel
        def degree(head: wp.array(dtype=int), tail: wp.array(dtype=int), count: wp.array(dtype=int)):
            edge = wp.tid()
            count[edge] = 0  # error: WPA303
            count[head[edge]] += 1
            wp.atomic_add(count, tail[edge], 1)
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def total(kinetic: wp.array(dtype=float), last: wp.array(dtype=float), energy: wp.array(dtype=float)):
            i = wp.tid()
            last[i] = kinetic[i]
            wp.atomic_add(energy, 0, kinetic[i])

        @wp.kernel
        def own(x: wp.array(dtype=float), y: wp.array(dtype=float), mode: int):
            i = wp.tid()
            x[i] = 0.0
            for k in range(4):
                x[i] += y[4 * i + k]
            if mode == 0:
                y[0] = 1.0
            else:
                wp.atomic_add(y, 0, x[i])

        @wp.kernel
        def bounds(x: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            if i == 0:
                out[2] = 1.0
            wp.atomic_min(out, 0, x[i])
            wp.atomic_max(out, 1, x[i])
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        if not any(effect.writes and effect.atomics for effect in kernel.effects.values()):
            return
        touches = races.touches(kernel)
        roots = {touch.root for touch in touches if touch.access.atomic}
        stores = [touch for touch in touches if touch.access.writes and touch.root in roots]
        if not stores or races.orders_itself(kernel):
            return
        axes = races.axes_of(kernel)
        for store in stores:
            if store.picked.claimed or store.dependence.claimed or store.dependence.unknown or _leaves(store):
                continue
            meets = (touch for touch in touches if touch.access.atomic and touch.root == store.root)
            other = next((touch for touch in meets if _meet(store, touch, axes)), None)
            if other is not None:
                yield self.at(
                    kernel,
                    store.node,
                    f"'{store.root}' is stored to here while other threads update the same element atomically",
                    f"the atomic operation is on line {other.access.node.lineno}",
                )


def _meet(store: Touch, atomic: Touch, axes: frozenset[int]) -> bool:
    if not atomic.shared(axes):
        listed = atomic.scattered(axes) and not atomic.dependence.parted
        # `a[k] += v` on a thread's own element is common; who writes `wp.atomic_add` knows that it is shared.
        if not listed or (atomic.indices == store.indices and atomic.access.builtin is None):
            return False
    return races.may_meet(store, atomic) and not races.exclusive(store, atomic)


def _leaves(store: Touch) -> bool:
    """Whether all threads that come to the element store and return: the condition tells no threads apart."""
    frame = store.frames[-1]
    if len(store.frames) > 1 or not frame.site.guards:
        return False
    guard = frame.site.guards[-1]
    if not frame.threads.of(guard.test).axes <= store.dependence.own:
        return False
    body = guard.site.statement
    branch = (body.body if guard.positive else body.orelse) if isinstance(body, ast.If) else []
    return frame.site.statement in branch and isinstance(branch[-1], ast.Return)

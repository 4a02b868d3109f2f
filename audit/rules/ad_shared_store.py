"""Declares the rule ``ad-shared-store``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source import races
from warp_audit.audit.source.autodiff import differentiated_kernels
from warp_audit.audit.source.gradients import Gradients, is_float
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.races import Touch


class AdSharedStore(Rule):
    """Several threads store to one element of a differentiated array without an atomic.

    What it finds: in a kernel that a tape records: a plain store of a differentiated value of the thread's own to an
    element whose index leaves out a thread coordinate, where no condition picks one thread.

    Why it matters: one thread's value stays, which one differs from run to run. The backward pass gives the element's
    gradient to every thread that stored, or to whichever comes first, not to the one whose value stayed.

    Instead: add with ``wp.atomic_add`` or ``+=``, or give each thread an element of its own.
    """

    code = "WPA409"
    severity = Severity.ERROR
    confidence = Confidence.MEDIUM
    BAD = (
        """
        @wp.kernel
        def misfit(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
            i = wp.tid()
            loss[0] = x[i] * x[i]  # error: WPA409

        @wp.kernel
        def row_sums(grid: wp.array2d(dtype=float), sums: wp.array(dtype=float)):
            row, col = wp.tid()
            value = grid[row, col]
            sums[row] = value  # error: WPA409

        def gradient(x, grid, sums, loss):
            with wp.Tape() as tape:
                wp.launch(misfit, dim=x.shape[0], inputs=[x], outputs=[loss])
                wp.launch(row_sums, dim=grid.shape, inputs=[grid, sums])
            tape.backward(loss=loss)
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def misfit(x: wp.array(dtype=float), loss: wp.array(dtype=float), own: wp.array(dtype=float)):
            i = wp.tid()
            wp.atomic_add(loss, 0, x[i] * x[i])
            own[i] = x[i]
            if i == 0:
                own[0] = x[i]

        @wp.kernel
        def single(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
            i = wp.tid()
            loss[0] = x[i] * x[i]

        def gradient(x, loss, own):
            with wp.Tape() as tape:
                wp.launch(misfit, dim=x.shape[0], inputs=[x], outputs=[loss, own])
                wp.launch(single, dim=1, inputs=[x], outputs=[loss])
            tape.backward(loss=loss)
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        if kernel not in differentiated_kernels(kernel.module) or races.orders_itself(kernel):
            return
        axes = races.axes_of(kernel)
        for touch in races.touches(kernel):
            if touch.access.what == "write" and touch.shared(axes) and _own_value(touch, axes):
                yield self.at(
                    kernel,
                    touch.node,
                    f"several threads store a differentiated value of their own to one element of '{touch.root}'",
                )


def _own_value(touch: Touch, axes: frozenset[int]) -> bool:
    """Whether what is stored is differentiated and differs between the threads that share the element."""
    value = touch.access.value
    if value is None or not is_float(touch.access.type.dtype) or races.own_read(touch) is not None:
        return False
    if not Gradients.of(touch.threads.function).active(value):
        return False
    return bool(touch.threads.of(value).axes & touch.shared(axes))

"""Declares the rule ``ad-write-after-read``."""

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
    from warp_audit.audit.source.gradients import Need
    from warp_audit.audit.source.races import Touch


class AdWriteAfterRead(Rule):
    """A differentiated kernel overwrites an element that the backward pass must read again.

    What it finds: in a kernel that a tape records: a plain store to an element of a floating-point array that was read
    before, where the derivative needs what was read: it went into a product, a function that is not linear, or the
    condition of the store.

    Why it matters: the backward pass does not store what the kernel read. It reads the array again, finds the new
    value, and the gradient is wrong without a message (``wp.config.verify_autograd_array_access`` tells at run time).

    Instead: write the result to another array.
    """

    code = "WPA407"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#947",)
    BAD = (
        """
        @wp.kernel
        def reset(vel: wp.array(dtype=float), energy: wp.array(dtype=float)):
            i = wp.tid()
            energy[i] = vel[i] * vel[i]
            vel[i] = 100.0  # error: WPA407

        @wp.kernel
        def scale(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            old = y[i]
            y[i] = old * x[i]  # error: WPA407

        @wp.kernel
        def clamp(x: wp.array(dtype=float)):
            i = wp.tid()
            if x[i] > 1.0:
                x[i] = 1.0  # error: WPA407

        def gradient(vel, energy):
            with wp.Tape() as tape:
                wp.launch(reset, dim=vel.shape[0], inputs=[vel], outputs=[energy])
                wp.launch(scale, dim=vel.shape[0], inputs=[vel, energy])
                wp.launch(clamp, dim=vel.shape[0], inputs=[vel])
            tape.backward(grads={energy: wp.ones_like(energy)})
        """,
        """
        @wp.func
        def store(q: wp.array(dtype=wp.vec3), i: int, value: wp.vec3):
            q[i] = value  # error: WPA407

        @wp.kernel
        def integrate(q: wp.array(dtype=wp.vec3), qd: wp.array(dtype=wp.vec3), dt: float):
            i = wp.tid()
            n = wp.normalize(q[i])
            store(q, i, n + qd[i] * dt)

        def gradient(q, qd):
            with wp.Tape() as tape:
                wp.launch(integrate, dim=q.shape[0], inputs=[q, qd, 0.1])
            tape.backward(grads={q: wp.ones_like(q)})
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def split(vel: wp.array(dtype=float), scratch: wp.array(dtype=float), energy: wp.array(dtype=float), dt: float):
            i = wp.tid()
            scratch[i] = 2.0 * vel[i]
            energy[i] = scratch[i] * scratch[i]
            vel[i] = vel[i] * dt + 0.1

        @wp.kernel
        def unrecorded(vel: wp.array(dtype=float)):
            i = wp.tid()
            vel[i] = vel[i] * vel[i]

        def gradient(vel, scratch, energy):
            wp.launch(unrecorded, dim=vel.shape[0], inputs=[vel])
            with wp.Tape() as tape:
                wp.launch(split, dim=vel.shape[0], inputs=[vel, scratch, energy, 0.1])
            tape.backward(grads={energy: wp.ones_like(energy)})
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        if kernel not in differentiated_kernels(kernel.module):
            return
        touches = races.touches(kernel)
        for store in touches:
            if store.access.what != "write" or not is_float(store.access.type.dtype):
                continue
            reads = (one for one in touches if one.access.what == "read" and _before(one, store))
            need = next((need for read in reads for need in _needs(read, store)), None)
            if need is not None:
                yield self.at(
                    kernel,
                    store.node,
                    f"this store replaces an element of '{store.root}' whose old value the backward pass needs",
                    f"the derivative on line {need.statement.lineno} needs it; write to another array instead",
                )


def _before(read: Touch, store: Touch) -> bool:
    if read.root != store.root or read.indices != store.indices or races.exclusive(read, store):
        return False
    first, second = read.frames[0].site, store.frames[0].site
    if first.order == second.order:  # in one statement, or in one call of a func
        first, second = read.frames[-1].site, store.frames[-1].site
        return first.order <= second.order if len(read.frames) == len(store.frames) else True
    return first.order < second.order


def _needs(read: Touch, store: Touch) -> Iterator[Need]:
    gradients = Gradients.of(read.threads.function)
    yield from gradients.needs(read.access.node)
    guards = {guard.test for guard in store.frames[-1].site.guards}
    yield from (need for need in gradients.needs(read.access.node, control=True) if need.node in guards)

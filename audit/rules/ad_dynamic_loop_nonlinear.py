"""Declares the rule ``ad-dynamic-loop-nonlinear``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.autodiff import differentiated_functions
from warp_audit.audit.source.gradients import stale_values
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class AdDynamicLoopNonlinear(Rule):
    """A value that a run-time loop carries is used in a way whose derivative needs it.

    What it finds: in a kernel that a tape records, or a func that it calls: a floating-point value that a loop with
    run-time bounds changes from step to step, where it is multiplied with another differentiated value or goes into
    a function that is not linear, in the loop or behind it in the same body.

    Why it matters: Warp does not store the values of such a loop, nor run the loop again before the backward pass. The
    derivative is computed from a wrong value, mostly the first or the last one, and nothing is said.

    Instead: give the loop constant bounds of at most 16 steps, so that it is unrolled; keep what the loop carries in an
    array; for a use behind the loop, put the loop into a ``@wp.func`` and use what it returns.
    """

    code = "WPA411"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#140",)
    BAD = (
        """
        @wp.kernel
        def chain(gain: wp.array(dtype=float), n: int, out: wp.array(dtype=float)):
            p = float(1.0)
            for i in range(n):
                p = p * gain[i]  # error: WPA411
            out[0] = p

        @wp.kernel
        def norm(x: wp.array2d(dtype=float), out: wp.array(dtype=float)):
            row = wp.tid()
            total = float(0.0)
            for k in range(x.shape[1]):
                v = x[row, k]
                total += v * v
            out[row] = wp.sqrt(total)  # error: WPA411

        def gradient(gain, x, out):
            tape = wp.Tape()
            with tape:
                wp.launch(chain, dim=1, inputs=[gain, gain.shape[0]], outputs=[out])
                wp.launch(norm, dim=x.shape[0], inputs=[x], outputs=[out])
            tape.backward(grads={out: wp.ones_like(out)})
        """,
        """
        @wp.func
        def horner(c: wp.array(dtype=float), x: float):
            y = float(0.0)
            k = int(0)
            while k < c.shape[0]:
                y = y * x + c[k]  # error: WPA411
                k += 1
            return y

        @wp.kernel
        def evaluate(c: wp.array(dtype=float), x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            y[i] = horner(c, x[i])

        def gradient(c, x, y):
            with wp.Tape() as tape:
                wp.launch(evaluate, dim=x.shape[0], inputs=[c, x, y])
            tape.backward(grads={y: wp.ones_like(y)})
        """,
    )
    GOOD = (
        """
        @wp.func
        def total(x: wp.array(dtype=float), n: int):
            s = float(0.0)
            for i in range(n):
                s = s + x[i] * x[i] * 3.0
            return s

        @wp.kernel
        def norm(x: wp.array(dtype=float), n: int, out: wp.array(dtype=float)):
            out[0] = wp.sqrt(total(x, n))

        @wp.kernel
        def chain_three(gain: wp.array(dtype=float), out: wp.array(dtype=float)):
            p = float(1.0)
            for i in range(3):
                p = p * gain[i]
            out[0] = p

        @wp.kernel
        def not_recorded(gain: wp.array(dtype=float), n: int, out: wp.array(dtype=float)):
            p = float(1.0)
            for i in range(n):
                p = p * gain[i]
            out[0] = p

        def gradient(gain, out):
            with wp.Tape() as tape:
                wp.launch(norm, dim=1, inputs=[gain, gain.shape[0]], outputs=[out])
                wp.launch(chain_three, dim=1, inputs=[gain], outputs=[out])
            tape.backward(loss=out)
            wp.launch(not_recorded, dim=1, inputs=[gain, gain.shape[0]], outputs=[out])
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function not in differentiated_functions(function.module):
            return
        for stale in stale_values(function):
            if stale.why == "run time":
                where = "carries" if stale.inside else "computed"
                yield self.at(
                    function,
                    stale.node,
                    f"the derivative here needs '{stale.name}' as the loop on line {stale.loop.lineno} {where} it, "
                    "which the backward pass does not have",
                )

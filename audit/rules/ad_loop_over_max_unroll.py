"""Declares the rule ``ad-loop-over-max-unroll``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.autodiff import differentiated_functions
from warp_audit.audit.source.gradients import max_unroll, stale_values
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class AdLoopOverMaxUnroll(Rule):
    """A constant loop is too long to be unrolled, and the backward pass needs what it carries.

    What it finds: in a kernel that a tape records, or a func that it calls: a loop with constant bounds and more steps
    than ``max_unroll`` (16, if no option says otherwise), and a use of a value it carries whose derivative needs it.

    Why it matters: the loop becomes one with run-time bounds, whose values the backward pass does not have again. The
    gradient is wrong without a message; with one step less it was right.

    Instead: raise the module's ``max_unroll``, split the loop into parts, or keep the values in an array.
    """

    code = "WPA412"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    BAD = (
        """
        @wp.kernel
        def growth(rate: wp.array(dtype=float), out: wp.array(dtype=float)):
            p = float(1.0)
            for _step in range(20):
                p *= rate[0]  # error: WPA412
            out[0] = p

        def gradient(rate, out):
            with wp.Tape() as tape:
                wp.launch(growth, dim=1, inputs=[rate], outputs=[out])
            tape.backward(loss=out)
        """,
        """
        wp.set_module_options({"max_unroll": 4})
        STEPS = wp.constant(8)

        @wp.kernel
        def decay(x: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            v = x[i]
            for k in range(0, STEPS):
                v = v - 0.1 * wp.sin(v)  # error: WPA412
            out[i] = v

        def gradient(x, out):
            tape = wp.Tape()
            with tape:
                wp.launch(kernel=decay, dim=x.shape[0], inputs=[x, out])
            tape.backward(grads={out: wp.ones_like(out)})
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def growth(rate: wp.array(dtype=float), out: wp.array(dtype=float)):
            p = float(1.0)
            s = float(0.0)
            for _step in range(16):
                p *= rate[0]
            for _step in range(20):
                s += rate[0]
            out[0] = p
            out[1] = s

        def gradient(rate, out):
            with wp.Tape() as tape:
                wp.launch(growth, dim=1, inputs=[rate], outputs=[out])
            tape.backward(grads={out: wp.ones_like(out)})
        """,
        """
        wp.set_module_options({"max_unroll": 32})

        @wp.kernel
        def growth(rate: wp.array(dtype=float), out: wp.array(dtype=float)):
            p = float(1.0)
            for _step in range(20):
                p *= rate[0]
            out[0] = p

        def gradient(rate, out):
            with wp.Tape() as tape:
                wp.launch(growth, dim=1, inputs=[rate], outputs=[out])
            tape.backward(loss=out)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function not in differentiated_functions(function.module):
            return
        for stale in stale_values(function):
            if stale.why == "long":
                yield self.at(
                    function,
                    stale.node,
                    f"the loop on line {stale.loop.lineno} has more than {max_unroll(function)} steps, so it is not "
                    f"unrolled, and the derivative here needs its '{stale.name}'",
                )

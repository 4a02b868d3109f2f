"""Declares the rule ``unroll-defeated``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.autodiff import differentiated_functions
from warp_audit.audit.source.gradients import stale_values
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class UnrollDefeated(Rule):
    """A ``break`` keeps a short constant loop from being unrolled, and the backward pass needs what it carries.

    What it finds: in a kernel that a tape records, or a func that it calls: a loop with constant bounds that is left by
    ``break``, and a use of a value it carries whose derivative needs the value.

    Why it matters: Warp compiles such a loop as one with run-time bounds, whose values the backward pass does not have
    again. The gradient is wrong without a message.

    Instead: let the loop run to its end and guard the work by a flag (``if alive > 0.0:``).
    """

    code = "WPA413"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#692",)
    BAD = (
        """
        @wp.kernel
        def path_loss(gain: wp.array(dtype=float), out: wp.array(dtype=float)):
            p = float(1.0)
            for k in range(5):  # error: WPA413
                if gain[k] < 0.0:
                    break
                p = p * gain[k]
            out[0] = p

        def gradient(gain, out):
            with wp.Tape() as tape:
                wp.launch(path_loss, dim=1, inputs=[gain], outputs=[out])
            tape.backward(loss=out)
        """,
        """
        @wp.func
        def newton(x: float, target: float):
            y = float(1.0)
            for _ in range(8):  # error: WPA413
                error = y * y - x
                if wp.abs(error) < 1.0e-6:
                    break
                y -= 0.5 * error / y
            return y

        @wp.kernel
        def roots(x: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            out[i] = newton(x[i], 0.0)

        def gradient(x, out):
            with wp.Tape() as tape:
                wp.launch(roots, dim=x.shape[0], inputs=[x], outputs=[out])
            tape.backward(grads={out: wp.ones_like(out)})
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def path_loss(gain: wp.array(dtype=float), out: wp.array(dtype=float)):
            p = float(1.0)
            alive = float(1.0)
            for k in range(5):
                if gain[k] < 0.0:
                    alive = 0.0
                if alive > 0.0:
                    p = p * gain[k]
                for j in range(3):
                    if gain[j] > 9.0:
                        break
            out[0] = p

        @wp.kernel
        def first_negative(gain: wp.array(dtype=int), out: wp.array(dtype=int)):
            found = int(-1)
            for k in range(5):
                if gain[k] < 0:
                    found = k
                    break
            out[0] = found

        def gradient(gain, out, flags, at):
            with wp.Tape() as tape:
                wp.launch(path_loss, dim=1, inputs=[gain], outputs=[out])
                wp.launch(first_negative, dim=1, inputs=[flags], outputs=[at])
            tape.backward(loss=out)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function not in differentiated_functions(function.module):
            return
        for stale in stale_values(function):
            if stale.why == "break":
                yield self.at(
                    function,
                    stale.loop,
                    f"'break' keeps this loop from being unrolled, and the backward pass needs its '{stale.name}'",
                    f"the derivative on line {stale.node.lineno} needs it",  # type: ignore[attr-defined]
                )

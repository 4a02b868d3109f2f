"""Declares the rule ``ad-mutate-before-backward``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.tapes import Recorded, overwritten, plainly_written, read_roots, recordings
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.flow import Site
    from warp_audit.audit.source.host import HostFunction
    from warp_audit.audit.source.tapes import Recording


class AdMutateBeforeBackward(Rule):
    """An array that a recorded launch has read is changed from outside before the backward pass.

    What it finds: ``x.fill_(...)``, ``x.zero_()``, ``x.assign(...)``, ``wp.copy(x, ...)`` or an unrecorded launch that
    stores to ``x``, between a recorded launch whose derivative needs the values of ``x`` and ``tape.backward``.

    Why it matters: the tape keeps no copies. The backward pass reads the array as it is then, and differentiates at the
    new values without a message.

    Instead: change the array after the backward pass, or change a copy.
    """

    code = "WPA405"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1350",)
    calls = frozenset(("backward",))
    BAD = (
        """
        @wp.kernel
        def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            y[i] = x[i] * x[i]

        @wp.kernel
        def advance(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = x[i] + 1.0

        def gradient(x, y, other):
            with wp.Tape() as tape:
                wp.launch(square, dim=x.shape[0], inputs=[x], outputs=[y])
                x.zero_()  # error: WPA405
            x.fill_(10.0)  # error: WPA405
            wp.copy(x, other)  # error: WPA405
            wp.launch(advance, dim=x.shape[0], inputs=[x])  # error: WPA405
            tape.backward(grads={y: wp.ones_like(y)})
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            y[i] = x[i] * x[i]

        @wp.kernel
        def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            y[i] = 2.0 * x[i]

        def gradient(x, y, other):
            x.fill_(2.0)
            with wp.Tape() as tape:
                wp.launch(square, dim=x.shape[0], inputs=[x], outputs=[y])
                wp.launch(double, dim=x.shape[0], inputs=[other], outputs=[y])
            y.zero_()
            other.zero_()
            tape.backward(grads={y: wp.ones_like(y)})
            x.fill_(10.0)
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        for recording in recordings(function):
            for node, target, order in _changes(function, recording):
                root = function.root_name(target)
                before = (launch for launch in recording.launches if launch.site.order < order)
                reader = next((one for one in before if any(root == read for read, _ in read_roots(one, True))), None)
                if reader is None or root is None:
                    continue
                if any(call.site.order > order and _together(call.site, reader.site) for call in recording.backwards):
                    yield self.at(
                        function,
                        node,
                        f"'{ast.unparse(target)}' changes before the backward pass over the launch that has read it",
                        f"the launch is on line {reader.node.lineno}; its derivative needs the values that it read",
                    )


def _changes(function: HostFunction, recording: Recording) -> Iterator[tuple[ast.AST, ast.expr, int]]:
    """What the host does to arrays, other than by launches of the recording."""
    for call in function.calls:
        target = overwritten(call, function)
        if target is not None and not (call.name in ("warp.copy", ".assign") and recording.holds(call.site)):
            yield call.node, target, call.site.order
    for launch in function.launches:
        if not recording.holds(launch.site):
            for _, argument in plainly_written(Recorded(launch, launch.site)):
                yield launch.node, argument, launch.site.order


def _together(backward: Site, launch: Site) -> bool:
    """Whether one pass of the loops around a launch comes to the backward call."""
    return set(launch.loops) <= set(backward.loops) or set(backward.loops) <= set(launch.loops)

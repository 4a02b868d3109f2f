"""Declares the rule ``ad-missing-requires-grad``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import SetKeyword
from warp_audit.audit.rule import Finding, Fix, Place, Rule, Safety
from warp_audit.audit.source.tapes import flagged_later, read_roots, recordings, written_roots
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.arrays import ArrayFact
    from warp_audit.audit.source.host import HostFunction
    from warp_audit.audit.source.tapes import Recorded, Recording


class AdMissingRequiresGrad(Rule):
    """An array between two recorded launches has no storage for its gradient.

    What it finds: an array made without ``requires_grad=True`` that a recorded launch writes from differentiated arrays
    and a later launch on the same tape reads, where the backward pass goes through both.

    Why it matters: Warp cuts the chain there. The gradients of everything before are exactly zero, without a message.

    Instead: make the array with ``requires_grad=True``.
    """

    code = "WPA401"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    calls = frozenset(("launch", "launch_tiled"))
    fix_safety = Safety.SAFE
    BAD = (
        """
        @wp.kernel
        def drag(v: wp.array(dtype=float), f: wp.array(dtype=float)):
            i = wp.tid()
            f[i] = v[i] * v[i]

        @wp.kernel
        def work(f: wp.array(dtype=float), loss: wp.array(dtype=float)):
            i = wp.tid()
            wp.atomic_add(loss, 0, f[i])

        def gradient(n):
            v = wp.ones(n, dtype=float, requires_grad=True)
            f = wp.zeros(n, dtype=float)
            loss = wp.zeros(1, dtype=float, requires_grad=True)
            with wp.Tape() as tape:
                wp.launch(drag, dim=n, inputs=[v], outputs=[f])
                wp.launch(work, dim=n, inputs=[f], outputs=[loss])  # error: WPA401
            tape.backward(loss=loss)

        class Fit:
            def __init__(self, n):
                self.n = n
                self.v = wp.ones(n, dtype=float, requires_grad=True)
                self.f = wp.empty_like(self.v, requires_grad=False)
                self.loss = wp.zeros(1, dtype=float, requires_grad=True)

            def forward(self):
                wp.launch(drag, self.n, [self.v, self.f])
                wp.launch(work, self.n, [self.f, self.loss])  # error: WPA401

            def step(self):
                self.tape = wp.Tape()
                with self.tape:
                    self.forward()
                self.tape.backward(self.loss)
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def drag(v: wp.array(dtype=float), f: wp.array(dtype=float)):
            i = wp.tid()
            f[i] = v[i] * v[i]

        @wp.kernel
        def work(f: wp.array(dtype=float), loss: wp.array(dtype=float)):
            i = wp.tid()
            wp.atomic_add(loss, 0, f[i])

        def gradient(n):
            v = wp.ones(n, dtype=float, requires_grad=True)
            f = wp.zeros_like(v)
            loss = wp.zeros(1, dtype=float, requires_grad=True)
            with wp.Tape() as tape:
                wp.launch(drag, dim=n, inputs=[v], outputs=[f])
                wp.launch(work, dim=n, inputs=[f], outputs=[loss])
            tape.backward(loss=loss)

        def flagged(n):
            v = wp.ones(n, dtype=float, requires_grad=True)
            f = wp.zeros(n, dtype=float)
            f.requires_grad = True
            target = wp.zeros(n, dtype=float)
            loss = wp.zeros(1, dtype=float, requires_grad=True)
            wp.launch(drag, dim=n, inputs=[v], outputs=[target])
            with wp.Tape() as tape:
                wp.launch(drag, dim=n, inputs=[v], outputs=[f])
                wp.launch(work, dim=n, inputs=[f], outputs=[loss])
                wp.launch(work, dim=n, inputs=[target], outputs=[loss])
            tape.backward(loss=loss)

        def forward_only(n):
            v = wp.ones(n, dtype=float)
            f = wp.zeros(n, dtype=float)
            loss = wp.zeros(1, dtype=float)
            wp.launch(drag, dim=n, inputs=[v], outputs=[f])
            wp.launch(work, dim=n, inputs=[f], outputs=[loss])
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        for recording in recordings(function):
            if len(recording.launches) < 2 or not recording.goes_back:
                continue
            by_hand = flagged_later(function)
            for number, launch in enumerate(recording.launches):
                for root, argument in read_roots(launch):
                    fact = launch.launch.function.array(argument)
                    if fact is None or fact.requires_grad is not False or root in by_hand:
                        continue
                    source = _source(recording, number, root)
                    if source is not None and _matters(source, launch):
                        yield self.at(
                            function,
                            launch.node,
                            f"'{ast.unparse(argument)}' has no gradient storage: nothing before this gets a gradient",
                            f"the launch on line {source.node.lineno} writes it",
                            fix=self._fix(function, fact),
                        )
                        break

    def _fix(self, function: HostFunction, fact: ArrayFact) -> Fix | None:
        if fact.function is None or fact.function.module is not function.module:
            return None
        return self.mend("Give the array a gradient", SetKeyword(Place.of(fact.made), "requires_grad", "True"))


def _source(recording: Recording, number: int, root: str) -> Recorded | None:
    """The recorded launch before another that writes an array."""
    for launch in reversed(recording.launches[:number]):
        kernel = launch.launch.kernel
        if kernel is None or not recording.same_run(launch, recording.launches[number]):
            continue
        if kernel.enable_backward:
            if any(written == root for written, _ in written_roots(launch)):
                return launch
    return None


def _matters(source: Recorded, sink: Recorded) -> bool:
    """Whether gradients come to the launch that reads and are wanted by the one that writes."""
    if sink.launch.kernel is None or not sink.launch.kernel.enable_backward:
        return False
    wanted = [_flag(source, argument) for _, argument in read_roots(source)]
    given = [_flag(sink, argument) for _, argument in written_roots(sink)]
    if all(flag is False for flag in wanted) or all(flag is False for flag in given):
        return False
    return True in wanted or True in given


def _flag(recorded: Recorded, argument: ast.expr) -> bool | None:
    fact = recorded.launch.function.array(argument)
    return fact.requires_grad if fact is not None else None

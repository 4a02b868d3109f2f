"""Declares the rule ``ad-overwritten-under-tape``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.tapes import plainly_written, read_roots, recordings
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.flow import Def
    from warp_audit.audit.source.host import HostFunction
    from warp_audit.audit.source.tapes import Recorded, Recording


class AdOverwrittenUnderTape(Rule):
    """A recorded launch overwrites an array that an earlier one on the same tape has read.

    What it finds: two launches on one tape, of which the first reads a floating-point array in a way whose derivative
    needs the values, and the second, or the same one in the next pass of a loop, stores to that array; also two buffers
    that a loop swaps.

    Why it matters: the tape keeps no copies. The backward pass over the first launch reads the values that the second
    has put there, and the gradient is wrong without a message.

    Instead: give each step arrays of its own (a list of states), or keep a copy of what is overwritten with a recorded
    ``wp.clone``.
    """

    code = "WPA406"
    severity = Severity.ERROR
    confidence = Confidence.MEDIUM
    references = ("NVIDIA/warp#1470",)
    calls = frozenset(("launch", "launch_tiled"))
    BAD = (
        """
        @wp.kernel
        def force(x: wp.array(dtype=float), f: wp.array(dtype=float)):
            i = wp.tid()
            f[i] = -x[i] * x[i]

        @wp.kernel
        def move(f: wp.array(dtype=float), dt: float, x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = 0.5 + f[i] * dt

        def one(x, f):
            with wp.Tape() as tape:
                wp.launch(force, dim=x.shape[0], inputs=[x], outputs=[f])
                wp.launch(move, dim=x.shape[0], inputs=[f, 0.1], outputs=[x])  # error: WPA406
            tape.backward(grads={x: wp.ones_like(x)})

        def swapped(x, y, steps):
            tape = wp.Tape()
            with tape:
                for _ in range(steps):
                    wp.launch(force, dim=x.shape[0], inputs=[x], outputs=[y])  # error: WPA406
                    x, y = y, x
            tape.backward(grads={x: wp.ones_like(x)})

        class Rollout:
            def step(self):
                wp.launch(force, dim=self.n, inputs=[self.x], outputs=[self.f])
                wp.launch(move, dim=self.n, inputs=[self.f, 0.1], outputs=[self.x])  # error: WPA406

            def run(self):
                with wp.Tape() as tape:
                    for _ in range(10):
                        self.step()
                tape.backward(self.loss)
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def force(x: wp.array(dtype=float), f: wp.array(dtype=float)):
            i = wp.tid()
            f[i] = -x[i] * x[i]

        @wp.kernel
        def add(f: wp.array(dtype=float), total: wp.array(dtype=float)):
            i = wp.tid()
            wp.atomic_add(total, 0, f[i])

        def steps(states, f, total, x, scale):
            with wp.Tape() as tape:
                for k in range(len(states) - 1):
                    wp.launch(force, dim=f.shape[0], inputs=[states[k]], outputs=[states[k + 1]])
                wp.launch(force, dim=f.shape[0], inputs=[x], outputs=[f])
                wp.launch(add, dim=f.shape[0], inputs=[f], outputs=[total])
                wp.launch(force, dim=f.shape[0], inputs=[scale], outputs=[f])
            tape.backward(loss=total)
            wp.launch(force, dim=f.shape[0], inputs=[x], outputs=[x])
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        for recording in recordings(function):
            if not recording.goes_back:
                continue
            for launch in recording.launches:
                found = _overwrites(function, recording, launch)
                if found is not None:
                    argument, reader = found
                    when = "in the pass before" if reader is launch else f"on line {reader.node.lineno}"
                    yield self.at(
                        function,
                        launch.node,
                        f"this launch overwrites '{ast.unparse(argument)}', whose old values the backward pass needs",
                        f"the launch {when} has read them",
                    )


def _overwrites(function: HostFunction, recording: Recording, launch: Recorded) -> tuple[ast.expr, Recorded] | None:
    """An array that a launch stores to, and the recorded launch that has read it before."""
    for root, argument in plainly_written(launch):
        for reader in recording.launches:
            shared = set(reader.site.loops) & set(launch.site.loops)
            if reader.site.order >= launch.site.order and (reader is not launch or not shared):
                continue
            if not recording.same_run(reader, launch):
                continue
            for read, other in read_roots(reader, only_needed=True):
                if read == root and (reader is not launch or _stays(function, argument)):
                    return argument, reader
                if shared and _swapped(function, other, argument):
                    return argument, reader
    return None


def _stays(function: HostFunction, argument: ast.expr) -> bool:
    """Whether a name is the same array in each pass of a loop."""
    definition = function.flow.uses.get(argument)
    return definition is None or definition.kind in ("parameter", "free", "assign")


def _swapped(function: HostFunction, read: ast.expr, written: ast.expr) -> bool:
    """Whether the loop ends in ``x, y = y, x``, so that what was read is written in the next pass."""
    one, other = function.flow.uses.get(read), function.flow.uses.get(written)
    if one is None or other is None or one.kind != "loop_phi" or other.kind != "loop_phi":
        return False
    return _takes(function, one, other) and _takes(function, other, one)


def _takes(function: HostFunction, to: Def, source: Def) -> bool:
    """Whether a name's value at the end of a loop is another's at its head."""
    return any(
        isinstance(end.value, ast.Name) and function.flow.uses.get(end.value) is source
        for end in to.sources
        if end.kind == "assign" and end.index is None
    )

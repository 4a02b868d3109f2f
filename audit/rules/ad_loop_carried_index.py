"""Declares the rule ``ad-loop-carried-index``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.autodiff import differentiated_functions
from warp_audit.audit.source.gradients import accesses_of_floats, carried, index_sources, is_whole
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class AdLoopCarriedIndex(Rule):
    """A counter that a loop moves is the index of a differentiated access.

    What it finds: in a kernel that a tape records, or a func that it calls: an element of a floating-point array whose
    index is made from a whole number that a loop which is not unrolled changes from step to step.

    Why it matters: the backward pass does not have the counter's values again. It sends gradients to wrong elements,
    or reads and writes outside of the array, and nothing is said.

    Instead: compute the index from the loop's own variable (``for k in range(start, end)``), or store the indices in an
    array first.
    """

    code = "WPA414"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("google-deepmind/mujoco_warp#1423",)
    BAD = (
        """
        @wp.kernel
        def spread(row_end: wp.array(dtype=int), value: wp.array(dtype=float), out: wp.array(dtype=float)):
            cursor = int(0)
            for r in range(row_end.shape[0]):
                while cursor < row_end[r]:
                    out[cursor] = value[r] * value[r]  # error: WPA414
                    cursor += 1

        @wp.kernel
        def nearest(x: wp.array(dtype=float), n: int, out: wp.array(dtype=float)):
            i = wp.tid()
            best = int(0)
            for k in range(n):
                if x[k] > 3.0:
                    best = k
            out[i] = x[best]  # error: WPA414

        def gradient(row_end, value, out):
            with wp.Tape() as tape:
                wp.launch(spread, dim=1, inputs=[row_end, value], outputs=[out])
                wp.launch(nearest, dim=1, inputs=[value, 3], outputs=[out])
            tape.backward(grads={out: wp.ones_like(out)})
        """,
        """
        @wp.func
        def chain_sum(next: wp.array(dtype=int), x: wp.array(dtype=float), first: int):
            at = first
            s = float(0.0)
            while at >= 0:
                s += x[at]  # error: WPA414
                at = next[at]
            return s

        @wp.kernel
        def sums(next: wp.array(dtype=int), x: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            out[i] = chain_sum(next, x, i)

        def gradient(next, x, out):
            with wp.Tape() as tape:
                wp.launch(sums, dim=out.shape[0], inputs=[next, x], outputs=[out])
            tape.backward(grads={out: wp.ones_like(out)})
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def spread(row_end: wp.array(dtype=int), value: wp.array(dtype=float), out: wp.array(dtype=float)):
            r = wp.tid()
            begin = int(0)
            if r > 0:
                begin = row_end[r - 1]
            for k in range(begin, row_end[r]):
                out[k] = value[r] * value[r]
            at = int(0)
            for k in range(4):
                out[at] = out[at] + value[k]
                at += 2

        @wp.kernel
        def count(value: wp.array(dtype=int), out: wp.array(dtype=int), n: int):
            at = int(0)
            for k in range(n):
                out[at] = value[k]
                at += 1

        def gradient(row_end, value, out, whole):
            with wp.Tape() as tape:
                wp.launch(spread, dim=row_end.shape[0], inputs=[row_end, value], outputs=[out])
                wp.launch(count, dim=1, inputs=[whole, whole, 2])
            tape.backward(grads={out: wp.ones_like(out)})
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function not in differentiated_functions(function.module):
            return
        counters = {id(one): (one, loop) for one, loop, _ in carried(function) if is_whole(function, one)}
        if not counters:
            return
        for access in accesses_of_floats(function):
            for definition in index_sources(function, access.indices):
                behind = next(
                    (counters[id(one)] for one in (definition, *definition.sources) if id(one) in counters), None
                )
                if behind is not None:
                    counter, loop = behind
                    yield self.at(
                        function,
                        access.node,
                        f"the index into '{access.root}' is made from '{counter.name}', which the loop on line "
                        f"{loop.lineno} moves; the backward pass does not have its values",
                    )
                    break

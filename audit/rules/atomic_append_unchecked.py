"""Declares the rule ``atomic-append-unchecked``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import guards_on, indices
from warp_audit.audit.source.symbolic import Form
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.symbolic import Atom


class AtomicAppendUnchecked(Rule):
    """A slot from an atomic counter is written to without a look at the buffer's capacity.

    What it finds: ``slot = wp.atomic_add(count, 0, 1)`` of one counter for all threads, and a store at ``slot``
    that no condition guards.

    Why it matters: once more threads append than the buffer has room for, Warp writes past its end, silently.

    Instead: ``if slot < buffer.shape[0]:`` around the store; the counter then tells how many did not fit.
    """

    code = "WPA209"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#1375",)
    opt_in = True
    BAD = (
        """
        @wp.func
        def push(count: wp.array(dtype=int), a: wp.array(dtype=int), b: wp.array(dtype=float), v: int):
            k = wp.atomic_add(count, 0, 2)
            a[k] = v  # error: WPA209
            a[k + 1] = v + 1  # error: WPA209

        @wp.struct
        class Buffer:
            count: wp.array(dtype=int)
            items: wp.array(dtype=int)

        @wp.kernel
        def collect(x: wp.array(dtype=float), out: Buffer):
            i = wp.tid()
            if x[i] > 0.0:
                out.items[wp.atomic_add(out.count, 0, 1)] = i  # error: WPA209
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def collect(x: wp.array(dtype=float), count: wp.array(dtype=int), ids: wp.array(dtype=int), limit: int):
            i = wp.tid()
            k = wp.atomic_add(count, 0, 1)
            if k < limit:
                ids[k] = i
            j = wp.min(wp.atomic_add(count, 1, 1), ids.shape[0] - 1)
            ids[j] = i

        @wp.kernel
        def fill(cell: wp.array[int], start: wp.array[int], used: wp.array[int], ids: wp.array[int]):
            i = wp.tid()
            c = cell[i]
            ids[start[c] + wp.atomic_add(used, c, 1)] = i
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        reported: set[ast.stmt] = set()
        for access in function.accesses:
            if not (access.writes or access.atomic) or access.site.statement in reported:
                continue
            for axis, index, form in indices(function, access):
                if len(form.terms) != 1 or form.constant < 0:
                    continue
                ((atom, coefficient),) = form.terms
                if coefficient != 1 or atom[0] != "call" or atom[1] != "atomic_add" or not _is_shared(atom):
                    continue
                if guards_on(function, access.site, {atom}) or function.symbols.upper_bounds(form, access.site):
                    continue
                reported.add(access.site.statement)
                yield self.at(
                    function,
                    access.node,
                    f"nothing keeps the slot '{ast.unparse(index)}' below the length of '{access.root}'",
                    f"store only if it is < {access.root}.shape[{axis}]",
                )
                break


def _is_shared(atom: Atom) -> bool:
    """Whether the counter is one for all threads: its index is constant."""
    indices_and_value = [part for part in atom[3:] if isinstance(part, Form)]
    return all(part.is_constant for part in indices_and_value[:-1]) and len(indices_and_value) >= 2

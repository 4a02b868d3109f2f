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
    words = ("atomic_add",)
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

        @wp.func
        def reserve(count: wp.array(dtype=int)):
            return wp.atomic_add(count, 0, 1)

        @wp.kernel
        def rows(x: wp.array2d(dtype=float), n: wp.array(dtype=int), a: wp.array2d(dtype=int), b: wp.array(dtype=int)):
            w, i = wp.tid()
            k = wp.atomic_add(n, w, 1)
            a[w, k] = i  # error: WPA209
            j = reserve(n)
            b[2 * j] = i  # error: WPA209
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
        counters = _counters(function)
        if not counters:
            return
        reported: set[ast.stmt] = set()
        for access in function.accesses:
            if not (access.writes or access.atomic) or access.site.statement in reported:
                continue
            values = [form for _, _, form in indices(function, access)]
            for axis, (index, form) in enumerate(zip(access.indices, values, strict=True)):
                if len(form.terms) != 1 or form.constant < 0:
                    continue
                ((atom, coefficient),) = form.terms
                if coefficient < 1 or atom not in counters:
                    continue
                row = counters[atom]
                if not all(part.is_constant or part in values[:axis] for part in row):
                    continue  # a counter of its own for each bin: where the bins start, their sizes are known
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


def _counters(function: DeviceFunction) -> dict[Atom, list[Form]]:
    """The slots that the function reserves, each with the indices of its counter."""
    found: dict[Atom, list[Form]] = {}
    for call, _ in function.calls():
        name = function.builtin(call)
        if name == "atomic_add" or (name is None and _reserves(function, call)):
            atom = function.symbols.form(call).single()
            if atom is not None:
                places = [argument for argument in call.args[1:-1] if not isinstance(argument, ast.Starred)]
                places += [word.value for word in call.keywords if word.arg in _PLACES]
                rows = [function.symbols.form(place) for place in places] if name else []
                found[atom] = rows
    return found


_PLACES = ("i", "j", "k", "l")


def _reserves(function: DeviceFunction, call: ast.Call) -> bool:
    """Whether a func only gives back what ``wp.atomic_add`` of one counter for all gave it."""
    callee = function.callee(call)
    if callee is None or callee.kind != "func" or len(callee.node.body) > 3:
        return False
    last = callee.node.body[-1]
    atom = callee.symbols.form(last.value).single() if isinstance(last, ast.Return) and last.value else None
    if atom is None or atom[0] != "call" or atom[1] != "atomic_add":
        return False
    return all(part.is_constant for part in [part for part in atom[3:] if isinstance(part, Form)][:-1])

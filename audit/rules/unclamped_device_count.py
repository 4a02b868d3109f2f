"""Declares the rule ``unclamped-device-count``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import indices
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.symbolic import Form


class UnclampedDeviceCount(Rule):
    """A counter on the device is the only bound of an index into another buffer.

    What it finds: an index that is compared only with an element of an integer array, ``if t < count[0]`` or
    ``range(count[env])``, and never with the extent of the array that it indexes.

    Why it matters: reservations are counted even when they did not fit, so the counter may exceed the buffer, and
    the kernel reads or writes behind it, silently.

    Instead: ``wp.min(count[0], a.shape[0])``.
    """

    code = "WPA212"
    severity = Severity.WARNING
    confidence = Confidence.LOW
    references = ("newton-physics/newton#1215", "google-deepmind/mujoco_warp#243")
    opt_in = True
    BAD = (
        """
        @wp.kernel
        def copy(n: wp.array(dtype=int), a: wp.array(dtype=float), b: wp.array(dtype=float)):
            i = wp.tid()
            if i < n[0]:
                b[i] = a[i]  # error: WPA212

        @wp.struct
        class Hits:
            count: wp.array(dtype=int)
            depth: wp.array(dtype=float)

        @wp.kernel
        def total(hits: Hits, stride: int, out: wp.array(dtype=float)):
            i = wp.tid()
            for k in range(i, hits.count[0], stride):
                out[i] += hits.depth[k]  # error: WPA212
            j = int(0)
            while j < hits.count[0]:
                out[i] += hits.depth[j]  # error: WPA212
                j += 1
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def copy(n: wp.array(dtype=int), a: wp.array(dtype=float), b: wp.array(dtype=float)):
            i = wp.tid()
            if i < n[0] and i < b.shape[0]:
                b[i] = a[i]
            for k in range(wp.min(n[0], a.shape[0])):
                b[i] += a[k]
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        reported: set[ast.stmt] = set()
        for access in function.accesses:
            if access.site.statement in reported:
                continue
            for _, index, form in indices(function, access):
                if len(form.terms) != 1 or form.atoms[0][0] not in ("tid", "loop", "def"):
                    continue
                if form.atoms[0][0] == "def" and not _counts_from_constant(function, index):
                    continue
                limits = [bound.limit for bound in function.symbols.upper_bounds(form, access.site)]
                counts = [limit for limit in limits if _is_count(limit)]
                if not counts or len(counts) < len(limits):
                    continue
                lows = [bound.limit for bound in function.symbols.lower_bounds(form, access.site)]
                if any(low.mentions("load") or low.mentions("def") for low in lows):
                    continue  # a row of a table: its start and its end are read alike
                counter = counts[0].atoms[0][1]
                if counter == access.root:
                    continue
                reported.add(access.site.statement)
                yield self.at(
                    function, access.node, f"only the counter '{counter}' bounds this index; it may be larger "
                    f"than '{access.root}'",
                    f"take the smaller of the two: wp.min(…, {access.root}.shape[0])",
                )  # fmt: skip
                break


def _is_count(limit: Form) -> bool:
    if limit.constant > 0 or len(limit.terms) != 1:
        return False
    ((atom, coefficient),) = limit.terms
    return coefficient == 1 and atom[0] == "load" and isinstance(atom[1], str)


def _counts_from_constant(function: DeviceFunction, index: ast.expr) -> bool:
    """Whether a ``while`` loop counts an index up from a constant."""
    definition = function.flow.uses.get(index)
    if definition is None or definition.kind != "loop_phi":
        return False
    return function.symbols.of_def(definition.sources[0]).is_constant

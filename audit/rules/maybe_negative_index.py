"""Declares the rule ``maybe-negative-index``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import guards_on, indices
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class MaybeNegativeIndex(Rule):
    """An index is negative for the first thread.

    What it finds: an index ``i - c`` of a thread coordinate with no condition on ``i``, no clamp and no wrap.

    Why it matters: Warp follows Python: ``-1`` is the last element. A mistake at the boundary becomes a silent
    periodic boundary.

    Instead: treat the first ``c`` threads apart, or clamp: ``wp.max(i - 1, 0)``.
    """

    code = "WPA206"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#1641",)
    BAD = (
        """
        @wp.kernel
        def slope(h: wp.array2d(dtype=float), g: wp.array2d(dtype=float)):
            y, x = wp.tid()
            left = x - 1
            g[y, x] = h[y, x] - h[y, left]  # error: WPA206
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def slope(h: wp.array(dtype=float), g: wp.array(dtype=float), start: int):
            i = wp.tid()
            if i == 0:
                return
            g[i] = h[i] - h[i - 1] + h[wp.max(i - 2, 0)]

        @wp.kernel
        def inner(h: wp.array(dtype=float), g: wp.array(dtype=float)):
            i = wp.tid() + 1
            g[i] = h[i] - h[i - 1]
            g[-1] = h[(i - 3) % h.shape[0]]
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        for access in kernel.accesses:
            for _, index, form in indices(kernel, access):
                if form.constant >= 0 or len(form.terms) != 1:
                    continue
                ((atom, coefficient),) = form.terms
                if atom[0] != "tid" or coefficient != 1:
                    continue
                if guards_on(kernel, access.site, {atom}) or kernel.symbols.lower_bounds(form, access.site):
                    continue
                first = int(form.constant)
                where = "the last element" if first == -1 else "one of the last elements"
                yield self.at(
                    kernel,
                    access.node,
                    f"the index '{ast.unparse(index)}' is {first} for the first thread: {where} of '{access.root}'",
                    "test for the first threads, or clamp with wp.max",
                )
                break

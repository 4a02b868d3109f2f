"""Declares the rule ``maybe-negative-index``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import callers, chosen_by_where, given, indices, only_above
from warp_audit.audit.source.symbolic import Form
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Site


class MaybeNegativeIndex(Rule):
    """An index is negative for the first thread or pass.

    What it finds: an index ``i - c`` of a thread coordinate or a loop's variable with no lower bound on ``i``, no
    clamp and no wrap.

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

        @wp.func
        def before(h: wp.array(dtype=float), i: int):
            return h[i - 1]  # error: WPA206

        @wp.kernel
        def smooth(h: wp.array(dtype=float), g: wp.array(dtype=float), n: int, radius: int, lag: int):
            i = wp.tid()
            if i >= n:
                return
            s = before(h, i)
            for d in range(-radius, radius + 1):
                s += h[i + d]  # error: WPA206
            for d in range(3):
                s += h[i + d - 1]  # error: WPA206
            for k in range(n):
                s += h[k - 1]  # error: WPA206
            g[i] = s + h[i - lag]  # error: WPA206
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

        @wp.func
        def before(h: wp.array(dtype=float), i: int):
            return h[i - 1]

        @wp.kernel
        def smooth(h: wp.array(dtype=float), g: wp.array(dtype=float), mask: wp.array(dtype=int), radius: int):
            i = wp.tid()
            if i == 0 or mask[i] == 0:
                return
            s = before(h, i)
            for d in range(-radius, radius + 1):
                k = i + d
                if k >= 0 and k < h.shape[0]:
                    s += h[k]
            for k in range(1, h.shape[0]):
                s += h[k - 1]
            for k in range(h.shape[0]):
                if k > 0:
                    s += h[k - 1]
            g[i] = s + h[i - 1] + (h[i - 2] if i > 1 else 0.0)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        chosen: set[ast.AST] | None = None
        for access in function.accesses:
            for _, index, form in indices(function, access):
                if form.is_constant or form.size > _LARGEST or not _may_be_negative(function, form, access.site):
                    continue
                if not only_above(function, form, access.site):
                    continue
                if chosen is None:
                    chosen = chosen_by_where(function)
                if access.node in chosen:
                    continue  # the rule `where-guards-load` speaks
                yield self.at(
                    function,
                    access.node,
                    f"the index '{ast.unparse(index)}' of '{access.root}' is negative at first: it then counts "
                    "from the end",
                    "test for the first ones, or clamp with wp.max",
                )
                break


_LARGEST = 4
"""Atoms of an index that is looked at: longer ones are offsets into tables."""


def _may_be_negative(function: DeviceFunction, form: Form, site: Site) -> bool:
    least = _least(function, form, site)
    if least is None:
        return False
    passed = [atom for atom, coefficient in least.terms if atom[0] == "parameter" and coefficient == 1]
    if len(least.terms) == 1 and passed and function.kind == "func":
        return least.constant < 0 and _starts_at_zero(function, passed[0][1])
    known = all(atom[0] == "parameter" and coefficient < 0 for atom, coefficient in least.terms)
    return known and (least.constant < 0 or (bool(least.terms) and least.constant <= 0))


def _least(function: DeviceFunction, form: Form, site: Site) -> Form | None:
    """The smallest value of an index: that of the first thread, in the first pass of each loop."""
    least, moves = Form(form.constant), False
    for atom, coefficient in form.terms:
        if atom[0] == "tid" and coefficient > 0:
            moves = True
        elif atom[0] == "loop" and coefficient > 0:
            starts = function.symbols.lower_bounds(Form.of(atom), site)
            if len(starts) != 1 or starts[0].strict:
                return None
            least, moves = least.plus(starts[0].limit, coefficient), True
        elif atom[0] == "parameter":
            moves |= function.kind == "func" and coefficient == 1
            least = least.plus(Form.of(atom), coefficient)
        else:
            return None
    return least if moves and isinstance(least.constant, int) else None


def _starts_at_zero(function: DeviceFunction, parameter: str) -> bool:
    """Whether a kernel of the file gives a func its thread coordinate, the first thread's too."""
    for caller, call, site in callers(function):
        argument = given(function, call, parameter)
        if argument is not None and caller.kind == "kernel":
            form = caller.symbols.form(argument)
            atom = form.single()
            if atom is not None and atom[0] == "tid" and only_above(caller, form, site):
                return True
    return False

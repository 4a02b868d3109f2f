"""Declares the rule ``advance-then-read``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import indices, one_too_far
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Def, Site
    from warp_audit.audit.source.symbolic import Form


class AdvanceThenRead(Rule):
    """A scan moves its cursor and reads the next element before the bound is looked at.

    What it finds: in a ``while`` loop, ``k += 1`` or ``k -= 1`` followed by a read at ``k`` in the same pass, with no
    test of ``k`` in between.

    Why it matters: the loop's own condition is tested before the step. At the last element the read goes one past
    the end, silently.

    Instead: test behind the step: ``if k >= a.shape[0]: break``.
    """

    code = "WPA208"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#3641",)
    words = ("while",)
    BAD = (
        """
        @wp.func
        def skip(a: wp.array(dtype=int), k: int, v: int):
            j = int(k)
            x = a[j]
            while j < a.shape[0] and x == v:
                j = j + 1
                x = a[j]  # error: WPA208
            return j

        @wp.func
        def find(a: wp.array(dtype=int), k: int, n: int, v: int):
            j = int(k)
            while j < n:
                j += 1
                if a[j] == v:  # error: WPA208
                    break
            x = a[j]
            while x == v:
                j -= 1
                x = a[j]  # error: WPA208
            return j
        """,
    )
    GOOD = (
        """
        @wp.func
        def skip(a: wp.array(dtype=int), k: int, v: int):
            j = int(k)
            while j < a.shape[0]:
                if a[j] != v:
                    break
                j += 1
            n = int(0)
            while n + 1 < a.shape[0]:
                n += 1
                if a[n] == v:
                    break
            while n > 0:
                n -= 1
                if a[n] == v:
                    break
            return j
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for access in function.accesses:
            loop = next((one.node for one in reversed(access.site.loops)), None)
            if not isinstance(loop, ast.While) or not access.reads:
                continue
            for axis, index, form in indices(function, access):
                definition = _moved(function, loop, index, form)
                if definition is None or _is_tested(function, form, access.site):
                    continue
                assert definition.site is not None
                name = definition.name
                ahead = form.constant > 0
                test = f"{name} >= {access.root}.shape[{axis}]" if ahead else f"{name} < 0"
                yield self.at(
                    function,
                    access.node,
                    f"'{name}' was moved in line {definition.site.statement.lineno} and is not tested "
                    f"before '{access.root}' is read",
                    f"test it first: if {test}: break",
                )
                break


def _moved(function: DeviceFunction, loop: ast.While, index: ast.expr, form: Form) -> Def | None:
    """The step, in this pass of the loop, of the cursor that an index is."""
    if len(form.terms) != 1 or form.constant == 0 or not isinstance(index, ast.Name):
        return None
    definition = function.flow.uses.get(index)
    if definition is None or definition.site is None or not _steps(definition):
        return None
    if form.atoms[0][0] != "def" or not any(one.node is loop for one in definition.site.loops):
        return None
    return definition if _is_cursor(function, loop, index.id) else None


def _is_tested(function: DeviceFunction, form: Form, site: Site) -> bool:
    """Whether a condition bounds the cursor where it stands now; one on where it stood is one step off."""
    if form.constant < 0:
        lows = function.symbols.lower_bounds(form, site)
        return any(not low.limit.is_constant or low.limit.constant >= (-1 if low.strict else 0) for low in lows)
    for bound in function.symbols.upper_bounds(form, site):
        limit = bound.limit.single()
        stale = bound.limit.constant >= form.constant and len(bound.limit.terms) == 1 and bound.strict
        if limit is None and (stale or one_too_far(bound.limit, bound.strict)):
            continue
        return True
    return False


def _steps(definition: Def) -> bool:
    """``k += 1`` or ``k = k + 1``."""
    return definition.kind == "augment" or (definition.kind == "assign" and isinstance(definition.value, ast.BinOp))


def _is_cursor(function: DeviceFunction, loop: ast.While, name: str) -> bool:
    """Whether a name lives from pass to pass of a loop."""
    return any(one.kind == "loop_phi" and one.node is loop and one.name == name for one in function.flow.defs)

"""Declares the rule ``advance-then-read``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import bounded_above, indices
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Def


class AdvanceThenRead(Rule):
    """A scan moves its cursor and reads the next element before the bound is looked at.

    What it finds: in a ``while`` loop, ``k += 1`` followed by a read at ``k`` in the same pass, with no test of
    ``k`` in between.

    Why it matters: the loop's own condition is tested before the step. At the last element the read goes one past
    the end, silently.

    Instead: test behind the step: ``if k >= a.shape[0]: break``.
    """

    code = "WPA208"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#3641",)
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
            return j
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for access in function.accesses:
            loop = next((one.node for one in reversed(access.site.loops)), None)
            if not isinstance(loop, ast.While) or not access.reads:
                continue
            for axis, index, form in indices(function, access):
                if len(form.terms) != 1 or form.constant < 1 or not isinstance(index, ast.Name):
                    continue
                definition = function.flow.uses.get(index)
                if definition is None or definition.site is None or not _steps(definition):
                    continue
                if not any(one.node is loop for one in definition.site.loops):
                    continue
                atom = form.atoms[0]
                if atom[0] != "def" or not _is_cursor(function, loop, index.id):
                    continue
                if bounded_above(function, form, access.site):
                    continue
                del axis
                yield self.at(
                    function,
                    access.node,
                    f"'{index.id}' was moved in line {definition.site.statement.lineno} and is not tested "
                    f"before '{access.root}' is read",
                    f"test it first: if {index.id} >= {access.root}.shape[0]: break",
                )
                break


def _steps(definition: Def) -> bool:
    """``k += 1`` or ``k = k + 1``."""
    return definition.kind == "augment" or (definition.kind == "assign" and isinstance(definition.value, ast.BinOp))


def _is_cursor(function: DeviceFunction, loop: ast.While, name: str) -> bool:
    """Whether a name lives from pass to pass of a loop."""
    return any(one.kind == "loop_phi" and one.node is loop and one.name == name for one in function.flow.defs)

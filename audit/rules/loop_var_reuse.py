"""Declares the rule ``loop-var-reuse``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.loops import is_dynamic
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class LoopVarReuse(Rule):
    """The variable of an unrolled loop is used again as the counter of a later loop.

    What it finds: ``for i in range(2)`` followed by ``i = int(0)`` and a ``while`` or run-time loop that changes
    ``i``, for projects that support a Warp older than 1.16.

    Why it matters: before Warp 1.16 the new start value could be dropped, and the later loop began at the last value of
    the first, silently.

    Instead: give the second counter a name of its own, or ask for ``warp-lang>=1.16``.
    """

    code = "WPA609"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1534",)
    below = "1.16"
    BAD = (
        """
        @wp.func
        def walk(x: wp.array(dtype=float), n: int):
            s = float(0.0)
            for k in range(3):
                s += x[k]
            k = int(1)  # error: WPA609
            while k < n:
                s += x[k]
                k = k * 2
            return s
        """,
    )
    GOOD = (
        """
        @wp.func
        def walk(x: wp.array(dtype=float), n: int):
            s = float(0.0)
            for k in range(3):
                s += x[k]
            for k in range(3):
                s -= x[k]
            j = int(1)
            while j < n:
                j = j * 2
            k = 4
            return s + float(k)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        unrolled = {
            loop.target.id: site.order
            for loop, site in function.flow.steps.items()
            if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) and not is_dynamic(function, loop)
        }
        if not unrolled:
            return
        for definition in function.flow.defs:
            first = unrolled.get(definition.name)
            if definition.kind != "assign" or first is None or definition.site is None or definition.site.order < first:
                continue
            if definition.node is not None and _counts_a_loop(function, definition.name, definition.site.order):
                yield self.at(
                    function,
                    definition.node,
                    f"'{definition.name}' was the variable of an unrolled loop; before Warp 1.16 this start "
                    "value could be dropped",
                    "use another name",
                )
                break


def _counts_a_loop(function: DeviceFunction, name: str, order: int) -> bool:
    """Whether a loop that stays a loop, behind a statement, changes a name."""
    return any(
        one.kind == "loop_phi"
        and one.name == name
        and isinstance(one.node, (ast.For, ast.While))
        and one.node in function.flow.steps
        and function.flow.steps[one.node].order > order
        and is_dynamic(function, one.node)
        for one in function.flow.defs
    )

"""Declares the rule ``loop-var-after-loop``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.loops import is_dynamic, own_statements
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Def


class LoopVarAfterLoop(Rule):
    """A loop's variable is read behind the loop.

    What it finds: a read of a ``for`` variable behind its loop, where nothing leaves the loop early: a loop with a
    ``break`` searches, and its variable is what it found.

    Why it matters: it holds the last index, not the count, and if the loop did not run, whatever was in memory:
    Warp declares the variable without a value.

    Instead: read the bound of the range, or keep what you need in a variable that is set before the loop.
    """

    code = "WPA647"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("google-deepmind/mujoco_warp#1393",)
    BAD = (
        """
        @wp.kernel
        def count(n: wp.array(dtype=int), used: wp.array(dtype=int)):
            for j in range(n[0]):
                used[1] += 1
            used[0] = j + 1  # error: WPA647
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def count(n: wp.array(dtype=int), used: wp.array(dtype=int)):
            last = int(-1)
            for k in range(n[0]):
                if used[k] == 0:
                    break
            used[k] = 1
            for j in range(n[0]):
                last = j
            for k in range(3):
                used[1] = k
            used[2] = k
            used[0] = last
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for node in function.flow.of(ast.Name):
            definition = function.flow.uses.get(node)
            if definition is None or not isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
                continue
            loop = _ended_loop(function, node, definition)
            if loop is not None:
                yield self.at(
                    function,
                    node,
                    f"'{definition.name}' is the variable of the loop in line {loop.lineno}, which has ended: it holds "
                    "the last index, or nothing if the loop did not run",
                )


def _ended_loop(function: DeviceFunction, node: ast.AST, definition: Def) -> ast.For | None:
    if definition.kind not in ("phi", "loop"):
        return None
    around = {loop.node for loop in function.flow.sites[node].loops}
    for origin in definition.origins():
        if origin.kind == "loop" and origin.site is not None and isinstance(origin.site.statement, ast.For):
            loop = origin.site.statement
            searches = any(isinstance(one, ast.Break) for one in own_statements(loop.body))
            if loop not in around and not searches and is_dynamic(function, loop):
                return loop
    return None

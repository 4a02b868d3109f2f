"""Declares the rule ``static-shadowed-name``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.loops import is_dynamic
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Def, Site


class StaticShadowedName(Rule):
    """``wp.static`` names a variable of the kernel, but reads a name from outside.

    What it finds: ``wp.static(name)`` where ``name`` is a local variable or a loop's variable of a loop that is not
    unrolled, and a global of the same name exists.

    Why it matters: Python evaluates the expression when the kernel is declared, with the names around the kernel. The
    global is used, and the kernel always has its value.

    Instead: leave ``wp.static`` out, or give the two different names.
    """

    code = "WPA607"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1139",)
    words = ("static",)
    BAD = (
        """
        k = 3

        @wp.func
        def last(n: int):
            total = int(0)
            for k in range(n):
                total += wp.static(k + 1)  # error: WPA607
            return total
        """,
    )
    GOOD = (
        """
        SIZE = 3

        @wp.func
        def last(n: int):
            total = int(0)
            for k in range(3):
                total += wp.static(k + SIZE)
            return total
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for call, site in function.calls():
            if function.builtin(call) != "static" or len(call.args) != 1:
                continue
            for part in walk(call.args[0]):
                if not isinstance(part, ast.Name):
                    continue
                definition = function.flow.uses.get(part)
                if definition is None or definition.kind == "free" or function.scope.lookup(part.id) is None:
                    continue
                if all(one.kind == "loop" and not _is_kept(function, one, site) for one in definition.origins()):
                    continue
                yield self.at(
                    function,
                    call,
                    f"wp.static reads the '{part.id}' from outside the kernel, not the variable of that name",
                    "leave wp.static out, or rename one of the two",
                )
                break


def _is_kept(function: DeviceFunction, definition: Def, site: Site) -> bool:
    """Whether the loop of a variable stays a loop; in unrolled ones wp.static sees each value."""
    return any(definition in loop.defs and is_dynamic(function, loop.node) for loop in site.loops)

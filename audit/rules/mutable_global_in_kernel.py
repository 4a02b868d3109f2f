"""Declares the rule ``mutable-global-in-kernel``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.module import Module


_GLOBAL = re.compile(r"^[ \t]+global[ \t]+([\w ,\t]+)", re.MULTILINE)


class MutableGlobalInKernel(Rule):
    """A kernel reads a Python global that host code changes.

    What it finds: a global that a kernel or func reads and that a function of the file assigns under ``global``.

    Why it matters: Warp bakes the value in when the module is built and never looks again, so the kernel keeps the
    first value for good.

    Instead: pass the value as an argument of the launch.
    """

    code = "WPA643"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#141",)
    BAD = (
        """
        gain = 1.0

        @wp.func
        def scaled(x: float):
            return gain * x  # error: WPA643

        def set_gain(value):
            global gain
            gain = value
        """,
    )
    GOOD = (
        """
        GAIN = 1.0
        calls = 0

        @wp.func
        def scaled(x: float):
            return GAIN * x

        def count():
            global calls
            calls += 1
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        changed = _changed_globals(function.module)
        if not changed:
            return
        for node in function.flow.of(ast.Name):
            definition = function.flow.uses.get(node)
            if definition is None or definition.kind != "free" or definition.name not in changed:
                continue
            found = function.scope.lookup(definition.name)
            if found is not None and found[0].kind == "module":
                yield self.at(
                    function,
                    node,
                    f"the kernel keeps the value that '{definition.name}' has when it is built, but line "
                    f"{changed[definition.name]} changes it later",
                    "pass the value as an argument of the launch",
                )


def _changed_globals(module: Module) -> dict[str, int]:
    """Globals that functions assign under ``global``, and the first line that does."""
    found: dict[str, int] | None = module.__dict__.get("_changed_globals")
    if found is None:
        found = module.__dict__["_changed_globals"] = {}
        for declared in _GLOBAL.finditer(module.text):
            for name in re.findall(r"\w+", declared[1]):
                assigned = re.compile(rf"^[ \t]+{name}[ \t]*(?:[-+*/|&^]|//|<<|>>)?=[^=]", re.MULTILINE)
                change = assigned.search(module.text, declared.end())
                if change is not None:
                    found.setdefault(name, module.text.count("\n", 0, change.start()) + 1)
    return found

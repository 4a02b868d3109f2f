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


_WARP = ("wp", "warp", "fem")
"""What most attributes in kernels are of."""
_ATTRIBUTE = re.compile(r"^[ \t]+(\w+\.\w+)[ \t]*(?:[-+*/|&^]|//|<<|>>)?=[^=]", re.MULTILINE)
_GLOBAL = re.compile(r"^[ \t]+global[ \t]+([\w ,\t]+)", re.MULTILINE)


class MutableGlobalInKernel(Rule):
    """A kernel reads a Python global that host code changes.

    What it finds: a name that a kernel or func reads and that host code changes: a function of the file assigns it
    under ``global``, or as ``Class.name``; or its scope assigns it again behind a launch.

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
        """
        class Settings:
            damping = 0.5
            count = 3

        level = 1

        @wp.kernel
        def fill(out: wp.array(dtype=float)):
            out[0] = Settings.damping * float(level)  # error: WPA643
            out[1] = float(Settings.count)

        def run(out):
            wp.launch(fill, dim=1, inputs=[out])
            Settings.damping = 0.25
            wp.launch(fill, dim=1, inputs=[out])

        def closure(out):
            weight = 1.0

            @wp.kernel
            def weigh(out: wp.array(dtype=float)):
                out[0] = weight  # error: WPA643

            wp.launch(weigh, dim=1, inputs=[out])
            weight = 2.0
            wp.launch(weigh, dim=1, inputs=[out])
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

        def closure(out, weight=None):
            if weight is None:
                weight = 1.0
            scale = 1.0
            scale = 2.0

            @wp.kernel
            def weigh(out: wp.array(dtype=float)):
                out[0] = scale

            wp.launch(weigh, dim=1, inputs=[out])
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if "mark_modified" in function.module.text:
            return  # built again when it is told to
        yield from self._attributes(function)
        yield from self._assigned_again(function)
        changed = _changed_globals(function.module)
        if not changed:
            return
        for node in function.flow.of(ast.Name):
            definition = function.flow.uses.get(node)
            if definition is None or definition.kind != "free" or definition.name not in changed:
                continue
            found = function.scope.lookup(definition.name)
            if found is not None and found[0].kind == "module":
                yield self._stale(function, node, definition.name, changed[definition.name])

    def _attributes(self, function: DeviceFunction) -> Iterator[Finding]:
        for node in function.flow.of(ast.Attribute):
            assert isinstance(node, ast.Attribute)
            root = node.value
            if not isinstance(root, ast.Name) or root.id in _WARP or root.id in function.by_name:
                continue
            found = function.scope.lookup(root.id)
            if found is None or found[1][-1].kind not in ("class", "import") or not isinstance(node.ctx, ast.Load):
                continue
            line = _changed_attributes(function.module).get(f"{root.id}.{node.attr}")
            if line is not None:
                yield self._stale(function, node, f"{root.id}.{node.attr}", line)

    def _assigned_again(self, function: DeviceFunction) -> Iterator[Finding]:
        """Names that the scope around a kernel assigns behind a launch."""
        launches: list[int] | None = None
        for definition in function.flow.defs:
            bindings = function.scope.bindings.get(definition.name, ()) if definition.kind == "free" else ()
            if len(bindings) < 2 or any(binding.kind != "assign" for binding in bindings):
                continue
            if launches is None:
                launches = _launches_behind(function)
            lines = (getattr(binding.node, "lineno", 0) for binding in bindings)
            again = [line for line in lines if launches and launches[0] < line < launches[-1]]
            reads = function.flow.reads_of(definition)
            if again and reads:
                yield self._stale(function, reads[0], definition.name, again[0])

    def _stale(self, function: DeviceFunction, node: ast.AST, name: str, line: int) -> Finding:
        return self.at(
            function,
            node,
            f"the kernel keeps the value that '{name}' has when it is built, but line {line} changes it later",
            "pass the value as an argument of the launch",
        )


def _launches_behind(function: DeviceFunction) -> list[int]:
    """The lines behind a kernel's declaration where its scope launches it, or anything if it is a func."""
    found: list[int] = []
    if len(function.overloads) > 1:
        return found  # declared anew
    for call in function.scope.calls:
        if call.lineno <= function.node.lineno or not call.args:
            continue
        if (function.module.qualified(call.func, function.scope) or "").startswith("warp.launch"):
            kernel = call.args[0]
            if function.kind != "kernel" or (isinstance(kernel, ast.Name) and kernel.id == function.name):
                found.append(call.lineno)
    return sorted(found)


def _changed_attributes(module: Module) -> dict[str, int]:
    """Dotted names that indented code assigns, and the first line that does; attributes of ``self`` are none."""
    found: dict[str, int] | None = module.__dict__.get("_changed_attributes")
    if found is None:
        found = module.__dict__["_changed_attributes"] = {}
        for change in _ATTRIBUTE.finditer(module.text):
            if not change[1].startswith("self."):
                found.setdefault(change[1], module.text.count("\n", 0, change.start()) + 1)
    return found


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

"""Declares the rule ``kernel-in-loop-late-binding``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.refusals import inside_static
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class KernelInLoopLateBinding(Rule):
    """A kernel made in a loop reads the loop's variable.

    What it finds: a kernel or func that is declared inside a Python loop and reads a name that the loop changes, where
    the loop does not launch it right away.

    Why it matters: Warp looks the name up when the module is built. Every kernel of the loop then gets the value of the
    last pass, without a word.

    Instead: make the kernel in a function that takes the value as a parameter.
    """

    code = "WPA644"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1561",)
    BAD = (
        """
        kernels = {}
        for size in (8, 16):
            half = size // 2

            @wp.kernel(module="unique")
            def fill(out: wp.array(dtype=int)):
                i = wp.tid()
                out[i] = half + size  # error: WPA644

            kernels[size] = fill
        """,
        """
        def build(count):
            level = 0
            made = []
            while level < count:
                @wp.func
                def shifted(x: int):
                    return x + level  # error: WPA644

                made.append(shifted)
                level += 1
            return made
        """,
    )
    GOOD = (
        """
        def make(size):
            @wp.kernel(module="unique")
            def fill(out: wp.array(dtype=int)):
                i = wp.tid()
                out[i] = size
            return fill

        kernels = {size: make(size) for size in (8, 16)}
        for name in ("a", "b"):
            print(name)

        def run(sizes, out):
            for size in sizes:
                @wp.kernel
                def now(out: wp.array(dtype=int)):
                    out[0] = size

                wp.launch(now, dim=1, inputs=[out])

        def collect(sizes):
            made = []
            for size in sizes:
                @wp.kernel(module="unique")
                def later(out: wp.array(dtype=int)):
                    out[0] = wp.static(size)

                made.append(later)
            return made
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function.scope.kind == "class":
            return
        bindings = function.scope.bindings
        loops: list[ast.For | ast.While] | None = None
        reported: set[int] = set()
        for node in function.flow.of(ast.Name):
            definition = function.flow.uses.get(node)
            if definition is None or definition.kind != "free" or definition.name not in bindings:
                continue
            if loops is None:
                loops = _loops_around(function)
                if any(_launches(function, loop) for loop in loops):
                    return  # built in the pass that makes it
            if node in inside_static(function):
                continue
            if loops and _changed_in(loops, definition.name) and node.lineno not in reported:  # type: ignore[attr-defined]
                reported.add(node.lineno)  # type: ignore[attr-defined]
                yield self.at(
                    function,
                    node,
                    f"'{definition.name}' changes with each pass of the loop in line {loops[0].lineno}, but "
                    "every kernel gets "
                    "its last value",
                    "make the kernel in a function that takes the value as a parameter",
                )


def _launches(function: DeviceFunction, loop: ast.For | ast.While) -> bool:
    """Whether a kernel is launched in the loop that makes it."""
    return any(
        loop.lineno <= call.lineno <= (loop.end_lineno or 0)
        and (function.module.qualified(call.func, function.scope) or "").startswith("warp.launch")
        for call in function.scope.calls
    )


def _loops_around(function: DeviceFunction) -> list[ast.For | ast.While]:
    """The Python loops of the enclosing body that hold the declaration."""
    body = getattr(function.scope.node, "body", [])
    found: list[ast.For | ast.While] = []

    def visit(statements: list[ast.stmt], around: list[ast.For | ast.While]) -> None:
        for statement in statements:
            if statement is function.node:
                found.extend(around)
                return
            if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                continue
            inner = [*around, statement] if isinstance(statement, (ast.For, ast.While)) else around
            for field in ("body", "orelse", "finalbody"):
                visit(getattr(statement, field, []), inner)

    visit(body, [])
    return found


def _changed_in(loops: list[ast.For | ast.While], name: str) -> bool:
    for loop in loops:
        for node in walk(loop):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
                return True
    return False

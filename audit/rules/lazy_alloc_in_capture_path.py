"""Declares the rule ``lazy-alloc-in-capture-path``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.captures import (
    Capture,
    allocates,
    captures,
    knows_capture,
    recorded_functions,
    run_before,
)
from warp_audit.audit.source.scopes import dotted
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.captures import Recorded
    from warp_audit.audit.source.flow import Site
    from warp_audit.audit.source.host import HostCall, HostFunction
    from warp_audit.audit.source.module import Module

_CACHES = {"functools.cache", "functools.lru_cache", "functools.cached_property"}


class LazyAllocInCapturePath(Rule):
    """An array is allocated at its first use, and the first use is inside a graph capture.

    What it finds: ``if self.scratch is None: self.scratch = wp.zeros(…)``, or another kind of cache, in code that a
    capture records and that nothing in the file runs before.

    Why it matters: memory that is allocated during a capture belongs to the graph. Code that uses the array later
    outside of the graph, or after the graph is gone, touches memory that is not there, far from the cause.

    Instead: allocate in the constructor, or run the step once before the capture.
    """

    code = "WPA714"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("newton-physics/newton#3768",)
    words = ("apture",)
    BAD = (
        """
        @wp.kernel
        def decay(x: wp.array(dtype=float), scratch: wp.array(dtype=float)):
            i = wp.tid()
            scratch[i] = 0.5 * x[i]

        class Solver:
            def __init__(self, x):
                self.x = x
                self.buffers = {}
                self.scratch = None

            def room(self, n):
                if n not in self.buffers:
                    self.buffers[n] = wp.empty(n, dtype=float)  # error: WPA714
                return self.buffers[n]

            def scratch_of(self, n):
                if self.scratch is not None and self.scratch.shape[0] >= n:
                    return self.scratch
                self.scratch = wp.empty(n, dtype=float)  # error: WPA714
                return self.scratch

            def step(self):
                wp.launch(decay, dim=10, inputs=[self.x, self.room(10)])
                wp.launch(decay, dim=10, inputs=[self.x, self.scratch_of(10)])

            def capture(self):
                wp.load_module()
                wp.capture_begin(device=self.x.device)
                self.step()
                self.graph = wp.capture_end(device=self.x.device)
        """,
        """
        import functools

        @wp.kernel
        def decay(x: wp.array(dtype=float), scratch: wp.array(dtype=float)):
            i = wp.tid()
            scratch[i] = 0.5 * x[i]

        @functools.lru_cache(maxsize=None)
        def scratch(n):
            return wp.zeros(n, dtype=float)  # error: WPA714

        def capture(x):
            with wp.ScopedCapture() as recording:
                wp.launch(decay, dim=10, inputs=[x, scratch(10)])
            return recording.graph
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def decay(x: wp.array(dtype=float), scratch: wp.array(dtype=float)):
            i = wp.tid()
            scratch[i] = 0.5 * x[i]

        class Warm:
            def __init__(self, x):
                self.x = x
                self.scratch = None

            def step(self):
                if self.scratch is None:
                    self.scratch = wp.zeros(10, dtype=float)
                wp.launch(decay, dim=10, inputs=[self.x, self.scratch])

            def capture(self):
                self.step()
                with wp.ScopedCapture() as recording:
                    self.step()
                self.graph = recording.graph

        class Plain:
            def __init__(self, x):
                self.x = x
                self.report = None

            def step(self):
                local = wp.zeros(10, dtype=float)
                wp.launch(decay, dim=10, inputs=[self.x, local])

            def capture(self):
                with wp.ScopedCapture() as recording:
                    self.step()
                return recording.graph

            def summary(self):
                if self.report is None:
                    self.report = wp.zeros(1, dtype=float)
                return self.report
        """,
    )

    def module(self, module: Module) -> Iterator[Finding]:
        if "apture" not in module.text or not captures(module):
            return
        for capture in captures(module):
            for call in capture.calls:
                yield from self._lazy(capture.function, call, capture)
        for function, one in recorded_functions(module):
            if one.capture is not None and function.scope not in run_before(one.capture):
                for call in function.calls:
                    yield from self._lazy(function, call, one)

    def _lazy(self, function: HostFunction, call: HostCall, where: Capture | Recorded) -> Iterator[Finding]:
        if not allocates(call) or knows_capture(call.site, where):
            return
        name = _kept_in(call.site) if call.site.guards else None
        if name is None and not isinstance(where, Capture) and _is_cached(function) and _returned(call, function):
            name = f"{function.scope.name}()"
        if name is not None:
            yield self.at(
                function, call.node, f"'{name}' is allocated at its first use, which the graph capture records",
                "allocate it before the capture, or run the step once before: the graph owns what it allocates",
            )  # fmt: skip


def _kept_in(site: Site) -> str | None:
    """The attribute that a statement stores to, if a condition around it asks for that attribute."""
    statement = site.statement
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    for target in targets:
        while isinstance(target, ast.Subscript):
            target = target.value
        path = dotted(target) if isinstance(target, ast.Attribute) else None
        if path is not None and any(_asks_for(guard.test, path) for guard in site.guards):
            return path
    return None


def _asks_for(test: ast.expr, path: str) -> bool:
    attribute = path.rpartition(".")[2]
    return any(
        (isinstance(part, ast.Attribute) and dotted(part) == path)
        or (isinstance(part, ast.Constant) and part.value == attribute)
        for part in walk(test)
    )


def _is_cached(function: HostFunction) -> bool:
    for decorator in getattr(function.node, "decorator_list", []):
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if function.module.qualified(called, function.module.scope) in _CACHES:
            return True
    return False


def _returned(call: HostCall, function: HostFunction) -> bool:
    return any(function.value_of(value) is call.node for value in function.scope.returns)

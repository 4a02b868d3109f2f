"""Declares the rule ``gc-in-capture``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Delete, Fix, Place
from warp_audit.audit.rule import Finding, Rule, Safety
from warp_audit.audit.source import reach
from warp_audit.audit.source.captures import Capture, captures, knows_capture, recorded_calls, recorded_functions
from warp_audit.audit.source.handles import KINDS
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.captures import Recorded
    from warp_audit.audit.source.flow import Site
    from warp_audit.audit.source.host import HostFunction
    from warp_audit.audit.source.module import Module

_DEVICE_OBJECTS = {"warp.capture_end", "warp.zeros", "warp.empty", "warp.full", "warp.ones", "warp.array", *KINDS}


class GcInCapture(Rule):
    """Device objects are released while a graph is recorded.

    What it finds: ``del`` of something made before, ``self.graph = None`` and ``gc.collect()`` inside a capture or in
    what a capture calls.

    Why it matters: the destructors of arrays, meshes and graphs free device memory and unload modules, which CUDA does
    not allow in the middle of a capture; Warp puts off only some of it.

    Instead: release before the capture or after it; ``gc.disable()`` keeps the collector out of a long one.
    """

    code = "WPA715"
    severity = Severity.INFO
    confidence = Confidence.MEDIUM
    references = ("NVIDIA/warp#1714",)
    fix_safety = Safety.UNSAFE
    words = ("apture",)
    BAD = (
        """
        import gc

        @wp.kernel
        def push(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = x[i] + 1.0

        class Recorder:
            def __init__(self, x):
                self.x = x
                self.graph = None

            def work(self):
                wp.launch(push, dim=self.x.shape[0], inputs=[self.x])
                gc.collect()  # error: WPA715

            def record(self):
                with wp.ScopedCapture() as recording:
                    self.graph = None  # error: WPA715
                    self.work()
                self.graph = recording.graph

        def twice(x):
            with wp.ScopedCapture() as first:
                wp.launch(push, dim=x.shape[0], inputs=[x])
            with wp.ScopedCapture() as second:
                del first  # error: WPA715
                wp.launch(push, dim=x.shape[0], inputs=[x])
            return second.graph

        def again(x, graphs):
            old = graphs[0]
            wp.capture_begin()
            del old  # error: WPA715
            wp.launch(push, dim=x.shape[0], inputs=[x])
            graphs[0] = wp.capture_end()
        """,
    )
    GOOD = (
        """
        import gc

        @wp.kernel
        def push(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = x[i] + 1.0

        class Recorder:
            def __init__(self, x):
                self.x = x
                self.graph = None
                self.note = "new"

            def record(self):
                self.graph = None
                gc.collect()
                gc.disable()
                with wp.ScopedCapture() as recording:
                    self.note = None
                    half = wp.clone(self.x)
                    wp.launch(push, dim=self.x.shape[0], inputs=[half])
                    del half
                gc.enable()
                self.graph = recording.graph
        """,
    )

    def module(self, module: Module) -> Iterator[Finding]:
        if "apture" not in module.text or not captures(module):
            return
        for function, call, _ in recorded_calls(module):
            if call.name == "gc.collect":
                statement = call.site.statement
                alone = isinstance(statement, ast.Expr) and statement.value is call.node
                yield self.at(
                    function, call.node, "the collector runs while a graph is recorded and may free device objects",
                    "collect before the capture", fix=self._without(statement) if alone else None,
                )  # fmt: skip
        for capture in captures(module):
            for statement, site in capture.function.flow.steps.items():
                if capture.covers(site):
                    yield from self._released(capture.function, statement, site, capture)
        for function, one in recorded_functions(module):
            for statement, site in function.flow.steps.items():
                yield from self._released(function, statement, site, one)

    def _released(
        self, function: HostFunction, statement: ast.stmt, site: Site, where: Capture | Recorded
    ) -> Iterator[Finding]:
        if not isinstance(statement, (ast.Delete, ast.Assign)) or knows_capture(site, where):
            return
        for target in statement.targets:
            if isinstance(statement, ast.Delete):
                released = _is_older(function, target, where)
            else:
                released = _is_none(statement.value) and _is_device_object(function, target)
            if released:
                yield self.at(
                    function, statement, f"'{ast.unparse(target)}' is released while a graph is recorded",
                    "release it before the capture or after it",
                )  # fmt: skip

    def _without(self, statement: ast.stmt) -> Fix:
        return self.mend("Remove the collection inside the capture", Delete(Place.of(statement)))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_older(function: HostFunction, target: ast.expr, where: Capture | Recorded) -> bool:
    """Whether what ``del`` names was there before the recording."""
    if isinstance(target, ast.Attribute):
        return _is_device_object(function, target)
    definition = function.flow.uses.get(target)
    if definition is None or not isinstance(where, Capture):
        return False
    if definition.kind == "parameter":
        return True
    if definition.site is None or where.covers(definition.site) or definition.kind not in ("assign", "other"):
        return False
    return definition.kind == "assign" or isinstance(definition.site.statement, (ast.With, ast.AsyncWith))


def _is_device_object(function: HostFunction, target: ast.expr) -> bool:
    """Whether an attribute holds, as far as the class tells, a graph, an array or another object of the device."""
    owner = function.class_scope
    if owner is None or not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name):
        return False
    for value, scope in reach.attributes_of(owner).get(target.attr, []):
        if isinstance(value, ast.Attribute) and value.attr == "graph" and isinstance(value.ctx, ast.Load):
            return True
        if isinstance(value, ast.Call) and scope.module.qualified(value.func, scope) in _DEVICE_OBJECTS:
            return True
    return False

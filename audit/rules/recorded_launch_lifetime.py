"""Declares the rule ``recorded-launch-lifetime``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.captures import Capture, captures
from warp_audit.audit.source.constants import constant
from warp_audit.audit.source.handles import Handle, Handles, handles
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction, Launch

_SETTERS = {"set_param_at_index", "set_param_by_name", "set_param_at_index_from_ctype", "set_param_by_name_from_ctype"}


class RecordedLaunchLifetime(Rule):
    """A recorded launch or graph keeps the id of an object that dies with the function.

    What it finds: a launch with ``record_cmd=True``, or inside a capture, that leaves the function while the mesh, BVH,
    volume or hash grid whose id it was given does not.

    Why it matters: Warp keeps the arrays of a recorded launch alive but cannot keep what is behind an id. The replay
    reads freed memory.

    Instead: keep the object beside the command or graph: return both, or store both.
    """

    code = "WPA703"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#2575",)
    words = ("record", "apture")
    BAD = (
        """
        @wp.kernel
        def near(grid: wp.uint64, p: wp.array(dtype=wp.vec3), n: wp.array(dtype=int)):
            i = wp.tid()
            for _ in wp.hash_grid_query(grid, p[i], 0.1):
                n[i] += 1

        class Neighbours:
            def __init__(self, p, n):
                grid = wp.HashGrid(16, 16, 16)
                grid.build(p, 0.1)
                self.command = wp.launch(near, dim=len(p), inputs=[grid.id, p, n], record_cmd=True)  # error: WPA703

        def record(p, n):
            grid = wp.HashGrid(16, 16, 16)
            grid.build(p, 0.1)
            command = wp.launch(near, dim=len(p), inputs=[grid.id, p, n], record_cmd=True)  # error: WPA703
            command.launch()
            wp.synchronize()
            return {"near": command}

        def change(command, p):
            grid = wp.HashGrid(16, 16, 16)
            grid.build(p, 0.1)
            command.set_param_by_name("grid", grid.id)  # error: WPA703
        """,
        """
        @wp.kernel
        def near(grid: wp.uint64, p: wp.array(dtype=wp.vec3), n: wp.array(dtype=int)):
            i = wp.tid()
            for _ in wp.hash_grid_query(grid, p[i], 0.1):
                n[i] += 1

        def capture(p, n):
            grid = wp.HashGrid(16, 16, 16)
            grid.build(p, 0.1)
            with wp.ScopedCapture() as recording:
                wp.launch(near, dim=len(p), inputs=[grid.id, p, n])  # error: WPA703
            return recording.graph
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def near(grid: wp.uint64, p: wp.array(dtype=wp.vec3), n: wp.array(dtype=int)):
            i = wp.tid()
            for _ in wp.hash_grid_query(grid, p[i], 0.1):
                n[i] += 1

        class Neighbours:
            def __init__(self, p, n):
                self.grid = wp.HashGrid(16, 16, 16)
                self.grid.build(p, 0.1)
                self.command = wp.launch(near, dim=len(p), inputs=[self.grid.id, p, n], record_cmd=True)

        def both(p, n):
            grid = wp.HashGrid(16, 16, 16)
            grid.build(p, 0.1)
            return grid, wp.launch(near, dim=len(p), inputs=[grid.id, p, n], record_cmd=True)

        def here(p, n):
            grid = wp.HashGrid(16, 16, 16)
            grid.build(p, 0.1)
            command = wp.launch(near, dim=len(p), inputs=[grid.id, p, n], record_cmd=True)
            with wp.ScopedCapture() as recording:
                wp.launch(near, dim=len(p), inputs=[grid.id, p, n])
            for _ in range(100):
                command.launch()
                wp.capture_launch(recording.graph)
            return n.numpy()
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        uses = handles(function)
        for handle in uses.found:
            if handle.held or handle.name is None:
                continue
            for node in handle.ids:
                for launch in uses.launches_with(node):
                    what = _kept(uses, launch)
                    if what is not None:
                        yield self._finding(function, launch.node, what, handle)
                setter = _setter(uses, node)
                if setter is not None:
                    yield self._finding(function, setter, "recorded launch", handle)

    def _finding(self, function: HostFunction, node: ast.AST, what: str, handle: Handle) -> Finding:
        return self.at(
            function, node, f"the {what} outlives the {handle.kind} '{handle.name}', whose id it keeps",
            f"return or store '{handle.name}' beside it: the id alone keeps nothing alive",
        )  # fmt: skip


def _kept(uses: Handles, launch: Launch) -> str | None:
    """What of a launch leaves the function: its command or the graph it is recorded in."""
    recorded = launch.argument("record_cmd")
    if recorded is not None and constant(recorded, launch.function.scope) is not False:
        return "recorded launch" if uses.escapes(launch.node) is not None else None
    for capture in captures(launch.module):
        if capture.function is launch.function and capture.covers(launch.site):
            return "graph" if _graph_escapes(uses, capture) else None
    return None


def _graph_escapes(uses: Handles, capture: Capture) -> bool:
    function = capture.function
    target = capture.item.optional_vars if capture.item is not None else None
    if isinstance(target, ast.Name):
        nodes = [
            node for node in function.flow.of(ast.Attribute)
            if node.attr == "graph" and isinstance(node.value, ast.Name) and node.value.id == target.id  # type: ignore[attr-defined]
        ]  # fmt: skip
    elif isinstance(target, ast.Attribute):
        return True
    else:
        nodes = [call.node for call in function.calls if call.name == "warp.capture_end"]
    return any(uses.escapes(node) is not None for node in nodes)  # type: ignore[arg-type]


def _setter(uses: Handles, node: ast.expr) -> ast.Call | None:
    """``command.set_param_by_name("grid", grid.id)`` on a command from outside the function."""
    call = uses.parents.get(node)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr not in _SETTERS:
        return None
    base = call.func.value
    while isinstance(base, ast.Attribute):
        base = base.value
    definition = uses.function.flow.uses.get(base)
    return call if definition is not None and definition.kind in ("parameter", "free") else None

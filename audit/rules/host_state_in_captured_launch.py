"""Declares the rule ``host-state-in-captured-launch``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source import reach
from warp_audit.audit.source.captures import Capture, calls_from, capture_of, captures, host, knows_capture, recorded
from warp_audit.audit.source.scopes import dotted
from warp_audit.audit.source.types import Array, StructType
from warp_audit.audit.source.walk import children, walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.captures import Recorded
    from warp_audit.audit.source.flow import Def
    from warp_audit.audit.source.host import HostFunction, Launch
    from warp_audit.audit.source.module import Module
    from warp_audit.audit.source.scopes import Scope

_FRESH = ("random.", "numpy.random.", "time.", "secrets.")


class HostStateInCapturedLaunch(Rule):
    """A captured launch is given a host value that changes from step to step.

    What it finds: a launch that is recorded in a graph and takes by value a counter, a time or a position that host
    code advances in the recorded step or beside the replay, or a fresh random number or clock reading.

    Why it matters: the graph keeps the value of the moment of capture. Every replay uses it again, and Warp says
    nothing.

    Instead: keep the value in an array that a kernel of the graph advances or that is assigned before each replay.
    """

    code = "WPA712"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#2693",)
    words = ("apture",)
    BAD = (
        """
        @wp.kernel
        def record(x: wp.array(dtype=float), ring: wp.array2d(dtype=float), slot: int):
            i = wp.tid()
            ring[slot, i] = x[i]

        class History:
            def __init__(self):
                self.slot = 0
                self.graph = None

            def simulate(self):
                row = self.slot % 10
                wp.launch(record, dim=10, inputs=[self.x, self.ring, row])  # error: WPA712

            def capture(self):
                with wp.ScopedCapture() as recording:
                    self.simulate()
                self.graph = recording.graph

            def step(self):
                if self.graph is not None:
                    wp.capture_launch(self.graph)
                else:
                    self.simulate()
                self.slot += 1
        """,
        """
        import random

        @wp.kernel
        def shake(x: wp.array(dtype=float), seed: int, time: float):
            i = wp.tid()
            state = wp.rand_init(seed, i)
            x[i] = x[i] + time * wp.randf(state)

        frame = 0

        def step(x):
            global frame
            frame += 1
            wp.launch(kernel=shake, dim=x.shape[0], inputs=[x, frame, 0.1])  # error: WPA712

        def run(x, dt):
            t = 0.0
            wp.capture_begin()
            step(x)
            wp.launch(shake, dim=x.shape[0], inputs=[x, random.randint(0, 99), 0.1])  # error: WPA712
            wp.launch(shake, dim=x.shape[0], inputs=[x, 7, t])  # error: WPA712
            graph = wp.capture_end()
            for _ in range(100):
                wp.capture_launch(graph)
                t += dt

        def lazily(x, dt):
            t = 0.0
            graph = None
            for _ in range(100):
                if graph is None:
                    with wp.ScopedCapture() as recording:
                        wp.launch(shake, dim=x.shape[0], inputs=[x, 7, t])  # error: WPA712
                    graph = recording.graph
                wp.capture_launch(graph)
                t += dt
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def record(x: wp.array(dtype=float), ring: wp.array2d(dtype=float), slot: int):
            i = wp.tid()
            ring[slot, i] = x[i]

        class Stepper:
            def __init__(self, dt):
                self.dt = dt
                self.frames = 0
                self.slot = 0

            def configure(self, slot):
                self.slot = slot

            def simulate(self):
                for k in range(4):
                    wp.launch(record, dim=10, inputs=[self.x, self.ring, k])
                wp.launch(record, dim=10, inputs=[self.x, self.ring, self.slot])

            def capture(self):
                with wp.ScopedCapture() as recording:
                    self.simulate()
                self.graph = recording.graph

            def run(self):
                for _ in range(10):
                    wp.capture_launch(self.graph)
                    self.frames += 1
                    wp.launch(record, dim=10, inputs=[self.x, self.ring, self.frames])

        def recaptured(x, ring):
            for slot in range(3):
                t = slot
                with wp.ScopedCapture() as recording:
                    wp.launch(record, dim=10, inputs=[x, ring, t])
                wp.capture_launch(recording.graph)

        class Octaves:
            def capture(self):
                self.frequency = 1.0
                with wp.ScopedCapture() as recording:
                    for k in range(4):
                        wp.launch(record, dim=10, inputs=[self.x, self.ring, self.frequency])
                        self.frequency *= 2.0
                self.graph = recording.graph

            def step(self):
                self.frequency = 1.0
                wp.capture_launch(self.graph)
        """,
    )

    def module(self, module: Module) -> Iterator[Finding]:
        if "apture" not in module.text or not captures(module):
            return
        for launch in module.launches:
            where = capture_of(launch.function, launch.site)
            if where is None or knows_capture(launch.site, where):
                continue
            for argument in _values(launch):
                name = _changing(argument, launch.function, where)
                if name is not None:
                    yield self.at(
                        module, launch.node, f"every replay of the graph uses the value that '{name}' has at capture",
                        "keep the value in an array that a kernel of the graph advances, or assign it before a replay",
                    )  # fmt: skip
                    break


def _values(launch: Launch) -> list[ast.expr]:
    """The arguments that are passed by value."""
    if launch.kernel is None:
        return [] if launch.kernels else launch.inputs or []
    pairs = launch.pairs(launch.kernel)
    return [given for parameter, given in pairs if not isinstance(parameter.type, (Array, StructType, type(None)))]


def _changing(node: ast.expr, function: HostFunction, where: Capture | Recorded, depth: int = 0) -> str | None:
    """The name of something in an expression that is another value at each replay."""
    if depth > 6:
        return None
    if isinstance(node, ast.Call):
        name = function.qualify(node.func)
        if name is not None and name.startswith(_FRESH):
            return ast.unparse(node)
        parts = [*node.args, *(keyword.value for keyword in node.keywords)]
    elif isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            return _changing_attribute(node, function, where, depth)
        return None
    elif isinstance(node, ast.Name):
        return _changing_name(node, function, where, depth)
    elif isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.IfExp, ast.Compare, ast.BoolOp)):
        parts = [child for child in children(node) if isinstance(child, ast.expr)]
    else:
        return None
    return next((found for part in parts if (found := _changing(part, function, where, depth + 1))), None)


def _changing_attribute(
    node: ast.Attribute, function: HostFunction, where: Capture | Recorded, depth: int
) -> str | None:
    definition = function.flow.uses.get(node)
    if definition is not None and definition.kind == "assign" and definition.value is not None:
        return _changing(definition.value, function, where, depth + 1)
    if definition is not None and definition.previous is not None and definition.previous.kind == "assign":
        return None  # starts anew in this very function
    owner = function.class_scope
    if owner is None:
        return None
    path = f"self.{node.attr}"
    path = f"self.{node.attr}"
    scopes = dict.fromkeys(scope for _, scope in reach.attributes_of(owner).get(node.attr, []))
    if any(scope.kind == "function" and _resets(host(scope), path, function.module) for scope in scopes):
        return None
    for scope in scopes:
        if scope.kind == "function" and scope.name != "__init__" and _advances(host(scope), path, function.module):
            return path
    return None


def _resets(function: HostFunction, path: str, module: Module) -> bool:
    """Whether a function that runs beside the replay sets a name to a constant: it starts anew each time."""
    if function.scope.name == "__init__" or function.scope in recorded(module):
        return False
    constant = any(
        one.name == path and one.kind == "assign" and isinstance(one.value, ast.Constant) for one in function.flow.defs
    )
    return constant and _replays(function.scope, module)


def _advances(function: HostFunction, path: str, module: Module) -> bool:
    """Whether a function that runs in the recording, or beside the replay, gives a name a next value."""
    inside = function.scope in recorded(module)
    if not inside and not _replays(function.scope, module):
        return False
    changes = [one for one in function.flow.defs if one.name == path and one.kind in ("assign", "augment")]
    return any(_is_next(one, path, function) for one in changes)


def _is_next(definition: Def, path: str, function: HostFunction) -> bool:
    """``t += dt``, ``slot = (slot + 1) % n``: a value made from the one before."""
    if definition.kind == "augment":
        return True
    value = function.value_of(definition.value) if definition.value is not None else None
    return value is not None and any(
        isinstance(part, (ast.Name, ast.Attribute)) and dotted(part) == path for part in walk(value)
    ) and not isinstance(value, (ast.Name, ast.Attribute, ast.Call))  # fmt: skip


def _replays(scope: Scope, module: Module) -> bool:
    """Whether a function launches a graph, itself or in what it calls, and does not capture it anew."""
    inner = [scope, *(target for _, target in calls_from(scope))]
    if any(capture.function.scope in inner for capture in captures(module)):
        return False
    return any(one.module.qualified(call.func, one) == "warp.capture_launch" for one in inner for call in one.calls)


def _changing_name(node: ast.Name, function: HostFunction, where: Capture | Recorded, depth: int) -> str | None:
    definition = function.flow.uses.get(node)
    if definition is None:
        return None
    if definition.kind == "free" or (definition.kind == "augment" and _is_shared(node.id, function)):
        return _changing_outside(node.id, function)
    if isinstance(where, Capture) and _changed_beside_replay(node.id, function, where):
        return node.id
    if definition.kind == "assign" and definition.index is None and definition.value is not None:
        return _changing(definition.value, function, where, depth + 1)
    return None


def _changing_outside(name: str, function: HostFunction) -> str | None:
    """A name of the file's top level, or of a function around, that other code advances."""
    found = function.scope.lookup(name)
    if found is None or not any(binding.kind in ("assign", "other") for binding in found[1]):
        return None
    owner = found[0]
    if owner.kind == "function":
        outer = host(owner)
        for capture in captures(function.module):
            if capture.function is outer and _changed_beside_replay(name, outer, capture):
                return name
    for other in function.module.host_functions:
        if _is_shared(name, other) and _advances(other, name, function.module):
            return name
    return None


def _is_shared(name: str, function: HostFunction) -> bool:
    """Whether a function declares a name ``global`` or ``nonlocal``."""
    return any(name in node.names for node in function.flow.steps if isinstance(node, (ast.Global, ast.Nonlocal)))


def _asks_for_none(test: ast.expr) -> bool:
    """``graph is None``, ``not graph``: what such a condition guards happens once."""
    if isinstance(test, ast.Compare):
        return any(isinstance(one, ast.Constant) and one.value is None for one in test.comparators)
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def _changed_beside_replay(name: str, function: HostFunction, capture: Capture) -> bool:
    """Whether a loop behind a capture both launches the graph and changes a name."""
    own = function.flow.sites.get(capture.node)
    if own is None:
        return False
    replays = [
        call.site for call in function.calls
        if call.name == "warp.capture_launch" and call.site.order > capture.first
    ]  # fmt: skip
    loops = {loop for site in replays for loop in site.loops}
    if not any(_asks_for_none(guard.test) for guard in own.guards):
        loops -= set(own.loops)  # each pass captures anew
    return any(
        one.site is not None and one.kind in ("assign", "augment") and one.site.order > capture.first
        and not capture.covers(one.site) and loops & set(one.site.loops)
        for one in function.flow.defs
        if one.name == name
    )  # fmt: skip

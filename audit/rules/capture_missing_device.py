"""Declares the rule ``capture-missing-device``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Fix, Place, SetKeyword
from warp_audit.audit.rule import Finding, Rule, Safety
from warp_audit.audit.source.captures import Capture, captures, recorded
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction, Launch
    from warp_audit.audit.source.module import Module

_DEFAULTS = {"warp.get_device", "warp.get_preferred_device"}


class CaptureMissingDevice(Rule):
    """A graph is captured on the default device while its launches go to a device of their own.

    What it finds: ``wp.ScopedCapture()`` or ``wp.capture_begin()`` without ``device`` or ``stream``, where the launches
    that it records, directly or in methods, name a ``device``.

    Why it matters: if the two are not the same, the launches run at once and are not part of the graph, and the replay
    does nothing. Warp says nothing.

    Instead: give the capture the device of its launches.
    """

    code = "WPA716"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("newton-physics/newton#329",)
    fix_safety = Safety.UNSAFE
    words = ("apture",)
    BAD = (
        """
        @wp.kernel
        def drift(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = x[i] + 1.0

        class Viewer:
            def simulate(self):
                for _ in range(4):
                    wp.launch(drift, dim=10, inputs=[self.x], device=self.x.device)

            def step(self):
                self.simulate()

            def capture(self):
                with wp.ScopedCapture(force_module_load=False) as recording:  # error: WPA716
                    self.step()
                self.graph = recording.graph

        def capture(x, device):
            wp.capture_begin()  # error: WPA716
            wp.launch(drift, dim=10, inputs=[x], device=device)
            return wp.capture_end()
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def drift(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = x[i] + 1.0

        class Viewer:
            def __init__(self):
                self.device = wp.get_device()

            def simulate(self):
                wp.launch(drift, dim=10, inputs=[self.x], device=self.device)

            def capture(self):
                with wp.ScopedCapture() as recording:
                    self.simulate()
                self.graph = recording.graph

        def capture(x, device, stream):
            with wp.ScopedDevice(device):
                with wp.ScopedCapture() as recording:
                    wp.launch(drift, dim=10, inputs=[x], device=device)
            with wp.ScopedCapture(device) as recording:
                wp.launch(drift, dim=10, inputs=[x], device=device)
            with wp.ScopedCapture(stream=stream) as recording:
                wp.launch(drift, dim=10, inputs=[x], device=device)
            with wp.ScopedCapture() as recording:
                wp.launch(drift, dim=10, inputs=[x])
            return recording.graph
        """,
    )

    def module(self, module: Module) -> Iterator[Finding]:
        if "apture" not in module.text:
            return
        for capture in captures(module):
            if not _is_default(capture) or _device_is_set(capture):
                continue
            launch = next((one for one in _launches(capture) if _names_device(one)), None)
            if launch is None:
                continue
            device = ast.unparse(launch.argument("device"))  # type: ignore[arg-type]
            line = launch.node.lineno
            yield self.at(
                module, capture.node, f"the capture is on the default device, but line {line} launches on '{device}'",
                "give the capture the same device: other launches run at once and are not in the graph",
                fix=self._fix(capture, launch, device),
            )  # fmt: skip

    def _fix(self, capture: Capture, launch: Launch, device: str) -> Fix | None:
        """Only where the device's name means the same in both functions."""
        here, there = capture.function, launch.function
        if here is not there and not (here.class_scope is there.class_scope and device.startswith("self.")):
            return None
        return self.mend(f"Capture on {device}", SetKeyword(Place.of(capture.node), "device", device))


def _is_default(capture: Capture) -> bool:
    return capture.argument("device", 0) is None and capture.argument("stream", 1) is None


def _launches(capture: Capture) -> Iterator[Launch]:
    during = recorded(capture.function.module)
    for launch in capture.function.module.launches:
        inside = launch.function is capture.function and capture.covers(launch.site)
        called = during.get(launch.function.scope)
        if inside or (called is not None and called.capture is capture):
            yield launch


def _names_device(launch: Launch) -> bool:
    """Whether a launch names a device that may be another than the default one."""
    device = launch.argument("device")
    if device is None or (isinstance(device, ast.Constant) and device.value is None):
        return False
    function = launch.function
    value = function.value_of(device)
    values = [(value, function)]
    if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == "self":
        values = function.attribute_values(value) or values
    return not all(_is_default_device(one, where) for one, where in values)


def _is_default_device(node: ast.expr, function: HostFunction) -> bool:
    if isinstance(node, ast.Call):
        return function.module.qualified(node.func, function.scope) in _DEFAULTS and not node.args
    if isinstance(node, ast.Attribute) and node.attr == "device":
        return _was_made_on_default(node.value, function)
    return isinstance(node, ast.Constant) and node.value is None


def _was_made_on_default(node: ast.expr, function: HostFunction) -> bool:
    """Whether an object was made by a call that was told of no device: ``self.model = builder.finalize()``."""
    known = function.array(node)
    if known is not None:
        return known.default_device
    value = function.value_of(node)
    makers = function.attribute_values(value) or [(value, function)]
    return all(isinstance(made, ast.Call) and not made.args and not made.keywords for made, _ in makers)


def _device_is_set(capture: Capture) -> bool:
    """Whether the default device is chosen around the capture, or by code of the file that calls its function."""
    function = capture.function
    site = function.flow.sites.get(capture.node)
    if site is None or "set_device" in function.module.text:
        return True
    scoped = ("warp.ScopedDevice", "warp.ScopedStream")
    if function.inside(site, *scoped) is not None:
        return True
    statement = site.statement
    if isinstance(statement, ast.With):  # `with wp.ScopedDevice(d), wp.ScopedCapture():`
        beside = [item.context_expr for item in statement.items]
        if any(isinstance(one, ast.Call) and function.qualify(one.func) in scoped for one in beside):
            return True
    if "ScopedDevice" not in function.module.text:
        return False
    last = function.scope.name
    for other in function.module.host_functions:
        for call in other.calls:
            name = call.name.rpartition(".")[2]
            if name in (last, _owner(function)) and other.inside(call.site, *scoped) is not None:
                return True
    return False


def _owner(function: HostFunction) -> str:
    """The class to whose constructor a capture belongs, or the function's own name."""
    owner = function.class_scope
    return owner.name if owner is not None else function.scope.name

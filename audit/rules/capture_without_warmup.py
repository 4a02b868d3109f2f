"""Declares the rule ``capture-without-warmup``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import InsertBefore, Place
from warp_audit.audit.rule import Finding, Rule, Safety
from warp_audit.audit.source import reach
from warp_audit.audit.source.captures import Capture, captures, recorded, run_before
from warp_audit.audit.source.constants import constant
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction, Launch
    from warp_audit.audit.source.module import Module
    from warp_audit.audit.source.scopes import Scope

_LOADS = {"load_module", "force_load", "load_aot_module", "compile_aot_module"}


class CaptureWithoutWarmup(Rule):
    """The first launch of a module's kernels happens while a graph is recorded.

    What it finds: a capture that records launches of the file's kernels, in a constructor that has launched and loaded
    nothing before, or in a file that launches and loads nothing outside of captures.

    Why it matters: the module is then compiled and loaded during the capture. Drivers older than CUDA 12.3 refuse that
    with error 900, and the first capture takes as long as the compiler.

    Instead: call ``wp.load_module(device=…)`` or run the step once before the capture.
    """

    code = "WPA717"
    severity = Severity.INFO
    confidence = Confidence.LOW
    references = ("newton-physics/newton#357",)
    opt_in = True
    fix_safety = Safety.SAFE
    words = ("apture",)
    BAD = (
        """
        @wp.kernel
        def integrate(x: wp.array(dtype=float), v: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = x[i] + v[i]

        class Rollout:
            def __init__(self, n):
                self.x = wp.zeros(n, dtype=float)
                self.capture()

            def simulate(self):
                wp.launch(integrate, dim=self.x.shape[0], inputs=[self.x, self.x])

            def capture(self):
                wp.capture_begin(force_module_load=False)  # error: WPA717
                self.simulate()
                self.graph = wp.capture_end()
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def integrate(x: wp.array(dtype=float), v: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = x[i] + v[i]

        class Rollout:
            def __init__(self, n):
                self.x = wp.zeros(n, dtype=float)
                self.simulate()
                with wp.ScopedCapture() as recording:
                    self.simulate()
                self.graph = recording.graph

            def simulate(self):
                wp.launch(integrate, dim=self.x.shape[0], inputs=[self.x, self.x])

        class Forced:
            def __init__(self, x):
                with wp.ScopedCapture(force_module_load=True) as recording:
                    wp.launch(integrate, dim=x.shape[0], inputs=[x, x])
                self.graph = recording.graph

        class Loaded:
            def __init__(self, x):
                wp.load_module(device=x.device)
                with wp.ScopedCapture() as recording:
                    wp.launch(integrate, dim=x.shape[0], inputs=[x, x])
                self.graph = recording.graph
        """,
    )

    def module(self, module: Module) -> Iterator[Finding]:
        if "apture" not in module.text:
            return
        for capture in captures(module):
            forced = capture.argument("force_module_load", 2)
            if forced is not None and constant(forced, capture.function.scope) is not False:
                continue
            if not any(one.module is module for launch in _launches(capture) for one in launch.kernels):
                continue
            if _is_cold(capture):
                load = InsertBefore(_place(capture), f"{_warp(capture)}.load_module()")
                yield self.at(
                    module, capture.node, "the first launch of this module's kernels is inside the capture",
                    "load the module before: wp.load_module(device=...), or run the step once",
                    fix=self.mend("Load the module before the capture", load),
                )  # fmt: skip


def _place(capture: Capture) -> Place:
    return Place.of(capture.function.flow.sites[capture.node].statement)


def _warp(capture: Capture) -> str:
    """The name that Warp has where the capture stands."""
    function = capture.node.func
    return ast.unparse(function.value) if isinstance(function, ast.Attribute) else "warp"


def _launches(capture: Capture) -> Iterator[Launch]:
    during = recorded(capture.function.module)
    for launch in capture.function.module.launches:
        if launch.function is capture.function:
            if capture.covers(launch.site):
                yield launch
        elif launch.function.scope in during and during[launch.function.scope].capture is capture:
            yield launch


def _is_cold(capture: Capture) -> bool:
    """Whether surely nothing has loaded the module when the capture starts."""
    function = capture.function
    if function.scope.name == "__init__" or function.scope.kind == "module":
        before = [target for target in run_before(capture) if _own(target, function)]
        return not _warms(function, capture) and not any(_launches_or_loads(one.module.host_of(one)) for one in before)
    during = recorded(function.module)
    for other in function.module.host_functions:
        if other.scope not in during and _warms(other, capture if other is function else None):
            return False
    return True


def _own(target: Scope, function: HostFunction) -> bool:
    """Whether a function that runs before is of the same class, or of none."""
    owner = reach.class_around(target)
    return owner is None or owner is function.class_scope


def _launches_or_loads(function: HostFunction | None) -> bool:
    return function is not None and (bool(function.launches) or bool(function.called & _LOADS))


def _warms(function: HostFunction, capture: Capture | None) -> bool:
    """Whether a function launches or loads outside of captures; before the capture, where it stands in the function."""
    own = [one for one in captures(function.module) if one.function is function]
    for call in function.calls:
        name = call.name.rpartition(".")[2]
        if name not in _LOADS and call.name not in ("warp.launch", "warp.launch_tiled"):
            continue
        if any(one.covers(call.site) for one in own):
            continue
        if capture is None or call.site.order < capture.first:
            return True
    return False

"""Declares the rule ``readback-in-capture``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.captures import host, recorded, recorded_calls
from warp_audit.audit.source.constants import constant
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.captures import Recorded
    from warp_audit.audit.source.host import HostCall, HostFunction
    from warp_audit.audit.source.module import Module

_WAITS = {
    "warp.synchronize", "warp.synchronize_device", "warp.synchronize_stream", "warp.synchronize_event",
    "torch.cuda.synchronize",
}  # fmt: skip
_READS = {".numpy", ".list"}
_SUMS = {"warp.utils.array_sum", "warp.utils.array_inner"}


class ReadbackInCapture(Rule):
    """Code that runs while a graph is recorded reads a value back to the host or waits for the device.

    What it finds: ``.numpy()``, ``.list()``, ``wp.synchronize…()`` and sums returned to the host, inside a capture, in
    functions and methods called from one, and in bodies of ``wp.capture_while`` and ``wp.capture_if``.

    Why it matters: nothing has run yet while a graph is recorded. CUDA ends the capture with error 906; on the CPU the
    capture goes on and freezes whichever branch the stale value took.

    Instead: decide on the device (``wp.capture_if``, ``wp.capture_while``, a flag that kernels read), or read back
    after the replay.
    """

    code = "WPA711"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#3191",)
    words = ("apture",)
    BAD = (
        """
        @wp.kernel
        def relax(x: wp.array(dtype=float), r: wp.array(dtype=float)):
            i = wp.tid()
            r[i] = 0.5 * x[i]

        class Solver:
            def iterate(self):
                for _ in range(8):
                    wp.launch(relax, dim=self.x.shape[0], inputs=[self.x, self.r])
                    if self.converged():
                        break

            def converged(self):
                return self.r.numpy().max() < 1.0e-6  # error: WPA711

            def record(self):
                with wp.ScopedCapture(device=self.x.device) as recording:
                    self.iterate()
                self.graph = recording.graph
        """,
        """
        @wp.kernel
        def relax(x: wp.array(dtype=float), r: wp.array(dtype=float)):
            i = wp.tid()
            r[i] = 0.5 * x[i]

        def record(x, r):
            wp.capture_begin()
            try:
                wp.launch(relax, dim=x.shape[0], inputs=[x, r])
                wp.synchronize()  # error: WPA711
                print(r.list())  # error: WPA711
            finally:
                graph = wp.capture_end()
            wp.synchronize()
            return graph
        """,
        """
        @wp.kernel
        def relax(x: wp.array(dtype=float), r: wp.array(dtype=float)):
            i = wp.tid()
            r[i] = 0.5 * x[i]

        def run(x, r, again):
            def body():
                wp.launch(relax, dim=x.shape[0], inputs=[x, r])
                print(wp.utils.array_sum(r))  # error: WPA711

            wp.capture_while(again, while_body=body)

        class Simulator:
            def step(self):
                return self.r.numpy()[0]  # error: WPA711

        def make_graph(work):
            with wp.ScopedCapture() as recording:
                work()
            return recording.graph

        def main():
            simulator = Simulator()
            return make_graph(simulator.step)
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def relax(x: wp.array(dtype=float), r: wp.array(dtype=float)):
            i = wp.tid()
            r[i] = 0.5 * x[i]

        class Solver:
            def step(self):
                wp.launch(relax, dim=self.x.shape[0], inputs=[self.x, self.r])
                if not self.device.is_capturing:
                    self.error = self.r.numpy().max()

            def record(self):
                self.step()
                wp.synchronize()
                with wp.ScopedCapture() as recording:
                    self.step()
                self.graph = recording.graph
                wp.capture_launch(self.graph)
                return self.r.numpy()

            def report(self):
                return self.r.numpy()
        """,
    )

    def module(self, module: Module) -> Iterator[Finding]:
        if "apture" not in module.text:
            return
        for function, call, _ in recorded_calls(module):
            what = _reads(function, call)
            if what is not None:
                yield self.at(
                    function, call.node, f"{what} while a graph is recorded, when no kernel has run yet",
                    "decide on the device with wp.capture_if or wp.capture_while, or read after the replay",
                )  # fmt: skip
        for one in recorded(module).values():
            if one.certain and one.scope.module is not module:
                yield from self._elsewhere(module, one)

    def _elsewhere(self, module: Module, one: Recorded) -> Iterator[Finding]:
        """Functions of other files are told of where this file calls them."""
        function = host(one.scope)
        for call in function.calls:
            what = _reads(function, call) if not call.site.guards else None
            if what is not None:
                where = f"{function.module.path.name}:{call.node.lineno}"
                yield self.at(
                    module, one.entry[1], f"'{function.name}' {what} while a graph is recorded ({where})",
                    "decide on the device with wp.capture_if or wp.capture_while, or read after the replay",
                )  # fmt: skip
                return


def _reads(function: HostFunction, call: HostCall) -> str | None:
    """What a call does that needs the device to have run."""
    if call.name in _WAITS:
        return "waits for the device"
    if call.name in _SUMS and call.argument("out") is None and call.argument("axis") is None:
        return "reads a sum back to the host"
    if call.name in _READS and call.receiver is not None and not call.node.args and not call.node.keywords:
        known = function.array(call.receiver)
        if known is not None and known.device is not None and constant(known.device, function.scope) == "cpu":
            return None
        return f"reads '{ast.unparse(call.receiver)}' back to the host"
    return None

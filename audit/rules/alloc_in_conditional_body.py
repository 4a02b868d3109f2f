"""Declares the rule ``alloc-in-conditional-body``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.captures import allocates, conditional_bodies, host, knows_capture
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostCall, HostFunction
    from warp_audit.audit.source.module import Module


class AllocInConditionalBody(Rule):
    """The body of a conditional graph node allocates device memory.

    What it finds: ``wp.zeros``, ``wp.clone``, ``wp.Mesh`` and the like in a function given to ``wp.capture_while`` or
    ``wp.capture_if``, or called from one.

    Why it matters: CUDA allows no allocation in the body of a conditional node, so the capture ends with an error. Run
    without a capture, or on the CPU, the same code works, which hides it.

    Instead: allocate before, and let the body use the same array at each pass.
    """

    code = "WPA713"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#866",)
    words = ("apture",)
    BAD = (
        """
        @wp.kernel
        def refine(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            y[i] = 0.5 * x[i]

        class Solver:
            def pass_once(self):
                old = wp.clone(self.x)  # error: WPA713
                wp.launch(refine, dim=self.x.shape[0], inputs=[old, self.x])

            def solve(self):
                wp.capture_while(self.again, while_body=self.pass_once)

        def smooth(x):
            out = wp.empty_like(x)  # error: WPA713
            wp.launch(refine, dim=x.shape[0], inputs=[x], outputs=[out])
            return out

        def maybe(x, flag):
            def yes():
                wp.copy(x, smooth(x))

            wp.capture_if(flag, on_true=yes, on_false=lambda: x.assign(wp.zeros(4, dtype=float)))  # error: WPA713
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def refine(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            y[i] = 0.5 * x[i]

        def solve(x, again, flag):
            old = wp.empty_like(x)

            def body(limit):
                row = x.flatten() if limit > 1 else wp.zeros(3, dtype=float)
                wp.copy(old, row)
                wp.launch(refine, dim=x.shape[0], inputs=[old, x])

            wp.capture_while(again, body, limit=3)
            wp.capture_if(flag, on_true=body, limit=2)
            return wp.zeros(3, dtype=float)
        """,
    )

    def module(self, module: Module) -> Iterator[Finding]:
        for scope, one in conditional_bodies(module).items():
            if scope.module is not module:
                continue
            function = host(scope)
            for call in function.calls:
                if allocates(call) and not knows_capture(call.site) and not _depends_on_caller(function, call):
                    name = one.conditional.name.rpartition(".")[2] if one.conditional is not None else "capture_while"
                    yield self.at(
                        function, call.node, f"this allocates in the body of a '{name}', where a graph can't",
                        "allocate once before the conditional and use the array in the body",
                    )  # fmt: skip


def _depends_on_caller(function: HostFunction, call: HostCall) -> bool:
    """Whether a condition on a parameter decides: ``if scratch is None`` asks what the body's caller gave."""
    for guard in call.site.guards:
        for part in walk(guard.test):
            definition = function.flow.uses.get(part)
            if definition is not None and definition.name != "self":
                if any(one.kind == "parameter" for one in definition.origins()):
                    return True
    return False

"""Declares the rule ``nonblocking-stream-interop``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostCall, HostFunction

_SIDE_STREAMS = {"torch.cuda.Stream", "torch.Stream", "torch.cuda.ExternalStream"}
_ORDERING = {"wait_stream", "wait_event", "record_stream"}


class NonblockingStreamInterop(Rule):
    """Warp works on a side stream of another framework, and no event orders it with the other streams.

    What it finds: a new ``torch.cuda.Stream`` (or a non-blocking CuPy stream) handed to Warp by
    ``wp.stream_from_torch`` or ``wp.Stream(cuda_stream=…)`` in a function without a ``wait_stream`` or ``wait_event``.

    Why it matters: such streams do not wait for the default stream, nor it for them. Inputs may not be written yet, and
    temporaries may be freed or used again while the side stream still reads them.

    Instead: use ``torch.cuda.current_stream()``, or order the two with ``wait_stream`` before and after.
    """

    code = "WPA721"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("NVIDIA/physicsnemo#1771",)
    calls = frozenset({"stream_from_torch", "Stream"})
    words = ("tream",)
    BAD = (
        """
        import torch

        def run(kernel, x):
            side = torch.cuda.Stream(device=x.device)
            stream = wp.stream_from_torch(side)  # error: WPA721
            wp.launch(kernel, dim=x.shape[0], inputs=[wp.from_torch(x)], stream=stream)
            wp.synchronize_stream(stream)

        class Worker:
            def __init__(self):
                self.side = torch.cuda.Stream()

            def run(self, kernel, x):
                with wp.ScopedStream(wp.stream_from_torch(self.side)):  # error: WPA721
                    wp.launch(kernel, dim=x.shape[0], inputs=[x])

        def by_pointer(kernel, x):
            side = torch.cuda.Stream()
            with wp.ScopedStream(wp.Stream(cuda_stream=side.cuda_stream)):  # error: WPA721
                wp.launch(kernel, dim=x.shape[0], inputs=[x])
        """,
    )
    GOOD = (
        """
        import torch

        def run(kernel, x):
            with wp.ScopedStream(wp.stream_from_torch(torch.cuda.current_stream())):
                wp.launch(kernel, dim=x.shape[0], inputs=[x])
            with wp.ScopedStream(wp.stream_from_torch(x.device)):
                wp.launch(kernel, dim=x.shape[0], inputs=[x])

        def ordered(kernel, x):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with wp.ScopedStream(wp.stream_from_torch(side)):
                wp.launch(kernel, dim=x.shape[0], inputs=[x])
            torch.cuda.current_stream().wait_stream(side)

        def own(kernel, x):
            with wp.ScopedStream(wp.Stream(x.device)):
                wp.launch(kernel, dim=x.shape[0], inputs=[x])
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        if function.called & _ORDERING:
            return
        for call in function.calls:
            given = _handed_over(call)
            if given is not None and _is_side_stream(given, function):
                yield self.at(
                    function, call.node, f"no event orders the stream '{ast.unparse(given)}' with the others",
                    "use torch.cuda.current_stream(), or wait_stream before and after the work",
                )  # fmt: skip


def _handed_over(call: HostCall) -> ast.expr | None:
    """The other framework's stream that a call makes a Warp stream of."""
    if call.name == "warp.stream_from_torch":
        return call.argument("stream_or_device", 0)
    given = call.argument("cuda_stream") if call.name == "warp.Stream" else None
    return given.value if isinstance(given, ast.Attribute) and given.attr in ("cuda_stream", "ptr") else None


def _is_side_stream(node: ast.expr, function: HostFunction) -> bool:
    value = function.value_of(node)
    makers = function.attribute_values(value) or [(value, function)]
    return any(_makes_side_stream(made, where) for made, where in makers)


def _makes_side_stream(node: ast.expr, function: HostFunction) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = function.module.qualified(node.func, function.scope)
    if name == "cupy.cuda.Stream":
        return any(k.arg == "non_blocking" and getattr(k.value, "value", False) is True for k in node.keywords)
    return name in _SIDE_STREAMS

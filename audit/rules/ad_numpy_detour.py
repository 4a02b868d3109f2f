"""Declares the rule ``ad-numpy-detour``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.tapes import recordings, written_roots
from warp_audit.audit.source.walk import children
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostCall, HostFunction
    from warp_audit.audit.source.tapes import Recording

_MAKERS = ("warp.array", "warp.from_numpy", "warp.full", ".assign", ".fill_")
_OUT = (".numpy", ".list")


class AdNumpyDetour(Rule):
    """Inside a recording, differentiated values leave Warp and come back as a new array.

    What it finds: an array made, filled or assigned inside of a tape's block from ``y.numpy()`` or ``y.list()`` of an
    array that a launch on the tape has written.

    Why it matters: the tape records launches, not what NumPy does. The new array is a start of its own: the gradients
    of all that led to it are zero, without a message.

    Instead: stay on the device: a slice (``y[1:]``), ``wp.copy``, a kernel; or read values after the block.
    """

    code = "WPA403"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#1774",)
    calls = frozenset(("numpy", "list"))
    BAD = (
        """
        import numpy as np

        @wp.kernel
        def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            y[i] = x[i] * x[i]

        def gradient(x, y, z, loss):
            tape = wp.Tape()
            with tape:
                wp.launch(square, dim=x.shape[0], inputs=[x], outputs=[y])
                part = wp.array(y.numpy()[1:], dtype=float, requires_grad=True)  # error: WPA403
                wp.launch(square, dim=part.shape[0], inputs=[part], outputs=[loss])
                host = y.numpy()
                order = np.sort(host)
                z.assign(order)  # error: WPA403
            tape.backward(loss)
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            y[i] = x[i] * x[i]

        def gradient(x, y, table, loss):
            with wp.Tape() as tape:
                start = wp.array(table.numpy()[1:], dtype=float, requires_grad=True)
                wp.launch(square, dim=x.shape[0], inputs=[start], outputs=[y])
                print(y.numpy())
                wp.launch(square, dim=x.shape[0], inputs=[y[1:]], outputs=[loss])
            tape.backward(loss)
            return wp.array(y.numpy()[1:], dtype=float)
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        for recording in recordings(function):
            if not recording.launches:
                continue
            written = {
                root: launch.site.order for launch in reversed(recording.launches) for root, _ in written_roots(launch)
            }
            for call in function.calls:
                if call.name not in _MAKERS or not recording.holds(call.site):
                    continue
                source = _source(function, call)
                if source is None:
                    continue
                root = function.root_name(source)
                if root in written and written[root] < call.site.order and _is_recorded(recording):
                    yield self.at(
                        function,
                        call.node,
                        f"'{ast.unparse(source)}' comes back as a new array, which the tape does not connect with it",
                    )


def _is_recorded(recording: Recording) -> bool:
    return any(one.launch.kernel is None or one.launch.kernel.enable_backward for one in recording.launches)


def _source(function: HostFunction, call: HostCall) -> ast.expr | None:
    """The array whose values, taken to the host, the arguments of a call are made from."""
    stack: list[ast.AST] = [*call.node.args, *(k.value for k in call.node.keywords if k.arg in ("data", "arr", "src"))]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Call) and node in function.flow.sites:
            inner = function._call(node)
            if inner.name in _OUT and inner.receiver is not None:
                return inner.receiver
        if isinstance(node, ast.Name):
            definition = function.flow.uses.get(node)
            if definition is not None and definition.kind == "assign" and id(definition) not in seen:
                seen.add(id(definition))
                if definition.value is not None:
                    stack.append(definition.value)
        stack.extend(children(node))
    return None

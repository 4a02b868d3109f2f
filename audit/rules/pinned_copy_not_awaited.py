"""Declares the rule ``pinned-copy-not-awaited``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Fix, InsertBefore, Place
from warp_audit.audit.rule import Finding, Rule, Safety
from warp_audit.audit.source.waiting import waits
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostCall, HostFunction

_READS = {".numpy", ".list"}


class PinnedCopyNotAwaited(Rule):
    """A pinned array is read on the host while a copy into it may still run.

    What it finds: ``wp.copy`` or ``wp.clone`` into an array made with ``pinned=True``, and a read of that array
    by ``.numpy()`` or ``.list()`` behind it, with nothing in between that waits for the device.

    Why it matters: a copy between a GPU and pinned memory returns at once, and reading a CPU array does not wait for
    any stream. The values may be those from before the copy.

    Instead: call ``wp.synchronize_stream()`` or ``wp.synchronize_event()`` before the read.
    """

    code = "WPA705"
    severity = Severity.ERROR
    confidence = Confidence.MEDIUM
    references = ("https://nvidia.github.io/warp/deep_dive/concurrency.html",)
    fix_safety = Safety.UNSAFE
    calls = frozenset({"copy", "clone"})
    BAD = (
        """
        class Download:
            def __init__(self, n):
                self.host = wp.empty(n, dtype=float, device="cpu", pinned=True)

            def get(self, x):
                wp.copy(self.host, x)
                return self.host.numpy().copy()  # error: WPA705

        def largest(x):
            host = wp.clone(x, device="cpu", pinned=True)
            values = host.numpy()  # error: WPA705
            return values.max()
        """,
    )
    GOOD = (
        """
        class Download:
            def __init__(self, n):
                self.host = wp.empty(n, dtype=float, device="cpu", pinned=True)
                self.plain = wp.empty(n, dtype=float, device="cpu")

            def get(self, x):
                wp.copy(dest=self.host, src=x)
                wp.synchronize_device(x.device)
                return self.host.numpy().copy()

            def get_plain(self, x):
                wp.copy(self.plain, x)
                return self.plain.numpy()

            def put(self, x, y):
                self.host.numpy()[:] = 1.0
                wp.copy(x, self.host)
                return x.numpy(), y.numpy()

        def last(x, y):
            host = wp.clone(x, device="cpu", pinned=True)
            total = y.numpy().sum()
            return host.numpy().max() + total
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        if "pinned" not in function.module.text:
            return
        copies = [(call, root) for call in function.calls if (root := _target(function, call)) is not None]
        told: set[ast.Call] = set()
        for copy, root in copies:
            for read in function.calls:
                if read.name not in _READS or read.site.order < copy.site.order or read.node in told:
                    continue
                if read.receiver is None or function.root_name(read.receiver) != root:
                    continue
                if not _is_awaited(function, copy, read, root):
                    told.add(read.node)
                    name = ast.unparse(read.receiver)
                    line = copy.node.lineno
                    yield self.at(
                        function, read.node, f"'{name}' is read while the copy of line {line} may still run",
                        "wait first: wp.synchronize_stream()", fix=self._fix(copy, read),
                    )  # fmt: skip

    def _fix(self, copy: HostCall, read: HostCall) -> Fix | None:
        if not isinstance(copy.node.func, ast.Attribute):
            return None
        wait = f"{ast.unparse(copy.node.func.value)}.synchronize_stream()"
        return self.mend("Wait for the copy", InsertBefore(Place.of(read.site.statement), wait))


def _target(function: HostFunction, call: HostCall) -> str | None:
    """The root of the pinned array that a call copies into."""
    if call.name == "warp.copy":
        dest = call.argument("dest", 0)
        known = function.array(dest) if dest is not None else None
        return function.root_name(dest) if known is not None and dest is not None and _is_pinned(known.made) else None
    if call.name == "warp.clone" and _is_pinned(call.node):
        for definition in function.flow.defs:
            if definition.kind == "assign" and definition.value is call.node and isinstance(definition.node, ast.Name):
                return f"{definition.name}@{id(definition)}"
    return None


def _is_pinned(made: ast.Call) -> bool:
    return any(k.arg == "pinned" and isinstance(k.value, ast.Constant) and k.value.value is True for k in made.keywords)


def _is_awaited(function: HostFunction, copy: HostCall, read: HostCall, root: str) -> bool:
    for call in function.calls:
        own = call.receiver is not None and function.root_name(call.receiver) == root
        if copy.site.order <= call.site.order <= read.site.order and not own and waits(call, function):
            return True
    return False

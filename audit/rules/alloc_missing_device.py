"""Declares the rule ``alloc-missing-device``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Safety, SetKeyword
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.arrays import MAKERS
from warp_audit.audit.source.devices import scoped
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction


class AllocMissingDevice(Rule):
    """One array of several is made on the default device, the others on a chosen one.

    What it finds: an allocation without ``device`` in a function whose other allocations name one, outside a
    ``wp.ScopedDevice``.

    Why it matters: the arrays lie on different devices as soon as the chosen one is not the default. A kernel that gets
    both follows a pointer of the other device.

    Instead: pass the same ``device`` to each.
    """

    code = "WPA114"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("newton-physics/newton#1544",)
    fix_safety = Safety.SAFE
    calls = frozenset(("zeros", "ones", "empty", "full", "array"))
    opt_in = True
    BAD = (
        """
        class Sensor:
            def __init__(self, model, n):
                self.a = wp.zeros(n, dtype=float, device=model.device)
                self.b = wp.full(n, 1.0, dtype=float)  # error: WPA114

        def buffers(n, device):
            first = wp.empty(n, dtype=int, device=device)
            second = wp.array([1, 2, 3], dtype=int)  # error: WPA114
            return first, second
        """,
    )
    GOOD = (
        """
        def buffers(n, device):
            first = wp.empty(n, dtype=int, device=device)
            second = wp.empty_like(first)
            host = wp.zeros(n, dtype=int, device="cpu")
            with wp.ScopedDevice(device):
                third = wp.zeros(n, dtype=int)
            return first, second, host, third

        def follows(n):
            a = wp.zeros(n, dtype=int)
            return a, wp.zeros(n, dtype=float, device=a.device)

        def plain(n):
            return wp.zeros(n, dtype=int), wp.zeros(n, dtype=int, device="cpu")
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        if function.scope.kind == "module":
            return
        made = [call for call in function.calls if call.name in MAKERS or call.name == "warp.array"]
        chosen: list[str] = []
        for call in made:
            device = call.argument("device")
            if device is not None and not isinstance(function.value_of(device), ast.Constant):
                if not _follows(function, device):
                    chosen.append(ast.unparse(device))
        if not chosen:
            return
        for call in made:
            statement = call.site.statement
            if not isinstance(statement, ast.Assign) or statement.value is not call.node:
                continue  # handed on at once, as to `wp.copy`, which takes any device
            fact = function.array(call.node)
            if fact is None or not fact.default_device or scoped(function, call.site):
                continue
            if any(keyword.arg is None for keyword in call.node.keywords):
                continue
            edit = SetKeyword(Place.of(call.node), "device", chosen[0])
            yield self.at(
                function,
                call.node,
                f"this array is made on the default device, others of '{function.name}' on '{chosen[0]}'",
                fix=self.mend(f"pass device={chosen[0]}", edit),
            )


def _follows(function: HostFunction, device: ast.expr) -> bool:
    """Whether a device is that of an array that was made on the default device here."""
    fact = function.array(device.value) if isinstance(device, ast.Attribute) and device.attr == "device" else None
    return fact is not None and fact.default_device

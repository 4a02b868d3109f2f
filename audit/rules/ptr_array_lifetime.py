"""Declares the rule ``ptr-array-lifetime``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.lifetime import escapes, is_kept
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction

_OF_AN_OBJECT = re.compile(r"\.ctypes\.data|\.data_ptr\(|\.data\.ptr|_interface__|\.ptr$")


class PtrArrayLifetime(Rule):
    """An array is made from a raw pointer of something that does not outlive the function.

    What it finds: ``wp.array(ptr=x.ctypes.data, …)`` or ``ptr=x.data_ptr()`` of a local ``x``, where the array
    leaves the function and ``x`` is kept nowhere.

    Why it matters: Warp neither owns the memory nor holds a reference. It is freed when the function ends, and the
    array shows whatever comes there next.

    Instead: let Warp take the object itself, ``wp.array(x)`` or ``wp.from_torch(x)``, or keep ``x`` beside the array.
    """

    code = "WPA122"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1398",)
    calls = frozenset(("array",))
    BAD = (
        """
        import torch

        class Bridge:
            def __init__(self, n):
                t = torch.zeros(n)
                self.a = wp.array(ptr=t.data_ptr(), shape=(n,), dtype=float)  # error: WPA122

        def view(n):
            t = torch.zeros(n)
            a = wp.array(dtype=float, shape=n, ptr=t.data_ptr())  # error: WPA122
            return a
        """,
    )
    GOOD = (
        """
        import torch

        class Bridge:
            def __init__(self, n, given):
                self.t = torch.zeros(n)
                self.a = wp.array(ptr=self.t.data_ptr(), shape=(n,), dtype=float)
                self.b = wp.array(ptr=given.data_ptr(), shape=(n,), dtype=float)

        def both(n):
            t = torch.zeros(n)
            return t, wp.array(ptr=t.data_ptr(), shape=n, dtype=float)

        def used_here(n):
            t = torch.zeros(n)
            a = wp.array(ptr=t.data_ptr(), shape=n, dtype=float)
            return float(a.numpy()[0])
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        for call in function.calls:
            pointer = call.argument("ptr") if call.name == "warp.array" else None
            owner = _owner(pointer) if pointer is not None else None
            if owner is None or not escapes(function, call.node):
                continue
            definition = function.flow.uses.get(owner)
            if definition is None or definition.kind != "assign" or not isinstance(definition.value, ast.Call):
                continue
            if not is_kept(function, definition):
                yield self.at(
                    function, call.node, f"the memory of '{owner.id}' is freed when '{function.name}' ends, but "
                    "the array lives on",
                    f"keep '{owner.id}' beside the array",
                )  # fmt: skip


def _owner(pointer: ast.expr) -> ast.Name | None:
    """The name whose memory a pointer expression is of."""
    node: ast.expr = pointer
    if not _OF_AN_OBJECT.search(ast.unparse(pointer)):
        return None  # a number, whose owner is not in sight
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node if isinstance(node, ast.Name) else None

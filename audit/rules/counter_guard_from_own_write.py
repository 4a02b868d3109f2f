"""Declares the rule ``counter-guard-from-own-write``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class CounterGuardFromOwnWrite(Rule):
    """A slot is reserved under a condition that the same kernel has just written.

    What it finds: ``wp.atomic_add`` whose result is used, under a test of an array's element that the kernel stored
    to before.

    Why it matters: in deterministic mode Warp first runs a pass that only counts and suppresses such writes. It then
    reserves other slots than the real pass, and nothing is reported.

    Instead: test the value that was stored, kept in a local variable.
    """

    code = "WPA218"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("NVIDIA/warp#1817",)
    BAD = (
        """
        @wp.kernel
        def pick(x: wp.array[float], flag: wp.array[bool], n: wp.array[int], out: wp.array[int]):
            i = wp.tid()
            flag[i] = x[i] > 0.0
            if not flag[i]:
                return
            k = wp.atomic_add(n, 0, 1)  # error: WPA218
            if k < out.shape[0]:
                out[k] = i
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def pick(x: wp.array[float], flag: wp.array[bool], n: wp.array[int], out: wp.array[int]):
            i = wp.tid()
            wanted = x[i] > 0.0
            flag[i] = wanted
            if wanted:
                k = wp.atomic_add(n, 0, 1)
                if k < out.shape[0]:
                    out[k] = i
            if flag[i]:
                wp.atomic_add(n, 1, 1)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        written = [access for access in function.accesses if access.writes]
        if not written:
            return
        for call, site in function.calls():
            if function.builtin(call) != "atomic_add" or isinstance(site.statement, ast.Expr) or not site.guards:
                continue
            tested = {
                atom
                for guard in site.guards
                for atom in function.symbols.form(guard.test).all_atoms()
                if atom[0] == "load"
            }
            for access in written:
                place = ("load", access.root, *(function.symbols.form(index) for index in access.indices))
                guard_order = max(guard.site.order for guard in site.guards)
                if place in tested and access.site.order < guard_order:
                    yield self.at(
                        function,
                        call,
                        f"this slot is reserved under a test of '{access.root}', which line "
                        f"{access.node.lineno} of the same kernel wrote",
                        "test the value itself: a deterministic run counts before it writes",
                    )
                    break

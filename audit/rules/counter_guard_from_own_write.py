"""Declares the rule ``counter-guard-from-own-write``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction
    from warp_audit.audit.source.flow import Site
    from warp_audit.audit.source.symbolic import Atom


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
    words = ("atomic_add",)
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

        @wp.func
        def pick_near(v: wp.array[wp.vec2], n: wp.array[int], out: wp.array[int], i: int):
            v[i] = wp.normalize(v[i])
            if v[i][0] < 0.1:
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
        changed: list[Access] | None = None
        for call, site in function.calls():
            if function.builtin(call) != "atomic_add" or isinstance(site.statement, ast.Expr) or not site.guards:
                continue
            if changed is None:
                changed = [access for access in function.accesses if access.writes or access.what == "augment"]
            tested = _tested(function, site) if changed else set()
            order = max(guard.site.order for guard in site.guards)
            for access in changed if tested else ():
                place = ("load", access.root, *(function.symbols.form(index) for index in access.indices))
                # A loop's condition is tested again behind what its body writes.
                again = any(guard.loop and guard.site.statement is loop.node for guard in site.guards
                            for loop in access.site.loops)  # fmt: skip
                if (access.site.order < order or again) and any(atom[: len(place)] == place for atom in tested):
                    yield self.at(
                        function,
                        call,
                        f"this slot is reserved under a test of '{access.root}', which line "
                        f"{access.node.lineno} of the same kernel wrote",
                        "test the value itself: a deterministic run counts before it writes",
                    )
                    break


def _tested(function: DeviceFunction, site: Site) -> set[Atom]:
    """The elements of arrays that the conditions at a site look at."""
    return {
        atom for guard in site.guards for atom in function.symbols.form(guard.test).all_atoms() if atom[0] == "load"
    }

"""Declares the rule ``kernel-return``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class KernelReturn(Rule):
    """A kernel returns a value.

    What it finds: ``return`` with a value in a ``@wp.kernel``.

    Why it matters: nobody receives it. Warp refuses the kernel when its module is built, that is at the first launch.

    Instead: write the value to an array parameter; a bare ``return`` ends a thread early.
    """

    code = "WPA649"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1471",)
    fix_safety = Safety.UNSAFE
    BAD = (
        """
        @wp.kernel
        def half(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            if x[i] < 0.0:
                return None  # error: WPA649
            y[i] = 0.5 * x[i]
            return y[i]  # error: WPA649
        """,
    )
    GOOD = (
        """
        @wp.func
        def half(x: float):
            return 0.5 * x

        @wp.kernel
        def apply(x: wp.array(dtype=float)):
            i = wp.tid()
            if x[i] < 0.0:
                return
            x[i] = half(x[i])
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        for statement in kernel.flow.steps:
            if isinstance(statement, ast.Return) and statement.value is not None:
                fix = self.mend("return nothing", Replace(Place.of(statement), "return"))
                yield self.at(
                    kernel,
                    statement,
                    f"the kernel '{kernel.name}' returns a value, which Warp refuses to build",
                    fix=fix,
                )

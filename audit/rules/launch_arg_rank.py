"""Declares the rule ``launch-arg-rank``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import Launch


class LaunchArgRank(Rule):
    """An array of another number of dimensions than the kernel declares is passed to it.

    What it finds: an argument of a launch whose array was made in sight with another rank than the parameter's.

    Why it matters: Warp compares the ranks only when the line runs, and refuses.

    Instead: pass a view of the right rank, ``x.flatten()`` or ``x[0]``, or declare the parameter as ``wp.array2d``.
    """

    code = "WPA103"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#3833",)
    BAD = (
        """
        @wp.kernel
        def area(tri: wp.array[int], out: wp.array2d[float]):
            t = wp.tid()
            out[t, 0] = float(tri[3 * t])

        class Mesher:
            def __init__(self, n):
                self.tri = wp.array([[0, 1, 2], [2, 3, 0]], dtype=int)
                self.out = wp.empty(n)

            def run(self):
                wp.launch(area, dim=2, inputs=[self.tri, self.out])  # error: WPA103
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def area(tri: wp.array[int], out: wp.array2d[float]):
            t = wp.tid()
            out[t, 0] = float(tri[3 * t])

        def run(n, other):
            tri = wp.zeros((n, 3), dtype=int)
            out = wp.zeros(shape=(n, 2), dtype=float)
            wp.launch(area, dim=n, inputs=[tri.flatten(), out])
            wp.launch(area, dim=n, inputs=[tri[0], out])
            wp.launch(area, dim=n, inputs=[other, out])
        """,
    )

    def launch(self, launch: Launch) -> Iterator[Finding]:
        kernel = launch.kernel
        if kernel is None:
            return
        for parameter, argument in launch.pairs(kernel):
            if parameter.ndim is None:
                continue
            fact = launch.function.array(argument)
            if fact is not None and fact.ndim is not None and fact.ndim != parameter.ndim:
                yield self.at(
                    launch,
                    argument,
                    f"'{ast.unparse(argument)}' has {fact.ndim} dimensions, but the parameter '{parameter.name}' of "
                    f"'{kernel.name}' has {parameter.ndim}",
                    f"it was made in line {fact.made.lineno}",
                )

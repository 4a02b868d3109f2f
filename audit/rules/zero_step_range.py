"""Declares the rule ``zero-step-range``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Safety, Wrap
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import guards_on
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class ZeroStepRange(Rule):
    """The step of a range may be zero.

    What it finds: ``range(a, b, step)`` in a kernel where the step is an integer division of values that are not
    constant.

    Why it matters: a step of zero makes Python raise; in a kernel the loop runs no pass, silently.

    Instead: keep the step positive: ``wp.max(n // parts, 1)``.
    """

    code = "WPA203"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1684",)
    fix_safety = Safety.UNSAFE
    BAD = (
        """
        @wp.func
        def sparse(x: wp.array(dtype=float), parts: int):
            s = float(0.0)
            for k in range(0, x.shape[0], x.shape[0] / parts):  # error: WPA203
                s += x[k]
            return s
        """,
    )
    GOOD = (
        """
        @wp.func
        def sparse(x: wp.array(dtype=float), parts: int, step: int):
            s = float(0.0)
            width = x.shape[0] // parts
            if width > 0:
                for k in range(0, x.shape[0], width):
                    s += x[k]
            for k in range(0, x.shape[0], step):
                s += x[k]
            for k in range(0, x.shape[0], wp.max(x.shape[0] // parts, 1)):
                s += x[k]
            return s
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for loop, site in function.flow.steps.items():
            if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call) or len(loop.iter.args) != 3:
                continue
            if function.builtin(loop.iter) != "range":
                continue
            step = loop.iter.args[2]
            form = function.symbols.form(step)
            atom = form.single()
            if (
                atom is None
                or atom[0] not in ("floordiv", "div", "rshift")
                or function.symbols.lower_bounds(form, site)
            ):
                continue
            if guards_on(function, site, {atom}):
                continue
            text = ast.unparse(step)
            fix = self.mend("keep it positive", Wrap(Place.of(step), "wp.max(", ", 1)"))
            yield self.at(
                function, loop.iter, f"the step '{text}' is zero when the division rounds down to it: the loop "
                "then never runs",
                fix=fix,
            )  # fmt: skip

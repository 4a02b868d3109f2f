"""Declares the rule ``zero-step-range``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Safety, Wrap
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import guards_on
from warp_audit.audit.source.symbolic import Form
from warp_audit.audit.source.tiles import rounds_up
from warp_audit.audit.source.types import Scalar
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.symbolic import Atom


class ZeroStepRange(Rule):
    """The step of a range may be zero.

    What it finds: ``range(a, b, step)`` in a kernel where the step is an integer division that rounds down, a
    remainder, or the whole part of a computed float.

    Why it matters: a step of zero makes Python raise; in a kernel the loop runs no pass, silently.

    Instead: keep the step positive: ``wp.max(n // parts, 1)``.
    """

    code = "WPA203"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1684",)
    fix_safety = Safety.UNSAFE
    words = ("range(",)
    BAD = (
        """
        @wp.func
        def sparse(x: wp.array(dtype=float), parts: int):
            s = float(0.0)
            for k in range(0, x.shape[0], x.shape[0] / parts):  # error: WPA203
                s += x[k]
            step = x.shape[0] // 8
            for k in range(0, x.shape[0], wp.min(step, 64)):  # error: WPA203
                s += x[k]
            for k in range(0, x.shape[0], 2 * step):  # error: WPA203
                s += x[k]
            for k in range(0, x.shape[0], int(0.1 * float(x.shape[0]))):  # error: WPA203
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
            for k in range(0, x.shape[0], (x.shape[0] + 7) // 8):
                s += x[k]
            for k in range(0, x.shape[0], x.shape[0] // 8 + 1):
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
            if not (_may_be_zero(form) or _is_truncated(function, step)):
                continue
            if guards_on(function, site, set(form.atoms)) or function.symbols.lower_bounds(form, site):
                continue
            text = ast.unparse(step)
            fix = None
            if form.is_constant:
                message = "the step is zero: the loop never runs"
            else:
                message = f"the step '{text}' is zero when it rounds down to it: the loop then never runs"
                if all(coefficient > 0 for _, coefficient in form.terms):
                    fix = self.mend("keep it positive", Wrap(Place.of(step), "wp.max(", ", 1)"))
            yield self.at(function, loop.iter, message, fix=fix)


def _may_be_zero(form: Form) -> bool:
    """Whether a step is a quotient that is rounded down, a remainder, or the smaller of such and something else."""
    if form.constant:
        return False
    if not form.terms:
        return True
    if len(form.terms) != 1:
        return False
    ((atom, _),) = form.terms
    if atom[0] == "call" and atom[1] == "min":
        return any(_may_be_zero(part) for part in atom[2:] if isinstance(part, Form))
    if atom[0] == "mod":
        return True
    return atom[0] in ("floordiv", "div", "rshift") and not rounds_up(Form.of(atom)) and not _is_ceiling(atom)


def _is_ceiling(atom: Atom) -> bool:
    """``(n + c - 1) / c`` with ``/`` for ``//``."""
    above, below = atom[1], atom[2]
    return bool(above.terms) and (above.minus(below).constant == -1 or 0 < above.constant >= below.constant - 1)


def _is_truncated(function: DeviceFunction, step: ast.expr) -> bool:
    """Whether a step is the whole part of a float that was computed."""
    definition = function.flow.uses.get(step)
    if definition is not None and definition.kind == "assign" and definition.index is None and definition.value:
        step = definition.value
    if not isinstance(step, ast.Call) or function.builtin(step) not in _WHOLE or len(step.args) != 1:
        return False
    type = function.type_of(step.args[0])
    computed = isinstance(step.args[0], ast.BinOp) and isinstance(step.args[0].op, (ast.Mult, ast.Div))
    return computed and isinstance(type, Scalar) and type.is_float


_WHOLE = ("int", "int32", "int64")

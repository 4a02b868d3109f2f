"""Declares the rule ``const-mutated-in-dynamic-loop``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Safety, Wrap
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.loops import is_dynamic
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Def


class ConstMutatedInDynamicLoop(Rule):
    """A variable that starts as a bare literal is changed in a loop with a run-time bound.

    What it finds: ``total = 0.0`` followed by an assignment to ``total`` inside a ``while`` or a ``for`` whose
    range is not constant or is too long to be unrolled.

    Why it matters: Warp takes a literal for a constant. It refuses to build the kernel, at the first launch.

    Instead: declare a variable: ``total = float(0.0)``, ``k = int(0)``.
    """

    code = "WPA601"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#331",)
    fix_safety = Safety.SAFE
    BAD = (
        """
        @wp.func
        def count(x: wp.array(dtype=float), limit: float):
            n = 0
            found = False
            k = int(0)
            while k < x.shape[0]:
                if x[k] > limit:
                    n = n + 1  # error: WPA601
                    found = True  # error: WPA601
                k += 1
            return n
        """,
        """
        @wp.func
        def nearest(x: wp.array(dtype=float), limit: float):
            best = wp.pi
            at = -1
            for k in range(x.shape[0]):
                if x[k] < best:
                    best = x[k]  # error: WPA601
                    at = k  # error: WPA601
            return at
        """,
    )
    GOOD = (
        """
        LARGE = 1.0e9

        @wp.func
        def count(x: wp.array(dtype=float), limit: float):
            n = int(0)
            best = LARGE
            three = 0
            for k in range(x.shape[0]):
                if x[k] > limit:
                    n += 1
                best = wp.min(best, x[k])
                scale = 1.0
                scale = scale * 2.0
            for k in range(3):
                three += 1
            return n + three
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for definition in function.flow.defs:
            if definition.kind not in ("assign", "augment") or definition.site is None or definition.index is not None:
                continue
            if "." in definition.name:
                continue  # a field is stored, not renamed
            loop = next((one for one in definition.site.loops if is_dynamic(function, one.node)), None)
            if loop is None or not isinstance(definition.site.statement, (ast.Assign, ast.AugAssign)):
                continue
            start = _start(function, definition, loop.node)
            if start is None or start.value is None:
                continue
            word = type(function.constant(start.value)).__name__
            fix = self.mend(f"declare it as {word}(…)", Wrap(Place.of(start.value), f"{word}(", ")"))
            yield self.at(
                function,
                definition.site.statement,
                f"'{definition.name}' starts as the constant in line {start.value.lineno} and is changed in a loop "
                "whose length is known only at run time, which Warp refuses",
                f"declare it there as {definition.name} = {word}({ast.unparse(start.value)})",
                fix=fix,
            )


def _start(function: DeviceFunction, definition: Def, loop: ast.AST) -> Def | None:
    """The literal that a loop's variable has at the loop's head."""
    phis = [
        one for one in function.flow.defs if one.kind == "loop_phi" and one.node is loop and one.name == definition.name
    ]
    if not phis or not phis[0].sources:
        return None
    start = phis[0].sources[0]
    if start.kind != "assign" or start.index is not None or start.value is None:
        return None
    value = start.value.operand if isinstance(start.value, ast.UnaryOp) else start.value
    # A plain name is copied into a variable; `wp.pi` is not.
    is_literal = isinstance(value, (ast.Constant, ast.Attribute))
    return start if is_literal and isinstance(function.constant(start.value), (bool, int, float)) else None

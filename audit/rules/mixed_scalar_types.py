"""Declares the rule ``mixed-scalar-types``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Fix, Place, Replace, Safety, Wrap
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.types import BOOL, FLOAT32, FLOAT64, Scalar
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Mod)


class MixedScalarTypes(Rule):
    """Two scalars of different types are combined.

    What it finds: an arithmetic operation of two scalars whose types are known and differ: a float and an integer, a
    double and a float literal, integers of different width.

    Why it matters: Warp has no implicit promotion. It stops the build, at the first launch.

    Instead: write the literal in the other's type (``2.0``), or cast: ``float(i)``, ``wp.float64(0.1)``.
    """

    code = "WPA502"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#269",)
    fix_safety = Safety.SAFE
    BAD = (
        """
        @wp.kernel
        def scale(x: wp.array[float], n: wp.array[int], y: wp.array[wp.float64], out: wp.array[float]):
            i = wp.tid()
            f = x[i]
            out[i] = 2 * f  # error: WPA502
            out[i] = f / n[i]  # error: WPA502
            y[i] = y[i] + 1.5  # error: WPA502
            out[i] = float(wp.int64(3) + n[i])  # error: WPA502
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def scale(x: wp.array[float], n: wp.array[int], y: wp.array[wp.float64], v: wp.array[wp.vec3]):
            i = wp.tid()
            x[i] = 2.0 * x[i] + float(n[i]) / 3.0
            y[i] = y[i] * wp.float64(1.5)
            v[i] = v[i] * x[i]
            n[i] = n[i] // 2
            if n[i] > 3 and x[i] < 1:
                n[i] = n[i] << 2
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if any(parameter.generic for parameter in function.parameters):
            return
        for node in function.flow.of(ast.BinOp):
            if isinstance(node.op, _OPERATORS):  # type: ignore[attr-defined]
                yield from self._pair(function, node, node.left, node.right)  # type: ignore[attr-defined]

    def _pair(self, function: DeviceFunction, node: ast.AST, left: ast.expr, right: ast.expr) -> Iterator[Finding]:
        one, other = function.type_of(left), function.type_of(right)
        if not isinstance(one, Scalar) or not isinstance(other, Scalar) or one == other or BOOL in (one, other):
            return
        if not _is_sure(function, left) or not _is_sure(function, right):
            return
        fix = None
        for literal, wanted in ((left, other), (right, one)):
            if isinstance(literal, ast.Constant):
                fix = self._literal(literal, wanted)
        yield self.at(function, node, f"the operands are {one} and {other}, which Warp does not promote", fix=fix)

    def _literal(self, literal: ast.Constant, wanted: Scalar) -> Fix | None:
        if wanted == FLOAT32 and isinstance(literal.value, int):
            return self.mend(f"write {literal.value}.0", Replace(Place.of(literal), f"{literal.value}.0"))
        if wanted == FLOAT64:
            return self.mend("cast it to float64", Wrap(Place.of(literal), "wp.float64(", ")"))
        return None


def _is_sure(function: DeviceFunction, node: ast.expr) -> bool:
    """Whether a type does not rest on a name from outside, whose Python value may have another."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            definition = function.flow.uses.get(part)
            if definition is not None and definition.kind == "free" and isinstance(part.ctx, ast.Load):
                found = function.scope.lookup(part.id)
                if found is not None and found[1][-1].kind in ("assign", "parameter", "loop", "import"):
                    if function.constant(part) is not None or found[1][-1].kind != "import":
                        return False
    return True

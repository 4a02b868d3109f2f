"""Declares the rule ``mixed-scalar-types``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Fix, Place, Replace, Safety, Wrap
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.refusals import Refusal, is_sure, refusals, scalar_of
from warp_audit.audit.source.types import FLOAT32, FLOAT64, Scalar, Type, Vector
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class MixedScalarTypes(Rule):
    """Two scalars of different types are combined.

    What it finds: an operation or a call of a builtin whose numbers have known types that differ: a float and an
    integer, a double and a float literal, integers of different width; and a store of a number into an array or
    vector of another type.

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
        """
        @wp.func
        def shape(v: wp.vec3d, s: float, k: int, u: wp.uint32, out: wp.array(dtype=float)):
            w = v * 0.5  # error: WPA502
            s *= 2  # error: WPA502
            top = wp.max(s, 0)  # error: WPA502
            out[0] = wp.clamp(s, 0, 1)  # error: WPA502
            square = wp.pow(s, 2) + s**2  # error: WPA502
            shifted = k << u  # error: WPA502
            out[k] = 1  # error: WPA502
            out[k] = k  # error: WPA502
            wp.atomic_add(out, k, 1)  # error: WPA502
            p = wp.vec3(s, s, s)
            p[0] = k  # error: WPA502
            return wp.where(k > 0, s, 1)  # error: WPA502
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def scale(x: wp.array[float], n: wp.array[int], y: wp.array[wp.float64], v: wp.array[wp.vec3]):
            i = wp.tid()
            x[i] = 2.0 * x[i] + float(n[i]) / 3.0
            y[i] = y[i] * wp.float64(1.5)
            v[i] = v[i] * x[i] + wp.vec3(x[i], 1, 2)
            v[i][0] = wp.max(x[i], 0.0)
            n[i] = n[i] // 2
            n[i] += 1
            if n[i] > 3 and x[i] < 1:
                n[i] = n[i] << 2
            wp.atomic_add(n, i, 1)
            x[i] = wp.where(n[i] > 2, x[i], 1.0)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for refusal in refusals(function):
            if refusal.mixed:
                yield self._refused(function, refusal)
        if not any(parameter.generic for parameter in function.parameters):
            yield from self._stores(function)

    def _refused(self, function: DeviceFunction, refusal: Refusal) -> Finding:
        fix = None
        for literal in refusal.operands:
            others = [
                type for operand, type in zip(refusal.operands, refusal.types, strict=True) if operand is not literal
            ]
            wanted = next((scalar for scalar in map(scalar_of, others) if scalar is not None), None)
            if isinstance(literal, ast.Constant) and wanted is not None and len(refusal.operands) == 2:
                fix = self._literal(literal, wanted)
        words = " and ".join(dict.fromkeys(map(str, refusal.types)))
        what = f"of '{refusal.name}' are {words}"
        return self.at(function, refusal.node, f"the operands {what}, which Warp does not promote", fix=fix)

    def _stores(self, function: DeviceFunction) -> Iterator[Finding]:
        """Values of another type than the array's, or than the vector's whose component they become."""
        for access in function.accesses:
            value = access.value
            if (
                value is None
                or access.component
                or access.what not in ("write", "atomic")
                or access.builtin == "atomic_cas"
            ):
                continue
            statement = access.site.statement
            if access.what == "write" and not (
                isinstance(statement, ast.Assign) and statement.targets == [access.node]
            ):
                continue
            yield from self._store(function, access.node, value, access.type.dtype, access.root)
        for definition in function.flow.defs:
            target = definition.node if definition.kind == "component" and definition.previous is not None else None
            origin = definition.site.statement if definition.site is not None else None
            if (
                isinstance(target, ast.Subscript)
                and isinstance(target.value, ast.Name)
                and isinstance(origin, ast.Assign)
            ):
                whole = function.type_of(target.value)
                if isinstance(whole, Vector) and origin.targets == [target] and not isinstance(target.slice, ast.Slice):
                    yield from self._store(function, target, origin.value, whole.scalar, definition.name)

    def _store(
        self, function: DeviceFunction, node: ast.expr, value: ast.expr, wanted: Type | None, name: str
    ) -> Iterator[Finding]:
        given = function.type_of(value)
        if not isinstance(given, Scalar) or not isinstance(wanted, Scalar) or given == wanted:
            return
        if not is_sure(function, value):
            return
        fix = self._literal(value, wanted) if isinstance(value, ast.Constant) else None
        yield self.at(
            function,
            node,
            f"'{name}' holds {wanted}, but '{ast.unparse(value)}' is {given}, which Warp does not convert",
            f"write {wanted}({ast.unparse(value)})",
            fix=fix,
        )

    def _literal(self, literal: ast.Constant, wanted: Scalar) -> Fix | None:
        if wanted == FLOAT32 and isinstance(literal.value, int) and not isinstance(literal.value, bool):
            return self.mend(f"write {literal.value}.0", Replace(Place.of(literal), f"{literal.value}.0"))
        if wanted == FLOAT64:
            return self.mend("cast it to float64", Wrap(Place.of(literal), "wp.float64(", ")"))
        return None

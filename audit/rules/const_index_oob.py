"""Declares the rule ``const-index-oob``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import guards_on
from warp_audit.audit.source.types import Array, components
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.constants import Constant
    from warp_audit.audit.source.device import DeviceFunction


class ConstIndexOob(Rule):
    """A constant component index is larger than the vector, matrix or quaternion.

    What it finds: ``v[3]`` of a ``vec3``, ``m[0, 2]`` of a ``mat22`` and the like, also ``-4`` of three.

    Why it matters: Warp checks it only in debug mode. Otherwise it reads a neighbour, or the store is lost.

    Instead: use an index below the length, or a longer type.
    """

    code = "WPA201"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    BAD = (
        """
        LAST = 6
        vec5 = wp.types.vector(length=5, dtype=float)

        @wp.func
        def tail(v: vec5, q: wp.quat, m: wp.array(dtype=wp.mat33), i: int):
            a = v[LAST - 1]  # error: WPA201
            b = q[4]  # error: WPA201
            m[i][3, 0] = a  # error: WPA201
            for k in range(3):
                b += v[k] * m[i][k + 1, 0]  # error: WPA201
            return b + m[i][0][3]  # error: WPA201
        """,
    )
    GOOD = (
        """
        @wp.func
        def tail(v: wp.vec3, m: wp.mat22, t: wp.transform, a: wp.array(dtype=float)):
            s = float(0.0)
            for k in range(4):
                if k < 3:
                    s += v[k]
            for k in range(3):
                s += v[2 - k]
            return s + v[2] + v[-1] + m[1, 1] + t[6] + a[9] + m[1][1]
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for node in function.flow.of(ast.Subscript):
            assert isinstance(node, ast.Subscript)
            items = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
            if any(isinstance(item, ast.Slice) for item in items):
                continue
            values = [_largest(function, item) for item in items]
            if all(value is None for value in values):
                continue
            type = function.type_of(node.value)
            if isinstance(type, Array):
                continue
            extents = components(type)
            if extents is None or len(values) > len(extents):
                continue
            for value, extent in zip(values, extents, strict=False):
                if isinstance(value, int) and not -extent <= value < extent:
                    yield self.at(function, node, f"index {value} is outside of {type}, whose last one is {extent - 1}")


def _largest(function: DeviceFunction, index: ast.expr) -> Constant | None:
    """The value of a constant index, or of one that counts with a loop over a constant range in its last pass."""
    value = function.constant(index)
    if value is not None or not isinstance(index, (ast.Name, ast.BinOp)) or not function.flow.sites[index].loops:
        return value
    form = function.symbols.form(index)
    if len(form.terms) != 1:
        return None
    ((atom, coefficient),) = form.terms
    if atom[0] != "loop" or coefficient != 1:
        return None
    site = function.flow.sites[index]
    limits = [bound.limit for bound in function.symbols.upper_bounds(form, site) if bound.strict]
    if guards_on(function, site, {atom}) or len(limits) != 1 or not limits[0].is_constant:
        return None
    if any(len(getattr(getattr(loop.node, "iter", None), "args", ())) > 2 for loop in site.loops):
        return None  # with a step the last pass may be before the limit
    return limits[0].constant - 1

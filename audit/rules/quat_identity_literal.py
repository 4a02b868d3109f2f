"""Declares the rule ``quat-identity-literal``."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.host import HostFunction


class QuatIdentityLiteral(Rule):
    """A quaternion is written in w, x, y, z order.

    What it finds: ``wp.quat(1.0, 0.0, 0.0, 0.0)`` in a file that uses Warp's quaternion functions, and
    ``wp.quat(q[0], q[1], q[2], q[3])`` of something whose name says ``wxyz``.

    Why it matters: Warp stores x, y, z, w. The first is half a turn about x instead of no turn, the second some other
    rotation; both are valid numbers, so nothing complains.

    Instead: ``wp.quat_identity()``, and ``wp.quat(q[1], q[2], q[3], q[0])``.
    """

    code = "WPA510"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#1694",)
    fix_safety = Safety.UNSAFE
    BAD = (
        """
        START = wp.quatd(1.0, 0.0, 0.0, 0.0)  # error: WPA510

        @wp.func
        def rest(wxyz: wp.vec4):
            a = wp.quatf(wxyz[0], wxyz[1], wxyz[2], wxyz[3])  # error: WPA510
            b = wp.quat(wp.float32(1), 0.0, 0.0, 0.0)  # error: WPA510
            return wp.quat_rotate(a * b, wp.vec3(1.0, 0.0, 0.0))
        """,
    )
    GOOD = (
        """
        START = wp.quat(0.0, 0.0, 0.0, 1.0)

        @wp.func
        def rest(wxyz: wp.vec4, xyzw: wp.vec4):
            return wp.quat(wxyz[1], wxyz[2], wxyz[3], wxyz[0]) * wp.quat(xyzw[0], xyzw[1], xyzw[2], xyzw[3])
        """,
        """
        @wp.func
        def own_product(a: wp.quat, b: wp.quat):
            if a[0] == 1.0:
                return b
            return wp.quat(1.0, 0.0, 0.0, 0.0)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for call, _ in function.calls():
            yield from self._call(function, call, function.constant)

    def host(self, function: HostFunction) -> Iterator[Finding]:
        for call in function.scope.calls:
            yield from self._call(function, call, function.constant)

    def _call(
        self, function: DeviceFunction | HostFunction, call: ast.Call, constant: Callable[[ast.expr], object]
    ) -> Iterator[Finding]:
        if len(call.args) != 4 or function.module.qualified(call.func, function.scope) not in _QUATERNIONS:
            return
        values: list[object] = [constant(argument) for argument in call.args]
        wp = ast.unparse(call.func).rpartition(".")[0]
        if values == [1, 0, 0, 0] and _ORDERED.search(function.module.text):
            fix = None
            if wp and ast.unparse(call.func).endswith(".quat"):
                fix = self.mend("write the identity", Replace(Place.of(call), f"{wp}.quat_identity()"))
            yield self.at(
                function,
                call,
                "a quaternion is x, y, z, w here: this is half a turn about x, not the identity",
                "write wp.quat_identity()",
                fix=fix,
            )
            return
        bases = {ast.unparse(argument.value) for argument in call.args if isinstance(argument, ast.Subscript)}
        indices = [argument.slice.value for argument in call.args
                   if isinstance(argument, ast.Subscript) and isinstance(argument.slice, ast.Constant)]  # fmt: skip
        if len(bases) == 1 and indices == [0, 1, 2, 3] and "wxyz" in next(iter(bases)).lower():
            base = next(iter(bases))
            text = f"{ast.unparse(call.func)}({base}[1], {base}[2], {base}[3], {base}[0])"
            fix = self.mend("reorder to x, y, z, w", Replace(Place.of(call), text))
            yield self.at(
                function, call, f"'{base}' is in w, x, y, z order by its name, but a quaternion is x, y, z, w", fix=fix
            )


# Functions that take x, y, z, w: a file without them may keep its own order and do its own products.
_ORDERED = re.compile(r"\b(?:wp|warp)\.(?:quat_|transform_)")
_QUATERNIONS = {f"warp.quat{suffix}" for suffix in ("", "f", "d", "h")}

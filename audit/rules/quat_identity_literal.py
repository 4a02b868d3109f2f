"""Declares the rule ``quat-identity-literal``."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Fix, Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.host import HostFunction


class QuatIdentityLiteral(Rule):
    """A quaternion is written in w, x, y, z order.

    What it finds: ``wp.quat(1.0, 0.0, 0.0, 0.0)`` in a file that uses Warp's quaternion functions, the same numbers
    as the rotation of a transform or as an array of quaternions, and components that are given in w, x, y, z order
    by their names: ``wp.quat(qw, qx, qy, qz)``, ``wp.quat(q_wxyz[0], …)``.

    Why it matters: Warp stores x, y, z, w. The first is half a turn about x instead of no turn, the second some other
    rotation; both are valid numbers, so nothing complains.

    Instead: ``wp.quat_identity()``, and ``wp.quat(q[1], q[2], q[3], q[0])``.
    """

    code = "WPA510"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#1694",)
    fix_safety = Safety.UNSAFE
    words = ("quat", "transform")
    BAD = (
        """
        START = wp.quatd(1.0, 0.0, 0.0, 0.0)  # error: WPA510

        @wp.func
        def rest(wxyz: wp.vec4):
            a = wp.quatf(wxyz[0], wxyz[1], wxyz[2], wxyz[3])  # error: WPA510
            b = wp.quat(wp.float32(1), 0.0, 0.0, 0.0)  # error: WPA510
            return wp.quat_rotate(a * b, wp.vec3(1.0, 0.0, 0.0))

        def load(body, qw, qx, qy, qz, n, quat_wxyz):
            row = body.rot_wxyz
            first = wp.quat(qw, qx, qy, qz)  # error: WPA510
            second = wp.quat(body.w, body.x, body.y, body.z)  # error: WPA510
            third = wp.quat(row[0], row[1], row[2], row[3])  # error: WPA510
            fourth = wp.quat(*quat_wxyz)  # error: WPA510
            fifth = wp.transform((0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))  # error: WPA510
            return wp.array([[1.0, 0.0, 0.0, 0.0]] * n, dtype=wp.quat)  # error: WPA510
        """,
    )
    GOOD = (
        """
        START = wp.quat(0.0, 0.0, 0.0, 1.0)

        @wp.func
        def rest(wxyz: wp.vec4, xyzw: wp.vec4):
            return wp.quat(wxyz[1], wxyz[2], wxyz[3], wxyz[0]) * wp.quat(xyzw[0], xyzw[1], xyzw[2], xyzw[3])

        def load(qw, qx, qy, qz, w, x):
            axis = wp.quat(w, x, w, x)
            return wp.quat(qx, qy, qz, qw), wp.transform((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)), axis
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
        last = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if not last.startswith(("quat", "transform", "array")) and isinstance(call.func, ast.Attribute):
            return
        name = function.module.qualified(call.func, function.scope)
        if name is None or not name.startswith("warp.") or not call.args:
            return
        if name in _TRANSFORMS:
            yield from self._transform(function, call, constant)
        elif name in _QUATERNIONS and len(call.args) == 1 and isinstance(call.args[0], ast.Starred):
            yield from self._spread(function, call, call.args[0].value)
        elif name in _QUATERNIONS and len(call.args) == 4:
            yield from self._four(function, call, constant)
        elif name == "warp.array":
            yield from self._array(function, call)

    def _four(
        self, function: DeviceFunction | HostFunction, call: ast.Call, constant: Callable[[ast.expr], object]
    ) -> Iterator[Finding]:
        if [constant(argument) for argument in call.args] == [1, 0, 0, 0]:
            if _ORDERED.search(function.module.text):
                wp = ast.unparse(call.func).rpartition(".")[0]
                fix = None
                if wp and ast.unparse(call.func).endswith(".quat"):
                    fix = self.mend("write the identity", Replace(Place.of(call), f"{wp}.quat_identity()"))
                yield self._identity(function, call, fix)
            return
        order = _component_names(call.args)
        base = _base(function, call.args)
        if order != "wxyz" and base is None:
            return
        what = f"'{base}' is" if base is not None else f"'{ast.unparse(call.args[0])}' and the others are"
        reordered = ", ".join(ast.unparse(argument) for argument in (*call.args[1:], call.args[0]))
        fix = self.mend("reorder to x, y, z, w", Replace(Place.of(call), f"{ast.unparse(call.func)}({reordered})"))
        yield self.at(function, call, f"{what} in w, x, y, z order by name, but a quaternion is x, y, z, w", fix=fix)

    def _spread(self, function: DeviceFunction | HostFunction, call: ast.Call, given: ast.expr) -> Iterator[Finding]:
        text = ast.unparse(given)
        if "wxyz" in text.lower() and isinstance(given, (ast.Name, ast.Attribute, ast.Subscript)):
            yield self.at(
                function,
                call,
                f"'{text}' is in w, x, y, z order by its name, but a quaternion is x, y, z, w",
                f"write {ast.unparse(call.func)}({text}[1], {text}[2], {text}[3], {text}[0])",
            )

    def _transform(
        self, function: DeviceFunction | HostFunction, call: ast.Call, constant: Callable[[ast.expr], object]
    ) -> Iterator[Finding]:
        """The rotation of a transform: seven numbers, or a tuple for the second part."""
        given = call.args[3:] if len(call.args) == 7 else []
        if len(call.args) == 2 and isinstance(call.args[1], (ast.Tuple, ast.List)):
            given = call.args[1].elts
        given += [k.value for k in call.keywords if k.arg in ("q", "rot") and isinstance(k.value, ast.Tuple)]
        parts = given[0].elts if len(given) == 1 and isinstance(given[0], ast.Tuple) else given
        if len(parts) == 4 and [constant(part) for part in parts] == [1, 0, 0, 0]:
            yield self._identity(function, call)

    def _array(self, function: DeviceFunction | HostFunction, call: ast.Call) -> Iterator[Finding]:
        """An array that is filled with the identity."""
        dtype = next((keyword.value for keyword in call.keywords if keyword.arg == "dtype"), None)
        if dtype is None or function.module.qualified(dtype, function.scope) not in _QUATERNIONS:
            return
        data = call.args[0]
        rows = data.left if isinstance(data, ast.BinOp) and isinstance(data.op, ast.Mult) else data
        if not isinstance(rows, (ast.List, ast.Tuple)) or len(rows.elts) != 1:
            return
        row = rows.elts[0]
        if isinstance(row, (ast.List, ast.Tuple)) and [function.constant(item) for item in row.elts] == [1, 0, 0, 0]:
            yield self._identity(function, call)

    def _identity(self, function: DeviceFunction | HostFunction, call: ast.Call, fix: Fix | None = None) -> Finding:
        return self.at(
            function,
            call,
            "a quaternion is x, y, z, w here: this is half a turn about x, not the identity",
            "write wp.quat_identity()",
            fix=fix,
        )


def _component_names(arguments: list[ast.expr]) -> str:
    """The last letters of four names or attributes that are otherwise the same: ``wxyz`` of ``qw, qx, qy, qz``."""
    letters = []
    stems = set()
    for argument in arguments:
        name = (
            argument.id
            if isinstance(argument, ast.Name)
            else argument.attr
            if isinstance(argument, ast.Attribute)
            else ""
        )
        letters.append(name[-1:].lower())
        stems.add(name[:-1])
    return "".join(letters) if len(stems) == 1 else ""


def _base(function: DeviceFunction | HostFunction, arguments: list[ast.expr]) -> str | None:
    """What has its elements 0 to 3 taken in this order, if its name says ``wxyz``."""
    found = [argument for argument in arguments if isinstance(argument, ast.Subscript)]
    indices = [argument.slice.value for argument in found if isinstance(argument.slice, ast.Constant)]
    bases = {ast.unparse(argument.value) for argument in found}
    if len(bases) != 1 or indices != [0, 1, 2, 3]:
        return None
    (base,) = bases
    texts = [base]
    definition = function.flow.uses.get(found[0].value)
    if definition is not None and definition.kind == "assign" and definition.value is not None:
        texts.append(ast.unparse(definition.value))
    return base if any("wxyz" in text.lower() and "xyzw" not in text.lower() for text in texts) else None


# Functions that take x, y, z, w: a file without them may keep its own order and do its own products.
_ORDERED = re.compile(r"\b(?:wp|warp)\.(?:quat_|transform_)")
_QUATERNIONS = {f"warp.{name}{suffix}" for name in ("quat", "quaternion") for suffix in ("", "f", "d", "h")}
_TRANSFORMS = {f"warp.transform{suffix}" for suffix in ("", "f", "d", "h")}

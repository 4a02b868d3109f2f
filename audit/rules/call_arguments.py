"""Declares the rule ``call-arguments``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source import builtins
from warp_audit.audit.source.refusals import inside_static, is_sure, refusals
from warp_audit.audit.source.types import Matrix, Quaternion, Scalar, Transformation, Type, Vector
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class CallArguments(Rule):
    """A call in a kernel has arguments that no overload of the function takes.

    What it finds: a call of a builtin, or of a ``@wp.func`` with one declaration, whose arguments are too many, too
    few, or of known types that do not fit.

    Why it matters: Warp compares types exactly. It stops the build, at the first launch, and only on the branch of the
    program that launches this kernel.

    Instead: pass what the function declares; cast numbers explicitly: ``float(i)``.
    """

    code = "WPA613"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    BAD = (
        """
        @wp.func
        def spring(x: float, stiffness: float = 2.0):
            return -stiffness * x

        @wp.kernel
        def pull(a: wp.array(dtype=float), v: wp.array(dtype=wp.vec3), n: int):
            i = wp.tid()
            a[i] = spring(a[i], 1.0, 2.0)  # error: WPA613
            a[i] = spring(n)  # error: WPA613
            a[i] = spring(stiffness=1.0)  # error: WPA613
            a[i] = spring(a[i], damping=1.0)  # error: WPA613
            a[i] = wp.sqrt(n)  # error: WPA613
            a[i] = wp.dot(v[i], a[i])  # error: WPA613
            a[i] = wp.atan2(a[i])  # error: WPA613
            v[i] = v[i] * v[i]  # error: WPA613
            a[i] = wp.length(v[i], 2)  # error: WPA613
        """,
    )
    GOOD = (
        """
        from typing import Any

        @wp.func
        def spring(x: float, stiffness: float = 2.0):
            return -stiffness * x

        @wp.func
        def twice(x: float):
            return 2.0 * x

        @wp.func
        def twice(x: int):
            return 2 * x

        @wp.func
        def same(x: Any, y: Any):
            return x

        @wp.kernel
        def pull(a: wp.array(dtype=float), v: wp.array(dtype=wp.vec3), n: int):
            i = wp.tid()
            a[i] = spring(a[i]) + spring(stiffness=1.0, x=a[i]) + twice(1.0) + float(twice(n)) + same(a[i], n)
            a[i] = wp.dot(v[i], v[i]) + wp.sqrt(float(n)) + wp.length(v[i])
            v[i] = wp.cw_mul(v[i], v[i])
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for refusal in refusals(function):
            if not refusal.mixed:
                types = ", ".join(map(str, refusal.types))
                if refusal.name[0].isalpha() and _fits_no_count(refusal.name, len(refusal.types)):
                    given = "argument" if len(refusal.types) == 1 else "arguments"
                    message = f"'wp.{refusal.name}' is never called with {len(refusal.types)} {given}"
                else:
                    message = f"'{refusal.name}' takes no ({types})"
                yield self.at(function, refusal.node, message)
        for call, _ in function.calls():
            callee = function.callee(call)
            if callee is None or callee.kind not in ("func", "native") or len(callee.overloads) > 1:
                continue
            if call in inside_static(function) or not _is_bound_once(function, call.func):
                continue
            why = _refused(function, call, callee)
            if why is not None:
                yield self.at(function, call, why, f"'{callee.name}' is declared in line {callee.node.lineno}")


def _fits_no_count(name: str, count: int) -> bool:
    """Whether no overload of a builtin takes a number of arguments by place."""
    for one in builtins.signature(name) or ():
        needed = sum(parameter.default is None for parameter in one.parameters)
        if needed <= count <= len(one.parameters):
            return False
    return True


def _is_bound_once(function: DeviceFunction, node: ast.expr) -> bool:
    """Whether a name stands for one func only."""
    if not isinstance(node, ast.Name):
        return True
    found = function.scope.lookup(node.id)
    return found is not None and len(found[1]) == 1


def _refused(function: DeviceFunction, call: ast.Call, callee: DeviceFunction) -> str | None:
    arguments = callee.node.args
    if arguments.vararg or arguments.kwarg or any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    if any(keyword.arg is None for keyword in call.keywords):
        return None
    names = [parameter.name for parameter in callee.parameters]
    if len(call.args) > len(names):
        return f"'{callee.name}' takes {len(names)} arguments, but gets {len(call.args)}"
    allowed = {*names, *(argument.arg for argument in arguments.kwonlyargs)}
    given = dict(zip(names, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg not in allowed:
            return f"'{callee.name}' has no parameter '{keyword.arg}'"
        given[str(keyword.arg)] = keyword.value
    for parameter in callee.parameters:
        value = given.get(parameter.name)
        if value is None:
            if parameter.default is None:
                return f"'{callee.name}' gets no '{parameter.name}'"
            continue
        wanted, got = parameter.type, function.type_of(value)
        if not parameter.generic and _differ(wanted, got) and is_sure(function, value) and not _is_open(function):
            return f"'{parameter.name}' of '{callee.name}' is {wanted}, but gets {got}"
    return None


def _is_open(function: DeviceFunction) -> bool:
    return any(parameter.generic for parameter in function.parameters)


def _differ(wanted: Type | None, got: Type | None) -> bool:
    """Whether two types are known to the last detail and differ."""
    for type in (wanted, got):
        match type:
            case Scalar():
                pass
            case Vector(length=int(), scalar=Scalar()) | Matrix(rows=int(), columns=int(), scalar=Scalar()):
                pass
            case Quaternion(scalar=Scalar()) | Transformation(scalar=Scalar()):
                pass
            case _:
                return False
    return wanted != got

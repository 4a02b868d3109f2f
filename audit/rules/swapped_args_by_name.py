"""Declares the rule ``swapped-args-by-name``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.rule import HasModule
    from warp_audit.audit.source.device import DeviceFunction, Parameter
    from warp_audit.audit.source.host import Launch


class SwappedArgsByName(Rule):
    """Two arguments stand in each other's place, as their names say.

    What it finds: a call of a func, or a launch, in which one argument has the name of a second parameter and the
    argument for that one has the name of the first.

    Why it matters: the types agree, so nothing complains, and the result is wrong by a little.

    Instead: put them in the order of the parameters.
    """

    code = "WPA106"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("google-deepmind/mujoco_warp#1016",)
    fix_safety = Safety.UNSAFE
    BAD = (
        """
        @wp.func
        def spring(stiffness: float, damping: float, x: float):
            return -stiffness * x - damping

        @wp.struct
        class Leg:
            stiffness: float
            damping: float

        @wp.kernel
        def push(leg: Leg, x: wp.array(dtype=float), mass: float, drag: float):
            i = wp.tid()
            x[i] = spring(leg.damping, leg.stiffness, x[i]) * mass - drag  # error: WPA106

        def run(leg, x, mass, drag):
            wp.launch(push, dim=x.shape[0], inputs=[leg, x, drag, mass])  # error: WPA106
        """,
    )
    GOOD = (
        """
        @wp.func
        def spring(stiffness: float, damping: float, x: float):
            return -stiffness * x - damping

        @wp.func
        def mirrored(a: float, b: float):
            return a - b

        @wp.func
        def between(body_0: float, body_1: float):
            return body_0 - mirrored(body_1, body_0)

        @wp.kernel
        def push(stiffness: float, damping: float, x: wp.array(dtype=float), a: float, b: float):
            i = wp.tid()
            x[i] = spring(stiffness, damping, x[i]) + mirrored(a, b) - mirrored(b, a)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for call, _ in function.calls():
            if len(call.args) < 2 or call.keywords or function.builtin(call) is not None:
                continue
            callee = function.callee(call)
            if callee is None or callee is function:
                continue
            pair = _swapped(callee.parameters, call.args)
            if pair is not None and not _both_orders(function, callee):
                yield self._report(function, call, callee.name, call.args, pair)

    def launch(self, launch: Launch) -> Iterator[Finding]:
        kernel = launch.kernel
        given = launch.arguments
        if kernel is None or given is None:
            return
        pair = _swapped(kernel.parameters, given)
        if pair is not None:
            yield self._report(launch, launch.node, kernel.name, given, pair)

    def _report(
        self, where: HasModule, call: ast.Call, name: str, given: list[ast.expr], pair: tuple[int, int]
    ) -> Finding:
        one, other = (given[index] for index in pair)
        first, second = ast.unparse(one), ast.unparse(other)
        fix = self.mend("swap them", Replace(Place.of(one), second), Replace(Place.of(other), first))
        return self.at(
            where, one, f"'{first}' and '{second}' stand in each other's place in this call of '{name}'", fix=fix
        )


def _both_orders(function: DeviceFunction, callee: DeviceFunction) -> bool:
    """Whether the function calls it in both orders, as a symmetric use does."""
    orders = set()
    for call, _ in function.calls():
        if function.callee(call) is callee:
            orders.add(_swapped(callee.parameters, call.args) is None)
    return len(orders) > 1 and len(callee.parameters) == 2


def _name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return _name(node.value) if isinstance(node, ast.Subscript) else None


def _telling(one: str, other: str) -> bool:
    """Whether two names are about different things: `a` and `b`, `row` and `col`, `body_0` and `body_1` trade places
    on purpose.
    """
    if min(len(one), len(other)) < 4:
        return False
    return len(one) != len(other) or sum(a != b for a, b in zip(one, other, strict=True)) > 1


def _swapped(parameters: list[Parameter], given: list[ast.expr]) -> tuple[int, int] | None:
    """The places of two arguments that have each other's names, for parameters of one type."""
    names = [_name(argument) for argument in given[: len(parameters)]]
    places = {parameter.name: index for index, parameter in enumerate(parameters)}
    for index, name in enumerate(names):
        other = places.get(name) if name is not None else None
        if other is None or not index < other < len(names) or names[other] != parameters[index].name:
            continue
        if name is None or not _telling(name, parameters[index].name):
            continue
        if parameters[index].type == parameters[other].type and names.count(name) == names.count(names[other]) == 1:
            return index, other
    return None

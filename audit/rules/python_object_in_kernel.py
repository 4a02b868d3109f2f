"""Declares the rule ``python-object-in-kernel``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Safety, Wrap
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.refusals import inside_static
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


_CONTAINERS = {
    ast.List: "a list", ast.Tuple: "a tuple", ast.Dict: "a dictionary", ast.Set: "a set", ast.ListComp: "a list",
    ast.DictComp: "a dictionary", ast.SetComp: "a set",
}  # fmt: skip


class PythonObjectInKernel(Rule):
    """A kernel takes an element of a Python list, tuple or dictionary.

    What it finds: a subscript of, or a loop over, a name from outside the kernel that holds a list, tuple,
    dictionary or set, outside ``wp.static``.

    Why it matters: Warp bakes numbers, types and funcs into a kernel, but no containers. It stops the build, at the
    first launch.

    Instead: take the element when the kernel is declared, ``wp.static(TABLE[2])``; pass an array, or make the
    constant a ``wp.vec``, for an index that is known at run time only.
    """

    code = "WPA614"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    fix_safety = Safety.SAFE
    BAD = (
        """
        WEIGHTS = (0.25, 0.5, 0.25)
        NAMES = {"mass": 2.0}

        @wp.kernel
        def blur(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            s = WEIGHTS[1] * x[i]  # error: WPA614
            for k in range(3):
                s += WEIGHTS[k] * x[i + k]  # error: WPA614
            y[i] = s * NAMES["mass"]  # error: WPA614
            for w in WEIGHTS:  # error: WPA614
                y[i] += w
        """,
    )
    GOOD = (
        """
        WEIGHTS = (0.25, 0.5, 0.25)
        MASK = wp.constant(wp.vec3(0.25, 0.5, 0.25))
        SHAPE = (4, 4)

        @wp.kernel
        def blur(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            s = wp.static(WEIGHTS[1]) * x[i] + MASK[2]
            for k in range(3):
                s += wp.static(WEIGHTS[k]) * x[i + k]
            t = wp.tile_zeros(shape=SHAPE, dtype=float)
            local = (1.0, 2.0)
            y[i] = s + local[0]
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function.kind == "integrand":
            return
        called = {call.func for call, _ in function.calls()}
        for node in function.flow.of(ast.Subscript):
            assert isinstance(node, ast.Subscript)
            word = _container(function, node.value)
            if word is None or node in inside_static(function) or node in called:
                continue
            fix = None
            if isinstance(node.slice, ast.Constant):
                fix = self.mend("take it when the kernel is declared", Wrap(Place.of(node), "wp.static(", ")"))
            yield self.at(
                function,
                node,
                f"'{ast.unparse(node.value)}' is {word} of Python's, which Warp does not bake in",
                fix=fix,
            )
        for statement in function.flow.steps:
            if isinstance(statement, ast.For):
                word = _container(function, statement.iter)
                if word is not None:
                    yield self.at(
                        function,
                        statement.iter,
                        f"'{ast.unparse(statement.iter)}' is {word} of Python's, which Warp does not loop over",
                    )


def _container(function: DeviceFunction, node: ast.expr) -> str | None:
    """What kind of container a name from outside holds."""
    if not isinstance(node, ast.Name):
        return None
    definition = function.flow.uses.get(node)
    if definition is None or definition.kind != "free":
        return None
    found = function.scope.lookup(node.id)
    if found is None or len(found[1]) != 1 or found[1][0].kind != "assign" or found[1][0].index is not None:
        return None
    return _CONTAINERS.get(type(found[1][0].value))

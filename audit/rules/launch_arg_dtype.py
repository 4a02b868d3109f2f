"""Declares the rule ``launch-arg-dtype``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.types import Array, Matrix, Scalar, StructType, Type, Vector
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Parameter
    from warp_audit.audit.source.host import Launch


class LaunchArgDtype(Rule):
    """An argument of another type than the kernel declares is passed to it.

    What it finds: an array that was made in sight with another element type than the parameter's, a float constant
    for an integer parameter, and a number for an array parameter.

    Why it matters: Warp compares the types only when the line runs, and refuses.

    Instead: make the array with the kernel's type; for scalars write a value of the declared type.
    """

    code = "WPA104"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#3090",)
    BAD = (
        """
        @wp.kernel
        def mark(mask: wp.array[wp.bool], pos: wp.array[wp.vec3], count: int):
            i = wp.tid()
            if mask[i]:
                pos[i] = wp.vec3(0.0, 0.0, float(count))

        def run(n):
            mask = wp.zeros(n, dtype=wp.uint8)
            pos = wp.zeros(n, dtype=wp.vec3d)
            wp.launch(mark, dim=n, inputs=[mask, wp.zeros(n, dtype=wp.vec3), n])  # error: WPA104
            wp.launch(mark, dim=n, inputs=[wp.zeros(n, dtype=bool), pos, n])  # error: WPA104
            wp.launch(mark, dim=n, inputs=[None, None, 1.5])  # error: WPA104
        """,
    )
    GOOD = (
        """
        from typing import Any

        @wp.kernel
        def mark(mask: wp.array[wp.bool], pos: wp.array[Any], speed: float):
            i = wp.tid()
            if mask[i]:
                pos[i] = pos[i] * speed

        def run(n, other):
            mask = wp.zeros(n, dtype=bool)
            pos = wp.zeros(n, dtype=wp.vec3d)
            wp.launch(mark, dim=n, inputs=[mask, pos, 1])
            wp.launch(mark, dim=n, inputs=[None, other, True])
        """,
    )

    def launch(self, launch: Launch) -> Iterator[Finding]:
        kernel = launch.kernel
        if kernel is None:
            return
        for parameter, argument in launch.pairs(kernel):
            why = _why(launch, parameter, argument)
            if why is not None:
                yield self.at(
                    launch,
                    argument,
                    f"{why}, but the parameter '{parameter.name}' of '{kernel.name}' is {parameter.type}",
                )


def _why(launch: Launch, parameter: Parameter, argument: ast.expr) -> str | None:
    wanted = parameter.type
    text = ast.unparse(argument)
    if isinstance(wanted, Array):
        if isinstance(argument, ast.Constant) and isinstance(argument.value, (int, float)):
            return f"'{text}' is a number" if argument.value != 0 else None
        fact = launch.function.array(argument)
        if fact is None or fact.dtype is None or wanted.dtype is None or parameter.generic:
            return None
        if fact.maker == "warp.array" and not any(keyword.arg == "dtype" for keyword in fact.made.keywords):
            return None  # the rule `array-missing-dtype` speaks where it is made
        return f"'{text}' has elements of {fact.dtype}" if not _same(fact.dtype, wanted.dtype) else None
    if isinstance(wanted, Scalar) and wanted.is_integer:
        value = launch.function.constant(argument)
        if isinstance(value, float):
            return f"'{text}' is {value}, a float"
    return None


def _same(given: Type, wanted: Type) -> bool:
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        return given.name == wanted.name
    if isinstance(given, (Vector, Matrix)) and isinstance(wanted, (Vector, Matrix)):
        unknown = None in (getattr(given, "length", 0), getattr(wanted, "length", 0), given.scalar, wanted.scalar)
        return unknown or given == wanted or None in (getattr(given, "rows", 0), getattr(wanted, "rows", 0))
    return given == wanted

"""Declares the rule ``func-missing-return``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class FuncMissingReturn(Rule):
    """A func returns a value on some paths and falls off its end on others.

    What it finds: a ``@wp.func`` with a ``return`` of a value whose end can be reached, or that has a bare ``return``
    beside it; and one that is annotated with a result, but has no ``return``.

    Why it matters: Warp builds it. The caller gets zero or what happens to be in the variable.

    Instead: return a value at the end.
    """

    code = "WPA604"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    BAD = (
        """
        @wp.func
        def sign(x: float):  # error: WPA604
            if x > 0.0:
                return 1.0
            elif x < 0.0:
                return -1.0

        @wp.func
        def first(a: wp.array(dtype=int), key: int) -> int:  # error: WPA604
            for k in range(a.shape[0]):
                if a[k] == key:
                    return k

        @wp.func
        def half(x: float) -> float:  # error: WPA604
            y = 0.5 * x
        """,
    )
    GOOD = (
        """
        @wp.func
        def sign(x: float):
            if x > 0.0:
                return 1.0
            else:
                return -1.0

        @wp.func
        def forever(a: wp.array(dtype=int)):
            k = int(0)
            while True:
                if a[k] == 0:
                    return k
                k += 1

        @wp.func
        def store(a: wp.array(dtype=int), i: int):
            if i < 0:
                return
            a[i] = 1
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function.kind != "func":
            return
        returns = [statement for statement in function.flow.steps if isinstance(statement, ast.Return)]
        with_value = [statement for statement in returns if statement.value is not None]
        if not with_value:
            if _promises(function):
                yield self.at(
                    function,
                    function.node,
                    f"'{function.name}' promises '{ast.unparse(function.node.returns or function.node)}', but "
                    "returns nothing",
                )
            return
        if any(_is_static(function, guard.test) for one in with_value for guard in function.flow.steps[one].guards):
            return  # which branch there is, is decided when the kernel is built
        bare = next((statement for statement in returns if statement.value is None), None)
        if function.flow.end is None and bare is None:
            return
        how = f"'return' in line {bare.lineno} gives none" if bare is not None else "its end can be reached without one"
        yield self.at(
            function, function.node, f"'{function.name}' returns a value in line {with_value[0].lineno}, but {how}"
        )


def _promises(function: DeviceFunction) -> bool:
    """Whether a func with a body says that it returns a value."""
    promised = function.node.returns
    if promised is None or (isinstance(promised, ast.Constant) and promised.value is None):
        return False
    return function.flow.end is not None and any(
        not isinstance(statement, (ast.Expr, ast.Pass, ast.Assert)) for statement in function.flow.steps
    )


def _is_static(function: DeviceFunction, test: ast.expr) -> bool:
    return isinstance(test, ast.Call) and function.builtin(test) == "static"

"""Declares the rule ``ad-func-grad-assign``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Replace
from warp_audit.audit.rule import Finding, Place, Rule, Safety
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class AdFuncGradAssign(Rule):
    """A custom gradient replaces an adjoint instead of adding to it.

    What it finds: ``wp.adjoint[x] = ...`` in a ``@wp.func_grad``.

    Why it matters: if the argument is used more than once, each use adds its share to the adjoint. An assignment drops
    what came before, so that the gradient is too small, without a message.

    Instead: write ``wp.adjoint[x] += ...``.
    """

    code = "WPA418"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    fix_safety = Safety.SAFE
    words = ("adj",)
    BAD = (
        """
        @wp.func
        def square(x: float):
            return x * x

        @wp.func_grad(square)
        def adj_square(x: float, adj_ret: float):
            wp.adjoint[x] = 2.0 * x * adj_ret  # error: WPA418

        @wp.func
        def pick(a: wp.array(dtype=float), i: int):
            return a[i]

        @wp.func_grad(pick)
        def adj_pick(a: wp.array(dtype=float), i: int, adj_ret: float):
            share = adj_ret
            if share > 0.0:
                wp.adjoint[a][i] = share  # error: WPA418
        """,
    )
    GOOD = (
        """
        @wp.func
        def cube(x: float):
            return x * x * x

        @wp.func_grad(cube)
        def adj_cube(x: float, adj_ret: float):
            g = 3.0 * x * x
            wp.adjoint[x] += g * adj_ret
            wp.adjoint[x] = wp.adjoint[x] + 0.0
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function.kind != "grad":
            return
        for statement in function.flow.steps:
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                continue
            target = statement.targets[0]
            if not _is_adjoint(function, target) or any(_is_adjoint(function, n) for n in walk(statement.value)):
                continue
            code = f"{ast.unparse(target)} += {ast.unparse(statement.value)}"
            yield self.at(
                function,
                target,
                f"'{ast.unparse(target)}' is replaced here, which drops what other uses have added",
                fix=self.mend("Add to the adjoint", Replace(Place.of(statement), code)),
            )


def _is_adjoint(function: DeviceFunction, node: ast.AST) -> bool:
    """Whether a node is ``wp.adjoint[x]``, or an element of it."""
    while isinstance(node, ast.Subscript):
        node = node.value
        if isinstance(node, ast.Attribute) and node.attr == "adjoint" and function.qualify(node) == "warp.adjoint":
            return True
    return False

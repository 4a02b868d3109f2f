"""Declares the rule ``shape-axis-out-of-rank``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class ShapeAxisOutOfRank(Rule):
    """The extent of a dimension is asked for that the array does not have.

    What it finds: ``a.shape[k]`` with a constant ``k`` that is not below the number of dimensions that the
    parameter declares.

    Why it matters: Warp returns zero, so a loop over it never runs and a test against it always fails.

    Instead: use an axis that is there, or declare the parameter with more dimensions.
    """

    code = "WPA202"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    words = ("shape",)
    BAD = (
        """
        @wp.func
        def width(grid: wp.array2d(dtype=float)):
            s = grid.shape
            return grid.shape[2] + s[3]  # error: WPA202
        """,
    )
    GOOD = (
        """
        @wp.func
        def width(grid: wp.array2d(dtype=float), any: wp.array):
            row = grid[0]
            return grid.shape[1] + row.shape[0] + any.shape[3]
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for node in function.flow.of(ast.Subscript):
            assert isinstance(node, ast.Subscript)
            shape = node.value
            definition = function.flow.uses.get(shape)
            if definition is not None and definition.kind == "assign" and definition.index is None and definition.value:
                shape = definition.value
            if not isinstance(shape, ast.Attribute) or shape.attr != "shape":
                continue
            axis = function.constant(node.slice)
            array = function.array_type(shape.value)
            if not isinstance(axis, int) or array is None or array.ndim is None or array.flavour == "fixedarray":
                continue
            if (axis >= array.ndim or axis < 0) and not _is_expected(function, node):
                name = ast.unparse(shape.value)
                yield self.at(
                    function, node, f"'{name}' has {array.ndim} dimensions: there is no extent {axis}, Warp gives 0"
                )


def _is_expected(function: DeviceFunction, node: ast.Subscript) -> bool:
    """Whether a test of the value is all that it is for."""
    statement = function.flow.sites[node].statement
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and (function.builtin(call) or "").startswith("expect")

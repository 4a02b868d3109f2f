"""Declares the rule ``array-missing-dtype``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Safety, SetKeyword
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.types import FLOAT64, INT64, Array, Type
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction


class ArrayMissingDtype(Rule):
    """An array is made from Python numbers without an element type.

    What it finds: ``wp.array([0.5, 1.0])`` without ``dtype``, unless a kernel takes it as 64-bit.

    Why it matters: Python's numbers become ``float64`` and ``int64``. A kernel that declares ``float`` or ``int``
    refuses the array, when the line runs.

    Instead: name the type: ``wp.array([0.5, 1.0], dtype=float)``.
    """

    code = "WPA117"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    fix_safety = Safety.UNSAFE
    calls = frozenset(("array",))
    BAD = (
        """
        def make():
            a = wp.array([1, 2, 3])  # error: WPA117
            b = wp.array([[0.5, -1.0], [1.0, 2.0]], device="cpu")  # error: WPA117
            return a, b
        """,
    )
    GOOD = (
        """
        import numpy as np

        @wp.kernel
        def wide(x: wp.array(dtype=wp.float64)):
            i = wp.tid()
            x[i] = x[i] * wp.float64(2.0)

        def make(data):
            a = wp.array([1.0, 2.0])
            wp.launch(wide, dim=2, inputs=[a])
            return wp.array([1, 2, 3], dtype=int), wp.array(data), wp.array(np.ones(3, dtype=np.float32))
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        for call in function.calls:
            if call.name != "warp.array" or call.argument("dtype", 1) is not None or not call.node.args:
                continue
            if any(keyword.arg is None for keyword in call.node.keywords):
                continue
            data = function.value_of(call.node.args[0])
            fact = function.array(call.node)
            if not isinstance(data, (ast.List, ast.Tuple)) or fact is None or fact.dtype not in (FLOAT64, INT64):
                continue
            if any(
                isinstance(type, Array) and type.dtype == fact.dtype for type in self._declared(function, call.node)
            ):
                continue
            word = "float" if fact.dtype == FLOAT64 else "int"
            yield self.at(
                function,
                call.node,
                f"the array gets elements of {fact.dtype}, as no dtype is given",
                fix=self.mend(f"give dtype={word}", SetKeyword(Place.of(call.node), "dtype", word)),
            )

    def _declared(self, function: HostFunction, made: ast.Call) -> list[Type]:
        """What kernels declare for the name that the array is given."""
        statement = function.flow.sites[made].statement
        if isinstance(statement, ast.Assign) and statement.value is made:
            for node, definition in function.flow.uses.items():
                if definition.value is made and isinstance(node, ast.expr):
                    found = function.declared(node)
                    if found:
                        return found
        return []

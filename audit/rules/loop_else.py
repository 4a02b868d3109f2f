"""Declares the rule ``loop-else``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class LoopElse(Rule):
    """The ``else`` of a loop in a kernel is dropped.

    What it finds: ``for … else`` and ``while … else`` in kernels and funcs.

    Why it matters: Warp builds the kernel as if the ``else`` were not there, without a word.

    Instead: note in a variable whether the loop broke, and test it behind the loop.
    """

    code = "WPA648"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    BAD = (
        """
        @wp.func
        def find(table: wp.array(dtype=int), key: int):
            k = int(0)
            while k < table.shape[0]:
                if table[k] == key:
                    break
                k += 1
            else:  # error: WPA648
                k = -1
            return k
        """,
    )
    GOOD = (
        """
        @wp.func
        def find(table: wp.array(dtype=int), key: int):
            found = int(-1)
            for k in range(table.shape[0]):
                if table[k] == key:
                    found = k
                    break
            return found

        def search(names):
            for name in names:
                if name == "steel":
                    break
            else:
                raise KeyError("steel")
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for statement in function.flow.steps:
            if isinstance(statement, (ast.For, ast.While)) and statement.orelse:
                yield self.at(
                    function,
                    _else_keyword(function, statement),
                    "Warp drops the 'else' of a loop: its statements never run",
                )


def _else_keyword(function: DeviceFunction, loop: ast.For | ast.While) -> ast.AST:
    """A node in the place of the word ``else``, which the tree does not hold."""
    lines = function.module.lines
    for number in range(loop.orelse[0].lineno, loop.body[-1].lineno, -1):
        text = lines[number - 1]
        if text.lstrip().startswith("else"):
            column = len(text) - len(text.lstrip())
            return ast.Pass(lineno=number, col_offset=column, end_lineno=number, end_col_offset=column + 4)
    return loop.orelse[0]

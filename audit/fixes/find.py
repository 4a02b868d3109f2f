"""Which libcst nodes stand at a place that ``ast`` names.

The two trees differ in what they count to a node: a tuple has its parentheses in ``ast`` and not in libcst, several
indices are one tuple in ``ast`` and several elements in libcst.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import libcst as cst
from libcst.metadata import CodeRange

from warp_audit.audit.edits import Place

BRACKETED = (cst.Tuple, cst.GeneratorExp)
"""Nodes whose own parentheses ``ast`` counts to them."""

_STATEMENTS = (cst.BaseSmallStatement, cst.BaseCompoundStatement)
_WITH_PLACE = (cst.BaseExpression, cst.Param, cst.Arg, cst.Slice)
# Older parsers misplace what stands in formatted strings of several lines.
_FORMATTED_TOO = sys.version_info >= (3, 12)


class Finder(cst.CSTVisitor):
    """The nodes of a tree by place, and the parent of each.

    Args:
        positions: what libcst's ``PositionProvider`` says.
    """

    def __init__(self, positions: Mapping[cst.CSTNode, CodeRange]) -> None:
        super().__init__()
        self._positions = positions
        self._stack: list[cst.CSTNode] = []
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.expressions: dict[Place, cst.CSTNode] = {}
        self.statements: dict[Place, cst.CSTNode] = {}
        self.indices: dict[Place, cst.Subscript] = {}

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Note a node and go into it, unless it is whitespace."""
        if self._stack:
            self.parents[node] = self._stack[-1]
        if isinstance(node, cst.BaseParenthesizableWhitespace):
            return False
        if isinstance(node, cst.FormattedString) and not _FORMATTED_TOO:
            self.expressions[self.place(node)] = node
            return False
        self._stack.append(node)
        if isinstance(node, _STATEMENTS):
            self.statements[self._statement(node)] = node
        elif isinstance(node, _WITH_PLACE):
            # Of nodes with the same extent the inner one is meant: of `x` in `f(x)`, the name and not the argument.
            self.expressions[self.place(node)] = node
            if isinstance(node, cst.Subscript):
                first, last = self.place(node.slice[0]), self.place(node.slice[-1])
                self.indices[Place(first.line, first.column, last.end_line, last.end_column)] = node
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        """Go back to the parent."""
        if self._stack and self._stack[-1] is original_node:
            self._stack.pop()

    def place(self, node: cst.CSTNode) -> Place:
        """A node's extent as ``ast`` has it."""
        found = self._positions[node]
        start, end = found.start, found.end
        if isinstance(node, BRACKETED) and node.lpar:
            start, end = self._positions[node.lpar[-1]].start, self._positions[node.rpar[0]].end
        elif isinstance(node, cst.Param) and isinstance(node.star, str) and not node.star and node.annotation:
            end = self._positions[node.annotation].end
        return Place(start.line, start.column, end.line, end.column)

    def with_brackets(self, node: cst.BaseExpression) -> Place:
        """A node's extent with all parentheses around it."""
        if not node.lpar:
            return self.place(node)
        start, end = self._positions[node.lpar[0]].start, self._positions[node.rpar[-1]].end
        return Place(start.line, start.column, end.line, end.column)

    def _statement(self, node: cst.CSTNode) -> Place:
        """A statement's extent; that of a decorated definition starts behind its decorators."""
        at = self.place(node)
        if not isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            return at
        name = self._positions[node.name].start
        if isinstance(node, cst.ClassDef):
            start = name.column - len(node.whitespace_after_class.value) - len("class")
        elif node.asynchronous is not None:
            start = self._positions[node.asynchronous].start.column
        else:
            start = name.column - len(node.whitespace_after_def.value) - len("def")
        return Place(name.line, start, at.end_line, at.end_column)

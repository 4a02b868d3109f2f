"""Which libcst nodes stand at a place that ``ast`` names.

The two trees differ in what they count to a node: a tuple has its parentheses in ``ast`` and not in libcst, several
indices are one tuple in ``ast`` and several elements in libcst, and a decorated definition starts at ``def`` in
``ast``.
"""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst
from libcst.metadata import CodeRange

from warp_audit.audit.edits import Place

_BRACKETED = (cst.Tuple, cst.GeneratorExp)
STATEMENTS = (cst.BaseSmallStatement, cst.BaseCompoundStatement)


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
        self.in_text = 0
        """How many formatted strings are around the node that is visited."""

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Note a node; whitespace is passed over."""
        if isinstance(node, cst.BaseParenthesizableWhitespace):
            return False
        if self._stack:
            self.parents[node] = self._stack[-1]
        self._stack.append(node)
        if isinstance(node, STATEMENTS):
            self._statement(node)
        elif isinstance(node, (cst.BaseExpression, cst.Param, cst.Arg, cst.Slice)):
            place = self._place(node)
            if isinstance(node, _BRACKETED) and node.lpar:
                start, end = self._positions[node.lpar[-1]].start, self._positions[node.rpar[0]].end
                place = Place(start.line, start.column, end.line, end.column)
            # Of nodes with the same extent the inner one is meant: `f(x)`'s argument is its expression.
            self.expressions[place] = node
            if isinstance(node, cst.Subscript):
                first, last = self._positions[node.slice[0]].start, self._positions[node.slice[-1]].end
                self.indices[Place(first.line, first.column, last.line, last.column)] = node
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        """Go back to the parent."""
        if not isinstance(original_node, cst.BaseParenthesizableWhitespace):
            self._stack.pop()

    def _statement(self, node: cst.CSTNode) -> None:
        place = self._place(node)
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and node.decorators:
            name = self._positions[node.name].start
            if isinstance(node, cst.FunctionDef):
                start = (
                    name.column - len((node.whitespace_after_def.empty and "") or _text(node.whitespace_after_def)) - 3
                )
                if node.asynchronous is not None:
                    start = self._positions[node.asynchronous].start.column
            else:
                start = name.column - len(_text(node.whitespace_after_class)) - 5
            place = Place(name.line, start, place.end_line, place.end_column)
        self.statements[place] = node

    def _place(self, node: cst.CSTNode) -> Place:
        found = self._positions[node]
        return Place(found.start.line, found.start.column, found.end.line, found.end.column)


def _text(space: cst.SimpleWhitespace) -> str:
    return space.value

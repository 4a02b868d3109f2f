"""A source text as a tree, and the text that edits make of it."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from warp_audit.audit.edits import Delete, Edit, Fix, InsertBefore, Replace, Safety, SetKeyword, Wrap
from warp_audit.audit.fixes.arguments import set_keyword
from warp_audit.audit.fixes.brackets import bracketed, needs
from warp_audit.audit.fixes.find import Finder


class Source:
    """A text that libcst has read.

    Args:
        module: its tree.
        lines: its lines, as ``ast`` counts them.
    """

    def __init__(self, module: cst.Module, lines: list[str]) -> None:
        wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
        self.module = wrapper.module
        self.lines = lines
        self.finder = Finder(wrapper.resolve(PositionProvider))
        self.module.visit(self.finder)

    @staticmethod
    def read(text: str) -> Source | None:
        """The tree of a text; ``None`` if libcst cannot read it."""
        try:
            module = cst.parse_module(text)
            return Source(module, text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
        except (cst.ParserSyntaxError, RecursionError, KeyError):
            return None

    def can(self, fix: Fix) -> bool:
        """Whether every edit finds its node, and a safe fix loses no comment."""
        for edit in fix.edits:
            node = self.node(edit)
            if node is None:
                return False
            if isinstance(edit, (Replace, Delete)) and fix.safety is Safety.SAFE and "#" in self.code(node):
                return False
        return True

    def node(self, edit: Edit) -> cst.CSTNode | None:
        """The node that an edit is about."""
        expression = self.finder.expressions.get(edit.at)
        statement = self.finder.statements.get(edit.at)
        if isinstance(edit, SetKeyword):
            return expression if isinstance(expression, cst.Call) else None
        if isinstance(edit, Wrap):
            return expression if isinstance(expression, cst.BaseExpression) else None
        if isinstance(edit, (InsertBefore, Delete)):
            return statement if statement is not None and self.line_of(statement) is not None else None
        if isinstance(expression, cst.BaseExpression) and self.expression(edit.code) is not None:
            return expression
        return statement if statement is not None and self.statements(edit.code) else None

    def line_of(self, statement: cst.CSTNode) -> cst.BaseStatement | None:
        """The statement line that a small statement stands in, or the compound statement itself."""
        if isinstance(statement, cst.BaseCompoundStatement):
            return statement
        parent = self.finder.parents.get(statement)
        return parent if isinstance(parent, cst.SimpleStatementLine) else None

    def code(self, node: cst.CSTNode) -> str:
        return self.module.code_for_node(node)

    def expression(self, code: str) -> cst.BaseExpression | None:
        """An expression of an edit; ``None`` if the code is none."""
        try:
            return cst.parse_expression(code, self.module.config_for_parsing)
        except (cst.ParserSyntaxError, RecursionError):
            return None

    def statements(self, code: str) -> list[cst.BaseStatement]:
        """The statements of an edit; none if the code is not Python."""
        try:
            body = cst.parse_module(code + "\n", self.module.config_for_parsing).body
        except (cst.ParserSyntaxError, RecursionError):
            return []
        return [statement for statement in body if isinstance(statement, cst.BaseStatement)]

    def changed(self, fixes: Sequence[Fix]) -> str | None:
        """The text with these fixes; ``None`` if they cannot be made."""
        editor = _Editor(self)
        for fix in fixes:
            for edit in fix.edits:
                node = self.node(edit)
                if node is None:
                    return None
                editor.add(node, edit)
        try:
            return self.module.visit(editor).code
        except (cst.CSTValidationError, RecursionError, TypeError):
            return None


class _Editor(cst.CSTTransformer):
    """Makes edits as it leaves the nodes they are about, so that edits inside of edited nodes are kept."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source
        self.edits: dict[cst.CSTNode, list[Edit]] = {}
        self.before: dict[cst.CSTNode, list[cst.BaseStatement]] = {}
        self.gone: set[cst.CSTNode] = set()

    def add(self, node: cst.CSTNode, edit: Edit) -> None:
        """Note an edit of a node."""
        if isinstance(edit, InsertBefore):
            line = self.source.line_of(node)
            assert line is not None
            self.before.setdefault(line, []).extend(self.source.statements(edit.code))
        elif isinstance(edit, Delete):
            self.gone.add(node)
        else:
            self.edits.setdefault(node, []).append(edit)

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> object:  # type: ignore[override]
        """Put in the place of a node what its edits make of it."""
        result: cst.CSTNode = updated_node
        several: list[cst.CSTNode] | None = None
        for edit in self.edits.get(original_node, ()):
            if isinstance(edit, SetKeyword) and isinstance(result, cst.Call):
                value = self.source.expression(edit.code)
                if value is not None:
                    result = set_keyword(result, edit.name, value)
            elif isinstance(edit, Wrap) and isinstance(result, cst.BaseExpression):
                result = self._wrapped(original_node, result, edit)
            elif isinstance(edit, Replace) and isinstance(result, cst.BaseExpression):
                result = self._replaced(original_node, result, edit.code)
            elif isinstance(edit, Replace):
                several = self._instead(result, edit.code)
        if original_node in self.gone:
            return self._removed(original_node)
        if several is not None:
            return cst.FlattenSentinel(several) if len(several) > 1 else several[0]
        if original_node in self.before:
            return cst.FlattenSentinel([*self.before[original_node], result])
        return result

    def _wrapped(self, original: cst.CSTNode, node: cst.BaseExpression, edit: Wrap) -> cst.BaseExpression:
        text = self.source.code(node)
        called = edit.before.endswith("(") and edit.after.startswith(")")
        simple = (
            isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Integer, cst.Float)) or node.lpar
        )
        if not called and not simple:
            text = f"({text})"
        made = self.source.expression(f"{edit.before}{text}{edit.after}")
        return self._fitted(original, node, made) if made is not None else node

    def _replaced(self, original: cst.CSTNode, node: cst.BaseExpression, code: str) -> cst.BaseExpression:
        made = self.source.expression(code)
        if made is None:
            return node
        if node.lpar and not isinstance(original, (cst.Tuple, cst.GeneratorExp)):
            # The parentheses stand outside of the edited place.
            return made.with_changes(lpar=[*node.lpar, *made.lpar], rpar=[*made.rpar, *node.rpar])
        return self._fitted(original, node, made)

    def _fitted(self, original: cst.CSTNode, node: cst.BaseExpression, made: cst.BaseExpression) -> cst.BaseExpression:
        """The new expression, in parentheses where it would be read otherwise without."""
        assert isinstance(original, cst.BaseExpression)
        parent = self.source.finder.parents.get(original)
        return bracketed(made) if needs(made, parent, original) else made

    def _instead(self, node: cst.CSTNode, code: str) -> list[cst.CSTNode] | None:
        """The statements that take another one's place."""
        made = self.source.statements(code)
        if isinstance(node, cst.BaseSmallStatement):
            small = [one for line in made if isinstance(line, cst.SimpleStatementLine) for one in line.body]
            if not small:
                return None
            *first, last = small
            return [*first, last.with_changes(semicolon=node.semicolon)]
        if isinstance(node, cst.BaseCompoundStatement) and made:
            first_made, *rest = made
            return [first_made.with_changes(leading_lines=node.leading_lines), *rest]
        return None

    def _removed(self, original: cst.CSTNode) -> object:
        line = self.source.line_of(original)
        alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
        holder = self.source.finder.parents.get(line) if line is not None else None
        body = getattr(holder, "body", ())
        if (alone or line is original) and len(body) == 1:
            return cst.Pass() if alone else cst.SimpleStatementLine([cst.Pass()])
        return cst.RemoveFromParent()

"""A text as a tree in which fixes are planned, and the text that comes of them."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from warp_audit.audit.edits import Delete, Edit, Fix, InsertBefore, Place, Replace, Safety, SetKeyword, Wrap
from warp_audit.audit.fixes.arguments import set_keyword
from warp_audit.audit.fixes.blocks import Statement, StatementEdit, Statements
from warp_audit.audit.fixes.brackets import bracketed, needs
from warp_audit.audit.fixes.find import BRACKETED, Finder

_Change: TypeAlias = Callable[[cst.CSTNode], cst.CSTNode]
_INNER = "__warp_audit_inner__"


@dataclass
class _Action:
    """One edit, tied to its node.

    Args:
        node: the node that changes.
        change: for an expression, what it becomes.
        statements: for a statement, what becomes of it.
        loses_comment: whether a comment of the user's would be gone.
    """

    node: cst.CSTNode
    change: _Change | None = None
    statements: StatementEdit | None = None
    loses_comment: bool = False


@dataclass
class _Plan:
    changes: dict[cst.CSTNode, list[_Change]] = field(default_factory=dict)
    statements: dict[cst.CSTNode, StatementEdit] = field(default_factory=dict)


class Source:
    """A parsed text.

    Args:
        module: its tree.
        text: the text, without a byte order mark.
    """

    def __init__(self, module: cst.Module, text: str) -> None:
        self.lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
        self._module = wrapper.module
        self._find = Finder(wrapper.resolve(PositionProvider))
        self._module.visit(self._find)
        self._actions: dict[Edit, _Action | None] = {}

    @staticmethod
    def read(text: str) -> Source | None:
        """The tree of a text; ``None`` if libcst cannot read it."""
        try:
            module = cst.parse_module(text)
            return Source(module, text) if module.code == text else None
        except Exception:  # the parser's own errors, and what it fails with on odd but valid text
            return None

    def can(self, fix: Fix) -> bool:
        """Whether each of a fix's edits finds its place and may be made."""
        actions = [self._action(edit) for edit in fix.edits]
        if any(action is None or (action.loses_comment and fix.safety is Safety.SAFE) for action in actions):
            return False
        return not any(_swallows(one, other) for one in fix.edits for other in fix.edits if one is not other)

    def changed(self, fixes: Iterable[Fix]) -> str | None:
        """The text with all of these fixes made; ``None`` if that cannot be done."""
        plan = _Plan()
        for edit in dict.fromkeys(edit for fix in fixes for edit in fix.edits):
            action = self._action(edit)
            assert action is not None, "the fix was not asked about"
            if action.change is not None:
                plan.changes.setdefault(action.node, []).append(action.change)
            elif action.statements is not None:
                before = plan.statements.get(action.node)
                plan.statements[action.node] = before.joined(action.statements) if before else action.statements
        try:
            changed = self._module.visit(_Rewriter(plan))
            return changed.code
        except Exception:  # libcst refuses some trees, such as words that run together
            return None

    def _action(self, edit: Edit) -> _Action | None:
        if edit not in self._actions:
            try:
                self._actions[edit] = self._planned(edit)
            except (cst.ParserSyntaxError, cst.CSTValidationError):
                self._actions[edit] = None
        return self._actions[edit]

    def _planned(self, edit: Edit) -> _Action | None:
        if isinstance(edit, Replace):
            return self._replaced(edit.at, edit.code)
        if isinstance(edit, Wrap):
            return self._wrapped(edit)
        if isinstance(edit, SetKeyword):
            return self._keyword(edit)
        node = self._statement(edit.at)
        if node is None:
            return None
        if isinstance(edit, InsertBefore):
            return _Action(node, statements=StatementEdit(before=self._parsed(edit.code)))
        assert isinstance(edit, Delete)
        return _Action(node, statements=StatementEdit(instead=()), loses_comment=bool(self._comments_with(node)))

    # Expressions

    def _replaced(self, at: Place, code: str) -> _Action | None:
        node = self._find.expressions.get(at)
        if isinstance(node, cst.BaseExpression):
            new = self._expression(code)
            if new is not None:
                return _Action(node, self._putter(node, new), loses_comment=_loses(_bare(node), new))
        elif isinstance(node, (cst.Arg, cst.Param)):
            return self._argument(node, code)
        subscript = self._find.indices.get(at)
        if subscript is not None:
            parsed = self._expression(f"x[{self._native(code)}]")
            if not isinstance(parsed, cst.Subscript):
                return None
            slices = parsed.slice
            lost = any(_comments(one) - _comments(parsed) for one in subscript.slice)
            return _Action(subscript, lambda updated: updated.with_changes(slice=slices), loses_comment=lost)
        statement = self._statement(at)
        if statement is None:
            return None
        instead = self._parsed(code)
        if not instead:
            return None
        # A comment behind the statement stays unless a block takes the line's place.
        kept = isinstance(instead[-1], cst.SimpleStatementLine)
        old = _own_comments(statement) if kept else self._comments_with(statement)
        lost = bool(old - sum((_comments(one) for one in instead), Counter[str]()))
        return _Action(statement, statements=StatementEdit(instead=instead), loses_comment=lost)

    def _argument(self, node: cst.Arg | cst.Param, code: str) -> _Action | None:
        new: cst.Arg | cst.Param
        if isinstance(node, cst.Arg):
            call = self._expression(f"f({code})")
            if not isinstance(call, cst.Call) or len(call.args) != 1:
                return None
            new = call.args[0]
        else:
            definition = cst.parse_statement(f"def f({code}): pass", config=self._module.config_for_parsing)
            if not isinstance(definition, cst.FunctionDef) or len(definition.params.params) != 1:
                return None
            new = definition.params.params[0]
        parts = ("keyword", "equal", "value") if isinstance(new, cst.Arg) else ("name", "annotation")
        values = {part: getattr(new, part) for part in parts}
        return _Action(node, lambda updated: updated.with_changes(**values), loses_comment=_loses(node, new))

    def _putter(self, node: cst.BaseExpression, new: cst.BaseExpression) -> _Change:
        lpar, rpar = _outer(node)
        if lpar:
            new = new.with_changes(lpar=[*lpar, *new.lpar], rpar=[*new.rpar, *rpar])
        elif not new.lpar and (needs(new, self._find.parents.get(node), node) or self._glued(self._find.place(node))):
            new = bracketed(new)
        return lambda _: new

    def _wrapped(self, edit: Wrap) -> _Action | None:
        node = self._find.expressions.get(edit.at)
        if not isinstance(node, cst.BaseExpression):
            return None
        template = self._expression(f"{edit.before}{_INNER}{edit.after}")
        if template is None:
            return None
        lpar, rpar = _outer(node)
        parent = self._find.parents.get(node)
        if lpar and not self._roomy(lpar, rpar):
            # The user's parentheses stood for what the new code may bring itself.
            glued = self._glued(self._find.with_brackets(node))
            lpar, rpar = ([cst.LeftParen()], [cst.RightParen()]) if needs(template, parent, node) or glued else ([], [])
        elif not lpar and (needs(template, parent, node) or self._glued(self._find.place(node))):
            lpar, rpar = [cst.LeftParen()], [cst.RightParen()]

        def change(updated: cst.CSTNode) -> cst.CSTNode:
            filled = template.visit(_Fill(_bare(cast(cst.BaseExpression, updated))))
            assert isinstance(filled, cst.BaseExpression)
            return filled.with_changes(lpar=[*lpar, *filled.lpar], rpar=[*filled.rpar, *rpar])

        return _Action(node, change)

    def _keyword(self, edit: SetKeyword) -> _Action | None:
        call = self._find.expressions.get(edit.at)
        if not isinstance(call, cst.Call) or not edit.name.isidentifier():
            return None
        value = self._expression(edit.code)
        if value is None:
            return None
        if isinstance(value, (cst.Tuple, cst.Yield, cst.NamedExpr, cst.GeneratorExp)) and not value.lpar:
            value = bracketed(value)
        old = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value == edit.name]
        lost = any(_loses(arg.value, value) for arg in old)
        given = value
        return _Action(call, lambda updated: set_keyword(cast(cst.Call, updated), edit.name, given), loses_comment=lost)

    def _expression(self, code: str) -> cst.BaseExpression | None:
        """Code as an expression; in parentheses if its lines need them. ``None`` if it is no expression."""
        native = self._native(code.strip())
        for text in (native, f"({native})") if native else ():
            try:
                found = cst.parse_expression(text, config=self._module.config_for_parsing)
            except cst.ParserSyntaxError:
                continue
            return None if isinstance(found, cst.StarredElement) else found
        return None

    def _glued(self, at: Place) -> bool:
        """Whether a word touches the place, so that another word put there would run into it."""
        before = self.lines[at.line - 1][: at.column]
        after = self.lines[at.end_line - 1][at.end_column :]
        return (before[-1:].isalnum() or before[-1:] == "_") or (after[:1].isalnum() or after[:1] == "_")

    def _roomy(self, lpar: Sequence[cst.LeftParen], rpar: Sequence[cst.RightParen]) -> bool:
        """Whether parentheses span lines, and so may carry layout and comments."""
        return self._find.place(lpar[0]).line != self._find.place(rpar[-1]).line

    # Statements

    def _statement(self, at: Place) -> cst.CSTNode | None:
        """The statement of a place, if statements can stand before it and in its place: an ``elif`` has none."""
        node = self._find.statements.get(at)
        if isinstance(node, cst.BaseCompoundStatement):
            parent = self._find.parents.get(node)
            return node if isinstance(parent, (cst.Module, cst.IndentedBlock)) else None
        return node

    def _parsed(self, code: str) -> tuple[Statement, ...]:
        """Code as statements, with the file's newlines and indent."""
        text = self._native(textwrap.dedent(code).strip("\n") + "\n")
        module = cst.parse_module(text, config=self._module.config_for_parsing)
        parsed = module.visit(_Reindent())
        if not parsed.body:
            return ()
        first, *rest = parsed.body
        return (first.with_changes(leading_lines=[*parsed.header, *first.leading_lines]), *rest)

    def _native(self, code: str) -> str:
        return code.replace("\r\n", "\n").replace("\n", self._module.default_newline)

    def _comments_with(self, statement: cst.CSTNode) -> Counter[str]:
        """The comments in a statement and behind it, if it has the line for itself."""
        found = _own_comments(statement)
        line = self._find.parents.get(statement)
        if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
            found += _comments(line.trailing_whitespace)
        return found


class _Rewriter(cst.CSTTransformer):
    """Carries a plan out, from the leaves up."""

    def __init__(self, plan: _Plan) -> None:
        super().__init__()
        self._changes = plan.changes
        self._statements = Statements(plan.statements)

    def on_visit(self, node: cst.CSTNode) -> bool:
        return not isinstance(node, (cst.BaseParenthesizableWhitespace, cst.TrailingWhitespace, cst.EmptyLine))

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> object:  # type: ignore[override]
        for change in self._changes.get(original_node, ()):
            updated_node = change(updated_node)
        return self._statements.left(original_node, updated_node)


class _Fill(cst.CSTTransformer):
    """Puts an expression in the gap of a template."""

    def __init__(self, inner: cst.BaseExpression) -> None:
        super().__init__()
        self._inner = inner
        self._stack: list[cst.CSTNode] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        self._stack.append(node)
        return True

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
        self._stack.pop()
        if not isinstance(original_node, cst.Name) or original_node.value != _INNER:
            return updated_node
        inner = self._inner
        if original_node.lpar:
            return inner.with_changes(
                lpar=[*original_node.lpar, *inner.lpar], rpar=[*inner.rpar, *original_node.rpar]
            )  # fmt: skip
        parent = self._stack[-1] if self._stack else None
        return bracketed(inner) if needs(inner, parent, original_node) else inner


class _Reindent(cst.CSTTransformer):
    """Gives blocks the indent of the file that they come into."""

    def leave_IndentedBlock(  # noqa: N802
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        return updated_node.with_changes(indent=None)


class _Comments(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def visit_Comment(self, node: cst.Comment) -> None:  # noqa: N802
        self.found[node.value] += 1


def _comments(node: cst.CSTNode) -> Counter[str]:
    visitor = _Comments()
    node.visit(visitor)
    return visitor.found


def _own_comments(statement: cst.CSTNode) -> Counter[str]:
    """The comments in a statement, without those on the lines above it."""
    bare = statement.with_changes(leading_lines=()) if isinstance(statement, cst.BaseCompoundStatement) else statement
    return _comments(bare)


def _loses(old: cst.CSTNode, new: cst.CSTNode) -> bool:
    return bool(_comments(old) - _comments(new))


def _outer(node: cst.BaseExpression) -> tuple[Sequence[cst.LeftParen], Sequence[cst.RightParen]]:
    """The parentheses around what ``ast`` counts to a node."""
    if isinstance(node, BRACKETED):
        return node.lpar[:-1], node.rpar[1:]
    return node.lpar, node.rpar


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """A node without the parentheses around it; a tuple keeps its own."""
    if isinstance(node, BRACKETED):
        return node.with_changes(lpar=node.lpar[-1:], rpar=node.rpar[:1])
    return node.with_changes(lpar=(), rpar=())


def _swallows(one: Edit, other: Edit) -> bool:
    """Whether an edit takes away the place of another one of the same fix."""
    if not isinstance(one, (Replace, Delete)):
        return False
    outer, inner = one.at, other.at
    if isinstance(other, InsertBefore):
        return (outer.line, outer.column) < (inner.line, inner.column) < (outer.end_line, outer.end_column)
    return (outer.line, outer.column) <= (inner.line, inner.column) and (inner.end_line, inner.end_column) <= (
        outer.end_line,
        outer.end_column,
    )

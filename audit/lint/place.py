"""Findings put in their place: columns in characters, the statement around them, a fingerprint."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from warp_audit.audit.lint import suppress
from warp_audit.audit.lint.edits import to_json
from warp_audit.audit.lint.known import BAD_SUPPRESSION, UNREADABLE, Known
from warp_audit.audit.lint.notebook import Notebook
from warp_audit.audit.lint.report import Found, fingerprint
from warp_audit.audit.source.text import characters
from warp_audit.diagnostic import Confidence, Diagnostic, Evidence, Json, Severity, Span

if TYPE_CHECKING:
    from warp_audit.audit.rule import Finding
    from warp_audit.audit.source.module import Module

_DEFINED = re.compile(r"(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")
_BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class View:
    """A file's text, to place findings in."""

    def __init__(self, path: str, text: str, notebook: Notebook | None = None) -> None:
        self.path = path
        self.notebook = notebook
        self.lines = text.split("\n")
        self.module: Module | None = None

    def line(self, number: int) -> str:
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def column(self, line: int, offset: int) -> int:
        """A column from 1 in characters, of one from 0 in bytes."""
        return characters(self.line(line), offset) + 1

    def cell(self, line: int) -> tuple[int, int] | None:
        return self.notebook.place(line) if self.notebook else None

    @cached_property
    def _statements(self) -> list[tuple[int, int, int, str]]:
        """Of each statement the first line, the last, the last of its header, the function around it; outer first."""
        found: list[tuple[int, int, int, str]] = []
        waiting: list[tuple[ast.AST, str]] = [(self.module.tree, "")] if self.module else []
        while waiting:
            node, name = waiting.pop()
            if isinstance(node, _BLOCKS):
                if isinstance(node, _DEFINITIONS):
                    name = f"{name}.{node.name}" if name else node.name
                at: Any = node.pattern if isinstance(node, ast.match_case) else node
                first = min([at.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
                body: Any = getattr(node, "body", None) or getattr(node, "cases", None) or []
                end = max([at.end_lineno, *(getattr(one, "end_lineno", 0) for one in body)])
                found.append((first, end, _header(at.lineno, body) if body else end, name))
            waiting.extend((child, name) for child in ast.iter_child_nodes(node) if isinstance(child, _BLOCKS))
        return sorted(found, key=lambda one: (one[0], -one[1]))

    def around(self, line: int) -> tuple[int, int, str]:
        """Of the innermost statement of a line: its first line, the last of its header, the function around it."""
        inner = (line, line, "")
        for first, last, header, name in self._statements:
            if first > line:
                break
            if line <= last:
                inner = (first, header, name)
        return inner


def _header(line: int, body: list[Any]) -> int:
    """The last line of what stands before a body that starts on a line of its own."""
    inside = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
    start: int = min([inside.lineno, *(one.lineno for one in getattr(inside, "decorator_list", []))])
    return max(line, start - 1)


def located(view: View, finding: Finding) -> Found:
    """A finding with its place in characters, the lines that suppress it, and its fingerprint."""
    rule = finding.rule
    node: Any = finding.node
    line, end_line = node.lineno, node.end_lineno or node.lineno
    column = view.column(line, node.col_offset)
    end_column = view.column(end_line, node.end_col_offset or node.col_offset)
    text = view.line(line)
    if getattr(node, "body", None) and isinstance(node, (ast.stmt, ast.ExceptHandler)):
        # Of a compound statement the first line is shown, of a definition the name.
        named = _DEFINED.match(text, column - 1)
        start, end = named.span(1) if named else (column - 1, len(text.rstrip()))
        column, end_line, end_column = start + 1, line, max(start, end) + 1
        code = text.strip()
    elif end_line == line:
        code = text[column - 1 : end_column - 1]
    else:
        inner = view.lines[line : end_line - 1]
        code = "\n".join([text[column - 1 :], *inner, view.line(end_line)[: end_column - 1]])
    first, header, function = view.around(line)
    anchors = tuple(sorted({first, header, line, end_line}))
    notes = finding.notes
    if any(suppress.is_bare_noqa(view.line(one)) for one in anchors):
        notes = (*notes, f"a `noqa` without a code does not silence warp-audit; write `# noqa: {rule.code}`")
    return _place(
        view, rule.code, rule.slug, rule.severity, rule.confidence, finding.message,
        (line, column, end_line, end_column), notes, code, function, anchors, _fix(finding, view),
    )  # fmt: skip


def _fix(finding: Finding, view: View) -> Json:
    return to_json(finding.fix, view.column) if finding.fix else None


def _place(
    view: View, code: str, slug: str, severity: Severity, confidence: Confidence, message: str,
    extent: tuple[int, int, int, int], notes: tuple[str, ...] = (), source: str = "", function: str = "",
    anchors: tuple[int, ...] = (), fix: Json = None,
) -> Found:  # fmt: skip
    line, column, end_line, end_column = extent
    cell = view.cell(line)
    if cell:
        notes = (*notes, f"line {cell[1]} of cell {cell[0]}")
    start, end = (max(line, 1), max(column, 1)), (max(end_line, 1), max(end_column, 1))
    diagnostic = Diagnostic(
        code, slug, severity, confidence, Evidence.SOURCE, message, Span(view.path, *start, *max(start, end)),
        fingerprint(code, slug, source, function), notes, fix,
    )  # fmt: skip
    return Found(diagnostic, view.line(line), anchors, cell)


def own(view: View, rule: Known, message: str, place: tuple[int, int, int], fingerprinted: str = "") -> Found:
    """One of the linter's own remarks, on one line."""
    line, column, end_column = place
    return _place(
        view, rule.code, rule.rule, Severity(rule.severity), Confidence(rule.confidence), message,
        (line, column, line, end_column), source=fingerprinted, anchors=(line,),
    )  # fmt: skip


def unreadable(view: View, message: str, line: int, column: int) -> Found:
    """The finding of a file that is no Python source."""
    return own(view, UNREADABLE, message, (line, column, column), message)


def remarks(view: View, comments: suppress.Comments) -> list[Found]:
    """The findings about comments that mean nothing."""
    return [
        own(view, BAD_SUPPRESSION, remark.message, remark.place, view.line(remark.place[0])[remark.place[1] - 1 :])
        for remark in comments.remarks
    ]  # fmt: skip

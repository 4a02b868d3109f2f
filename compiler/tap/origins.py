"""Where in Python the source of a kernel lies, and which expression an AST node is."""

from __future__ import annotations

import ast
import hashlib
import linecache
from dataclasses import dataclass, field
from typing import Any

from warp_audit.compiler.ir.module import Source
from warp_audit.compiler.ir.op import Origin


@dataclass(slots=True)
class Position:
    """Where the source of one adjoint lies in its file."""

    source: int
    first_line: int  # of the function's source in the file, 1-based
    indent: int  # characters that Warp took from the left of each line
    lines: list[str]
    nodes: dict[int, Origin | None] = field(default_factory=dict)

    def origin(self, node: Any) -> Origin | None:
        if id(node) not in self.nodes:
            self.nodes[id(node)] = self._origin(node)
        return self.nodes[id(node)]

    def _origin(self, node: Any) -> Origin | None:
        start, end = node, node
        if isinstance(node, ast.Expr):
            start = end = node.value
        elif isinstance(node, (ast.If, ast.While)):
            end = node.test
        elif isinstance(node, ast.For):
            end = node.iter
        line = getattr(start, "lineno", None)
        if line is None:
            return None
        column = start.col_offset
        if isinstance(node, ast.FunctionDef):
            end_line, end_column = line, column + len("def ") + len(node.name)
        else:
            end_line, end_column = end.end_lineno or line, end.end_col_offset or column
        return Origin(
            self.source,
            self.first_line + line - 1,
            self._column(line, column),
            self.first_line + end_line - 1,
            self._column(end_line, end_column),
        )

    def _column(self, line: int, offset: int) -> int:
        """A 1-based column in characters from an offset in UTF-8 bytes."""
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        if not text.isascii():
            offset = len(text.encode()[:offset].decode(errors="ignore"))
        return offset + self.indent + 1


class Positions:
    """The positions of adjoints, and the sources that they lie in, in the order met."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self._numbers: dict[str, int] = {}
        self._known: dict[int, Position] = {}

    def of(self, adj: Any) -> Position:
        """The position of an adjoint's source."""
        found = self._known.get(id(adj))
        if found is None:
            found = self._known[id(adj)] = self._find(adj)
        return found

    def _find(self, adj: Any) -> Position:
        path = adj.filename or "unknown source file"
        file_lines = linecache.getlines(path) if path != "unknown source file" else []
        first, lines = adj.fun_lineno, list(adj.source_lines)
        if not file_lines or first < 1 or not _same(file_lines, first, lines):
            # Source that Warp or the program made: kept in the module, numbered from 1.
            digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
            return Position(self._source(f"<{adj.fun_name} {digest[:8]}>", tuple(lines)), 1, 0, lines)
        whole = file_lines[first - 1]
        indent = len(whole) - len(whole.lstrip()) - (len(lines[0]) - len(lines[0].lstrip()))
        return Position(self._source(path, ()), first, indent, lines)

    def _source(self, path: str, text: tuple[str, ...]) -> int:
        if path not in self._numbers:
            content = "\n".join(text) if text else "".join(linecache.getlines(path))
            digest = hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()
            self._numbers[path] = len(self.sources)
            self.sources.append(Source(path, digest, text))
        return self._numbers[path]


def _same(file_lines: list[str], first: int, lines: list[str]) -> bool:
    """Whether the file holds the function's source where Warp says it does."""
    if first - 1 + len(lines) > len(file_lines):
        return False
    return all(file_lines[first - 1 + i].strip() == line.strip() for i, line in enumerate(lines))

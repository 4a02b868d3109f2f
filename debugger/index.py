"""The reverse-lookup index of one compiled module: pc, SASS, PTX line, IR node, Python span.

It is a SQLite file beside the artefacts. ``build_index`` makes it from the cubin and the
IR module; ``Index`` answers. For every instruction the law holds: from its pc to its IR node
and back gives pcs among which it is.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warp_audit.errors import BadInput

SCHEMA = 2
INSTRUCTION = 16

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE source (id INTEGER PRIMARY KEY, path TEXT, sha256 TEXT, text TEXT);
CREATE TABLE entity (symbol TEXT PRIMARY KEY, kind TEXT, key TEXT, node INTEGER, last INTEGER);
CREATE TABLE node (
    node INTEGER PRIMARY KEY, op TEXT, pass TEXT, text TEXT, access TEXT, forward INTEGER, entity TEXT,
    source INTEGER, line INTEGER, col INTEGER, end_line INTEGER, end_col INTEGER
);
CREATE TABLE cuda (line INTEGER PRIMARY KEY, node INTEGER, text TEXT);
CREATE TABLE code (
    id INTEGER PRIMARY KEY, name TEXT, kernel TEXT, pass TEXT, size INTEGER, registers INTEGER,
    shared INTEGER, local INTEGER, spills INTEGER, digest TEXT
);
CREATE TABLE stack (id INTEGER PRIMARY KEY, node INTEGER);
CREATE TABLE frame (stack INTEGER, depth INTEGER, file TEXT, line INTEGER, function TEXT, node INTEGER,
    PRIMARY KEY (stack, depth)) WITHOUT ROWID;
CREATE TABLE instruction (code INTEGER, at INTEGER, ptx INTEGER, stack INTEGER, sass TEXT, PRIMARY KEY (code, at))
    WITHOUT ROWID;
"""
INDEXES = """
CREATE INDEX node_place ON node (source, line);
CREATE INDEX frame_node ON frame (node);
CREATE INDEX instruction_stack ON instruction (stack);
CREATE INDEX instruction_ptx ON instruction (ptx);
"""


@dataclass(frozen=True, slots=True)
class Node:
    """An IR node: op, pass, its line of ``.wir`` text, access, and Python span (lines and columns from 1)."""

    node: int
    op: str
    passed: str  # forward or backward
    text: str
    access: str | None
    forward: int | None
    entity: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One level of an inline stack: of Python code where known, else of Warp's headers."""

    file: str
    line: int
    function: str | None
    node: int | None = None


@dataclass(frozen=True, slots=True)
class Code:
    """A compiled function of the cubin and its resources."""

    id: int
    name: str
    kernel: str
    passed: str
    size: int
    registers: int | None
    shared: int
    local: int | None
    spills: int | None
    digest: str


@dataclass(frozen=True, slots=True)
class Entity:
    """A kernel or function of the module: the IR nodes ``node`` to ``last`` are its."""

    symbol: str
    kind: str
    key: str
    node: int
    last: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction on every level."""

    code: Code
    offset: int
    sass: str | None
    ptx: int | None
    node: Node | None
    frames: tuple[StackFrame, ...]  # innermost first


class Index:
    """An index, open for look-ups."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise BadInput("there is no index", where=str(path), hint="build it with warp-audit compile")
        self.path = path
        try:
            self._db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
            self.meta = dict(self._db.execute("SELECT key, value FROM meta"))
        except sqlite3.Error as wrong:
            raise BadInput(f"is not an index: {wrong}", where=str(path)) from None
        if self.meta.get("schema") != str(SCHEMA):
            raise BadInput(
                f"was written by another version (index schema {self.meta.get('schema')})",
                where=str(path),
                hint="build it again with warp-audit compile",
            )
        self._nodes: dict[int, Node | None] = {}
        self._stacks: dict[int, tuple[int | None, tuple[StackFrame, ...]]] = {}
        self._sources: dict[int, str] = dict(self._db.execute("SELECT id, path FROM source"))

    def _rows(self, query: str, *values: Any) -> list[Any]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as wrong:
            raise BadInput(f"the index is damaged: {wrong}", where=str(self.path)) from None

    def codes(self) -> list[Code]:
        """The compiled functions."""
        return [Code(*row) for row in self._rows("SELECT * FROM code ORDER BY id")]

    def find_code(self, name: str) -> list[Code]:
        """The compiled functions that a name fits: exactly, without hashes, or in part."""
        return match_codes(self.codes(), name)

    def node(self, number: int) -> Node | None:
        """The IR node of that number."""
        if number not in self._nodes:
            rows = self._rows("SELECT * FROM node WHERE node = ?", number)
            self._nodes[number] = self._node(rows[0]) if rows else None
        return self._nodes[number]

    def _node(self, row: Any) -> Node:
        node, op, passed, text, access, forward, entity, source, line, column, end_line, end_column = row
        file = self._sources.get(source, "")
        return Node(node, op, passed, text, access, forward, entity, file, line, column, end_line, end_column)

    def stack(self, number: int | None) -> tuple[int | None, tuple[StackFrame, ...]]:
        """The IR node and the frames of a stack."""
        if number is None:
            return None, ()
        if number not in self._stacks:
            rows = self._rows("SELECT node FROM stack WHERE id = ?", number)
            frames = self._rows("SELECT file, line, function, node FROM frame WHERE stack = ? ORDER BY depth", number)
            self._stacks[number] = (rows[0][0] if rows else None, tuple(StackFrame(*frame) for frame in frames))
        return self._stacks[number]

    def instruction(self, code: Code, offset: int) -> Instruction | None:
        """The instruction that holds the byte at ``offset`` of the code, or None past its end."""
        rows = self._rows(
            "SELECT at, ptx, stack, sass FROM instruction WHERE code = ? AND at = ?",
            code.id,
            offset - offset % INSTRUCTION,
        )
        return self._instruction(code, rows[0]) if rows else None

    def _instruction(self, code: Code, row: Any) -> Instruction:
        node, frames = self.stack(row[2])
        return Instruction(code, row[0], row[3], row[1], self.node(node) if node else None, frames)

    def all(self, code: Code) -> Iterator[Instruction]:
        """Every instruction of a function, in order."""
        for row in self._rows("SELECT at, ptx, stack, sass FROM instruction WHERE code = ? ORDER BY at", code.id):
            yield self._instruction(code, row)

    def table(self, code: Code) -> list[tuple[int | None, int | None]]:
        """(IR node, PTX line) of each instruction: element ``pc // 16``. For look-ups by the million."""
        rows = self._rows(
            "SELECT s.node, i.ptx FROM instruction i LEFT JOIN stack s ON s.id = i.stack WHERE code = ? ORDER BY at",
            code.id,
        )
        return [(row[0], row[1]) for row in rows]

    def instruction_count(self, code: Code) -> int:
        """The number of a function's instructions, without the padding after its end."""
        rows = self._rows("SELECT at, sass FROM instruction WHERE code = ? ORDER BY at DESC", code.id)
        count = len(rows)
        for _, sass in rows:
            if sass != "NOP":
                break
            count -= 1
        return count

    def entity_lines(self) -> dict[str, tuple[int, int]]:
        """Where each kernel and function stands in Python, by symbol: source number and line."""
        rows = self._rows("SELECT symbol, source, line FROM entity JOIN node ON node.node = entity.node")
        return {symbol: (source or 0, line) for symbol, source, line in rows}

    def entities(self) -> list[Entity]:
        """The kernels and functions, as the module lists them."""
        return [Entity(*row) for row in self._rows("SELECT symbol, kind, key, node, last FROM entity ORDER BY node")]

    def nodes_between(self, first: int, last: int) -> list[Node]:
        """The IR nodes of a range of lines."""
        rows = self._rows("SELECT * FROM node WHERE node BETWEEN ? AND ? ORDER BY node", first, last)
        return [self._node(row) for row in rows]

    def op_count(self, code: Code) -> int:
        """The number of IR ops of the pass of the kernel that a function is compiled from."""
        rows = self._rows(
            "SELECT count(*) FROM node JOIN entity ON entity.symbol = node.entity WHERE entity.symbol = ?"
            " AND pass = ? AND op NOT IN ('value', entity.kind) AND text != '}'",
            code.kernel if code.kernel else code.name,
            code.passed,
        )
        return int(rows[0][0])

    def from_node(self, node: int) -> list[tuple[int, int]]:
        """(code id, offset) of the instructions of an IR node, inlined calls of it included."""
        rows = self._rows(
            "SELECT DISTINCT i.code, i.at FROM frame f JOIN instruction i ON i.stack = f.stack WHERE f.node = ?"
            " ORDER BY i.code, i.at",
            node,
        )
        return [(row[0], row[1]) for row in rows]

    def from_ptx(self, line: int) -> list[tuple[int, int]]:
        """(code id, offset) of the instructions that a PTX line became."""
        return [tuple(r) for r in self._rows("SELECT code, at FROM instruction WHERE ptx = ? ORDER BY code, at", line)]

    def nodes_at(self, file: str, line: int, column: int | None = None) -> list[Node]:
        """The IR nodes of a Python line: those whose span begins there, or holds the column.

        ``file`` is a path or its end. Narrower spans come first.
        """
        found: list[Node] = []
        for number, path in self._sources.items():
            if not path_fits(path, file):
                continue
            rows = self._rows(
                "SELECT * FROM node WHERE source = ? AND line <= ? AND end_line >= ? ORDER BY node", number, line, line
            )
            nodes = [self._node(row) for row in rows]
            if column is None:
                found.extend(n for n in nodes if n.line == line)
            else:
                found.extend(n for n in nodes if (n.line, n.column) <= (line, column) < (n.end_line, n.end_column))
        if column is not None:
            found.sort(key=lambda n: (n.end_line - n.line, n.end_column - n.column if n.end_line == n.line else 0))
        return found

    def from_cuda(self, line: int) -> Node | None:
        """The IR node of a line of the generated CUDA C++."""
        rows = self._rows("SELECT node FROM cuda WHERE line = ?", line)
        return self.node(rows[0][0]) if rows and rows[0][0] else None

    def cuda_lines(self, node: int) -> list[int]:
        """The lines of the generated CUDA C++ that state an IR node."""
        return [row[0] for row in self._rows("SELECT line FROM cuda WHERE node = ? ORDER BY line", node)]

    def sources(self) -> list[str]:
        """The paths of the Python files (and the names of other sources) that the module comes from."""
        return list(self._sources.values())

    def source_text(self, path: str) -> list[str] | None:
        """The lines of a source that is kept in the index, since it is in no file."""
        rows = self._rows("SELECT text FROM source WHERE path = ? AND text != ''", path)
        return rows[0][0].split("\n") if rows else None


def path_fits(path: str, asked: str) -> bool:
    """Whether a path is the one asked for: equal, or ending in it at a folder's boundary."""
    path, asked = path.replace("\\", "/"), asked.replace("\\", "/").removeprefix("./")
    return path == asked or path.endswith("/" + asked)


_SUFFIX = re.compile(r"_cuda_kernel_(forward|backward)$")
_HASH = re.compile(r"_[0-9a-f]{8}$")


def kernel_of(name: str) -> tuple[str, str]:
    """The mangled kernel name and the pass that a function of a cubin belongs to."""
    match = _SUFFIX.search(name)
    return (name[: match.start()], match[1]) if match else (name, "forward")


def match_codes(codes: list[Code], name: str) -> list[Code]:
    """The functions that a name fits, by the strictest reading that fits any.

    In order: the whole name; the mangled kernel name; the kernel's name without its hash;
    any part of the name. Of a kernel's two functions, a name that says neither pass means
    the forward one.
    """

    def forward_first(found: list[Code]) -> list[Code]:
        forward = [c for c in found if c.passed == "forward"]
        return forward if forward and "backward" not in name else found

    readings = (
        lambda c: c.name == name,
        lambda c: c.kernel == name,
        lambda c: _HASH.sub("", c.kernel) == name,
        lambda c: f"{_HASH.sub('', c.kernel)}_{c.passed}" == name or f"{c.kernel}_{c.passed}" == name,
        lambda c: name in c.name,
    )
    for fits in readings:
        if found := [c for c in codes if fits(c)]:
            return forward_first(found)
    return []

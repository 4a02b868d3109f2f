"""Builds the index of a compiled module."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warp_audit.compiler.emit.cuda import emit
from warp_audit.compiler.ir.module import Function, Module
from warp_audit.compiler.wir.printer import op_line, print_module
from warp_audit.debugger.binary.cubin import INSTRUCTION, Cubin
from warp_audit.debugger.binary.demangle import demangle
from warp_audit.debugger.binary.lines import Frame
from warp_audit.debugger.index import INDEXES, SCHEMA, TABLES, kernel_of


def build_index(
    path: Path,
    module: Module,
    cubin: Cubin,
    sass: dict[str, list[tuple[int, str]]],
    facts: dict[str, str],
    lines: str = "ir",
) -> None:
    """Write the index of a module and its cubin to a new file.

    Args:
        module: as it was emitted for this cubin.
        sass: (pc, text) pairs of each function; an empty mapping leaves the text out.
        facts: kept as the index's meta data.
        lines: what the ``#line`` directives state: ``ir`` or ``python``.
    """
    if not module.functions or not module.functions[0].node:
        print_module(module)
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    try:
        db.executescript(TABLES)
        db.executemany("INSERT INTO meta VALUES (?, ?)", [("schema", str(SCHEMA)), *facts.items()])
        _Writer(db, module, cubin, sass, lines).write()
        db.executescript(INDEXES)
        db.commit()
    finally:
        db.close()


class _Writer:
    def __init__(
        self, db: sqlite3.Connection, module: Module, cubin: Cubin, sass: dict[str, list[tuple[int, str]]], lines: str
    ) -> None:
        self.db = db
        self.module = module
        self.cubin = cubin
        self.sass = sass
        self.lines = lines
        self.wir = f"{module.identifier}.wir"
        self.where: dict[int, tuple[str, int, str]] = {}  # node → Python file, line, function
        self.by_line: dict[tuple[str, int], int] = {}
        self.stacks: dict[tuple[Frame, ...], int] = {}

    def write(self) -> None:
        execute = self.db.executemany
        sources = self.module.sources
        execute("INSERT INTO source VALUES (?, ?, ?, ?)", [
            (i, s.path, s.sha256, "\n".join(s.text)) for i, s in enumerate(sources)
        ])  # fmt: skip
        for function in self.module.functions:
            rows = list(self.nodes(function))
            execute("INSERT OR IGNORE INTO node VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
            last = max((row[0] for row in rows), default=function.node)
            self.db.execute(
                "INSERT INTO entity VALUES (?, ?, ?, ?, ?)",
                (function.symbol, function.kind, function.key, function.node, last),
            )
        text, nodes = emit(self.module, self.lines)
        execute("INSERT INTO cuda VALUES (?, ?, ?)", [
            (number, node, line.strip())
            for number, (line, node) in enumerate(zip(text.split("\n"), nodes, strict=False), 1)
            if node
        ])  # fmt: skip
        for number, (name, code) in enumerate(sorted(self.cubin.functions.items())):
            kernel, passed = kernel_of(name)
            rows = list(self.instructions(number, name, code.size))
            spills = self.spills(rows)
            self.db.execute(
                "INSERT INTO code VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    number, name, kernel, passed, code.size, code.registers, code.shared, code.local, spills,
                    self.cubin.digest(name),
                ),
            )  # fmt: skip
            execute("INSERT INTO instruction VALUES (?, ?, ?, ?, ?)", rows)
        for frames, number in self.stacks.items():
            node, resolved = self.resolved(frames)
            self.db.execute("INSERT INTO stack VALUES (?, ?)", (number, node))
            execute("INSERT INTO frame VALUES (?, ?, ?, ?, ?, ?)", [
                (number, depth, *frame) for depth, frame in enumerate(resolved)
            ])  # fmt: skip

    def nodes(self, function: Function) -> Iterator[tuple[Any, ...]]:
        key = function.key.rpartition(".")[2]

        def row(
            node: int, op: str, passed: str, text: str, access: str | None, forward: int | None, origin: Any
        ) -> tuple[Any, ...]:
            if origin is None:
                return (node, op, passed, text, access, forward, function.symbol, None, 0, 0, 0, 0)
            path = self.module.sources[origin.source].path
            self.where[node] = (path, origin.line, key)
            if op != "value":
                self.by_line.setdefault((path, origin.line), node)
            span = (origin.source, origin.line, origin.column, origin.end_line, origin.end_column)
            return (node, op, passed, text, access, forward, function.symbol, *span)

        yield row(
            function.node, function.kind, "forward", f"{function.kind} {function.key}", None, None, function.origin
        )
        for value in function.values:
            text = f"%{value.name}: {value.type}" + (f" := {value.constant}" if value.constant is not None else "")
            yield row(value.node, "value", "forward", text, None, None, value.origin)
        for region, op in function.ops():
            if op.name == "note":
                continue
            passed = "forward" if region == "forward" else "backward"
            access = "; ".join(map(str, op.access)) or None
            forward = op.of.node if op.of is not None else None
            text = op_line(op)
            text = re.sub(r"( !.*| \{\".*| <\d+ @\S+| @\S+)( \{)?$", "", text, count=1)
            yield row(op.node, op.name, passed, text, access, forward, op.origin)
            if op.end_node:
                yield row(op.end_node, op.name, passed, "}", None, forward, op.origin)

    def instructions(self, number: int, name: str, size: int) -> Iterator[tuple[Any, ...]]:
        places = self.cubin.lines(name)
        ptx = self.cubin.ptx_lines(name)
        texts = dict(self.sass.get(name, ()))
        at_place = at_ptx = -1
        for pc in range(0, size - size % INSTRUCTION, INSTRUCTION):
            while at_place + 1 < len(places) and places.pairs[at_place + 1][0] <= pc:
                at_place += 1
            while at_ptx + 1 < len(ptx) and ptx.pairs[at_ptx + 1][0] <= pc:
                at_ptx += 1
            stack = line = None
            if at_place >= 0 and pc < places.end:
                stack = self.stacks.setdefault(places.pairs[at_place][1], len(self.stacks))
            if at_ptx >= 0 and pc < ptx.end:
                line = ptx.pairs[at_ptx][1]
            yield number, pc, line, stack, texts.get(pc)

    def spills(self, rows: list[tuple[Any, ...]]) -> int | None:
        """Bytes of spill stores of a function, as ``ptxas -v`` counts them; None without PTX or SASS text."""
        ptx = self.cubin.ptx
        if ptx is None or not self.sass:
            return None
        return sum(
            _spill_bytes(sass, ptx[line - 1])
            for _, _, line, _, sass in rows
            if sass is not None and line is not None and 0 < line <= len(ptx)
        )

    def resolved(self, frames: tuple[Frame, ...]) -> tuple[int | None, list[tuple[str, int, str | None, int | None]]]:
        """The IR node of a stack, and its frames as (file, line, function, node): Python where known."""
        node: int | None = None
        listed: list[tuple[str, int, str | None, int | None]] = []
        for frame in frames:
            mine = frame.file.rpartition("/")[2] == self.wir
            number = frame.line if mine else None
            if self.lines == "python" and (frame.file, frame.line) in self.by_line:
                number = self.by_line[frame.file, frame.line]
            if number in self.where:
                if node is None:
                    node = number
                file, line, function = self.where[number]
                listed.append((file, line, function, number))
            elif not mine:
                listed.append((frame.file, frame.line, demangle(frame.function), None))
        return node, listed


_LOCAL_STORE = re.compile(r"(?:@!?\w+ )?STL(?:\.\w+)*")
_WIDTH = re.compile(r"\.(64|128|[US]?8|[US]?16)\b")
_STORES = re.compile(r"(?:@!?%\w+\s+)?(?:st|call|atom|red)\b|[({]")


def _spill_bytes(sass: str, ptx: str) -> int:
    """The bytes that an instruction spills: a store to local memory that its PTX does not ask for."""
    if not _LOCAL_STORE.match(sass) or _STORES.match(ptx.strip()):
        return 0
    width = _WIDTH.search(sass.split()[0])
    return int(width[1].lstrip("US")) // 8 if width else 4

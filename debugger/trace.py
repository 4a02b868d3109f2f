"""Answers an address: what it is on every level."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from warp_audit.addresses import Address, CudaLine, IrNode, PtxLine, PythonPlace, SassPc
from warp_audit.debugger.builds import Build, UnitFacts, choose, shortened
from warp_audit.debugger.index import Code, Index, Instruction, Node, StackFrame
from warp_audit.errors import BadInput


@dataclass(frozen=True, slots=True)
class Answer:
    """What an address is: the instruction (the first, of several), IR node and Python place."""

    address: str
    unit: UnitFacts | None = None
    instruction: Instruction | None = None
    node: Node | None = None
    ptx_text: str | None = None
    others: tuple[tuple[str, int], ...] = ()  # (function, offset) of further instructions
    nodes: tuple[Node, ...] = ()  # further IR nodes of a Python place
    verified: str = "embedded"
    error: str | None = None
    python_text: str | None = None
    notes: tuple[str, ...] = field(default=())
    frames: tuple[StackFrame, ...] = ()  # where there is no instruction, the stack that line information states
    ptx_line: int | None = None  # where there is no instruction, the PTX line asked about

    def to_json(self) -> dict[str, Any]:
        """The answer as the machine format has it."""
        found, node = self.instruction, self.node
        python = None
        if node is not None and node.file:
            python = {
                "file": node.file, "line": node.line, "column": node.column,
                "end_line": node.end_line, "end_column": node.end_column, "text": self.python_text,
            }  # fmt: skip
        elif (frame := python_frame(found.frames if found is not None else self.frames)) is not None:
            python = {
                "file": frame[0], "line": frame[1], "column": None, "end_line": frame[1], "end_column": None,
                "text": self.python_text,
            }  # fmt: skip
        ptx = None
        if (line := self.ptx_line if found is None else found.ptx) is not None:
            ptx = {"line": line, "text": self.ptx_text}
        ir = None
        if node is not None:
            ir = {
                "node": node.node, "op": node.op, "pass": node.passed, "access": node.access,
                "text": node.text, "forward": node.forward,
            }  # fmt: skip
        frames = found.frames if found is not None else self.frames
        return {
            "address": self.address,
            "function": found.code.name if found else None,
            "offset": found.offset if found else None,
            "sass": found.sass if found else None,
            "ptx": ptx,
            "ir": ir,
            "python": python,
            "inline": [{"file": f.file, "line": f.line, "function": f.function} for f in frames],
            "others": [{"function": function, "offset": offset} for function, offset in self.others],
            "verified": self.verified,
            "error": self.error,
        }


def python_frame(frames: tuple[StackFrame, ...]) -> tuple[str, int] | None:
    """The innermost frame that is Python, by its file's ending."""
    for frame in frames:
        if frame.file.endswith(".py"):
            return frame.file, frame.line
    return None


class Tracer:
    """Answers addresses in a build."""

    def __init__(self, build: Build, verified: str = "embedded", ptx_lines: dict[int, int] | None = None) -> None:
        self.build = build
        self.verified = verified
        self.ptx_lines = ptx_lines  # from the lines of a PTX asked about to those of the build's
        self._ptx: dict[str, list[str]] = {}

    def answer(self, text: str, address: Address) -> Answer:
        """What the address is.

        Raises:
            BadInput: nothing in the build is there; says what there is.
        """
        match address:
            case SassPc(name, offset):
                unit, code = self.build.one(name)
                return self.instruction(text, unit, code, offset)
            case PtxLine(line):
                if self.ptx_lines is not None:
                    line = self.ptx_lines.get(line, 0)
                return self.ptx(text, line)
            case IrNode(node):
                return self.nodes(text, self.unit_with(lambda index: index.node(node)), node)
            case CudaLine(line):
                return self.cuda(text, line)
            case PythonPlace():
                return self.python(text, address)
        raise AssertionError(address)

    def instruction(self, text: str, unit: UnitFacts, code: Code, offset: int) -> Answer:
        """The instruction at an offset of a function."""
        found = self.build.index(unit).instruction(code, offset)
        if found is None:
            raise BadInput(f"{code.name} ends at {code.size:#x}", where=text)
        return self.complete(text, unit, found)

    def complete(self, text: str, unit: UnitFacts, found: Instruction, **more: Any) -> Answer:
        """The answer for an instruction."""
        more.setdefault("node", found.node)
        node = more["node"]
        place = (node.file, node.line) if node is not None and node.file else python_frame(found.frames)
        return Answer(
            text,
            unit,
            found,
            ptx_text=self.ptx_text(unit, found.ptx),
            verified=self.verified,
            python_text=self.span_text(unit, node, place),
            **more,
        )

    def all(self, name: str) -> Iterator[Answer]:
        """Every instruction of a function."""
        unit, code = self.build.one(name)
        for found in self.build.index(unit).all(code):
            yield self.complete(f"{code.name}+{found.offset:#x}", unit, found)

    def ptx(self, text: str, line: int) -> Answer:
        """The instructions of a PTX line; where none is left of it, what its ``.loc`` states."""
        hits = [(unit, *hit) for unit in self.build.units for hit in self.build.index(unit).from_ptx(line)]
        if len({unit.key for unit, _, _ in hits}) > 1:
            raise self.several(text, f"have instructions from PTX line {line}", [unit for unit, _, _ in hits])
        if hits:
            return self.hits(text, hits)
        from warp_audit.debugger.binary.ptx import read_ptx

        for unit in self.build.units:
            path = self.build.root / unit.folder / "module.ptx"
            frames = read_ptx(path).places.get(line, ()) if path.is_file() else ()
            node = next((f.line for f in frames if f.file.endswith(f"{unit.identifier}.wir")), None)
            if node is not None and len(self.build.units) == 1:
                stated = self.build.index(unit).node(node)
                assert stated is not None
                return Answer(
                    text,
                    unit,
                    None,
                    stated,
                    verified=self.verified,
                    python_text=self.span_text(unit, stated, (stated.file, stated.line)),
                    notes=("no instruction is left of this PTX line; its line information names this op",),
                )
        raise BadInput(f"no instruction comes from PTX line {line}", where=text)

    def several(self, text: str, what: str, units: list[UnitFacts]) -> BadInput:
        different = list({unit.key: unit for unit in units}.values())
        if len({unit.module for unit in different}) > 1:
            names = [f"{unit.folder} ({unit.module})" for unit in different]
            hint = f"name one unit's folder with --in, of {shortened(names)}"
        else:
            hint = choose(different)
        return BadInput(f"several modules {what}", where=text, hint=hint)

    def hits(self, text: str, hits: list[tuple[UnitFacts, int, int]], **more: Any) -> Answer:
        """The answer for several instructions: the first in full, the others by place."""
        unit, code_id, offset = hits[0]
        index = self.build.index(unit)
        codes = {code.id: code for code in index.codes()}
        found = index.instruction(codes[code_id], offset)
        assert found is not None
        names = {
            u.key: {c.id: c.name for c in self.build.index(u).codes()} for u in {h[0].key: h[0] for h in hits}.values()
        }
        others = tuple((names[u.key][c], o) for u, c, o in hits[1:])
        return self.complete(text, unit, found, others=others, **more)

    def unit_with(self, has: Any) -> list[UnitFacts]:
        return [unit for unit in self.build.units if has(self.build.index(unit)) is not None]

    def nodes(self, text: str, units: list[UnitFacts], node: int) -> Answer:
        """The answer for an IR node, of the one unit that has it."""
        if not units:
            raise BadInput(f"there is no IR node {node}", where=text)
        if len(units) > 1:
            raise self.several(text, f"have an IR node {node}", units)
        return self.node_answer(text, units[0], self.build.index(units[0]), [node])

    def node_answer(self, text: str, unit: UnitFacts, index: Index, nodes: list[int]) -> Answer:
        hits = [(unit, *hit) for node in nodes for hit in index.from_node(node)]
        hits = list(dict.fromkeys(hits))
        first = index.node(nodes[0])
        rest = tuple(n for number in nodes[1:] if (n := index.node(number)) is not None)
        if hits:
            return self.hits(text, hits, node=first, nodes=rest)
        assert first is not None
        return Answer(
            text, unit, None, first, nodes=rest, verified=self.verified,
            python_text=self.span_text(unit, first, (first.file, first.line)),
            notes=("no instruction is left of it: folded, merged or removed by the compiler",),
        )  # fmt: skip

    def cuda(self, text: str, line: int) -> Answer:
        units = self.unit_with(lambda index: index.from_cuda(line))
        if not units:
            raise BadInput(f"no statement stands on line {line} of the CUDA C++", where=text)
        node = self.build.index(units[0]).from_cuda(line)
        assert node is not None
        return self.nodes(text, units, node.node)

    def python(self, text: str, place: PythonPlace) -> Answer:
        """The answer for a Python line or column: its ops, those with code first."""
        for unit in self.build.units:
            index = self.build.index(unit)
            nodes = index.nodes_at(place.file, place.line, place.column) or index.nodes_at(place.file, place.line)
            ops = [n for n in nodes if n.op != "value" and n.text != "}"] or nodes
            if place.column is None:
                ops = [n for n in ops if n.passed == "forward"] or ops
            if ops:
                return self.node_answer(text, unit, index, [n.node for n in ops])
        raise BadInput(self.no_code(place), where=text)

    def no_code(self, place: PythonPlace) -> str:
        from warp_audit.debugger.index import path_fits

        known = {path for unit in self.build.units for path in self.build.index(unit).sources()}
        if not any(path_fits(path, place.file) for path in known):
            return f"no kernel of this build comes from {place.file}"
        return f"no kernel code comes from line {place.line}"

    def ptx_text(self, unit: UnitFacts, line: int | None) -> str | None:
        """The text of a PTX line."""
        if line is None:
            return None
        if unit.key not in self._ptx:
            path = self.build.root / unit.folder / "module.ptx"
            self._ptx[unit.key] = path.read_text(errors="replace").split("\n") if path.is_file() else []
        lines = self._ptx[unit.key]
        return " ".join(lines[line - 1].split()) if 0 < line <= len(lines) else None

    def source_line(self, unit: UnitFacts | None, file: str, line: int) -> str | None:
        """A line of a source, from the file or as the index keeps it."""
        if unit is not None and file.startswith("<"):
            lines = self.build.index(unit).source_text(file)
            return lines[line - 1] if lines and 0 < line <= len(lines) else None
        return linecache.getline(file, line).rstrip("\n") or None

    def span_text(self, unit: UnitFacts, node: Node | None, place: tuple[str, int] | None) -> str | None:
        """The Python text that a node spans, or its line."""
        if place is None:
            return None
        line = self.source_line(unit, *place)
        if line is None or node is None or not node.file:
            return line.strip() if line else None
        if node.end_line == node.line:
            return line[node.column - 1 : node.end_column - 1]
        return line[node.column - 1 :]

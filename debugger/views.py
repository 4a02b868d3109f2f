"""A kernel on its four levels, line by line, with the IR nodes that tie the lines together."""

from __future__ import annotations

import ast
import linecache
import re
from dataclasses import dataclass, field

from warp_audit.debugger.binary.ptx import read_ptx
from warp_audit.debugger.builds import Build, UnitFacts
from warp_audit.debugger.index import Code, Entity, Index, Node, StackFrame

LEVELS = ("python", "ir", "ptx", "sass")


@dataclass(frozen=True, slots=True)
class ViewLine:
    """A line of one level.

    ``number`` is its number on that level (the offset in bytes for SASS; 0 for a heading),
    ``nodes`` the IR nodes that it belongs to; ``file`` is set for Python.
    """

    number: int
    text: str
    nodes: frozenset[int] = frozenset()
    file: str = ""


@dataclass(slots=True)
class KernelView:
    """One compiled kernel, forward or backward."""

    unit: UnitFacts
    code: Code
    title: str
    levels: dict[str, tuple[ViewLine, ...]]
    nodes: dict[int, Node] = field(default_factory=dict)
    stacks: dict[int, tuple[StackFrame, ...]] = field(default_factory=dict)  # by SASS offset

    def lines_of(self, level: str, nodes: frozenset[int]) -> list[int]:
        """The positions of the lines of a level that belong to any of the nodes."""
        return [at for at, line in enumerate(self.levels[level]) if line.nodes & nodes]

    def span(self, nodes: frozenset[int], file: str, line: int) -> tuple[int, int] | None:
        """The columns (from 1, end exclusive) that the nodes span on a Python line, if they narrow it."""
        spans = [
            (n.column, n.end_column)
            for n in map(self.nodes.get, nodes)
            if n is not None and n.file == file and n.line == line == n.end_line
        ]
        return (min(s for s, _ in spans), max(e for _, e in spans)) if spans else None


def kernel_view(build: Build, unit: UnitFacts, code: Code) -> KernelView:
    """The view of a compiled function."""
    index = build.index(unit)
    entities = {entity.symbol: entity for entity in index.entities()}
    main = entities.get(code.kernel) or entities.get(code.name)
    instructions = list(index.all(code))
    used = {n for found in instructions for n in ([f.node for f in found.frames] or [None]) if n is not None}
    nodes: dict[int, Node] = {}
    shown = []
    for entity in entities.values():
        if entity is main or any(entity.node <= n <= entity.last for n in used):
            shown.append(entity)
            for node in index.nodes_between(entity.node, entity.last):
                nodes[node.node] = node
    shown.sort(key=lambda entity: (entity is not main, entity.node))
    ir = _ir(build, unit, shown, nodes, code.passed)
    kept = frozenset(node for line in ir for node in line.nodes)
    levels = {
        "python": _python(index, [nodes[e.node] for e in shown if e.node in nodes], nodes, kept),
        "ir": ir,
        "ptx": _ptx(build, unit, code),
        "sass": tuple(
            ViewLine(found.offset, found.sass or "?", frozenset([found.node.node] if found.node else []))
            for found in instructions
        ),
    }
    name = main.key if main is not None else code.name
    stacks = {found.offset: found.frames for found in instructions}
    return KernelView(unit, code, f"{name} ({code.passed}, {unit.arch})", levels, nodes, stacks)


def _ir(
    build: Build, unit: UnitFacts, shown: list[Entity], nodes: dict[int, Node], passed: str
) -> tuple[ViewLine, ...]:
    text = (build.root / unit.folder / "module.wir").read_text(encoding="utf-8").split("\n")
    lines: list[ViewLine] = []
    for entity in shown:
        region = ""
        for number in range(entity.node, min(entity.last + 3, len(text) + 1)):
            line = text[number - 1]
            if region == "" and line[:2] == "  " and line[2:] in ("forward {", "replay {", "reverse {"):
                region = line[2:-2]
            node = nodes.get(number)
            wanted = region in ("", "forward") if passed == "forward" else region != "forward"
            if wanted and not line.lstrip().startswith("//"):
                lines.append(ViewLine(number, _without_origin(line), frozenset([number] if node else [])))
            if line == "  }":
                region = ""
            elif line == "}":
                break
    return tuple(lines)


_ORIGIN = re.compile(r" @\d+:\d+:\d+-\d+:\d+")


def _without_origin(line: str) -> str:
    return _ORIGIN.sub("", line)


def _python(index: Index, functions: list[Node], nodes: dict[int, Node], kept: frozenset[int]) -> tuple[ViewLine, ...]:
    by_place: dict[tuple[str, int], set[int]] = {}
    for number in kept:
        node = nodes[number]
        by_place.setdefault((node.file, node.line), set()).add(number)
    lines: list[ViewLine] = []
    seen: set[tuple[str, int]] = set()
    for function in functions:
        if not function.file or (function.file, function.line) in seen:
            continue
        seen.add((function.file, function.line))
        text = index.source_text(function.file) or [line.rstrip("\n") for line in linecache.getlines(function.file)]
        if not text:
            continue
        if lines:
            lines.append(ViewLine(0, ""))
        first, last = _extent(function.file, text, function.line)
        lines.extend(
            ViewLine(n, text[n - 1], frozenset(by_place.get((function.file, n), ())), function.file)
            for n in range(first, last + 1)
        )
    return tuple(lines)


def _extent(file: str, text: list[str], line: int) -> tuple[int, int]:
    """The first and last line of the function whose ``def`` or decorator stands on a line."""
    try:
        tree = ast.parse("\n".join(text))
    except (SyntaxError, ValueError):
        return line, min(line + 40, len(text))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first <= line <= node.lineno:
                return first, node.end_lineno or line
    return line, min(line + 40, len(text))


def _ptx(build: Build, unit: UnitFacts, code: Code) -> tuple[ViewLine, ...]:
    path = build.root / unit.folder / "module.ptx"
    if not path.is_file():
        return ()
    ptx = read_ptx(path)
    start = ptx.entries.get(code.name)
    if start is None:
        return ()
    lines: list[ViewLine] = []
    wir = f"{unit.identifier}.wir"
    for number in range(start, len(ptx.lines) + 1):
        text = ptx.lines[number - 1]
        bare = text.strip()
        if bare and not bare.startswith((".loc", "//", "$L__tmp", "$L__func")):
            node = next((f.line for f in ptx.places.get(number, ()) if f.file.endswith(wir)), None)
            indent = "  " if text[:1] in ("\t", " ") else ""
            lines.append(ViewLine(number, indent + " ".join(bare.split()), frozenset([node] if node else [])))
        if text.startswith("}"):
            break
    return tuple(lines)

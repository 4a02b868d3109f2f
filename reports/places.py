"""Traced addresses as text for the terminal."""

from __future__ import annotations

import os
from pathlib import Path

from warp_audit.debugger.trace import Answer, Tracer, python_frame
from warp_audit.reports.style import Style, printable

_OTHERS = 6


def answer_text(answer: Answer, tracer: Tracer, style: Style) -> str:
    """An answer over several lines: Python with a caret, IR, PTX, SASS, inline stack."""
    lines = [_title(answer, style)]
    found, node = answer.instruction, answer.node
    frames = found.frames if found is not None else answer.frames
    place = (node.file, node.line) if node is not None and node.file else python_frame(frames)
    if place is not None:
        column = f":{node.column}" if node is not None and node.file else ""
        inside = _function(answer)
        lines.append(f"  {style.place(f'{nearby(place[0])}:{place[1]}{column}')}{f'  in {inside}' if inside else ''}")
        source = tracer.source_line(answer.unit, *place)
        if source is not None:
            lines.extend(_excerpt(answer, place[1], printable(source.expandtabs(4)), style))
    if node is not None:
        access = f"   {node.access}" if node.access else ""
        lines.append(f"  {style.dim('IR  ')}  ir:{node.node}  {printable(node.text)}{style.dim(access)}")
        if node.forward is not None:
            lines.append(f"        {style.dim(f'adjoint of ir:{node.forward}')}")
    if (ptx := found.ptx if found is not None else answer.ptx_line) is not None:
        lines.append(f"  {style.dim('PTX ')}  ptx:{ptx}  {answer.ptx_text or ''}")
    if found is not None and found.sass is not None:
        lines.append(f"  {style.dim('SASS')}  {found.offset:#06x}  {found.sass}")
    if len(frames) > 1:
        chain = " < ".join(f"{f.function or '?'} ({Path(f.file).name}:{f.line})" for f in frames)
        lines.append(f"  {style.dim('from')}  {chain}")
    if answer.others:
        shown = ", ".join(f"{offset:#x}" for _, offset in answer.others[:_OTHERS])
        more = f" and {len(answer.others) - _OTHERS} more" if len(answer.others) > _OTHERS else ""
        lines.append(f"  {style.dim('also')}  {shown}{more}")
    for other in answer.nodes[:_OTHERS]:
        lines.append(f"  {style.dim('and ')}  ir:{other.node}  {printable(other.text)}")
    if len(answer.nodes) > _OTHERS:
        lines.append(f"        and {len(answer.nodes) - _OTHERS} more IR nodes")
    lines.extend(f"  {style.dim('note')}  {note}" for note in answer.notes)
    if answer.verified == "recompiled":
        lines.append(f"  {style.dim('note')}  compiled again with line information; the code is byte-identical")
    return "\n".join(lines)


def _title(answer: Answer, style: Style) -> str:
    found = answer.instruction
    if found is None:
        return style.bold(answer.address)
    name = found.code.name
    arch = f", {answer.unit.arch}" if answer.unit is not None else ""
    return f"{style.bold(f'{name}+{found.offset:#x}')}  ({found.code.passed}{arch})"


def _function(answer: Answer) -> str | None:
    found = answer.instruction
    if found is None:
        return answer.node.entity if answer.node is not None else None
    for frame in found.frames:
        if frame.node is not None or frame.file.endswith(".py"):
            return frame.function
    return None


def _excerpt(answer: Answer, number: int, source: str, style: Style) -> list[str]:
    gutter = f"  {number:>5} | "
    node = answer.node
    if node is None or not node.file:
        return [gutter + source]
    start = node.column - 1
    end = node.end_column - 1 if node.end_line == node.line else len(source)
    end = max(min(end, len(source)), start + 1)
    marked = source[:start] + style.marked(source[start:end]) + source[end:]
    return [gutter + marked, f"        | {' ' * start}{style.marked('^' * (end - start))}"]


def nearby(path: str) -> str:
    """A path as short as it can be written from the working folder."""
    if path.startswith("<"):
        return printable(path)
    relative = os.path.relpath(path)
    return printable(relative if len(relative) < len(path) else path)

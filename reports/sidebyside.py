"""A kernel's four levels side by side as text: what belongs to one Python line stands in one block."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from warp_audit.debugger.views import LEVELS, KernelView, ViewLine
from warp_audit.reports.style import Style, printable

_COLOURS = ("36", "33", "32", "35", "34", "31")
_WIDE = 120  # columns from which on the levels stand side by side
_TITLES = {"python": "Python", "ir": "IR", "ptx": "PTX", "sass": "SASS"}


def view_json(view: KernelView) -> dict[str, Any]:
    """The view with its links: the IR nodes of each line tie the levels together."""
    return {
        "kernel": view.title,
        "function": view.code.name,
        "pass": view.code.passed,
        "arch": view.unit.arch,
        **{
            level: [
                {"line": line.number, "text": line.text, "nodes": sorted(line.nodes)}
                | ({"file": line.file} if line.file else {})
                for line in view.levels[level]
            ]
            for level in LEVELS
        },
    }


def side_by_side(view: KernelView, width: int, style: Style) -> Iterator[str]:
    """The lines to print for a terminal of ``width`` columns."""
    yield style.bold(f"{view.title}   {view.code.name}")
    blocks = list(_blocks(view))
    if width < _WIDE:
        yield from _stacked(view, blocks, width, style)
        return
    widths = _widths(width)
    yield style.dim(" │ ".join(_TITLES[level].ljust(w) for level, w in zip(LEVELS, widths, strict=True)))
    yield style.dim("─┼─".join("─" * w for w in widths))
    for number, block in enumerate(blocks):
        colour = _COLOURS[number % len(_COLOURS)] if any(block[level] for level in LEVELS[1:]) else "2"
        for row in zip_longest(*(block[level] for level in LEVELS)):
            cells = [_cell(line, level, w) for line, level, w in zip(row, LEVELS, widths, strict=True)]
            yield " │ ".join(_paint(style, colour, cell) for cell in cells).rstrip()


def _blocks(view: KernelView) -> Iterator[dict[str, list[ViewLine]]]:
    """For each Python line its ops, PTX and SASS; what belongs to none comes last."""
    taken: dict[str, set[int]] = {level: set() for level in LEVELS}
    for line in view.levels["python"]:
        block: dict[str, list[ViewLine]] = {"python": [line]}
        for level in LEVELS[1:]:
            found = view.lines_of(level, line.nodes) if line.nodes else []
            found = [at for at in found if at not in taken[level]]
            taken[level].update(found)
            block[level] = [view.levels[level][at] for at in found]
        yield block
    rest: dict[str, list[ViewLine]] = {"python": []}
    for level in LEVELS[1:]:
        rest[level] = [
            line
            for at, line in enumerate(view.levels[level])
            if at not in taken[level] and (level != "ir" or line.nodes)
        ]
    if any(rest.values()):
        yield rest


def _widths(width: int) -> tuple[int, ...]:
    free = width - 3 * (len(LEVELS) - 1)
    shares = (0.30, 0.26, 0.22, 0.22)
    widths = [int(free * share) for share in shares]
    widths[0] += free - sum(widths)
    return tuple(widths)


def _label(line: ViewLine, level: str) -> str:
    if not line.number and level != "sass":
        return ""
    return f"{line.number:#06x}" if level == "sass" else f"{line.number:>4}"


def _cell(line: ViewLine | None, level: str, width: int) -> str:
    if line is None:
        return " " * width
    text = f"{_label(line, level)} {printable(line.text.expandtabs(4))}"
    return (text if len(text) <= width else text[: width - 1] + "…").ljust(width)


def _paint(style: Style, colour: str, text: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if style.on and text.strip() else text


def _stacked(view: KernelView, blocks: list[dict[str, list[ViewLine]]], width: int, style: Style) -> Iterator[str]:
    for number, block in enumerate(blocks):
        colour = _COLOURS[number % len(_COLOURS)] if any(block[level] for level in LEVELS[1:]) else "2"
        for level in LEVELS:
            for line in block[level]:
                mark = "" if level == "python" else f"    {_TITLES[level]:<4} "
                text = mark + _cell(line, level, width - len(mark)).rstrip()
                yield _paint(style, colour if level == "python" else "2" if level != "ir" else "0", text)

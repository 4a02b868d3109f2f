"""Carries out fixes on source text; what is not edited stays byte for byte as it was.

The rest of the project speaks of fixes as data (``audit.edits``). This package turns them into text with libcst,
which is loaded when the first fix is made and is used nowhere else. ``find`` looks up the nodes of a place,
``rewrite`` changes the tree, ``brackets`` knows where parentheses are needed, ``arguments`` edits calls.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Edit, Fix, InsertBefore, Place, Safety, SetKeyword, Wrap

if TYPE_CHECKING:
    from warp_audit.audit.fixes.rewrite import Source

_INSIDE = (Wrap, SetKeyword)
_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"


@dataclass(frozen=True)
class Applied:
    """What became of a text.

    Args:
        text: the text with the fixes that could be made.
        made: how many were made.
        left: those that were not, in the order given.
    """

    text: str
    made: int
    left: tuple[Fix, ...]


def apply(text: str, fixes: Sequence[Fix], *, in_bytes: bool = True) -> Applied:
    """The text with as many of the fixes as can be made at once.

    A fix is left if its place is not in the text, if it overlaps one that starts earlier, if it is safe but would
    lose a comment, or if the text would not be Python any more. The caller may lint again and come back with the rest.

    Args:
        text: a file's text, with any newlines and with or without a byte order mark.
        fixes: what to do.
        in_bytes: whether columns count UTF-8 bytes, as ``ast`` does, or characters.
    """
    if not fixes:
        return Applied(text, 0, ())
    bare = text.removeprefix(_BOM)
    source = _source(bare)
    if source is None:
        return Applied(text, 0, tuple(fixes))
    placed = [_in_characters(fix, source.lines) if in_bytes else fix for fix in fixes]
    possible = [number for number in _apart(placed) if source.can(placed[number])]
    made, result = _most(source, placed, possible, bare)
    left = tuple(fix for number, fix in enumerate(fixes) if number not in made)
    return Applied(text[: len(text) - len(bare)] + result, len(made), left)


def _source(text: str) -> Source | None:
    """The text as a tree; ``None`` if Python or libcst cannot read it."""
    if not _is_python(text):
        return None
    from warp_audit.audit.fixes.rewrite import Source

    return Source.read(text)


def _is_python(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _in_characters(fix: Fix, lines: list[str]) -> Fix:
    return replace(fix, edits=tuple(replace(edit, at=_characters(edit.at, lines)) for edit in fix.edits))


def _characters(at: Place, lines: list[str]) -> Place:
    from warp_audit.audit.source.text import characters

    def column(line: int, offset: int) -> int:
        return characters(lines[line - 1], offset) if 0 < line <= len(lines) else offset

    return Place(at.line, column(at.line, at.column), at.end_line, column(at.end_line, at.end_column))


def _apart(fixes: Sequence[Fix]) -> list[int]:
    """The numbers of fixes that do not overlap; of two that do, the first by position is kept."""
    order = sorted(range(len(fixes)), key=lambda number: _extent(fixes[number].edits))
    taken: list[Edit] = []
    kept = []
    for number in order:
        edits = fixes[number].edits
        if edits and not any(_overlap(one, other) for one in edits for other in taken):
            taken.extend(edits)
            kept.append(number)
    return kept


def _extent(edits: Sequence[Edit]) -> tuple[tuple[int, int], tuple[int, int]]:
    spans = [_span(edit) for edit in edits] or [((0, 0), (0, 0))]
    return min(span[0] for span in spans), max(span[1] for span in spans)


def _span(edit: Edit) -> tuple[tuple[int, int], tuple[int, int]]:
    at = edit.at
    start = (at.line, at.column)
    return start, start if isinstance(edit, InsertBefore) else (at.end_line, at.end_column)


def _overlap(one: Edit, other: Edit) -> bool:
    """Whether two edits of different fixes get in each other's way; the same insertion is made once for both."""
    if isinstance(one, InsertBefore) and one == other:
        return False
    (start, end), (other_start, other_end) = _span(one), _span(other)
    return (start == other_start and _clash(one, other)) or (start < other_end and other_start < end)


def _clash(one: Edit, other: Edit) -> bool:
    """Whether two edits that start together collide: an insertion only collides with what takes the statement."""
    if isinstance(one, InsertBefore) and isinstance(other, InsertBefore):
        return True
    return not (isinstance(one, InsertBefore) and isinstance(other, _INSIDE)) and not (
        isinstance(other, InsertBefore) and isinstance(one, _INSIDE)
    )


def _most(source: Source, fixes: Sequence[Fix], possible: list[int], text: str) -> tuple[set[int], str]:
    """The fixes that can be made together, found by halving, and the text with them."""
    good: list[int] = []
    result = text
    waiting = [possible]
    while waiting:
        tried = waiting.pop()
        if not tried:
            continue
        changed = source.changed([fixes[number] for number in sorted(good + tried)])
        if changed is not None and changed != result and _is_python(changed):
            good += tried
            result = changed
        elif len(tried) > 1:
            half = len(tried) // 2
            waiting += [tried[half:], tried[:half]]
    return set(good), result


__all__ = ["Applied", "Fix", "Safety", "apply"]

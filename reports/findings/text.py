"""Each finding with its line, what is meant in it, notes and the fix; for people."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from warp_audit.reports.findings._words import place, summary_line
from warp_audit.reports.style import printable

if TYPE_CHECKING:
    from warp_audit.audit.lint.report import Found, Report
    from warp_audit.reports.style import Style

_TAB = 4
_WIDEST = 160
"""Of longer lines only the part around what is meant is shown."""


def render(report: Report, style: Style) -> str:
    """The findings, and a closing line."""
    parts = [_finding(one, style) for one in report.found]
    return "\n".join([*parts, summary_line(report.found, report.summary) + "\n"])


def _finding(found: Found, style: Style) -> str:
    diagnostic = found.diagnostic
    head = f"{style.place(place(found))}: {style.bold(diagnostic.severity.value)}"
    lines = [f"{head} {style.bold(f'{diagnostic.code}[{diagnostic.rule}]')}: {printable(diagnostic.message)}"]
    number = str(found.cell[1] if found.cell else diagnostic.span.line)
    margin = " " * len(number)
    if found.excerpt.strip():
        lines += [
            f"  {style.dim(f'{number} |')} {text}" if row == 0 else f"  {style.dim(f'{margin} |')} {style.marked(text)}"
            for row, text in enumerate(excerpt(found))
        ]
    lines += [f"  {margin} {style.dim('= note:')} {printable(note)}" for note in diagnostic.notes]
    fix = diagnostic.fix
    if isinstance(fix, dict):
        tier = "" if fix["safety"] == "safe" else " (unsafe)"
        lines.append(f"  {margin} {style.dim('= fix:')} {printable(str(fix['title']))}{tier}")
    return "\n".join(lines) + "\n"


def excerpt(found: Found) -> tuple[str, str]:
    """A finding's line as a terminal shows it, and the carets under what is meant."""
    span = found.diagnostic.span
    line = found.excerpt.rstrip()
    start = min(span.column - 1, len(line))
    end = min(span.end_column - 1, len(line)) if span.end_line == span.line else len(line)
    end = max(end, start)
    if len(line) > _WIDEST:
        first = max(0, start - _WIDEST // 4)
        last = first + _WIDEST
        line = ("…" if first else "") + line[first:last] + ("…" if last < len(line) else "")
        moved = first - (1 if first else 0)
        start, end = start - moved, min(end - moved, len(line))
    shown, columns = "", [0]
    for character in line:
        if character == "\t":
            shown += " " * (_TAB - columns[-1] % _TAB)
            columns.append(columns[-1] + _TAB - columns[-1] % _TAB)
        else:
            shown += printable(character)
            columns.append(columns[-1] + _width(character))
    indent = min([len(shown) - len(shown.lstrip()), columns[start]])
    carets = " " * (columns[start] - indent) + "^" * max(columns[end] - columns[start], 1)
    return shown[indent:] if indent else shown, carets


def _width(character: str) -> int:
    """How many columns a terminal gives a character."""
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" and character.isprintable() else 1

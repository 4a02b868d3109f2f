"""Words and paths that several formats share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from warp_audit.reports.style import printable

if TYPE_CHECKING:
    from warp_audit.audit.lint.report import Found, Summary


def file_of(found: Found) -> str:
    """A finding's file relative to the working folder, with ``/``."""
    path, base = Path(found.diagnostic.span.file), Path.cwd()
    return (path.relative_to(base) if path.is_relative_to(base) else path).as_posix()


def place(found: Found) -> str:
    """``file:line:column``; in a notebook ``file:cell N:line:column``, with the line within the cell."""
    span = found.diagnostic.span
    at = f"cell {found.cell[0]}:{found.cell[1]}" if found.cell else str(span.line)
    return f"{printable(file_of(found))}:{at}:{span.column}"


def count(number: int, word: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def summary_line(found: tuple[Found, ...], summary: Summary) -> str:
    """The closing line."""
    files = count(summary.files, "file")
    if found:
        kinds = [
            count(number, word) if severity != "info" else f"{number} {word}"
            for severity, word in (("error", "error"), ("warning", "warning"), ("info", "info"))
            if (number := sum(one.diagnostic.severity.value == severity for one in found))
        ]  # fmt: skip
        head = f"Found {count(len(found), 'fault')} ({', '.join(kinds)}) in {files}"
    else:
        head = f"No faults found in {files}"
    more = [
        f"{number} {words}"
        for number, words in (
            (summary.fixed, "fixed"),
            (summary.suppressed, "suppressed"),
            (summary.debts, "to be mended (fixme)"),
            (summary.baselined, "in the baseline"),
        )
        if number
    ]
    line = "; ".join([head, *more]) + "."
    if summary.safe_fixes:
        line += f" {summary.safe_fixes} can be fixed with --fix"
        line += f", {summary.unsafe_fixes} more with --unsafe-fixes." if summary.unsafe_fixes else "."
    elif summary.unsafe_fixes:
        line += f" {summary.unsafe_fixes} can be fixed with --fix --unsafe-fixes."
    return line

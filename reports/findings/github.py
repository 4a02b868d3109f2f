"""Workflow commands that GitHub shows beside the lines of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warp_audit.reports.findings._words import file_of

if TYPE_CHECKING:
    from warp_audit.audit.lint.report import Found, Report
    from warp_audit.reports.style import Style

_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


def render(report: Report, style: Style) -> str:
    """A command a finding."""
    return "".join(_command(one) for one in report.found)


def _command(found: Found) -> str:
    diagnostic, span = found.diagnostic, found.diagnostic.span
    name = f"{diagnostic.code}[{diagnostic.rule}]"
    values = {
        "title": f"warp-audit {name}",
        "file": file_of(found),
    }
    if found.cell is None:  # the lines of a notebook's code are not those of its file
        values |= {"line": str(span.line), "endLine": str(span.end_line)}
    if found.cell is None and span.line == span.end_line:  # GitHub takes columns only within one line
        values |= {"col": str(span.column), "endColumn": str(span.end_column)}
    text = "\n".join([f"{name} {diagnostic.message}", *diagnostic.notes])
    properties = ",".join(f"{key}={_escape(value, property_=True)}" for key, value in values.items())
    return f"::{_LEVELS[diagnostic.severity.value]} {properties}::{_escape(text)}\n"


def _escape(text: str, property_: bool = False) -> str:
    """As the runner undoes it: a line break would end the command, a colon or comma the property."""
    text = text.encode("utf-8", "replace").decode()
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if property_ else text

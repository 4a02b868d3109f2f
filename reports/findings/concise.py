"""One line a finding: ``file:line:column: CODE[slug] message``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warp_audit.reports.findings._words import place
from warp_audit.reports.style import printable

if TYPE_CHECKING:
    from warp_audit.audit.lint.report import Report
    from warp_audit.reports.style import Style


def render(report: Report, style: Style) -> str:
    """The findings; nothing if there are none."""
    return "".join(
        f"{style.place(place(one))}: {style.bold(f'{one.diagnostic.code}[{one.diagnostic.rule}]')}"
        f" {printable(one.diagnostic.message)}\n"
        for one in report.found
    )

"""A JSON array, one object a finding; the machine format that others build on."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warp_audit.audit.lint.report import Report
    from warp_audit.reports.style import Style


def render(report: Report, style: Style) -> str:
    """The findings."""
    base = Path.cwd()
    return dumps([one.diagnostic.to_json(base) for one in report.found], indent=2) + "\n"

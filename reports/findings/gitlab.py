"""GitLab's Code Quality report."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from warp_audit.reports.findings._words import file_of

if TYPE_CHECKING:
    from warp_audit.audit.lint.report import Found, Report
    from warp_audit.reports.style import Style

_SEVERITIES = {"error": "critical", "warning": "major", "info": "minor"}


def render(report: Report, style: Style) -> str:
    """A JSON array, one object a finding."""
    return json.dumps([_issue(one) for one in report.found], indent=2) + "\n"


def _issue(found: Found) -> dict[str, Any]:
    diagnostic, span = found.diagnostic, found.diagnostic.span
    path = file_of(found)
    # GitLab wants fingerprints that differ between files.
    mark = hashlib.sha256(f"{path}\0{diagnostic.fingerprint}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    issue: dict[str, Any] = {
        "description": f"{diagnostic.code}[{diagnostic.rule}] {diagnostic.message}",
        "check_name": diagnostic.rule,
        "fingerprint": mark,
        "severity": _SEVERITIES[diagnostic.severity.value],
        "location": {
            "path": path,
            "positions": {
                "begin": {"line": span.line, "column": span.column},
                "end": {"line": span.end_line, "column": span.end_column},
            },
        },
    }
    if diagnostic.notes:
        issue["content"] = {"body": "\n\n".join(diagnostic.notes)}
    return issue

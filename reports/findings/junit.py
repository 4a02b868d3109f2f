"""JUnit's XML: a suite a file, a failed case a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from warp_audit.reports.findings._words import file_of, place
from warp_audit.reports.style import printable

if TYPE_CHECKING:
    from warp_audit.audit.lint.report import Found, Report
    from warp_audit.reports.style import Style


def render(report: Report, style: Style) -> str:
    """The XML document; a run without findings is one passed case, since some readers want at least one."""
    by_file: dict[str, list[Found]] = {}
    for one in report.found:
        by_file.setdefault(file_of(one), []).append(one)
    total = len(report.found)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="warp-audit" tests="{total or 1}" failures="{total}" errors="0">',
    ]
    for file, found in by_file.items():
        lines.append(
            f'  <testsuite name={_attribute(file)} tests="{len(found)}" failures="{len(found)}" errors="0" skipped="0">'
        )
        for one in found:
            lines += _case(file, one)
        lines.append("  </testsuite>")
    if not by_file:
        lines += [
            '  <testsuite name="warp-audit" tests="1" failures="0" errors="0" skipped="0">',
            '    <testcase name="no faults found" classname="warp-audit"/>',
            "  </testsuite>",
        ]
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _case(file: str, found: Found) -> list[str]:
    diagnostic, span = found.diagnostic, found.diagnostic.span
    body = "\n".join([f"{place(found)}: {diagnostic.message}", *diagnostic.notes])
    name = f"{diagnostic.code}[{diagnostic.rule}]:{span.line}:{span.column}"
    where = f'file={_attribute(file)} line="{span.line}"'
    told = f"type={_attribute(diagnostic.severity.value)} message={_attribute(diagnostic.message)}"
    return [
        f"    <testcase name={_attribute(name)} classname={_attribute(file)} {where}>",
        f"      <failure {told}>{escape(_clean(body))}</failure>",
        "    </testcase>",
    ]


def _attribute(text: str) -> str:
    return quoteattr(_clean(text))


def _clean(text: str) -> str:
    """Text without what XML cannot hold."""
    return "\n".join(printable(line) for line in text.split("\n"))

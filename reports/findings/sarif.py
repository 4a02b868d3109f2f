"""SARIF 2.1.0, for code scanning services."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from warp_audit import __version__

if TYPE_CHECKING:
    from warp_audit.audit.lint.known import Known
    from warp_audit.audit.lint.report import Found, Report
    from warp_audit.reports.style import Style

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_PRECISION = {"high": "very-high", "medium": "high", "low": "medium"}
_BASE = "%SRCROOT%"


def render(report: Report, style: Style) -> str:
    """The log: one run, every rule, and the findings. Columns count Unicode code points."""
    from warp_audit.audit.lint.known import known_rules

    rules = known_rules()
    index = {rule.code: number for number, rule in enumerate(rules)}
    driver = {
        "name": "warp-audit",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(rule) for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_BASE: {"uri": Path.cwd().as_uri() + "/"}},
        "results": [_result(one, index) for one in report.found],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: Known) -> dict[str, Any]:
    from warp_audit.reports.findings._help import help_of

    text, markdown = help_of(rule)
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.rule.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.summary},
        "help": {"text": text, "markdown": markdown},
        "defaultConfiguration": {"enabled": not rule.opt_in, "level": _LEVELS[rule.severity]},
        "properties": {
            "tags": ["warp", f"WPA{rule.code[3]}xx", *(["opt-in"] if rule.opt_in else [])],
            "precision": _PRECISION[rule.confidence],
            "problem.severity": {"info": "recommendation"}.get(rule.severity, rule.severity),
            "slug": rule.rule,
            "aliases": list(rule.aliases),
        },
    }


def _result(found: Found, index: dict[str, int]) -> dict[str, Any]:
    diagnostic, span = found.diagnostic, found.diagnostic.span
    text = ". ".join(part.rstrip(".") for part in (diagnostic.message, *diagnostic.notes)) + "."
    place: dict[str, Any] = {"artifactLocation": _artifact(span.file)}
    # The lines of a notebook's code are not those of its file, so only the file can be named.
    if found.cell is None:
        place["region"] = {
            "startLine": span.line,
            "startColumn": span.column,
            "endLine": span.end_line,
            "endColumn": span.end_column,
        }
        if found.excerpt.strip():
            line = found.excerpt.encode("utf-8", "replace").decode()
            place["contextRegion"] = {"startLine": span.line, "snippet": {"text": line}}
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "level": _LEVELS[diagnostic.severity.value],
        "message": {"text": text},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"warpAudit/v1": diagnostic.fingerprint},
        "properties": {"confidence": diagnostic.confidence.value, "evidence": diagnostic.evidence.value},
    }
    if diagnostic.code in index:
        result["ruleIndex"] = index[diagnostic.code]
    return result


def _artifact(file: str) -> dict[str, str]:
    """A file relative to the working folder where it lies below it."""
    path, base = Path(file), Path.cwd()
    if path.is_relative_to(base):
        return {"uri": quote(path.relative_to(base).as_posix(), errors="surrogateescape"), "uriBaseId": _BASE}
    return {"uri": path.as_uri()}

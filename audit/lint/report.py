"""What a run found, frozen, for the reporters."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

from warp_audit.diagnostic import Confidence, Diagnostic, Evidence, Severity, Span

_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class Found:
    """A finding in its place.

    Args:
        diagnostic: the finding; its file is an absolute path.
        excerpt: the first line of its span, as it stands in the file.
        anchors: the lines, from 1, on which a comment may suppress it.
        cell: for a notebook, the cell and the line in it, both from 1.
    """

    diagnostic: Diagnostic
    excerpt: str = ""
    anchors: tuple[int, ...] = ()
    cell: tuple[int, int] | None = None

    @property
    def order(self) -> tuple[str, int, int, str]:
        """Where it stands in a report."""
        span = self.diagnostic.span
        return span.file, span.line, span.column, self.diagnostic.code

    @property
    def fix_safety(self) -> str | None:
        """``safe`` or ``unsafe`` if there is a fix."""
        fix = self.diagnostic.fix
        return str(fix["safety"]) if isinstance(fix, dict) else None


@dataclass(frozen=True)
class Summary:
    """Counts of a run.

    Args:
        files: how many were linted, with or without Warp in them.
        lines: how many lines the files with Warp have.
        seconds: wall time.
        suppressed: findings that comments silence because they are wrong or accepted.
        debts: findings that comments silence as debt (``fixme``).
        baselined: findings that the baseline knows.
        stale: entries of the baseline that nothing matches any more.
        safe_fixes: findings that ``--fix`` would mend.
        unsafe_fixes: findings that ``--fix --unsafe-fixes`` would mend besides.
        fixed: fixes made in this run.
    """

    files: int = 0
    lines: int = 0
    seconds: float = 0.0
    suppressed: int = 0
    debts: int = 0
    baselined: int = 0
    stale: int = 0
    safe_fixes: int = 0
    unsafe_fixes: int = 0
    fixed: int = 0


@dataclass(frozen=True)
class Report:
    """Findings in order of place, and the counts around them."""

    found: tuple[Found, ...] = ()
    summary: Summary = field(default_factory=Summary)


def fingerprint(code: str, rule: str, source: str, function: str) -> str:
    """What a finding is, without its line: the rule, the code that it shows, the function around it."""
    parts = (code, rule, _SPACE.sub("", source), function)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def to_plain(found: Found) -> list[Any]:
    """A finding as plain data, for the cache and between processes."""
    d = found.diagnostic
    span = [d.span.file, d.span.line, d.span.column, d.span.end_line, d.span.end_column]
    words = [d.code, d.rule, d.severity.value, d.confidence.value, d.message, d.fingerprint]
    cell = list(found.cell) if found.cell else None
    return [words, span, list(d.notes), d.fix, found.excerpt, list(found.anchors), cell]


def from_plain(plain: list[Any]) -> Found:
    """The inverse of ``to_plain``."""
    (code, rule, severity, confidence, message, fingerprint), span, notes, fix, excerpt, anchors, cell = plain
    diagnostic = Diagnostic(
        code, rule, Severity(severity), Confidence(confidence), Evidence.SOURCE, message, Span(*span),
        fingerprint, tuple(notes), fix,
    )  # fmt: skip
    return Found(diagnostic, excerpt, tuple(anchors), tuple(cell) if cell else None)

"""One shape of complaint, for every source of findings and every output."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TypeAlias

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


class Severity(Enum):
    """How bad it is if the finding is right."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Confidence(Enum):
    """How likely the finding is right."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Evidence(Enum):
    """What the finding rests on."""

    SOURCE = "source"
    PROOF = "proof"
    SIMULATED = "simulated"
    RECORDED = "recorded"
    LOG = "log"


@dataclass(frozen=True)
class Span:
    """A stretch of a file. Lines and columns count from 1; ``end_column`` is the first one behind it."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __post_init__(self) -> None:
        start, end = (self.line, self.column), (self.end_line, self.end_column)
        if min(*start, *end) < 1 or end < start:
            raise ValueError(f"{self.file}: no span goes from {start} to {end}")


@dataclass(frozen=True)
class Diagnostic:
    """One finding.

    Args:
        code: the rule's stable code.
        rule: the rule's slug.
        severity: how bad it is.
        confidence: how likely it is right.
        evidence: what it rests on.
        message: one sentence that says what is wrong.
        span: where.
        fingerprint: the same for the same finding when lines above it move.
        notes: further sentences, in the order they are read.
        fix: what ``--fix`` would do, as JSON, if anything.
        witness: launch and values that show the fault, as JSON, if they are known.
    """

    code: str
    rule: str
    severity: Severity
    confidence: Confidence
    evidence: Evidence
    message: str
    span: Span
    fingerprint: str
    notes: tuple[str, ...] = ()
    fix: Json = None
    witness: Json = None

    def to_json(self, base: Path | None = None) -> dict[str, Json]:
        """The finding in the machine format: files relative to ``base``, the working directory unless said.

        A file outside ``base`` keeps its full path.
        """
        return {
            "code": self.code,
            "rule": self.rule,
            "severity": self.severity.value,
            "confidence": self.confidence.value,
            "evidence": self.evidence.value,
            "message": self.message,
            "file": _relative(self.span.file, base or Path.cwd()),
            "line": self.span.line,
            "column": self.span.column,
            "end_line": self.span.end_line,
            "end_column": self.span.end_column,
            "notes": list(self.notes),
            "fix": self.fix,
            "fingerprint": self.fingerprint,
        }


def _relative(file: str, base: Path) -> str:
    """POSIX form, so that reports made on different systems agree."""
    path = Path(file)
    return (path.relative_to(base) if path.is_relative_to(base) else path).as_posix()

"""One file: read, prefiltered, parsed, checked. What comes out is plain data, which processes and the cache share."""

from __future__ import annotations

import hashlib
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warp_audit.audit.lint import suppress
from warp_audit.audit.lint.files import may_use_warp
from warp_audit.audit.lint.known import Known, known_rules
from warp_audit.audit.lint.notebook import Notebook, read_notebook
from warp_audit.audit.lint.place import View, located, remarks, unreadable
from warp_audit.audit.lint.report import Found, to_plain
from warp_audit.audit.source.text import SourceProblem, decode

if TYPE_CHECKING:
    from warp_audit.audit.check import RuleFailed
    from warp_audit.audit.rule import Rule
    from warp_audit.audit.source.project import Project


@dataclass(frozen=True)
class Job:
    """What is the same for all files of a group: the codes that run, and the oldest Warp supported."""

    codes: frozenset[str]
    min_warp: tuple[int, int] | None


class Checker:
    """Checks files for one job; files that several others import are read once.

    Args:
        job: what runs.
        rules: every rule there is, by name.
    """

    def __init__(self, job: Job, rules: Sequence[Known] | None = None) -> None:
        from warp_audit.audit.catalogue import all_rules

        self.job = job
        self.lines = 0
        """How many lines it has read so far."""
        self.known = tuple(rules or known_rules())
        self.rules: list[type[Rule]] = [rule for rule in all_rules() if rule.code in job.codes]

    @cached_property
    def project(self) -> Project:
        """The files as they are reached from those that are checked."""
        from warp_audit.audit.source.project import Project

        return Project(self.job.min_warp)

    def file(self, path: str) -> dict[str, Any]:
        """Check a file on disk."""
        try:
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                data = file.read()
        except (OSError, ValueError) as wrong:
            return {"problem": f"cannot be read: {getattr(wrong, 'strerror', None) or wrong}"}
        outcome = self.data(path, data)
        outcome["seen"] = [status.st_mtime_ns, status.st_size, hashlib.sha256(data).hexdigest()]
        return outcome

    def data(self, path: str, data: bytes) -> dict[str, Any]:
        """Check what stands, or is to stand, in a file."""
        if not may_use_warp(data):
            return {}
        try:
            text = decode(data)
            notebook = read_notebook(text) if path.endswith(".ipynb") else None
        except SourceProblem as wrong:
            view = View(path, data.decode("utf-8", "replace"))
            return self._outcome(view, [unreadable(view, wrong.message, wrong.line, 1)])
        return self.text(path, notebook.text if notebook else text, notebook)

    def text(self, path: str, text: str, notebook: Notebook | None = None) -> dict[str, Any]:
        """Check a text with line feeds as line ends."""
        from warp_audit.audit.check import check

        view = View(path, text, notebook)
        self.lines += len(view.lines)
        failures: list[str] = []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the parser's: other tools speak of odd escapes
                module = view.module = self.project.load(Path(path), text)
            findings = check(module, self.rules, lambda failed: failures.append(_failure(failed)))
        except SyntaxError as wrong:
            message, line, column = f"Python cannot read this: {wrong.msg}", wrong.lineno or 1, wrong.offset or 1
            return self._outcome(view, [unreadable(view, message, line, column)])
        except (RecursionError, MemoryError):
            return self._outcome(view, [unreadable(view, "the code is nested too deeply to be checked", 1, 1)])
        except ValueError as wrong:
            return self._outcome(view, [unreadable(view, f"Python cannot read this: {wrong}", 1, 1)])
        views = {module: view}
        found = []
        for finding in findings:
            other = finding.module
            if other not in views:
                views[other] = View(os.path.abspath(other.path), other.text)
                views[other].module = other
            found.append(located(views[other], finding))
        comments = suppress.read(text, self.known)
        outcome = self._outcome(view, [*found, *remarks(view, comments)])
        outcome["comments"] = [
            [one.to_plain(), view.line(one.place[0]), view.cell(one.place[0])] for one in comments.suppressions
        ]
        outcome["elsewhere"] = {
            one.path: [[each.to_plain(), "", None] for each in suppress.read(module.text, self.known).suppressions]
            for module, one in views.items()
            if one is not view
        }
        outcome["needs"] = {os.path.abspath(needed): sha for needed, sha in sorted(module.dependencies.items())}
        if failures:
            outcome["failures"] = failures
        return outcome

    def _outcome(self, view: View, found: list[Found]) -> dict[str, Any]:
        asked = [to_plain(one) for one in found if one.diagnostic.code in self.job.codes]
        return {"lines": len(view.lines), "found": asked}


def _failure(failed: RuleFailed) -> str:
    """A rule's bug in one sentence, with the line of ours that it came from; called while it is handled."""
    cause = sys.exc_info()[1]
    if cause is not None and os.environ.get("WARP_AUDIT_TRACEBACK"):
        traceback.print_exception(cause)
    frames = traceback.extract_tb(cause.__traceback__) if cause is not None else []
    where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{failed}{where}"


def crashed(job: Job, path: str) -> dict[str, Any]:
    """The outcome of a file that brings Python itself down."""
    view = View(path, "")
    found = [unreadable(view, "Python itself crashes on this file", 1, 1)]
    return {"lines": 0, "found": [to_plain(one) for one in found if one.diagnostic.code in job.codes]}

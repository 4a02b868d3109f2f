"""A whole run: files found, what the cache knows left alone, the rest checked, everything weighed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from warp_audit.audit.lint import files
from warp_audit.audit.lint.baseline import Baseline
from warp_audit.audit.lint.cache import Cache, signature
from warp_audit.audit.lint.config import Configuration
from warp_audit.audit.lint.known import Known, known_rules
from warp_audit.audit.lint.report import Found, Report, Summary
from warp_audit.audit.lint.selection import Selection
from warp_audit.audit.lint.settings import Settings
from warp_audit.audit.lint.weigh import Weighed, weigh
from warp_audit.errors import BadInput

CACHE = os.path.join(".warp-audit", "cache")
"""Where caches are kept, below the folder of the settings."""


@dataclass(frozen=True)
class Options:
    """How a run goes about it; none of this changes what is found.

    Args:
        jobs: how many processes at most; ``None`` for as many as there are processors.
        cache: whether outcomes are kept between runs.
        cache_dir: where, instead of below each folder of settings.
        suppressions: whether comments are heeded.
        baselines: whether baselines are.
        force_exclude: whether files that are given can be left out by a pattern.
        progress: called with how many files of how many are done.
    """

    jobs: int | None = None
    cache: bool = True
    cache_dir: str | None = None
    suppressions: bool = True
    baselines: bool = True
    force_exclude: bool = False
    progress: Callable[[int, int], None] = lambda done, of: None


@dataclass
class Result:
    """What came of a run.

    Args:
        weighed: the findings by what becomes of them.
        summary: counts.
        problems: what could not be read, a sentence each.
        failures: our own bugs, a sentence each.
    """

    weighed: Weighed
    summary: Summary
    problems: list[BadInput] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def report(self) -> Report:
        """What is shown."""
        return Report(tuple(self.weighed.found), self.summary)


class Linter:
    """Runs with one configuration. Settings, caches and baselines are read once for each folder of settings."""

    def __init__(self, configuration: Configuration, options: Options | None = None) -> None:
        self.configuration = configuration
        self.options = options or Options()
        self._rules: tuple[Known, ...] | None = None
        self._signature: str | None = None
        self._selections: dict[Settings, Selection] = {}
        self._caches: dict[Settings, Cache] = {}
        self._baselines: dict[str, Baseline | None] = {}

    def settings_of(self, path: str) -> Settings:
        """The settings that hold for a file."""
        return self.configuration.of(os.path.dirname(path))

    def selection_of(self, path: str) -> Selection:
        """The rules that run on a file."""
        settings = self.settings_of(path)
        found = self._selections.get(settings)
        if found is None:
            known = self._cache(settings).known
            if known is None:
                known = self.rules
            found = self._selections[settings] = Selection(settings, known)
        return found

    @property
    def rules(self) -> tuple[Known, ...]:
        """Every rule there is, which loads them."""
        if self._rules is None:
            self._rules = known_rules()
        return self._rules

    def _cache(self, settings: Settings) -> Cache:
        found = self._caches.get(settings)
        if found is None:
            folder = self.options.cache_dir or os.path.join(settings.root, CACHE)
            if not self.options.cache:
                found = Cache(None, "")
            else:
                if self._signature is None:
                    self._signature = signature()
                wanted = (settings.names(), settings.min_warp, settings.all_rules)
                found = Cache(folder, f"{self._signature} {wanted!r}")
            self._caches[settings] = found
        return found

    def baseline_of(self, path: str) -> Baseline | None:
        """The baseline that holds for a file."""
        if not self.options.baselines:
            return None
        name = self.settings_of(path).baseline
        if name is None:
            return None
        if name not in self._baselines:
            self._baselines[name] = Baseline.read(name)
        return self._baselines[name]

    def find(self, paths: Iterable[str]) -> files.Files:
        """The files that are to be linted."""
        return files.find(paths, lambda folder: self.configuration.of(folder).exclusion, self.options.force_exclude)

    def run(self, paths: Sequence[str]) -> Result:
        """Lint files and folders.

        Raises:
            BadInput: the settings have a fault.
        """
        started = time.perf_counter()
        found = self.find(paths)
        outcomes: dict[str, dict[str, Any]] = {}
        missing: list[str] = []
        for path in found.paths:
            outcome = self._cache(self.settings_of(path)).get(path)
            if outcome is None:
                missing.append(path)
            else:
                outcomes[path] = outcome
        for path in found.paths:
            self.selection_of(path)  # faults of the settings come before any finding
            self.baseline_of(path)
        problems = list(found.problems)
        if missing:
            outcomes.update(self._check(missing, problems))
        for settings, cache in self._caches.items():
            cache.save(self._selections[settings].rules if settings in self._selections else self.rules)
        asked = [os.path.join(path, "") for path in map(os.path.abspath, paths) if os.path.isdir(path)]
        return self._result(outcomes, problems, started, asked)

    def _check(self, paths: list[str], problems: list[BadInput]) -> dict[str, dict[str, Any]]:
        from warp_audit.audit.lint.pool import check_all
        from warp_audit.audit.lint.work import Job

        tasks = [(Job(self.selection_of(path).codes, self.settings_of(path).min_warp), path) for path in paths]
        total = len(tasks)
        checked = check_all(tasks, self.rules, self.options.jobs, lambda done: self.options.progress(done, total))
        outcomes = {}
        for path, outcome in sorted(checked.items()):
            if "problem" in outcome:
                problems.append(BadInput(outcome["problem"], where=path))
                continue
            seen = outcome.pop("seen", None)
            if seen is not None and "failures" not in outcome:
                self._cache(self.settings_of(path)).put(path, outcome, seen)
            outcomes[path] = outcome
        return outcomes

    def check_data(self, path: str, data: bytes) -> Result:
        """Lint what is to stand in a file, whatever stands there now: standard input, an editor's buffer, a fix."""
        from warp_audit.audit.lint.work import Checker, Job

        started = time.perf_counter()
        selection = self.selection_of(path)
        checker = Checker(Job(selection.codes, selection.settings.min_warp), self.rules)
        return self._result({path: checker.data(path, data)}, [], started)

    def _result(
        self,
        outcomes: dict[str, dict[str, Any]],
        problems: list[BadInput],
        started: float,
        asked: Iterable[str] = (),
    ) -> Result:
        weighed = weigh(outcomes, self.selection_of, self.options.suppressions, self.baseline_of, asked)
        failures = [failure for _, outcome in sorted(outcomes.items()) for failure in outcome.get("failures", ())]
        tiers = [one.fix_safety for one in weighed.found if self.may_fix(one)]
        summary = Summary(
            files=len(outcomes),
            lines=sum(outcome.get("lines", 0) for outcome in outcomes.values()),
            seconds=time.perf_counter() - started,
            suppressed=len(weighed.suppressed),
            debts=len(weighed.debts),
            baselined=len(weighed.baselined),
            stale=sum(sum(stale.values()) for stale in weighed.stale.values()),
            safe_fixes=tiers.count("safe"),
            unsafe_fixes=tiers.count("unsafe"),
        )
        return Result(weighed, summary, problems, failures)

    def may_fix(self, found: Found) -> bool:
        """Whether a finding has a fix that the settings allow."""
        diagnostic = found.diagnostic
        file = diagnostic.span.file
        if found.fix_safety is None or file.endswith(".ipynb"):
            return False
        return diagnostic.code in self.selection_of(file).fixable


def with_fixed(summary: Summary, fixed: int) -> Summary:
    """A summary that counts the fixes made before."""
    return replace(summary, fixed=fixed)

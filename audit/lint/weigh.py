"""What the outcomes of many files come to: each finding once, less what comments and the baseline silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from warp_audit.audit.lint.baseline import Baseline, Key
from warp_audit.audit.lint.known import UNUSED
from warp_audit.audit.lint.report import Found, fingerprint, from_plain
from warp_audit.audit.lint.selection import Selection
from warp_audit.audit.lint.suppress import Suppression
from warp_audit.diagnostic import Confidence, Diagnostic, Evidence, Severity, Span


@dataclass
class Weighed:
    """Findings by what becomes of them, each list in order of place."""

    found: list[Found] = field(default_factory=list)
    suppressed: list[Found] = field(default_factory=list)
    debts: list[Found] = field(default_factory=list)
    baselined: list[Found] = field(default_factory=list)
    stale: dict[str, Counter[Key]] = field(default_factory=dict)
    baselines: dict[str, Baseline] = field(default_factory=dict)


def weigh(
    outcomes: Mapping[str, Mapping[str, Any]],
    selection_of: Callable[[str], Selection],
    suppressions: bool = True,
    baseline_of: Callable[[str], Baseline | None] = lambda _: None,
    asked: Iterable[str] = (),
) -> Weighed:
    """Put the outcomes of files together.

    Args:
        outcomes: by file.
        selection_of: what is selected for a file.
        suppressions: whether comments are heeded.
        baseline_of: the baseline of a file.
        asked: names of files in the folders that were asked for: their baselines are judged even if nothing is left
            in the folders.
    """
    weighed = Weighed()
    found = _numbered(_unique(outcomes, selection_of))
    if suppressions:
        found = _heed(found, outcomes, selection_of, weighed)
    by_baseline: dict[str, list[Found]] = {}
    for one in found:
        baseline = baseline_of(one.diagnostic.span.file)
        if baseline is None:
            weighed.found.append(one)
        else:
            weighed.baselines[baseline.path] = baseline
            by_baseline.setdefault(baseline.path, []).append(one)
    linted: dict[str, list[str]] = {}
    for path in (*outcomes, *asked):
        baseline = baseline_of(path)
        if baseline is not None:
            weighed.baselines[baseline.path] = baseline
            linted.setdefault(baseline.path, []).append(path)
    for path, baseline in weighed.baselines.items():
        own = by_baseline.get(path, [])
        new, known = baseline.split(own)
        weighed.found += new
        weighed.baselined += known
        files = linted.get(path, [])
        codes = frozenset[str]().union(*{selection_of(file).codes for file in files})
        stale = baseline.stale(own, files, codes)
        if stale:
            weighed.stale[path] = stale
    weighed.found.sort(key=lambda one: one.order)
    weighed.baselined.sort(key=lambda one: one.order)
    return weighed


def _unique(outcomes: Mapping[str, Mapping[str, Any]], selection_of: Callable[[str], Selection]) -> list[Found]:
    """Every finding that is wanted where it stands, once, by place."""
    found: dict[tuple[Any, ...], Found] = {}
    ignored: dict[str, frozenset[str]] = {}
    for path in sorted(outcomes):
        for plain in outcomes[path].get("found", ()):
            one = from_plain(plain)
            file, code = one.diagnostic.span.file, one.diagnostic.code
            if file not in ignored:
                selection = selection_of(file)
                ignored[file] = selection.ignored_in(file)
                if file not in outcomes and selection.settings.exclusion.passes_over_given(file):
                    ignored[file] = selection.codes
            if code not in ignored[file]:
                found.setdefault((one.diagnostic.span, code), one)
    return sorted(found.values(), key=lambda one: one.order)


def _numbered(found: list[Found]) -> list[Found]:
    """Findings of a file that look the same get different fingerprints, in the order in which they stand."""
    seen: Counter[tuple[str, str]] = Counter()
    numbered = []
    for one in found:
        diagnostic = one.diagnostic
        key = (diagnostic.span.file, diagnostic.fingerprint)
        seen[key] += 1
        if seen[key] > 1:
            one = replace(one, diagnostic=replace(diagnostic, fingerprint=f"{diagnostic.fingerprint}-{seen[key]}"))
        numbered.append(one)
    return numbered


def _heed(
    found: list[Found],
    outcomes: Mapping[str, Mapping[str, Any]],
    selection_of: Callable[[str], Selection],
    weighed: Weighed,
) -> list[Found]:
    """The findings that no comment silences, and one for each comment that silences nothing."""
    written = _comments(outcomes)
    comments = {file: [one.suppression for one in ones] for file, ones in written.items()}
    used: set[tuple[str, tuple[int, int, int], str]] = set()
    left = []
    for one in found:
        diagnostic = one.diagnostic
        file, line = diagnostic.span.file, diagnostic.span.line
        fitting = [each for each in comments.get(file, ()) if each.covers(diagnostic.code, line, one.anchors)]
        used.update((file, each.place, diagnostic.code) for each in fitting)
        if not fitting:
            left.append(one)
        elif all(each.debt for each in fitting):
            weighed.debts.append(one)
        else:
            weighed.suppressed.append(one)
    for file in sorted(comments):
        if file not in outcomes:
            continue
        selection = selection_of(file)
        running = selection.codes - selection.ignored_in(file)
        if UNUSED.code not in running:
            continue
        for one_written in written[file]:
            each = one_written.suppression
            idle = [
                name
                for name, codes in each.names
                if running.issuperset(codes) and not any((file, each.place, code) in used for code in codes)
            ]  # fmt: skip
            if idle:
                one = _unused(file, one_written, idle)
                quiet = any(other.covers(UNUSED.code, each.place[0], ()) for other in comments[file])
                (weighed.suppressed if quiet else left).append(one)
    return sorted(left, key=lambda one: one.order)


@dataclass(frozen=True)
class _Written:
    """A suppression as it stands in its file."""

    suppression: Suppression
    excerpt: str
    cell: tuple[int, int] | None


def _comments(outcomes: Mapping[str, Mapping[str, Any]]) -> dict[str, list[_Written]]:
    plain: dict[str, list[Any]] = {}
    for outcome in outcomes.values():
        plain.update(outcome.get("elsewhere", {}))
    plain.update({path: outcome["comments"] for path, outcome in outcomes.items() if outcome.get("comments")})
    return {
        path: [
            _Written(Suppression.from_plain(one), excerpt, tuple(cell) if cell else None)
            for one, excerpt, cell in comments
        ]
        for path, comments in plain.items()
        if comments
    }  # fmt: skip


def _unused(file: str, written: _Written, names: list[str]) -> Found:
    comment = written.suppression
    line, column, end_column = comment.place
    what = ", ".join(names)
    where = {"line": "here", "range": "between here and its end", "file": "in this file"}[comment.scope]
    diagnostic = Diagnostic(
        UNUSED.code, UNUSED.rule, Severity(UNUSED.severity), Confidence(UNUSED.confidence), Evidence.SOURCE,
        f"{what} finds nothing {where}, so there is nothing to suppress", Span(file, line, column, line, end_column),
        fingerprint(UNUSED.code, UNUSED.rule, what, ""),
    )  # fmt: skip
    return Found(diagnostic, written.excerpt, (line,), written.cell)

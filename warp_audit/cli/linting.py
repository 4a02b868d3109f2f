"""What ``lint`` does with its findings: print, fix, write them down, watch."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from warp_audit.audit.lint.config import Configuration
from warp_audit.audit.lint.run import Linter, Options, Result, with_fixed
from warp_audit.cli import report as report_error
from warp_audit.errors import BadInput, BrokenPromise, WarpAuditError
from warp_audit.reports.style import Style, printable

if TYPE_CHECKING:
    from warp_audit.audit.lint.baseline import Baseline
    from warp_audit.audit.lint.fixing import Rewritten

Configure = Callable[[], "tuple[Configuration, Options]"]

_RANK = {"error": 2, "warning": 1, "info": 0}
_POLL = 0.5
"""Seconds between two looks at the files."""


def once(arguments: argparse.Namespace, configure: Configure) -> int:
    """One run over files and folders."""
    paths = arguments.paths or ["."]
    linter = Linter(*configure())
    result = linter.run(paths)
    if arguments.write_baseline is not None:
        return _write_baseline(arguments, result)
    if arguments.add_ignore is not None:
        return _add_ignores(arguments, result)
    if arguments.fix or arguments.fix_only or arguments.diff:
        changes = _mend(arguments, linter, result)
        if arguments.diff:
            return max(_troubles(result), int(any(change.changed for change in changes)))
        fixed = sum(change.made for change in changes)
        if arguments.fix_only:
            _say(arguments, f"{fixed} fixed in {sum(change.changed for change in changes)} files")
            return _troubles(result)
        if fixed:
            result = Linter(*configure()).run(paths)
            result.summary = with_fixed(result.summary, fixed)
    _stale(arguments, result)
    _print(arguments, result)
    return _exit_code(arguments, result)


def _exit_code(arguments: argparse.Namespace, result: Result) -> int:
    least = _RANK[arguments.fail_on]
    failing = any(_RANK[one.diagnostic.severity.value] >= least for one in result.weighed.found)
    return max(_troubles(result), int(failing and not arguments.exit_zero))


def _troubles(result: Result) -> int:
    """Say what could not be read and what of ours failed; the exit code for it."""
    for problem in result.problems:
        report_error(problem)
    for failure in result.failures:
        report_error(
            BrokenPromise(failure, hint="this is our bug, please report it; the other rules and files went on")
        )
    if result.failures:
        return BrokenPromise.exit_code
    return BadInput.exit_code if result.problems else 0


def _print(arguments: argparse.Namespace, result: Result, stream: TextIO | None = None) -> None:
    text = _rendered(arguments, result, stream)
    if arguments.output:
        from warp_audit.audit.lint.fixing import replace_file

        replace_file(arguments.output, text.encode("utf-8", "backslashreplace"))
    else:
        (stream or sys.stdout).write(text)


def _rendered(arguments: argparse.Namespace, result: Result, stream: TextIO | None) -> str:
    from warp_audit.reports.findings import render

    if arguments.statistics:
        return _statistics(arguments, result)
    style = Style(stream)
    style.on = style.on and not arguments.output
    text = render(arguments.format, result.report, style)
    if arguments.quiet and arguments.format == "text":
        # The closing line is for those who want to hear that all is well.
        text = text[: text.rstrip("\n").rfind("\n") + 1] if result.weighed.found else ""
    return text


def _statistics(arguments: argparse.Namespace, result: Result) -> str:
    counts = Counter((one.diagnostic.code, one.diagnostic.rule) for one in result.weighed.found)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if arguments.format == "json":
        return json.dumps([{"code": code, "rule": rule, "count": n} for (code, rule), n in ranked], indent=2) + "\n"
    width = len(str(ranked[0][1])) if ranked else 1
    return "".join(f"{count:>{width}}  {code}  {rule}\n" for (code, rule), count in ranked)


def _say(arguments: argparse.Namespace, text: str) -> None:
    if not arguments.quiet:
        print(printable(text), file=sys.stderr)


# Fixes


def _mend(arguments: argparse.Namespace, linter: Linter, result: Result) -> list[Rewritten]:
    from warp_audit.audit.lint.files import relative
    from warp_audit.audit.lint.fixing import files_to_mend, mend, read_file

    changes = []
    for path in files_to_mend(linter, result.weighed.found, arguments.unsafe_fixes):
        text = read_file(path)
        if text is None:
            continue
        change = mend(linter, path, text, arguments.unsafe_fixes)
        changes.append(change)
        if arguments.diff:
            sys.stdout.write(change.diff(relative(path, os.getcwd())))
        elif change.changed:
            change.write()
    return changes


def standard_input(arguments: argparse.Namespace, configuration: Configuration, options: Options) -> int:
    """Lint standard input; with ``--fix`` the mended text goes to standard output and findings to standard error."""
    path = os.path.abspath(arguments.stdin_filename or "<stdin>")
    data = sys.stdin.buffer.read()
    linter = Linter(configuration, options)
    fixing = arguments.fix or arguments.fix_only or arguments.diff
    excluded = linter.settings_of(path).exclusion.passes_over_given(path)
    if arguments.force_exclude and excluded:
        data, original = b"", data
    else:
        original = data
    result = linter.check_data(path, data)
    if not fixing:
        _print(arguments, result)
        return _exit_code(arguments, result)
    from warp_audit.audit.lint.fixing import mend
    from warp_audit.audit.source.text import SourceProblem, read_text

    try:
        text = read_text(data)
    except SourceProblem:
        text = None
    change = mend(linter, path, text, arguments.unsafe_fixes) if text and data else None
    if arguments.diff:
        if change:
            sys.stdout.write(change.diff(arguments.stdin_filename or "stdin"))
        return max(_troubles(result), int(change is not None and change.changed))
    after = change.before.encode(change.after) if change else original
    sys.stdout.flush()
    sys.stdout.buffer.write(after)
    sys.stdout.buffer.flush()
    result = linter.check_data(path, after if change else data)
    if arguments.fix_only:
        return _troubles(result)
    result.summary = with_fixed(result.summary, change.made if change else 0)
    _print(arguments, result, sys.stderr)
    return _exit_code(arguments, result)


# What is known already


def _write_baseline(arguments: argparse.Namespace, result: Result) -> int:
    from warp_audit.audit.lint.baseline import Baseline

    baseline = Baseline.of(arguments.write_baseline, result.weighed.found)
    _save(baseline)
    _say(arguments, f"{len(result.weighed.found)} findings written to {arguments.write_baseline}")
    return _troubles(result)


def _save(baseline: Baseline) -> None:
    from warp_audit.audit.lint.fixing import replace_file

    replace_file(baseline.path, baseline.to_text().encode())


def _stale(arguments: argparse.Namespace, result: Result) -> None:
    """Say which entries of baselines match nothing any more, or take them out."""
    from warp_audit.audit.lint.files import relative

    for path, stale in sorted(result.weighed.stale.items()):
        name = relative(path, os.getcwd())
        count = sum(stale.values())
        if arguments.prune_baseline:
            _save(result.weighed.baselines[path].without(stale))
            _say(arguments, f"{name}: {count} stale entries taken out")
            continue
        for key, times in sorted(stale.items()):
            _say(arguments, f"{name}: stale: {key}" + (f" ({times} times)" if times > 1 else ""))
        _say(arguments, f"{name}: {count} stale entries; --prune-baseline takes them out")


def _add_ignores(arguments: argparse.Namespace, result: Result) -> int:
    from warp_audit.audit.lint.add_ignore import add_ignores
    from warp_audit.audit.lint.fixing import read_file

    by_file: dict[str, list[object]] = {}
    for one in result.weighed.found:
        by_file.setdefault(one.diagnostic.span.file, []).append(one)
    made, left = 0, []
    for path in by_file:
        found = [one for one in result.weighed.found if one.diagnostic.span.file == path]
        text = (
            None
            if path.endswith(".ipynb") or any(one.diagnostic.code == "WPA900" for one in found)
            else read_file(path)
        )
        if text is None:
            left += found
            continue
        change, rest = add_ignores(path, text, found, arguments.add_ignore)
        left += rest
        made += change.made
        if change.changed:
            change.write()
    _say(arguments, f"{made} comments written")
    if left:
        result.weighed.found = left
        _print(arguments, result)
    return max(_troubles(result), int(bool(left)))


# Looking only


def show(arguments: argparse.Namespace, configuration: Configuration, options: Options) -> int:
    """Print settings or files."""
    linter = Linter(configuration, options)
    paths = arguments.paths or ["."]
    if arguments.show_files:
        found = linter.find(paths)
        for path in found.paths:
            print(printable(path))
        for problem in found.problems:
            report_error(problem)
        return BadInput.exit_code if found.problems else 0
    shown = []
    for given in paths:
        path = os.path.abspath(given)
        inside = os.path.join(path, "x.py") if os.path.isdir(path) else path
        settings = linter.settings_of(inside).to_json()
        shown.append({"path": given, **settings, "rules": sorted(linter.selection_of(inside).codes)})
    print(json.dumps(shown, indent=2))
    return 0


def progress(quiet: bool) -> Callable[[int, int], None]:
    """Counts files on standard error while a person waits there."""
    started = time.monotonic()
    if quiet or not sys.stderr.isatty():
        return lambda done, of: None

    def tell(done: int, of: int) -> None:
        if time.monotonic() - started > 0.5:
            sys.stderr.write(f"\r{done} of {of} files" if done < of else "\r\x1b[K")
            sys.stderr.flush()

    return tell


def watch(arguments: argparse.Namespace, configure: Configure) -> int:
    """Lint again whenever a file changes, comes or goes, until interrupted."""
    seen: dict[str, int] | None = None
    try:
        while True:
            now = _state(arguments, configure)
            if now != seen:
                seen = now
                if sys.stdout.isatty():
                    sys.stdout.write("\x1b[2J\x1b[H")
                try:
                    once(arguments, configure)
                except WarpAuditError as wrong:
                    report_error(wrong)
                _say(arguments, "waiting for changes; Ctrl-C ends")
                sys.stdout.flush()
                if arguments.fix or arguments.fix_only or arguments.add_ignore is not None:
                    seen = _state(arguments, configure)  # our own changes are none
            time.sleep(_POLL)
    except KeyboardInterrupt:
        return 0


def _state(arguments: argparse.Namespace, configure: Configure) -> dict[str, int]:
    """When each file changed last."""
    state: dict[str, int] = {}
    try:
        linter = Linter(*configure())
        for path in linter.find(arguments.paths or ["."]).paths:
            settings = linter.settings_of(path)
            for one in filter(None, (path, settings.source, settings.baseline)):
                state[one] = _changed(one)
    except WarpAuditError as wrong:
        # The configuration is at fault: its own change is waited for.
        for name in ("pyproject.toml", "warp-audit.toml", arguments.config or ""):
            state[name] = _changed(name)
        state[str(wrong)] = 0
    return state


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0

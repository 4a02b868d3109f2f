"""Find faults in Warp kernels, launches and the code around them, in source text alone.

A PATH is a file or a folder; `-` is standard input. Nothing of yours is imported, and neither Warp nor a GPU is
needed. Settings come from [tool.warp-audit] in the nearest pyproject.toml, or from warp-audit.toml.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from warp_audit.errors import BadInput

if TYPE_CHECKING:
    from warp_audit.audit.lint.config import Configuration
    from warp_audit.audit.lint.run import Options
    from warp_audit.audit.lint.settings import Overrides

SUMMARY = "find faults in source text, without running or importing it"
EPILOG = """\
RULE is a code (WPA101), the start of one (WPA1), a rule's name or another name of it, or ALL.

examples:
  warp-audit lint                               the working folder
  warp-audit lint sim/ --fix --diff             what --fix would change
  warp-audit lint --select WPA4 --format concise
  warp-audit lint --write-baseline lint.json    accept today's findings, report tomorrow's
  warp-audit lint - --stdin-filename sim.py < sim.py

Exit codes: 0 nothing found, 1 findings, 2 something could not be read, 4 our bug.
"""


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from warp_audit.reports.findings import format_names

    parser.add_argument("paths", nargs="*", metavar="PATH", help="a file, a folder, or - (default: the working folder)")
    rules = parser.add_argument_group("which rules")
    for option, text in (
        ("--select", "the rules that run, instead of what the settings select and ignore"),
        ("--ignore", "rules that do not run"),
        ("--extend-select", "rules that run besides"),
        ("--extend-ignore", "rules that do not run besides"),
    ):
        rules.add_argument(option, action="append", metavar="RULE,…", help=text)
    rules.add_argument(
        "--per-file-ignores", action="append", metavar="PATTERN:RULE,…", help="rules that do not run on some files"
    )
    rules.add_argument("--all-rules", action="store_true", help="the opt-in rules too")
    rules.add_argument("--min-warp", metavar="X.Y", help="the oldest Warp that the project supports")
    rules.add_argument("--ignore-suppressions", action="store_true", help="report what comments suppress, too")

    which = parser.add_argument_group("which files")
    which.add_argument("--exclude", action="append", metavar="PATTERN,…", help="pass these over, instead of the usual")
    which.add_argument("--extend-exclude", action="append", metavar="PATTERN,…", help="pass these over, too")
    which.add_argument("--force-exclude", action="store_true", help="pass them over also when they are given")
    which.add_argument("--stdin-filename", metavar="FILE", help="what standard input is called")

    settings = parser.add_argument_group("settings")
    settings.add_argument("--config", metavar="FILE", help="read this file instead of the nearest")
    settings.add_argument("--isolated", action="store_true", help="read no configuration file")
    settings.add_argument(
        "--show-settings", action="store_true", help="print the settings of each PATH as JSON, and end"
    )
    settings.add_argument("--show-files", action="store_true", help="print which files would be linted, and end")

    output = parser.add_argument_group("output")
    output.add_argument(
        "--format", "--output-format", default="text", choices=format_names(), help="how findings are written"
    )
    output.add_argument("-o", "--output", metavar="FILE", help="write them there")
    output.add_argument("--statistics", action="store_true", help="how many findings each rule has, instead of them")
    output.add_argument("-q", "--quiet", action="store_true", help="findings only")
    output.add_argument("--exit-zero", action="store_true", help="findings do not make the exit code 1")
    output.add_argument(
        "--fail-on", choices=("error", "warning", "info"), default="info",
        help="the least severity that makes the exit code 1 (default: info)",
    )  # fmt: skip

    fixes = parser.add_argument_group("fixes")
    fixes.add_argument("--fix", action="store_true", help="mend what can be mended without changing what it means")
    fixes.add_argument("--unsafe-fixes", action="store_true", help="with --fix, also where the meaning may change")
    fixes.add_argument("--fix-only", action="store_true", help="fix, and do not report what is left")
    fixes.add_argument("--diff", action="store_true", help="print what --fix would change, and change nothing")

    known = parser.add_argument_group("known findings")
    known.add_argument("--baseline", metavar="FILE", help="do not report the findings in this file")
    known.add_argument("--write-baseline", metavar="FILE", help="write the findings of this run to a file")
    known.add_argument("--prune-baseline", action="store_true", help="take out of the baseline what is found no more")
    known.add_argument(
        "--add-ignore", nargs="?", const="", metavar="REASON", help="write a suppressing comment for each finding"
    )

    running = parser.add_argument_group("running")
    running.add_argument("--jobs", "-j", type=int, metavar="N", help="how many processes (default: one a processor)")
    running.add_argument("--no-cache", action="store_true", help="neither read nor write the cache")
    running.add_argument("--cache-dir", metavar="DIR", help="keep the cache there (default: .warp-audit/cache)")
    running.add_argument("--watch", action="store_true", help="lint again whenever a file changes")


def run(arguments: argparse.Namespace) -> int:
    """Lint; exit code 1 when there are findings."""
    from warp_audit.cli import linting

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if arguments.jobs is not None and arguments.jobs < 1:
        raise BadInput("the number of processes is at least 1", where="--jobs")
    if arguments.unsafe_fixes and not (arguments.fix or arguments.fix_only or arguments.diff):
        arguments.fix = True
    if arguments.add_ignore and os.path.exists(arguments.add_ignore):
        # `--add-ignore sim.py` means the file: a reason needs an equals sign.
        arguments.paths.append(arguments.add_ignore)
        arguments.add_ignore = ""
    overrides = _overrides(arguments)

    def configure() -> tuple[Configuration, Options]:
        from warp_audit.audit.lint.config import Configuration

        return Configuration(overrides, arguments.isolated, arguments.config), _options(arguments)

    if arguments.show_settings or arguments.show_files:
        return linting.show(arguments, *configure())
    if "-" in arguments.paths:
        if len(arguments.paths) > 1:
            raise BadInput("standard input cannot be linted together with files", where="-")
        return linting.standard_input(arguments, *configure())
    if arguments.watch:
        return linting.watch(arguments, configure)
    return linting.once(arguments, configure)


def _options(arguments: argparse.Namespace) -> Options:
    from warp_audit.audit.lint.run import Options
    from warp_audit.cli.linting import progress

    return Options(
        jobs=arguments.jobs,
        cache=not arguments.no_cache,
        cache_dir=os.path.abspath(arguments.cache_dir) if arguments.cache_dir else None,
        suppressions=not arguments.ignore_suppressions,
        baselines=arguments.write_baseline is None,
        force_exclude=arguments.force_exclude,
        progress=progress(quiet=arguments.quiet),
    )


def _overrides(arguments: argparse.Namespace) -> Overrides:
    from warp_audit.audit.lint.settings import Overrides, parse_version

    return Overrides(
        select=_listed(arguments.select) if arguments.select is not None else None,
        ignore=_listed(arguments.ignore),
        extend_select=_listed(arguments.extend_select),
        extend_ignore=_listed(arguments.extend_ignore),
        per_file_ignores=tuple(_per_file(text) for text in arguments.per_file_ignores or ()),
        exclude=_listed(arguments.exclude) if arguments.exclude is not None else None,
        extend_exclude=_listed(arguments.extend_exclude),
        min_warp=parse_version(arguments.min_warp, "--min-warp") if arguments.min_warp else None,
        all_rules=arguments.all_rules,
        baseline=os.path.abspath(arguments.baseline) if arguments.baseline else None,
    )


def _listed(given: list[str] | None) -> tuple[str, ...]:
    return tuple(part.strip() for text in given or () for part in text.split(",") if part.strip())


def _per_file(text: str) -> tuple[str, tuple[str, ...]]:
    pattern, colon, names = text.rpartition(":")
    if not colon or not pattern or not _listed([names]):
        raise BadInput(f"{text!r} is not PATTERN:RULE", where="--per-file-ignores", hint="for example 'tests/*:WPA4'")
    return pattern, _listed([names])

"""Runs the linter over released code and sets its findings beside the verdicts of people who read the code.

    pip download --no-deps -d wheels mujoco-warp newton nvalchemi-toolkit-ops warp-nn warp-lang
    for w in wheels/*.whl; do unzip -qo $w -d code/$(basename $w | cut -d- -f1); done
    python bench/evaluate_lint.py code --verdicts bench/lint_verdicts.tsv -o docs/lint-evaluation.md

Each folder of CODE is one distribution, with its `.dist-info` beside it. A line of the verdicts is
`rule, path:line, verdict, reason`, separated by tabs; the verdict is `true`, `harmless` (true, but nothing comes
of it here: a test that misuses Warp on purpose, a kernel that only one device runs) or `false`. Findings without a
verdict are printed, and count as false alarms.
"""

from __future__ import annotations

import argparse
import collections
import sys
from dataclasses import dataclass
from pathlib import Path

from warp_audit.audit.catalogue import all_rules
from warp_audit.audit.check import check
from warp_audit.audit.rule import Rule
from warp_audit.audit.source.project import Project
from warp_audit.audit.source.text import SourceProblem, decode

KINDS = ("true", "harmless", "false")
NAMES = {"true": "true fault", "harmless": "true, but harmless", "false": "false alarm"}


@dataclass(frozen=True)
class Seen:
    """A finding in released code."""

    rule: type[Rule]
    place: str
    message: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("code", type=Path, help="a folder with one folder for each distribution")
    parser.add_argument("--verdicts", type=Path, required=True)
    parser.add_argument("-o", dest="page", type=Path, help="the page to write (default: print the counts only)")
    options = parser.parse_args()
    verdicts = read_verdicts(options.verdicts)
    corpora = [folder for folder in sorted(options.code.iterdir()) if folder.is_dir()]
    lines: dict[str, int] = {}
    found: list[Seen] = []
    for corpus in corpora:
        lines[title(corpus)] = lint(corpus, found)
        print(f"{title(corpus)}: {lines[title(corpus)]:,} lines", file=sys.stderr)
    unknown = [seen for seen in found if (seen.rule.slug, seen.place) not in verdicts and not seen.rule.opt_in]
    for seen in unknown:
        print(f"no verdict: {seen.place}: {seen.rule.slug}: {seen.message}")
    by_default = [seen for seen in found if not seen.rule.opt_in]
    false = sum(verdict(seen, verdicts)[0] == "false" for seen in by_default)
    total = sum(lines.values())
    print(f"{len(by_default)} findings at default settings, {false} false alarms in {total:,} lines: "
          f"{false / total * 10_000:.2f} in 10,000")  # fmt: skip
    if options.page:
        options.page.write_text(page(found, verdicts, lines))


def read_verdicts(path: Path) -> dict[tuple[str, str], tuple[str, str]]:
    table = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line and not line.startswith("#"):
            rule, place, kind, reason = line.split("\t")
            if kind not in KINDS:
                sys.exit(f"{path}:{number}: {kind!r} is no verdict")
            table[rule, place] = kind, reason
    return table


def verdict(seen: Seen, verdicts: dict[tuple[str, str], tuple[str, str]]) -> tuple[str, str]:
    return verdicts.get((seen.rule.slug, seen.place), ("false", "not yet read"))


def title(corpus: Path) -> str:
    info = next(corpus.glob("*.dist-info"), None)
    return info.name.removesuffix(".dist-info").replace("-", " ") if info else corpus.name


def lint(corpus: Path, found: list[Seen]) -> int:
    """Lint one distribution; give its lines."""
    project = Project()
    total = 0
    for path in sorted(corpus.rglob("*.py")):
        data = path.read_bytes()
        total += data.count(b"\n")
        if b"warp" not in data:
            continue
        try:
            module = project.load(path, decode(data))
        except (SyntaxError, SourceProblem):
            continue
        for finding in check(module, all_rules()):
            if finding.module is module:
                place = f"{path.relative_to(corpus).as_posix()}:{finding.node.lineno}"  # type: ignore[attr-defined]
                found.append(Seen(finding.rule, place, finding.message))
    return total


def page(found: list[Seen], verdicts: dict[tuple[str, str], tuple[str, str]], lines: dict[str, int]) -> str:
    """The evaluation as Markdown."""
    total = sum(lines.values())
    default = [seen for seen in found if not seen.rule.opt_in]
    sums = {kind: sum(verdict(seen, verdicts)[0] == kind for seen in default) for kind in KINDS}
    rows = [
        "# What the linter finds in released code",
        "",
        "Every finding at default settings has a verdict. Those in libraries and examples were read beside their code;",
        "some in test suites were judged by what the test is for, and say so. Written by `bench/evaluate_lint.py` from",
        "`bench/lint_verdicts.tsv`.",
        "",
        "| released code | lines |",
        "|---|---:|",
        *(f"| {name} | {count:,} |" for name, count in lines.items()),
        f"| together | {total:,} |",
        "",
        _summary(len(default), sums, total),
        "",
        "*True but harmless* is a test that misuses Warp on purpose to see what happens, or code whose other",
        "conditions keep the fault from showing.",
        "",
        "## True faults",
        "",
        *table([seen for seen in default if verdict(seen, verdicts)[0] == "true"], verdicts),
        "",
        "## Rules",
        "",
        "Rules that are *opt-in* run with `--all-rules` or when selected; their findings were read as a sample.",
        "",
        "| rule | tier | findings | true | harmless | false | not read |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for rule in all_rules():
        mine = [seen for seen in found if seen.rule is rule]
        read = [seen for seen in mine if (rule.slug, seen.place) in verdicts]
        kinds = collections.Counter(verdicts[rule.slug, seen.place][0] for seen in read)
        tier = "opt-in" if rule.opt_in else "default"
        rows.append(
            f"| [{rule.code}](rules/{rule.slug}.md) {rule.slug} | {tier} | {len(mine)} | {kinds['true']} "
            f"| {kinds['harmless']} | {kinds['false']} | {len(mine) - len(read)} |"
        )
    rows += ["", "## Every finding at default settings", "", *table(default, verdicts, with_kind=True), ""]
    return "\n".join(rows)


def _summary(count: int, sums: dict[str, int], lines: int) -> str:
    return (
        f"At default settings: {count} findings, of these {sums['true']} true faults, {sums['harmless']} true but "
        f"harmless, {sums['false']} false alarms: **{sums['false'] / lines * 10_000:.2f} false alarms in 10,000 "
        "lines**."
    )


def table(seen: list[Seen], verdicts: dict[tuple[str, str], tuple[str, str]], with_kind: bool = False) -> list[str]:
    head = "| rule | place | verdict | reason |" if with_kind else "| rule | place | what is wrong |"
    rows = [head, "|---" * (4 if with_kind else 3) + "|"]
    for one in sorted(seen, key=lambda s: (s.rule.code, s.place)):
        kind, reason = verdict(one, verdicts)
        words = reason.replace("|", "\\|")
        middle = f" {NAMES[kind]} |" if with_kind else ""
        rows.append(f"| {one.rule.slug} | `{one.place}` |{middle} {words} |")
    return rows


if __name__ == "__main__":
    main()

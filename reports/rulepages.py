"""Writes the rules' pages: ``python -m warp_audit.reports.rulepages docs/rules``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from warp_audit.audit.catalogue import all_rules
from warp_audit.audit.rule import Rule
from warp_audit.reports.rulepage import markdown, prose

FAMILIES = {
    "1": "Launches, arrays and devices",
    "2": "Bounds and guards",
    "3": "Races",
    "4": "Automatic differentiation",
    "5": "Numbers and types",
    "6": "Where Warp differs from Python",
    "7": "Lifetime, graph capture and host code",
    "8": "Tiles",
}
"""What the hundreds of the codes stand for."""


def pages(rules: Sequence[type[Rule]]) -> dict[str, str]:
    """The pages by file name, the table of contents among them."""
    found = {f"{rule.slug}.md": markdown(rule) for rule in rules}
    found["README.md"] = _contents(rules)
    return found


def _contents(rules: Sequence[type[Rule]]) -> str:
    lines = [
        "# The rules",
        "",
        f"{len(rules)} rules. `warp-audit rule CODE` shows the same page in the terminal.",
        "Rules marked *opt-in* run with `--all-rules` or when selected by name; those with a version speak only if",
        "the project supports an older Warp.",
    ]
    for digit, title in FAMILIES.items():
        mine = [rule for rule in rules if rule.code[3] == digit]
        if mine:
            lines += ["", f"## {title}", "", "| code | rule | severity | fix | finds |", "|---|---|---|---|---|"]
            lines += [_row(rule) for rule in mine]
    return "\n".join(lines) + "\n"


def _row(rule: type[Rule]) -> str:
    words = [prose(rule.summary()).replace("|", "\\|")]
    if rule.opt_in:
        words.append("*opt-in*")
    if rule.below is not None:
        words.append(f"*below {rule.below}*")
    fix = rule.fix_safety.value if rule.fix_safety is not None else ""
    return f"| {rule.code} | [{rule.slug}]({rule.slug}.md) | {rule.severity.value} | {fix} | {' '.join(words)} |"


def write(folder: Path) -> None:
    """Write all pages into a folder, and remove those of rules that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = pages(all_rules())
    for old in folder.glob("*.md"):
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))

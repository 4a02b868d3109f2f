"""Real faults that Warp users had: each marked line is found by its rule, and nothing else is.

The cases lie beside the repository, as they serve more than this program; where they are not, the test says so.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from warp_audit.audit.catalogue import all_rules
from warp_audit.audit.check import check
from warp_audit.audit.source.project import Project

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "lint"
FILES = sorted(CASES.rglob("*.py")) if CASES.is_dir() else []
NAMES = {name: rule.slug for rule in all_rules() for name in (rule.slug, *rule.aliases)}
SECOND_FAULTS: set[tuple[str, int, str]] = {
    # `n = width[0]`, a counter on the device, is all that bounds reads of `src` and writes of `dst`.
    ("loop-var-after-loop.py", 11, "unclamped-device-count"),
    ("loop-var-after-loop.py", 21, "unclamped-device-count"),
}
"""Unmarked lines with a second true fault: file, line, rule."""


def test_the_cases_are_there() -> None:
    if not FILES:
        pytest.skip(f"no cases in {CASES}")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(CASES).as_posix())
def test_case(path: Path) -> None:
    text = path.read_text()
    bound = re.search(r"# min-warp: (\d+)\.(\d+)", text)
    clean = path.parent.name == "clean"
    rules = [rule for rule in all_rules() if not (clean and rule.opt_in)]
    module = Project(min_warp=(int(bound[1]), int(bound[2])) if bound else None).load(path, text)
    found = {(finding.node.lineno, finding.rule.slug) for finding in check(module, rules)}  # type: ignore[attr-defined]
    marked = {
        (number, NAMES.get(name, f"no rule {name}"))
        for number, line in enumerate(text.splitlines(), 1)
        for name in re.findall(r"# bug: ([\w-]+)", line)
    }
    second = {(line, slug) for file, line, slug in SECOND_FAULTS if file == path.relative_to(CASES).as_posix()}
    assert found - second == marked


@pytest.mark.parametrize("path", [path for path in FILES if path.parent.name == "gated"], ids=lambda path: path.stem)
def test_a_gated_case_is_silent_for_a_newer_warp(path: Path) -> None:
    module = Project(min_warp=(1, 19)).load(path, path.read_text())
    marked = {name for line in path.read_text().splitlines() for name in re.findall(r"# bug: ([\w-]+)", line)}
    found = {finding.rule.slug for finding in check(module, all_rules())}
    assert not found & {NAMES.get(name) for name in marked}

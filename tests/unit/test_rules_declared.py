"""Every rule does what its declaration says: its cases, its fixes, its page."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import pytest

from warp_audit.audit.catalogue import all_rules
from warp_audit.audit.check import check
from warp_audit.audit.fixes import apply
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.project import Project
from warp_audit.reports.rulepages import FAMILIES, pages

RULES = all_rules()
DOCS = Path(__file__).resolve().parents[2] / "docs" / "rules"


def run(rule: type[Rule], text: str) -> list[Finding]:
    bound = None
    if rule.below is not None:
        major, minor = (int(part) for part in rule.below.split(".")[:2])
        bound = (major, minor - 1)
    return check(Project(min_warp=bound).load(Path("case.py"), text), [rule])


def whole(case: str) -> str:
    return "import warp as wp\n" + textwrap.dedent(case)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.slug)
def test_cases(rule: type[Rule]) -> None:
    for case in (*rule.BAD, *rule.GOOD):
        text = whole(case)
        marked = {n for n, line in enumerate(text.splitlines(), 1) if line.endswith(f"# error: {rule.code}")}
        found = {finding.node.lineno for finding in run(rule, text)}  # type: ignore[attr-defined]
        assert found == marked, text


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.fix_safety], ids=lambda rule: rule.slug)
def test_fixes(rule: type[Rule]) -> None:
    """Some case of the rule has a fix; what it makes is Python, and has fewer such findings."""
    tried = 0
    for case in rule.BAD:
        text = whole(case)
        fixes = [finding.fix for finding in run(rule, text) if finding.fix is not None]
        if not fixes:
            continue
        tried += 1
        applied = apply(text, fixes)
        ast.parse(applied.text)
        assert applied.made > 0
        assert sum(finding.fix is not None for finding in run(rule, applied.text)) < len(fixes), applied.text
    assert tried, "no case of a rule with fixes has one"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.slug)
def test_declaration(rule: type[Rule]) -> None:
    assert rule.code[3] in FAMILIES
    assert rule.summary().endswith(".")
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+|https://\S+", one) for one in rule.references), rule.references
    for case in (*rule.BAD, *rule.GOOD):
        ast.parse(whole(case))


def test_names_are_used_once() -> None:
    names = [name for rule in RULES for name in (rule.slug, *rule.aliases)]
    assert len(names) == len(set(names))


def test_pages() -> None:
    """``python -m warp_audit.reports.rulepages docs/rules`` writes them."""
    assert {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")} == pages(RULES)

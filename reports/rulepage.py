"""A lint rule's page, written from its declaration."""

from __future__ import annotations

import re
import textwrap

from warp_audit.audit.rule import Rule

_MARK = re.compile(r"  # error: WPA\d{3}$")
_THREAD = re.compile(r"[\w.-]+/[\w.-]+#\d+")


def markdown(rule: type[Rule]) -> str:
    """The page as Markdown: what the rule finds, why it matters, what to write instead, examples, references."""
    parts = [
        f"# {rule.code} {rule.slug}",
        prose(rule.summary()),
        _facts(rule),
        f"**What it finds:** {prose(rule.section('What it finds'))}",
        f"**Why it matters:** {prose(rule.section('Why it matters'))}",
        f"**Instead:** {prose(rule.section('Instead'))}",
        "## Found",
        _code("\n\n".join(_shown(case, marked=True) for case in rule.BAD)),
        "## Not found",
        _code("\n\n".join(_shown(case, marked=False) for case in rule.GOOD)),
    ]
    if rule.references:
        parts += ["## Where it happened", "\n".join(f"- {_link(one)}" for one in rule.references)]
    parts += [
        "## To keep a line as it is",
        _code(f"…  # warp-audit: ignore[{rule.slug}] why it is right here"),
    ]
    return "\n\n".join(parts) + "\n"


def _facts(rule: type[Rule]) -> str:
    """One line of what a reader wants to know first."""
    facts = [f"Severity {rule.severity.value}", f"confidence {rule.confidence.value}"]
    if rule.opt_in:
        facts.append("opt-in: runs with `--all-rules`, or when selected by name")
    if rule.below is not None:
        facts.append(f"only for projects that support a Warp older than {rule.below}")
    if rule.fix_safety is not None:
        facts.append(f"has {'an' if rule.fix_safety.value == 'unsafe' else 'a'} {rule.fix_safety.value} fix")
    line = "; ".join(facts) + "."
    if rule.aliases:
        line += f" Also known as {', '.join(f'`{alias}`' for alias in rule.aliases)}."
    return line


def prose(doc: str) -> str:
    """A docstring's paragraph on one line, with Markdown's marks for code."""
    return re.sub(r"``([^`]+)``", r"`\1`", " ".join(doc.split()))


def _shown(case: str, *, marked: bool) -> str:
    """A case as it is shown: the marks become arrows."""
    lines = textwrap.dedent(case).strip().split("\n")
    return "\n".join(_MARK.sub("  # <-- here" if marked else "", line) for line in lines)


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _link(reference: str) -> str:
    if not _THREAD.fullmatch(reference):
        return f"<{reference}>" if reference.startswith("http") else reference
    repository, _, number = reference.partition("#")
    return f"[{reference}](https://github.com/{repository}/issues/{number})"

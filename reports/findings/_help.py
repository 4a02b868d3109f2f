"""A rule's page as text and as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warp_audit.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warp_audit.audit.lint.known import Known

_OWN = {
    "WPA900": (
        (
            "a file that has to do with Warp and that Python cannot read: a syntax error, Python 2, a wrong "
            "encoding, a NUL character, code nested deeper than Python follows, a notebook that is not JSON."
        ),
        "Nothing else can be said of such a file, so silence would look like praise.",
        "mend the file, or pass it over with `exclude`.",
    ),
    "WPA901": (
        "a comment that suppresses a rule where that rule finds nothing. Only rules that ran are judged.",
        "The comment hides the next real fault of that kind.",
        "delete the comment, or the rule's name in it.",
    ),
    "WPA902": (
        (
            "a suppressing comment that names no rule (`# warp-audit: ignore`), names one that does not exist, has a "
            "bracket that is not closed, or switches on what nothing switched off."
        ),
        (
            "Such a comment has no effect, although its author believes that it has one; and a comment that silenced "
            "everything would hide faults that nobody thought of."
        ),
        "name the rule: `# warp-audit: ignore[launch-dim-rank] reason`.",
    ),
}


def help_of(known: Known) -> tuple[str, str]:
    """A rule's page as plain text and as Markdown."""
    if known.code in _OWN:
        finds, matters, instead = _OWN[known.code]
        markdown = (
            f"# {known.code} {known.rule}\n\n{known.summary}\n\nSeverity {known.severity}.\n\n"
            f"**What it finds:** {finds}\n\n**Why it matters:** {matters}\n\n**Instead:** {instead}\n"
        )  # fmt: skip
        return plain(markdown), markdown
    from warp_audit.audit.catalogue import all_rules
    from warp_audit.reports.rulepage import markdown as page

    (rule,) = [rule for rule in all_rules() if rule.code == known.code]
    text = page(rule)
    return plain(text), text


def plain(markdown: str) -> str:
    """Markdown without its marks for headings and stress; code stays as it is."""
    lines, code = [], False
    for line in markdown.splitlines():
        if line.startswith("```"):
            code = not code
            continue
        lines.append(
            f"    {line}".rstrip()
            if code
            else line.lstrip("#").strip()
            if line.startswith("#")
            else line.replace("**", "")
        )
    return "\n".join(lines).strip() + "\n"


def rule_named(name: str, rules: Sequence[Known]) -> Known:
    """The rule that a code, a slug or an alias means.

    Raises:
        BadInput: there is none, or several have the alias.
    """
    from warp_audit.audit.lint.known import nearest

    found = [
        rule for rule in rules if rule.is_named(name) or rule.is_named(name.upper()) or rule.is_named(name.lower())
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise BadInput(
            f"{name} is a name of {' and '.join(f'{one.code}[{one.rule}]' for one in found)}", hint="use the code"
        )
    near = nearest(name, rules)
    raise BadInput(
        f"there is no rule {name!r}", hint=f"did you mean {near}?" if near else "warp-audit rules lists them"
    )

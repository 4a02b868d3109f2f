"""The rules by name, with as much of each as choosing among them needs; the linter's own remarks too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from warp_audit.errors import BadInput

_CODE_START = re.compile(r"WPA\d{0,3}")


@dataclass(frozen=True)
class Known:
    """A rule as the settings see it. The cache keeps these, so that a warm run loads no rule."""

    code: str
    rule: str
    aliases: tuple[str, ...]
    severity: str
    confidence: str
    fixable: bool
    min_warp: str | None
    summary: str
    opt_in: bool

    def to_json(self) -> dict[str, Any]:
        """In the machine format of ``warp-audit rules``."""
        return asdict(self) | {"aliases": list(self.aliases)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Known:
        """The inverse of ``to_json``."""
        if set(data) != {field.name for field in fields(Known)}:
            raise ValueError("not a rule")
        return Known(**data | {"aliases": tuple(data["aliases"])})

    def is_named(self, name: str) -> bool:
        """Whether a code, a slug or an alias means this rule alone."""
        return name in (self.code, self.rule) or name in self.aliases


def _own(code: str, rule: str, severity: str, summary: str, *aliases: str) -> Known:
    return Known(code, rule, aliases, severity, "high", False, None, summary, False)


UNREADABLE = _own("WPA900", "unreadable-source", "error", "The file cannot be read as Python source.")
UNUSED = _own("WPA901", "unused-suppression", "warning", "A comment suppresses a rule that finds nothing there.")
BAD_SUPPRESSION = _own(
    "WPA902", "bad-suppression", "warning", "A suppressing comment does not say what it suppresses, or names no rule.",
    "blanket-suppression",
)  # fmt: skip
OWN = (UNREADABLE, UNUSED, BAD_SUPPRESSION)
"""What the linter says by itself, without a rule's class."""


def known_rules() -> tuple[Known, ...]:
    """Every rule and every remark of the linter's own, by code. Loads the rules."""
    from warp_audit.audit.catalogue import all_rules

    found = [
        Known(
            rule.code, rule.slug, rule.aliases, rule.severity.value, rule.confidence.value,
            rule.fix_safety is not None, rule.below, rule.summary(), rule.opt_in,
        )
        for rule in all_rules()
    ]  # fmt: skip
    return tuple(sorted([*found, *OWN], key=lambda known: known.code))


def chosen(selector: str, rules: Iterable[Known]) -> tuple[Known, ...]:
    """The rules that a code, the start of a code, a slug, an alias or ``ALL`` means."""
    if selector == "ALL":
        return tuple(rules)
    if _CODE_START.fullmatch(selector) and len(selector) < 6:
        return tuple(rule for rule in rules if rule.code.startswith(selector))
    return tuple(rule for rule in rules if rule.is_named(selector))


def check_selectors(selectors: Iterable[str], rules: Sequence[Known], where: str) -> None:
    """Refuse names that no rule has.

    Raises:
        BadInput: with the nearest name that there is.
    """
    for selector in selectors:
        if not chosen(selector, rules):
            near = nearest(selector, rules)
            raise BadInput(
                f"there is no rule {selector!r}",
                where=where,
                hint=f"did you mean {near}?" if near else "warp-audit rules lists them",
            )


def nearest(name: str, rules: Iterable[Known]) -> str | None:
    """The name of a rule that looks like this one."""
    return near_miss(name, [word for rule in rules for word in (rule.rule, rule.code, *rule.aliases)])


def near_miss(word: str, words: Sequence[str]) -> str | None:
    """The word that was probably meant."""
    from difflib import get_close_matches

    by_lower = {known.lower(): known for known in words}
    near = get_close_matches(word.lower().replace("_", "-"), list(by_lower), n=1, cutoff=0.6)
    return by_lower[near[0]] if near else None

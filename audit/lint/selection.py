"""Which rules run on which files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from warp_audit.audit.lint.files import glob, relative
from warp_audit.audit.lint.known import Known, check_selectors, chosen
from warp_audit.audit.lint.settings import Settings


class Selection:
    """The rules that settings select.

    Raises:
        BadInput: the settings name a rule that does not exist.
    """

    def __init__(self, settings: Settings, rules: Sequence[Known]) -> None:
        self.settings = settings
        self.rules = tuple(rules)
        for key, names in settings.names():
            check_selectors(names, rules, f"{settings.source}: {key}" if settings.source else key)

    @cached_property
    def codes(self) -> frozenset[str]:
        """The codes of the rules that run."""
        return frozenset(rule.code for rule in self.rules if self._runs(rule))

    def _runs(self, rule: Known) -> bool:
        settings = self.settings
        if rule.min_warp is not None:
            bound = tuple(int(part) for part in rule.min_warp.split("."))
            if settings.min_warp is None or settings.min_warp >= bound:
                return False
        if settings.select:
            asked = _closeness(rule, settings.select, settings.all_rules)
        else:
            asked = int(settings.all_rules or not rule.opt_in)
        asked = max(asked, _closeness(rule, settings.extend_select, settings.all_rules))
        return asked > 0 and asked > _closeness(rule, settings.ignore + settings.extend_ignore, True)

    def ignored_in(self, path: str) -> frozenset[str]:
        """The codes that do not run on a file because of ``per-file-ignores``."""
        if not self._patterns:
            return frozenset()
        inside = relative(path, self.settings.root)
        name = inside.rpartition("/")[2]
        found: set[str] = set()
        for pattern, negated, codes in self._patterns:
            fits = pattern.fullmatch(inside) is not None or pattern.fullmatch(name) is not None
            if fits is not negated:
                found |= codes
        return frozenset(found)

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], bool, set[str]]]:
        found = []
        for pattern, names in self.settings.per_file_ignores:
            plain = pattern.removeprefix("!").removeprefix("./")
            codes = {rule.code for name in names for rule in chosen(name, self.rules)}
            compiled = re.compile(f"{glob(plain)}(?:/.*)?", re.DOTALL)
            found.append((compiled, pattern.startswith("!"), codes))
        return found

    @cached_property
    def fixable(self) -> frozenset[str]:
        """The codes whose fixes may be made."""
        settings = self.settings
        return frozenset(
            rule.code
            for rule in self.rules
            if (not settings.fixable or _closeness(rule, settings.fixable, True))
            and not _closeness(rule, settings.unfixable, True)
        )


def _closeness(rule: Known, selectors: Iterable[str], opt_in_too: bool) -> int:
    """How exactly the nearest of some selectors means a rule: 0 not at all, 7 by its name.

    The start of a code means an opt-in rule only with ``opt_in_too``: otherwise such rules are asked for by name.
    """
    nearest = 0
    for selector in selectors:
        if selector == "ALL":
            nearest = max(nearest, 1)
        elif rule.is_named(selector):
            return 7
        elif rule.code.startswith(selector) and (opt_in_too or not rule.opt_in):
            nearest = max(nearest, len(selector))
    return nearest

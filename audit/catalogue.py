"""The rules there are."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from warp_audit.audit import rules
from warp_audit.audit.rule import Rule
from warp_audit.errors import BrokenPromise


@cache
def all_rules() -> tuple[type[Rule], ...]:
    """Every rule, by code.

    Raises:
        BrokenPromise: a file of ``audit.rules`` declares none or several, or two share a code.
    """
    found: dict[str, type[Rule]] = {}
    for entry in pkgutil.iter_modules(rules.__path__):
        module = importlib.import_module(f"{rules.__name__}.{entry.name}")
        own = [
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module.__name__
        ]
        if len(own) != 1:
            raise BrokenPromise(f"{module.__name__} declares {len(own)} rules, not one")
        (declared,) = own
        if declared.code in found:
            raise BrokenPromise(f"{declared.slug} and {found[declared.code].slug} share the code {declared.code}")
        found[declared.code] = declared
    return tuple(found[code] for code in sorted(found))

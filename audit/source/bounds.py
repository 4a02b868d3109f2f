"""What is known of an index against the extent of its array."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from warp_audit.audit.source.device import Access, DeviceFunction
    from warp_audit.audit.source.flow import Site
    from warp_audit.audit.source.symbolic import Atom, Form

CLAMPS = ("min", "max", "clamp", "mod", "and", "where", "if", "rshift")
"""Kinds of atoms, and builtins, that keep a value in a range of their own."""


def clamped(form: Form) -> bool:
    """Whether part of a value was clamped, wrapped or chosen: somebody thought of its range."""
    return any(atom[0] in CLAMPS or (atom[0] == "call" and atom[1] in CLAMPS) for atom in form.all_atoms())


def guards_on(function: DeviceFunction, site: Site, atoms: set[Atom]) -> bool:
    """Whether a condition that holds at a site compares one of these values with anything."""
    for guard in site.guards:
        for part in ast.walk(guard.test):
            if isinstance(part, ast.Compare):
                for side in (part.left, *part.comparators):
                    if atoms & set(function.symbols.form(side).atoms):
                        return True
            elif isinstance(part, ast.Name) and guard.test is part:
                definition = function.flow.uses.get(part)
                if definition is not None and definition.value is not None:
                    if atoms & function.symbols.form(definition.value).all_atoms():
                        return True
    return False


def bounded_above(function: DeviceFunction, form: Form, site: Site) -> bool:
    """Whether a condition keeps an index below something, not counting a bound that leaves it one too far."""
    return any(not _one_too_far(bound.limit, bound.strict) for bound in function.symbols.upper_bounds(form, site))


def _one_too_far(limit: Form, strict: bool) -> bool:
    """``i < a.shape[0] + 1`` and ``i <= a.shape[0]``: bounds that come from testing ``i - 1``."""
    if any(atom[0] == "shape" for atom, _ in limit.terms):
        return limit.constant > 0 if strict else limit.constant >= 0
    return False


def indices(function: DeviceFunction, access: Access) -> Iterator[tuple[int, ast.expr, Form]]:
    """An access's axes, index expressions and values."""
    for axis, index in enumerate(access.indices):
        yield axis, index, function.symbols.form(index)

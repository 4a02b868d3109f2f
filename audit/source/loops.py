"""Which loops Warp keeps as loops, and which it unrolls."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.source.walk import walk

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction

MAX_UNROLL = 16
"""``wp.config.max_unroll``: a constant range that is longer stays a loop."""


def is_dynamic(function: DeviceFunction, loop: ast.For | ast.While) -> bool:
    """Whether a loop stays a loop: ranges of constants are unrolled, unless they are too long or are left early."""
    if isinstance(loop, ast.While):
        return True
    if not isinstance(loop.iter, ast.Call) or function.builtin(loop.iter) != "range":
        return False
    bounds = []
    for argument in loop.iter.args:
        value = function.constant(argument)
        if value is None:
            return not is_static(function, argument)
        bounds.append(value)
    if not all(isinstance(bound, int) for bound in bounds) or (len(bounds) == 3 and bounds[2] == 0):
        return False
    return len(range(*bounds)) > MAX_UNROLL or _leaves(loop)  # type: ignore[arg-type]


def is_static(function: DeviceFunction, node: ast.expr) -> bool:
    """Whether Python evaluates it: ``wp.static(…)``, or names from around a kernel that a function makes."""
    for part in walk(node):
        if isinstance(part, ast.Call) and function.builtin(part) == "static":
            return True
        if isinstance(part, ast.Name):
            definition = function.flow.uses.get(part)
            found = function.scope.lookup(part.id)
            if definition is not None and definition.kind != "free":
                return False
            if found is not None and found[1][-1].kind in ("import", "function"):
                return False
    return not any(isinstance(part, ast.Call) for part in walk(node))


def _leaves(loop: ast.For) -> bool:
    return any(isinstance(statement, (ast.Break, ast.Continue)) for statement in own_statements(loop.body))


def own_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a loop's body, not those of loops inside."""
    for statement in body:
        yield statement
        if not isinstance(statement, (ast.For, ast.While)):
            for field in ("body", "orelse"):
                yield from own_statements(getattr(statement, field, []))

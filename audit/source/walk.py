"""Walks over syntax trees, quicker than ``ast.walk`` and without contexts and operators, which hold nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_HOLD_NOTHING = {"ctx", "op", "ops", "type_comment", "kind", "id", "attr", "arg", "name", "names", "level", "module"}
# Of these classes a field that elsewhere holds nothing does.
_EXCEPTIONS: dict[type, tuple[str, ...]] = {ast.Import: ("names",), ast.ImportFrom: ("names",)}

_fields: dict[type, tuple[str, ...]] = {}


def _fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    found = _fields.get(kind)
    if found is None:
        kept = (name for name in kind._fields if name not in _HOLD_NOTHING or name in _EXCEPTIONS.get(kind, ()))
        found = _fields[kind] = tuple(kept)
    return found


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes directly below, in the text's order; contexts and operators are left out."""
    found: list[ast.AST] = []
    for name in _fields.get(node.__class__) or _fields_of(node.__class__):
        value = getattr(node, name, None)
        if value.__class__ is list:
            found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, outer ones before inner ones; contexts and operators are left out."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += children(one)

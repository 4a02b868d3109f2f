"""A fix as JSON and back: what findings carry, what the cache keeps, and what ``--fix`` carries out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from warp_audit.audit.edits import Delete, Edit, Fix, InsertBefore, Place, Replace, Safety, SetKeyword, Wrap
from warp_audit.diagnostic import Json

_KINDS: dict[str, type[Any]] = {
    "replace": Replace,
    "wrap": Wrap,
    "set-keyword": SetKeyword,
    "insert-before": InsertBefore,
    "delete": Delete,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def to_json(fix: Fix, column: Callable[[int, int], int]) -> Json:
    """A fix with lines and columns as people count them.

    Args:
        fix: a rule's fix, with columns as ``ast`` counts them.
        column: gives the column from 1 in characters for a line and a column from 0 in bytes.
    """
    return {"title": fix.title, "safety": fix.safety.value, "edits": [_edit(edit, column) for edit in fix.edits]}


def _edit(edit: Edit, column: Callable[[int, int], int]) -> Json:
    at = edit.at
    found: dict[str, Json] = {
        "kind": _NAMES[type(edit)],
        "line": at.line,
        "column": column(at.line, at.column),
        "end_line": at.end_line,
        "end_column": column(at.end_line, at.end_column),
    }
    for field in fields(edit):
        if field.name != "at":
            found[field.name] = getattr(edit, field.name)
    return found


def from_json(data: Json) -> Fix:
    """The inverse of ``to_json``, with columns from 0 in characters."""
    if not isinstance(data, dict):
        raise TypeError("not a fix")
    edits: list[Edit] = []
    for given in data["edits"]:  # type: ignore[union-attr]
        values: dict[str, Any] = dict(given)  # type: ignore[arg-type]
        kind = _KINDS[values.pop("kind")]
        place = Place(
            values.pop("line"), values.pop("column") - 1, values.pop("end_line"), values.pop("end_column") - 1
        )  # fmt: skip
        edits.append(kind(at=place, **values))
    return Fix(str(data["title"]), tuple(edits), Safety(data["safety"]))

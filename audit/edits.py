"""What a fix would do to a file, as data. ``audit.fixes`` carries it out with libcst, which only fixing loads."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Safety(Enum):
    """Whether a fix may change what the program means."""

    SAFE = "safe"
    UNSAFE = "unsafe"


@dataclass(frozen=True)
class Place:
    """A node of the syntax tree by its extent: 1-based lines, 0-based columns in characters, end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int

    @staticmethod
    def of(node: ast.AST) -> Place:
        """The extent of a node; ``ast`` counts columns in UTF-8 bytes, which the fixer turns into characters."""
        return Place(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Replace:
    """Put other code in the place of an expression or a statement."""

    at: Place
    code: str


@dataclass(frozen=True)
class Wrap:
    """Keep an expression and put code around it: ``before`` + expression + ``after``."""

    at: Place
    before: str
    after: str


@dataclass(frozen=True)
class SetKeyword:
    """Give a call a keyword argument, or change the one it has."""

    at: Place
    name: str
    code: str


@dataclass(frozen=True)
class InsertBefore:
    """Put statements before the statement at a place, indented as it is."""

    at: Place
    code: str


@dataclass(frozen=True)
class Delete:
    """Take a statement away; a body that would be empty gets ``pass``."""

    at: Place


Edit: TypeAlias = "Replace | Wrap | SetKeyword | InsertBefore | Delete"


@dataclass(frozen=True)
class Fix:
    """One fix: all of its edits are made, or none.

    Args:
        title: what it does, an imperative that an editor shows in its menu.
        edits: what it changes, in this file.
        safety: unsafe if the program's meaning can change otherwise than by the fault going away.
    """

    title: str
    edits: tuple[Edit, ...]
    safety: Safety = Safety.UNSAFE

"""Statements put in, replaced and taken away, in blocks, in lines with several, and in suites on one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, Union, cast

import libcst as cst

Statement: TypeAlias = Union[cst.SimpleStatementLine, cst.BaseCompoundStatement]  # noqa: UP007
_Piece: TypeAlias = Union[Statement, list[cst.BaseSmallStatement]]  # noqa: UP007


@dataclass(frozen=True)
class StatementEdit:
    """What becomes of a statement.

    Args:
        before: what comes before it.
        instead: what takes its place; ``None`` leaves it, and nothing takes it away.
    """

    before: tuple[Statement, ...] = ()
    instead: tuple[Statement, ...] | None = None

    def joined(self, other: StatementEdit) -> StatementEdit:
        """Both edits."""
        instead = self.instead if other.instead is None else other.instead
        return StatementEdit(self.before + other.before, instead)


class Statements:
    """Edits of statements, made while a tree is rewritten.

    Args:
        edits: by the node of the tree before.
    """

    def __init__(self, edits: Mapping[cst.CSTNode, StatementEdit]) -> None:
        self._edits = edits
        self._gone: list[cst.CSTNode] = []
        """Lines that stand for statements taken away, until their block is left."""

    def left(self, original: cst.CSTNode, updated: cst.CSTNode) -> object:
        """What a node becomes when the rewriting leaves it."""
        if isinstance(original, cst.SimpleStatementLine):
            return self._line(original, cast(cst.SimpleStatementLine, updated))
        if isinstance(original, cst.SimpleStatementSuite):
            return self._suite(original, cast(cst.SimpleStatementSuite, updated))
        if isinstance(original, cst.BaseCompoundStatement):
            return self._compound(original, cast(cst.BaseCompoundStatement, updated))
        if isinstance(original, (cst.IndentedBlock, cst.Module)):
            return self._block(cast("cst.IndentedBlock | cst.Module", updated))
        return updated

    def _compound(self, original: cst.BaseCompoundStatement, updated: cst.BaseCompoundStatement) -> object:
        edit = self._edits.get(original)
        if edit is None:
            return updated
        made = [*edit.before, *((updated,) if edit.instead is None else edit.instead)]
        if not made:
            return self._tombstone(updated.leading_lines)
        return cst.FlattenSentinel(_led(made, updated.leading_lines, len(edit.before)))

    def _line(self, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine) -> object:
        pieces = self._pieces(original.body, updated.body)
        if pieces is None:
            return updated
        made = [_as_line(piece) for piece in pieces]
        if not made:
            return self._tombstone(updated.leading_lines)
        if isinstance(made[-1], cst.SimpleStatementLine):
            made[-1] = made[-1].with_changes(trailing_whitespace=updated.trailing_whitespace)
        first = self._edits.get(original.body[0])
        return cst.FlattenSentinel(_led(made, updated.leading_lines, len(first.before) if first else 0))

    def _suite(self, original: cst.SimpleStatementSuite, updated: cst.SimpleStatementSuite) -> cst.BaseSuite:
        pieces = self._pieces(original.body, updated.body)
        if pieces is None:
            return updated
        if not pieces:
            return updated.with_changes(body=[cst.Pass()])
        if len(pieces) == 1 and isinstance(pieces[0], list):
            return updated.with_changes(body=pieces[0])
        made = [_as_line(piece) for piece in pieces]
        if isinstance(made[-1], cst.SimpleStatementLine):
            made[-1] = made[-1].with_changes(trailing_whitespace=updated.trailing_whitespace)
        return cst.IndentedBlock(body=made)

    def _pieces(
        self, original: Sequence[cst.BaseSmallStatement], updated: Sequence[cst.BaseSmallStatement]
    ) -> list[_Piece] | None:
        """The statements of a line, cut where others come between; ``None`` if nothing changes."""
        if not any(one in self._edits for one in original):
            return None
        pieces: list[_Piece] = []
        run: list[cst.BaseSmallStatement] = []
        for old, new in zip(original, updated, strict=True):
            edit = self._edits.get(old, StatementEdit())
            inline = _inline(edit.instead, new)
            between = [*edit.before, *((edit.instead or ()) if inline is None else ())]
            if between:
                pieces += [_joined(run, None)] if run else []
                pieces += between
                run = []
            run += inline or []
        if run:
            pieces.append(_joined(run, updated[-1]))
        return pieces

    def _tombstone(self, lines: Sequence[cst.EmptyLine]) -> cst.SimpleStatementLine:
        line = cst.SimpleStatementLine([cst.Pass()], leading_lines=lines)
        self._gone.append(line)
        return line

    def _block(self, block: cst.IndentedBlock | cst.Module) -> cst.CSTNode:
        if not any(one is gone for one in block.body for gone in self._gone):
            return block
        body: list[cst.CSTNode] = []
        carried: list[cst.EmptyLine] = []
        for statement in block.body:
            lines = cast(Statement, statement).leading_lines
            if any(statement is gone for gone in self._gone):
                carried = _met(carried, lines)
            elif carried:
                body.append(statement.with_changes(leading_lines=_met(carried, lines)))
                carried = []
            else:
                body.append(statement)
        if not body and isinstance(block, cst.IndentedBlock):
            return block.with_changes(body=[cst.SimpleStatementLine([cst.Pass()], leading_lines=carried)])
        if any(line.comment for line in carried):
            return block.with_changes(body=body, footer=[*carried, *block.footer])
        return block.with_changes(body=body)


def _inline(
    instead: tuple[Statement, ...] | None, statement: cst.BaseSmallStatement
) -> list[cst.BaseSmallStatement] | None:
    """What stands on the line in a statement's place; ``None`` if that needs lines of its own."""
    if instead is None:
        return [statement]
    if not instead:
        return []
    if len(instead) == 1 and isinstance(instead[0], cst.SimpleStatementLine) and not _has_comment(instead[0]):
        *before, last = instead[0].body
        return [*before, last.with_changes(semicolon=statement.semicolon)]
    return None


def _has_comment(line: cst.SimpleStatementLine) -> bool:
    return line.trailing_whitespace.comment is not None or any(one.comment for one in line.leading_lines)


def _joined(run: list[cst.BaseSmallStatement], end: cst.BaseSmallStatement | None) -> list[cst.BaseSmallStatement]:
    """Small statements with semicolons between them, and behind the last only if the line ended so."""
    *front, last = run
    made = [
        one if isinstance(one.semicolon, cst.Semicolon)
        else one.with_changes(semicolon=cst.Semicolon(whitespace_after=cst.SimpleWhitespace(" ")))
        for one in front
    ]  # fmt: skip
    ends = end is not None and isinstance(end.semicolon, cst.Semicolon) and isinstance(last.semicolon, cst.Semicolon)
    return [*made, last if ends else last.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)]


def _as_line(piece: _Piece) -> Statement:
    return cst.SimpleStatementLine(piece) if isinstance(piece, list) else piece


def _led(made: Sequence[Statement], lines: Sequence[cst.EmptyLine], inserted: int) -> list[cst.CSTNode]:
    """Statements with the blank lines and comments that stood before the old one.

    Comments that stand right above a statement stay with it; blank lines come before what is inserted.
    """
    split = 0
    if 0 < inserted < len(made):
        split = len(lines)
        while split and lines[split - 1].comment is not None:
            split -= 1
    else:
        inserted, split = 0, 0
    result: list[cst.CSTNode] = list(made)
    own = made[inserted]
    result[inserted] = own.with_changes(leading_lines=[*lines[split:], *(_own_lines(own, lines))])
    if inserted:
        result[0] = made[0].with_changes(leading_lines=[*lines[:split], *made[0].leading_lines])
    return result


def _own_lines(statement: Statement, lines: Sequence[cst.EmptyLine]) -> Sequence[cst.EmptyLine]:
    """The lines above a statement that are its own, not those handed on."""
    return [one for one in statement.leading_lines if not any(one is line for line in lines)]


def _met(above: Sequence[cst.EmptyLine], below: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """The lines of a statement that is gone and those of the next one; blank ones are not added up."""
    if any(line.comment for line in above):
        return [*above, *below]
    blank = 0
    while blank < len(below) and below[blank].comment is None:
        blank += 1
    return [*(above if len(above) > blank else below[:blank]), *below[blank:]]

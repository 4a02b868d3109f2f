"""Flat statements to structured regions, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from warp_audit.compiler.ir.expr import ExprError, Primal
from warp_audit.compiler.ir.op import Op
from warp_audit.compiler.ir.statement import Statement, read_statement
from warp_audit.compiler.ops.kind import Scope, by_form


class AssembleError(ValueError):
    """A statement, or its place among the others, is not of the dialect."""


@dataclass(slots=True)
class Line:
    """One statement's text with the mark that the listener gave it (0: none)."""

    text: str
    mark: int = 0


def read_op(text: str, scope: Scope) -> Op:
    """The op that one statement is.

    Raises:
        AssembleError: no kind reads it, or it does not print back to the same text.
    """
    try:
        statement = read_statement(text)
    except ExprError as wrong:
        raise AssembleError(f"statement {text!r}: {wrong}") from None
    for kind in by_form().get(statement.form, ()):
        op = kind.read(statement, scope)
        if op is not None:
            break
    else:
        raise AssembleError(f"no kind of op reads the statement {text!r}")
    for result in op.results:
        if isinstance(result, Primal):
            scope.written.add(result.name)
    if text != "continue;" and op.kind.write(op).cpp() != text:
        raise AssembleError(f"op {op.name} prints {op.kind.write(op).cpp()!r} for the statement {text!r}")
    return op


def assemble(lines: list[Line], scope: Scope) -> tuple[list[Op], dict[int, int]]:
    """The region that the statements form, and the mark of each op by ``id(op)``.

    Raises:
        AssembleError: a statement is unknown, or blocks and loops do not nest.
    """
    region: list[Op] = []
    open_ops: list[tuple[Op | None, list[Op]]] = [(None, region)]
    marks: dict[int, int] = {}
    closing: str | None = None  # label whose back jump was just read
    for position, line in enumerate(lines):
        text = line.text
        owner, ops = open_ops[-1]
        if closing is not None:
            open_ops.pop()
            closing = None
            continue
        label = owner.attrs.get("label") if owner is not None else None
        if text == "}":
            if owner is None or owner.name != "if":
                raise AssembleError("a closing brace without an if")
            open_ops.pop()
            continue
        if label is not None and text == f"goto start_{label};":
            # The back jump stands right before the end label; any other is a `continue`.
            following = lines[position + 1].text if position + 1 < len(lines) else ""
            if following == f"end_{label}:;":
                closing = label
                continue
        op = read_op(text, scope)
        ops.append(op)
        marks[id(op)] = line.mark
        if op.body is not None:
            open_ops.append((op, op.body))
    if len(open_ops) != 1:
        raise AssembleError("a block or loop is not closed")
    return region, marks


def statements(op: Op) -> Iterator[tuple[Op, Statement, bool]]:
    """The op's statements in order with the op each belongs to; True for a closing statement."""
    yield op, op.kind.write(op), False
    if op.body is None:
        return
    for inner in op.body:
        yield from statements(inner)
    if op.name == "loop":
        label = op.attrs["label"]
        yield op, Statement("goto", f"start_{label}"), True
        yield op, Statement("label", f"end_{label}"), True
    else:
        yield op, Statement("close"), True

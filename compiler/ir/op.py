"""Ops: one statement of Warp's generated code each, typed, with an origin and its access."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from warp_audit.compiler.ir.expr import WIR, Expr
from warp_audit.compiler.ir.statement import Statement


class OpKind(Protocol):
    """What an op needs of its kind; the kinds themselves are declared in ``compiler/ops``."""

    def write(self, op: Op) -> Statement:
        """The statement that the op is."""

    def affects(self, op: Op) -> frozenset[str]:
        """What the op does besides giving its results."""

    def check(self, op: Op) -> str | None:
        """What is wrong with the op's own fields, or None."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an op comes from in Python: 1-based lines and columns, the end column exclusive."""

    source: int  # index into the module's sources
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}-{self.end_line}:{self.end_column}"


@dataclass(frozen=True, slots=True)
class Access:
    """What a memory op touches.

    ``mode`` is ``read``, ``write``, ``atomic`` or ``update`` (read and write);
    ``space`` is ``global``, ``shared``, ``local``, ``param`` or ``native`` (a structure
    behind a handle: mesh, volume, texture); ``target`` is the array as the kernel names
    it (``%points``, ``%state.grid``), its gradient being ``^points``; ``index`` its index
    operands, empty when the op addresses a whole or computes the place itself.
    """

    mode: str
    space: str
    target: Expr
    index: tuple[Expr, ...] = ()

    def __str__(self) -> str:
        index = f"[{', '.join(i.text(WIR) for i in self.index)}]" if self.index else ""
        return f"{self.mode} {self.space} {self.target.text(WIR)}{index}"


@dataclass(slots=True, eq=False)
class Op:
    """One op. ``node`` is its line in the module's ``.wir`` text, set by the printer."""

    kind: OpKind
    name: str
    results: tuple[Expr, ...] = ()
    operands: tuple[Expr, ...] = ()
    attrs: dict[str, str] = field(default_factory=dict)
    body: list[Op] | None = None
    origin: Origin | None = None
    of: Op | None = None  # reverse ops: the forward op whose adjoint this is
    access: tuple[Access, ...] = ()
    node: int = 0
    end_node: int = 0  # the line of the closing brace of an op with a body


def walk(ops: list[Op]) -> Iterator[Op]:
    """All ops of a region in text order, bodies included."""
    for op in ops:
        yield op
        if op.body is not None:
            yield from walk(op.body)

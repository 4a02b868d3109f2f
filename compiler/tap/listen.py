"""Listens while Warp generates code: which Python expression each statement comes from.

Warp asks ``Adjoint.get_line_directive`` for a ``#line`` before each statement. While
listening, the answer is a running number, the **mark**, and the innermost Python node at
that moment is remembered under it. Bodies come back from Warp between two comment lines, so
that they are found again in the finished text. Nothing else of Warp's work changes: with
marks and comments taken out, the text is what Warp writes by itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

MARK = re.compile(r'#line (\d+) "([^"]*)"')
BODY_OPEN = "//@warp-audit body "
BODY_CLOSE = "//@warp-audit end"


@dataclass(slots=True)
class Heard:
    """What was heard: a node for each mark, and the bodies by number."""

    nodes: list[ast.AST] = field(default_factory=list)
    bodies: list[tuple[Any, bool, str]] = field(default_factory=list)  # (adjoint, reverse, text)
    frames: dict[str, Any] = field(default_factory=dict)  # name in a frame's mark → adjoint


@contextmanager
def listening() -> Iterator[Heard]:
    """Listen to Warp's code generation until the block ends."""
    from warp._src import codegen

    heard = Heard()
    nodes = heard.nodes
    stack: list[ast.AST] = []
    adjoint = codegen.Adjoint
    before = (adjoint.eval, adjoint.get_line_directive, adjoint.add_constant)
    bodies_before = (codegen.codegen_func_forward, codegen.codegen_func_reverse)
    plain_eval, _, plain_constant = before

    def eval(adj: Any, node: ast.AST) -> Any:
        stack.append(node)
        try:
            return plain_eval(adj, node)
        finally:
            stack.pop()

    def get_line_directive(adj: Any, statement: str, relative_lineno: int | None = None) -> str | None:
        if stack:
            if relative_lineno is None or statement.startswith("//"):
                return None
            nodes.append(stack[-1])
            return f'#line {len(nodes)} ""'
        if statement:
            return None  # a declaration: the value's own origin serves
        name = str(id(adj))
        heard.frames[name] = adj
        return f'#line 0 "{name}"'

    def add_constant(adj: Any, n: Any) -> Any:
        made = plain_constant(adj, n)
        if stack:
            made.warp_audit_node = stack[-1]
        return made

    def keep(adj: Any, reverse: bool, text: str) -> str:
        heard.bodies.append((adj, reverse, text))
        return f"{BODY_OPEN}{len(heard.bodies) - 1}\n{text}{BODY_CLOSE}\n"

    def forward(adj: Any, *args: Any, **kwargs: Any) -> str:
        return keep(adj, False, bodies_before[0](adj, *args, **kwargs))

    def reverse(adj: Any, *args: Any, **kwargs: Any) -> str:
        return keep(adj, True, bodies_before[1](adj, *args, **kwargs))

    adjoint.eval, adjoint.get_line_directive, adjoint.add_constant = eval, get_line_directive, add_constant
    codegen.codegen_func_forward, codegen.codegen_func_reverse = forward, reverse
    try:
        yield heard
    finally:
        adjoint.eval, adjoint.get_line_directive, adjoint.add_constant = before
        codegen.codegen_func_forward, codegen.codegen_func_reverse = bodies_before


def unmarked(text: str) -> str:
    """The text as Warp writes it without listener and without line information."""
    kept = (line for line in text.split("\n") if not (line.startswith(("#line ", BODY_OPEN)) or line == BODY_CLOSE))
    return "\n".join(kept)

"""Emits a module as CUDA C++.

The statements equal Warp's own, one for one. Before each stands a ``#line``: the IR node
(``ir``: the line of the op in the ``.wir`` file), the Python line (``python``), or
nothing (``none``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from warp_audit.compiler.ir.module import Body, Function, Module, Value
from warp_audit.compiler.ir.op import Origin
from warp_audit.compiler.ir.types import Native, Reference, Tile
from warp_audit.compiler.ops.assemble import statements

MARK = "#line @"  # in a frame: the place of the `#line` of the function whose symbol follows
_BAR = "//---------"


@dataclass(frozen=True, slots=True)
class Emitted:
    """A statement or declaration: its text, IR node, origin and depth of nesting."""

    text: str
    node: int = 0
    origin: Origin | None = None
    depth: int = 0


def declaration(value: Value, reverse: bool) -> str:
    """The C++ declaration of a local."""
    ctype, name = value.type.ctype(), f"var_{value.name}"
    initial = value.type.initial(reverse)
    if initial is not None:
        return f"{ctype} {name} = {initial};"
    if value.constant is not None:
        return f"const {ctype} {name} = {value.constant};"
    return f"{ctype} {name};"


def dual_declaration(value: Value) -> str:
    """The C++ declaration of a local's adjoint."""
    name, kind = f"adj_{value.name}", value.type
    if isinstance(kind, Tile):
        if kind.storage == "register":
            return f"{kind.ctype()} {name}{{}};"
        return f"{kind.ctype()}& {name} = var_{value.name};"
    if isinstance(kind, Native) and kind.init:
        return f"{kind.ctype()} {name};"
    target = kind.target if isinstance(kind, Reference) else kind
    return f"{target.ctype()} {name} = {{}};"


def body(function: Function, reverse: bool) -> Iterator[Emitted]:
    """The statements of a function's forward or reverse body, in order."""
    yield Emitted(_BAR)
    yield Emitted("// primal vars")
    for value in function.values:
        yield Emitted(declaration(value, reverse), value.node, value.origin)
    if reverse:
        yield Emitted(_BAR)
        yield Emitted("// dual vars")
        for value in function.values:
            yield Emitted(dual_declaration(value), value.node, value.origin)
    yield Emitted(_BAR)
    yield Emitted("// forward")
    yield from _region(function, "replay" if reverse else "forward")
    if reverse:
        yield Emitted(_BAR)
        yield Emitted("// reverse")
        yield from _region(function, "reverse")


def _region(function: Function, name: str) -> Iterator[Emitted]:
    leave = "continue;" if function.kind == "kernel" and function.grid_stride else "return;"
    depth = 0
    for top in function.regions.get(name, []):
        for op, statement, closing in statements(top):
            text = statement.cpp()
            if text == "return;":
                text = leave
            if statement.form == "close" or (closing and statement.form == "label"):
                depth -= 1
            node = 0 if statement.form == "note" else (op.end_node if closing else op.node)
            yield Emitted(text, node, op.origin, depth)
            if op.body is not None and not closing:
                depth += 1


def emit(module: Module, lines: str = "ir") -> tuple[str, list[int]]:
    """The module's CUDA C++ and, for each of its lines, the IR node it states (0: none).

    Args:
        module: with nodes numbered (see ``wir.printer``).
        lines: ``ir``, ``python`` or ``none``.
    """
    text: list[str] = []
    nodes: list[int] = []
    functions = {function.symbol: function for function in module.functions}
    wir = quote(f"{module.identifier}.wir")

    def directive(node: int, origin: Origin | None) -> None:
        if lines == "ir" and node:
            text.append(f"#line {node} {wir}")
            nodes.append(0)
        elif lines == "python" and origin is not None and not module.sources[origin.source].text:
            text.append(f"#line {origin.line} {quote(module.sources[origin.source].path)}")
            nodes.append(0)

    for part in module.layout:
        if isinstance(part, Body):
            function = functions[part.symbol]
            indent = "        " if function.kind == "kernel" else "    "
            for item in body(function, part.reverse):
                directive(item.node, item.origin)
                text.append(indent + "    " * item.depth + item.text)
                nodes.append(item.node)
            continue
        stated = 0
        for line in part.lines:
            if line.startswith(MARK):
                owner = functions[line[len(MARK) :]]
                directive(owner.node, owner.origin)
                stated = owner.node
            else:
                text.append(line)
                nodes.append(stated)
                stated = 0
    return "\n".join(text), nodes


def quote(path: str) -> str:
    """The path as a C string literal of a ``#line`` directive."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

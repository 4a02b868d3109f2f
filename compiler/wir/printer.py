"""Prints a module as ``.wir`` text and numbers its nodes: a node is a line of that text."""

from __future__ import annotations

import base64
import json
import zlib

from warp_audit.compiler.ir.expr import WIR, Expr
from warp_audit.compiler.ir.module import REGIONS, Body, Function, Module
from warp_audit.compiler.ir.op import Op, Origin

VERSION = (1, 0)


class _Printer:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, text: str) -> int:
        self.lines.append(text)
        return len(self.lines)

    def module(self, module: Module) -> None:
        self.add(f"wir {VERSION[0]}.{VERSION[1]} warp {module.warp}")
        self.add(f"module {quoted(module.name)} as {quoted(module.identifier)}")
        for key, value in module.options.items():
            self.add(f"option {key} {quoted(value)}")
        for index, source in enumerate(module.sources):
            self.add(f"source {index} sha256:{source.sha256} {quoted(source.path)}")
            for line in source.text:
                self.add(f"  | {line}")
        for struct in module.structs:
            struct.node = self.add(f"struct {struct.name} {quoted(struct.key)} {{")
            for name, kind in struct.fields:
                self.add(f"  field {name}: {kind}")
            self.add("}")
        for function in module.functions:
            self.function(function)
        for part in module.layout:
            if isinstance(part, Body):
                self.add(f"body {'reverse' if part.reverse else 'forward'} {part.symbol}")
            else:
                self.add("text {")
                for line in part.lines:
                    self.add(f"  | {line}" if line else "  |")
                self.add("}")
        for name, blob in module.blobs.items():
            self.add(f"blob {name} {base64.b64encode(zlib.compress(blob)).decode()}")

    def function(self, function: Function) -> None:
        head = f"{function.kind} {quoted(function.key)} as {function.symbol}"
        function.node = self.add(f"{head}{attributes(function.attrs)}{at(function.origin)} {{")
        for parameter in function.parameters:
            parameter.node = self.add(f"  param %{parameter.name}: {parameter.type}")
        for kind in function.returns:
            self.add(f"  returns {kind}")
        for value in function.values:
            constant = f" := {value.constant}" if value.constant is not None else ""
            value.node = self.add(f"  value %{value.name}: {value.type}{at(value.origin)}{constant}")
        for name in REGIONS:
            if name in function.regions:
                self.add(f"  {name} {{")
                self.region(function.regions[name], "    ")
                self.add("  }")
        self.add("}")

    def region(self, ops: list[Op], indent: str) -> None:
        for op in ops:
            op.node = self.add(indent + op_line(op))
            if op.body is not None:
                self.region(op.body, indent + "  ")
                op.end_node = self.add(indent + "}")


def op_line(op: Op) -> str:
    """The op as one line of ``.wir`` text, with the opening brace of its body."""
    if op.name == "note":
        return op.attrs["text"]
    parts = [f"{_list(op.results)} = " if op.results else "", f"{op.name}({_list(op.operands)})"]
    parts.extend(f" !{access}" for access in op.access)
    parts.append(attributes(op.attrs))
    if op.of is not None:
        parts.append(f" <{op.of.node}")
    parts.append(at(op.origin))
    if op.body is not None:
        parts.append(" {")
    return "".join(parts)


def _list(expressions: tuple[Expr, ...]) -> str:
    return ", ".join(e.text(WIR) for e in expressions)


def quoted(text: str) -> str:
    """A string of ``.wir`` text, quoted as JSON quotes it."""
    return json.dumps(text, ensure_ascii=False)


def attributes(attrs: dict[str, str]) -> str:
    """Attributes as they stand on a line: a space and a JSON object, or nothing."""
    return f" {json.dumps(attrs, ensure_ascii=False)}" if attrs else ""


def at(origin: Origin | None) -> str:
    """An origin as it stands on a line."""
    return f" @{origin}" if origin is not None else ""


def print_module(module: Module) -> str:
    """The module as ``.wir`` text; sets the ``node`` of everything in it to its line."""
    printer = _Printer()
    printer.module(module)
    return "\n".join(printer.lines) + "\n"

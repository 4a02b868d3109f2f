"""Checks that a module keeps the rules of the IR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from warp_audit.compiler.ir.expr import Dual, Expr, Primal, values
from warp_audit.compiler.ir.module import Body, Function, Module
from warp_audit.compiler.ir.op import Op, walk
from warp_audit.compiler.ir.types import BOOL, Reference, Struct, Type
from warp_audit.compiler.ops.access import Places, accesses


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a module breaks, with the node that breaks it."""

    node: int
    message: str


def verify(module: Module) -> list[Violation]:
    """What is wrong with the module; empty when it keeps the rules.

    The rules: symbols, structs, values and labels are declared once and known where used;
    every op but a note has an origin; ops of a reverse region name a forward op, except
    ``return``; the access stated is the access that follows from the operands; each kind's
    own fields are whole; comparisons give booleans, loads what was referenced.
    """
    found: list[Violation] = []
    symbols: set[str] = set()
    structs = {s.name for s in module.structs}
    for struct in module.structs:
        for name, kind in struct.fields:
            if isinstance(kind, Struct) and kind.name not in structs:
                found.append(Violation(struct.node, f"field {name}: struct {kind.name} is not declared"))
    for function in module.functions:
        if function.symbol in symbols:
            found.append(Violation(function.node, f"{function.symbol} is declared twice"))
        symbols.add(function.symbol)
    natives = {f.native for f in module.functions}
    for function in module.functions:
        found.extend(_Function(function, natives, len(module.sources)).violations())
    for part in module.layout:
        if isinstance(part, Body):
            needs = "reverse" if part.reverse else "forward"
            if needs not in module.function(part.symbol).regions:
                found.append(Violation(0, f"the layout takes a {needs} body that {part.symbol} does not have"))
    return found


class _Function:
    def __init__(self, function: Function, natives: set[str], sources: int) -> None:
        self.function = function
        self.natives = natives
        self.sources = sources
        self.types: dict[str, Type] = {}

    def violations(self) -> Iterator[Violation]:
        function = self.function
        if function.origin is None and function.kind != "native":
            yield Violation(function.node, f"{function.key} has no origin")
        for parameter in function.parameters:
            yield from self.declare(parameter.name, parameter.type, parameter.node)
        for value in function.values:
            yield from self.declare(value.name, value.type, value.node)
        for name, region in function.regions.items():
            places = self.places(name)
            yield from self.region(region, name, (), places)
        if ("replay" in function.regions) != ("reverse" in function.regions):
            yield Violation(function.node, f"{function.key} has a replay without reverse, or the other way")

    def declare(self, name: str, kind: Type, node: int) -> Iterator[Violation]:
        if name in self.types:
            yield Violation(node, f"%{name} is declared twice")
        self.types[name] = kind

    def places(self, region: str) -> Places:
        places = Places(dict(self.types), frozenset(p.name for p in self.function.parameters))
        if region != "forward":
            for op in walk(self.function.regions.get("forward", [])):
                places.learn(op)
        return places

    def region(self, ops: list[Op], region: str, labels: tuple[str, ...], places: Places) -> Iterator[Violation]:
        for op in ops:
            for message in self.op(op, region, labels, places):
                yield Violation(op.node, f"{op.name}: {message}")
            places.learn(op)
            if op.body is not None:
                inner = (*labels, op.attrs["label"]) if op.name == "loop" else labels
                yield from self.region(op.body, region, inner, places)

    def op(self, op: Op, region: str, labels: tuple[str, ...], places: Places) -> Iterator[str]:
        if op.name == "note":
            return
        if wrong := op.kind.check(op):
            yield wrong
        if op.origin is None:
            yield "no origin"
        elif not 0 <= op.origin.source < self.sources:
            yield "the origin names a source that the module does not list"
        if region == "reverse" and op.of is None and op.name != "return":
            yield "names no forward op"
        for expression in (*op.results, *op.operands):
            yield from self.known(expression)
        if op.name in ("break", "continue", "exit_if") and op.attrs["label"] not in labels:
            yield f"stands outside the loop {op.attrs['label']}"
        if op.name in ("call", "adj.call") and op.attrs["fn"] not in self.natives:
            yield f"calls {op.attrs['fn']}, which the module does not declare"
        if op.access != accesses(op, places):
            yield "states another access than its operands have"
        yield from self.typed(op)

    def known(self, expression: Expr) -> Iterator[str]:
        for value in values(expression):
            if value.name in self.types:
                continue
            # `^ret` is the result's adjoint; a callback's adjoint is named like one too.
            if isinstance(value, Dual) and (
                value.name == "ret" or value.name.startswith("ret_") or value.name in self.natives
            ):
                continue
            yield f"%{value.name} is not declared"

    def typed(self, op: Op) -> Iterator[str]:
        result = op.results[0] if op.results else None
        kind = self.types.get(result.name) if isinstance(result, Primal) else None
        if kind is None:
            return
        if op.name == "compare" and kind != BOOL:
            yield f"gives {kind}, not bool"
        if op.name in ("address", "field_ref", "element_ref") and not isinstance(kind, Reference):
            yield f"gives {kind}, not a reference"
        if op.name == "load" and isinstance(op.operands[0], Primal):
            source = self.types.get(op.operands[0].name)
            if isinstance(source, Reference) and source.target != kind:
                yield f"gives {kind} from {source}"

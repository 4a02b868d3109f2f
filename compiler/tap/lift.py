"""Lifts what was heard of one Warp module into the IR."""

from __future__ import annotations

import ast
import hashlib
import linecache
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any

from warp_audit.compiler.emit.cuda import MARK as FRAME_MARK
from warp_audit.compiler.emit.cuda import body as emit_body
from warp_audit.compiler.ir.expr import Dual, Primal
from warp_audit.compiler.ir.module import Body, Frame, Function, Module, Parameter, Source, StructDecl, Value
from warp_audit.compiler.ir.op import Op, Origin, walk
from warp_audit.compiler.ops.access import Places, annotate
from warp_audit.compiler.ops.assemble import AssembleError, Line, assemble
from warp_audit.compiler.ops.kind import Scope
from warp_audit.compiler.tap.listen import BODY_CLOSE, BODY_OPEN, MARK, Heard
from warp_audit.compiler.tap.warp_types import TypeReader
from warp_audit.errors import BrokenPromise


@dataclass(slots=True)
class _Position:
    """Where the source of one adjoint lies in its file."""

    source: int
    first_line: int  # of the function's source in the file, 1-based
    indent: int  # characters that Warp took from the left of each line
    lines: list[str]
    nodes: dict[int, Origin | None] = field(default_factory=dict)

    def origin(self, node: Any) -> Origin | None:
        if id(node) not in self.nodes:
            self.nodes[id(node)] = self._origin(node)
        return self.nodes[id(node)]

    def _origin(self, node: Any) -> Origin | None:
        start, end = node, node
        if isinstance(node, ast.Expr):
            start = end = node.value
        elif isinstance(node, (ast.If, ast.While)):
            end = node.test
        elif isinstance(node, ast.For):
            end = node.iter
        line = getattr(start, "lineno", None)
        if line is None:
            return None
        column = start.col_offset
        if isinstance(node, ast.FunctionDef):
            end_line, end_column = line, column + len("def ") + len(node.name)
        else:
            end_line, end_column = end.end_lineno or line, end.end_col_offset or column
        return Origin(
            self.source,
            self.first_line + line - 1,
            self._column(line, column),
            self.first_line + end_line - 1,
            self._column(end_line, end_column),
        )

    def _column(self, line: int, offset: int) -> int:
        """A 1-based column in characters from an offset in UTF-8 bytes."""
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        if not text.isascii():
            offset = len(text.encode()[:offset].decode(errors="ignore"))
        return offset + self.indent + 1


class Lifter:
    """Builds the IR module of one finished ``ModuleBuilder``."""

    def __init__(self, builder: Any, heard: Heard, text: str, warp: str) -> None:
        self.builder = builder
        self.heard = heard
        self.text = text
        self.types = TypeReader()
        module = builder.module
        block_dim = builder.options["block_dim"]
        self.module = Module(module.name, module.get_module_identifier(block_dim=block_dim), warp)
        self.sources: dict[str, int] = {}
        self.positions: dict[int, _Position] = {}
        self.by_adjoint: dict[int, Function] = {}
        self.forward_marks: dict[str, dict[int, Op]] = {}  # forward ops by mark, for each symbol
        self.functions = frozenset(f.native_func for f in builder.functions)
        self.structs = frozenset(s.native_name for s in builder.structs)

    def lift(self) -> Module:
        """The module.

        Raises:
            BrokenPromise: a statement of Warp's could not be read, or does not print back.
        """
        for struct in self.builder.structs:
            self.types.structs.setdefault(struct.native_name, struct)
        for function in self.builder.functions:
            kind = "func" if function.native_snippet is None else "native"
            self._declare(kind, function.key, function.native_func, function.adj)
        for kernel in self.builder.kernels:
            made = self._declare("kernel", kernel.key, kernel.get_mangled_name(), kernel.adj)
            self._kernel_facts(made, kernel)
        self._layout()
        for made in self.by_adjoint.values():
            self.module.functions.append(made)
        done: set[str] = set()
        while len(done) < len(self.types.structs):
            for name, struct in list(self.types.structs.items()):
                if name not in done:
                    done.add(name)
                    fields = [(label, self.types.read(var.type)) for label, var in struct.vars.items()]
                    self.module.structs.append(StructDecl(name, struct.key, fields))
        options = self.builder.options
        self.module.options = {key: str(options[key]) for key in sorted(options) if _plain(options[key])}
        for symbol, blob in sorted(self.builder.ltoirs.items()):
            self.module.blobs[f"ltoir:{symbol}"] = blob
        for symbol, blob in sorted(self.builder.fatbins.items()):
            self.module.blobs[f"fatbin:{symbol}"] = blob
        return self.module

    def _kernel_facts(self, made: Function, kernel: Any) -> None:
        options = self.builder.options | kernel.options
        grid_stride = getattr(kernel, "grid_stride", True)
        if options.get("entry_point_abi") == "external_constant_params":
            made.attrs["entry"] = made.symbol
            grid_stride = False
        made.attrs["grid_stride"] = "true" if grid_stride else "false"
        made.attrs["dims"] = str(kernel.adj.kernel_dim)

    def _declare(self, kind: str, key: str, symbol: str, adj: Any) -> Function:
        position = self._position(adj)
        origin = position.origin(adj.tree.body[0])
        taken = sum(1 for other in self.by_adjoint.values() if other.native == symbol)
        made = Function(kind, key, f"{symbol}#{taken + 1}" if taken else symbol, origin)
        made.parameters = [Parameter(arg.label, self.types.read(arg.type)) for arg in adj.args]
        if adj.return_var is not None:
            made.returns = tuple(self.types.read(v.type) for v in adj.return_var)
        if kind != "native":
            for var in adj.variables:
                node = getattr(var, "warp_audit_node", None)
                made.values.append(
                    Value(var.label, self.types.read(var.type), _constant(var), position.origin(node) if node else None)
                )
        self.by_adjoint[id(adj)] = made
        return made

    def _position(self, adj: Any) -> _Position:
        found = self.positions.get(id(adj))
        if found is None:
            path = adj.filename or "unknown source file"
            file_lines = linecache.getlines(path) if path != "unknown source file" else []
            first = adj.fun_lineno
            lines = list(adj.source_lines)
            indent = 0
            text: tuple[str, ...] = ()
            if not file_lines or first < 1 or not _same(file_lines, first, lines):
                # Source that Warp or the program made: kept in the module, numbered from 1.
                digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
                path, text, first = f"<{adj.fun_name} {digest[:8]}>", tuple(lines), 1
            else:
                whole = file_lines[first - 1]
                indent = len(whole) - len(whole.lstrip()) - (len(lines[0]) - len(lines[0].lstrip()))
            found = self.positions[id(adj)] = _Position(self._source(path, text), first, indent, lines)
        return found

    def _source(self, path: str, text: tuple[str, ...]) -> int:
        if path not in self.sources:
            content = "\n".join(text) if text else "".join(linecache.getlines(path))
            digest = hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()
            self.sources[path] = len(self.module.sources)
            self.module.sources.append(Source(path, digest, text))
        return self.sources[path]

    def _layout(self) -> None:
        frame: list[str] = []
        lines = self.text.split("\n")
        at = 0
        while at < len(lines):
            line = lines[at]
            at += 1
            if line.startswith(BODY_OPEN):
                adj, reverse, body = self.heard.bodies[int(line[len(BODY_OPEN) :])]
                while lines[at] != BODY_CLOSE:
                    at += 1
                at += 1
                if frame:
                    self.module.layout.append(Frame(tuple(frame)))
                    frame = []
                function = self.by_adjoint[id(adj)]
                self._body(function, adj, reverse, body)
                self.module.layout.append(Body(function.symbol, reverse))
            elif match := MARK.fullmatch(line):
                owner = self.by_adjoint.get(id(self.heard.frames[match[2]]))
                if owner is not None:
                    frame.append(FRAME_MARK + owner.symbol)
            else:
                frame.append(line)
        if frame:
            self.module.layout.append(Frame(tuple(frame)))

    def _body(self, function: Function, adj: Any, reverse: bool, text: str) -> None:
        wanted = ("replay", "reverse") if reverse else ("forward",)
        if wanted[0] in function.regions:
            return
        sections = _sections(text)
        if reverse and "forward" not in function.regions:
            # Reverse code names the forward ops it belongs to: read those first.
            self._forward_only(function, adj)
        try:
            for name in wanted:
                title = "forward" if name in ("forward", "replay") else "reverse"
                self._region(function, adj, name, sections[title])
        except AssembleError as wrong:
            raise BrokenPromise(
                f"{function.kind} {function.key}: {wrong}", where=f"{adj.filename}:{adj.fun_lineno}"
            ) from None
        self._compare(function, adj, reverse, text)

    def _forward_only(self, function: Function, adj: Any) -> None:
        for other, reverse, text in self.heard.bodies:
            if other is adj and not reverse:
                self._body(function, adj, False, text)
                return

    def _region(self, function: Function, adj: Any, name: str, lines: list[Line]) -> None:
        scope = Scope(self.functions, self.structs)
        scope.written.update(v.name for v in function.values if v.constant is not None)
        scope.written.update(p.name for p in function.parameters)
        for region in function.regions.values():
            for op in walk(region):
                if "outs" in op.attrs:
                    scope.outputs[op.kind.write(op).cpp()] = int(op.attrs["outs"])
                if name == "reverse":
                    scope.written.update(r.name for r in op.results if isinstance(r, Primal))
        region, marks = assemble(lines, scope)
        function.regions[name] = region
        _Linker(self, function, adj, name, marks).link(region)

    def _compare(self, function: Function, adj: Any, reverse: bool, text: str) -> None:
        """The promise: what we print is what Warp wrote, statement for statement."""
        theirs = [s for line in text.split("\n") if (s := line.strip()) and not s.startswith("#line ")]
        ours = [item.text for item in emit_body(function, reverse)]
        if ours != theirs:
            pair = next(((a, b) for a, b in zip(ours, theirs, strict=False) if a != b), None)
            detail = f"{pair[0]!r} for {pair[1]!r}" if pair else f"{len(ours)} statements for {len(theirs)}"
            raise BrokenPromise(
                f"{function.kind} {function.key}: the emitter prints {detail}", where=f"{adj.filename}:{adj.fun_lineno}"
            )


class _Linker:
    """Gives the ops of one region their origin, forward op and access."""

    def __init__(self, lifter: Lifter, function: Function, adj: Any, name: str, marks: dict[int, int]) -> None:
        self.function = function
        self.position = lifter._position(adj)
        self.nodes = lifter.heard.nodes
        self.heard_forward = lifter.forward_marks.setdefault(function.symbol, {})
        self.name = name
        self.marks = marks
        self.values = {v.name: v for v in function.values}
        self.forward_marks: list[int] = []
        self.forward_ops: list[Op] = []
        self.loops: dict[str, Op] = {}

    def link(self, region: list[Op]) -> None:
        if self.name != "forward":
            known = sorted(self.heard_forward.items())
            self.forward_marks = [mark for mark, _ in known]
            self.forward_ops = [op for _, op in known]
        for op in walk(self.function.regions.get("forward", [])):
            if op.name == "loop":
                self.loops[op.attrs["label"]] = op
        for op in walk(region):
            mark = self.marks.get(id(op), 0)
            if mark:
                op.origin = self.position.origin(self.nodes[mark - 1])
                if self.name == "forward":
                    self.heard_forward[mark] = op
            if self.name != "forward":
                op.of = self.forward_op(op, mark)
        self.fill(region, self.function.origin)
        self.places(region)

    def forward_op(self, op: Op, mark: int) -> Op | None:
        """The forward op that a replayed or reverse op belongs to: the last one heard before it."""
        if op.name == "note":
            return None
        if mark and self.forward_marks:
            at = bisect_left(self.forward_marks, mark + 1) - 1
            if at >= 0:
                return self.forward_ops[at]
        if op.name == "loop":
            return self.loops.get(op.attrs["label"])
        return None

    def fill(self, ops: list[Op], parent: Origin | None) -> None:
        """Ops that Warp gives no line take it from what they belong to."""
        following: Origin | None = None
        for op in reversed(ops):
            if op.origin is None and op.of is not None:
                op.origin = op.of.origin
            if op.origin is None and op.name == "loop" and op.attrs["label"] in self.loops:
                op.origin = self.loops[op.attrs["label"]].origin
            if op.origin is None and op.body:
                op.origin = next((o.origin for o in walk(op.body) if o.origin is not None), None)
            if op.origin is None and op.name != "note":
                op.origin = following if op.name == "reversed" and following else parent
            if op.origin is not None:
                following = op.origin
            if op.body is not None:
                self.fill(op.body, op.origin)
                if op.of is None and self.name == "reverse" and op.name == "loop":
                    op.of = self.loops.get(op.attrs["label"])
        loop: Op | None = None
        for op in reversed(ops):
            if op.name == "loop" and op.of is not None:
                loop = op
                for inner in op.body or ():
                    if inner.of is None and inner.name != "note":
                        inner.of = op.of
            elif loop is not None and op.of is None and op.name in ("reversed", "literal"):
                op.of, op.origin = loop.of, loop.origin  # sets the loop's counter to its last value
            else:
                loop = None

    def places(self, region: list[Op]) -> None:
        types = {v.name: v.type for v in self.function.values}
        types.update((p.name, p.type) for p in self.function.parameters)
        places = Places(types, frozenset(p.name for p in self.function.parameters))
        if self.name != "forward":
            for op in walk(self.function.regions.get("forward", [])):
                places.learn(op)
        annotate(walk(region), places)
        where: dict[str, Origin] = {}
        for op in walk(region):
            for result in op.results:
                if isinstance(result, (Primal, Dual)) and op.origin is not None:
                    value = self.values.get(result.name)
                    if value is not None and value.origin is None:
                        value.origin = op.origin
                    if isinstance(result, Primal) and op.name in ("address", "field_ref", "element_ref", "view"):
                        where[result.name] = op.origin
            # A load is emitted where the value is used; it belongs to the expression that it reads.
            if op.name in ("load", "adj.load") and op.operands and isinstance(op.operands[0], Primal):
                op.origin = where.get(op.operands[0].name) or self.read_at(op.operands[0].name) or op.origin
        for value in self.function.values:
            if value.origin is None and self.name == "forward":
                value.origin = self.function.origin

    def read_at(self, name: str) -> Origin | None:
        value = self.values.get(name)
        return value.origin if value is not None else None


def _constant(var: Any) -> str | None:
    from warp._src.codegen import constant_str

    return None if var.constant is None else str(constant_str(var.constant))


def _plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool, type(None), tuple, list))


def _same(file_lines: list[str], first: int, lines: list[str]) -> bool:
    """Whether the file holds the function's source where Warp says it does."""
    if first - 1 + len(lines) > len(file_lines):
        return False
    return all(file_lines[first - 1 + i].strip() == line.strip() for i, line in enumerate(lines))


def _sections(text: str) -> dict[str, list[Line]]:
    """The statements of a body by the title of their section."""
    sections: dict[str, list[Line]] = {}
    current: list[Line] = []
    mark = 0
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        at += 1
        if line == "//---------" and at < len(lines):
            title = lines[at].strip()[3:]
            at += 1
            current = sections.setdefault(title, [])
            mark = 0
        elif match := MARK.fullmatch(line):
            mark = int(match[1])
        elif line:
            current.append(Line(line, mark))
            mark = 0
    return sections

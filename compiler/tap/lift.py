"""Lifts what was heard of one Warp module into the IR."""

from __future__ import annotations

from typing import Any

from warp_audit.compiler.emit.cuda import MARK as FRAME_MARK
from warp_audit.compiler.emit.cuda import body as emit_body
from warp_audit.compiler.ir.expr import Primal
from warp_audit.compiler.ir.module import Body, Frame, Function, Module, Parameter, StructDecl, Value
from warp_audit.compiler.ir.op import Op, walk
from warp_audit.compiler.ops.assemble import AssembleError, Line, assemble
from warp_audit.compiler.ops.kind import Scope
from warp_audit.compiler.tap.link import Linker
from warp_audit.compiler.tap.listen import BODY_CLOSE, BODY_OPEN, MARK, Heard
from warp_audit.compiler.tap.origins import Positions
from warp_audit.compiler.tap.warp_types import TypeReader
from warp_audit.errors import BrokenPromise


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
        self.positions = Positions()
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
        self.module.sources = self.positions.sources
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
        position = self.positions.of(adj)
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
        heard = self.forward_marks.setdefault(function.symbol, {})
        Linker(function, name, self.positions.of(adj), self.heard.nodes, marks, heard).link(region)

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


def _constant(var: Any) -> str | None:
    from warp._src.codegen import constant_str

    return None if var.constant is None else str(constant_str(var.constant))


def _plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool, type(None), tuple, list))


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

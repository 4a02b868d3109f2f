"""Ties ops to what they come from: Python expression, forward op, memory."""

from __future__ import annotations

import ast
from bisect import bisect_left

from warp_audit.compiler.ir.expr import Dual, Primal
from warp_audit.compiler.ir.module import Function
from warp_audit.compiler.ir.op import Op, Origin, walk
from warp_audit.compiler.ops.access import Places, annotate
from warp_audit.compiler.tap.origins import Position


class Linker:
    """Gives the ops of one region their origin, forward op and access.

    Args:
        name: the region's.
        position: where the function's source lies.
        nodes: the Python node of each mark, from 1.
        marks: the mark of each op by ``id(op)``, 0 for none.
        heard_forward: the function's forward ops by mark; filled by the forward region.
    """

    def __init__(
        self,
        function: Function,
        name: str,
        position: Position,
        nodes: list[ast.AST],
        marks: dict[int, int],
        heard_forward: dict[int, Op],
    ) -> None:
        self.function = function
        self.name = name
        self.position = position
        self.nodes = nodes
        self.marks = marks
        self.heard_forward = heard_forward
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

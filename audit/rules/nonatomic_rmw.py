"""Declares the rule ``nonatomic-rmw``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Replace
from warp_audit.audit.rule import Finding, Fix, Place, Rule, Safety
from warp_audit.audit.source import races
from warp_audit.audit.source.types import Scalar, element
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.races import Touch
    from warp_audit.audit.source.symbolic import Form

_BITWISE = (ast.BitAnd, ast.BitOr, ast.BitXor)
_BITWISE_ATOMIC_SINCE = (1, 10)
_NARROW = {"int8", "uint8", "int16", "uint16", "bool"}
_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.MatMult: "@",
}  # fmt: skip


class NonatomicRmw(Rule):
    """Several threads update one element by reading it and writing it back.

    What it finds: an update that is no atomic operation (``a[k] *= v``, ``a[k] = a[k] + v``, also through a
    local) of an element that threads share: the index leaves out a thread coordinate or comes from a table.
    For projects that support Warp older than 1.10 also ``&=``, ``|=`` and ``^=``.

    Why it matters: between the read and the write of one thread another thread writes, and its update is lost.
    Which are lost differs from run to run. On the CPU threads run one after another, so tests pass.

    Instead: use ``+=``, ``-=`` or ``wp.atomic_add`` and its siblings; turn a product into a sum of logarithms, or
    give each element to one thread that loops over its contributions.
    """

    code = "WPA301"
    severity = Severity.ERROR
    confidence = Confidence.MEDIUM
    references = ("NVIDIA/warp#886",)
    fix_safety = Safety.SAFE
    BAD = (
        """
        @wp.kernel
        def count(
            cluster: wp.array(dtype=int), p: wp.array(dtype=float), n: wp.array(dtype=int), q: wp.array(dtype=float)
        ):
            i = wp.tid()
            k = cluster[i]
            q[k] *= p[i]  # error: WPA301
            n[k] = n[k] + 1  # error: WPA301
        """,
        """
        @wp.kernel
        def row_peak(grid: wp.array2d(dtype=float), peak: wp.array(dtype=float), last: wp.array(dtype=float)):
            row, col = wp.tid()
            before = peak[row]
            peak[row] = wp.max(before, grid[row, col])  # error: WPA301
            if col == 0:
                last[row] = last[row] * 0.5
        """,
        """
        @wp.kernel
        def spread(x: wp.array(dtype=wp.vec3), m: wp.array(dtype=float), mass: wp.array2d(dtype=float), width: float):
            p = wp.tid()
            column = int(x[p][0] / width)
            mass[column, 0] = mass[column, 0] + m[p]  # error: WPA301
            mass[p // 2, 1] *= 0.5  # error: WPA301

        @wp.func
        def bump(table: wp.array(dtype=int), at: int):
            old = table[at]
            old += 1
            table[at] = old  # error: WPA301

        @wp.kernel
        def histogram(sample: wp.array(dtype=int), table: wp.array(dtype=int)):
            i = wp.tid()
            bump(table, sample[i])
            table[0] = 1 + table[0]  # error: WPA301
        """,
    )
    GOOD = (
        """
        @wp.func
        def bump(table: wp.array(dtype=int), at: int):
            table[at] = table[at] + 1

        @wp.kernel
        def decay(p: wp.array(dtype=float), n: wp.array(dtype=int), grid: wp.array2d(dtype=float), width: int):
            i = wp.tid()
            p[i] *= 0.9
            p[2 * i + 1] = p[2 * i + 1] + 0.01
            grid[i // width, i % width] *= 2.0
            bump(n, i)
            if i == 0:
                n[0] = n[0] + 1

        @wp.kernel
        def totals(cluster: wp.array(dtype=int), p: wp.array(dtype=float), n: wp.array(dtype=float)):
            i = wp.tid()
            n[cluster[i]] += p[i]
            wp.atomic_max(n, 0, p[i])

        @wp.kernel
        def one_thread(p: wp.array(dtype=float), total: wp.array(dtype=float)):
            for k in range(p.shape[0]):
                total[0] = total[0] + p[k]

        @wp.kernel
        def rows(start: wp.array(dtype=int), value: wp.array(dtype=float)):
            row = wp.tid()
            for k in range(start[row], start[row + 1]):
                value[k] = value[k] * 2.0

        def run(p, total):
            wp.launch(one_thread, dim=1, inputs=[p, total])
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        if not any((effect.reads and effect.writes) or effect.atomics for effect in kernel.effects.values()):
            return
        changed = [touch for touch in races.touches(kernel) if self._updates(touch)]
        if not changed or races.orders_itself(kernel):
            return
        axes = races.axes_of(kernel)
        unique = _taken_for_unique(kernel)
        for touch in changed:
            why = _meeting(touch, axes, unique)
            if why is not None:
                yield self.at(
                    kernel,
                    touch.node,
                    f"'{touch.root}' is read and written back without an atomic operation, but {why}",
                    fix=self._fix(touch),
                )

    @staticmethod
    def _updates(touch: Touch) -> bool:
        access = touch.access
        if access.what == "update":
            return True
        if access.what == "write":
            return races.own_read(touch) is not None
        if access.what != "augment":
            return False
        held = element(access.type)
        if isinstance(held, Scalar) and held.name in _NARROW:
            return True
        bound = touch.threads.function.module.project.min_warp
        operator = getattr(access.site.statement, "op", None)
        return bound is not None and bound < _BITWISE_ATOMIC_SINCE and isinstance(operator, _BITWISE)

    def _fix(self, touch: Touch) -> Fix | None:
        """``a[k] += v`` for ``a[k] = a[k] + v``; ``wp.atomic_max(a, k, v)`` for ``a[k] = wp.max(a[k], v)``."""
        statement = touch.access.site.statement
        if touch.node is not touch.access.node or not isinstance(statement, ast.Assign) or touch.access.component:
            return None
        if len(statement.targets) != 1 or statement.targets[0] is not touch.access.node:
            return None
        target, value = statement.targets[0], statement.value
        form = touch.threads.function.symbols.form
        if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)):
            if form(value.left) == form(target):
                code = f"{ast.unparse(target)} {_SIGNS[type(value.op)]}= {ast.unparse(value.right)}"
                return self.mend("Update the element atomically", Replace(Place.of(statement), code))
            if isinstance(value.op, ast.Add) and form(value.right) == form(target):
                code = f"{ast.unparse(target)} += {ast.unparse(value.left)}"
                return self.mend("Update the element atomically", Replace(Place.of(statement), code))
        return None


def _meeting(touch: Touch, axes: frozenset[int], unique: set[tuple[Form, ...]]) -> str | None:
    if touch.shared(axes):
        return "threads share the element: its index leaves out a thread coordinate"
    if touch.grouped(axes):
        return "neighbouring threads share the element: its index is a quotient or remainder of the thread's"
    if touch.indices not in unique and touch.scattered(axes) and _gathers(touch):
        return "two threads may get the same index from a table"
    return None


def _taken_for_unique(kernel: DeviceFunction) -> set[tuple[Form, ...]]:
    """Indices through which the kernel also stores plain values: its author takes them for each thread's own."""
    return {
        touch.indices
        for touch in races.touches(kernel)
        if touch.access.what == "write" and races.own_read(touch) is None
    }


def _gathers(touch: Touch) -> bool:
    """Whether an index is a table's element as it is, and the update not one for a list of distinct indices.

    A table of offsets has something added to its elements; scaling by one number for all is done to the members
    of a list; a loop over a thread's own range goes through what belongs to the thread.
    """
    if touch.dependence.quantized:
        return True
    if touch.dependence.shifted or touch.dependence.parted:
        return False
    operand = _operand(touch)
    if operand is None:
        return False
    bare = operand.args[0] if isinstance(operand, ast.Call) and len(operand.args) == 1 else operand
    return isinstance(bare, ast.Constant) or bool(touch.threads.without(touch.own_indices).of(operand).axes)


def _operand(touch: Touch) -> ast.expr | None:
    """What is combined with the element's old value, if it is combined by one operation."""
    access, function = touch.access, touch.threads.function
    if isinstance(access.site.statement, ast.AugAssign):
        return access.value
    statement = access.site.statement
    target = statement.targets[0] if isinstance(statement, ast.Assign) else access.node
    value, old = access.value, function.symbols.form(target)
    while isinstance(value, ast.Name):
        definition = function.flow.uses.get(value)
        if definition is None or definition.kind not in ("assign", "augment") or definition.index is not None:
            return None
        if definition.kind == "augment":
            same = definition.previous is not None and function.symbols.of_def(definition.previous) == old
            return definition.value if same else None
        value = definition.value
    if isinstance(value, ast.BinOp):
        parts = [value.left, value.right]
    elif isinstance(value, ast.Call) and function.builtin(value) in ("min", "max") and len(value.args) == 2:
        parts = value.args
    else:
        return None
    if function.symbols.form(parts[0]) == old:
        return parts[1]
    return parts[0] if function.symbols.form(parts[1]) == old else None

"""Declares the rule ``scalar-index-unchecked``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import guards_on, indices, launch_argument, made_extent
from warp_audit.audit.source.symbolic import Form
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction
    from warp_audit.audit.source.host import HostFunction, Launch


class ScalarIndexUnchecked(Rule):
    """A counter of host code is passed to a kernel as an index of an array of another length.

    What it finds: a launch that passes a loop's variable, or a counter of an object, to a parameter which the kernel
    uses as an index, unguarded, of an array that was made with another size than the counter's bound.

    Why it matters: when the loop runs longer than the array is, the kernel writes out of bounds, silently.

    Instead: make the array as long as the loop, limit the loop with ``min``, or test in the kernel.
    """

    code = "WPA219"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#501",)
    BAD = (
        """
        @wp.kernel
        def note(x: wp.array(dtype=float), log: wp.array2d(dtype=float), step: int):
            i = wp.tid()
            log[step, i] = x[i]

        class Run:
            def __init__(self, n):
                self.log = wp.zeros((100, n), dtype=float)

            def go(self, x, steps):
                for s in range(steps):
                    wp.launch(note, dim=len(x), inputs=[x, self.log, s])  # error: WPA219
        """,
        """
        @wp.kernel
        def note(x: wp.array(dtype=float), log: wp.array(dtype=float), step: int):
            i = wp.tid()
            log[step] = x[i]

        class Recorder:
            def __init__(self, room):
                self.log = wp.zeros(room, dtype=float)
                self.count = 0

            def record(self, x):
                wp.launch(note, dim=1, inputs=[x, self.log, self.count])  # error: WPA219
                self.count += 1

        def go(x, steps, items):
            log = wp.zeros(64, dtype=float)
            s = 0
            while s < steps:
                wp.launch(note, dim=1, inputs=[x], outputs=[log, s])  # error: WPA219
                s += 1
            for s in range(0, steps):
                wp.launch(note, dim=1, inputs=[x, log, s // 10])  # error: WPA219
            for s, item in enumerate(items):
                wp.launch(note, dim=1, inputs=[item, log, s])  # error: WPA219
            for s in range(65):
                wp.launch(note, dim=1, inputs=[x, log, s])  # error: WPA219
            short = wp.zeros(steps, dtype=float)
            for s in range(steps + 1):
                wp.launch(note, dim=1, inputs=[x, short, s])  # error: WPA219
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def note(x: wp.array(dtype=float), log: wp.array2d(dtype=float), step: int):
            i = wp.tid()
            log[step, i] = x[i]

        @wp.kernel
        def checked(x: wp.array(dtype=float), log: wp.array2d(dtype=float), step: int):
            i = wp.tid()
            if step < log.shape[0]:
                log[step, i] = x[i]

        NAMES = ("a", "b", "c")

        class Recorder:
            def __init__(self, room, n):
                self.room = room
                self.log = wp.zeros((room, n), dtype=float)
                self.count = 0

            def record(self, x):
                if self.count < self.room:
                    wp.launch(note, dim=len(x), inputs=[x, self.log, self.count])
                    self.count += 1

        def checked_before(x, steps):
            if steps > 8:
                raise ValueError("too many steps")
            small = wp.zeros((8, len(x)), dtype=float)
            for s in range(steps):
                wp.launch(note, dim=len(x), inputs=[x, small, s])
                wp.launch(note, dim=len(x), inputs=[x, small, s % 8])

        def named(x, items):
            rows = wp.zeros((len(NAMES), len(x)), dtype=float)
            for s, name in enumerate(NAMES):
                wp.launch(note, dim=len(x), inputs=[x, rows, s])
            others = wp.zeros((len(items), len(x)), dtype=float)
            for s, item in enumerate(items):
                wp.launch(note, dim=len(x), inputs=[item, others, s])

        def go(x, steps, given):
            log = wp.zeros((steps, len(x)), dtype=float)
            small = wp.zeros((100, len(x)), dtype=float)
            for s in range(steps):
                wp.launch(note, dim=len(x), inputs=[x, log, s])
                wp.launch(note, dim=len(x), inputs=[x, given, s])
                wp.launch(checked, dim=len(x), inputs=[x, small, s])
            for s in range(min(steps, 100)):
                wp.launch(note, dim=len(x), inputs=[x, small, s])
            for s in range(100):
                wp.launch(note, dim=len(x), inputs=[x, small, s])
        """,
    )

    def launch(self, launch: Launch) -> Iterator[Finding]:
        kernel = launch.kernel
        if kernel is None:
            return
        uses = _scalar_indices(kernel)
        for parameter, argument in launch.pairs(kernel) if uses else ():
            for access, axis, form in uses.get(parameter.name, ()):
                array = launch_argument(launch, kernel, access.root)
                made = made_extent(launch.function, array, axis, access.type.ndim) if array is not None else None
                if made is None or array is None or not _exceeds(launch, argument, int(form.constant), *made):
                    continue
                yield self.at(
                    launch,
                    argument,
                    f"'{ast.unparse(argument)}' indexes '{ast.unparse(array)}' (line {access.node.lineno}), and "
                    f"nothing keeps it below the length '{ast.unparse(made[0])}'",
                    "limit it where it counts, make the array as long, or test in the kernel",
                )
                return


def _scalar_indices(kernel: DeviceFunction) -> dict[str, list[tuple[Access, int, Form]]]:
    """Accesses at a scalar parameter, or a constant behind one, that no condition guards."""
    found: dict[str, list[tuple[Access, int, Form]]] | None = kernel.__dict__.get("_scalar_indices")
    if found is None:
        found = kernel.__dict__["_scalar_indices"] = {}
        for access in kernel.accesses:
            for axis, _, form in indices(kernel, access):
                if len(form.terms) != 1:
                    continue
                ((atom, coefficient),) = form.terms
                if atom[0] != "parameter" or coefficient != 1 or not isinstance(form.constant, int):
                    continue
                if not guards_on(kernel, access.site, {atom}):
                    found.setdefault(atom[1], []).append((access, axis, form))
    return found


def _exceeds(launch: Launch, argument: ast.expr, above: int, extent: ast.expr, maker: HostFunction) -> bool:
    """Whether an index may well pass an extent: it counts to something that has to do with neither."""
    host = launch.function
    known = maker.constant(extent)
    length = Form(known) if isinstance(known, int) else maker.symbols.form(extent)
    index = host.symbols.form(argument)
    if index.is_constant:
        return length.is_constant and index.constant + above >= length.constant > 0
    limits = _limits(launch, argument, index)
    if not limits:
        return _is_free_counter(launch, argument) and (length.is_constant or _is_parameter(length))
    return all(_is_longer(launch, limit.plus(Form(above)), length, maker) for limit in limits)


def _limits(launch: Launch, argument: ast.expr, index: Form) -> list[Form]:
    """What an index is below: the ends of the host loops that count it."""
    symbols, flow = launch.function.symbols, launch.function.flow
    limits = [
        bound.limit if bound.strict else bound.limit.plus(Form(1)) for bound in symbols.upper_bounds(index, launch.site)
    ]
    definition = flow.uses.get(argument)
    if definition is not None and definition.kind == "loop" and definition.index == 0:
        call = definition.value
        if isinstance(call, ast.Call) and launch.function.builtin(call) == "enumerate" and len(call.args) == 1:
            limits.append(symbols.form(ast.Call(ast.Name("len", ast.Load()), [call.args[0]], [])))
    atom = index.single()
    if not limits and atom is not None and atom[0] == "floordiv":  # `step // every`
        inner = atom[1]
        limits = [bound.limit for bound in symbols.upper_bounds(inner, launch.site) if not bound.limit.is_constant]
    return [_resolved(launch.function, limit) for limit in limits]


def _resolved(host: HostFunction, limit: Form) -> Form:
    """``len(NAMES)`` of a module's tuple as the number that it is."""
    atom = limit.single()
    if atom is None or atom[0] != "shape" or not isinstance(atom[1], str) or not atom[1].isidentifier():
        return limit
    known = host.constant(ast.Call(ast.Name("len", ast.Load()), [ast.Name(atom[1], ast.Load())], []))
    return Form(known) if isinstance(known, int) else limit


def _is_longer(launch: Launch, limit: Form, length: Form, maker: HostFunction) -> bool:
    """Whether a count is more than a length, or has nothing to do with it."""
    over = limit.minus(length)
    if over.is_constant:
        return over.constant > 0
    for atom in limit.atoms:
        compared = launch.function.symbols.upper_bounds(Form.of(atom), launch.site)
        if any(not bound.limit.mentions("def") for bound in compared):  # not the end of a loop before
            return False
    plain = limit.atoms[0] if len(limit.terms) == 1 and limit.size == 1 else None
    if plain is None or plain[0] not in ("parameter", "free", "value", "shape"):
        return False
    if length.is_constant:
        return True
    return (
        plain[0] == "parameter"
        and _is_parameter(length)
        and (maker is launch.function or plain[1] != length.atoms[0][1])
    )


def _is_parameter(form: Form) -> bool:
    atom = form.single()
    return atom is not None and atom[0] == "parameter"


def _is_free_counter(launch: Launch, argument: ast.expr) -> bool:
    """Whether ``self.count`` is only ever counted up in its class: never compared, wrapped or set back."""
    scope = launch.function.class_scope
    if scope is None or not isinstance(argument, ast.Attribute) or not isinstance(argument.value, ast.Name):
        return False
    text = ast.unparse(argument)
    counted = False
    for node in walk(scope.node):
        if isinstance(node, (ast.Compare, ast.Mod)) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)):
            if any(isinstance(part, ast.Attribute) and ast.unparse(part) == text for part in walk(node)):
                return False
        elif isinstance(node, ast.AugAssign) and ast.unparse(node.target) == text:
            counted = isinstance(node.op, ast.Add)
    return counted and all(isinstance(value, (ast.Constant, ast.BinOp)) for value, _ in
                           launch.function.attribute_values(argument))  # fmt: skip

"""Declares the rule ``scalar-index-unchecked``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import guards_on, indices
from warp_audit.audit.source.symbolic import Form
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction
    from warp_audit.audit.source.host import Launch


class ScalarIndexUnchecked(Rule):
    """A loop's counter is passed to a kernel as an index of an array of another length.

    What it finds: a launch in a host loop that passes the loop's variable to a parameter which the kernel uses as
    an index, unguarded, of an array that was made with another size than the loop's bound.

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
        if kernel is None or not launch.site.loops:
            return
        pairs = launch.pairs(kernel)
        arrays = {parameter.name: argument for parameter, argument in pairs if parameter.is_array}
        for parameter, argument in pairs:
            bound = _loop_bound(launch, argument) if not parameter.is_array else None
            if bound is None:
                continue
            for access, axis in _indexed_by(kernel, parameter.name):
                given = arrays.get(access.root)
                if given is not None and _differs(launch, given, axis, bound):
                    yield self.at(
                        launch,
                        argument,
                        f"'{ast.unparse(argument)}' counts to '{ast.unparse(bound)}' and indexes "
                        f"'{ast.unparse(given)}', which has "
                        "another length",
                    )
                    return


def _loop_bound(launch: Launch, node: ast.expr) -> ast.expr | None:
    """The end of the host loop whose variable a value is, if it is a plain name or attribute."""
    definition = launch.function.flow.uses.get(node)
    if definition is None or definition.kind != "loop" or not isinstance(definition.value, ast.Call):
        return None
    call = definition.value
    if launch.function.builtin(call) != "range" or len(call.args) != 1:
        return None
    return call.args[0] if isinstance(call.args[0], (ast.Name, ast.Attribute)) else None


def _indexed_by(kernel: DeviceFunction, name: str) -> Iterator[tuple[Access, int]]:
    """Accesses that a scalar parameter indexes by itself, unguarded."""
    wanted = Form.of(("parameter", name))
    for access in kernel.accesses:
        for axis, _, form in indices(kernel, access):
            if form == wanted and not guards_on(kernel, access.site, set(wanted.atoms)):
                yield access, axis


def _differs(launch: Launch, array: ast.expr, axis: int, bound: ast.expr) -> bool:
    fact = launch.function.array(array)
    if fact is None or fact.shape is None or axis >= len(fact.shape) or fact.function is None:
        return False
    extent = fact.function.constant(fact.shape[axis])
    if not isinstance(extent, int):
        return False
    count = launch.function.constant(bound)
    return not isinstance(count, int) or count > extent

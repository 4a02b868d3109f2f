"""Declares the rule ``aliased-launch-args``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import clamped
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction, Parameter
    from warp_audit.audit.source.host import Launch


class AliasedLaunchArgs(Rule):
    """A launch reads and writes one array through two parameters, at different elements.

    What it finds: the same array given for two parameters, of which the kernel writes one at the thread's element and
    reads the other at another thread's.

    Why it matters: on a GPU the result depends on which thread runs first; on the CPU one order always wins, so
    tests pass.

    Instead: write to a second array and swap the two after the launch.
    """

    code = "WPA112"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    BAD = (
        """
        @wp.func
        def around(h: wp.array2d(dtype=float), y: int, x: int):
            return h[y, wp.max(x - 1, 0)] + h[y, x]

        @wp.kernel
        def blur(src: wp.array2d(dtype=float), dst: wp.array2d(dtype=float)):
            y, x = wp.tid()
            dst[y, x] = 0.5 * around(src, y, x)

        class Pool:
            def step(self):
                h = self.height
                wp.launch(blur, dim=h.shape, inputs=[h, self.height])  # error: WPA112
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def blur(src: wp.array(dtype=float), dst: wp.array(dtype=float)):
            i = wp.tid()
            dst[i] = 0.5 * (src[i] + src[wp.max(i - 1, 0)])

        @wp.kernel
        def halve(src: wp.array(dtype=float), dst: wp.array(dtype=float)):
            i = wp.tid()
            dst[i] = 0.5 * src[i]

        def run(a, b):
            wp.launch(blur, dim=len(a), inputs=[a, b])
            wp.launch(halve, dim=len(a), inputs=[a, a])
        """,
    )

    def launch(self, launch: Launch) -> Iterator[Finding]:
        kernel = launch.kernel
        if kernel is None:
            return
        roots: dict[str, list[tuple[Parameter, ast.expr]]] = {}
        for parameter, argument in launch.pairs(kernel):
            root = launch.function.root_name(argument) if parameter.is_array else None
            if root is not None:
                roots.setdefault(root, []).append((parameter, argument))
        for given in roots.values():
            if len(given) < 2:
                continue
            for written, argument in given:
                for read, _ in given:
                    if read is not written and _conflict(kernel, written.name, read.name):
                        yield self.at(
                            launch,
                            argument,
                            f"'{ast.unparse(argument)}' is '{read.name}' and '{written.name}' of "
                            f"'{kernel.name}', which reads other "
                            "elements of the one than it writes of the other",
                            "write to a second array",
                        )
                        return


def _conflict(kernel: DeviceFunction, written: str, read: str) -> bool:
    """Whether a thread may read through one parameter what another thread writes through the other."""
    effects = kernel.effects
    if written not in effects or read not in effects or not effects[written].writes or not effects[read].reads:
        return False
    writes = [access for access in kernel.accesses if access.root == written and access.writes]
    reads = [access for access in kernel.accesses if access.root == read and access.reads]
    if not writes:
        return False
    if not reads:
        return _func_reads_around(kernel, read)
    return any(_is_beside(kernel, one, other) for one in reads for other in writes)


def _is_beside(kernel: DeviceFunction, read: Access, write: Access) -> bool:
    """Whether a read is at a neighbour of the element that is written: a constant away, or clamped."""
    if len(read.indices) != len(write.indices):
        return False
    beside = False
    for one, other in zip(read.indices, write.indices, strict=True):
        away, here = kernel.symbols.form(one), kernel.symbols.form(other)
        if away == here:
            continue
        coordinates = {atom for atom in here.atoms if atom[0] == "tid"}
        if not coordinates & away.all_atoms():
            return False
        if not (away.minus(here).is_constant or clamped(away)):
            return False
        beside = True
    return beside


def _func_reads_around(kernel: DeviceFunction, name: str) -> bool:
    """Whether a func that gets the whole array reads elements around the ones that it is told."""
    for call, _ in kernel.calls():
        callee = kernel.callee(call) if kernel.builtin(call) is None else None
        if callee is None:
            continue
        for parameter, argument in zip(callee.parameters, call.args, strict=False):
            if not isinstance(argument, ast.Name) or argument.id != name:
                continue
            for access in callee.accesses:
                forms = [callee.symbols.form(index) for index in access.indices]
                if access.root == parameter.name and any(f.terms and (f.constant or clamped(f)) for f in forms):
                    return True
    return False

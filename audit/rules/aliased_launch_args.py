"""Declares the rule ``aliased-launch-args``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction, Parameter
    from warp_audit.audit.source.host import Launch
    from warp_audit.audit.source.symbolic import Form

class AliasedLaunchArgs(Rule):
    """A launch reads and writes one array through two parameters, at different elements.

    What it finds: the same array given for two parameters, of which the kernel writes one at the thread's element and
    reads the other at another thread's.

    Why it matters: on a GPU the result depends on which thread runs first; on the CPU one order always wins, so tests pass.

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
                            f"'{ast.unparse(argument)}' is '{read.name}' and '{written.name}' of '{kernel.name}', which reads other "
                            "elements of the one than it writes of the other",
                            "write to a second array",
                        )
                        return


def _conflict(kernel: DeviceFunction, written: str, read: str) -> bool:
    """Whether a thread may read through one parameter what another thread writes through the other."""
    effects = kernel.effects
    if written not in effects or read not in effects or not effects[written].writes or not effects[read].reads:
        return False
    writes = {_key(kernel, access) for access in kernel.accesses if access.root == written and access.writes}
    reads = {_key(kernel, access) for access in kernel.accesses if access.root == read and access.reads}
    if not reads:  # in a func: what it reads is not the element that it is given
        return bool(writes) and _passed_whole(kernel, read)
    if not writes or reads <= writes:
        return False
    private = _private(kernel, written, writes=True)
    return not (private and private == _private(kernel, read, writes=False))


def _private(kernel: DeviceFunction, name: str, writes: bool) -> frozenset[tuple[int, int]]:
    """The axes that all accesses index by one thread coordinate each, if these are all coordinates: a thread then keeps
    to elements of its own."""
    common: frozenset[tuple[int, int]] | None = None
    for access in kernel.accesses:
        if access.root != name or not (access.writes if writes else access.reads):
            continue
        axes = set()
        for axis, index in enumerate(access.indices):
            atom = kernel.symbols.form(index).single()
            if atom is not None and atom[0] == "tid":
                axes.add((axis, atom[1]))
        common = frozenset(axes) if common is None else common & axes
    coordinates = {coordinate for _, coordinate in common or ()}
    return common if common and len(coordinates) == (kernel.tid_arity or 0) else frozenset()


def _key(kernel: DeviceFunction, access: Access) -> tuple[Form, ...]:
    return tuple(kernel.symbols.form(index) for index in access.indices)


def _passed_whole(kernel: DeviceFunction, name: str) -> bool:
    return any(
        isinstance(argument, ast.Name) and argument.id == name
        for call, _ in kernel.calls()
        if kernel.builtin(call) is None
        for argument in call.args
    )

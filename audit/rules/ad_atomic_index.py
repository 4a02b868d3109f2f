"""Declares the rule ``ad-atomic-index``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.autodiff import differentiated_functions
from warp_audit.audit.source.gradients import Gradients, accesses_of_floats, has_custom_gradient, index_sources
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction


class AdAtomicIndex(Rule):
    """The index of a differentiated access is what an atomic operation returned.

    What it finds: in a kernel that a tape records, or a func that it calls: an element of a floating-point array that
    is addressed by the result of ``wp.atomic_add`` or another atomic, where a differentiated value is stored or read.

    Why it matters: the backward pass does not run the atomic again, so that the slot is another one. Every gradient
    goes to a wrong element, without a message.

    Instead: assign the slots in a launch before, keep them in an array, and read them in the recorded one; or put the
    atomic into a func that stores the slot, with a ``@wp.func_replay`` that reads it.
    """

    code = "WPA416"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    BAD = (
        """
        @wp.func
        def reserve(count: wp.array(dtype=int)):
            return wp.atomic_add(count, 0, 1)

        @wp.kernel
        def compact(x: wp.array(dtype=float), count: wp.array(dtype=int), y: wp.array(dtype=float)):
            i = wp.tid()
            slot = wp.atomic_add(count, 0, 1)
            if slot < y.shape[0]:
                y[slot] = x[i] * 2.0  # error: WPA416
            other = reserve(count) + 1
            y[other] = x[i]  # error: WPA416

        def gradient(x, count, y):
            with wp.Tape() as tape:
                wp.launch(compact, dim=x.shape[0], inputs=[x, count], outputs=[y])
            tape.backward(grads={y: wp.ones_like(y)})
        """,
    )
    GOOD = (
        """
        @wp.func
        def reserve(count: wp.array(dtype=int), slots: wp.array(dtype=int), i: int):
            slot = wp.atomic_add(count, 0, 1)
            slots[i] = slot
            return slot

        @wp.func_replay(reserve)
        def replay_reserve(count: wp.array(dtype=int), slots: wp.array(dtype=int), i: int):
            return slots[i]

        @wp.kernel
        def compact(
            x: wp.array(dtype=float), count: wp.array(dtype=int), slots: wp.array(dtype=int), y: wp.array(dtype=float)
        ):
            i = wp.tid()
            slot = reserve(count, slots, i)
            y[slot] = x[i] * 2.0
            used = wp.atomic_add(count, 0, 1)
            slots[used] = i
            y[slots[i]] += x[i]

        def gradient(x, count, slots, y):
            with wp.Tape() as tape:
                wp.launch(compact, dim=x.shape[0], inputs=[x, count, slots], outputs=[y])
            tape.backward(grads={y: wp.ones_like(y)})
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function.kind not in ("kernel", "func") or function not in differentiated_functions(function.module):
            return
        if has_custom_gradient(function) or not any(_claims(function, call) for call, _ in function.calls()):
            return
        gradients = Gradients.of(function)
        for access in accesses_of_floats(function):
            counts = access.what == "read" or (access.value is not None and gradients.active(access.value))
            if counts and _claimed(function, access):
                yield self.at(
                    function,
                    access.node,
                    f"the index into '{access.root}' comes from an atomic, which the backward pass does not repeat",
                )


def _claimed(function: DeviceFunction, access: Access) -> bool:
    parts: list[ast.AST] = list(access.indices)
    parts += [one.value for one in index_sources(function, access.indices) if one.value is not None]
    return any(isinstance(node, ast.Call) and _claims(function, node) for part in parts for node in walk(part))


def _claims(function: DeviceFunction, call: ast.Call) -> bool:
    """Whether a call gives what an atomic operation returned."""
    name = function.builtin(call)
    if name is not None:
        return name.startswith("atomic_")
    callee = function.callee(call)
    if callee is None or callee is function or callee.kind != "func" or has_custom_gradient(callee):
        return False
    return any((callee.builtin(inner) or "").startswith("atomic_") for inner, _ in callee.calls())

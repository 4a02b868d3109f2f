"""Declares the rule ``ad-component-store``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.autodiff import differentiated_functions
from warp_audit.audit.source.gradients import Gradients, accesses_of_floats
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class AdComponentStore(Rule):
    """One component of an array's element is stored in a differentiated kernel.

    What it finds: ``p[i].z = value`` or ``p[i][2] = value`` with a differentiated value, in a kernel that a tape
    records or a func that it calls. For projects that support Warp older than 1.14, where this was put right.

    Why it matters: before Warp 1.14 such a store passed no gradient to the value, without a message.

    Instead: build the whole element from scalars and store it (``p[i] = wp.vec3(a[0], a[1], value)``), or require
    Warp 1.14.
    """

    code = "WPA415"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#583",)
    below = "1.14"
    BAD = (
        """
        @wp.func
        def set_height(p: wp.array(dtype=wp.vec3), i: int, z: float):
            p[i][2] = z  # error: WPA415

        @wp.kernel
        def lift(z: wp.array(dtype=float), p: wp.array(dtype=wp.vec3)):
            i = wp.tid()
            p[i].x = z[i]  # error: WPA415
            set_height(p, i, z[i])

        def gradient(z, p):
            with wp.Tape() as tape:
                wp.launch(lift, dim=z.shape[0], inputs=[z], outputs=[p])
            tape.backward(grads={p: wp.ones_like(p)})
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def lift(z: wp.array(dtype=float), p: wp.array(dtype=wp.vec3), q: wp.array(dtype=wp.vec3)):
            i = wp.tid()
            a = p[i]
            q[i] = wp.vec3(a[0], a[1], z[i])
            q[i][0] = 0.0

        def gradient(z, p, q):
            with wp.Tape() as tape:
                wp.launch(lift, dim=z.shape[0], inputs=[z, p], outputs=[q])
            tape.backward(grads={q: wp.ones_like(q)})
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function not in differentiated_functions(function.module):
            return
        gradients = Gradients.of(function)
        for access in accesses_of_floats(function):
            plain = access.component and access.what == "write" and isinstance(access.site.statement, ast.Assign)
            if plain and access.value is not None and gradients.active(access.value):
                yield self.at(
                    function,
                    access.node,
                    f"before Warp 1.14 a store to a component of '{access.root}' passes no gradient on",
                )

"""Declares the rule ``ad-inplace-mul-div``."""

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


class AdInplaceMulDiv(Rule):
    """An array's element is multiplied or divided in place in a differentiated kernel.

    What it finds: in a kernel that a tape records, or a func that it calls: ``a[i] *= v``, ``a[i] /= v`` and the like
    on a floating-point array, where ``v`` is itself differentiated.

    Why it matters: the backward pass needs the value that the element had before, but finds the product. The gradient
    of ``v`` is wrong, and only the debug log has a word on it.

    Instead: compute in a local variable and store once, or write to another array.
    """

    code = "WPA408"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    BAD = (
        """
        @wp.kernel
        def weighted(w: wp.array(dtype=float), x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            y[i] = w[i]
            y[i] *= x[i]  # error: WPA408

        def gradient(w, x, y):
            with wp.Tape() as tape:
                wp.launch(weighted, dim=x.shape[0], inputs=[w, x], outputs=[y])
            tape.backward(grads={y: wp.ones_like(y)})
        """,
        """
        @wp.struct
        class Body:
            force: wp.array(dtype=wp.vec3)
            mass: wp.array(dtype=float)

        @wp.func
        def to_acceleration(body: Body, i: int, m: float):
            body.force[i] /= m  # error: WPA408

        @wp.kernel
        def accelerate(body: Body):
            i = wp.tid()
            to_acceleration(body, i, body.mass[i])

        def gradient(body, n, loss):
            with wp.Tape() as tape:
                wp.launch(accelerate, dim=n, inputs=[body])
            tape.backward(loss)
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def weighted(w: wp.array(dtype=float), x: wp.array(dtype=float), y: wp.array(dtype=float), s: float):
            i = wp.tid()
            v = w[i]
            v *= x[i]
            y[i] = v
            y[i] *= 2.0
            y[i] /= s
            y[i] += x[i]

        @wp.kernel(enable_backward=False)
        def rescale(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            x[i] /= y[i]

        def gradient(w, x, y):
            with wp.Tape() as tape:
                wp.launch(rescale, dim=x.shape[0], inputs=[w, x])
                wp.launch(weighted, dim=x.shape[0], inputs=[w, x], outputs=[y])
            tape.backward(grads={y: wp.ones_like(y)})
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function not in differentiated_functions(function.module):
            return
        gradients = Gradients.of(function)
        for access in accesses_of_floats(function):
            if access.what == "update" and access.value is not None and gradients.active(access.value):
                done = "divided" if isinstance(getattr(access.site.statement, "op", None), ast.Div) else "changed"
                yield self.at(
                    function,
                    access.node,
                    f"an element of '{access.root}' is {done} in place, and the backward pass needs its old value",
                )

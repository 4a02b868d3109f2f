"""Declares the rule ``generic-unique-closure``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.constants import constant
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class GenericUniqueClosure(Rule):
    """A generic kernel in a unique module calls a function that its factory was given.

    What it finds: a kernel with ``module="unique"``, at least one parameter of type ``Any``, and a call of a function
    that is a parameter or local of the function around it.

    Why it matters: the name of a unique module is a hash of its kernels, and a generic kernel without instances adds
    nothing to it. Two kernels made with different functions share one module, and the launch fails with a message
    about overloads, or runs the other function.

    Instead: give the parameters concrete types, made by the factory if need be, or name the modules apart.
    """

    code = "WPA734"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("NVIDIA/warp#1231",)
    below = "1.12"
    BAD = (
        """
        from typing import Any

        def make(combine, start):
            first = combine

            @wp.kernel(enable_backward=False, module="unique")
            def fold(values: wp.array(dtype=Any), out: wp.array(dtype=Any)):  # error: WPA734
                i = wp.tid()
                out[i] = first(values[i], out[i])

            return fold
        """,
    )
    GOOD = (
        """
        from typing import Any

        @wp.func
        def double(x: Any):
            return x + x

        def make(combine, dtype, order):
            @wp.kernel(module="unique")
            def concrete(values: wp.array(dtype=dtype), out: wp.array(dtype=dtype)):
                i = wp.tid()
                out[i] = combine(values[i], out[i])

            @wp.kernel
            def shared(values: wp.array(dtype=Any)):
                i = wp.tid()
                values[i] = combine(values[i], values[i])

            @wp.kernel(module="unique")
            def closed(values: wp.array(dtype=Any)):
                i = wp.tid()
                values[i] = double(values[i])

            return concrete, shared, closed
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        if kernel.scope.kind != "function" or "module" not in kernel.options:
            return
        if constant(kernel.options["module"], kernel.scope) != "unique":
            return
        generic = next((parameter for parameter in kernel.parameters if parameter.generic), None)
        if generic is None:
            return
        for call, _ in kernel.calls():
            if isinstance(call.func, ast.Name) and _is_from_factory(kernel, call.func):
                called = call.func.id
                yield self.at(
                    kernel, kernel.node, f"'{kernel.name}' is generic in '{generic.name}' and calls '{called}' of its "
                    "factory: kernels made with other functions share its module",
                    "give the parameters concrete types",
                )  # fmt: skip
                return


def _is_from_factory(kernel: DeviceFunction, name: ast.Name) -> bool:
    definition = kernel.flow.uses.get(name)
    if definition is None or definition.kind != "free":
        return False
    found = kernel.scope.lookup(name.id)
    return found is not None and found[0].kind == "function" and found[1][-1].kind in ("parameter", "assign", "loop")

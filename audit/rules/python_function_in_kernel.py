"""Declares the rule ``python-function-in-kernel``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.refusals import inside_static
from warp_audit.audit.source.types import Array
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.scopes import Binding, Scope


class PythonFunctionInKernel(Rule):
    """A kernel calls a function that is not compiled for the device.

    What it finds: calls, in a kernel or func, of a Python function without ``@wp.func``, of another kernel, of Python's
    ``sum``, ``zip``, ``enumerate`` and the like, and of an array's methods, such as ``a.fill_(…)``.

    Why it matters: Warp finds no function of that name when it builds the kernel, at the first launch.

    Instead: decorate the helper with ``@wp.func``; launch the other kernel from Python; write a loop over ``range``.
    """

    code = "WPA611"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    aliases = ("undecorated-func",)
    BAD = (
        """
        def drag(v: float):
            return 0.5 * v * v

        @wp.kernel
        def clear(a: wp.array(dtype=float)):
            a[wp.tid()] = 0.0

        @wp.kernel
        def slow(a: wp.array(dtype=float), b: wp.array(dtype=float)):
            i = wp.tid()
            a[i] = a[i] - drag(a[i])  # error: WPA611
            clear(b)  # error: WPA611
            b.fill_(0.0)  # error: WPA611
            for j, x in enumerate(b):  # error: WPA611
                a[j] = x
        """,
    )
    GOOD = (
        """
        @wp.func
        def drag(v: float):
            return 0.5 * v * v

        def table(n):
            return 3 * n

        def cube(x: float):
            return x * x * x

        cubed = wp.func(cube)

        @wp.kernel
        def slow(a: wp.array(dtype=float), b: wp.array(dtype=float)):
            i = wp.tid()
            a[i] = a[i] - drag(a[i]) + float(wp.static(table(2))) + cubed(a[i])
            for j in range(len(b)):
                a[j] = abs(min(b[j], 1.0))
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function.kind == "integrand":
            return
        for call, site in function.calls():
            if isinstance(site.statement, ast.Assert):
                continue  # left out of builds that are not for debugging
            why = self._why(function, call)
            if why is not None and call not in inside_static(function):
                yield self.at(function, call, why)

    def _why(self, function: DeviceFunction, call: ast.Call) -> str | None:
        if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
            if not isinstance(function.type_of(call.func.value), Array):
                return None
            return f"'{ast.unparse(call.func)}' is a method for Python code: in a kernel an array has none"
        name = function.qualify(call.func)
        if name is not None and name.startswith("builtins."):
            short = name[9:]
            return f"Warp has no '{short}' in kernels" if short in _PYTHON else None
        found = _function(function, call)
        if found is None:
            return None
        scope, binding = found
        device = scope.module.device_of(binding.node)
        if device is not None:
            return f"'{device.name}' is a kernel: only Python code can launch it" if device.kind == "kernel" else None
        if not isinstance(binding.node, ast.FunctionDef) or binding.node.decorator_list:
            return None
        return f"'{binding.node.name}' in line {binding.node.lineno} is a Python function: it lacks @wp.func"


def _function(function: DeviceFunction, call: ast.Call) -> tuple[Scope, Binding] | None:
    """The one function declaration that a plain name stands for, if no other value is given to it anywhere."""
    if not isinstance(call.func, ast.Name):
        return None
    definition = function.flow.uses.get(call.func)
    if definition is not None and definition.kind != "free":
        return None
    found = function.scope.lookup(call.func.id)
    if found is None or len(found[1]) != 1:
        return None
    scope, (binding,) = found
    if binding.kind == "import":
        elsewhere = function.module.project.binding(binding.target, function.module)
        if elsewhere is None or len(elsewhere[0].bindings.get(elsewhere[1].target or call.func.id, ())) > 1:
            return None
        scope, binding = elsewhere
    return (scope, binding) if binding.kind == "function" else None


_PYTHON = {
    "sum", "zip", "enumerate", "map", "filter", "list", "dict", "set", "tuple", "sorted", "any", "all",
    "divmod", "str", "repr",
    "format", "isinstance", "input", "open", "super", "iter", "next", "hash", "id", "chr", "ord", "hasattr", "callable",
    "complex", "bytes", "vars", "dir", "eval", "exec",
}  # fmt: skip
"""Functions of Python's that kernels cannot call."""
_METHODS = {
    "fill_", "zero_", "assign", "numpy", "list", "to", "contiguous", "reshape", "view", "flatten", "astype",
    "transpose", "copy",
    "sum", "mean", "min", "max", "append", "item", "size",
}  # fmt: skip
"""Methods that arrays have in Python, Warp's or NumPy's."""

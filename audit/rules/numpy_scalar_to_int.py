"""Declares the rule ``numpy-scalar-to-int``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Safety, Wrap
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.annotations import annotation_type
from warp_audit.audit.source.types import Scalar
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction

_FLOATS = {
    "mean", "std", "var", "median", "average", "sqrt", "ceil", "floor", "round", "rint", "exp", "log", "log2", "log10",
    "power", "linalg.norm", "percentile", "quantile", "float32", "float64", "trunc", "hypot",
}  # fmt: skip
"""NumPy functions that give a float whatever they are given."""
_KEEPING = {"sum", "max", "min", "prod", "amax", "amin", "cumsum", "dot", "abs"}
"""NumPy functions whose result has the type of their argument."""
_MAKING = {"full": 1, "ones": None, "zeros": None, "linspace": None}


class NumpyScalarToInt(Rule):
    """A NumPy float is given where Warp wants an integer.

    What it finds: ``wp.full(…, dtype=int)`` or an integer parameter of a launch with the result of a NumPy function
    that gives a float.

    Why it matters: the value is a ``float64`` scalar. Warp refuses it, when the line runs.

    Instead: ``int(np.sum(x))``.
    """

    code = "WPA121"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("google-deepmind/mujoco_warp#894",)
    fix_safety = Safety.SAFE
    calls = frozenset(("full", "launch", "launch_tiled"))
    BAD = (
        """
        import numpy as np

        @wp.kernel
        def mark(n: int, x: wp.array(dtype=int)):
            x[wp.tid()] = n

        def run(x, data):
            count = np.ceil(len(data) / 32)
            wp.launch(mark, dim=4, inputs=[count, x])  # error: WPA121
            return wp.full(4, np.mean(data) + 1, dtype=wp.int32)  # error: WPA121
        """,
    )
    GOOD = (
        """
        import numpy as np

        @wp.kernel
        def mark(n: int, x: wp.array(dtype=int)):
            x[wp.tid()] = n

        def run(x, data, mask):
            wp.launch(mark, dim=4, inputs=[int(np.ceil(len(data) / 32)), x])
            wp.launch(mark, dim=4, inputs=[np.sum(mask), x])
            return wp.full(4, np.mean(data), dtype=float)
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        for call in function.calls:
            if call.name == "warp.full":
                value = call.argument("value", 1)
                dtype = annotation_type(call.argument("dtype", 2), function.scope)
                if value is not None and isinstance(dtype, Scalar) and dtype.is_integer:
                    yield from self._value(function, call.node, value)
        for launch in function.launches:
            if launch.kernel is not None:
                for parameter, argument in launch.pairs(launch.kernel):
                    if isinstance(parameter.type, Scalar) and parameter.type.is_integer:
                        yield from self._value(function, argument, argument)

    def _value(self, function: HostFunction, node: ast.AST, value: ast.expr) -> Iterator[Finding]:
        source = _float_source(function, value, 0)
        if source is not None:
            fix = self.mend("convert it: int(…)", Wrap(Place.of(value), "int(", ")"))
            yield self.at(function, node, f"'{source}' gives a NumPy float where an integer is wanted", fix=fix)


def _float_source(function: HostFunction, node: ast.expr, depth: int) -> str | None:
    """The NumPy call that makes a value a float."""
    if depth > 6:
        return None
    value = function.value_of(node)
    if isinstance(value, ast.BinOp):
        if isinstance(value.op, ast.FloorDiv):
            return None
        return _float_source(function, value.left, depth + 1) or _float_source(function, value.right, depth + 1)
    if not isinstance(value, ast.Call):
        return None
    name = function.module.qualified(value.func, function.scope) or ""
    if name.startswith("numpy."):
        short = name[6:]
        if short in _FLOATS:
            return ast.unparse(value.func)
        if short in _KEEPING and value.args and _is_float(function, value.args[0]):
            return ast.unparse(value.func)
    elif isinstance(value.func, ast.Attribute) and value.func.attr in (*_KEEPING, "mean", "std"):
        return ast.unparse(value.func) if _is_float(function, value.func.value) else None
    return None


def _is_float(function: HostFunction, node: ast.expr) -> bool:
    """Whether NumPy data surely holds floats."""
    value = function.value_of(node)
    if not isinstance(value, ast.Call):
        return False
    name = function.module.qualified(value.func, function.scope) or ""
    short = name[6:] if name.startswith("numpy.") else ""
    given = next((keyword.value for keyword in value.keywords if keyword.arg == "dtype"), None)
    if short not in _MAKING and not short.startswith("random."):
        return False
    if given is not None:
        dtype = annotation_type(given, function.scope)
        return isinstance(dtype, Scalar) and dtype.is_float
    if short == "full":
        return len(value.args) > 1 and isinstance(function.constant(value.args[1]), float)
    return short in ("ones", "zeros", "linspace", "random.rand", "random.randn", "random.uniform", "random.normal")

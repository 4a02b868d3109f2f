"""Declares the rule ``array-dtype-shape``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.annotations import annotation_type
from warp_audit.audit.source.types import Scalar, components
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction

_SHAPED = {"zeros": 0, "ones": 0, "empty": 0, "full": 0}
_RANDOM = {"numpy.random.rand": None, "numpy.random.randn": None}


class ArrayDtypeShape(Rule):
    """The last dimension of the data does not fit the element type of the array.

    What it finds: ``wp.array(data, dtype=wp.vec3)`` of NumPy data or a nested list whose last extent is a constant
    other than the vector's length (for matrices, the last two).

    Why it matters: where the number divides, Warp splits every row into several vectors, so the shape gains an axis,
    silently; where it does not, the line fails when it runs.

    Instead: use the type that fits, ``wp.spatial_vector`` for six columns, or reshape the data first.
    """

    code = "WPA116"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#363",)
    calls = frozenset(("array", "from_numpy"))
    BAD = (
        """
        import numpy as np

        def load(n):
            table = np.random.rand(n, 6).astype(np.float32)
            pairs = np.arange(4 * n).reshape(-1, 4)
            a = wp.from_numpy(table, dtype=wp.vec3)  # error: WPA116
            b = wp.array(pairs, dtype=wp.vec2i)  # error: WPA116
            return wp.array([[1.0, 2.0], [3.0, 4.0]], dtype=wp.vec3)  # error: WPA116
        """,
    )
    GOOD = (
        """
        import numpy as np

        def load(n, data):
            a = wp.array(np.zeros((n, 3), dtype=np.float32), dtype=wp.vec3)
            b = wp.array(np.zeros((n, 3, 3), dtype=np.float32), dtype=wp.mat33)
            c = wp.array([[1.0, 2.0, 3.0]], dtype=wp.vec3)
            d = wp.array(data.reshape(-1, 6), dtype=wp.spatial_vector)
            return wp.array(np.zeros(3 * n), dtype=wp.vec3), a, b, c, d
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        for call in function.calls:
            if call.name not in ("warp.array", "warp.from_numpy"):
                continue
            dtype = annotation_type(call.argument("dtype", 1), function.scope)
            wanted = components(dtype) if dtype is not None else None
            data = call.argument("data" if call.name == "warp.array" else "arr", 0)
            if not wanted or isinstance(dtype, Scalar) or data is None or call.argument("shape") is not None:
                continue
            have = _last_extents(function, data, len(wanted), 0)
            if have is None or have == wanted or None in have:
                continue
            if len(have) == 2 and have[1] == wanted[0] * wanted[1]:
                continue
            rows = " × ".join(str(n) for n in have)
            yield self.at(
                function, call.node, f"the rows of the data have {rows} numbers, but an element of {dtype} has "
                f"{' × '.join(str(n) for n in wanted)}"
            )  # fmt: skip


def _last_extents(function: HostFunction, node: ast.expr, count: int, depth: int) -> tuple[int | None, ...] | None:
    """The last extents of NumPy data or a nested list, where they are constants."""
    if depth > 6:
        return None
    value = function.value_of(node)
    if isinstance(value, (ast.List, ast.Tuple)):
        return _of_list(value, count)
    if not isinstance(value, ast.Call):
        return None
    name = function.module.qualified(value.func, function.scope) or ""
    last = value.func.attr if isinstance(value.func, ast.Attribute) else ""
    if name.startswith("numpy.") and name[6:] in _SHAPED:
        shape = value.args[0] if value.args else next((k.value for k in value.keywords if k.arg == "shape"), None)
        return _ends(function, shape.elts, count) if isinstance(shape, (ast.Tuple, ast.List)) else None
    if name in _RANDOM:
        return _ends(function, value.args, count)
    if name in ("numpy.array", "numpy.asarray") and value.args:
        return _last_extents(function, value.args[0], count, depth + 1)
    if last == "reshape" and isinstance(value.func, ast.Attribute):
        shape_items = (
            value.args[0].elts if len(value.args) == 1 and isinstance(value.args[0], ast.Tuple) else value.args
        )
        return _ends(function, shape_items, count)
    if last in ("astype", "copy") and isinstance(value.func, ast.Attribute):
        return _last_extents(function, value.func.value, count, depth + 1)
    return None


def _ends(function: HostFunction, items: list[ast.expr], count: int) -> tuple[int | None, ...] | None:
    if len(items) <= count:
        return None
    found = [function.constant(item) for item in items[-count:]]
    return tuple(n if isinstance(n, int) and n > 0 else None for n in found)


def _of_list(node: ast.expr, count: int) -> tuple[int | None, ...] | None:
    """The extents of the innermost lists, if all are literal and of one length."""
    lengths: list[set[int]] = []
    level = [node]
    while level and all(isinstance(item, (ast.List, ast.Tuple)) for item in level):
        lengths.append({len(item.elts) for item in level if isinstance(item, (ast.List, ast.Tuple))})
        level = [inner for item in level if isinstance(item, (ast.List, ast.Tuple)) for inner in item.elts]
    if not level or any(isinstance(item, (ast.List, ast.Tuple)) for item in level) or len(lengths) <= count:
        return None
    if not all(isinstance(item, (ast.Constant, ast.UnaryOp)) for item in level) or any(
        len(one) != 1 for one in lengths
    ):
        return None
    return tuple(one.pop() for one in lengths[-count:])

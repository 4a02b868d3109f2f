"""Declares the rule ``int64-interop``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.annotations import annotation_type
from warp_audit.audit.source.types import INT64, Scalar, Type
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction

_INT64 = {
    "randperm",
    "argsort",
    "argmax",
    "argmin",
    "nonzero",
    "bincount",
    "searchsorted",
    "bucketize",
    "randint",
    "argwhere",
}
"""Torch functions whose result holds 64-bit integers unless a dtype is given."""


class Int64Interop(Rule):
    """A tensor of 64-bit integers is given to a 32-bit Warp array.

    What it finds: ``wp.array(t, dtype=wp.int32)`` or ``wp.from_torch(t, dtype=wp.int32)`` of a tensor that Torch
    makes with 64-bit integers: ``randperm``, ``argsort``, ``arange``, ``nonzero``, ``torch.long`` and the like.

    Why it matters: the bytes used to be read as pairs of 32-bit numbers; Warp 1.19 warns when the line runs and copies.

    Instead: convert first: ``t.to(torch.int32)``, then ``wp.from_torch``.
    """

    code = "WPA120"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#624",)
    calls = frozenset(("array", "from_torch"))
    BAD = (
        """
        import torch

        def order(depth, n):
            ids = torch.arange(n, device="cuda")
            a = wp.from_torch(ids, dtype=wp.int32)  # error: WPA120
            b = wp.array(depth.argsort(), dtype=int)  # error: WPA120
            c = wp.array(torch.zeros(n, dtype=torch.long), dtype=wp.int32)  # error: WPA120
            return a, b, c
        """,
    )
    GOOD = (
        """
        import torch

        def order(depth, n):
            ids = torch.arange(n, device="cuda", dtype=torch.int32)
            a = wp.from_torch(ids, dtype=wp.int32)
            b = wp.array(depth.argsort().int(), dtype=int)
            c = wp.from_torch(torch.randperm(n), dtype=wp.int64)
            d = wp.array(torch.arange(0.0, 1.0, 0.1), dtype=float)
            return a, b, c, d
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        if "torch" not in function.module.text:
            return
        for call in function.calls:
            if call.name not in ("warp.array", "warp.from_torch") or not call.node.args:
                continue
            dtype = annotation_type(call.argument("dtype", 1), function.scope)
            if not isinstance(dtype, Scalar) or not dtype.is_integer or dtype.bits != 32:
                continue
            source = _source(function, call.node.args[0])
            if source is not None:
                yield self.at(
                    function, call.node, f"'{source}' makes 64-bit integers, but the array is declared {dtype}",
                    "convert the tensor first: .to(torch.int32)",
                )  # fmt: skip


def _source(function: HostFunction, node: ast.expr) -> str | None:
    """The function that makes 64-bit integers, if that is what a tensor comes from."""
    value = function.value_of(node)
    if not isinstance(value, ast.Call):
        return None
    given = next((keyword.value for keyword in value.keywords if keyword.arg == "dtype"), None)
    if (function.module.qualified(value.func, function.scope) or "").startswith("numpy."):
        return None  # Warp converts NumPy data by itself
    name = function.module.qualified(value.func, function.scope) or ""
    last = value.func.attr if isinstance(value.func, ast.Attribute) else name.rpartition(".")[2]
    if last in ("to", "type"):
        given = given or (value.args[0] if value.args else None)
        dtype = annotation_type(given, function.scope)
        return ast.unparse(value.func) if dtype == INT64 else _inside(function, value, dtype)
    if last == "long":
        return ast.unparse(value.func)
    if given is not None:
        return ast.unparse(value.func) if annotation_type(given, function.scope) == INT64 else None
    if last in ("contiguous", "clone", "flatten", "detach", "cuda", "cpu", "squeeze", "view", "reshape"):
        return _inside(function, value, None)
    if last in _INT64:
        return ast.unparse(value.func)
    if name == "torch.arange":
        numbers = [function.constant(argument) for argument in value.args]
        return None if any(isinstance(number, float) for number in numbers) else ast.unparse(value.func)
    return None


def _inside(function: HostFunction, value: ast.Call, dtype: Type | None) -> str | None:
    """What a method is called on, where the method keeps the type."""
    if dtype is not None or not isinstance(value.func, ast.Attribute):
        return None
    return _source(function, value.func.value)

"""Declares the rule ``int-literal-overflow``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Safety, Wrap
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.constants import constant
from warp_audit.audit.source.literals import is_literal_variable, settled, whole_number
from warp_audit.audit.source.types import INT32, Scalar
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.module import Module


_LARGE = re.compile(r"\d{9,}|0x[0-9a-fA-F]{8,}|<<|\*\*|int8|int16")
"""What a file must hold to have anything to say about."""
_CASTS = {"int": 32, "int32": 32, "uint32": 32, "int16": 16, "uint16": 16, "int8": 8, "uint8": 8}


class IntLiteralOverflow(Rule):
    """An integer constant does not fit the type that it has in a kernel.

    What it finds: a literal or constant beyond 32 bits that is not cast to a 64-bit type directly, and a shift by more
    bits than the type has.

    Why it matters: literals are ``int32`` in a kernel. Warp cuts the value to 32 bits, without a word, before it
    reaches a 64-bit destination.

    Instead: cast the literal itself: ``wp.int64(5000000000)``, ``wp.uint64(1) << wp.uint64(40)``.
    """

    code = "WPA508"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#1348", "newton-physics/newton#3771")
    fix_safety = Safety.UNSAFE
    BAD = (
        """
        BIG = 1 << 36

        @wp.kernel
        def keys(key: wp.array(dtype=wp.int64), bits: wp.array(dtype=wp.uint64), level: int):
            i = wp.tid()
            key[i] = wp.int64(i + BIG)  # error: WPA508
            bits[i] = wp.uint64(1 << 33)  # error: WPA508
            bits[i] = wp.uint64(1 << 31)  # error: WPA508
            small = wp.uint8(300)  # error: WPA508
            far = 3000000000  # error: WPA508
            more = i + far
            last = 2147483647 + 1  # error: WPA508
            one = 1
            bits[i] = wp.uint64(one << 40) | wp.uint64(level >> 32)  # error: WPA508
        """,
    )
    GOOD = (
        """
        BIG = wp.constant(wp.int64(1 << 36))
        LIMIT = 1 << 40

        @wp.kernel
        def keys(key: wp.array(dtype=wp.int64), bits: wp.array(dtype=wp.uint64)):
            i = wp.tid()
            key[i] = wp.int64(5000000000) + BIG + wp.int64(-(1 << 31))
            bits[i] = wp.uint64(1) << wp.uint64(33) | wp.uint64(0xFFFFFFFFFF)
            all_bits = wp.uint64(-1)
            steps = wp.tile_arange(0, 1 << 40, 1 << 39, dtype=wp.int64)
            mask = wp.uint32(0xFFFFFFFF) ^ wp.uint32(1 << 31)
            top = 1 << 30
            far = 3000000000
            key[i] = wp.int64(far) + wp.int64(LIMIT)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if not _may_hold_large(function.module):
            return
        done: set[ast.AST] = set()
        widened: set[ast.AST] = set()
        for call, _ in function.calls():
            name = function.builtin(call)
            if name in ("int64", "uint64"):
                widened.update(call.args)
            if any(keyword.arg == "dtype" for keyword in call.keywords):
                done.update(walk(call))
            if len(call.args) == 1 and not call.keywords and name is not None:
                if name in ("int64", "uint64", "static", "float64", "float32", "float", "constant") or name == "long":
                    if name == "static" or is_literal_variable(function, call.args[0]):
                        done.update(walk(call))
                        done.add(settled(function, call.args[0]))
                elif name in _CASTS:
                    yield from self._cast(function, call, name, done)
        for node in (*function.flow.of(ast.BinOp), *_large_names(function)):
            yield from self._shift(function, node, done)
            yield from self._value(function, node, done, widened)
        yield from self._literals(function, done)

    def _cast(self, function: DeviceFunction, call: ast.Call, name: str, done: set[ast.AST]) -> Iterator[Finding]:
        value = function.constant(call.args[0])
        if not isinstance(value, int) or isinstance(value, bool):
            return
        done.update(walk(call))
        kind = INT32 if name == "int" else Scalar(name)
        if not _fits(value, kind):
            yield self.at(function, call, f"{value} does not fit {kind}, and is cut to its {kind.bits} bits")

    def _shift(self, function: DeviceFunction, node: ast.AST, done: set[ast.AST]) -> Iterator[Finding]:
        if node in done or not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.LShift, ast.RShift)):
            return
        kind, distance = function.type_of(node.left), whole_number(function, node.right)
        if not isinstance(kind, Scalar) or not kind.is_integer or distance is None or distance < kind.bits:
            return
        done.update(walk(node))
        yield self.at(
            function,
            node,
            f"'{ast.unparse(node.left)}' is {kind}, so a shift by {distance} goes past its {kind.bits} bits",
            "make it a 64-bit value before the shift",
        )

    def _value(
        self, function: DeviceFunction, node: ast.AST, done: set[ast.AST], widened: set[ast.AST]
    ) -> Iterator[Finding]:
        if node in done or not isinstance(node, ast.expr) or function.type_of(node) != INT32:
            return
        if isinstance(node, ast.BinOp) and not isinstance(node.op, (ast.LShift, ast.Mult, ast.Add)):
            return
        value = whole_number(function, node)
        if value is None:
            return
        # `1 << 31` is a mask, until it is widened; a sum or product that ends there has passed the largest number.
        computed = isinstance(node, ast.BinOp) and (not isinstance(node.op, ast.LShift) or node in widened)
        if not _fits(value, INT32) or (computed and value >= 2**31):
            done.update(walk(node))
            yield self.at(
                function,
                node,
                f"'{ast.unparse(node)}' is {value}, which does not fit the 32 bits it has in a kernel",
                "make it a 64-bit value from the start: wp.int64(…) around each literal",
            )

    def _literals(self, function: DeviceFunction, done: set[ast.AST]) -> Iterator[Finding]:
        for node in function.flow.sites:
            if isinstance(node, ast.Constant) and node not in done and isinstance(node.value, int):
                if not isinstance(node.value, bool) and not _fits(node.value, INT32):
                    fix = self.mend("cast it to int64", Wrap(Place.of(node), "wp.int64(", ")"))
                    yield self.at(
                        function, node, f"{node.value} does not fit the 32 bits that a literal has in a kernel", fix=fix
                    )


def _may_hold_large(module: Module) -> bool:
    found: bool | None = module.__dict__.get("_may_hold_large")
    if found is None:
        found = module.__dict__["_may_hold_large"] = _LARGE.search(module.text) is not None
    return found


def _large_names(function: DeviceFunction) -> list[ast.AST]:
    """Reads of names from outside whose values do not fit."""
    large: set[str] = set()
    for definition in function.flow.defs:
        if definition.kind == "free":
            value = constant(ast.Name(definition.name, ast.Load()), function.scope)
            if isinstance(value, int) and not _fits(value, INT32):
                large.add(definition.name)
    if not large:
        return []
    return [node for node in function.flow.of(ast.Name) if node.id in large and function.flow.uses[node].kind == "free"]  # type: ignore[attr-defined]


def _fits(value: int, kind: Scalar) -> bool:
    """Whether a type can hold a value.

    Bit patterns of the unsigned type of the same width count, as hexadecimal masks do.
    """
    low, high = kind.limits
    if value == -1 and kind.is_unsigned:
        return True  # all bits
    if kind.bits == 32 and not kind.is_unsigned:
        return low <= value < 2**31 or value in (2**31, 2**32 - 1)
    return low <= value <= high

"""Declares the rule ``printf-format``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.types import Scalar
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


_CONVERSION = re.compile(r"%(?:%|[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(hh|h|ll|l|z|j|t|L)?([diouxXfFeEgGaAcsp]))")


class PrintfFormat(Rule):
    """A ``wp.printf`` format does not fit its arguments.

    What it finds: a float under an integer conversion or the other way round, a 64-bit integer under a 32-bit conversion, and
    a number of conversions that differs from the number of arguments.

    Why it matters: the text goes to C's ``printf`` as it is. Only the compiler's log of a CPU build warns; what is
    printed is garbage, so a debugging session follows a wrong trail.

    Instead: ``%d`` for integers, ``%lld`` for 64-bit ones, ``%f`` for floats; ``print`` chooses by itself.
    """

    code = "WPA504"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    BAD = (
        """
        @wp.kernel
        def show(x: wp.array(dtype=float), key: wp.array(dtype=wp.int64)):
            i = wp.tid()
            wp.printf("%f at %d\\n", i, i)  # error: WPA504
            wp.printf("%d\\n", key[i])  # error: WPA504
            wp.printf("%d %d\\n", i)  # error: WPA504
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def show(x: wp.array(dtype=float), key: wp.array(dtype=wp.int64), u: wp.uint32):
            i = wp.tid()
            wp.printf("100%% of %d: %8.3f %lld %u %x\\n", i, x[i], key[i], u, i)
            wp.printf("done\\n")
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for call, _ in function.calls():
            if function.builtin(call) != "printf" or not call.args or call.keywords:
                continue
            text = call.args[0]
            if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
                continue
            why = _why(function, text.value, call.args[1:])
            if why is not None:
                yield self.at(function, call, why)


def _why(function: DeviceFunction, text: str, arguments: list[ast.expr]) -> str | None:
    conversions = [(match[0], match[1] or "", match[2]) for match in _CONVERSION.finditer(text) if match[2]]
    if any("*" in whole for whole, _, _ in conversions):
        return None
    if len(conversions) != len(arguments):
        return f"the format has {len(conversions)} conversions for {len(arguments)} arguments"
    for (whole, length, letter), argument in zip(conversions, arguments, strict=True):
        type = function.type_of(argument)
        if not isinstance(type, Scalar):
            continue
        name = ast.unparse(argument)
        if letter in "diouxXc" and type.is_float:
            return f"'{whole}' prints an integer, but '{name}' is {type}"
        if letter in "fFeEgGaA" and (type.is_integer or type.name == "bool"):
            return f"'{whole}' prints a float, but '{name}' is {type}"
        if letter in "diouxX" and type.is_integer and type.bits == 64 and length not in ("ll", "l", "j", "z"):
            return f"'{whole}' prints 32 bits, but '{name}' is {type}"
        if letter in "diouxX" and type.is_integer and type.bits < 64 and length in ("ll",):
            return f"'{whole}' prints 64 bits, but '{name}' is {type}"
    return None

"""Declares the rule ``printf-format``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.literals import settled
from warp_audit.audit.source.types import Opaque, Scalar
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


_CONVERSION = re.compile(r"%(?:%|[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(hh|h|ll|l|z|j|t|L)?([diouxXfFeEgGaAcsp]))")


class PrintfFormat(Rule):
    """A ``wp.printf`` format does not fit its arguments.

    What it finds: a float under an integer conversion or the other way round, a 64-bit integer under a 32-bit
    conversion, and a number of conversions that differs from the number of arguments.

    Why it matters: the text goes to C's ``printf`` as it is. Only the compiler's log of a CPU build warns; what is
    printed is garbage, so a debugging session follows a wrong trail.

    Instead: ``%d`` for integers, ``%lld`` for 64-bit ones, ``%f`` for floats; ``print`` chooses by itself.
    """

    code = "WPA504"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    words = ("print",)
    BAD = (
        """
        LINE = "%f %f\\n"

        @wp.kernel
        def show(x: wp.array(dtype=float), key: wp.array(dtype=wp.int64), v: wp.vec3):
            i = wp.tid()
            wp.printf("%f at %d\\n", i, i)  # error: WPA504
            wp.printf("%d\\n", key[i])  # error: WPA504
            wp.printf("%d %d\\n", i)  # error: WPA504
            wp.printf("%s\\n", i)  # error: WPA504
            wp.printf(LINE, x[i], v)  # error: WPA504
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
            if function.builtin(call) != "printf":
                continue
            given = [keyword.value for keyword in call.keywords if keyword.arg == "fmt"] + call.args
            text = function.constant(settled(function, given[0])) if given else None
            if not isinstance(text, str):
                continue
            why = _why(function, text, given[1:])
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
        name = ast.unparse(argument)
        if type is None or isinstance(type, Opaque):
            continue
        if not isinstance(type, Scalar):
            return f"'{whole}' prints one number, but '{name}' is {type}"
        if letter == "s":
            return f"'%s' prints a string, but '{name}' is {type}"
        if letter in "diouxXc" and type.is_float:
            return f"'{whole}' prints an integer, but '{name}' is {type}"
        if letter in "fFeEgGaA" and (type.is_integer or type.name == "bool"):
            return f"'{whole}' prints a float, but '{name}' is {type}"
        if letter in "diouxX" and type.is_integer and type.bits == 64 and length not in ("ll", "l", "j", "z"):
            return f"'{whole}' prints 32 bits, but '{name}' is {type}"
        if letter in "diouxX" and type.is_integer and type.bits < 64 and length in ("ll",):
            return f"'{whole}' prints 64 bits, but '{name}' is {type}"
    return None

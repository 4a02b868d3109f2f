"""Declares the rule ``recursive-func``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.refusals import inside_static
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class RecursiveFunc(Rule):
    """A func calls itself.

    What it finds: a ``@wp.func`` that calls itself, straight or through other funcs.

    Why it matters: Warp builds what a func calls before the func itself, so the build runs in a circle until Python's
    recursion limit stops it.

    Instead: write a loop, with a stack in a fixed-size vector where one is needed.
    """

    code = "WPA616"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    BAD = (
        """
        @wp.func
        def factorial(n: int) -> int:
            if n < 2:
                return 1
            return n * factorial(n - 1)  # error: WPA616

        @wp.func
        def even(n: int) -> bool:
            if n == 0:
                return True
            return odd(n - 1)  # error: WPA616

        @wp.func
        def odd(n: int) -> bool:
            if n == 0:
                return False
            return even(n - 1)  # error: WPA616
        """,
    )
    GOOD = (
        """
        @wp.func
        def factorial(n: int) -> int:
            product = int(1)
            for k in range(2, n + 1):
                product = product * k
            return product

        @wp.func
        def scaled(x: float):
            return 2.0 * x

        @wp.func
        def scaled(x: wp.vec2):
            return wp.vec2(scaled(x[0]), scaled(x[1]))

        def walk(n):
            return n and walk(n - 1)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function.kind != "func" or len(function.overloads) > 1:
            return
        for call, _ in function.calls():
            callee = function.callee(call)
            if callee is None or callee.kind != "func" or call in inside_static(function):
                continue
            if callee is function or _reaches(callee, function, {callee}):
                way = "itself" if callee is function else f"'{callee.name}', which leads back to it"
                yield self.at(function, call, f"'{function.name}' calls {way}, which Warp cannot build")


def _reaches(one: DeviceFunction, wanted: DeviceFunction, seen: set[DeviceFunction]) -> bool:
    """Whether a func leads to another one; overloads are not followed."""
    for call, _ in one.calls():
        callee = one.callee(call)
        if callee is wanted:
            return True
        if callee is None or callee in seen or callee.kind != "func" or len(callee.overloads) > 1 or len(seen) > 50:
            continue
        seen.add(callee)
        if _reaches(callee, wanted, seen):
            return True
    return False

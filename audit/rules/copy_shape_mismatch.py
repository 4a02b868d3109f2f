"""Declares the rule ``copy-shape-mismatch``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction


class CopyShapeMismatch(Rule):
    """An array is copied into one of another size.

    What it finds: ``wp.copy(dest, src)`` without ``count`` between arrays whose constant sizes differ.

    Why it matters: if the destination is larger, Warp copies what there is and leaves old data in the tail, without
    a word; if it is smaller, the line fails when it runs.

    Instead: make the destination like the source, ``wp.empty_like(src)``, or say how many with ``count``.
    """

    code = "WPA118"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("google-deepmind/mujoco_warp#1050",)
    calls = frozenset(("copy",))
    BAD = (
        """
        N = 6

        class Saver:
            def __init__(self):
                self.q = wp.zeros((N, 2), dtype=float)
                self.saved = wp.zeros((2 * N, 2), dtype=float)

            def save(self):
                wp.copy(dest=self.saved, src=self.q)  # error: WPA118
        """,
    )
    GOOD = (
        """
        def save(n):
            q = wp.zeros(n, dtype=float)
            saved = wp.zeros(2 * n, dtype=float)
            small = wp.zeros(4, dtype=float)
            large = wp.zeros(8, dtype=float)
            wp.copy(saved, q, count=n)
            wp.copy(large, small, count=4)
            wp.copy(wp.empty_like(small), small)
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        for call in function.calls:
            if call.name != "warp.copy" or call.argument("count", 4) is not None:
                continue
            dest, src = call.argument("dest", 0), call.argument("src", 1)
            if (
                dest is None
                or src is None
                or any(call.argument(word) is not None for word in ("dest_offset", "src_offset"))
            ):
                continue
            into, out_of = _size(function, dest), _size(function, src)
            if into is not None and out_of is not None and into != out_of:
                yield self.at(
                    function,
                    call.node,
                    f"'{ast.unparse(dest)}' has {into} elements, '{ast.unparse(src)}' has {out_of}",
                    "the rest keeps its old values" if into > out_of else "the copy fails",
                )


def _size(function: HostFunction, node: ast.expr) -> int | None:
    """The number of elements of an array, if its extents are constants."""
    fact = function.array(node)
    if fact is None or fact.shape is None or fact.function is None:
        return None
    total = 1
    for extent in fact.shape:
        value = fact.function.constant(extent)
        if not isinstance(value, int):
            return None
        total *= value
    return total

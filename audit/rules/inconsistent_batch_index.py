"""Declares the rule ``inconsistent-batch-index``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction
    from warp_audit.audit.source.symbolic import Form


class InconsistentBatchIndex(Rule):
    """Two tables of one family are indexed in different spaces.

    What it finds: tables whose names begin alike, of which one is read at ``per_world * world + j`` and the other
    at ``j`` alone.

    Why it matters: both hold an entry for each item of all worlds. World 0 is right, the others read its data.

    Instead: use the same index for both.
    """

    code = "WPA216"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("newton-physics/newton#2332", "newton-physics/newton#2474")
    opt_in = True
    BAD = (
        """
        @wp.kernel
        def gather(shape_body: wp.array[int], shape_flags: wp.array[int], count: int, out: wp.array2d(dtype=int)):
            w, s = wp.tid()
            k = w * count + s
            out[w, s] = shape_body[k] + shape_flags[s]  # error: WPA216
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def gather(shape_body: wp.array[int], shape_flags: wp.array[int], order: wp.array[int], count: int):
            w, s = wp.tid()
            k = w * count + s
            shape_body[k] = shape_flags[k] + order[s]
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        if (kernel.tid_arity or 0) < 2:
            return
        flat: dict[str, Access] = {}
        local: dict[str, tuple[Access, ast.expr]] = {}
        both: set[str] = set()
        for access in kernel.accesses:
            if len(access.indices) != 1:
                continue
            form = kernel.symbols.form(access.indices[0])
            atom = form.single()
            if atom is not None and atom[0] == "tid" and atom[1] > 0:
                local.setdefault(access.root, (access, access.indices[0]))
            elif _is_flat(form):
                flat.setdefault(access.root, access)
        both = flat.keys() & local.keys()
        for name, (access, index) in local.items():
            family = name.rpartition(".")[2].partition("_")[0]
            if name in both or "_" not in name.rpartition(".")[2] or len(family) < 3:
                continue
            sibling = next((other for other in flat if other.rpartition(".")[2].partition("_")[0] == family), None)
            if sibling is not None and access.reads:
                yield self.at(
                    kernel,
                    access.node,
                    f"'{name}' is indexed by '{ast.unparse(index)}' inside the world, its sibling '{sibling}' "
                    "by the number over all worlds",
                    f"'{sibling}' is read in line {flat[sibling].node.lineno}",
                )


def _is_flat(form: Form) -> bool:
    """``count * world + j``."""
    plain = any(atom[0] == "tid" and coefficient == 1 for atom, coefficient in form.terms)
    scaled = any(
        (atom[0] == "mul" and any((part.single() or ("",))[0] == "tid" for part in atom[2:]))
        or (atom[0] == "tid" and coefficient > 1)
        for atom, coefficient in form.terms
    )
    return plain and scaled

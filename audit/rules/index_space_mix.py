"""Declares the rule ``index-space-mix``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction


class IndexSpaceMix(Rule):
    """An array of one index space is written at the number of another.

    What it finds: a kernel that fetches an id, ``p = contact_particle[c]``, and writes one array both at ``c`` and
    at ``p``, while other arrays are read only at ``p``.

    Why it matters: the array has a slot for each ``p``. At ``c`` the value lands in the slot of some other
    particle, silently.

    Instead: write at the id that the array is about.
    """

    code = "WPA217"
    severity = Severity.WARNING
    confidence = Confidence.LOW
    references = ("newton-physics/newton#1557",)
    opt_in = True
    BAD = (
        """
        @wp.kernel
        def push(hit_body: wp.array(dtype=int), mass: wp.array(dtype=float), force: wp.array(dtype=float), f: float):
            h = wp.tid()
            b = hit_body[h]
            force[h] += f / mass[b]  # error: WPA217
            force[b] += 0.5 * f
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def push(parent: wp.array(dtype=int), mass: wp.array(dtype=float), force: wp.array(dtype=float)):
            i = wp.tid()
            p = parent[i]
            force[i] += mass[i]
            force[p] += mass[p]
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        own: dict[str, list[Access]] = {}
        fetched: dict[str, list[Access]] = {}
        for access in kernel.accesses:
            if len(access.indices) != 1:
                continue
            atom = kernel.symbols.form(access.indices[0]).single()
            if atom is None:
                continue
            if atom[0] == "tid":
                own.setdefault(access.root, []).append(access)
            elif atom[0] == "load" and len(atom) == 3 and (atom[2].single() or ("",))[0] == "tid":
                fetched.setdefault(access.root, []).append(access)
        shared = own.keys() & fetched.keys()
        if len(shared) != 1 or not fetched.keys() - own.keys():
            return
        (name,) = shared
        for access in own[name]:
            if (access.writes or access.atomic) and any(one.writes or one.atomic for one in fetched[name]):
                yield self.at(
                    kernel,
                    access.node,
                    f"'{name}' is written at the thread's own number here and at a fetched id in line "
                    f"{fetched[name][0].node.lineno}",
                )

"""Declares the rule ``index-space-mix``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.symbolic import Form
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction
    from warp_audit.audit.source.symbolic import Atom


class IndexSpaceMix(Rule):
    """An array of one index space is written at the number of another.

    What it finds: a kernel that fetches an id, ``p = contact_particle[c]``, and uses one array both at ``c`` and at
    ``p``, while other arrays are read only at ``p``; also ``particle_mass[c]`` in such a kernel.

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

        @wp.kernel
        def stretch(edge: wp.array(dtype=wp.vec2i), x: wp.array(dtype=float), force: wp.array(dtype=float)):
            e = wp.tid()
            v = edge[e]
            f = x[v[0]] - x[v[1]]
            wp.atomic_add(force, v[0], -f)
            wp.atomic_add(force, e, f)  # error: WPA217

        @wp.kernel
        def place(shape_body: wp.array(dtype=int), body_q: wp.array(dtype=wp.transform), out: wp.array(dtype=float)):
            s = wp.tid()
            b = shape_body[s]
            out[b] = wp.transform_get_translation(body_q[s])[0]  # error: WPA217
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
        fetchers: set[str] = set()
        for access in kernel.accesses:
            if len(access.indices) != 1:
                continue
            atom = kernel.symbols.form(access.indices[0]).single()
            if atom is None:
                continue
            source = _fetcher(atom)
            if atom[0] == "tid":
                own.setdefault(access.root, []).append(access)
            elif source is not None:
                fetched.setdefault(access.root, []).append(access)
                fetchers.add(source)
        if not fetchers:
            return
        yield from self._written_at_both(kernel, own, fetched)
        yield from self._of_another_family(kernel, own, fetched, fetchers)

    def _written_at_both(
        self, kernel: DeviceFunction, own: dict[str, list[Access]], fetched: dict[str, list[Access]]
    ) -> Iterator[Finding]:
        shared = own.keys() & fetched.keys()
        if len(shared) != 1 or not fetched.keys() - own.keys():
            return
        (name,) = shared
        if not any(one.writes or one.atomic for one in fetched[name]):
            return
        others = own.keys() - fetched.keys()
        for access in own[name]:
            if access.writes or access.atomic or others:
                verb = "read" if access.reads else "written"
                yield self.at(
                    kernel,
                    access.node,
                    f"'{name}' is {verb} at the thread's own number here and at a fetched id in line "
                    f"{fetched[name][0].node.lineno}",
                )

    def _of_another_family(
        self,
        kernel: DeviceFunction,
        own: dict[str, list[Access]],
        fetched: dict[str, list[Access]],
        fetchers: set[str],
    ) -> Iterator[Finding]:
        for source in fetchers:
            mine, _, theirs = source.rpartition(".")[2].rpartition("_")
            for name, accesses in own.items():
                first, _, rest = name.rpartition(".")[2].partition("_")
                if rest and first == theirs and mine.isalpha() and mine != theirs and name not in fetched:
                    yield self.at(
                        kernel,
                        accesses[0].node,
                        f"'{name}' is about what '{source}' fetches, but is indexed by the thread's own number",
                    )


def _fetcher(atom: Atom) -> str | None:
    """The array that an id was fetched from at the thread's own number: ``edge_vertex[e]``, ``edge_vertex[e, 1]``."""
    if atom[0] == "value" and isinstance(atom[1], Form):
        inner = atom[1].single()
        return _fetcher(inner) if inner is not None else None
    if atom[0] != "load" or not isinstance(atom[1], str) or len(atom) < 3:
        return None
    first, *rest = atom[2:]
    place = first.single()
    return atom[1] if place is not None and place[0] == "tid" and all(one.is_constant for one in rest) else None

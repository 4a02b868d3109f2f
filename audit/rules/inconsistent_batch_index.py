"""Declares the rule ``inconsistent-batch-index``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction
    from warp_audit.audit.source.symbolic import Atom, Form


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

        @wp.func
        def scaled(geom_type: wp.array[int], geom_size: wp.array[int], start: wp.array[int], w: int, g: int):
            return geom_type[start[w] + g] * geom_size[g]  # error: WPA216

        @wp.kernel
        def unrolled(dof_gain: wp.array[float], dof_rest: wp.array[float], q: wp.array[float], n: int):
            t = wp.tid()
            q[t] = dof_gain[t] * dof_rest[t % n]  # error: WPA216
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

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        single: list[tuple[Access, Atom]] = []
        flat: list[tuple[Access, Atom]] = []
        for access in function.accesses:
            if len(access.indices) != 1:
                continue
            form = function.symbols.form(access.indices[0])
            atom = form.single()
            if atom is not None and atom[0] in ("tid", "parameter", "mod"):
                single.append((access, atom))
            elif atom is None:
                flat += [(access, local) for local in _locals(form)]
        # `t` itself is the number over all worlds where `t % n` is the one inside the world.
        wholes = {atom[1].single() for _, atom in single if atom[0] == "mod"}
        flat += [(access, atom) for access, atom in single if atom in wholes]
        if flat and single:
            yield from self._compare(function, single, flat)

    def _compare(
        self, function: DeviceFunction, single: list[tuple[Access, Atom]], flat: list[tuple[Access, Atom]]
    ) -> Iterator[Finding]:
        everywhere = {access.root for access, _ in flat}
        reported: set[str] = set()
        for access, atom in single:
            name, family = access.root, _family(access.root)
            if family is None or name in everywhere or name in reported or not access.reads:
                continue
            whole = atom[1].single() if atom[0] == "mod" else atom
            sibling = next(
                (one for one, local in flat if local == whole and one is not access and _family(one.root) == family),
                None,
            )
            if sibling is None:
                continue
            reported.add(name)
            yield self.at(
                function,
                access.node,
                f"'{name}' is indexed by '{ast.unparse(access.indices[0])}' inside the world, its sibling "
                f"'{sibling.root}' by the number over all worlds",
                f"'{sibling.root}' is accessed in line {sibling.node.lineno}",
            )


def _family(root: str) -> str | None:
    """The first word of an array's name: ``joint`` of ``joint_type``."""
    name = root.rpartition(".")[2]
    first = name.partition("_")[0]
    return first if "_" in name and len(first) >= 3 else None


def _locals(form: Form) -> list[Atom]:
    """The ``j`` of ``count * world + j`` and of ``start[world] + j``."""
    if form.constant or len(form.terms) != 2:
        return []
    found = []
    for (atom, coefficient), (other, scale) in (tuple(form.terms), tuple(form.terms)[::-1]):
        scaled = (other[0] == "tid" and scale > 1) or (other[0] in ("mul", "load") and scale == 1)
        if scaled and atom[0] in ("tid", "parameter") and coefficient == 1:
            found.append(atom)
    return found

"""Declares the rule ``sentinel-index``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import guards_on, indices
from warp_audit.audit.source.symbolic import Form
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction
    from warp_audit.audit.source.symbolic import Atom


class SentinelIndex(Rule):
    """An id that may be -1 is tested for one access and not for the next.

    What it finds: a value read from an integer array that a condition compares with zero or -1 before it indexes
    one array, and that indexes another one where no such condition holds.

    Why it matters: Warp wraps the index -1 to the last element, so the mistake returns plausible data, silently.

    Instead: put the access under the same test.
    """

    code = "WPA210"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#2994", "google-deepmind/mujoco_warp#1424")
    BAD = (
        """
        NONE = wp.constant(-1)

        @wp.kernel
        def climb(up: wp.array(dtype=int), mass: wp.array(dtype=float), load: wp.array(dtype=float)):
            i = wp.tid()
            p = up[i]
            if p != NONE:
                wp.atomic_add(load, p, 1.0)
            load[i] += mass[p]  # error: WPA210
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def climb(up: wp.array(dtype=int), mass: wp.array(dtype=float), load: wp.array(dtype=float)):
            i = wp.tid()
            p = up[i]
            if p == -1:
                return
            load[i] = mass[p] + (mass[up[p]] if up[p] >= 0 else 0.0)
            q = wp.max(p, 0)
            load[i] += mass[q]
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        tested = _tested(function)
        if not tested:
            return
        guarded: set[Atom] = set()
        bare: list[tuple[Access, ast.expr, Atom]] = []
        for access in function.accesses:
            for _, index, form in indices(function, access):
                atom = form.single()
                if atom is None or atom not in tested:
                    continue
                if _holds(function, access, atom):
                    guarded.add(atom)
                elif not guards_on(function, access.site, {atom}):
                    bare.append((access, index, atom))
        reported: set[ast.stmt] = set()
        for access, index, atom in bare:
            test = function.flow.sites[tested[atom]]
            if access.site.order <= test.order or access.site.guards != test.guards[: len(access.site.guards)]:
                continue  # before the test, or under conditions of its own, which may say the same in other words
            if (
                atom in guarded
                and access.site.statement not in reported
                and not _settled(function, access, atom, tested)
            ):
                reported.add(access.site.statement)
                yield self.at(
                    function,
                    access.node,
                    f"'{ast.unparse(index)}' may be -1 here: line {tested[atom].lineno} tests for it, this "
                    "access does not",
                    "-1 is the last element",
                )


def _tested(function: DeviceFunction) -> dict[Atom, ast.expr]:
    """Loads of integers that a condition compares with zero or a negative constant, and the first such comparison."""
    found: dict[Atom, ast.expr] = {}
    for node in function.flow.of(ast.Compare):
        assert isinstance(node, ast.Compare)
        if len(node.ops) != 1:
            continue
        left, right = function.symbols.form(node.left), function.symbols.form(node.comparators[0])
        for value, bound, op in (
            (left, right, node.ops[0]),
            (right, left, _FLIPPED.get(type(node.ops[0]), type(node.ops[0]))()),
        ):
            atom = value.single()
            if atom is None or atom[0] != "load" or not bound.is_constant:
                continue
            sentinel = (bound.constant == 0 and isinstance(op, (ast.GtE, ast.Lt))) or (
                bound.constant == -1 and isinstance(op, (ast.NotEq, ast.Eq, ast.Gt))
            )
            if sentinel:
                found.setdefault(atom, node)
    return found


_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}


def _holds(function: DeviceFunction, access: Access, atom: Atom) -> bool:
    """Whether conditions exclude the sentinel."""
    form = Form.of(atom)
    if function.symbols.lower_bounds(form, access.site):
        return True
    return any(
        fact.relation == "!=" and atom in fact.form.atoms and len(fact.form.terms) == 1
        for fact in function.symbols.facts(access.site)
    )


def _settled(function: DeviceFunction, access: Access, atom: Atom, tested: dict[Atom, ast.expr]) -> bool:
    """Whether the access comes under a compound condition that may stand for the test."""
    return any(atom in function.symbols.form(guard.test).all_atoms() for guard in access.site.guards)

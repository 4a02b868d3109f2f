"""Declares the rule ``sentinel-index``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import chosen_by_where, guards_on, indices
from warp_audit.audit.source.symbolic import Form
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction
    from warp_audit.audit.source.symbolic import Atom


class SentinelIndex(Rule):
    """An id that may be -1 is tested for one access and not for the next.

    What it finds: a value that was read or passed in, that a condition compares with zero or -1, and that indexes
    an array where no such condition holds, before the test or behind it.

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

        @wp.func
        def share(mass: wp.array(dtype=float), load: wp.array(dtype=float), body: int):
            m = mass[body]  # error: WPA210
            if body >= 0:
                load[body] += m
            if body < 0:
                load[body] = 0.0  # error: WPA210
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
        bare: list[tuple[Access, ast.expr, Atom]] = []
        for access in function.accesses:
            for _, index, form in indices(function, access):
                atom = form.single()
                if atom is None or atom not in tested:
                    continue
                if _fails(function, access, atom) or not (
                    _holds(function, access, atom) or guards_on(function, access.site, {atom})
                ):
                    bare.append((access, index, atom))
        if bare:
            yield from self._report(function, tested, bare)

    def _report(
        self,
        function: DeviceFunction,
        tested: dict[Atom, ast.expr],
        bare: list[tuple[Access, ast.expr, Atom]],
    ) -> Iterator[Finding]:
        chosen = chosen_by_where(function)
        reported: set[ast.stmt] = set()
        early: set[Atom] = set()
        for access, index, atom in bare:
            test = function.flow.sites[tested[atom]]
            fails = _fails(function, access, atom)
            if access.node in chosen or access.site.statement in reported:
                continue
            if not fails and access.site.guards != test.guards[: len(access.site.guards)]:
                continue  # under conditions of its own, which may say the same in other words
            if access.site.order <= test.order:
                if atom in early:
                    continue
                early.add(atom)
            reported.add(access.site.statement)
            yield self.at(
                function,
                access.node,
                f"'{ast.unparse(index)}' may be -1 here: line {tested[atom].lineno} tests for it, this access does not",
                "-1 is the last element",
            )


def _tested(function: DeviceFunction) -> dict[Atom, ast.expr]:
    """Values, read or passed in, that a condition compares with zero or -1, each with the first such comparison."""
    found: dict[Atom, ast.expr] = {}
    for node in function.flow.of(ast.Compare):
        assert isinstance(node, ast.Compare)
        if len(node.ops) != 1 or isinstance(function.flow.sites[node].statement, ast.Assert):
            continue
        left, right = function.symbols.form(node.left), function.symbols.form(node.comparators[0])
        for value, bound, op in (
            (left, right, node.ops[0]),
            (right, left, _FLIPPED.get(type(node.ops[0]), type(node.ops[0]))()),
        ):
            atom = value.single()
            if atom is None or atom[0] not in _KINDS or not bound.is_constant:
                continue
            sentinel = (bound.constant == 0 and isinstance(op, (ast.GtE, ast.Lt))) or (
                bound.constant == -1 and isinstance(op, (ast.NotEq, ast.Eq, ast.Gt))
            )
            if sentinel:
                found.setdefault(atom, node)
    return found


_KINDS = ("load", "value", "parameter")
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


def _fails(function: DeviceFunction, access: Access, atom: Atom) -> bool:
    """Whether conditions leave nothing but the sentinel."""
    return any(
        bound.limit == Form(0 if bound.strict else -1)
        for bound in function.symbols.upper_bounds(Form.of(atom), access.site)
    )

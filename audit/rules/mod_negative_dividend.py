"""Declares the rule ``mod-negative-dividend``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Safety, Wrap
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.types import Scalar
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Site
    from warp_audit.audit.source.symbolic import Form


class ModNegativeDividend(Rule):
    """A remainder is taken of a value that may be negative.

    What it finds: ``(i - c) % n`` of signed integers, where the left side is a value that starts at 0 minus
    something and no test or added ``n`` keeps it from being negative.

    Why it matters: in Python the remainder is never negative for a positive ``n``; in a kernel it has the sign of
    the dividend, as in C. The slot before the first one becomes -1 instead of ``n - 1``.

    Instead: add the divisor first: ``(i + n - 1) % n``.
    """

    code = "WPA503"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    fix_safety = Safety.UNSAFE
    BAD = (
        """
        @wp.func
        def left(cell: int, cells: int):
            before = cell - 1
            return before % cells  # error: WPA503

        @wp.kernel
        def back(a: wp.array(dtype=int), n: int, k: int):
            i = wp.tid()
            a[i] = (i - k) % n  # error: WPA503
        """,
        """
        @wp.kernel
        def shift(a: wp.array2d(dtype=int), order: wp.array(dtype=int), n: int):
            i, j = wp.tid()
            if i >= a.shape[0] or j >= n:
                return
            a[i, wp.mod(order[j] - 1, n)] = i  # error: WPA503
            a[(i - j) % n, j] = 1  # error: WPA503
            for k in range(4):
                a[(k - 2) % n, 0] = (-j) % n  # error: WPA503
            for k in range(2, 4):
                a[(k - 2) % n, 0] = 0
        """,
    )
    GOOD = (
        """
        @wp.func
        def left(cell: int, cells: int):
            if cell == 0:
                return cells - 1
            return (cell - 1) % cells

        @wp.kernel
        def back(a: wp.array(dtype=int), n: int, k: wp.uint32):
            i = wp.tid()
            a[i] = (i + n - 1) % n + (n - i) % n
            a[i] = ((i - 1) % n + n) % n
            if (i - 1) % n == 0:
                a[i] = 0
            b = int((k - wp.uint32(1)) % wp.uint32(n))
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for node, left, right in _remainders(function):
            if not _is_signed(function, left):
                continue
            dividend, divisor = function.symbols.form(left), function.symbols.form(right)
            if not _may_be_negative(dividend, divisor):
                continue
            site = function.flow.sites[node]
            if _is_tested(function, dividend, site) or _is_shifted_later(function, node, right):
                continue
            if node in _tested_for_zero(function):
                continue
            text = ast.unparse(right)
            fix = None
            if isinstance(right, (ast.Name, ast.Constant)):
                fix = self.mend(f"add {text} first", Wrap(Place.of(left), f"({text} + ", ")"))
            yield self.at(
                function,
                node,
                f"'{ast.unparse(left)}' may be negative, and then so is its remainder: Warp rounds as C does, "
                "not as Python",
                f"add the divisor first: ({text} + …) % {text}",
                fix=fix,
            )


def _remainders(function: DeviceFunction) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """Each remainder, what is divided, and by what."""
    for node in function.flow.of(ast.BinOp):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            yield node, node.left, node.right
    for call, _ in function.calls():
        if len(call.args) == 2 and function.builtin(call) == "mod":
            yield call, call.args[0], call.args[1]


def _tested_for_zero(function: DeviceFunction) -> set[ast.expr]:
    """Values that are only compared with 0: a remainder's sign does not matter there."""
    found: set[ast.expr] = set()
    for node in function.flow.of(ast.Compare):
        if isinstance(node, ast.Compare) and all(isinstance(op, (ast.Eq, ast.NotEq)) for op in node.ops):
            if function.constant(node.comparators[-1]) == 0:
                found.add(node.left)
    return found


def _is_tested(function: DeviceFunction, dividend: Form, site: Site) -> bool:
    """Whether a condition keeps a value from being negative, or says about it what is not understood here."""
    own = set(dividend.atoms)
    for guard in site.guards:
        plain = isinstance(guard.test, (ast.Compare, ast.BoolOp))
        if not plain and function.symbols.form(guard.test).all_atoms() & own:
            return True
    for fact in function.symbols.facts(site):
        shared = [atom for atom in own & set(fact.form.atoms) if atom[0] != "loop"]
        if shared and fact.relation in ("==", "!="):
            return True
        if any(dividend.coefficient(atom) > 0 > fact.form.coefficient(atom) for atom in shared):
            return True
    bounds = function.symbols.lower_bounds(dividend, site)
    return any(not bound.limit.is_constant or bound.limit.constant >= 0 for bound in bounds)


def _is_signed(function: DeviceFunction, node: ast.expr) -> bool:
    type = function.type_of(node)
    return isinstance(type, Scalar) and type.is_integer and not type.is_unsigned


def _may_be_negative(dividend: Form, divisor: Form) -> bool:
    """A value from 0 up, minus something; the divisor itself, or a sum, is not subtracted from."""
    if set(dividend.atoms) & set(divisor.atoms):
        return False
    positive = [atom for atom, coefficient in dividend.terms if coefficient > 0]
    negative = [atom for atom, coefficient in dividend.terms if coefficient < 0]
    if len(positive) > 1 or any(atom[0] not in _FROM_ZERO for atom in positive):
        return False
    if divisor.is_constant and dividend.constant > 0:
        return False
    if negative:
        return dividend.constant <= 0 and all(atom[0] in ("free", *_FROM_ZERO) for atom in negative)
    return dividend.constant < 0


_FROM_ZERO = ("tid", "loop", "parameter", "load", "mod")


def _is_shifted_later(function: DeviceFunction, node: ast.expr, divisor: ast.expr) -> bool:
    """Whether the divisor is added to the remainder, or a test for a negative one follows."""
    text = ast.dump(divisor)
    for other in function.flow.of(ast.BinOp):
        assert isinstance(other, ast.BinOp)
        if isinstance(other.op, ast.Add) and node in (other.left, other.right):
            if text in (ast.dump(other.left), ast.dump(other.right)):
                return True
    statement = function.flow.sites[node].statement
    if isinstance(statement, ast.Assign) and statement.value is node and isinstance(statement.targets[0], ast.Name):
        name = statement.targets[0].id
        for compare in function.flow.of(ast.Compare):
            if isinstance(compare.left, ast.Name) and compare.left.id == name:  # type: ignore[attr-defined]
                return True
    return False

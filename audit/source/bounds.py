"""What is known of an index against the extent of its array."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from warp_audit.audit.source.arrays import MAKERS
from warp_audit.audit.source.symbolic import Form
from warp_audit.audit.source.walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from warp_audit.audit.source.device import Access, DeviceFunction
    from warp_audit.audit.source.flow import Site
    from warp_audit.audit.source.host import HostFunction, Launch
    from warp_audit.audit.source.symbolic import Atom, Fact

CLAMPS = ("min", "max", "clamp", "mod", "and", "where", "if", "rshift")
"""Kinds of atoms, and builtins, that keep a value in a range of their own."""


def clamped(form: Form) -> bool:
    """Whether part of a value was clamped, wrapped or chosen: somebody thought of its range."""
    return any(atom[0] in CLAMPS or (atom[0] == "call" and atom[1] in CLAMPS) for atom in form.all_atoms())


def guards_on(function: DeviceFunction, site: Site, atoms: set[Atom]) -> bool:
    """Whether a condition that holds at a site compares one of these values with anything."""
    for guard in site.guards:
        for part in walk(guard.test):
            if isinstance(part, ast.Compare):
                for side in (part.left, *part.comparators):
                    if atoms & set(function.symbols.form(side).atoms):
                        return True
            elif isinstance(part, ast.Name) and guard.test is part:
                definition = function.flow.uses.get(part)
                if definition is not None and definition.value is not None:
                    if atoms & function.symbols.form(definition.value).all_atoms():
                        return True
    return False


def only_above(function: DeviceFunction, form: Form, site: Site) -> bool:
    """Whether all conditions on a value's parts are upper bounds, like ``i < n``: they say nothing of its low end."""
    own = set(form.atoms)
    for guard in site.guards:
        for fact in function.symbols.conclusions(guard.test, guard.positive):
            if own & set(fact.form.atoms):
                if fact.relation not in ("<", "<=") or any(fact.form.coefficient(atom) < 0 for atom in own):
                    return False
    return not opaque(function, form, site)


def opaque(function: DeviceFunction, form: Form, site: Site) -> bool:
    """Whether a condition looks at a value's parts in a way that tells no bound: ``mask[i]``, ``i % 2 == 0``."""
    own = set(form.atoms)
    for guard in site.guards:
        facts = function.symbols.conclusions(guard.test, guard.positive)
        said = {atom for fact in facts for atom in fact.form.all_atoms()}
        if any(own & part.all_atoms() for fact in facts for part in _inner(fact.form)):
            return True
        for part in walk(guard.test):
            if isinstance(part, ast.expr) and part in function.flow.sites:
                if own & function.symbols.form(part).all_atoms() - said:
                    return True
    return False


def _inner(form: Form) -> Iterator[Form]:
    """The forms inside a form's atoms."""
    for atom in form.atoms:
        yield from (part for part in atom[1:] if isinstance(part, Form))


def bounded_above(function: DeviceFunction, form: Form, site: Site) -> bool:
    """Whether a condition keeps an index below something, not counting a bound that leaves it one too far."""
    return any(not one_too_far(bound.limit, bound.strict) for bound in function.symbols.upper_bounds(form, site))


def one_too_far(limit: Form, strict: bool) -> bool:
    """``i < a.shape[0] + 1`` and ``i <= a.shape[0]``: bounds that come from testing ``i - 1``."""
    if any(atom[0] == "shape" for atom, _ in limit.terms):
        return limit.constant > 0 if strict else limit.constant >= 0
    return False


def protects(facts: Iterable[Fact], form: Form) -> bool:
    """Whether facts keep an index in bounds: below something, not below zero, or away from a sentinel."""
    own = set(form.atoms)
    negative = form.constant < 0 or any(atom[0] not in ("tid", "loop") for atom in own)
    for fact in facts:
        if not own & set(fact.form.atoms):
            continue
        if fact.relation == "!=" and negative and len(fact.form.terms) == 1:
            return True
        if fact.relation not in ("<", "<="):
            continue
        # form - limit < 0 bounds it from above, and -form - limit < 0 from below.
        above = form.minus(fact.form)
        if not own & set(above.atoms):
            return True
        below = form.scaled(-1).minus(fact.form)
        if negative and not own & set(below.atoms):
            if not below.is_constant or below.constant == (1 if fact.relation == "<" else 0):
                return True
    return False


def indices(function: DeviceFunction, access: Access) -> Iterator[tuple[int, ast.expr, Form]]:
    """An access's axes, index expressions and values."""
    for axis, index in enumerate(access.indices):
        yield axis, index, function.symbols.form(index)


def chosen_by_where(function: DeviceFunction) -> set[ast.AST]:
    """The nodes inside of calls of ``wp.where``: the rule ``where-guards-load`` speaks of what is read there."""
    calls = [call for call, _ in function.calls() if function.builtin(call) in ("where", "select")]
    return {part for call in calls for part in walk(call)}


def called_indices(function: DeviceFunction, call: ast.Call) -> Iterator[tuple[Access, int, Form]]:
    """What a called func reads or writes at its own parameters, unguarded: the access, the axis, the value given."""
    callee = function.callee(call)
    if callee is None or callee is function or call.keywords or len(call.args) > len(callee.parameters):
        return
    passed = dict(zip((parameter.name for parameter in callee.parameters), call.args, strict=False))
    for access in callee.accesses:
        if access.root not in passed or access.site.guards:
            continue
        for axis, _, form in indices(callee, access):
            if len(form.terms) != 1:
                continue
            ((atom, coefficient),) = form.terms
            if atom[0] == "parameter" and coefficient == 1 and atom[1] in passed:
                yield access, axis, function.symbols.form(passed[atom[1]]).plus(Form(form.constant))


def callers(function: DeviceFunction) -> list[tuple[DeviceFunction, ast.Call, Site]]:
    """The calls of a func in its own file."""
    module = function.module
    known: dict[DeviceFunction, list[tuple[DeviceFunction, ast.Call, Site]]] | None
    known = module.__dict__.get("_device_callers")
    if known is None:
        known = module.__dict__["_device_callers"] = {}
        for one in module.device_functions:
            for call, site in one.calls():
                callee = one.callee(call)
                if callee is not None:
                    known.setdefault(callee, []).append((one, call, site))
    return known.get(function, [])


def given(function: DeviceFunction, call: ast.Call, parameter: str) -> ast.expr | None:
    """The argument that a call gives to a func's parameter."""
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return keyword.value
    place = next((one.index for one in function.parameters if one.name == parameter), None)
    return call.args[place] if place is not None and place < len(call.args) else None


def launch_argument(launch: Launch, kernel: DeviceFunction, parameter: str) -> ast.expr | None:
    """What a launch gives to a kernel's parameter."""
    return next((argument for one, argument in launch.pairs(kernel) if one.name == parameter), None)


def made_extent(
    host: HostFunction, array: ast.expr, axis: int, ndim: int | None
) -> tuple[ast.expr, HostFunction] | None:
    """The expression that an array was made with as an extent, and the function it stands in.

    Of ``wp.zeros(n)`` the text does not tell the rank; where ``ndim``, what a kernel declares, is 1, it is ``n``.
    """
    fact = host.array(array)
    if fact is None or fact.function is None:
        return None
    if fact.shape is not None:
        return (fact.shape[axis], fact.function) if axis < len(fact.shape) else None
    if ndim != 1 or axis or fact.maker not in MAKERS:
        return None
    shape = next((word.value for word in fact.made.keywords if word.arg == "shape"), None)
    if shape is None and fact.made.args:
        shape = fact.made.args[0]
    return (shape, fact.function) if isinstance(shape, (ast.Name, ast.Attribute, ast.Call)) else None

"""Which host code runs while a graph is recorded: capture blocks, what they call, bodies of conditional nodes."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warp_audit.audit.source import reach
from warp_audit.audit.source.host import HostFunction
from warp_audit.audit.source.walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from warp_audit.audit.source.flow import Site
    from warp_audit.audit.source.host import HostCall
    from warp_audit.audit.source.module import Module
    from warp_audit.audit.source.scopes import Scope

SYNCHRONIZING = frozenset({
    "warp.synchronize", "warp.synchronize_device", "warp.synchronize_stream", "warp.synchronize_event",
    "torch.cuda.synchronize", ".numpy", ".list", ".item", ".cpu", ".tolist", ".synchronize",
})  # fmt: skip
"""Calls that wait for the device."""
ALLOCATING = frozenset({
    "warp.zeros", "warp.ones", "warp.empty", "warp.full", "warp.zeros_like", "warp.ones_like", "warp.empty_like",
    "warp.full_like", "warp.clone", "warp.array", "warp.from_numpy", "warp.Mesh", "warp.Bvh", "warp.HashGrid",
})  # fmt: skip
"""Calls that take device memory."""
_DEPTH = 8


@dataclass(frozen=True, eq=False)
class Capture:
    """A stretch of a function that is recorded: a ``with`` block, or all between ``capture_begin`` and its end."""

    function: HostFunction
    node: ast.Call
    item: ast.withitem | None
    first: int
    last: int

    def covers(self, site: Site) -> bool:
        """Whether what runs at a site of the same function is recorded."""
        if self.item is not None:
            return self.item in site.contexts
        return self.first < site.order < self.last

    @property
    def calls(self) -> list[HostCall]:
        """The calls in it."""
        return [call for call in self.function.calls if call.node is not self.node and self.covers(call.site)]

    def argument(self, word: str, place: int) -> ast.expr | None:
        """An argument of ``ScopedCapture`` or ``capture_begin``."""
        for keyword in self.node.keywords:
            if keyword.arg == word:
                return keyword.value
        return self.node.args[place] if place < len(self.node.args) else None


@dataclass(frozen=True, eq=False)
class Recorded:
    """A function that runs while a graph is recorded, called from ``capture`` or as the body of ``conditional``."""

    scope: Scope
    capture: Capture | None
    conditional: HostCall | None
    entry: tuple[Scope, ast.Call]
    """The last call in the capture's own file on the way to it, and where that stands."""
    certain: bool = True
    """Whether no condition stands around the calls on the way to it."""


def captures(module: Module) -> list[Capture]:
    """The captures of a file."""
    found: list[Capture] | None = module.__dict__.get("_captures")
    if found is None:
        found = module.__dict__["_captures"] = []
        if "ScopedCapture" in module.text or "capture_begin" in module.text:
            for function in module.host_functions:
                found += _captures_of(function)
    return found


def _captures_of(function: HostFunction) -> Iterator[Capture]:
    if not function.called & {"ScopedCapture", "capture_begin"}:
        return
    for statement, site in function.flow.steps.items():
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            for item in statement.items:
                node = _scoped(function, item.context_expr)
                if node is not None:
                    yield Capture(function, node, item, site.order, site.order)
    ends = [call.site.order for call in function.calls if call.name == "warp.capture_end"]
    for call in function.calls:
        if call.name == "warp.capture_begin":
            last = min((order for order in ends if order > call.site.order), default=1 << 30)
            yield Capture(function, call.node, None, call.site.order, last)


def _scoped(function: HostFunction, node: ast.expr) -> ast.Call | None:
    """The ``ScopedCapture`` that a ``with`` item is, or may be: ``ScopedCapture() if cuda else nullcontext()``."""
    value = function.value_of(node)
    for part in walk(value):
        if isinstance(part, ast.Call) and function.qualify(part.func) == "warp.ScopedCapture":
            return part
    return None


def recorded(module: Module) -> dict[Scope, Recorded]:
    """The functions that run while a capture of this file is open, those of other files too."""
    found: dict[Scope, Recorded] | None = module.__dict__.get("_recorded")
    if found is None:
        found = module.__dict__["_recorded"] = {}
        for capture in captures(module):
            for call in capture.calls:
                for scope in _started(call.node, capture.function, call.site):
                    _spread(Recorded(scope, capture, None, (capture.function.scope, call.node)), found, module)
        for one in conditional_bodies(module).values():
            _spread(one, found, module)
    return found


def conditional_bodies(module: Module) -> dict[Scope, Recorded]:
    """The functions that run as the body of a conditional graph node: ``capture_while``, ``capture_if``."""
    found: dict[Scope, Recorded] | None = module.__dict__.get("_conditional_bodies")
    if found is None:
        found = module.__dict__["_conditional_bodies"] = {}
        if "capture_while" in module.text or "capture_if" in module.text:
            for function in module.host_functions:
                if function.called & {"capture_while", "capture_if"}:
                    for call in function.calls:
                        for scope in _bodies(call, function):
                            _spread(Recorded(scope, None, call, (function.scope, call.node)), found, module)
    return found


def _bodies(call: HostCall, function: HostFunction) -> Iterator[Scope]:
    if call.name == "warp.capture_while":
        given = [call.argument("while_body", 1)]
    elif call.name == "warp.capture_if":
        given = [call.argument("on_true", 1), call.argument("on_false", 2)]
    else:
        return
    for body in given:
        scope = function_of(body, function.scope) if body is not None else None
        if scope is not None:
            yield scope


def _spread(start: Recorded, found: dict[Scope, Recorded], module: Module) -> None:
    waiting = [(start, 0)]
    while waiting:
        one, depth = waiting.pop()
        if one.scope in found:
            continue
        found[one.scope] = one
        if depth >= _DEPTH:
            continue
        for call, scope in calls_from(one.scope):
            entry = (one.scope, call) if one.scope.module is module else one.entry
            certain = one.certain and _unconditional(one.scope, call)
            waiting.append((Recorded(scope, one.capture, one.conditional, entry, certain), depth + 1))


def _unconditional(scope: Scope, call: ast.Call) -> bool:
    site = host(scope).flow.sites.get(call)
    return site is not None and not site.guards


def _started(call: ast.Call, function: HostFunction, site: Site) -> Iterator[Scope]:
    """The functions that a call runs; a callable parameter stands for what this file's callers pass."""
    scope = callee(call.func, function.scope)
    if scope is not None:
        yield scope
        return
    if isinstance(call.func, ast.Name):
        definition = function.flow.uses.get(call.func)
        if definition is not None and definition.kind == "parameter":
            yield from _passed(definition.name, function)


def _passed(name: str, function: HostFunction) -> Iterator[Scope]:
    names = [parameter.arg for parameter in function.parameters]
    if name not in names:
        return
    place = names.index(name) - (1 if names[0] in ("self", "cls") else 0)
    for scope in function.module.scope.walk():
        for call in scope.calls:
            last = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if last != function.scope.name or callee(call.func, scope) is not function.scope:
                continue
            given = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
            if given is None and place < len(call.args):
                given = call.args[place]
            found = function_of(given, scope) if given is not None else None
            if found is not None:
                yield found


def calls_from(scope: Scope) -> tuple[tuple[ast.Call, Scope], ...]:
    """The calls of a function whose target is known, with the target."""
    known: dict[Scope, tuple[tuple[ast.Call, Scope], ...]] = scope.module.__dict__.setdefault("_calls_from", {})
    if scope not in known:
        known[scope] = tuple(
            (call, inner)
            for call in scope.calls
            if (inner := callee(call.func, scope)) is not None and inner is not scope
        )
    return known[scope]


def function_of(node: ast.expr, scope: Scope) -> Scope | None:
    """The function that a value is: a name, a method, a lambda, ``functools.partial`` of one."""
    if isinstance(node, ast.Lambda):
        return scope.module.scope_of(node)
    if isinstance(node, ast.Call):
        name = scope.module.qualified(node.func, scope)
        return function_of(node.args[0], scope) if name == "functools.partial" and node.args else None
    if isinstance(node, ast.Name):
        found = scope.lookup(node.id)
        if found is not None and found[1][-1].kind == "assign" and isinstance(found[1][-1].value, ast.Lambda):
            return found[0].module.scope_of(found[1][-1].value)
    return callee(node, scope)


def callee(node: ast.expr, scope: Scope) -> Scope | None:
    """The Python function that a call's ``func`` names, methods of objects of known classes included."""
    found = reach.function_scope(node, scope)
    if found is not None or not isinstance(node, ast.Attribute):
        return found
    owner = class_of(node.value, scope)
    return reach._method(owner, node.attr) if owner is not None else None


def class_of(node: ast.expr, scope: Scope) -> Scope | None:
    """The class of the project that an object is of, as far as its making or annotation tells."""
    if isinstance(node, ast.Call):
        return _class_named(node.func, scope)
    if isinstance(node, ast.Name):
        found = scope.lookup(node.id)
        if found is None or len(found[1]) != 1:
            return None
        binding = found[1][0]
        if binding.kind == "assign" and isinstance(binding.value, ast.Call) and binding.index is None:
            return _class_named(binding.value.func, found[0])
        if binding.kind == "parameter" and getattr(binding.node, "annotation", None) is not None:
            return _class_named(binding.node.annotation, found[0])  # type: ignore[attr-defined]
        return None
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        owner = reach.class_around(scope)
        for one in reach.bases(owner) if owner is not None else []:
            values = reach.attributes_of(one).get(node.attr, [])
            found_classes = {
                made for value, where in values if isinstance(value, (ast.Call, ast.Name))
                if (made := class_of(value, where)) is not None
            }  # fmt: skip
            if values:
                return found_classes.pop() if len(found_classes) == 1 else None
    return None


def _class_named(node: ast.expr, scope: Scope) -> Scope | None:
    name = scope.module.qualified(node, scope)
    if name is None or name.startswith(("builtins.", "warp.", "numpy.")):
        return None
    found = scope.module.project.binding(name, scope.module)
    if found is None or found[1].kind != "class":
        return None
    return found[0].module.scope_of(found[1].node)


def host(scope: Scope) -> HostFunction:
    """The host function of a scope, also of one that names nothing of Warp's."""
    known = scope.module.host_of(scope)
    if known is None:
        made: dict[Scope, HostFunction] = scope.module.__dict__.setdefault("_other_hosts", {})
        known = made.get(scope)
        if known is None:
            known = made[scope] = HostFunction(scope.module, scope)
    return known


def recorded_functions(module: Module) -> Iterator[tuple[HostFunction, Recorded]]:
    """The functions of this file that run while a graph is recorded."""
    for scope, one in recorded(module).items():
        if scope.module is module:
            yield host(scope), one


def recorded_calls(module: Module) -> Iterator[tuple[HostFunction, HostCall, Recorded | Capture]]:
    """Every call of this file that runs while a graph is recorded, and is not kept from it by a test."""
    for capture in captures(module):
        for call in capture.calls:
            if not knows_capture(call.site, capture):
                yield capture.function, call, capture
    for function, one in recorded_functions(module):
        for call in function.calls:
            if not knows_capture(call.site):
                yield function, call, one


def capture_of(function: HostFunction, site: Site) -> Capture | Recorded | None:
    """What records the code at a site, if anything does in this file."""
    for capture in captures(function.module):
        if capture.function is function and capture.covers(site):
            return capture
    return recorded(function.module).get(function.scope)


def knows_capture(site: Site, where: Capture | Recorded | None = None) -> bool:
    """Whether a condition around a site asks if a graph is being recorded; those around the capture itself do not."""
    around: tuple[object, ...] = ()
    if isinstance(where, Capture):
        around = where.function.flow.sites[where.node].guards
    return any(guard not in around and _asks(guard.test) for guard in site.guards)


def _asks(test: ast.expr) -> bool:
    for part in walk(test):
        name = part.attr if isinstance(part, ast.Attribute) else part.id if isinstance(part, ast.Name) else ""
        if "captur" in name or "graph" in name:
            return True
    return False


def reaches(scope: Scope, names: Iterable[str], depth: int = 4) -> bool:
    """Whether a function, with what it calls, calls something of these names."""
    wanted = frozenset(names)
    seen: set[Scope] = set()
    waiting = [(scope, 0)]
    while waiting:
        one, level = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        if any(call.name in wanted for call in host(one).calls):
            return True
        if level < depth:
            waiting += [(inner, level + 1) for _, inner in calls_from(one)]
    return False


def allocates(call: HostCall) -> bool:
    """Whether a call takes device memory; a view of memory that is there already does not."""
    if call.name not in ALLOCATING:
        return False
    return call.name != "warp.array" or all(call.argument(word) is None for word in ("ptr", "copy"))


def run_before(capture: Capture) -> set[Scope]:
    """The functions that the capture's file runs, unconditionally, outside of captures: before this one, it is assumed.

    In the capture's own function only what stands before it counts.
    """
    known: set[Scope] | None = capture.__dict__.get("_run_before")
    if known is not None:
        return known
    module = capture.function.module
    inside = {call.node for one in captures(module) for call in one.calls}
    during = recorded(module)
    found: set[Scope] = set()
    waiting: list[Scope] = []

    def start(scope: Scope) -> None:
        for call, target in calls_from(scope):
            site = host(scope).flow.sites.get(call)
            late = scope is capture.function.scope and (site is None or site.order >= capture.first)
            if call not in inside and not late and site is not None and not site.guards:
                waiting.append(target)

    for scope in module.scope.walk():
        if scope.kind in ("module", "function") and scope not in during and scope.calls:
            start(scope)
    while waiting:
        scope = waiting.pop()
        if scope not in found:
            found.add(scope)
            start(scope)
    object.__setattr__(capture, "_run_before", found)
    return found

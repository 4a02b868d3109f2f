"""What a host function records on its tapes, in the order of execution."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from warp_audit.audit.source import reach
from warp_audit.audit.source.autodiff import taped_scopes
from warp_audit.audit.source.gradients import is_float, value_needed
from warp_audit.audit.source.races import touches

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction, Effect, Parameter
    from warp_audit.audit.source.flow import Site
    from warp_audit.audit.source.host import HostCall, HostFunction, Launch


@dataclass(frozen=True, eq=False)
class Recorded:
    """A launch, and where it runs in the function that is looked at: itself, or the call that leads to it."""

    launch: Launch
    site: Site
    inner: bool = False
    """It is in another method of the class, so that only the object's own arrays can be told."""

    @property
    def node(self) -> ast.Call:
        return self.launch.node

    def root(self, argument: ast.expr) -> str | None:
        """The name of an array that the launch gets, as the function knows it."""
        root = self.launch.function.root_name(argument)
        return root if not self.inner or (root is not None and root.startswith("self.")) else None


@dataclass(eq=False)
class Recording:
    """The launches that go on one tape, and the backward passes over it.

    ``tape`` names the tape within the function; it is ``None`` for a function that the file calls inside of a tape.
    """

    function: HostFunction
    tape: str | None
    launches: list[Recorded] = field(default_factory=list)
    blocks: list[ast.withitem] = field(default_factory=list)
    backwards: list[HostCall] = field(default_factory=list)
    resets: list[HostCall] = field(default_factory=list)

    def holds(self, site: Site) -> bool:
        """Whether what runs at a site is inside of the tape's blocks."""
        return self.tape is None or any(item in self.blocks for item in site.contexts)

    def same_run(self, first: Recorded, second: Recorded) -> bool:
        """Whether one backward pass goes over both launches, as far as the text's order tells."""
        low, high = first.site.order, second.site.order
        return not any(low < call.site.order < high for call in (*self.backwards, *self.resets))

    @property
    def goes_back(self) -> bool:
        """Whether a backward pass is to be expected."""
        return (
            self.tape is None or bool(self.backwards) or "backward" not in self.function.module.text or self._given_away
        )

    @property
    def _given_away(self) -> bool:
        """Whether the tape leaves the function: it is returned, or kept in an attribute."""
        return self.tape is not None and "." in self.tape


def recordings(function: HostFunction) -> list[Recording]:
    """The function's recordings; those without launches too."""
    found: list[Recording] | None = function.__dict__.get("_recordings")
    if found is None:
        some = "Tape" in function.module.text
        found = function.__dict__["_recordings"] = list(_recordings(function).values()) if some else []
    return found


def _recordings(function: HostFunction) -> dict[str | None, Recording]:
    found: dict[str | None, Recording] = {}
    if not function.scope.contexts and function.scope not in taped_scopes(function.module):
        return found
    if function.scope in taped_scopes(function.module):
        whole = found[None] = Recording(function, None)
        whole.launches = [Recorded(launch, launch.site) for launch in function.launches if launch.tape is None]
    named: dict[ast.withitem, str | None] = {}
    for statement in function.flow.steps:
        if isinstance(statement, ast.With):
            for item in statement.items:
                if _is_tape(function, item):
                    name = named[item] = _name(function, item)
                    found.setdefault(name or f"@{id(item)}", Recording(function, name)).blocks.append(item)
    for launch in function.launches:
        for item in launch.site.contexts:
            if item in named:
                found[named[item] or f"@{id(item)}"].launches.append(Recorded(launch, launch.site))
    for recording in found.values():
        recording.launches += _called(function, recording)
        recording.launches.sort(key=lambda recorded: recorded.site.order)
    for call in function.calls:
        if call.name in (".backward", ".reset") and call.receiver is not None:
            known = found.get(function.root_name(call.receiver) or "")
            if known is not None:
                (known.backwards if call.name == ".backward" else known.resets).append(call)
    return found


def _called(function: HostFunction, recording: Recording) -> Iterator[Recorded]:
    """The launches of methods that are called inside of the blocks."""
    for call in function.calls:
        if recording.holds(call.site) and isinstance(call.node.func, ast.Attribute):
            yield from _launches_of(call.node, function, call.site, 0)


def _launches_of(call: ast.Call, function: HostFunction, site: Site, depth: int) -> Iterator[Recorded]:
    scope = reach.function_scope(call.func, function.scope)
    if scope is None or scope.module is not function.module or reach.class_around(scope) is not function.class_scope:
        return
    inner = function.module.host_of(scope)
    if inner is None or inner is function or function.class_scope is None:
        return
    for launch in inner.launches:
        if launch.tape is None:
            yield Recorded(launch, site, inner=True)
    if depth < 2:
        for one in inner.scope.calls:
            if isinstance(one.func, ast.Attribute):
                yield from _launches_of(one, inner, site, depth + 1)


def _is_tape(function: HostFunction, item: ast.withitem) -> bool:
    value = function.value_of(item.context_expr)
    if isinstance(value, ast.Call):
        return value in function.flow.sites and function._call(value).name == "warp.Tape"
    return any(
        isinstance(given, ast.Call) and where.qualify(given.func) == "warp.Tape"
        for given, where in function.attribute_values(value)
    )


def _name(function: HostFunction, item: ast.withitem) -> str | None:
    """The name under which ``root_name`` knows the tape of a ``with`` block."""
    target = item.optional_vars
    if isinstance(target, ast.Name):
        definition = next((one for one in function.flow.defs if one.node is target), None)
        return f"{target.id}@{id(definition)}" if definition is not None else None
    if isinstance(target, ast.Attribute):
        base = function.root_name(target.value)
        return f"{base}.{target.attr}" if base is not None else None
    return function.root_name(item.context_expr)


def read_roots(recorded: Recorded, only_needed: bool = False) -> Iterator[tuple[str, ast.expr]]:
    """The floating-point arrays that a launch reads, by name, with the arguments.

    Args:
        recorded: the launch.
        only_needed: only those whose values from before the launch the backward pass needs.
    """
    for kernel, parameter, effect, root, argument in _arrays(recorded):
        if not effect.reads:
            continue
        if only_needed:
            if not kernel.enable_backward or not value_needed(kernel, parameter.name):
                continue
            first = next((touch for touch in touches(kernel) if touch.root == parameter.name), None)
            if first is not None and first.access.what == "write":
                continue
        yield root, argument


def written_roots(recorded: Recorded) -> Iterator[tuple[str, ast.expr]]:
    """The floating-point arrays that a launch stores to or adds to, by name, with the arguments."""
    yield from ((root, argument) for _, _, effect, root, argument in _arrays(recorded) if effect.changes)


def plainly_written(recorded: Recorded) -> Iterator[tuple[str, ast.expr]]:
    """Those that it stores to, not those that it only adds to."""
    yield from ((root, argument) for _, _, effect, root, argument in _arrays(recorded) if effect.writes)


def _arrays(recorded: Recorded) -> Iterator[tuple[DeviceFunction, Parameter, Effect, str, ast.expr]]:
    kernel = recorded.launch.kernel
    if kernel is None:
        return
    for parameter, argument in recorded.launch.pairs(kernel):
        effect = kernel.effects.get(parameter.name)
        if parameter.is_array and effect is not None and is_float(parameter.type):
            root = recorded.root(argument)
            if root is not None:
                yield kernel, parameter, effect, root, argument


def flagged_later(function: HostFunction) -> set[str | None]:
    """The arrays whose gradient is set up by hand: ``x.requires_grad = True``, ``x.grad = ...``."""
    return {
        function.root_name(node.value)  # type: ignore[attr-defined]
        for node in function.flow.of(ast.Attribute)
        if isinstance(node.ctx, ast.Store) and node.attr in ("requires_grad", "grad")  # type: ignore[attr-defined]
    }


def overwritten(call: HostCall, function: HostFunction) -> ast.expr | None:
    """The array whose elements a host call replaces: ``x.fill_()``, ``x.assign()``, ``wp.copy(x, y)``."""
    if call.name in (".fill_", ".zero_", ".assign"):
        return call.receiver
    if call.name == "warp.copy":
        return call.argument("dest", 0)
    return None

"""Declares the rule ``maybe-unassigned``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.loops import is_static
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Def


class MaybeUnassigned(Rule):
    """A local variable is read that may never have been given a value.

    What it finds: a read of a name that is assigned on some of the paths that lead to it: in one branch, or only
    inside a loop that may not run.

    Why it matters: Python would raise; Warp declares the variable without a value and reads what happens to be there.

    Instead: give it a value before the branch or the loop.
    """

    code = "WPA646"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#299", "google-deepmind/mujoco_warp#1423")
    BAD = (
        """
        @wp.func
        def pick(mode: int, a: float):
            if mode == 0:
                gain = a
            elif mode == 1:
                gain = 2.0 * a
            return gain  # error: WPA646

        @wp.kernel
        def last(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            for k in range(x.shape[0]):
                v = x[k]
            y[0] = v  # error: WPA646
        """,
    )
    GOOD = (
        """
        @wp.func
        def pick(mode: int, a: float):
            if mode == 0:
                gain = a
            else:
                gain = 2.0 * a
            return gain

        @wp.kernel
        def last(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
            for k in range(3):
                v = x[k]
            y[0] = v
            if n > 0:
                w = x[n]
            y[1] = 1.0
            if n > 0:
                y[2] = w
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        reported: set[Def] = set()
        for node in function.flow.of(ast.Name):
            definition = function.flow.uses.get(node)
            if definition is None or definition.kind not in ("phi", "loop_phi") or definition in reported:
                continue
            if not isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
                continue
            missing = _missing(function, definition)
            if missing is None or _is_correlated(function, node, definition):
                continue
            reported.add(definition)
            yield self.at(
                function,
                node,
                f"'{definition.name}' has no value here if {missing}",
                "Warp then reads what happens to be in the variable; give it a value before",
            )


def _missing(function: DeviceFunction, definition: Def) -> str | None:
    """When a name has no value, in words."""
    origins = definition.origins()
    assigned = [origin for origin in origins if origin.kind != "unassigned"]
    if len(assigned) == len(origins) or not assigned or any(origin.kind == "loop" for origin in assigned):
        return None
    first = min(assigned, key=lambda origin: getattr(origin.node, "lineno", 0))
    if first.site is None:
        return None
    loops = [loop.node for loop in first.site.loops]
    if loops and all(_runs(function, loop) for loop in loops) and not first.site.guards:
        return None
    return f"line {getattr(first.node, 'lineno', 0)} does not run"


def _runs(function: DeviceFunction, loop: ast.For | ast.While) -> bool:
    """Whether a loop surely runs once."""
    if isinstance(loop, ast.While):
        return isinstance(loop.test, ast.Constant) and bool(loop.test.value)
    if not isinstance(loop.iter, ast.Call):
        return True
    bounds = [function.constant(argument) for argument in loop.iter.args]
    if all(is_static(function, argument) for argument in loop.iter.args) and None in bounds:
        return True  # a number from around the kernel, which whoever makes the kernel chooses
    if any(not isinstance(bound, int) for bound in bounds):
        return False
    return len(range(*bounds)) > 0  # type: ignore[arg-type]


def _is_correlated(function: DeviceFunction, node: ast.AST, definition: Def) -> bool:
    """Whether the read stands under a condition that goes with the assignment's, or in a later pass, or behind a chain.

    Conditions may be the same in other words, and a chain of three or more tests names all that there is: real code
    is right there more often than not.
    """
    join = definition.node
    site = function.flow.sites[node]
    if not isinstance(join, ast.stmt) or join not in function.flow.steps:
        return True
    if definition.kind == "loop_phi" and any(loop.node is join for loop in site.loops):
        return True
    gap = _gap(definition)
    before = set(function.flow.steps[gap].guards if gap in function.flow.steps else ())
    own = [guard.test for guard in site.guards if guard not in before and guard.test is not getattr(gap, "test", None)]
    if any(_goes_with(function, test, definition) for test in own):
        return True
    assigned = [origin for origin in definition.origins() if origin.kind != "unassigned"]
    if len({tuple(origin.site.guards) for origin in assigned if origin.site is not None}) > 2:
        return True
    return any(_is_chain(origin) or _is_decided_early(function, origin) for origin in assigned)


def _gap(definition: Def) -> ast.AST | None:
    """The statement behind which a value may be missing first."""
    seen: list[Def] = [definition]
    for one in seen:
        if any(source.kind == "unassigned" for source in one.sources):
            return one.node
        behind = [*one.sources, *filter(None, (one.previous,))]
        seen += [source for source in behind if source not in seen]
    return definition.node


def _goes_with(function: DeviceFunction, test: ast.expr, definition: Def) -> bool:
    """Whether a condition reads what the assignment depends on, or what may be changed along with it."""
    names = {part for part in walk(test) if isinstance(part, ast.Name)}
    atoms = function.symbols.form(test).all_atoms()
    if isinstance(test, ast.Call) or not atoms:
        return True
    uses = [function.flow.uses.get(name) for name in names]
    if any(use is not None and use.kind not in ("parameter", "free", "assign") for use in uses):
        return True
    for origin in definition.origins():
        if origin.site is None:
            continue
        conditions = [guard.test for guard in origin.site.guards]
        conditions += [loop.node.iter for loop in origin.site.loops if isinstance(loop.node, ast.For)]
        for condition in conditions:
            if atoms & function.symbols.form(condition).all_atoms() or _names(condition) & {name.id for name in names}:
                return True
    return False


def _names(node: ast.expr) -> set[str]:
    return {part.id for part in walk(node) if isinstance(part, ast.Name)}


def _is_chain(origin: Def) -> bool:
    return origin.site is not None and sum(not guard.positive for guard in origin.site.guards) > 1


def _is_decided_early(function: DeviceFunction, origin: Def) -> bool:
    """Whether the choice of the branch is made when the kernel is built."""
    guards = origin.site.guards if origin.site is not None else ()
    return any(is_static(function, guard.test) for guard in guards)

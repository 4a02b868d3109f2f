"""Declares the rule ``maybe-unassigned``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.loops import is_static
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
    """Whether the read stands under a condition of its own, or in a later pass, or behind a choice among many.

    Conditions may be the same in other words, and a chain of three or more tests names all that there is: real code
    is right there more often than not.
    """
    join = definition.node
    site = function.flow.sites[node]
    if not isinstance(join, ast.stmt) or join not in function.flow.steps:
        return True
    if len(site.guards) > len(function.flow.steps[join].guards):
        return True
    if definition.kind == "loop_phi" and any(loop.node is join for loop in site.loops):
        return True
    return any(_is_chain(origin) for origin in definition.origins())


def _is_chain(origin: Def) -> bool:
    return origin.site is not None and sum(not guard.positive for guard in origin.site.guards) > 1

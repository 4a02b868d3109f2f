"""Declares the rule ``swallowed-launch-exception``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.captures import callee, host
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction

_BROAD = {"builtins.Exception", "builtins.BaseException", "builtins.RuntimeError"}
_STARTS = {"warp.launch", "warp.launch_tiled"}
_LEAVING = {"exit", "_exit", "abort", "fail", "skipTest", "skip"}


class SwallowedLaunchException(Rule):
    """An error of a launch is caught and dropped.

    What it finds: a ``try`` around a launch, or around a call of a function of the project that launches, whose handler
    takes ``RuntimeError``, ``Exception`` or all, and neither raises nor ends the program.

    Why it matters: on Warp older than 1.19 only the first launch of a kernel that failed to build raised. Later
    launches of it ran a partial kernel in silence.

    Instead: raise again, or require Warp 1.19.
    """

    code = "WPA736"
    severity = Severity.INFO
    confidence = Confidence.MEDIUM
    references = ("NVIDIA/warp#1713",)
    below = "1.19"
    words = ("except",)
    BAD = (
        """
        import warnings

        @wp.kernel
        def warm(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = x[i] + 1.0

        def launch_all(x):
            wp.launch(warm, dim=x.shape[0], inputs=[x])

        def step(x):
            for _ in range(3):
                try:
                    launch_all(wp.clone(x))
                except (ValueError, RuntimeError) as problem:  # error: WPA736
                    warnings.warn(str(problem))
                    continue
            try:
                wp.launch(warm, dim=x.shape[0], inputs=[x])
            except:  # error: WPA736
                pass
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def warm(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = x[i] + 1.0

        def step(x, log):
            try:
                wp.launch(warm, dim=x.shape[0], inputs=[x])
            except Exception as problem:
                raise RuntimeError("step failed") from problem
            try:
                n = int(x.shape[0])
            except Exception:
                n = 0
            try:
                wp.launch(warm, dim=n, inputs=[x])
            except KeyError:
                log.append("no key")
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        for statement in function.flow.steps:
            if isinstance(statement, ast.Try) and any(_drops(handler, function) for handler in statement.handlers):
                what = _launched(statement, function)
                if what is None:
                    continue
                for handler in statement.handlers:
                    if _drops(handler, function):
                        yield self.at(
                            function, handler, f"an error of {what} is dropped here",
                            "raise it again: before Warp 1.19 later launches ran part of a kernel that failed to build",
                        )  # fmt: skip


def _drops(handler: ast.ExceptHandler, function: HostFunction) -> bool:
    """Whether a handler takes what a launch raises and goes on."""
    if handler.type is not None:
        types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if not any(function.module.qualified(one, function.scope) in _BROAD for one in types):
            return False
    for statement in handler.body:
        for part in walk(statement):
            if isinstance(part, ast.Raise):
                return False
            if isinstance(part, ast.Call) and getattr(part.func, "attr", getattr(part.func, "id", "")) in _LEAVING:
                return False
    return True


def _launched(statement: ast.Try, function: HostFunction) -> str | None:
    """What of a ``try`` block launches a kernel."""
    inside = {part for one in statement.body for part in walk(one) if isinstance(part, ast.Call)}
    for call in function.calls:
        if call.node not in inside:
            continue
        if call.name in _STARTS:
            return "the launch"
        scope = callee(call.node.func, function.scope)
        if scope is not None and any(inner.name in _STARTS for inner in host(scope).calls):
            return f"the launches in '{scope.name}'"
    return None

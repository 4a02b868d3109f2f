"""Runs rules over a module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule

if TYPE_CHECKING:
    from warp_audit.audit.source.module import Module


# Frames for deeply nested expressions: a sum of a thousand terms is real, in generated code.
_DEEPEST = 5000


class RuleFailed(Exception):
    """A rule raised: our bug. The findings of the other rules stand."""

    def __init__(self, rule: type[Rule], module: Module, cause: BaseException) -> None:
        super().__init__(f"rule {rule.code} {rule.slug} failed on {module.path}: {type(cause).__name__}: {cause}")
        self.rule = rule
        self.module = module


def applies(rule: type[Rule], min_warp: tuple[int, int] | None) -> bool:
    """Whether a rule has something to say for a project that supports this Warp and newer ones."""
    if rule.below is None:
        return True
    if min_warp is None:
        return False
    major, minor = (int(part) for part in rule.below.split(".")[:2])
    return min_warp < (major, minor)


def check(
    module: Module, rules: Sequence[type[Rule]], failed: Callable[[RuleFailed], None] | None = None
) -> list[Finding]:
    """What the rules find in a module, by place.

    Args:
        module: the file.
        rules: the rules to run; those about older Warp versions run if the project's bound asks for them.
        failed: told of each rule that raises; without it the exception goes on.
    """
    found: list[Finding] = []
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _DEEPEST))
    made = [rule() for rule in rules if applies(rule, module.project.min_warp)]
    for rule in made:
        try:
            found.extend(_run(rule, module))
        except RecursionError:
            continue  # an expression nested deeper than Python follows: nothing is known of it
        except Exception as cause:
            problem = RuleFailed(type(rule), module, cause)
            if failed is None:
                raise problem from cause
            failed(problem)
    unique: dict[tuple[str, str, int, int], Finding] = {}
    for finding in found:
        place = (finding.rule.code, str(finding.module.path), finding.node.lineno, finding.node.col_offset)  # type: ignore[attr-defined]
        unique.setdefault(place, finding)
    return sorted(unique.values(), key=lambda finding: (finding.node.lineno, finding.node.col_offset))  # type: ignore[attr-defined]


def _run(rule: Rule, module: Module) -> Iterator[Finding]:
    hooks = rule.hooks()
    if "module" in hooks:
        yield from rule.module(module)
    if "device" in hooks or "kernel" in hooks:
        for function in module.device_functions:
            if function.kind == "native":
                continue
            if "device" in hooks:
                yield from rule.device(function)
            if "kernel" in hooks and function.kind == "kernel":
                yield from rule.kernel(function)
    if "host" in hooks:
        for host in module.host_functions:
            if not rule.calls or host.called & rule.calls:
                yield from rule.host(host)
    if "launch" in hooks:
        for launch in module.launches:
            yield from rule.launch(launch)

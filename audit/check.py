"""Runs rules over a module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from warp_audit.audit.rule import HOOKS, Finding, Rule

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
    return _prepared(tuple(rules), module.project.min_warp).check(module, failed)


class _Prepared:
    """Rules sorted by what they are called for, to be run on many files."""

    def __init__(self, rules: tuple[type[Rule], ...], min_warp: tuple[int, int] | None) -> None:
        self.rules = [rule() for rule in rules if applies(rule, min_warp)]
        self.hooks = {hook: [rule for rule in self.rules if hook in rule.hooks()] for hook in HOOKS}
        self.words = {word for rule in self.rules for word in rule.words}
        self.always = [rule for rule in self.hooks["host"] if not rule.calls]
        self.by_call: dict[str, list[Rule]] = {}
        for rule in self.hooks["host"]:
            for name in rule.calls:
                self.by_call.setdefault(name, []).append(rule)

    def check(self, module: Module, failed: Callable[[RuleFailed], None] | None) -> list[Finding]:
        """What the rules find in a file."""
        sys.setrecursionlimit(max(sys.getrecursionlimit(), _DEEPEST))
        text = module.text
        here = {word for word in self.words if word in text}
        idle = {rule for rule in self.rules if rule.words and here.isdisjoint(rule.words)}
        found: list[Finding] = []

        def run(rules: Iterable[Rule], hook: str, given: Iterable[object]) -> None:
            """Call a hook of rules for each of the things it is for."""
            for rule in rules:
                if rule in idle:
                    continue
                call = getattr(rule, hook)
                try:
                    for one in given:
                        found.extend(call(one))
                except RecursionError:
                    continue  # an expression nested deeper than Python follows: nothing is known of it
                except Exception as cause:
                    idle.add(rule)
                    problem = RuleFailed(type(rule), module, cause)
                    if failed is None:
                        raise problem from cause
                    failed(problem)

        functions = [function for function in module.device_functions if function.kind != "native"]
        run(self.hooks["module"], "module", (module,))
        run(self.hooks["device"], "device", functions)
        run(self.hooks["kernel"], "kernel", [function for function in functions if function.kind == "kernel"])
        for host in module.host_functions:
            asked = {rule for name in host.called & self.by_call.keys() for rule in self.by_call[name]}
            run((*self.always, *asked), "host", (host,))
        run(self.hooks["launch"], "launch", module.launches)
        unique: dict[tuple[str, str, int, int], Finding] = {}
        for finding in found:
            place = (finding.rule.code, str(finding.module.path), finding.node.lineno, finding.node.col_offset)  # type: ignore[attr-defined]
            unique.setdefault(place, finding)
        return sorted(unique.values(), key=_by_place)


_prepared = lru_cache(maxsize=16)(_Prepared)


def _by_place(finding: Finding) -> tuple[int, int, str]:
    return finding.node.lineno, finding.node.col_offset, finding.rule.code  # type: ignore[attr-defined]

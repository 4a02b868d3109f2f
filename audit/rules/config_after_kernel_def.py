"""Declares the rule ``config-after-kernel-def``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Fix, Place, Replace
from warp_audit.audit.rule import Finding, Rule, Safety
from warp_audit.audit.source.module import statements
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction
    from warp_audit.audit.source.module import Module

_AT_MODULE = frozenset({
    "enable_backward", "max_unroll", "lineinfo", "compile_time_trace", "deterministic", "deterministic_max_records",
})  # fmt: skip
"""Defaults that a Warp module takes over when it is made, which its first kernel, func or struct does."""
_AT_INIT = frozenset({"kernel_cache_dir", "enable_mempools_at_init", "track_memory"})
"""Settings that are read once, by ``wp.init()``."""


class ConfigAfterKernelDef(Rule):
    """A setting is changed after the moment at which Warp reads it.

    What it finds: ``wp.config.enable_backward``, ``max_unroll``, ``lineinfo``, ``deterministic`` and their like
    assigned behind the file's first kernel or func, at the top level or in a function that then launches such a
    kernel; and ``wp.config.kernel_cache_dir`` and its like behind ``wp.init()``.

    Why it matters: a module takes the defaults over when its first kernel is defined. The assignment changes
    nothing for it, and nothing is said.

    Instead: assign before the first kernel, or call ``wp.set_module_options()``, which works at any time.
    """

    code = "WPA732"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("https://github.com/newton-physics/newton/commit/e37f0d955",)
    fix_safety = Safety.UNSAFE
    words = ("config",)
    BAD = (
        """
        @wp.func
        def square(x: float):
            return x * x

        if __debug__:
            wp.config.lineinfo = True  # error: WPA732

        wp.config.max_unroll, wp.config.verbose = 4, True  # error: WPA732

        @wp.kernel
        def integrate(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = square(x[i])

        def main(x):
            wp.config.enable_backward = False  # error: WPA732
            wp.launch(integrate, dim=x.shape[0], inputs=[x])
        """,
        """
        from warp import config

        wp.init()
        config.kernel_cache_dir = "/tmp/kernels"  # error: WPA732

        @wp.struct
        class Ball:
            radius: float

        setattr(config, "enable_backward", False)  # error: WPA732

        @wp.kernel
        def integrate(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = 2.0 * x[i]
        """,
    )
    GOOD = (
        """
        wp.config.kernel_cache_dir = "/tmp/kernels"
        wp.init()
        wp.config.enable_backward = False
        wp.config.max_unroll = 4

        @wp.kernel
        def integrate(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = 2.0 * x[i]

        wp.config.verify_fp = True
        wp.config.mode = "debug"
        wp.set_module_options({"enable_backward": False})

        def made_after(x):
            wp.config.enable_backward = True

            @wp.kernel(module="unique")
            def twice(x: wp.array(dtype=float)):
                i = wp.tid()
                x[i] = 2.0 * x[i]

            wp.launch(twice, dim=x.shape[0], inputs=[x])
            wp.launch(integrate, dim=x.shape[0], inputs=[x])
        """,
    )

    def module(self, module: Module) -> Iterator[Finding]:
        if "config" not in module.text:
            return
        first = _first_definition(module)
        started = False
        for statement in statements(module.tree.body):
            for target, name in _settings(statement, module):
                late = name in _AT_MODULE and first is not None and statement.lineno > first.lineno
                if late and first is not None:
                    yield self._late(module, statement, target, name, first)
                elif name in _AT_INIT and started:
                    yield self.at(
                        module, target, f"'{name}' has no effect: wp.init() has read it already",
                        f"assign wp.config.{name} before wp.init()",
                    )  # fmt: skip
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                started = started or module.qualified(statement.value.func, module.scope) == "warp.init"
        if first is not None:
            for function in module.host_functions:
                if function.scope.kind == "function" and "launch" in function.called:
                    yield from self._in_function(module, function, first)

    def _in_function(self, module: Module, function: HostFunction, first: ast.stmt) -> Iterator[Finding]:
        settings = [
            (statement, target, name, site)
            for statement, site in function.flow.steps.items()
            for target, name in _settings(statement, module, function)
            if name in _AT_MODULE
        ]
        if not settings or any(kernel.scope is function.scope for kernel in module.device_functions):
            return
        if any(isinstance(one, (ast.Import, ast.ImportFrom, ast.Try)) for one in function.flow.steps):
            return  # what it imports may define kernels
        for statement, target, name, site in settings:
            for launch in function.launches:
                kernel = launch.kernel
                if kernel is None or kernel.module is not module or kernel.scope.kind != "module":
                    continue
                if launch.site.order > site.order and "module" not in kernel.options:
                    yield self._late(module, statement, target, name, first)
                    break

    def _late(self, module: Module, statement: ast.stmt, target: ast.expr, name: str, first: ast.stmt) -> Finding:
        return self.at(
            module, target, f"'{name}' has no effect on this file's kernels: line {first.lineno} has read it already",
            "assign it before the first kernel, func or struct, or call wp.set_module_options()",
            fix=self._fix(module, statement, name),
        )  # fmt: skip

    def _fix(self, module: Module, statement: ast.stmt, name: str) -> Fix | None:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return None
        target = statement.targets[0]
        if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Attribute):
            return None
        warp, value = ast.unparse(target.value.value), ast.unparse(statement.value)
        code = f'{warp}.set_module_options({{"{name}": {value}}})'
        return self.mend("Set the module's own option", Replace(Place.of(statement), code))


def _first_definition(module: Module) -> ast.stmt | None:
    """What makes the file's Warp module: the first kernel, func or struct at its top level that is in no other one."""
    functions = [one for one in module.device_functions if one.scope.kind in ("module", "class")]
    nodes: list[ast.stmt] = [one.node for one in functions if "module" not in one.options]
    nodes += module.structs
    return min(nodes, key=lambda node: node.lineno, default=None)


def _settings(
    statement: ast.stmt, module: Module, function: HostFunction | None = None
) -> Iterator[tuple[ast.expr, str]]:
    """What of ``warp.config`` a statement assigns: the node and the setting's name."""
    scope = function.scope if function is not None else module.scope
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            for one in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
                if isinstance(one, ast.Attribute):
                    name = module.qualified(one, scope)
                    if name is not None and name.startswith("warp.config."):
                        yield one, name[12:]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        if isinstance(call.func, ast.Name) and call.func.id == "setattr" and len(call.args) == 3:
            owner, name_node = call.args[:2]
            if module.qualified(owner, scope) == "warp.config" and isinstance(name_node, ast.Constant):
                yield call, str(name_node.value)

"""Which code of a file runs under a tape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warp_audit.audit.source import reach

if TYPE_CHECKING:
    from collections.abc import Iterator

    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.host import Launch
    from warp_audit.audit.source.module import Module
    from warp_audit.audit.source.scopes import Scope


def taped_scopes(module: Module) -> set[Scope]:
    """Functions of the file that are called, directly or not, from inside a ``with wp.Tape()`` block of the file."""
    found: set[Scope] | None = module.__dict__.get("_taped_scopes")
    if found is not None:
        return found
    found = module.__dict__["_taped_scopes"] = set()
    if "Tape" not in module.text:
        return found
    waiting: list[Scope] = []
    for function in module.host_functions:
        if not function.scope.contexts:
            continue
        for call in function.calls:
            if call.site.contexts and function.inside(call.site, "warp.Tape") is not None:
                scope = reach.function_scope(call.node.func, function.scope)
                if scope is not None:
                    waiting.append(scope)
    while waiting:
        scope = waiting.pop()
        if scope in found:
            continue
        found.add(scope)
        for node in scope.calls:
            inner = reach.function_scope(node.func, scope)
            if inner is not None and inner not in found:
                waiting.append(inner)
    return found


def differentiated_kernels(module: Module) -> dict[DeviceFunction, list[Launch]]:
    """Kernels that launches of this file put under a tape, with those launches; only where backward code is made."""
    found: dict[DeviceFunction, list[Launch]] | None = module.__dict__.get("_differentiated")
    if found is None:
        found = module.__dict__["_differentiated"] = {}
        for launch in module.launches:
            if launch.differentiated:
                for kernel in launch.kernels:
                    if kernel.enable_backward:
                        found.setdefault(kernel, []).append(launch)
        for kernel in _checked(module):
            if kernel.enable_backward:
                found.setdefault(kernel, [])
    return found


def _checked(module: Module) -> Iterator[DeviceFunction]:
    """Kernels that the file gives to ``warp.autograd``: ``gradcheck``, ``jacobian`` and the like."""
    if "autograd" not in module.text:
        return
    for function in module.host_functions:
        for call in function.calls:
            given = call.argument("function", 0) if call.name.startswith("warp.autograd.") else None
            if given is not None:
                yield from reach.kernels(given, function.scope, function.flow).kernels


def differentiated_functions(module: Module) -> set[DeviceFunction]:
    """Those kernels, and the funcs they call."""
    found: set[DeviceFunction] | None = module.__dict__.get("_differentiated_functions")
    if found is None:
        found = set()
        waiting = list(differentiated_kernels(module))
        while waiting:
            function = waiting.pop()
            if function in found:
                continue
            found.add(function)
            waiting.extend(callee for call, _ in function.calls() if (callee := function.callee(call)) is not None)
        module.__dict__["_differentiated_functions"] = found
    return found

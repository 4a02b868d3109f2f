"""Where host code waits for the device: launches return before their kernels have run."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from warp_audit.audit.source.captures import SYNCHRONIZING, callee, reaches
from warp_audit.audit.source.constants import constant
from warp_audit.audit.source.walk import walk

if TYPE_CHECKING:
    from warp_audit.audit.source.flow import Site
    from warp_audit.audit.source.host import HostCall, HostFunction, Launch

_CLOCKS = {
    "time.time", "time.perf_counter", "time.monotonic", "time.perf_counter_ns", "time.time_ns", "time.monotonic_ns",
    "timeit.default_timer",
}  # fmt: skip


_WAITING_MAKERS = {"warp.Volume.allocate_by_voxels", "warp.Volume.allocate_by_tiles", ".get_active_stats"}
"""Calls that read sizes back from the device."""


def waits(call: HostCall, function: HostFunction) -> bool:
    """Whether a call waits for the device, itself or somewhere in what it calls."""
    if call.name in SYNCHRONIZING or call.name in _WAITING_MAKERS:
        return True
    scope = callee(call.node.func, function.scope)
    return scope is not None and scope is not function.scope and reaches(scope, SYNCHRONIZING)


def may_read(call: HostCall, function: HostFunction, arrays: set[str]) -> bool:
    """Whether a call out of sight gets one of these arrays: a comparison in a test, a conversion by NumPy."""
    if not arrays or call.name.startswith("warp.") or call.receiver is not None:
        return False
    if call.name.startswith("builtins.") and hasattr(builtins, call.name[9:]):
        return False  # other names come by a star import
    if callee(call.node.func, function.scope) is not None:
        return False
    given = [*call.node.args, *(keyword.value for keyword in call.node.keywords)]
    return any(
        isinstance(part, (ast.Name, ast.Attribute)) and function.root_name(part) in arrays
        for argument in given
        for part in walk(argument)
    )


def roots(launch: Launch) -> set[str]:
    """The names of the objects that a launch is given."""
    function = launch.function
    given = [*(launch.inputs or []), *(launch.outputs or [])]
    names = [part for argument in given for part in walk(argument) if isinstance(part, (ast.Name, ast.Attribute))]
    return {
        root for name in names if name in function.flow.sites and (root := function.root_name(name)) is not None
    } - {"self"}


def waits_between(function: HostFunction, first: Site, last: int | None = None, arrays: set[str] | None = None) -> bool:
    """Whether something that runs behind ``first``, and before the statement ``last``, waits for the device.

    Behind ``first`` is also what stands before it in a loop around both. A call out of sight that gets one of
    ``arrays`` counts too, as it may read them.
    """
    for call in function.calls:
        order = call.site.order
        behind = order > first.order and (last is None or order < last)
        around = order <= first.order and bool(set(call.site.loops) & set(first.loops)) and last is None
        if (behind or around) and (waits(call, function) or may_read(call, function, arrays or set())):
            return True
    return any(_timer(call) for call in function.context_calls(first))


def _timer(call: HostCall) -> bool:
    """A ``ScopedTimer(synchronize=True)`` waits at the end of its block."""
    given = call.argument("synchronize")
    return call.name == "warp.ScopedTimer" and isinstance(given, ast.Constant) and given.value is True


def on_host(launch: Launch) -> bool:
    """Whether a launch is surely one on the CPU, which returns when the kernel has run."""
    device = launch.argument("device")
    return device is not None and constant(device, launch.function.scope) == "cpu"


def is_clock(name: str) -> bool:
    """Whether a call of this name reads a clock."""
    return name in _CLOCKS

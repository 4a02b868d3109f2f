"""Declares the rule ``timing-without-sync``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Fix, InsertBefore, Place
from warp_audit.audit.rule import Finding, Rule, Safety
from warp_audit.audit.source.captures import callee, host
from warp_audit.audit.source.scopes import dotted
from warp_audit.audit.source.waiting import is_clock, on_host, roots, waits, waits_between
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostCall, HostFunction

_STARTS = {"warp.launch", "warp.launch_tiled", "warp.capture_launch"}


class TimingWithoutSync(Rule):
    """A clock is read after a launch without waiting for the kernel.

    What it finds: an elapsed time, the difference of two readings of ``time.perf_counter()`` and the like, where
    kernels or graphs are launched in between and nothing waits for the device before the second reading.

    Why it matters: a launch returns before the kernel has run on a GPU. The number is the time to queue the work.

    Instead: call ``wp.synchronize_device()`` before each reading, or use ``wp.ScopedTimer(…, synchronize=True)``.
    """

    code = "WPA723"
    severity = Severity.INFO
    confidence = Confidence.HIGH
    references = ("https://github.com/Autodesk/XLB/commit/a69067a",)
    fix_safety = Safety.UNSAFE
    calls = frozenset(
        {"time", "perf_counter", "monotonic", "perf_counter_ns", "time_ns", "monotonic_ns", "default_timer"}
    )
    BAD = (
        """
        import time
        from time import perf_counter

        @wp.kernel
        def fade(f: wp.array(dtype=float)):
            i = wp.tid()
            f[i] = 0.9 * f[i]

        def work(f):
            wp.launch(fade, dim=f.shape[0], inputs=[f])

        def benchmark(f, graph):
            wp.synchronize()
            start = time.time()
            wp.capture_launch(graph)
            end = time.time()  # error: WPA723
            print(f"{1000.0 * (end - start)} ms")

        def benchmark_calls(f):
            t = time.monotonic()
            wp.launch(fade, dim=f.shape[0], inputs=[f])
            spent = time.monotonic()  # error: WPA723
            spent -= t
            times = [spent]
            f = wp.clone(f)
            for _ in range(10):
                begin = perf_counter()
                work(f)
                times.append(perf_counter() - begin)  # error: WPA723
            return min(times)

        class Solver:
            def step(self):
                self.begin = time.perf_counter_ns()
                wp.launch(fade, dim=self.f.shape[0], inputs=[self.f])
                self.spent = (time.perf_counter_ns() - self.begin) * 1.0e-9  # error: WPA723
        """,
    )
    GOOD = (
        """
        import time

        @wp.kernel
        def fade(f: wp.array(dtype=float)):
            i = wp.tid()
            f[i] = 0.9 * f[i]

        def work(f):
            wp.launch(fade, dim=f.shape[0], inputs=[f])
            return f.numpy()

        def benchmark(f, graph, stream):
            start = time.time()
            wp.launch(fade, dim=f.shape[0], inputs=[f])
            wp.synchronize_stream(stream)
            end = time.time()
            first = end - start
            start = time.time()
            work(f)
            second = time.time() - start
            start = time.time()
            wp.launch(fade, dim=f.shape[0], inputs=[f], device="cpu")
            third = time.time() - start
            start = time.time()
            count = len(f.shape)
            fourth = time.time() - start
            wp.launch(fade, dim=f.shape[0], inputs=[f])
            return first, second, third, fourth, count

        def frames(f):
            last = time.time()
            while True:
                wp.launch(fade, dim=f.shape[0], inputs=[f])
                if time.time() > last + 1.0:
                    break
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        clocks: dict[ast.expr, HostCall] = {call.node: call for call in function.calls if is_clock(call.name)}
        if not clocks:
            return
        starters = _starters(function)
        told: set[ast.expr] = set()
        for left, right in _differences(function) if starters else ():
            begin, end = clocks.get(_reading(function, right)), clocks.get(_reading(function, left))
            if begin is None or end is None or end.node in told:
                continue
            between = [one for one in starters if begin.site.order < one.site.order < end.site.order]
            if not between or not set(begin.site.loops) <= set(end.site.loops):
                continue
            last = between[-1]
            if waits_between(function, last.site, end.site.order, _arrays(function, last)):
                continue
            told.add(end.node)
            yield self.at(
                function, end.node, f"the clock is read while what line {last.node.lineno} launches may still run",
                "wait for the device before both readings: wp.synchronize_device()", fix=self._fix(function, end, last),
            )  # fmt: skip

    def _fix(self, function: HostFunction, end: HostCall, last: HostCall) -> Fix | None:
        text = dotted(last.node.func)
        if text is None or "." not in text or function.qualify(last.node.func) not in _STARTS:
            return None
        wait = f"{text.rpartition('.')[0]}.synchronize_device()"
        return self.mend("Wait for the device first", InsertBefore(Place.of(end.site.statement), wait))


def _differences(function: HostFunction) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is subtracted from what: ``end - start``, ``end -= start``."""
    for node in function.flow.of(ast.BinOp):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            yield node.left, node.right
    for statement in function.flow.steps:
        if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Sub):
            yield statement.target, statement.value


def _reading(function: HostFunction, node: ast.expr) -> ast.expr:
    """The clock call that an expression is, names followed to their only value."""
    value = function.value_of(node)
    if isinstance(value, ast.Attribute):
        values = function.attribute_values(value)
        if len(values) == 1 and values[0][1] is function:
            return values[0][0]
    return value


def _starters(function: HostFunction) -> list[HostCall]:
    """The calls that start work on a device and return before it is done, here or in a function of the project."""
    found = []
    cpu = {launch.node for launch in function.launches if on_host(launch)}
    for call in function.calls:
        if call.name in _STARTS:
            if call.node not in cpu:
                found.append(call)
            continue
        scope = callee(call.node.func, function.scope)
        if scope is not None and scope is not function.scope and not waits(call, function):
            if any(inner.name in _STARTS for inner in host(scope).calls):
                found.append(call)
    return found


def _arrays(function: HostFunction, call: HostCall) -> set[str]:
    for launch in function.launches:
        if launch.node is call.node:
            return roots(launch)
    return set()

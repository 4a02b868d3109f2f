"""Declares the rule ``ad-tape-protocol``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source import reach
from warp_audit.audit.source.tapes import read_roots, recordings, written_roots
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.flow import Loop, Site
    from warp_audit.audit.source.host import HostCall, HostFunction, Launch
    from warp_audit.audit.source.scopes import Scope
    from warp_audit.audit.source.tapes import Recording

_ZEROES = {"zero", "reset", "zero_grad"}
_DEPTH = 4


class AdTapeProtocol(Rule):
    """A backward pass adds to gradients, or runs over launches, that an earlier one has left.

    What it finds: ``tape.backward`` in a loop that never clears the gradients of arrays made before the loop; a second
    ``tape.backward`` behind a read of the gradients, without clearing them; a tape that records in a loop again and
    again without ``tape.reset()``.

    Why it matters: Warp adds to the gradients that are there, and runs every launch that the tape holds. From the
    second time on the gradients are sums over all passes, without a message.

    Instead: call ``tape.zero()`` after each use of the gradients, and ``tape.reset()`` before a tape records anew, or
    make a new tape.
    """

    code = "WPA404"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("NVIDIA/warp#222",)
    calls = frozenset(("backward",))
    BAD = (
        """
        @wp.kernel
        def misfit(k: wp.array(dtype=float), target: float, loss: wp.array(dtype=float)):
            d = k[0] - target
            loss[0] = d * d

        def fit(k, steps):
            loss = wp.zeros(1, dtype=float, requires_grad=True)
            grads = []
            for _ in range(steps):
                with wp.Tape() as tape:
                    wp.launch(misfit, dim=1, inputs=[k, 1.0], outputs=[loss])
                tape.backward(loss=loss)  # error: WPA404
                grads.append(float(k.grad.numpy()[0]))
            return grads

        def grow(k, steps, loss):
            tape = wp.Tape()
            while steps > 0:
                with tape:
                    wp.launch(misfit, dim=1, inputs=[k, 1.0], outputs=[loss])
                tape.backward(loss)  # error: WPA404
                tape.zero()
                steps -= 1

        def jacobian(k, out, first, second):
            with wp.Tape() as tape:
                wp.launch(misfit, dim=1, inputs=[k, 1.0], outputs=[out])
            tape.backward(grads={out: first})
            row = k.grad.numpy().copy()
            tape.backward(grads={out: second})  # error: WPA404
            return row, k.grad.numpy()
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def misfit(k: wp.array(dtype=float), target: float, loss: wp.array(dtype=float)):
            d = k[0] - target
            loss[0] = d * d

        def fit(k, steps, loss):
            for _ in range(steps):
                with wp.Tape() as tape:
                    wp.launch(misfit, dim=1, inputs=[k, 1.0], outputs=[loss])
                tape.backward(loss=loss)
                tape.zero()
            for _ in range(steps):
                tape = wp.Tape()
                with tape:
                    wp.launch(misfit, dim=1, inputs=[k, 1.0], outputs=[loss])
                tape.backward(loss=loss)
                k.grad.zero_()

        def fresh(values, loss):
            for value in values:
                k = wp.array([value], dtype=float, requires_grad=True)
                with wp.Tape() as tape:
                    wp.launch(misfit, dim=1, inputs=[k, 1.0], outputs=[loss])
                tape.backward(loss=loss)

        def reset(k, steps, loss):
            tape = wp.Tape()
            for _ in range(steps):
                with tape:
                    wp.launch(misfit, dim=1, inputs=[k, 1.0], outputs=[loss])
                tape.backward(loss=loss)
                tape.reset()

        def jacobian(k, out, first, second):
            with wp.Tape() as tape:
                wp.launch(misfit, dim=1, inputs=[k, 1.0], outputs=[out])
            tape.backward(grads={out: first})
            row = k.grad.numpy().copy()
            tape.zero()
            tape.backward(grads={out: second})
            return row, k.grad.numpy()
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        for recording in recordings(function):
            if recording.tape is None or _is_handed_on(function, recording.tape):
                continue
            before: HostCall | None = None
            for call in recording.backwards:
                message = self._in_loop(function, recording, call)
                if message is None and before is not None and _reads_between(function, before, call):
                    message = f"the gradients of the backward pass on line {before.node.lineno} are still there"
                if message is not None:
                    yield self.at(function, call.node, message)
                before = call

    @staticmethod
    def _in_loop(function: HostFunction, recording: Recording, call: HostCall) -> str | None:
        if not call.site.loops:
            return None
        loop = call.site.loops[-1]
        if _piles_up(function, recording, loop):
            return "the tape records again in each pass of the loop without a reset, so that older launches run too"
        if _clears(function, loop):
            return None
        kept = next((ast.unparse(node) for node in _kept(function, recording, loop)), None)
        if kept is None:
            return None
        return f"each pass of the loop adds to the gradient of '{kept}', which nothing clears"


def _is_handed_on(function: HostFunction, tape: str) -> bool:
    """Whether a tape goes to code that may clear it."""
    for call in function.calls:
        for argument in (*call.node.args, *(keyword.value for keyword in call.node.keywords)):
            if isinstance(argument, (ast.Name, ast.Attribute)) and function.root_name(argument) == tape:
                return True
    return False


def _within(site: Site, loop: Loop) -> bool:
    return any(one.node is loop.node for one in site.loops)


def _piles_up(function: HostFunction, recording: Recording, loop: Loop) -> bool:
    """Whether a tape made before a loop records in it and is never reset."""
    items = [item for item in recording.blocks if isinstance(item.context_expr, (ast.Name, ast.Attribute))]
    inside = [item for item in items if _within(function.flow.sites[item.context_expr], loop)]
    if not inside:
        return False
    made = function.value_of(inside[0].context_expr)
    if not isinstance(made, ast.Call) or made not in function.flow.sites or _within(function.flow.sites[made], loop):
        return False
    return not any(
        (call.name == ".reset" or call.name.endswith(".reset")) and _within(call.site, loop) for call in function.calls
    ) and not any(
        isinstance(node.ctx, ast.Store) and node.attr == "launches"  # type: ignore[attr-defined]
        for node in function.flow.of(ast.Attribute)
    )


def _clears(function: HostFunction, loop: Loop) -> bool:
    """Whether the loop, or a function of the file that it calls, clears gradients in any way."""
    for call in function.calls:
        if _within(call.site, loop) and _call_clears(call.node, function.scope, 0):
            return True
    for node in function.flow.of(ast.Attribute):
        if isinstance(node.ctx, ast.Store) and node.attr in ("grad", "gradients"):  # type: ignore[attr-defined]
            if _within(function.flow.sites[node], loop):
                return True
    return any(
        _within(launch.site, loop) and any(_is_grad(function, argument) for argument in _changed(launch))
        for launch in function.launches
    )


def _changed(launch: Launch) -> Iterator[ast.expr]:
    """The arguments that a launch may change."""
    kernel = launch.kernel
    if kernel is None:
        yield from launch.arguments or ()
        return
    for parameter, argument in launch.pairs(kernel):
        effect = kernel.effects.get(parameter.name)
        if effect is not None and effect.changes:
            yield argument


def _is_grad(function: HostFunction, node: ast.expr) -> bool:
    value = function.value_of(node)
    return isinstance(value, ast.Attribute) and value.attr == "grad"


def _call_clears(call: ast.Call, scope: Scope, depth: int) -> bool:
    if isinstance(call.func, ast.Attribute):
        if call.func.attr in _ZEROES:
            return True
        if call.func.attr in ("zero_", "fill_", "assign"):
            text = ast.unparse(call.func.value)
            return "grad" in text
    if depth >= _DEPTH:
        return False
    inner = reach.function_scope(call.func, scope)
    return inner is not None and any(_call_clears(one, inner, depth + 1) for one in inner.calls)


def _kept(function: HostFunction, recording: Recording, loop: Loop) -> Iterator[ast.expr]:
    """Differentiated arrays that recorded launches read and that live longer than a pass of the loop."""
    written = {root for one in recording.launches for root, _ in written_roots(one)}
    for recorded in recording.launches:
        for root, argument in read_roots(recorded):
            host = recorded.launch.function
            fact = host.array(argument)
            if root in written or (fact is not None and fact.requires_grad is False):
                continue
            if fact is not None and fact.function is function and _within(function.flow.sites[fact.made], loop):
                continue
            if fact is None and (recorded.inner or not _from_outside(function, argument, loop)):
                continue
            yield argument


def _from_outside(function: HostFunction, argument: ast.expr, loop: Loop) -> bool:
    """Whether an array that is not known is one that the loop does not make anew."""
    definition = function.flow.uses.get(argument)
    if definition is None:
        return (
            isinstance(argument, ast.Attribute) and isinstance(argument.value, ast.Name) and argument.value.id == "self"
        )
    if definition.kind == "parameter":
        return True
    return definition.site is not None and not _within(definition.site, loop) and definition.kind == "assign"


def _reads_between(function: HostFunction, first: HostCall, second: HostCall) -> bool:
    """Whether gradients are read between two backward passes of one course, and not cleared."""
    if first.site.loops != second.site.loops or first.site.guards != second.site.guards:
        return False
    low, high = first.site.order, second.site.order
    for call in function.calls:
        if low <= call.site.order <= high and _call_clears(call.node, function.scope, 0):
            return False
    return any(
        node.attr in ("grad", "gradients") and isinstance(node.ctx, ast.Load)  # type: ignore[attr-defined]
        for node in function.flow.of(ast.Attribute)
        if low < function.flow.sites[node].order < high
    )

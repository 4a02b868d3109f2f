"""Declares the rule ``broadcast-batch-index``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Safety, Wrap
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.batches import own_wraps, wrapped_tables, written_tables
from warp_audit.audit.source.bounds import callers, given, guards_on
from warp_audit.audit.source.symbolic import Form
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.symbolic import Atom


class BroadcastBatchIndex(Rule):
    """A table that may have one shared row is read by the environment's own number.

    What it finds: a parameter that other code of the file indexes by ``env % table.shape[0]``, and this kernel by
    ``env`` alone.

    Why it matters: the table may have a single row for all environments. The plain index reads past its end as soon
    as there are two, silently.

    Instead: ``table[env % table.shape[0], …]`` as elsewhere.
    """

    code = "WPA213"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("google-deepmind/mujoco_warp#1185", "google-deepmind/mujoco_warp#1187")
    fix_safety = Safety.SAFE
    words = ("%", "mod(")
    BAD = (
        """
        @wp.kernel
        def push(gain: wp.array2d(dtype=float), x: wp.array2d(dtype=float)):
            world, k = wp.tid()
            x[world, k] *= gain[world, k]  # error: WPA213

        @wp.kernel
        def pull(gain: wp.array2d(dtype=float), x: wp.array2d(dtype=float)):
            world, k = wp.tid()
            row = world % gain.shape[0]
            x[world, k] /= gain[row, k]

        @wp.func
        def gained(gain: wp.array2d(dtype=float), env: int, k: int):
            return gain[env, k]  # error: WPA213

        @wp.kernel
        def lift(gain: wp.array2d(dtype=float), x: wp.array2d(dtype=float)):
            world, k = wp.tid()
            x[world, k] += gained(gain, world, k)
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def push(gain: wp.array2d(dtype=float), x: wp.array2d(dtype=float)):
            world, k = wp.tid()
            x[world, k] *= gain[world % gain.shape[0], k]

        @wp.kernel
        def pull(gain: wp.array2d(dtype=float), x: wp.array2d(dtype=float)):
            world, k = wp.tid()
            if world < gain.shape[0]:
                x[world, k] /= gain[world, k]
            x[world, k] += gain[0, k] + gained(gain, world % gain.shape[0], k)

        @wp.func
        def gained(gain: wp.array2d(dtype=float), env: int, k: int):
            return gain[env, k]
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        wrapped = wrapped_tables(function.module)
        if not wrapped:
            return
        rows = written_tables(function.module)
        aliases = {form for _, form in own_wraps(function)}
        for access in function.accesses:
            if access.root not in wrapped or access.root in rows or not access.indices or not access.reads:
                continue
            index = access.indices[0]
            atom = function.symbols.form(index).single()
            if atom is None or not _is_environment(function, atom) or guards_on(function, access.site, {atom}):
                continue
            if Form.of(("mod", Form.of(atom), Form.of(("shape", access.root, 0)))) in aliases:
                continue  # the rule `unused-index-alias` speaks
            text = f" % {access.root}.shape[0]"
            yield self.at(
                function,
                access.node,
                f"'{access.root}' is indexed by '{ast.unparse(index)}' alone, but elsewhere modulo its length (line "
                f"{wrapped[access.root]}): it may have one shared row",
                fix=self.mend("wrap the index", Wrap(Place.of(index), "", text)),
            )


def _is_environment(function: DeviceFunction, atom: Atom) -> bool:
    """Whether a value is a thread coordinate, or a func's parameter that a kernel of the file gives one to."""
    if atom[0] == "tid":
        return function.kind == "kernel"
    if atom[0] != "parameter" or function.kind != "func":
        return False
    for caller, call, _ in callers(function):
        argument = given(function, call, atom[1])
        found = caller.symbols.form(argument).single() if argument is not None else None
        if found is not None and found[0] == "tid":
            return True
    return False

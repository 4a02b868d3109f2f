"""Declares the rule ``unused-index-alias``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.batches import own_wraps
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Def


class UnusedIndexAlias(Rule):
    """A wrapped index is computed for a table, and then the plain one is used.

    What it finds: ``row = env % table.shape[0]`` that never indexes the table, beside a read of ``table[env, …]``.

    Why it matters: the table has one row for all environments, or fewer rows than there are. The plain index reads
    past its end, silently.

    Instead: use the wrapped index.
    """

    code = "WPA214"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("google-deepmind/mujoco_warp#932",)
    fix_safety = Safety.SAFE
    words = ("%", "mod(")
    BAD = (
        """
        @wp.func
        def rest(table: wp.array2d(dtype=float), env: int, k: int):
            row = env % table.shape[0]
            return table[env, k]  # error: WPA214

        @wp.kernel
        def pull(table: wp.array2d(dtype=float), other: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
            env, k = wp.tid()
            row = wp.mod(env, table.shape[0])
            out[env, k] = other[row, k] + table[env, k]  # error: WPA214
        """,
    )
    GOOD = (
        """
        @wp.func
        def rest(table: wp.array2d(dtype=float), other: wp.array2d(dtype=float), env: int, k: int):
            row = env % table.shape[0]
            return table[row, k] + other[env, k]

        @wp.func
        def pull(table: wp.array2d(dtype=float), other: wp.array2d(dtype=float), env: int, k: int):
            row = env % table.shape[0]
            return rest(table, other, row, k) * other[env, k]
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for definition, form in own_wraps(function):
            atom = form.single()
            assert atom is not None
            plain, table = atom[1], atom[2].single()[1]
            of_table = [access for access in function.accesses if access.root == table and access.indices]
            if any(function.symbols.form(access.indices[0]) == form for access in of_table):
                continue
            if plain.is_constant or _is_passed_on(function, definition, table):
                continue
            for access in of_table:
                if function.symbols.form(access.indices[0]) != plain:
                    continue
                yield self.at(
                    function,
                    access.node,
                    f"'{definition.name}' was computed for '{table}' and is not used for it: the plain index reads "
                    "past the end",
                    fix=self.mend(f"use '{definition.name}'", Replace(Place.of(access.indices[0]), definition.name)),
                )


def _is_passed_on(function: DeviceFunction, definition: Def, table: str) -> bool:
    """Whether a func gets the wrapped index and the table, and may put the two together."""
    reads = set(function.flow.reads_of(definition))
    for call, _ in function.calls() if reads else ():
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        if reads & set(arguments) and any(function.root_name(argument) == table for argument in arguments):
            return True
    return False

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


class UnusedIndexAlias(Rule):
    """A wrapped index is computed for a table, and then the plain one is used.

    What it finds: ``row = env % table.shape[0]`` that nothing reads, beside a read of ``table[env, …]``.

    Why it matters: the table has one row for all environments, or fewer rows than there are. The plain index reads
    past its end, silently.

    Instead: use the wrapped index.
    """

    code = "WPA214"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("google-deepmind/mujoco_warp#932",)
    fix_safety = Safety.SAFE
    BAD = (
        """
        @wp.func
        def rest(table: wp.array2d(dtype=float), env: int, k: int):
            row = env % table.shape[0]
            return table[env, k]  # error: WPA214
        """,
    )
    GOOD = (
        """
        @wp.func
        def rest(table: wp.array2d(dtype=float), other: wp.array2d(dtype=float), env: int, k: int):
            row = env % table.shape[0]
            return table[row, k] + other[env, k]
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for definition, form in own_wraps(function):
            if function.flow.reads_of(definition):
                continue
            atom = form.single()
            assert atom is not None
            plain, table = atom[1], atom[2].single()[1]
            for access in function.accesses:
                if access.root != table or not access.indices or function.symbols.form(access.indices[0]) != plain:
                    continue
                yield self.at(
                    function,
                    access.node,
                    f"'{definition.name}' was computed for '{table}' and is not used: the plain index reads "
                    "past the end",
                    fix=self.mend(f"use '{definition.name}'", Replace(Place.of(access.indices[0]), definition.name)),
                )

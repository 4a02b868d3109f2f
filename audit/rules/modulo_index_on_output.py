"""Declares the rule ``modulo-index-on-output``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.batches import written_tables
from warp_audit.audit.source.symbolic import Form
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class ModuloIndexOnOutput(Rule):
    """A buffer with a row for each environment is indexed modulo its length.

    What it finds: a parameter that is read or written at ``env % buffer.shape[0]`` and that a kernel of the file
    writes at ``env``.

    Why it matters: the buffer is no shared table. If it is ever too short, the modulo mixes environments instead of
    failing.

    Instead: index it by ``env``.
    """

    code = "WPA215"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("google-deepmind/mujoco_warp#824",)
    fix_safety = Safety.UNSAFE
    opt_in = True
    words = ("%", "mod(")
    BAD = (
        """
        @wp.kernel
        def place(pos: wp.array2d(dtype=float), x: wp.array2d(dtype=float)):
            world, k = wp.tid()
            pos[world, k] = x[world, k]

        @wp.kernel
        def lift(pos: wp.array2d(dtype=float), x: wp.array2d(dtype=float)):
            world, k = wp.tid()
            x[world, k] = 2.0 * pos[world % pos.shape[0], k]  # error: WPA215

        @wp.func
        def height(pos: wp.array2d(dtype=float), env: int, k: int):
            return pos[wp.mod(env, pos.shape[0]), k]  # error: WPA215

        @wp.kernel
        def sink(pos: wp.array2d(dtype=float)):
            world, k = wp.tid()
            pos[world % pos.shape[0], k] = height(pos, world, k) - 1.0  # error: WPA215
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def place(pos: wp.array2d(dtype=float), x: wp.array2d(dtype=float), size: wp.array2d(dtype=float)):
            world, k = wp.tid()
            pos[world, k] = x[world, k] * size[world % size.shape[0], k]

        @wp.kernel
        def ring(pos: wp.array2d(dtype=float), x: wp.array2d(dtype=float)):
            i, k = wp.tid()
            x[i, k] = pos[(i + 1) % pos.shape[0], k]
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        written = written_tables(function.module)
        for access in function.accesses:
            if access.root not in written or not access.indices:
                continue
            atom = function.symbols.form(access.indices[0]).single()
            if atom is None or atom[0] != "mod" or atom[2] != Form.of(("shape", access.root, 0)):
                continue
            inner = atom[1].single()
            if inner is None or inner[0] not in ("tid", "parameter"):
                continue
            fix = None
            index = access.indices[0]
            if isinstance(index, ast.BinOp):
                fix = self.mend("index it by the environment", Replace(Place.of(index), ast.unparse(index.left)))
            yield self.at(
                function,
                access.node,
                f"'{access.root}' has a row for each environment, as line {written[access.root]} writes it; the "
                "modulo would mix them silently",
                fix=fix,
            )

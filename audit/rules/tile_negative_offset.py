"""Declares the rule ``tile-negative-offset``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.tiles import items, tile_calls
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    import ast

    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Site
    from warp_audit.audit.source.symbolic import Form
    from warp_audit.audit.source.tiles import TileCall

_SIGNED_INDEX = (1, 16)
"""The Warp version from which indexed tile loads give zero for a negative index."""


class TileNegativeOffset(Rule):
    """A tile starts before the array.

    What it finds: the offset of a tile load or store that is negative for the first block, like
    ``b * TILE - 2`` or ``b * TILE - halo``, with no test or ``wp.max`` in between; for projects that support a Warp
    older than 1.16, also an index tile with a negative padding value in ``tile_load_indexed``.

    Why it matters: Warp checks only the far end of a tile. A negative offset reads or writes memory before the array,
    silently, on every device.

    Instead: clamp the start with ``wp.max(offset, 0)``, pad the array by the halo, or load the halo apart.
    """

    code = "WPA804"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1744", "NVIDIA/warp#1653")
    words = ("tile",)
    BAD = (
        """
        TILE = wp.constant(8)

        @wp.kernel
        def blur(x: wp.array2d(dtype=float), halo: int, out: wp.array2d(dtype=float)):
            r, c = wp.tid()
            t = wp.tile_load(x, shape=(TILE, TILE), offset=(r * TILE, c * TILE - 1))  # error: WPA804
            u = wp.tile_load(x, (TILE, TILE), (r * TILE - halo, c * TILE))  # error: WPA804
            wp.tile_store(out, t + u, offset=(r * TILE, c * TILE))
        """,
        """
        TILE = wp.constant(8)

        @wp.kernel
        def shifted(x: wp.array(dtype=float), out: wp.array(dtype=float)):
            b = wp.tid()
            first = b * TILE
            start = first - 3
            t = wp.tile_load(x, shape=TILE, offset=start)  # error: WPA804
            wp.tile_store(out, t, offset=first)
        """,
    )
    GOOD = (
        """
        TILE = wp.constant(8)

        @wp.kernel
        def shifted(x: wp.array(dtype=float), out: wp.array(dtype=float), lead: int):
            b = wp.tid()
            start = wp.max(b * TILE - 3, 0)
            t = wp.tile_load(x, shape=TILE, offset=start)
            u = wp.tile_load(x, shape=TILE, offset=(b + 1) * TILE - 3)
            wp.tile_store(out, t + u, offset=b * TILE)
            if b > 0:
                wp.tile_store(out, t, offset=b * TILE - 1)
            begin = lead - 4
            if begin >= 0:
                wp.tile_store(out, t, offset=begin)
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for call in tile_calls(function):
            for offset in items(function, call.offset):
                form = function.symbols.form(offset)
                if _starts_negative(function, form) and not _is_guarded(function, form, call.site):
                    yield self.at(
                        function,
                        call.node,
                        f"the tile of '{call.name}' starts before the array when the first block runs it",
                        "Warp checks only the far end of a tile",
                    )
                    break
            if call.name == "tile_load_indexed" and _speaks_of_indices(function):
                padded = _negative_padding(function, call)
                if padded is not None:
                    yield self.at(
                        function,
                        call.node,
                        f"the index tile holds a negative padding value (line {padded.lineno}), which Warp before 1.16 "
                        "reads before the array",
                    )


def _starts_negative(function: DeviceFunction, form: Form) -> bool:
    """Whether a value is negative where its thread coordinates and loop variables are at their start, 0."""
    grows = any(atom[0] in ("tid", "loop") and coefficient > 0 for atom, coefficient in form.terms)
    if not grows:
        return False
    rest = [(atom, coefficient) for atom, coefficient in form.terms if atom[0] not in ("tid", "loop")]
    if any(coefficient < 0 for atom, coefficient in form.terms if atom[0] in ("tid", "loop")):
        return False
    if any(atom[0] == "loop" and not _starts_at_zero(function, atom) for atom, _ in form.terms):
        return False
    if not rest:
        return form.constant < 0
    names = all(atom[0] in ("parameter", "free") for atom, _ in rest)
    return names and form.constant <= 0 and all(coefficient < 0 for _, coefficient in rest)


def _starts_at_zero(function: DeviceFunction, atom: tuple[object, ...]) -> bool:
    for definition in function.flow.defs:
        if definition.kind == "loop" and function.symbols.of_def(definition).single() == atom:
            arguments = getattr(definition.value, "args", [])
            return len(arguments) == 1 or (len(arguments) > 1 and function.constant(arguments[0]) == 0)
    return False


def _is_guarded(function: DeviceFunction, form: Form, site: Site) -> bool:
    """Whether a test around it mentions one of its coordinates from below, or any condition on the same value."""
    own = {atom for atom in form.atoms if atom[0] in ("tid", "loop")}
    for guard in site.guards:
        if function.symbols.form(guard.test).all_atoms() & own:
            return True
    return bool(function.symbols.lower_bounds(form, site)) and form.constant < 0 and not own


def _speaks_of_indices(function: DeviceFunction) -> bool:
    bound = function.module.project.min_warp
    return bound is not None and bound < _SIGNED_INDEX


def _negative_padding(function: DeviceFunction, call: TileCall) -> ast.expr | None:
    """The store of a negative constant into the tile that holds the indices."""
    indices = call.argument("indices", 1)
    definition = function.flow.uses.get(indices) if indices is not None else None
    if definition is None:
        return None
    reads = set(function.flow.reads_of(definition))
    for statement in function.flow.steps:
        for target in getattr(statement, "targets", []):
            base = getattr(target, "value", None)
            value = function.constant(getattr(statement, "value", None))
            if base in reads and isinstance(value, int) and value < 0:
                return target  # type: ignore[no-any-return]
    return None

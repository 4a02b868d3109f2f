"""Declares the rule ``float-derived-index``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import clamped, guards_on, indices
from warp_audit.audit.source.types import Scalar
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction
    from warp_audit.audit.source.symbolic import Form

_CASTS = ("int", "int32", "int64", "uint32", "int16", "uint64")


class FloatDerivedIndex(Rule):
    """An index is cast from a float without a clamp or a test.

    What it finds: an index that is ``int(…)`` of a float computed from what was read or passed in, where neither the
    float nor the integer is clamped or compared.

    Why it matters: a NaN becomes the smallest integer, and a position outside of the grid an index outside of the
    array. Warp reads or writes there, silently.

    Instead: ``wp.clamp(int(x), 0, a.shape[0] - 1)``, or test and return.
    """

    code = "WPA211"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("google-deepmind/mujoco_warp#510",)
    words = ("int(", "int16(", "int32(", "int64(")
    BAD = (
        """
        @wp.func
        def bin(h: wp.array2d(dtype=int), p: wp.vec2, scale: float):
            x = wp.int32(wp.floor(p[0] * scale))
            y = int(p[1] * scale)
            h[y, x] = 1  # error: WPA211
            cell = wp.vec2i(int(p[0] / scale), int(p[1] / scale))
            h[cell[0], cell[1]] = 2  # error: WPA211
        """,
    )
    GOOD = (
        """
        @wp.func
        def bin(h: wp.array(dtype=int), p: wp.vec2, scale: float, k: int):
            x = wp.int32(wp.clamp(p[0] * scale, 0.0, 9.0))
            h[x] = 1
            y = int(p[1] * scale)
            if y >= 0 and y < h.shape[0]:
                h[y] = 2
            z = wp.min(int(p[1]), h.shape[0] - 1)
            h[wp.max(z, 0)] = 3
            h[int(float(k) * 0.5)] = 4
            h[int(p[0])] = 5
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        casts = {
            id(call): call for call, _ in function.calls() if function.builtin(call) in _CASTS and len(call.args) == 1
        }
        if not casts:
            return
        reported: set[ast.stmt] = set()
        for access in function.accesses:
            if access.site.statement in reported:
                continue
            for _, index, form in indices(function, access):
                cast = _cast(function, index, 0)
                if cast is None or clamped(form) or not _is_data(function, cast.args[0]):
                    continue
                if _is_kept_whole(function, cast.args[0]):
                    continue
                if guards_on(function, access.site, set(form.atoms)) or _compared(function, access, form):
                    continue
                reported.add(access.site.statement)
                yield self.at(
                    function,
                    access.node,
                    f"the index '{ast.unparse(index)}' comes from the float '{ast.unparse(cast.args[0])}' and "
                    "is not kept in range",
                    "a NaN becomes the smallest integer",
                )
                break


def _cast(function: DeviceFunction, node: ast.expr, depth: int) -> ast.Call | None:
    """The cast of a float that an index is."""
    if depth > 5:
        return None
    if isinstance(node, ast.Name):
        definition = function.flow.uses.get(node)
        if (
            definition is None
            or definition.kind != "assign"
            or definition.index is not None
            or definition.value is None
        ):
            return None
        return _cast(function, definition.value, depth + 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        return _cast(function, node.left, depth + 1) or _cast(function, node.right, depth + 1)
    if isinstance(node, ast.Subscript):
        component = _component(function, node)
        return _cast(function, component, depth + 1) if component is not None else None
    if not isinstance(node, ast.Call) or function.builtin(node) not in _CASTS or len(node.args) != 1:
        return None
    type = function.type_of(node.args[0])
    if isinstance(type, Scalar) and type.is_float:
        return node
    return _cast(function, node.args[0], depth + 1)


def _component(function: DeviceFunction, node: ast.Subscript) -> ast.expr | None:
    """What a component of a vector is, where the vector was put together right before."""
    place, base = function.constant(node.slice), node.value
    if isinstance(base, ast.Name):
        definition = function.flow.uses.get(base)
        if definition is None or definition.kind != "assign" or definition.index is not None or not definition.value:
            return None
        base = definition.value
    name = function.builtin(base) if isinstance(base, ast.Call) else None
    if name is None or not name.startswith("vec") or not isinstance(place, int):
        return None
    assert isinstance(base, ast.Call)
    return base.args[place] if 0 <= place < len(base.args) and len(base.args) > 1 else None


def _is_kept_whole(function: DeviceFunction, node: ast.expr, depth: int = 0) -> bool:
    """Whether a float is an element or argument as it is: a whole number that is only stored as a float."""
    if isinstance(node, ast.Name) and depth < 4:
        definition = function.flow.uses.get(node)
        if definition is None or definition.kind != "assign" or definition.index is not None or not definition.value:
            return True
        return _is_kept_whole(function, definition.value, depth + 1)
    return isinstance(node, (ast.Subscript, ast.Attribute))


def _is_data(function: DeviceFunction, node: ast.expr) -> bool:
    """Whether a float is read or passed in, not made of coordinates, counts and random numbers."""
    atoms = function.symbols.form(node).all_atoms()
    if any(atom[0] == "call" and str(atom[1]).startswith(("rand", "sample", "poisson")) for atom in atoms):
        return False
    floats = False
    for part in walk(node):
        if isinstance(part, (ast.Name, ast.Subscript, ast.Attribute)) and part in function.flow.sites:
            type = function.type_of(part)
            if isinstance(type, Scalar) and type.is_float:
                floats |= any(a[0] in ("load", "parameter", "value") for a in function.symbols.form(part).all_atoms())
    return floats


def _compared(function: DeviceFunction, access: Access, form: Form) -> bool:
    """Whether the value is compared anywhere before the access: a test in other words counts."""
    own = set(form.atoms)
    for node in function.flow.of(ast.Compare):
        if function.flow.sites[node].order <= access.site.order:
            if any(own & set(function.symbols.form(side).atoms) for side in (node.left, *node.comparators)):  # type: ignore[attr-defined]
                return True
    return False

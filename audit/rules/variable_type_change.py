"""Declares the rule ``variable-type-change``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Fix, Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.refusals import inside_static, is_sure
from warp_audit.audit.source.types import FLOAT32, INT32, Matrix, Quaternion, Scalar, Transformation, Type, Vector
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Def, Site


class VariableTypeChange(Rule):
    """A variable of a kernel is given a value of another type.

    What it finds: ``x = 0`` followed by ``x = 1.5``, a number where there was a vector, and an ``if`` whose
    branches leave values of different types in a variable.

    Why it matters: a variable keeps the type of its first value. Warp stops the build, at the first launch.

    Instead: start with a value of the right type, ``x = 0.0``, or take another name.
    """

    code = "WPA612"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    fix_safety = Safety.SAFE
    BAD = (
        """
        @wp.func
        def pick(n: int, x: float, v: wp.vec3):
            y = 0
            if n > 2:
                y = x  # error: WPA612
            v = wp.length(v)  # error: WPA612
            n = 0.5  # error: WPA612
            if x > 1.0:
                z = 1
            else:
                z = 2.5  # error: WPA612
            total = int(0)
            for k in range(n):
                total = x  # error: WPA612
            if x > 3.0:
                part = 1.0
                return part
            if x > 2.0:
                part = int(x)  # error: WPA612
            return y
        """,
    )
    GOOD = (
        """
        WIDE = True

        @wp.func
        def pick(n: int, x: float, v: wp.vec3):
            y = float(0)
            if n > 2:
                y = x
                first = 1
                return float(first)
            if wp.static(WIDE):
                size = wp.vec3(x, x, x)
            else:
                size = x
            v = wp.normalize(v)
            n = 3
            for k in range(n):
                y = x + float(k)
            return y
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function.kind == "integrand" or any(parameter.generic for parameter in function.parameters):
            return
        first: dict[str, list[Def]] = {}
        reported: set[Def] = set()
        for definition in function.flow.defs:
            if definition.kind not in ("assign", "parameter", "loop") or "." in definition.name:
                continue
            earlier = first.setdefault(definition.name, [])
            if definition.kind == "assign" and definition.site is not None:
                before = next((one for one in earlier if _comes_before(one, definition)), None)
                if before is not None and _differ(function, before, definition):
                    reported.add(definition)
                    yield self._changed(function, before, definition)
                    continue
            earlier.append(definition)
        for definition in function.flow.defs:
            if definition.kind == "phi" and isinstance(definition.node, ast.If):
                yield from self._branches(function, definition, reported)

    def _branches(self, function: DeviceFunction, phi: Def, reported: set[Def]) -> Iterator[Finding]:
        sources = [source for source in phi.sources if source.kind == "assign"]
        if len(sources) == 2 and len(phi.sources) == 2 and not reported & set(sources):
            if _differ(function, sources[0], sources[1]):
                reported.update(sources)
                yield self._changed(function, *sources)

    def _changed(self, function: DeviceFunction, before: Def, definition: Def) -> Finding:
        one, other = function.def_type(before), function.def_type(definition)
        line = getattr(before.node, "lineno", function.node.lineno)
        node = definition.site.statement if definition.site is not None else function.node
        return self.at(
            function,
            node,
            f"'{definition.name}' is {one} since line {line}, and cannot become {other}",
            "a variable keeps the type of its first value",
            fix=self._fix(before, definition, one, other),
        )

    def _fix(self, before: Def, definition: Def, one: Type | None, other: Type | None) -> Fix | None:
        """A literal in the other's type."""
        if {one, other} != {INT32, FLOAT32}:
            return None
        literal = before.value if one == INT32 else definition.value
        if not isinstance(literal, ast.Constant):
            return None
        text = f"{literal.value!r}.0"
        return self.mend(f"write {text}", Replace(Place.of(literal), text))


def _comes_before(one: Def, other: Def) -> bool:
    """Whether Warp meets a definition first; it reads the text from top to bottom, branch after branch."""
    if one.site is None or other.site is None:
        return one.kind == "parameter"
    return not _are_opposite(one.site, other.site)


def _are_opposite(one: Site, other: Site) -> bool:
    """Whether two statements stand in the two branches of one ``if``."""
    ways = {guard.test: guard.positive for guard in one.guards if not guard.early}
    return any(ways.get(guard.test, guard.positive) != guard.positive for guard in other.guards if not guard.early)


def _is_settled_early(function: DeviceFunction, definition: Def) -> bool:
    """Whether a condition around a definition may be one that Python evaluates, so that Warp sees one branch."""
    guards = definition.site.guards if definition.site is not None else ()
    return any(not guard.early and _is_static(function, guard.test) for guard in guards)


def _is_static(function: DeviceFunction, test: ast.expr) -> bool:
    uses = (function.flow.uses.get(part) for part in walk(test) if isinstance(part, ast.Name))
    static = inside_static(function)
    if any(part in static for part in walk(test)):
        return True
    return not any(definition is not None and definition.kind != "free" for definition in uses)


def _differ(function: DeviceFunction, one: Def, other: Def) -> bool:
    """Whether both types are known to the last detail, and differ."""
    types = function.def_type(one), function.def_type(other)
    if not all(map(_is_plain, types)) or types[0] == types[1]:
        return False
    if _is_settled_early(function, one) or _is_settled_early(function, other):
        return False
    return all(definition.value is None or is_sure(function, definition.value) for definition in (one, other))


def _is_plain(type: Type | None) -> bool:
    match type:
        case Scalar():
            return True
        case Vector(length=int(), scalar=Scalar()) | Matrix(rows=int(), columns=int(), scalar=Scalar()):
            return True
        case Quaternion(scalar=Scalar()) | Transformation(scalar=Scalar()):
            return True
    return False

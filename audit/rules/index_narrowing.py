"""Declares the rule ``index-narrowing``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Safety, Wrap
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.types import INT32, Scalar
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Site
    from warp_audit.audit.source.symbolic import Form


class IndexNarrowing(Rule):
    """A 64-bit integer is used as an array index.

    What it finds: an index expression of type ``int64`` or ``uint64`` that no test compares with a 32-bit value.

    Why it matters: Warp takes it and cuts it to 32 bits, without a word. An offset beyond 2³¹ reads another element.

    Instead: split the offset into 32-bit coordinates of a 2-D array, or cast where the value is known to be small:
    ``int(offset)`` says that it was meant.
    """

    code = "WPA509"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1209",)
    opt_in = True
    fix_safety = Safety.UNSAFE
    BAD = (
        """
        @wp.func
        def at(x: wp.array(dtype=float), base: wp.int64, k: int):
            where = base + wp.int64(k)
            return x[where]  # error: WPA509

        @wp.kernel
        def put(x: wp.array2d(dtype=float), row: wp.array(dtype=wp.uint64)):
            i = wp.tid()
            x[row[i], 0] = 1.0  # error: WPA509
        """,
    )
    GOOD = (
        """
        @wp.func
        def at(x: wp.array(dtype=float), base: wp.int64, k: wp.uint32, limit: int, shape_ptr: wp.array[wp.uint64]):
            if base < wp.int64(limit):
                return x[base]
            mesh = x[shape_ptr[0]]
            return x[int(base)] + x[wp.int32(base)] + x[k] + mesh
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        reported: set[Form] = set()
        for access in function.accesses:
            for index in access.indices:
                if not _is_wide(function, index) or function.constant(index) is not None:
                    continue
                form = function.symbols.form(index)
                if form in reported or _is_small(function, form, access.site):
                    continue
                reported.add(form)
                text = ast.unparse(index)
                fix = self.mend("say that it is small: int(…)", Wrap(Place.of(index), "int(", ")"))
                yield self.at(
                    function,
                    access.node,
                    f"the index '{text}' is {function.type_of(index)} and is cut to 32 bits",
                    fix=fix,
                )
                break


def _is_wide(function: DeviceFunction, index: ast.expr) -> bool:
    type = function.type_of(index)
    return isinstance(type, Scalar) and type.is_integer and type.bits == 64


def _is_small(function: DeviceFunction, form: Form, site: Site) -> bool:
    """Whether a 32-bit value bounds an index, or it is a handle that stands for a small number."""
    atom = form.single()
    if atom is not None and atom[0] == "load" and "ptr" in atom[1]:
        return True
    return any(_is_short(function, bound.limit) for bound in function.symbols.upper_bounds(form, site))


def _is_short(function: DeviceFunction, limit: Form) -> bool:
    """Whether a bound is made of extents, constants and 32-bit parameters."""
    for atom in limit.atoms:
        parameter = function.by_name.get(atom[1]) if atom[0] == "parameter" else None
        if atom[0] == "shape" or (parameter is not None and parameter.type == INT32):
            continue
        return False
    return abs(limit.constant) < 2**31

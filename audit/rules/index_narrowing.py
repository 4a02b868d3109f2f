"""Declares the rule ``index-narrowing``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Safety, Wrap
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.types import Scalar
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.symbolic import Form


class IndexNarrowing(Rule):
    """A 64-bit integer is used as an array index.

    What it finds: an index expression of type ``int64`` or ``uint64``.

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
        def at(x: wp.array(dtype=float), base: wp.int64, k: wp.uint32):
            return x[int(base)] + x[wp.int32(base)] + x[k]
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        reported: set[Form] = set()
        for access in function.accesses:
            for index in access.indices:
                type = function.type_of(index)
                if isinstance(type, Scalar) and type.is_integer and type.bits == 64 and function.constant(index) is None:
                    if function.symbols.form(index) in reported:
                        continue
                    reported.add(function.symbols.form(index))
                    text = ast.unparse(index)
                    fix = self.mend("say that it is small: int(…)", Wrap(Place.of(index), "int(", ")"))
                    yield self.at(
                        function, access.node, f"the index '{text}' is {type} and is cut to 32 bits", fix=fix
                    )
                    break

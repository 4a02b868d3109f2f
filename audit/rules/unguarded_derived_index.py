"""Declares the rule ``unguarded-derived-index``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.arrays import LIKE
from warp_audit.audit.source.bounds import (
    callers,
    chosen_by_where,
    clamped,
    given,
    guards_on,
    indices,
    launch_argument,
    made_extent,
    opaque,
)
from warp_audit.audit.source.symbolic import Form
from warp_audit.audit.source.tiles import rounds_up
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction
    from warp_audit.audit.source.flow import Site
    from warp_audit.audit.source.host import HostFunction, Launch
    from warp_audit.audit.source.symbolic import Atom


class UnguardedDerivedIndex(Rule):
    """An index behind the thread's own element is used without a look at the array's length.

    What it finds: an index ``i + c`` of a thread coordinate or a loop's variable that counts to the array's end, or
    ``block * chunk`` where the launch rounds the number of blocks up; nothing compares it.

    Why it matters: the last thread reads or writes behind the end, silently; only debug mode aborts.

    Instead: test first: ``if i + 1 < a.shape[0]``.
    """

    code = "WPA207"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("NVIDIA/warp#667", "NVIDIA/nvalchemi-toolkit-ops#17")
    BAD = (
        """
        @wp.kernel
        def slope(h: wp.array2d(dtype=float), g: wp.array2d(dtype=float)):
            y, x = wp.tid()
            g[y, x] = h[y, x + 1] - h[y, x]  # error: WPA207

        @wp.kernel
        def first(a: wp.array(dtype=float), width: int, out: wp.array(dtype=float)):
            b = wp.tid()
            start = b * width
            out[b] = a[start]  # error: WPA207

        @wp.func
        def after(h: wp.array(dtype=float), i: int):
            return h[i + 1]  # error: WPA207

        @wp.kernel
        def guarded(h: wp.array(dtype=float), g: wp.array(dtype=float), n: int, shift: int):
            i = wp.tid()
            if i >= n or i == 0:
                return
            g[i] = h[i + 1] - h[i - 1]  # error: WPA207
            for k in range(h.shape[0]):
                g[i] += h[k + 1] - h[k]  # error: WPA207

        @wp.kernel
        def shifted(h: wp.array(dtype=float), g: wp.array(dtype=float), shift: int):
            i = wp.tid()
            g[i] = h[i + shift] - after(h, i)  # error: WPA207

        @wp.kernel
        def mean(a: wp.array(dtype=float), width: int, out: wp.array(dtype=float)):
            b = wp.tid()
            for k in range(width):
                out[b] += a[b * width + k]  # error: WPA207

        @wp.kernel
        def behind(h: wp.array(dtype=float), g: wp.array(dtype=float)):
            i = wp.tid()
            if i <= g.shape[0]:
                g[i] = 0.0  # error: WPA207
            h[i + 1] = 0.0  # error: WPA207

        def run(h, g, a, out, n):
            x = wp.zeros(n, dtype=float)
            wp.launch(behind, dim=n, inputs=[x, g])
            wp.launch(guarded, dim=len(h), inputs=[h, g, h.shape[0], 1])
            wp.launch(shifted, dim=len(h), inputs=[h, g, 1])
            wp.launch(mean, dim=(n + 31) // 32, inputs=[a, 32, out])
            wp.launch(slope, dim=h.shape, inputs=[h, g])
            wp.launch(first, dim=(a.shape[0] + 31) // 32, inputs=[a, 32, out])
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def slope(h: wp.array(dtype=float), g: wp.array(dtype=float)):
            i = wp.tid()
            g[i] = h[i + 1] - h[i]

        @wp.kernel
        def rows(start: wp.array(dtype=int), tri: wp.array(dtype=int), out: wp.array(dtype=int)):
            i = wp.tid()
            out[i] = start[i + 1] - start[i] + tri[3 * i + 2]

        @wp.kernel
        def guarded(h: wp.array(dtype=float), width: int):
            i = wp.tid()
            if i * width < h.shape[0]:
                h[i * width] = 0.0

        @wp.kernel
        def padded(h: wp.array2d(dtype=float), g: wp.array2d(dtype=float), n: int):
            y, x = wp.tid()
            g[y, x] = h[y + 1, x + 1]
            for k in range(n - 1):
                g[y, x] += h[y, k + 1]
            for k in range(h.shape[1] - 1):
                g[y, x] += h[y, k + 1]

        @wp.kernel
        def masked(h: wp.array(dtype=float), g: wp.array(dtype=float), inner: wp.array(dtype=bool)):
            i = wp.tid()
            if inner[i]:
                g[i] = h[i + 1]

        @wp.kernel
        def mean(a: wp.array(dtype=float), width: int, out: wp.array(dtype=float)):
            b = wp.tid()
            for k in range(width):
                out[b] += a[b * width + k]

        def blocks(h, g, h2, g2, n):
            a = wp.zeros(((n + 31) // 32) * 32, dtype=float)
            wp.launch(mean, dim=(n + 31) // 32, inputs=[a, 32, g])
            wp.launch(padded, dim=g2.shape, inputs=[h2, g2, 4])
            wp.launch(masked, dim=len(h), inputs=[h, g, g])

        def run(h, g, start, tri, out):
            wp.launch(slope, dim=h.shape[0] - 1, inputs=[h, g])
            wp.launch(rows, dim=len(out), inputs=[start, tri, out])
            wp.launch(guarded, dim=8, inputs=[h, 4])
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        reported: set[ast.stmt] = set()
        for access in function.accesses:
            if access.site.statement in reported:
                continue
            for axis, index, form in indices(function, access):
                if form.size > _LARGEST or not _passes_the_end(function, access, axis, form):
                    continue
                if access.node in chosen_by_where(function):
                    continue
                reported.add(access.site.statement)
                yield self.at(
                    function,
                    access.node,
                    f"the index '{ast.unparse(index)}' of '{access.root}' may be behind the end at last: nothing "
                    "compares it",
                    f"test it first: if {ast.unparse(index)} < {access.root}.shape[{axis}]",
                )
                break


_LARGEST = 5
"""Atoms of an index that is looked at: longer ones are offsets into tables."""


def _passes_the_end(function: DeviceFunction, access: Access, axis: int, form: Form) -> bool:
    if form.is_constant:
        return False
    if _is_offset(form):
        if not (form.constant or len(form.terms) > 1 or access.site.guards or access.site.loops):
            return False
        limits = _limits(function, form, access.site)
        if limits is None:
            return False
        if limits:
            passes = all(_is_too_far(function, access, axis, limit, strict) for limit, strict in limits)
        elif function.kind == "kernel":
            passes = _reaches(function, access.root, axis, form)
        else:
            passes = _called_to_the_end(function, access, axis, form)
        return passes and not opaque(function, form, access.site)
    return function.kind == "kernel" and _is_last_chunk(function, access, axis, form)


def _is_offset(form: Form) -> bool:
    """``i + c`` of a coordinate, a loop's variable or a parameter; ``c`` may be a parameter too."""
    kinds = sorted(str(atom[0]) for atom, coefficient in form.terms if coefficient == 1)
    if len(kinds) != len(form.terms):
        return False
    return kinds in (["tid"], ["loop"], ["parameter"], ["parameter", "tid"], ["loop", "tid"])


def _limits(function: DeviceFunction, form: Form, site: Site) -> list[tuple[Form, bool]] | None:
    """The upper bounds that conditions set to an index; ``None`` if there are some that cannot be read."""
    own = set(form.atoms)
    loops = sum(1 for atom in own if atom[0] == "loop")
    limits: list[tuple[Form, bool]] = []
    for fact in function.symbols.facts(site):
        if not own & set(fact.form.atoms):
            continue
        if fact.relation not in ("<", "<="):
            if fact.relation == "==" or fact.form.constant or len(fact.form.terms) > 1:
                return None
            continue
        if any(fact.form.coefficient(atom) < 0 for atom in own):
            continue
        limit = form.minus(fact.form)
        if not own & set(limit.atoms):
            limits.append((limit, fact.relation == "<"))
        elif not loops or len(own) == 1:
            return None
    if loops and len(own) > 1:  # `i + k`: the loop adds to the coordinate, if it counts up from zero
        starts = [bound.limit for atom in own if atom[0] == "loop"
                  for bound in function.symbols.lower_bounds(Form.of(atom), site)]  # fmt: skip
        return [] if starts == [Form()] and len(own) == 2 else None
    return limits


def _is_too_far(function: DeviceFunction, access: Access, axis: int, limit: Form, strict: bool) -> bool:
    """Whether a bound lets an index through that is not below the extent."""
    over = limit.minus(Form.of(("shape", access.root, axis)))
    if over.is_constant:
        return over.constant > 0 if strict else over.constant >= 0
    ((atom, coefficient),) = limit.terms if len(limit.terms) == 1 else (((), 0),)
    if coefficient != 1 or atom[0] != "parameter" or limit.constant <= 0 or function.kind != "kernel" or not strict:
        return False
    return any(
        argument is not None and _is_length(launch, function, access.root, axis, argument)
        for launch in function.module.launches_of(function)
        for argument in [launch_argument(launch, function, atom[1])]
    )


def _reaches(kernel: DeviceFunction, root: str, axis: int, form: Form) -> bool:
    """Whether a launch of the file takes as many threads as the array is long, which an offset then passes."""
    tid = next((atom for atom in form.atoms if atom[0] == "tid"), None)
    if tid is None or (form.constant <= 0 and len(form.terms) < 2):
        return False
    for launch in kernel.module.launches_of(kernel):
        extents = launch.extents
        if extents is None and kernel.tid_arity == 1 and launch.dim is not None and launch.rank is None:
            extents = [launch.dim]
        if extents is None:
            shape = launch.function.value_of(launch.dim) if launch.dim is not None else None
            array = launch_argument(launch, kernel, root)
            if tid[1] == axis and isinstance(shape, ast.Attribute) and shape.attr == "shape" and array is not None:
                if _is_same(launch.function, shape.value, array):
                    return True
        elif tid[1] < len(extents) and _is_length(launch, kernel, root, axis, extents[tid[1]]):
            return True
    return False


def _is_length(launch: Launch, kernel: DeviceFunction, root: str, axis: int, count: ast.expr) -> bool:
    """Whether a host expression is surely the extent of the array that a launch gives."""
    host, array = launch.function, launch_argument(launch, kernel, root)
    if array is None:
        return False
    form, name, ndim = host.symbols.form(count), host.root_name(array), kernel.by_name[root].ndim
    if name is not None and form == Form.of(("shape", name, axis)):
        return True
    if name is not None and ndim == 1 and form == Form.of(("size", name)):
        return True
    value = host.value_of(count)
    if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Attribute) and value.value.attr == "shape":
        if host.constant(value.slice) == axis and _is_same(host, value.value.value, array):
            return True
    made = made_extent(host, array, axis, ndim)
    return made is not None and made[1] is host and host.symbols.form(made[0]) == form


def _is_same(host: HostFunction, left: ast.expr, right: ast.expr) -> bool:
    """Whether two arrays are one, or were surely made with the same shape."""
    if host.root_name(left) is not None and host.root_name(left) == host.root_name(right):
        return True
    if _like(host, left, right) or _like(host, right, left):
        return True
    one, other = host.array(left), host.array(right)
    if one is None or other is None or one.shape is None or other.shape is None or one.function is not other.function:
        return False
    assert one.function is not None
    symbols = one.function.symbols
    return [symbols.form(item) for item in one.shape] == [symbols.form(item) for item in other.shape]


def _like(host: HostFunction, array: ast.expr, model: ast.expr) -> bool:
    made = host.value_of(array)
    if not isinstance(made, ast.Call) or not made.args or made not in host.flow.sites:
        return False
    root = host.root_name(model)
    return host.qualify(made.func) in LIKE and root is not None and host.root_name(made.args[0]) == root


def _called_to_the_end(function: DeviceFunction, access: Access, axis: int, form: Form) -> bool:
    """Whether a kernel of the file gives a func its coordinate, and is launched to the end of the array it gives."""
    atom = form.atoms[0]
    if len(form.terms) != 1 or atom[0] != "parameter":
        return False
    for caller, call, site in callers(function):
        index, array = given(function, call, atom[1]), given(function, call, access.root)
        if caller.kind != "kernel" or index is None or array is None:
            continue
        root, there = caller.root_name(array), caller.symbols.form(index).plus(Form(form.constant))
        if root is None or there.is_constant or not _is_offset(there) or _limits(caller, there, site) != []:
            continue
        if opaque(caller, there, site):
            continue
        if _reaches(caller, root, axis, there):
            return True
    return False


def _is_last_chunk(kernel: DeviceFunction, access: Access, axis: int, form: Form) -> bool:
    """``block * chunk``, or an element of the chunk, where the last chunk is not a whole one."""
    tid = _chunk(form)
    if tid is None or guards_on(kernel, access.site, {tid, *form.atoms}) or clamped(form):
        return False
    whole = kernel.symbols.upper_bounds(form, access.site)
    if whole and not any(atom[0] == "loop" for atom in form.atoms):
        return False
    if form.single() is not None and _minds_the_end(kernel, access.root, axis):
        return True
    for launch in kernel.module.launches_of(kernel):
        extents = launch.extents
        if extents is None or tid[1] >= len(extents) or launch.tiled:
            continue
        if rounds_up(launch.function.symbols.form(extents[tid[1]])) and not _is_padded(
            launch, kernel, access.root, axis
        ):
            return True
    return False


def _chunk(form: Form) -> Atom | None:
    """The coordinate of ``block * chunk`` and of ``block * chunk + k``, with ``k`` a loop's variable."""
    if form.constant:
        return None
    tid: Atom | None = None
    for atom, coefficient in form.terms:
        if atom[0] == "tid" and coefficient > 1 and tid is None:
            tid = atom
        elif atom[0] == "mul" and coefficient == 1 and tid is None:
            sides = [part.single() or ("",) for part in atom[2:]]
            tid = next((side for side in sides if side[0] == "tid"), None)
            if tid is None or not any(side[0] in ("parameter", "free") for side in sides):
                return None
        elif atom[0] != "loop" or coefficient != 1:
            return None
    return tid


def _is_padded(launch: Launch, kernel: DeviceFunction, root: str, axis: int) -> bool:
    """Whether the array was made with a length that was rounded up as well."""
    array = launch_argument(launch, kernel, root)
    made = made_extent(launch.function, array, axis, kernel.by_name[root].ndim) if array is not None else None
    if made is None:
        return False
    length = made[1].symbols.form(made[0])
    return any(atom[0] in ("floordiv", "mul", "call") for atom in length.all_atoms())


def _minds_the_end(kernel: DeviceFunction, root: str, axis: int) -> bool:
    """Whether a loop of the kernel ends at the array's extent: then its last block is partial."""
    extent = ("shape", root, axis)
    for loop in kernel.flow.steps:
        if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and loop.iter.args:
            if any(extent in kernel.symbols.form(argument).all_atoms() for argument in loop.iter.args):
                return True
    return False

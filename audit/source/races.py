"""Which elements the threads of one launch may share: what indices depend on, and which thread a condition picks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from warp_audit.audit.source.builtins import TILE_OPS
from warp_audit.audit.source.device import view_indices
from warp_audit.audit.source.symbolic import Form
from warp_audit.audit.source.types import Scalar
from warp_audit.audit.source.walk import children, walk

if TYPE_CHECKING:
    from warp_audit.audit.source.device import Access, DeviceFunction
    from warp_audit.audit.source.flow import Def, Site
    from warp_audit.audit.source.module import Module
    from warp_audit.audit.source.symbolic import Atom, Fact

_DEPTH = 4
_UNFOLDED = frozenset(("float", "min", "max", "clamp", "abs", "select", "where"))


@dataclass(frozen=True, slots=True)
class Dependence:
    """What a value depends on.

    Args:
        axes: thread coordinates that it depends on, in whatever way.
        own: those of which another value surely or likely gives another value here: ``2 * i + 1``, not ``table[i]``.
        quotients: those that come in by ``//`` or ``>>``.
        remainders: those that come in by ``%`` or ``&``.
        gathered: it comes from an array's element, so two threads may get the same.
        shifted: something was added to, or multiplied with, what was gathered.
        quantized: a floating-point number was made a whole one, so that near values give the same.
        parted: it comes from a loop over a range that depends on the thread.
        claimed: it comes from an atomic operation, which tells threads apart.
        unknown: it comes from something that is not followed.
    """

    axes: frozenset[int] = frozenset()
    own: frozenset[int] = frozenset()
    quotients: frozenset[int] = frozenset()
    remainders: frozenset[int] = frozenset()
    gathered: bool = False
    shifted: bool = False
    quantized: bool = False
    parted: bool = False
    claimed: bool = False
    unknown: bool = False

    def joined(self, other: Dependence) -> Dependence:
        """Of a value made of both."""
        return Dependence(
            self.axes | other.axes,
            self.own | other.own,
            self.quotients | other.quotients,
            self.remainders | other.remainders,
            self.gathered or other.gathered,
            self.shifted or other.shifted,
            self.quantized or other.quantized,
            self.parted or other.parted,
            self.claimed or other.claimed,
            self.unknown or other.unknown,
        )


NOTHING = Dependence()
_UNKNOWN = Dependence(unknown=True)


class Threads:
    """How the values of one body depend on the thread, for one way of calling it.

    Args:
        function: the body's.
        caller: the body that the call is in, if it is a func's.
        given: the call's arguments, by parameter.
        ignored: values taken to be the same for all threads.
    """

    def __init__(
        self,
        function: DeviceFunction,
        caller: Threads | None = None,
        given: dict[str, ast.expr] | None = None,
        ignored: tuple[Form, ...] = (),
    ) -> None:
        self.function = function
        self._caller = caller
        self._given = given or {}
        self._ignored = ignored
        self._arguments: dict[str, Dependence] = {}
        self._defs: dict[int, Dependence] = {}
        self._partial: dict[int, Dependence] | None = None

    def without(self, forms: tuple[Form, ...]) -> Threads:
        """The same with some values taken to be the same for all: what else does a value depend on?"""
        return Threads(self.function, self._caller, self._given, forms)

    def argument(self, name: str) -> Dependence:
        """What a parameter depends on; a kernel's are the same for all threads."""
        found = self._arguments.get(name)
        if found is None:
            given = self._given.get(name)
            known = self._caller is not None and given is not None
            found = self._arguments[name] = self._caller.of(given) if known else NOTHING  # type: ignore[union-attr, arg-type]
        return found

    def of(self, *nodes: ast.expr) -> Dependence:
        """What expressions depend on, taken together."""
        found = NOTHING
        for node in nodes:
            found = found.joined(self._of(node))
        return found

    def _of(self, node: ast.expr) -> Dependence:
        if isinstance(node, ast.Constant):
            return NOTHING
        if self._ignored and self.function.symbols.form(node) in self._ignored:
            return NOTHING
        if isinstance(node, ast.Name):
            definition = self.function.flow.uses.get(node)
            return self.of_def(definition) if definition is not None else NOTHING
        if isinstance(node, ast.BinOp):
            both = self.of(node.left, node.right)
            if isinstance(node.op, (ast.FloorDiv, ast.RShift)):
                return replace(both, own=frozenset(), quotients=both.quotients | both.own)
            if isinstance(node.op, (ast.Mod, ast.BitAnd)):
                return replace(both, own=frozenset(), remainders=both.remainders | both.own)
            return replace(both, shifted=both.gathered)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.Attribute):
            definition = self.function.flow.uses.get(node)
            if definition is not None:
                return self.of_def(definition)
            return NOTHING if node.attr == "shape" else self.of(node.value)
        if isinstance(node, ast.Compare):
            return replace(self.of(node.left, *node.comparators), own=frozenset())
        return self.of(*(child for child in children(node) if isinstance(child, ast.expr)))

    def _call(self, node: ast.Call) -> Dependence:
        name = self.function.builtin(node)
        if name == "tid":
            return Dependence(frozenset((0,)), frozenset((0,)))
        inner = self.of(*node.args, *(keyword.value for keyword in node.keywords))
        if name is None:
            known = self.function.callee(node)
            return replace(inner, unknown=True) if known is None else self._callee(known, inner)
        if name.startswith("atomic_"):
            return replace(inner, claimed=True)
        if name.startswith(("int", "uint")) and len(node.args) == 1:
            return self._whole(node.args[0], inner)
        if name in _UNFOLDED:
            return inner
        if "query" in name or name.startswith(("hash_grid", "mesh_", "bvh_")):
            return replace(inner, own=frozenset(), gathered=True)
        return inner

    def _whole(self, node: ast.expr, inner: Dependence) -> Dependence:
        """Of a number made whole: one computed from elements of arrays may come out the same for many threads."""
        type = self.function.type_of(node)
        if not inner.gathered or not isinstance(type, Scalar) or not type.name.startswith("float"):
            return inner
        return replace(inner, own=frozenset(), quantized=True)

    def _callee(self, callee: DeviceFunction, inner: Dependence) -> Dependence:
        """Of a func's result: of its arguments, if it claims nothing and asks for no thread coordinate itself."""
        claims = reads_thread = False
        for call, _ in callee.calls():
            name = callee.builtin(call)
            claims |= name is not None and name.startswith("atomic_")
            reads_thread |= name == "tid" or (name is None and callee.callee(call) is not None)
        return replace(inner, claimed=inner.claimed or claims, unknown=inner.unknown or reads_thread)

    def _subscript(self, node: ast.Subscript) -> Dependence:
        inner = self.of(node.value, *_items(node.slice))
        base: ast.expr = node
        while isinstance(base, (ast.Subscript, ast.Attribute)):
            if isinstance(base, ast.Attribute) and base.attr == "shape":
                return NOTHING
            base = base.value
            if self.function.array_type(base) is not None:
                return replace(
                    inner,
                    own=frozenset(),
                    quotients=frozenset(),
                    remainders=frozenset(),
                    gathered=True,
                    shifted=False,
                    quantized=False,
                )
        return inner

    def of_def(self, definition: Def) -> Dependence:
        """What a definition's value depends on, also by the conditions under which it is made."""
        key = id(definition)
        found = self._defs.get(key)
        if found is not None:
            return found
        if self._partial is not None:
            found = self._partial.get(key)
            if found is None:
                self._partial[key] = NOTHING  # for values that depend on themselves, around a loop
                found = self._partial[key] = self._of_def(definition)
            return found
        # What is found inside a cycle may be a part only, so just the outermost result is kept.
        self._partial = {key: NOTHING}
        self._defs[key] = found = self._of_def(definition)
        self._partial = None
        return found

    def _of_def(self, definition: Def) -> Dependence:
        kind, value = definition.kind, definition.value
        if kind == "parameter":
            return self.argument(definition.name)
        if kind == "assign" and value is not None:
            if definition.index is not None and isinstance(value, ast.Call) and self.function.builtin(value) == "tid":
                axis = frozenset((definition.index,))
                return Dependence(axis, axis)
            return self.of(value)
        if kind in ("augment", "component") and value is not None:
            before = self.of_def(definition.previous) if definition.previous is not None else NOTHING
            return before.joined(self.of(value))
        if kind == "loop" and value is not None:
            return self._loop(value)
        if kind in ("phi", "loop_phi"):
            found = NOTHING
            for source in definition.sources:
                found = found.joined(self.of_def(source))
            return found.joined(replace(self._control(definition.node), own=frozenset()))
        return _UNKNOWN if kind == "other" else NOTHING

    def _loop(self, iterable: ast.expr) -> Dependence:
        """Of what a ``for`` binds: ranges that depend on the thread are taken to part the work among threads."""
        inner = self.of(iterable)
        if isinstance(iterable, ast.Call) and self.function.builtin(iterable) == "range":
            return replace(inner, own=inner.axes, parted=bool(inner.axes))
        return replace(inner, own=frozenset(), gathered=True)

    def _control(self, node: ast.AST | None) -> Dependence:
        """Of the conditions that choose between the values that meet at a statement."""
        if isinstance(node, ast.If):
            return self.of(node.test)
        if not isinstance(node, (ast.For, ast.While)):
            return NOTHING
        results = self._partial if self._partial is not None else self._defs
        found = results.get(id(node))
        if found is None:
            results[id(node)] = NOTHING
            found = self.of(*_tests(self.function, node))
            if isinstance(node, ast.For):
                found = found.joined(self.of(node.iter))
            results[id(node)] = found
        return found


def _tests(function: DeviceFunction, node: ast.For | ast.While) -> list[ast.expr]:
    """The conditions in a loop, its own too."""
    cache: dict[ast.AST, list[ast.expr]] = function.__dict__.setdefault("_loop_tests", {})
    if node not in cache:
        cache[node] = [part.test for part in walk(node) if isinstance(part, (ast.If, ast.While))]
    return cache[node]


def _items(index: ast.expr) -> list[ast.expr]:
    if isinstance(index, ast.Slice):
        return [part for part in (index.lower, index.upper, index.step) if part is not None]
    if isinstance(index, ast.Tuple):
        return [item for part in index.elts for item in _items(part)]
    return [index]


@dataclass(frozen=True, slots=True)
class Row:
    """The part of an array that a func gets: the first indices as the kernel knows them, and what they depend on."""

    indices: tuple[Form, ...] = ()
    dependence: Dependence = NOTHING


NO_ROW = Row()


@dataclass(frozen=True, slots=True)
class Frame:
    """A body and a place in it: the access itself, or a call on the way to it."""

    threads: Threads
    site: Site


@dataclass(frozen=True, eq=False)
class Touch:
    """An access that a kernel makes to an array, itself or in a func that it calls.

    ``root`` is the array's name in the kernel; ``node`` is where to point in the kernel's file; ``frames`` are the
    calls on the way, outermost first, and the access's own place last. ``names`` and ``values`` tell what the func's
    parameters are in the kernel, ``row`` which part of the array the func got; ``pins`` are the coordinates that have
    one value in every launch.
    """

    access: Access
    root: str
    node: ast.expr
    frames: tuple[Frame, ...]
    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, Form] = field(default_factory=dict)
    row: Row = NO_ROW
    pins: frozenset[int] = frozenset()

    @property
    def threads(self) -> Threads:
        return self.frames[-1].threads

    @cached_property
    def own_indices(self) -> tuple[Form, ...]:
        """As the body that has the access knows them."""
        symbols = self.threads.function.symbols
        return tuple(symbols.form(index) for index in self.access.indices)

    @cached_property
    def indices(self) -> tuple[Form, ...]:
        """As the kernel knows them."""
        if len(self.frames) == 1:
            return self.own_indices
        return self.row.indices + tuple(_translated(form, self.names, self.values) for form in self.own_indices)

    @cached_property
    def dependence(self) -> Dependence:
        """Of the indices together."""
        return self.threads.of(*self.access.indices).joined(self.row.dependence)

    @cached_property
    def picked(self) -> Dependence:
        """``axes`` are the coordinates of which conditions let one value pass; ``claimed`` if an atomic does so."""
        found = Dependence(self.pins)
        for frame in self.frames:
            for guard in frame.site.guards:
                tested = frame.threads.of(guard.test)
                found = replace(found, claimed=found.claimed or tested.claimed)
            for fact in frame.threads.function.symbols.facts(frame.site):
                found = replace(found, axes=found.axes | _picks(fact, frame.threads))
        return found

    def shared(self, axes: frozenset[int]) -> frozenset[int]:
        """The coordinates that tell threads apart but not the elements they touch: all its values meet in one."""
        dependence, picked = self.dependence, self.picked
        if picked.claimed or dependence.claimed or dependence.unknown:
            return frozenset()
        return axes - dependence.axes - picked.axes

    def scattered(self, axes: frozenset[int]) -> bool:
        """Whether the element is chosen by a table, so that two threads may come to the same one."""
        dependence, picked = self.dependence, self.picked
        if picked.claimed or dependence.claimed or dependence.unknown or not dependence.gathered:
            return False
        return bool(axes - dependence.own - dependence.quotients - dependence.remainders - picked.axes)

    def grouped(self, axes: frozenset[int]) -> bool:
        """Whether neighbouring threads share the element: ``a[i // 4]``, without ``i % 4`` beside it."""
        dependence, picked = self.dependence, self.picked
        if picked.claimed or dependence.claimed or dependence.unknown or dependence.gathered or dependence.parted:
            return False
        either = dependence.quotients ^ dependence.remainders
        return bool(axes & either - dependence.own - picked.axes)


def _picks(fact: Fact, threads: Threads) -> frozenset[int]:
    """The thread coordinates of which a fact lets one value pass."""
    form = fact.form
    if fact.relation == "==":
        others = [atom for atom in form.atoms if not _axes_of(atom, threads)]
        found: frozenset[int] = frozenset()
        for atom in form.atoms:
            axes = _axes_of(atom, threads)
            direct = atom[0] in ("tid", "parameter", "mod", "and", "floordiv", "rshift", "loop", "def")
            if axes and (direct or others or len(form.atoms) > 1):
                found |= axes
        return found
    if fact.relation in ("<", "<=") and len(form.atoms) == 1:
        (atom,) = form.atoms
        limit = -form.constant + (0 if fact.relation == "<=" else -1)
        if atom[0] in ("tid", "parameter") and form.coefficient(atom) == 1 and limit <= 0:
            return _axes_of(atom, threads)
    return frozenset()


def _axes_of(atom: Atom, threads: Threads) -> frozenset[int]:
    """The thread coordinates in an atom."""
    if atom[0] == "tid":
        return frozenset((atom[1],))
    if atom[0] == "parameter":
        return threads.argument(atom[1]).axes
    if atom[0] in ("loop", "def"):
        for definition in threads.function.flow.defs:
            if id(definition) == atom[1]:
                return threads.of_def(definition).axes
    found: frozenset[int] = frozenset()
    for part in atom[1:]:
        if hasattr(part, "atoms"):
            for inner in part.atoms:
                found |= _axes_of(inner, threads)
    return found


def touches(kernel: DeviceFunction) -> list[Touch]:
    """Every access to an array that a kernel makes, in the order of execution, those of its funcs included."""
    found: list[Touch] | None = kernel.__dict__.get("_touches")
    if found is None:
        pins = _single(kernel)
        found = [replace(touch, pins=pins) for touch in _touches(_Way(Threads(kernel)), kernel.module)]
        kernel.__dict__["_touches"] = found
    return found


@dataclass(frozen=True, slots=True)
class _Way:
    """How a body was come to from a kernel."""

    threads: Threads
    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, Form] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    frames: tuple[Frame, ...] = ()
    call: ast.expr | None = None


def _touches(way: _Way, module: Module) -> list[Touch]:
    threads = way.threads
    function = threads.function
    found: list[tuple[int, Touch]] = []
    for access in function.accesses:
        root = _outer(access.root, way.names, not way.frames)
        if root is not None:
            node = access.node if function.module is module or way.call is None else way.call
            frames = (*way.frames, Frame(threads, access.site))
            row = way.rows.get(access.root.partition(".")[0], NO_ROW)
            found.append((access.site.order, Touch(access, root, node, frames, way.names, way.values, row)))
    if len(way.frames) < _DEPTH:
        for call, site in function.calls():
            callee = function.callee(call) if function.builtin(call) is None else None
            if callee is not None and callee is not function and callee.effects:
                inner = _into(way, call, callee, site)
                if any(root.partition(".")[0] in inner.names for root in callee.effects):
                    found += [(site.order, touch) for touch in _touches(inner, module)]
    return [touch for _, touch in sorted(found, key=lambda pair: pair[0])]


def _into(way: _Way, call: ast.Call, callee: DeviceFunction, site: Site) -> _Way:
    threads = way.threads
    function = threads.function
    given = {p.name: a for p, a in zip(callee.parameters, call.args, strict=False)}
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    names: dict[str, str] = {}
    rows: dict[str, Row] = {}
    for name, argument in given.items():
        root = function.root_name(argument)
        outer = _outer(root, way.names, not way.frames) if root is not None else None
        if root is not None and outer is not None:
            names[name] = outer
            rows[name] = _row(way, root, argument)
    return _Way(
        Threads(callee, threads, given),
        names,
        {name: _translated(function.symbols.form(a), way.names, way.values) for name, a in given.items()},
        rows,
        (*way.frames, Frame(threads, site)),
        way.call or call,
    )


def _row(way: _Way, root: str, argument: ast.expr) -> Row:
    outer = way.rows.get(root.partition(".")[0], NO_ROW)
    function = way.threads.function
    indices = view_indices(function, argument)
    if not indices:
        return outer
    forms = tuple(_translated(function.symbols.form(index), way.names, way.values) for index in indices)
    return Row(outer.indices + forms, outer.dependence.joined(way.threads.of(*indices)))


def _translated(form: Form, names: dict[str, str], values: dict[str, Form]) -> Form:
    """A func's value as the kernel knows it: parameters are replaced by what was given for them."""
    found = Form(form.constant)
    for atom, times in form.terms:
        if atom[0] == "parameter" and atom[1] in values:
            found = found.plus(values[atom[1]], times)
            continue
        parts = [_translated(part, names, values) if isinstance(part, Form) else part for part in atom[1:]]
        if parts and isinstance(parts[0], str):
            head, dot, field_name = parts[0].partition(".")
            parts[0] = names.get(head, head) + dot + field_name
        found = found.plus(Form.of((atom[0], *parts)), times)
    return found


def _outer(root: str, names: dict[str, str], outermost: bool) -> str | None:
    """The kernel's name of an array that a func knows as ``root``."""
    if outermost:
        return root
    head, dot, field_name = root.partition(".")
    outer = names.get(head)
    return outer + dot + field_name if outer is not None else None


def axes_of(kernel: DeviceFunction) -> frozenset[int]:
    """The thread coordinates that tell the threads of a kernel apart; -1 stands for one that it does not read."""
    arity = kernel.tid_arity
    if arity is not None:
        return frozenset(range(arity))
    launches = kernel.module.launches_of(kernel)
    several = launches and all(
        not (launch.extents and all(launch.function.constant(extent) == 1 for extent in launch.extents))
        for launch in launches
    )
    reads = any(touch.threads.function.tid_arity for touch in touches(kernel))
    return frozenset((-1,)) if several and not reads else frozenset()


def _single(kernel: DeviceFunction) -> frozenset[int]:
    """The coordinates with one value in every launch of the file, and those named as not used."""
    one: frozenset[int] | None = None
    many: frozenset[int] = frozenset()
    for launch in kernel.module.launches_of(kernel):
        known = [launch.function.constant(extent) for extent in launch.extents or []]
        ones = frozenset(axis for axis, extent in enumerate(known) if extent == 1)
        many |= frozenset(axis for axis, extent in enumerate(known) if isinstance(extent, int) and extent > 1)
        if known and len(ones) == len(known):
            ones |= frozenset(range(len(known), 4))
        one = ones if one is None else one & ones
    return (one or frozenset()) | (_left_out(kernel) - many)


def coordinates(kernel: DeviceFunction) -> dict[int, Def]:
    """What ``i, j = wp.tid()`` binds, by axis."""
    found: dict[int, Def] = {}
    for definition in kernel.flow.defs:
        value = definition.value
        if definition.kind == "assign" and isinstance(value, ast.Call) and kernel.builtin(value) == "tid":
            found.setdefault(definition.index or 0, definition)
    return found


def _left_out(kernel: DeviceFunction) -> frozenset[int]:
    """The coordinates whose names start with an underscore."""
    return frozenset(axis for axis, one in coordinates(kernel).items() if one.name.startswith("_"))


def orders_itself(kernel: DeviceFunction) -> bool:
    """Whether elements belong to more than a thread: to a block that works together, or to who holds a lock."""
    known: bool | None = kernel.__dict__.get("_orders_itself")
    if known is None:
        tiled = any(launch.tiled for launch in kernel.module.launches_of(kernel))
        known = kernel.__dict__["_orders_itself"] = tiled or _synchronizes(kernel, 0) or _locks(kernel)
    return known


def _synchronizes(function: DeviceFunction, depth: int) -> bool:
    """Whether it, or a func it calls, has tile operations or native code with a barrier."""
    for call, _ in function.calls():
        name = function.builtin(call)
        if name is not None:
            if name in TILE_OPS:
                return True
            continue
        callee = function.callee(call)
        if callee is None or callee is function:
            continue
        if callee.kind == "native":
            snippet = (
                callee.decorator.args[0] if isinstance(callee.decorator, ast.Call) and callee.decorator.args else None
            )
            text = callee.constant(snippet)
            if not isinstance(text, str) or "sync" in text:
                return True
        elif depth < _DEPTH and _synchronizes(callee, depth + 1):
            return True
    return False


def _locks(kernel: DeviceFunction) -> bool:
    """Whether threads wait for each other in a loop around an exchange."""
    return any(
        touch.access.builtin in ("atomic_cas", "atomic_exch")
        and any(isinstance(loop.node, ast.While) for frame in touch.frames for loop in frame.site.loops)
        for touch in touches(kernel)
    )


def may_meet(one: Touch, other: Touch) -> bool:
    """Whether two accesses can be to one element: not if a constant tells their indices apart."""
    for left, right in zip(one.indices, other.indices, strict=False):
        difference = left.minus(right)
        if difference.is_constant and difference.constant != 0 and not _varies(left):
            return False
        if _apart(left, right):
            return False
    return True


def _varies(form: Form) -> bool:
    return any(form.mentions(kind) for kind in ("tid", "loop", "def", "load", "call", "parameter", "value"))


def _apart(left: Form, right: Form) -> bool:
    """Whether two indices have the same coefficients of the threads' coordinates, and a shift none of them bridges."""
    difference = left.minus(right)
    if not difference.is_constant or difference.constant == 0 or not left.terms:
        return False
    steps = [abs(coefficient) for _, coefficient in left.terms]
    return all(isinstance(step, int) and step > 1 and difference.constant % step for step in steps)


def exclusive(one: Touch, other: Touch) -> bool:
    """Whether no launch has both accesses: a condition that is the same for all threads chooses between them."""
    for frame in one.frames:
        for guard in frame.site.guards:
            if frame.threads.of(guard.test).axes or frame.threads.of(guard.test).gathered:
                continue
            for other_frame in other.frames:
                for against in other_frame.site.guards:
                    if guard.test is against.test and guard.positive != against.positive:
                        return True
    return _contradict(one, other)


def _contradict(one: Touch, other: Touch) -> bool:
    """Whether facts about launch parameters exclude each other: ``mode == 0`` and ``mode == 1``."""
    for fact in _uniform_facts(one):
        for against in _uniform_facts(other):
            difference = fact.form.minus(against.form)
            if fact.relation == against.relation == "==" and difference.is_constant and difference.constant != 0:
                return True
            if {fact.relation, against.relation} == {"==", "!="} and difference == Form():
                return True
    return False


def _uniform_facts(touch: Touch) -> Iterator[Fact]:
    for frame in touch.frames:
        for fact in frame.threads.function.symbols.facts(frame.site):
            if fact.form.terms and all(atom[0] in ("parameter", "free") for atom in fact.form.atoms):
                if not any(_axes_of(atom, frame.threads) for atom in fact.form.atoms):
                    yield fact


def own_read(touch: Touch) -> ast.expr | None:
    """A read of the stored element that the stored value is made from: ``a[k] = a[k] + v``, also by way of locals."""
    value = touch.access.value
    if value is None:
        return None
    function = touch.threads.function
    reads = {access.node: access for access in function.accesses if access.reads and access.root == touch.access.root}
    if not reads:
        return None
    stack: list[ast.AST] = [value]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        access = reads.get(node)  # type: ignore[call-overload]
        if access is not None and tuple(function.symbols.form(index) for index in access.indices) == touch.own_indices:
            return node  # type: ignore[return-value]
        definition = function.flow.uses.get(node) if isinstance(node, ast.Name) else None
        if definition is not None and id(definition) not in seen:
            seen.add(id(definition))
            if definition.kind in ("assign", "augment") and definition.value is not None:
                stack.append(definition.value)
            if definition.kind == "augment" and definition.previous is not None:
                stack += _values(definition.previous)
        stack += children(node)
    return None


def _values(definition: Def) -> list[ast.AST]:
    return [one.value for one in definition.origins() if one.kind == "assign" and one.value is not None]

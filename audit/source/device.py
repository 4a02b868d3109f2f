"""Kernels and ``@wp.func``: their parameters, their body's flow, and what they do to arrays."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from warp_audit.audit.source import infer
from warp_audit.audit.source.annotations import annotation_type, is_generic
from warp_audit.audit.source.builtins import WRITES
from warp_audit.audit.source.constants import constant
from warp_audit.audit.source.flow import Def, Flow, Guard, Loop, Site
from warp_audit.audit.source.symbolic import Symbols
from warp_audit.audit.source.types import Array, StructType, Tile, Type
from warp_audit.audit.source.walk import children

if TYPE_CHECKING:
    from collections.abc import Iterator

    from warp_audit.audit.source.constants import Constant
    from warp_audit.audit.source.module import Module
    from warp_audit.audit.source.scopes import Scope

_ATOMIC_AUGMENTS = (ast.Add, ast.Sub, ast.BitAnd, ast.BitOr, ast.BitXor)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel or func."""

    name: str
    index: int
    node: ast.arg
    type: Type | None
    generic: bool
    default: ast.expr | None

    @property
    def is_array(self) -> bool:
        return isinstance(self.type, Array)

    @property
    def ndim(self) -> int | None:
        return self.type.ndim if isinstance(self.type, Array) else None


@dataclass(slots=True, eq=False)
class Access:
    """One access to an array's element, in the order of execution.

    ``root`` names the array: a parameter, ``struct.field``, or a name from outside; ``what`` is ``read``, ``write``,
    ``atomic`` (an atomic builtin), ``augment`` (``a[i] += v``: atomic too, for the operators that have an atomic
    form) or ``update`` (``a[i] *= v``: read, then written). ``component`` tells a store to part of an element.
    ``node`` is the subscript, or the call of an atomic builtin.
    """

    root: str
    what: str
    indices: tuple[ast.expr, ...]
    node: ast.expr
    site: Site
    type: Array
    component: bool = False
    value: ast.expr | None = None
    builtin: str | None = None

    @property
    def reads(self) -> bool:
        return self.what in ("read", "update")

    @property
    def writes(self) -> bool:
        return self.what in ("write", "update")

    @property
    def atomic(self) -> bool:
        return self.what in ("atomic", "augment")


@dataclass(slots=True)
class Effect:
    """What a function, with all it calls, does to one array parameter."""

    reads: bool = False
    writes: bool = False
    atomics: bool = False
    component_stores: bool = False
    where: list[Access] = field(default_factory=list)
    """The accesses in the function itself."""

    @property
    def changes(self) -> bool:
        return self.writes or self.atomics


class DeviceFunction:
    """A kernel or func, as its text declares it.

    ``kind`` is ``kernel``, ``func``, ``grad``, ``replay``, ``native`` (its text is C++) or ``integrand`` (of
    ``warp.fem``).
    """

    def __init__(
        self,
        module: Module,
        scope: Scope,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        kind: str,
        decorator: ast.expr | None,
    ) -> None:
        self.module = module
        self.scope = scope
        """The scope around it."""
        self.node = node
        self.kind = kind
        self.decorator = decorator
        self.name = node.name

    def __repr__(self) -> str:
        return f"<{self.kind} {self.qualified}>"

    @property
    def qualified(self) -> str:
        return self.name if self.scope.kind == "module" else f"{self.scope.qualified}.{self.name}"

    @cached_property
    def options(self) -> dict[str, ast.expr]:
        """The decorator's keyword arguments."""
        if isinstance(self.decorator, ast.Call):
            return {keyword.arg: keyword.value for keyword in self.decorator.keywords if keyword.arg}
        return {}

    @cached_property
    def overloads(self) -> tuple[DeviceFunction, ...]:
        """The funcs of the same name in the same scope, this one among them: Warp chooses by the arguments' types."""
        bindings = self.scope.bindings.get(self.name, ())
        found = (self.module.device_of(binding.node) for binding in bindings if binding.kind == "function")
        return tuple(one for one in found if one is not None) or (self,)

    @cached_property
    def is_method(self) -> bool:
        return self.scope.kind == "class"

    @cached_property
    def parameters(self) -> list[Parameter]:
        arguments = self.node.args
        nodes = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(nodes) - len(arguments.defaults)) + list(arguments.defaults)
        return [
            Parameter(
                node.arg, index, node, annotation_type(node.annotation, self.scope),
                is_generic(node.annotation, self.scope), default,
            )
            for index, (node, default) in enumerate(zip(nodes, defaults, strict=True))
        ]  # fmt: skip

    @cached_property
    def by_name(self) -> dict[str, Parameter]:
        return {parameter.name: parameter for parameter in self.parameters}

    @cached_property
    def flow(self) -> Flow:
        arguments = self.node.args
        nodes = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        nodes += filter(None, (arguments.vararg, arguments.kwarg))
        body = [] if self.kind == "native" else self.node.body
        return Flow(body, {node.arg: node for node in nodes}, self._composite)

    def _composite(self, definition: Def) -> bool:
        """Whether a component store changes the local value, as for vectors; arrays and tiles are written through."""
        if definition.kind == "parameter":
            parameter = self.by_name.get(definition.name)
            return (
                parameter is not None and parameter.type is not None and not isinstance(parameter.type, (Array, Tile))
            )
        if definition.kind == "component":
            return True
        if definition.kind in ("phi", "loop_phi"):
            return any(self._composite(one) for one in definition.origins())
        if definition.value is None or definition.kind not in ("assign", "augment"):
            return False
        if isinstance(definition.value, ast.Call):
            name = self.builtin(definition.value)
            if name is not None and name.startswith("tile"):
                return False
        # An assignment from a subscript may be a row of an array: a view; an element otherwise.
        if isinstance(definition.value, ast.Subscript):
            root, indices = split_subscript(definition.value)
            if isinstance(root, ast.Name) and root.id in self.by_name:
                known = self.by_name[root.id].type
                return not isinstance(known, Array) or known.ndim is None or len(indices) >= known.ndim
        return True

    @cached_property
    def symbols(self) -> Symbols:
        """Values of expressions in a form that can be compared."""
        return Symbols(self)

    def type_of(self, node: ast.expr) -> Type | None:
        """The type of an expression of the body."""
        return infer.type_of(self, node)

    def def_type(self, definition: Def) -> Type | None:
        return infer.def_type(self, definition)

    def constant(self, node: ast.expr | None) -> Constant | None:
        """The value of an expression whose names come from outside; a local name is none."""
        if node is None:
            return None
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, (int, float, str)) else None
        found = self._constants.get(node, self)
        if found is self:
            found = self._constants[node] = None if self._has_local(node) else constant(node, self.scope)
        return found  # type: ignore[return-value]

    @cached_property
    def _constants(self) -> dict[ast.expr, object]:
        return {}

    def _has_local(self, node: ast.AST) -> bool:
        """Whether an expression reads a local name."""
        if isinstance(node, ast.Name):
            definition = self.flow.uses.get(node)
            return definition is not None and definition.kind != "free"
        if isinstance(node, ast.Attribute):
            return self._has_local(node.value)
        return any(self._has_local(child) for child in children(node))

    def qualify(self, node: ast.expr) -> str | None:
        """The qualified name of an expression of the body; local names have none."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name):
            definition = self.flow.uses.get(root)
            if definition is not None and definition.kind != "free":
                return None
        return self.module.qualified(node, self.scope)

    def builtin(self, call: ast.Call) -> str | None:
        """The name of the Warp builtin that a call is of: ``atomic_add``; Python's own count as Warp's."""
        if call not in self._builtins:
            self._builtins[call] = self._builtin(call)
        return self._builtins[call]

    @cached_property
    def _builtins(self) -> dict[ast.Call, str | None]:
        return {}

    def _builtin(self, call: ast.Call) -> str | None:
        name = self.module.qualified(call.func, self.scope)
        if name is None:
            return None
        if name.startswith("warp."):
            short = name[5:]
            return short if "." not in short else None
        if name.startswith("builtins."):
            short = name[9:]
            return short if short in _PYTHON_BUILTINS else None
        return None

    def callee(self, call: ast.Call) -> DeviceFunction | None:
        """The func that a call is of, here or in another file."""
        function = call.func
        if isinstance(function, ast.Name):
            found = self.scope.lookup(function.id)
            if found is not None and found[1][-1].kind == "function":
                return self.module.device_of(found[1][-1].node)
        name = self.module.qualified(function, self.scope)
        if name is None or name.startswith(("builtins.", "numpy.", "math.")):
            return None
        if name.startswith("warp.") and "." not in name[5:]:
            return None
        return self.module.project.device_function(name, self.module)

    def calls(self) -> Iterator[tuple[ast.Call, Site]]:
        """Every call of the body that can be reached."""
        for node in self.flow.of(ast.Call):
            yield node, self.flow.sites[node]  # type: ignore[misc]

    @cached_property
    def tid_arity(self) -> int | None:
        """How many thread coordinates the kernel reads; ``None`` if it reads none."""
        largest: int | None = None
        for node in self.flow.of(ast.Call):
            if self.builtin(node) != "tid":  # type: ignore[arg-type]
                continue
            count = 1
            statement = self.flow.sites[node].statement
            if isinstance(statement, ast.Assign) and statement.value is node:
                target = statement.targets[0]
                if isinstance(target, (ast.Tuple, ast.List)):
                    count = len(target.elts)
            largest = max(largest or 0, count)
        return largest

    @cached_property
    def enable_backward(self) -> bool:
        """Whether backward code is made, as far as the decorator and the module's options say."""
        option = self.options.get("enable_backward")
        if option is not None:
            return constant(option, self.scope) is not False
        own = self.options.get("module_options")
        if own is not None and _dictionary_says_false(own, "enable_backward", self.scope):
            return False
        return not self.module_disables_backward

    @property
    def module_disables_backward(self) -> bool:
        """Whether the file turns backward code off by ``wp.set_module_options`` or ``wp.config``."""
        return _backward_disabled(self.module)

    @cached_property
    def accesses(self) -> list[Access]:
        """Every access to an array's element, in the order of execution."""
        return sorted(_accesses(self), key=lambda access: access.site.order)

    @cached_property
    def effects(self) -> dict[str, Effect]:
        """What the function does to each array, by root; the effects of funcs it calls are folded in."""
        return _effects(self)

    def array_type(self, node: ast.expr) -> Array | None:
        """The array that an expression is, if it is one."""
        type = self.type_of(node)
        return type if isinstance(type, Array) else None

    def root_name(self, node: ast.expr) -> str | None:
        """The name an array goes by: a parameter, ``struct.field``, or a name from outside; aliases are followed."""
        if isinstance(node, ast.Name):
            definition = _settled(self.flow.uses.get(node))
            if definition is not None and definition.kind == "assign" and definition.index is None:
                value = definition.value
                if isinstance(value, (ast.Name, ast.Attribute)):
                    return self.root_name(value)
                if isinstance(value, ast.Subscript) and self.array_type(value) is not None:
                    return self.root_name(value)  # `row = grid[i]` is a view
                return None
            return node.id
        if isinstance(node, ast.Attribute):
            base = self.root_name(node.value)
            return f"{base}.{node.attr}" if base else None
        if isinstance(node, ast.Subscript):  # a row of an array is a view of it
            return self.root_name(node.value)
        return None


_PYTHON_BUILTINS = {"int", "float", "bool", "abs", "min", "max", "pow", "round", "range", "print", "len", "type", "str"}


def split_subscript(node: ast.expr) -> tuple[ast.expr, tuple[ast.expr, ...]]:
    """The base of nested subscripts and all indices, outermost base first: ``a[i][j, k]`` is ``a``, ``(i, j, k)``."""
    indices: list[ast.expr] = []
    while isinstance(node, ast.Subscript):
        inner = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        indices = inner + indices
        node = node.value
    return node, tuple(indices)


def through_array(function: DeviceFunction, target: ast.AST) -> bool:
    """Whether a store goes through an array or tile on its way: ``s.values[i] = x`` does, though ``s`` is a copy."""
    node: ast.AST = target
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
        if isinstance(node, ast.expr) and isinstance(function.type_of(node), (Array, Tile)):
            return True
    return False


def store_bases(function: DeviceFunction) -> set[ast.AST]:
    """The names that component stores start from: reading them there is no use of the value."""
    found: set[ast.AST] = set()
    for definition in function.flow.defs:
        node = definition.node if definition.kind == "component" else None
        while isinstance(node, (ast.Subscript, ast.Attribute)):
            node = node.value
        if node is not None:
            found.add(node)
    return found


def _accesses(function: DeviceFunction) -> Iterator[Access]:
    flow = function.flow
    nodes: list[ast.Subscript] = flow.of(ast.Subscript)  # type: ignore[assignment]
    bases = {node.value for node in nodes if isinstance(node.value, ast.Subscript)}
    stores = _store_targets(flow)
    typed = {node.args[0] for node, _ in function.calls() if node.args and function.builtin(node) == "type"}
    for node in nodes:
        if node in typed:  # `type(a[0])` asks for the type and reads nothing
            continue
        base, indices = split_subscript(node)
        view = function.array_type(base)
        if view is None:
            continue
        ndim = view.ndim
        if ndim is None:
            if node in bases:
                continue
        elif len(indices) < ndim or len(split_subscript(node.value)[1]) >= ndim:
            continue  # a row, which is a view, or a component of an element that an inner subscript names
        root = function.root_name(base)
        if root is None or any(isinstance(index, ast.Slice) for index in indices):
            continue
        site = flow.sites[node]
        array, rows = _rows(function, base, view)
        element, extra = rows + indices[:ndim], len(indices) > (ndim or len(indices))
        target = stores.get(node)
        if target is None:
            yield Access(root, "read", element, node, site, array)
            continue
        statement = site.statement
        if isinstance(statement, ast.AugAssign):
            what = "augment" if isinstance(statement.op, _ATOMIC_AUGMENTS) else "update"
        else:
            what = "write"
        value = getattr(statement, "value", None)
        yield Access(root, what, element, node, site, array, extra or target is not node, value)
    yield from _builtin_accesses(function)


def _settled(definition: Def | None) -> Def | None:
    """The one definition behind phis: a loop that stores through a view of an array keeps the view."""
    if definition is not None and definition.kind in ("phi", "loop_phi"):
        origins = definition.origins()
        return origins[0] if len(origins) == 1 else definition
    return definition


def _rows(function: DeviceFunction, base: ast.expr, view: Array) -> tuple[Array, tuple[ast.expr, ...]]:
    """The array behind a view, and the indices that made the view: ``row = grid[i]`` gives ``grid`` and ``(i,)``."""
    definition = _settled(function.flow.uses.get(base))
    if definition is None or definition.kind != "assign" or definition.index is not None:
        return view, ()
    value = definition.value
    if isinstance(value, ast.Name):
        return _rows(function, value, view)
    if not isinstance(value, ast.Subscript):
        return view, ()
    inner, indices = split_subscript(value)
    array = function.array_type(inner)
    if array is None or any(isinstance(index, ast.Slice) for index in indices):
        return view, ()
    whole, before = _rows(function, inner, array)
    return whole, before + indices


def view_indices(function: DeviceFunction, node: ast.expr) -> tuple[ast.expr, ...]:
    """The indices that make an expression a view of an array: ``(i,)`` of ``grid[i]``; none of an array itself."""
    base, indices = split_subscript(node)
    array = function.array_type(base)
    if array is None or any(isinstance(index, ast.Slice) for index in indices):
        return ()
    return _rows(function, base, array)[1] + indices


def _store_targets(flow: Flow) -> dict[ast.AST, ast.AST]:
    """Each node that a store goes through, the target itself included, and the target."""
    through: dict[ast.AST, ast.AST] = {}
    for statement in flow.steps:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
            targets = [statement.target]
        for target in targets:
            for one in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
                node: ast.AST = one
                while isinstance(node, (ast.Attribute, ast.Subscript)):
                    through.setdefault(node, one)
                    node = node.value
    return through


def _builtin_accesses(function: DeviceFunction) -> Iterator[Access]:
    for call, site in function.calls():
        name = function.builtin(call)
        if name is None or not name.startswith("atomic_") or not call.args:
            continue
        array = function.array_type(call.args[0])
        root = function.root_name(call.args[0])
        if array is None or root is None:
            continue
        values = 2 if name == "atomic_cas" else 1
        base, rows = split_subscript(call.args[0])
        array, before = _rows(function, base, function.array_type(base) or array)
        indices = (*before, *rows, *call.args[1 : len(call.args) - values])
        given = call.args[-1] if len(call.args) > 2 else None
        if array.ndim is not None and len(indices) > array.ndim:
            indices = indices[: array.ndim]
        yield Access(root, "atomic", indices, call, site, array, value=given, builtin=name)


def _effects(function: DeviceFunction, seen: tuple[DeviceFunction, ...] = ()) -> dict[str, Effect]:
    found: dict[str, Effect] = {}

    def of(root: str) -> Effect:
        return found.setdefault(root, Effect())

    for access in function.accesses:
        effect = of(access.root)
        effect.reads |= access.reads
        effect.writes |= access.writes
        effect.atomics |= access.atomic
        effect.component_stores |= access.component
        effect.where.append(access)
    for call, _ in function.calls():
        name = function.builtin(call)
        if name is not None:
            if name.startswith("atomic_"):
                continue
            written = WRITES.get(name, ())
            for index, argument in enumerate(call.args):
                if function.array_type(argument) is None:
                    continue
                root = function.root_name(argument)
                if root is None:
                    continue
                if index in written:
                    of(root).writes = True
                elif name.startswith("tile_load") or name not in ("len", "type"):
                    of(root).reads = True
            continue
        callee = function.callee(call)
        if callee is None or callee in seen or callee is function or len(seen) > 12:
            continue
        inner = callee.effects if not seen else _effects(callee, (*seen, function))
        for parameter, argument in zip(callee.parameters, call.args, strict=False):
            root = function.root_name(argument)
            if root is None:
                continue
            for name_inside, effect in inner.items():
                if name_inside == parameter.name or name_inside.startswith(parameter.name + "."):
                    mine = of(root + name_inside[len(parameter.name) :])
                    mine.reads |= effect.reads
                    mine.writes |= effect.writes
                    mine.atomics |= effect.atomics
                    mine.component_stores |= effect.component_stores
    return found


def _dictionary_says_false(node: ast.expr, key: str, scope: Scope) -> bool:
    if isinstance(node, ast.Name):
        found = scope.lookup(node.id)
        if found is None or found[1][-1].value is None:
            return False
        node, scope = found[1][-1].value, found[0]
    if not isinstance(node, ast.Dict):
        return False
    return any(
        isinstance(k, ast.Constant) and k.value == key and constant(v, scope) is False
        for k, v in zip(node.keys, node.values, strict=True)
    )


def _backward_disabled(module: Module) -> bool:
    cached = module.__dict__.get("_backward_disabled")
    if cached is None:
        cached = False
        for statement in module.tree.body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                call = statement.value
                if module.qualified(call.func, module.scope) == "warp.set_module_options" and call.args:
                    cached |= _dictionary_says_false(call.args[0], "enable_backward", module.scope)
            elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Attribute):
                name = module.qualified(statement.targets[0], module.scope)
                if name == "warp.config.enable_backward" and constant(statement.value, module.scope) is False:
                    first = min((f.node.lineno for f in module.device_functions), default=0)
                    cached |= statement.lineno < first
        module.__dict__["_backward_disabled"] = cached
    return bool(cached)


__all__ = ["Access", "Def", "DeviceFunction", "Effect", "Guard", "Loop", "Parameter", "Site", "StructType"]

"""Python code around kernels: calls of Warp, launches, arrays, tapes, captures."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from warp_audit.audit.source import reach
from warp_audit.audit.source.arrays import ArrayFact, array_of, rank_of
from warp_audit.audit.source.constants import constant
from warp_audit.audit.source.flow import Def, Flow, Site
from warp_audit.audit.source.scopes import dotted
from warp_audit.audit.source.symbolic import Symbols
from warp_audit.audit.source.types import Array, Type
from warp_audit.audit.source.walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from warp_audit.audit.source.constants import Constant
    from warp_audit.audit.source.device import DeviceFunction, Parameter
    from warp_audit.audit.source.module import Module
    from warp_audit.audit.source.scopes import Scope

# Positional parameters of the calls that start kernels.
_LAUNCH = (
    "kernel", "dim", "inputs", "outputs", "adj_inputs", "adj_outputs", "device", "stream", "adjoint", "record_tape",
    "record_cmd", "max_blocks", "block_dim",
)  # fmt: skip


@dataclass(slots=True, eq=False)
class HostCall:
    """A call in host code.

    ``name`` is the qualified name, ``warp.zeros``; of a method of a value it is ``.name`` with ``receiver`` its object.
    """

    node: ast.Call
    name: str
    site: Site
    receiver: ast.expr | None = None

    def argument(self, word: str, place: int | None = None) -> ast.expr | None:
        """An argument by keyword or place."""
        for keyword in self.node.keywords:
            if keyword.arg == word:
                return keyword.value
        if place is not None and place < len(self.node.args):
            given = self.node.args[: place + 1]
            if not any(isinstance(argument, ast.Starred) for argument in given):
                return given[place]
        return None


class HostFunction:
    """A Python function or a file's top level."""

    def __init__(self, module: Module, scope: Scope) -> None:
        self.module = module
        self.scope = scope
        self.name = scope.qualified if scope.kind != "module" else "<module>"
        self._outside: dict[str, bool] = {}

    def __repr__(self) -> str:
        return f"<host {self.name}>"

    @property
    def node(self) -> ast.AST:
        return self.scope.node

    @property
    def body(self) -> list[ast.stmt]:
        node = self.scope.node
        if isinstance(node, ast.Lambda):
            return [ast.copy_location(ast.Return(node.body), node.body)]
        return node.body  # type: ignore[attr-defined, no-any-return]

    @cached_property
    def text(self) -> str:
        """Its lines as they stand: a quick way to see that a rule has nothing to do here."""
        node = self.scope.node
        if isinstance(node, ast.Module):
            return self.module.text
        return "\n".join(self.module.lines[node.lineno - 1 : node.end_lineno])  # type: ignore[attr-defined]

    @property
    def parameters(self) -> list[ast.arg]:
        arguments = getattr(self.scope.node, "args", None)
        return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs] if arguments is not None else []

    @cached_property
    def flow(self) -> Flow:
        arguments = getattr(self.scope.node, "args", None)
        extra = [a for a in (arguments.vararg, arguments.kwarg) if a is not None] if arguments is not None else []
        return Flow(self.body, {node.arg: node for node in (*self.parameters, *extra)})

    @cached_property
    def symbols(self) -> Symbols:
        """Values of expressions in a form that can be compared."""
        return Symbols(self)

    @property
    def class_scope(self) -> Scope | None:
        """The class whose method this is."""
        return reach.class_around(self.scope)

    # What Symbols asks

    def constant(self, node: ast.expr | None) -> Constant | None:
        """The value of an expression; local names are followed where they have one value."""
        if node is None:
            return None
        if isinstance(node, ast.Name):
            definition = self.flow.uses.get(node)
            if definition is not None and definition.kind != "free":
                if definition.kind == "assign" and definition.index is None and definition.value is not node:
                    return self.constant(definition.value)
                return None
        if isinstance(node, (ast.BinOp, ast.Tuple, ast.List)):
            for part in walk(node):
                if isinstance(part, ast.Name):
                    definition = self.flow.uses.get(part)
                    if definition is not None and definition.kind != "free":
                        return self._local_constant(node)
        return constant(node, self.scope)

    def _local_constant(self, node: ast.expr) -> Constant | None:
        if isinstance(node, ast.BinOp):
            left, right = self.constant(node.left), self.constant(node.right)
            if isinstance(left, (int, float)) and isinstance(right, (int, float)):
                made = ast.BinOp(ast.Constant(left), node.op, ast.Constant(right))
                return constant(made, self.scope)
            return None
        items = [self.constant(item) for item in node.elts]  # type: ignore[attr-defined]
        return None if any(item is None for item in items) else tuple(items)  # type: ignore[arg-type]

    def builtin(self, call: ast.Call) -> str | None:
        name = self.module.qualified(call.func, self.scope)
        if name is not None and name.startswith("builtins.") and "." not in name[9:]:
            return name[9:]
        return None

    def root_name(self, node: ast.expr) -> str | None:
        """A name for the object that an expression is, the same for the same object: aliases are followed."""
        if isinstance(node, ast.Name):
            definition = self.flow.uses.get(node)
            if definition is None or definition.kind in ("free", "parameter"):
                return node.id
            if (
                definition.kind == "assign"
                and definition.index is None
                and isinstance(definition.value, (ast.Name, ast.Attribute))
            ):
                return self.root_name(definition.value)
            return f"{node.id}@{id(definition)}"
        if isinstance(node, ast.Attribute):
            definition = self.flow.uses.get(node)
            if (
                definition is not None
                and definition.kind == "assign"
                and isinstance(definition.value, (ast.Name, ast.Attribute))
            ):
                return self.root_name(definition.value)
            base = self.root_name(node.value)
            return f"{base}.{node.attr}" if base else None
        return None

    # Names and values

    def qualify(self, node: ast.expr) -> str | None:
        """The qualified name of an expression; local values have none."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name):
            definition = self.flow.uses.get(root)
            if definition is not None and definition.kind not in ("free", "other", "assign", "phi"):
                return None
        return self.module.qualified(node, self.scope)

    def value_of(self, node: ast.expr, depth: int = 0) -> ast.expr:
        """What an expression is: names and attributes of ``self`` are followed to the one expression they were given.

        The expression itself where there is none or several.
        """
        if depth > 8:
            return node
        if isinstance(node, (ast.Name, ast.Attribute)):
            definition = self.flow.uses.get(node)
            if definition is not None and definition.kind == "assign" and definition.index is None:
                if definition.value is not None and definition.value is not node:
                    return self.value_of(definition.value, depth + 1)
        return node

    def definition_of(self, node: ast.expr) -> Def | None:
        """The definition that a name or followed attribute reads."""
        return self.flow.uses.get(node)

    def attribute_values(self, node: ast.expr) -> list[tuple[ast.expr, HostFunction]]:
        """What the methods of the class assign to ``self.NAME``, each with the function it stands in."""
        owner = self.class_scope
        if owner is None or not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            return []
        if node.value.id not in ("self", "cls", owner.name):
            return []
        found = []
        for value, scope in reach.attributes_of(owner).get(node.attr, []):
            found.append((value, self.module.host_at(scope)))
        return found

    def array(self, node: ast.expr) -> ArrayFact | None:
        """What the text says of the array that an expression is."""
        cache: dict[ast.expr, ArrayFact | None] = self.__dict__.setdefault("_arrays", {})
        if node not in cache:
            cache[node] = None
            cache[node] = array_of(self, node)
        return cache[node]

    def rank(self, node: ast.expr) -> int | None:
        """The number of extents of a shape or launch dimension."""
        return rank_of(self, node)

    @cached_property
    def calls(self) -> list[HostCall]:
        """Every call that can be reached, in the order of execution."""
        found: list[HostCall] = []
        for node in self.flow.of(ast.Call):
            found.append(self._call(node))  # type: ignore[arg-type]
        return found

    def _call(self, node: ast.Call) -> HostCall:
        site = self.flow.sites[node]
        function = node.func
        if not isinstance(function, ast.Attribute):
            return HostCall(node, self.qualify(function) or "", site)
        if self._is_outside(function):
            name = self.qualify(function)
            if name is not None:
                return HostCall(node, name, site)
        return HostCall(node, "." + function.attr, site, function.value)

    def _is_outside(self, function: ast.Attribute) -> bool:
        """Whether the root of a dotted name is a module, class or other thing from outside, not a local value."""
        root: ast.expr = function
        while root.__class__ is ast.Attribute:
            root = root.value
        if root.__class__ is not ast.Name:
            return False
        outside = self._outside.get(root.id)
        if outside is None:
            found = self.scope.lookup(root.id)
            outside = found is not None and any(one.kind in ("import", "class", "function") for one in found[1])
            self._outside[root.id] = outside
        return outside

    def call_of(self, node: ast.expr) -> HostCall | None:
        """The call that an expression is, names followed."""
        value = self.value_of(node)
        if isinstance(value, ast.Call) and value in self.flow.sites:
            return self._call(value)
        return None

    @cached_property
    def called(self) -> frozenset[str]:
        """The last parts of the names of what it calls: a quick way to see that a rule has nothing to do here."""
        names: set[str] = set()
        for call in self.scope.calls:
            function = call.func
            if isinstance(function, ast.Attribute):
                names.add(function.attr)
            elif isinstance(function, ast.Name):
                qualified = self.module.qualified(function, self.scope)
                names.add((qualified or function.id).rpartition(".")[2])
        return frozenset(names)

    @cached_property
    def launches(self) -> list[Launch]:
        if not self.called & {"launch", "launch_tiled"}:
            return []
        return [
            Launch(self, call, call.name == "warp.launch_tiled")
            for call in self.calls
            if call.name in ("warp.launch", "warp.launch_tiled")
        ]

    def declared(self, node: ast.expr) -> list[Type]:
        """The types that kernels of this function's launches declare for the object that an expression is."""
        root = self.root_name(node)
        return self._declared.get(root, []) if root is not None else []

    @cached_property
    def _declared(self) -> dict[str, list[Type]]:
        found: dict[str, list[Type]] = {}
        for launch in self.launches:
            if launch.kernel is not None:
                for parameter, argument in launch.pairs(launch.kernel):
                    root = self.root_name(argument)
                    if root is not None and parameter.type is not None:
                        found.setdefault(root, []).append(parameter.type)
        return found

    def context_calls(self, site: Site) -> Iterator[HostCall]:
        """The calls of the ``with`` blocks around a site, outermost first."""
        for item in site.contexts:
            expression = self.value_of(item.context_expr)
            if isinstance(expression, ast.Call) and expression in self.flow.sites:
                yield self._call(expression)

    def inside(self, site: Site, *names: str) -> HostCall | None:
        """The innermost ``with`` block of such a class around a site: ``warp.Tape``, ``warp.ScopedCapture``."""
        found = None
        for call in self.context_calls(site):
            if call.name in names:
                found = call
        if found is None:
            for item in site.contexts:  # `with tape:` on a tape made before, or kept in an attribute
                for value, where in self.attribute_values(item.context_expr):
                    if isinstance(value, ast.Call) and where.qualify(value.func) in names:
                        return HostCall(value, where.qualify(value.func) or "", site)
        return found


class Launch:
    """A ``wp.launch`` or ``wp.launch_tiled``."""

    def __init__(self, function: HostFunction, call: HostCall, tiled: bool) -> None:
        self.function = function
        self.module = function.module
        self.call = call
        self.node = call.node
        self.site = call.site
        self.tiled = tiled

    def __repr__(self) -> str:
        return f"<launch line {self.node.lineno} of {self.kernels}>"

    def argument(self, word: str) -> ast.expr | None:
        """An argument of the launch itself: ``dim``, ``inputs``, ``device`` …"""
        return self.call.argument(word, _LAUNCH.index(word) if word in _LAUNCH else None)

    @cached_property
    def reached(self) -> reach.Reached:
        kernel = self.argument("kernel")
        if kernel is None:
            return reach.Reached()
        return reach.kernels(kernel, self.function.scope, self.function.flow)

    @property
    def kernels(self) -> tuple[DeviceFunction, ...]:
        """The kernels it may start."""
        return self.reached.kernels

    @property
    def kernel(self) -> DeviceFunction | None:
        """The kernel, if it is surely one."""
        return self.kernels[0] if len(self.kernels) == 1 and self.reached.complete else None

    @property
    def dim(self) -> ast.expr | None:
        return self.argument("dim")

    @cached_property
    def extents(self) -> list[ast.expr] | None:
        """The extents of the grid one by one, if the text gives them so."""
        dim = self.dim
        if dim is None:
            return None
        value = self.function.value_of(dim)
        if isinstance(value, (ast.Tuple, ast.List)):
            return None if any(isinstance(item, ast.Starred) for item in value.elts) else list(value.elts)
        return [dim] if self.rank == 1 else None

    @cached_property
    def rank(self) -> int | None:
        """How many extents the grid has, the block axis of ``launch_tiled`` not counted."""
        dim = self.dim
        if dim is None:
            return None
        found = self.function.rank(dim)
        if found is not None:
            return found
        value = self.function.value_of(dim)
        if isinstance(value, ast.Attribute) and value.attr == "shape":
            types = self.function.declared(value.value)
            ranks = {type.ndim if isinstance(type, Array) else None for type in types}
            if len(ranks) == 1:
                return ranks.pop()
        return None

    @cached_property
    def inputs(self) -> list[ast.expr] | None:
        """The inputs one by one; ``None`` if the text does not list them."""
        return self._listed("inputs")

    @cached_property
    def outputs(self) -> list[ast.expr] | None:
        return self._listed("outputs")

    @cached_property
    def arguments(self) -> list[ast.expr] | None:
        """Inputs and outputs as the kernel's parameters take them; ``None`` if the text does not list them all."""
        if any(isinstance(argument, ast.Starred) for argument in self.node.args):
            return None
        if any(keyword.arg is None for keyword in self.node.keywords):
            return None
        inputs, outputs = self.inputs, self.outputs
        return None if inputs is None or outputs is None else inputs + outputs

    def _listed(self, word: str) -> list[ast.expr] | None:
        given = self.argument(word)
        return [] if given is None else self._items(given, 0)

    def _items(self, node: ast.expr, depth: int) -> list[ast.expr] | None:
        if depth > 5:
            return None
        if isinstance(node, (ast.List, ast.Tuple)):
            items: list[ast.expr] = []
            for item in node.elts:
                if isinstance(item, ast.Starred):
                    inner = self._items(item.value, depth + 1)
                    if inner is None:
                        return None
                    items += inner
                else:
                    items.append(item)
            return items
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self._items(node.left, depth + 1), self._items(node.right, depth + 1)
            return None if left is None or right is None else left + right
        if isinstance(node, ast.Name):
            definition = self.function.flow.uses.get(node)
            if (
                definition is None
                or definition.kind != "assign"
                or definition.index is not None
                or definition.value is None
            ):
                return None
            if self._is_changed(definition):
                return None
            return self._items(definition.value, depth + 1)
        return None

    def _is_changed(self, definition: Def) -> bool:
        """Whether a list is changed in place somewhere: then its literal does not tell its items."""
        reads = set(self.function.flow.reads_of(definition))
        for node in self.function.flow.of(ast.Attribute):
            if node.value in reads and node.attr in ("append", "extend", "insert", "pop", "remove", "clear"):  # type: ignore[attr-defined]
                return True
        return any(
            isinstance(node.ctx, ast.Store) and node.value in reads  # type: ignore[attr-defined]
            for node in self.function.flow.of(ast.Subscript)
        )

    def pairs(self, kernel: DeviceFunction) -> list[tuple[Parameter, ast.expr]]:
        """The kernel's parameters with the arguments they get, as far as the text lists them from the start."""
        given = self.arguments
        if given is None:
            given = self.inputs or []
            if any(isinstance(argument, ast.Starred) for argument in self.node.args):
                return []
        return list(zip(kernel.parameters, given, strict=False))

    @cached_property
    def tape(self) -> HostCall | None:
        """The ``with wp.Tape()`` block around it in the same function."""
        return self.function.inside(self.site, "warp.Tape")

    @cached_property
    def differentiated(self) -> bool:
        """Whether a tape or an adjoint launch is in play for it, as far as its file shows.

        It is inside a tape, it is an adjoint launch, or its function is called from inside a tape in this file.
        """
        from warp_audit.audit.source.autodiff import taped_scopes

        adjoint = self.argument("adjoint")
        if adjoint is not None and constant(adjoint, self.function.scope) is not False:
            return True
        return self.tape is not None or self.function.scope in taped_scopes(self.module)


def method_name(call: ast.Call) -> str | None:
    """The last part of what is called: ``numpy`` in ``x.numpy()``."""
    text = dotted(call.func)
    if text is not None:
        return text.rpartition(".")[2]
    return call.func.attr if isinstance(call.func, ast.Attribute) else None

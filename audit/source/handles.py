"""Objects that kernels see by a 64-bit id, and where a function's own ones are used, kept or let go.

A mesh, BVH, volume or hash grid lives as long as Python holds the object; the id alone holds nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from warp_audit.audit.source import reach
from warp_audit.audit.source.flow import Def
from warp_audit.audit.source.walk import children, walk

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction, Launch

KINDS = {"warp.Mesh": "mesh", "warp.Bvh": "BVH", "warp.HashGrid": "hash grid", "warp.Volume": "volume"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_CONSUMING = (
    ast.comprehension,
    ast.stmt,
    ast.Compare,
    ast.Lambda,
    ast.Yield,
    ast.Subscript,
    ast.Attribute,
)
_PASSING = {
    "builtins.int", "builtins.list", "builtins.tuple", "builtins.dict", "warp.uint64", "warp.array", "warp.full",
    "warp.from_numpy", "numpy.array", "numpy.asarray", "numpy.uint64", "numpy.full", "torch.tensor",
}  # fmt: skip
_GROWING = {"append", "add", "insert", "extend", "setdefault"}
_READING = {"len", "id", "isinstance", "type", "print", "repr", "str", "bool", "sum", "max", "min"}


@dataclass(eq=False)
class Handle:
    """An object that a function makes and keeps in a local name, or in no name at all.

    ``ids`` are the reads of its id; ``held`` tells that something else may keep it alive.
    """

    function: HostFunction
    kind: str
    name: str | None
    made: ast.Call
    definition: Def | None = None
    ids: list[ast.expr] = field(default_factory=list)
    held: bool = False


class Handles:
    """The handles of one function."""

    def __init__(self, function: HostFunction) -> None:
        self.function = function
        self.parents: dict[ast.AST, ast.AST] = {}
        self.inner: set[str] = set()
        self.found: list[Handle] = []
        if not _may_have_any(function):
            return
        for statement in function.body:
            _note_parents(statement, self.parents)
        self.inner = _names_inside(function)
        self.found = [*self._named(), *self._nameless()]

    def _named(self) -> Iterator[Handle]:
        function = self.function
        if function.scope.kind == "module":
            return  # its names live on
        shared = {
            name for node in function.flow.steps if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names
        }
        for definition in function.flow.defs:
            if definition.kind != "assign" or definition.index is not None or "." in definition.name:
                continue
            made = kind_of(function, definition.value) or _kind_of_all(function, definition.value)
            if made is None or not isinstance(definition.node, ast.Name):
                continue
            handle = Handle(function, made[0], definition.name, made[1], definition)
            handle.held = definition.name in self.inner or definition.name in shared or _several_targets(definition)
            self._follow(definition, handle, set())
            yield handle

    def _nameless(self) -> Iterator[Handle]:
        for node in self.function.flow.of(ast.Attribute):
            if node.attr == "id" and isinstance(node.value, ast.Call):  # type: ignore[attr-defined]
                made = kind_of(self.function, node.value)  # type: ignore[attr-defined]
                if made is not None:
                    yield Handle(self.function, made[0], None, made[1], None, [node])  # type: ignore[list-item]

    def _follow(self, definition: Def, handle: Handle, seen: set[int]) -> None:
        if id(definition) in seen:
            return
        seen.add(id(definition))
        for read in self.function.flow.reads_of(definition):
            self._use(read, handle, seen)

    def _use(self, read: ast.AST, handle: Handle, seen: set[int]) -> None:
        """Note one read of the object: its id, something that does not keep it, or something that may."""
        parent = self.parents.get(read)
        if isinstance(parent, ast.Attribute):
            if parent.attr == "id":
                handle.ids.append(parent)
            elif not isinstance(parent.ctx, ast.Load):
                handle.held = handle.held or parent.attr == "id"
            return
        if isinstance(parent, (ast.Compare, ast.UnaryOp, ast.Delete, ast.Expr, ast.If, ast.While, ast.FormattedValue)):
            return
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id in _READING:
            return
        if isinstance(parent, ast.Subscript) and parent.value is read and isinstance(parent.ctx, ast.Load):
            self._use(parent, handle, seen)  # one of a list of objects
            return
        if isinstance(parent, (ast.comprehension, ast.For)) and parent.iter is read:
            for definition in self.function.flow.defs:
                if definition.kind == "loop" and definition.value is read:
                    self._follow(definition, handle, seen)
            return
        if isinstance(parent, ast.Assign) and all(isinstance(target, ast.Name) for target in parent.targets):
            for definition in self.function.flow.defs:
                if definition.kind == "assign" and definition.value is read:
                    handle.held = handle.held or definition.name in self.inner
                    self._follow(definition, handle, seen)
            return
        handle.held = True

    def escapes(self, node: ast.expr) -> ast.stmt | None:
        """The statement by which an id leaves the function, alone or packed into something."""
        return self._escapes(node, set())

    def _escapes(self, node: ast.AST, seen: set[int]) -> ast.stmt | None:
        parent = self.parents.get(node)
        while parent is not None:
            if id(parent) in seen:
                return None
            seen.add(id(parent))
            if isinstance(parent, (ast.Return, ast.Assign, ast.AnnAssign)):
                return parent if isinstance(parent, ast.Return) else self._assigned(parent, seen)
            if isinstance(parent, ast.Call):
                if not self._passes(parent):
                    return self._stored(parent, node, seen)
            elif isinstance(parent, _CONSUMING):
                return None
            node, parent = parent, self.parents.get(parent)
        return None

    def _passes(self, call: ast.Call) -> bool:
        """Whether a call packs what it is given: a conversion, an array, a struct or other class of the project."""
        name = self.function.qualify(call.func)
        if name in _PASSING:
            return True
        if name is None or name.startswith(("builtins.", "warp.", "numpy.", "torch.")):
            return False
        found = self.function.module.project.binding(name, self.function.module)
        return found is not None and found[1].kind == "class"

    def _stored(self, call: ast.Call, node: ast.AST, seen: set[int]) -> ast.stmt | None:
        """``ids.append(mesh.id)``: where the container goes."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in _GROWING or node not in call.args:
            return None
        site = self.function.flow.sites.get(call)
        return self._into(call.func.value, site.statement, seen) if site is not None else None

    def _assigned(self, statement: ast.Assign | ast.AnnAssign, seen: set[int]) -> ast.stmt | None:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            if isinstance(target, ast.Name):
                for definition in self.function.flow.defs:
                    if definition.node is target:
                        found = self._name_escapes(definition, seen)
                        if found is not None:
                            return found
            elif isinstance(target, (ast.Attribute, ast.Subscript)):
                found = self._into(target, statement, seen)
                if found is not None:
                    return found
            elif isinstance(target, (ast.Tuple, ast.List)) and any(isinstance(t, ast.Attribute) for t in target.elts):
                return statement
        return None

    def _name_escapes(self, definition: Def, seen: set[int]) -> ast.stmt | None:
        if self.function.scope.kind == "module":
            return definition.site.statement if definition.site is not None else None
        for read in self.function.flow.reads_of(definition):
            found = self._escapes(read, seen)
            if found is not None:
                return found
        return None

    def _into(self, target: ast.expr, statement: ast.stmt, seen: set[int]) -> ast.stmt | None:
        """The statement by which a value put into ``target``, or into what it belongs to, leaves the function."""
        base = target
        while isinstance(base, (ast.Attribute, ast.Subscript)):
            base = base.value
        if not isinstance(base, ast.Name):
            return None
        definition = self.function.flow.uses.get(base)
        if definition is None or self.function.scope.kind == "module":
            return statement
        outside = [one.kind in ("parameter", "free", "loop") for one in definition.origins()]
        if any(outside):
            return statement
        for origin in definition.origins():
            if isinstance(origin.node, ast.Name):
                found = self._name_escapes(origin, seen)
                if found is not None:
                    return found
        return None

    def launches_with(self, node: ast.expr) -> list[Launch]:
        """The function's launches that get an id, alone or packed into something."""
        calls = {launch.node: launch for launch in self.function.launches}
        found: dict[ast.Call, Launch] = {}
        waiting: list[ast.AST] = [node]
        seen: set[ast.AST] = set()
        while waiting:
            current = waiting.pop()
            parent = self.parents.get(current)
            while parent is not None and parent not in seen:
                seen.add(parent)
                if isinstance(parent, ast.Call):
                    if parent in calls:
                        found[parent] = calls[parent]
                    elif isinstance(parent.func, ast.Attribute) and parent.func.attr in _GROWING:
                        waiting += self._reads_behind(parent.func.value)
                    elif not self._passes(parent):
                        break
                elif isinstance(parent, (ast.Assign, ast.AnnAssign)):
                    for target in parent.targets if isinstance(parent, ast.Assign) else [parent.target]:
                        waiting += self._reads_behind(target)
                    break
                elif isinstance(parent, (ast.stmt, ast.Attribute)):
                    break
                parent = self.parents.get(parent)
        return list(found.values())

    def _reads_behind(self, target: ast.expr) -> list[ast.AST]:
        """The later reads of a local name that is assigned, or whose object is changed."""
        base = target
        while isinstance(base, (ast.Attribute, ast.Subscript)):
            base = base.value
        if not isinstance(base, ast.Name):
            return []
        if base is target:
            found = [one for one in self.function.flow.defs if one.node is target]
        else:
            used = self.function.flow.uses.get(base)
            found = [used] if used is not None and used.kind not in ("parameter", "free") else []
        return [read for one in found for read in self.function.flow.reads_of(one) if read is not base]

    def outlived(self, handle: Handle, node: ast.expr) -> str | None:
        """The container made outside a loop that takes an id whose object the next pass of the loop replaces."""
        if handle.definition is None or handle.definition.site is None:
            return None
        loops = handle.definition.site.loops
        call = self.parents.get(node)
        if not loops or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return None
        if call.func.attr not in _GROWING or not isinstance(call.func.value, ast.Name):
            return None
        definition = self.function.flow.uses.get(call.func.value)
        if definition is None or definition.site is None or loops[-1] in definition.site.loops:
            return None
        return call.func.value.id


def _may_have_any(function: HostFunction) -> bool:
    """Whether the file names such objects and the function reads an id: a quick way to see that there is nothing."""
    some: bool | None = function.module.__dict__.get("_names_handles")
    if some is None:
        text = function.module.text
        some = ".id" in text and any(name in text for name in ("Mesh", "Bvh", "HashGrid", "Volume"))
        function.module.__dict__["_names_handles"] = some
    if not some:
        return False
    if ".id" not in function.text:
        return False
    return any(node.attr == "id" for node in function.flow.of(ast.Attribute))  # type: ignore[attr-defined]


def handles(function: HostFunction) -> Handles:
    """The handles of a function."""
    known: Handles | None = function.__dict__.get("_handles")
    if known is None:
        known = function.__dict__["_handles"] = Handles(function)
    return known


def kind_of(function: HostFunction, node: ast.expr | None, depth: int = 0) -> tuple[str, ast.Call] | None:
    """What kind of object a call makes, if one that is known by an id; functions that return a new one are followed."""
    if not isinstance(node, ast.Call):
        return None
    name = function.module.qualified(node.func, function.scope)
    if name is None:
        name = function.qualify(node.func)
    if name is not None and name.startswith("warp."):
        kind = KINDS.get(name) or (KINDS.get(name.rpartition(".")[0]) if name.startswith("warp.Volume.") else None)
        return (kind, node) if kind is not None else None
    if depth > 2 or not isinstance(node.func, (ast.Name, ast.Attribute)):
        return None
    maker = reach.function_scope(node.func, function.scope)
    if maker is None or not maker.returns or getattr(maker.node, "decorator_list", None):
        return None
    inner = function.module.host_of(maker) or maker.module.host_of(maker)
    if inner is None:
        return None
    kinds = {made[0] if (made := _returned(inner, value, depth + 1)) else None for value in maker.returns}
    kind = kinds.pop() if len(kinds) == 1 else None
    return (kind, node) if kind is not None else None


def _kind_of_all(function: HostFunction, node: ast.expr | None) -> tuple[str, ast.Call] | None:
    """The kind of the objects that a list is made of."""
    items = (
        [node.elt] if isinstance(node, ast.ListComp) else node.elts if isinstance(node, (ast.List, ast.Tuple)) else []
    )
    made = [kind_of(function, item) for item in items]
    kinds = {one[0] for one in made if one is not None}
    return made[0] if len(kinds) == 1 and None not in made else None


def _returned(function: HostFunction, value: ast.expr, depth: int) -> tuple[str, ast.Call] | None:
    if isinstance(value, ast.Name):
        return kind_of(function, function.value_of(value), depth) if _only_local(function, value) else None
    return kind_of(function, value, depth)


def _only_local(function: HostFunction, name: ast.Name) -> bool:
    """Whether a name's object is put nowhere else: a cache would keep it."""
    definition = function.flow.uses.get(name)
    if definition is None:
        return False
    return not _several_targets(definition) and len(function.flow.reads_of(definition)) == 1


def _several_targets(definition: Def) -> bool:
    """``self.mesh = mesh = wp.Mesh(…)``: another target keeps the object."""
    statement = definition.site.statement if definition.site is not None else None
    return isinstance(statement, ast.Assign) and len(statement.targets) > 1


def _note_parents(root: ast.AST, parents: dict[ast.AST, ast.AST]) -> None:
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            continue
        for child in children(node):
            parents[child] = node
            stack.append(child)


def _names_inside(function: HostFunction) -> set[str]:
    """The names that functions nested in this one read: their objects may live on with them."""
    names: set[str] = set()
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, _FUNCTIONS):
            names.update(part.id for part in walk(node) if isinstance(part, ast.Name))
            continue
        stack.extend(children(node))
    return names

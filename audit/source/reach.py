"""Which kernels an expression of host code may stand for, across files."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warp_audit.audit.source.module import statements
from warp_audit.audit.source.scopes import Binding, Scope, dotted

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Def, Flow

_DEPTH = 12
_CONTAINERS = (ast.Dict, ast.List, ast.Tuple, ast.DictComp, ast.ListComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Reached:
    """Kernels that were found, and whether these are surely all."""

    kernels: tuple[DeviceFunction, ...] = ()
    complete: bool = False

    @staticmethod
    def union(parts: list[Reached]) -> Reached:
        kernels = dict.fromkeys(kernel for part in parts for kernel in part.kernels)
        return Reached(tuple(kernels), bool(parts) and all(part.complete for part in parts))


_NOTHING = Reached()


def attributes_of(scope: Scope) -> dict[str, list[tuple[ast.expr, Scope]]]:
    """What a class's methods assign to ``self.NAME``, and its body to ``NAME``: values with the scope they stand in.

    A value that is not one plain expression (unpacked, changed in place) is not listed but makes the name's
    list end in the target itself, so that it is never taken for the only one.
    """
    cache: dict[Scope, dict[str, list[tuple[ast.expr, Scope]]]] = scope.module.__dict__.setdefault("_attributes", {})
    found = cache.get(scope)
    if found is not None:
        return found
    found = cache[scope] = {}
    for name, bindings in scope.bindings.items():
        for binding in bindings:
            if binding.kind == "assign" and binding.value is not None and binding.index is None:
                found.setdefault(name, []).append((binding.value, scope))
    for method in scope.children:
        if method.kind != "function" or not isinstance(method.node, _FUNCTIONS) or not method.node.args.args:
            continue
        me = method.node.args.args[0].arg
        for statement in statements(method.node.body):
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    _note_targets(target, statement.value, me, method, found)
            elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)) and statement.value is not None:
                _note_targets(statement.target, statement.value, me, method, found)
    return found


def _note_targets(
    target: ast.expr, value: ast.expr, me: str, method: Scope, found: dict[str, list[tuple[ast.expr, Scope]]]
) -> None:
    if isinstance(target, (ast.Tuple, ast.List)):
        for index, item in enumerate(target.elts):
            same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            _note_targets(item, value.elts[index] if same else item, me, method, found)  # type: ignore[attr-defined]
    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == me:
        found.setdefault(target.attr, []).append((value, method))


def class_around(scope: Scope) -> Scope | None:
    """The class whose method a scope is, or is nested in."""
    current: Scope | None = scope
    while current is not None:
        if current.kind == "class":
            return current
        current = current.parent
    return None


def bases(scope: Scope, depth: int = 0) -> list[Scope]:
    """A class's scope and those of its bases, as far as they are found."""
    found = [scope]
    if depth > 4 or not isinstance(scope.node, ast.ClassDef) or scope.parent is None:
        return found
    for base in scope.node.bases:
        name = scope.module.qualified(base, scope.parent)
        bound = scope.module.project.binding(name, scope.module) if name else None
        if bound is not None and bound[1].kind == "class":
            found += bases(bound[0].module.scope_of(bound[1].node), depth + 1)
    return found


def kernels(node: ast.expr, scope: Scope, flow: Flow | None, depth: int = 0) -> Reached:
    """The kernels that an expression may be."""
    if depth > _DEPTH:
        return _NOTHING
    if isinstance(node, ast.Name):
        return _name(node, scope, flow, depth)
    if isinstance(node, ast.Attribute):
        return _attribute(node, scope, flow, depth)
    if isinstance(node, ast.Call):
        return _call(node, scope, flow, depth)
    if isinstance(node, ast.IfExp):
        return Reached.union([kernels(part, scope, flow, depth + 1) for part in (node.body, node.orelse)])
    if isinstance(node, ast.BoolOp):
        return Reached.union([kernels(part, scope, flow, depth + 1) for part in node.values])
    if isinstance(node, ast.Subscript):
        return _subscript(node, scope, flow, depth)
    if isinstance(node, ast.NamedExpr):
        return kernels(node.value, scope, flow, depth + 1)
    return _NOTHING


def _name(node: ast.Name, scope: Scope, flow: Flow | None, depth: int) -> Reached:
    definition = flow.uses.get(node) if flow is not None else None
    if definition is not None and definition.kind != "free":
        return Reached.union([_definition(one, scope, flow, depth) for one in definition.origins()])
    found = scope.lookup(node.id)
    if found is None:
        return _NOTHING
    return Reached.union([_binding(binding, found[0], depth) for binding in found[1]])


def _definition(definition: Def, scope: Scope, flow: Flow | None, depth: int) -> Reached:
    if definition.kind == "assign" and definition.value is not None:
        if definition.index is None:
            return kernels(definition.value, scope, flow, depth + 1)
        return _element(definition.value, definition.index, scope, flow, depth + 1)
    if definition.kind == "other" and isinstance(definition.node, _FUNCTIONS):
        return _function(definition.node, scope)
    if definition.kind == "loop" and definition.value is not None:
        return _elements(definition.value, scope, flow, depth + 1)
    if definition.kind == "parameter":
        return _given(definition.name, scope, depth)
    if definition.kind == "unassigned":
        return Reached((), True)
    return _NOTHING


def _function(node: ast.AST, scope: Scope) -> Reached:
    device = scope.module.device_of(node)
    return Reached((device,), True) if device is not None else _NOTHING


def _binding(binding: Binding, scope: Scope, depth: int) -> Reached:
    if binding.kind == "function":
        return _function(binding.node, scope)
    if binding.kind == "import":
        found = scope.module.project.binding(binding.target, scope.module)
        if found is None or depth > _DEPTH or found[1] is binding:
            return _NOTHING
        return _binding(found[1], found[0], depth + 1)
    if binding.kind == "assign" and binding.value is not None:
        if isinstance(binding.value, ast.Constant) and binding.value.value is None:
            return Reached((), True)
        if binding.index is None:
            return kernels(binding.value, scope, None, depth + 1)
        return _element(binding.value, binding.index, scope, None, depth + 1)
    if binding.kind == "loop" and binding.value is not None:
        return _elements(binding.value, scope, None, depth + 1)
    if binding.kind == "parameter" and isinstance(binding.node, ast.arg):
        return _given(binding.node.arg, scope, depth)
    return _NOTHING


def _attribute(node: ast.Attribute, scope: Scope, flow: Flow | None, depth: int) -> Reached:
    if flow is not None:
        definition = flow.uses.get(node)
        if definition is not None and definition.kind != "free":
            return Reached.union([_definition(one, scope, flow, depth) for one in definition.origins()])
    text = dotted(node)
    if text is None:
        return _bundle(node, scope, flow, depth)
    root = text.partition(".")[0]
    owner = class_around(scope)
    method = scope
    while method.parent is not None and method.parent.kind != "class":
        method = method.parent
    me = None
    if isinstance(method.node, _FUNCTIONS) and method.node.args.args and owner is not None:
        me = method.node.args.args[0].arg
    if owner is not None and (root in (me, "self", "cls")) and text.count(".") == 1:
        return _member(owner, node.attr, depth)
    name = scope.module.qualified(node, scope)
    if name is None:
        return _bundle(node, scope, flow, depth)
    found = scope.module.project.binding(name, scope.module)
    if found is not None:
        return _binding(found[1], found[0], depth + 1)
    found = scope.module.project.binding(name.rpartition(".")[0], scope.module)
    if found is not None and found[1].kind == "class":
        return _member(found[0].module.scope_of(found[1].node), node.attr, depth)
    return _bundle(node, scope, flow, depth)


def _bundle(node: ast.Attribute, scope: Scope, flow: Flow | None, depth: int) -> Reached:
    """``kernels.forward`` of ``kernels = Kernels(forward=f, …)``, also where a function makes and returns it."""
    parts: list[Reached] = []
    for value, where in _made(node.value, scope, flow, depth + 1):
        given = next((keyword.value for keyword in value.keywords if keyword.arg == node.attr), None)
        parts.append(kernels(given, where, None, depth + 1) if given is not None else _NOTHING)
    return Reached.union(parts)


def _made(node: ast.expr, scope: Scope, flow: Flow | None, depth: int) -> list[tuple[ast.Call, Scope]]:
    """The calls with keywords that make an object."""
    if depth > _DEPTH:
        return []
    if isinstance(node, ast.Call):
        maker = function_scope(node.func, scope, flow)
        if maker is not None:
            return [made for value in maker.returns for made in _made(value, maker, None, depth + 1)]
        return [(node, scope)] if node.keywords else []
    if isinstance(node, ast.Name):
        definition = flow.uses.get(node) if flow is not None else None
        if (
            definition is not None
            and definition.kind == "assign"
            and definition.index is None
            and definition.value is not None
        ):
            return _made(definition.value, scope, flow, depth + 1)
        if definition is not None and definition.kind not in ("free",):
            return []
        found = scope.lookup(node.id)
        if found is None:
            return []
        values = [b.value for b in found[1] if b.kind == "assign" and b.index is None and b.value is not None]
        return [made for value in values for made in _made(value, found[0], None, depth + 1)]
    return []


def _member(owner: Scope, attribute: str, depth: int) -> Reached:
    """``self.attribute`` or ``Class.attribute``: a kernel of the body, or what the methods assign."""
    for scope in bases(owner):
        bindings = scope.bindings.get(attribute, [])
        parts = [_binding(binding, scope, depth + 1) for binding in bindings]
        if not parts:
            for value, where in attributes_of(scope).get(attribute, []):
                if isinstance(value, ast.Constant) and value.value is None:
                    continue
                if isinstance(value, ast.Attribute) and isinstance(value.ctx, ast.Store):
                    parts.append(_unpacked(value, where, owner, depth + 1))
                else:
                    parts.append(kernels(value, where, None, depth + 1))
        if parts:
            return Reached.union(parts)
    return _NOTHING


def _unpacked(target: ast.Attribute, method: Scope, owner: Scope, depth: int) -> Reached:
    """``_, self.kernel = self.make()``: the element of what the class's own ``make`` returns.

    It may override a base's.
    """
    for statement in statements(method.node.body):  # type: ignore[attr-defined]
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], (ast.Tuple, ast.List)):
            continue
        items = statement.targets[0].elts
        call = statement.value
        if target not in items or not isinstance(call, ast.Call):
            continue
        maker = None
        if (
            isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id == "self"
        ):
            maker = _method(owner, call.func.attr)
        maker = maker or function_scope(call.func, method)
        parts = []
        for returned in maker.returns if maker is not None else []:
            if isinstance(returned, (ast.Tuple, ast.List)) and len(returned.elts) == len(items) and maker is not None:
                parts.append(kernels(returned.elts[items.index(target)], maker, None, depth + 1))
        return Reached.union(parts)
    return _NOTHING


def _method(owner: Scope, name: str) -> Scope | None:
    """A method as an object of a class has it."""
    for scope in bases(owner):
        bindings = scope.bindings.get(name)
        if bindings and bindings[-1].kind == "function" and scope.module.device_of(bindings[-1].node) is None:
            return scope.module.scope_of(bindings[-1].node)
    return None


def _call(node: ast.Call, scope: Scope, flow: Flow | None, depth: int) -> Reached:
    name = scope.module.qualified(node.func, scope)
    if name in ("warp.overload", "warp.kernel", "warp.Kernel") and (node.args or node.keywords):
        inner = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg in ("f", "func")), None)
        return kernels(inner, scope, flow, depth + 1) if inner is not None else _NOTHING
    if isinstance(node.func, ast.Call):  # wp.kernel(enable_backward=False)(f)
        maker = scope.module.qualified(node.func.func, scope)
        if maker in ("warp.kernel", "warp.Kernel") and node.args:
            return kernels(node.args[0], scope, flow, depth + 1)
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "setdefault", "pop"):
        return _elements(node.func.value, scope, flow, depth + 1)
    factory = function_scope(node.func, scope, flow)
    if factory is None or not factory.returns:
        return _NOTHING
    return Reached.union([kernels(value, factory, None, depth + 1) for value in factory.returns])


def function_scope(node: ast.expr, scope: Scope, flow: Flow | None = None) -> Scope | None:
    """The scope of the Python function that a call's ``func`` names: a function, a method of ``self``, an import."""
    if isinstance(node, ast.Name):
        found = scope.lookup(node.id)
        if found is None:
            return None
        where, bindings = found
        binding = bindings[-1]
    elif isinstance(node, ast.Attribute):
        owner = class_around(scope)
        if owner is not None and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", owner.name):
            for one in bases(owner):
                if one.bindings.get(node.attr):
                    where, binding = one, one.bindings[node.attr][-1]
                    break
            else:
                return None
        else:
            name = scope.module.qualified(node, scope)
            elsewhere = scope.module.project.binding(name, scope.module) if name else None
            if elsewhere is None:
                return None
            where, binding = elsewhere
    else:
        return None
    if binding.kind == "import":
        elsewhere = scope.module.project.binding(binding.target, where.module)
        if elsewhere is None:
            return None
        where, binding = elsewhere
    if binding.kind == "assign" and isinstance(binding.value, ast.Call):
        # `make = functools.cache(_make)`
        inner = binding.value.args[0] if binding.value.args else None
        return function_scope(inner, where) if isinstance(inner, (ast.Name, ast.Attribute)) else None
    if binding.kind != "function" or where.module.device_of(binding.node) is not None:
        return None
    return where.module.scope_of(binding.node)


def _container(
    node: ast.expr, scope: Scope, flow: Flow | None, depth: int
) -> tuple[ast.expr, Scope, Flow | None] | None:
    """The literal list, tuple or dictionary that an expression is."""
    if depth > _DEPTH:
        return None
    if isinstance(node, _CONTAINERS):
        return node, scope, flow
    if isinstance(node, ast.Name):
        definition = flow.uses.get(node) if flow is not None else None
        if (
            definition is not None
            and definition.kind == "assign"
            and definition.value is not None
            and definition.index is None
        ):
            return _container(definition.value, scope, flow, depth + 1)
        found = scope.lookup(node.id)
        if found is not None and found[1][-1].kind == "assign" and found[1][-1].value is not None:
            return _container(found[1][-1].value, found[0], None, depth + 1)
        if found is not None and found[1][-1].kind == "import":
            bound = scope.module.project.binding(found[1][-1].target, scope.module)
            if bound is not None and bound[1].kind == "assign" and bound[1].value is not None:
                return _container(bound[1].value, bound[0], None, depth + 1)
    if isinstance(node, ast.Attribute):
        owner = class_around(scope)
        if owner is not None and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", owner.name):
            values = [pair for one in bases(owner) for pair in attributes_of(one).get(node.attr, [])]
            literal = [pair for pair in values if isinstance(pair[0], (ast.Dict, ast.List, ast.Tuple))]
            if len(literal) == 1:
                return literal[0][0], literal[0][1], None
        name = scope.module.qualified(node, scope)
        bound = scope.module.project.binding(name, scope.module) if name else None
        if bound is not None and bound[1].kind == "assign" and bound[1].value is not None:
            return _container(bound[1].value, bound[0], None, depth + 1)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("values", "items") and not node.args:
            return _container(node.func.value, scope, flow, depth + 1)
        factory = function_scope(node.func, scope, flow)
        if factory is not None and len(factory.returns) == 1:
            return _container(factory.returns[0], factory, None, depth + 1)
    return None


def _values(container: ast.expr) -> list[ast.expr]:
    if isinstance(container, ast.Dict):
        return list(container.values)
    if isinstance(container, ast.DictComp):
        return [container.value]
    if isinstance(container, (ast.ListComp, ast.GeneratorExp)):
        return [container.elt]
    return list(getattr(container, "elts", []))


def _elements(node: ast.expr, scope: Scope, flow: Flow | None, depth: int) -> Reached:
    found = _container(node, scope, flow, depth)
    if found is None:
        return _NOTHING
    container, where, its_flow = found
    parts = _stored(node, scope, depth)
    for value in _values(container):
        if isinstance(value, (ast.Tuple, ast.List)):
            parts += [one for one in (kernels(v, where, its_flow, depth + 1) for v in value.elts) if one.kernels]
        else:
            parts.append(kernels(value, where, its_flow, depth + 1))
    return Reached.union(parts)


def _stored(node: ast.expr, scope: Scope, depth: int) -> list[Reached]:
    """What ``NAME[key] = value`` puts into a container."""
    text = dotted(node)
    if text is None or depth > _DEPTH:
        return []
    module, name = scope.module, text
    found = scope.lookup(text.partition(".")[0])
    if found is not None and found[1][-1].kind == "import":
        bound = module.project.binding(module.qualified(node, scope) or "", module)
        if bound is None:
            return []
        module, name = bound[0].module, text.rpartition(".")[2]
    return [kernels(value, where, None, depth + 1) for value, where in module.items.get(name, [])]


def _element(node: ast.expr, index: int, scope: Scope, flow: Flow | None, depth: int) -> Reached:
    found = _container(node, scope, flow, depth)
    if found is None:
        return _NOTHING
    container, where, its_flow = found
    values = _values(container)
    if isinstance(container, ast.Dict) or index >= len(values):
        return _NOTHING
    return kernels(values[index], where, its_flow, depth + 1)


def _subscript(node: ast.Subscript, scope: Scope, flow: Flow | None, depth: int) -> Reached:
    found = _container(node.value, scope, flow, depth)
    if found is None:
        return _NOTHING
    container, where, its_flow = found
    stored = _stored(node.value, scope, depth)
    if isinstance(container, ast.Dict) and not stored:
        wanted = ast.dump(node.slice)
        for key, value in zip(container.keys, container.values, strict=True):
            if key is not None and isinstance(node.slice, (ast.Constant, ast.Attribute)) and ast.dump(key) == wanted:
                return kernels(value, where, its_flow, depth + 1)
    elif isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
        values = _values(container)
        if -len(values) <= node.slice.value < len(values):
            return kernels(values[node.slice.value], where, its_flow, depth + 1)
    return Reached.union([*stored, *([_elements(container, where, its_flow, depth + 1)] if _values(container) else [])])


def _given(name: str, scope: Scope, depth: int) -> Reached:
    """What the file's own calls give for a parameter of a function whose calls are all in sight: a private one."""
    node = scope.node
    if not isinstance(node, _FUNCTIONS) or depth > 6:
        return _NOTHING
    arguments = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    if name not in arguments:
        return _NOTHING
    place = arguments.index(name)
    method = scope.parent is not None and scope.parent.kind == "class"
    parts: list[Reached] = []
    default = place - len(arguments) + len(node.args.defaults)
    if default >= 0 and scope.parent is not None:
        parts.append(kernels(node.args.defaults[default], scope.parent, None, depth + 1))
    for call, other in scope.module.calls_by_name.get(node.name, ()):
        if function_scope(call.func, other) is not scope:
            continue
        offset = 1 if method and isinstance(call.func, ast.Attribute) else 0
        given = next((k.value for k in call.keywords if k.arg == name), None)
        if given is None and 0 <= place - offset < len(call.args):
            given = call.args[place - offset]
        if given is not None:
            parts.append(kernels(given, other, None, depth + 3))
    found = Reached.union(parts)
    return Reached(found.kernels, found.complete and node.name.startswith("_"))

"""What the backward pass needs of a kernel's values: which are differentiated, and which must be known again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from warp_audit.audit.source.autodiff import differentiated_kernels
from warp_audit.audit.source.constants import constant
from warp_audit.audit.source.types import Array, Matrix, Quaternion, Scalar, StructType, Transformation, Type, Vector
from warp_audit.audit.source.walk import children, walk

if TYPE_CHECKING:
    from warp_audit.audit.source.constants import Constant
    from warp_audit.audit.source.device import Access, DeviceFunction
    from warp_audit.audit.source.flow import Def
    from warp_audit.audit.source.module import Module

_LINEAR_BUILTINS = frozenset((
    "float", "float16", "float32", "float64", "neg", "copy", "transpose", "vector", "matrix", "quaternion",
    "transformation", "quat", "transform", "spatial_top", "spatial_bottom", "trace", "get_diag", "diag", "cw_neg",
    "transform_get_translation", "transform_get_rotation", "add", "sub", "cast",
))  # fmt: skip
_DISCRETE = frozenset((
    "int", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "sign", "floor", "ceil",
    "round", "rint", "trunc", "len", "print", "printf", "type", "isnan", "isinf", "isfinite", "expect_eq",
    "expect_near", "tid",
))  # fmt: skip
_BILINEAR = frozenset((
    "mul", "dot", "cross", "outer", "cw_mul", "ddot", "quat_rotate", "quat_rotate_inv", "transform_point",
    "transform_vector", "transform_multiply", "skew", "matmul", "mod", "div", "cw_div",
))  # fmt: skip
_COMPOSITE = ("vec", "mat", "quat", "transform", "spatial_vector", "spatial_matrix")
_GRADIENT_FLAGS = ("requires_grad", "grad")
_MAX_UNROLL = 16
_DEPTH = 3


def is_float(type: Type | None) -> bool:
    """Whether values of a type have gradients; one that is not known may have."""
    if isinstance(type, Scalar):
        return type.name.startswith(("float", "bfloat"))
    if isinstance(type, (Vector, Matrix, Quaternion, Transformation)):
        return is_float(type.scalar)
    if isinstance(type, Array):
        return is_float(type.dtype)
    return type is None or isinstance(type, StructType)


@dataclass(frozen=True, slots=True)
class Need:
    """An operation whose derivative needs a value, not only its gradient."""

    node: ast.AST
    statement: ast.stmt


class Gradients:
    """What the adjoint of one body needs."""

    def __init__(self, function: DeviceFunction) -> None:
        self.function = function
        self._active: dict[int, bool] = {}
        self._partial: dict[int, bool] | None = None
        self._reads = {a.node: a for a in function.accesses if a.what == "read"}

    @staticmethod
    def of(function: DeviceFunction) -> Gradients:
        """The one for a function."""
        found: Gradients | None = function.__dict__.get("_gradients")
        if found is None:
            found = function.__dict__["_gradients"] = Gradients(function)
        return found

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The node around each expression of the body, a statement at the top."""
        found: dict[ast.AST, ast.AST] = {}
        for statement in self.function.flow.steps:
            stack: list[ast.AST] = [statement]
            while stack:
                node = stack.pop()
                for child in children(node):
                    if isinstance(child, (ast.expr, ast.keyword)):
                        found[child] = node
                        stack.append(child)
        return found

    @cached_property
    def _without_gradient(self) -> set[str]:
        """A kernel's parameters that get arrays without gradients in each recorded launch of the file."""
        found: set[str] | None = None
        for launch in differentiated_kernels(self.function.module).get(self.function, []):
            host = launch.function
            flagged = {
                host.root_name(node.value)  # type: ignore[attr-defined]
                for node in host.flow.of(ast.Attribute)
                if isinstance(node.ctx, ast.Store) and node.attr in _GRADIENT_FLAGS  # type: ignore[attr-defined]
            }
            plain = {
                parameter.name
                for parameter, argument in launch.pairs(self.function)
                if (fact := host.array(argument)) is not None
                and fact.requires_grad is False
                and host.root_name(argument) not in flagged
            }
            found = plain if found is None else found & plain
        return found or set()

    # Which values are differentiated

    def active(self, node: ast.expr) -> bool:
        """Whether a value is made from elements of floating-point arrays, or in a func from its arguments."""
        if isinstance(node, ast.Constant):
            return False
        if isinstance(node, ast.Name):
            definition = self.function.flow.uses.get(node)
            return definition is not None and self.active_def(definition)
        access = self._reads.get(node)
        if access is not None:
            return is_float(access.type.dtype) and access.root not in self._without_gradient
        if isinstance(node, ast.Call):
            name = self.function.builtin(node)
            if name is not None and (name in _DISCRETE or name.startswith(("rand", "static"))):
                return False
            return any(self.active(part) for part in (*node.args, *(k.value for k in node.keywords)))
        if isinstance(node, ast.Subscript):
            return self.active(node.value)
        if isinstance(node, ast.Attribute):
            if node.attr == "shape":
                return False
            definition = self.function.flow.uses.get(node)
            return self.active_def(definition) if definition is not None else self.active(node.value)
        if isinstance(node, (ast.Compare, ast.BoolOp)):
            return False
        return any(self.active(child) for child in children(node) if isinstance(child, ast.expr))

    def active_def(self, definition: Def) -> bool:
        key = id(definition)
        found = self._active.get(key)
        if found is not None:
            return found
        if self._partial is not None:
            found = self._partial.get(key)
            if found is None:
                self._partial[key] = False  # for values that depend on themselves, around a loop
                found = self._partial[key] = any(self._made_active(one) for one in _behind(definition))
            return found
        # What is found inside a cycle may be a part only, so just the outermost result is kept.
        self._partial = {key: False}
        self._active[key] = found = any(self._made_active(one) for one in _behind(definition))
        self._partial = None
        return found

    def _made_active(self, definition: Def) -> bool:
        if definition.kind == "parameter":
            parameter = self.function.by_name.get(definition.name)
            if self.function.kind == "kernel" or parameter is None or parameter.is_array:
                return False
            return is_float(parameter.type)
        if definition.kind in ("assign", "augment", "component") and definition.value is not None:
            return self.active(definition.value)
        return False

    # Where a value is needed

    def needs(self, node: ast.AST, seen: set[int] | None = None, control: bool = False) -> Iterator[Need]:
        """The operations behind a read whose derivatives need what was read, in the order they are found.

        Args:
            node: the read, or what is made of it.
            seen: definitions already followed.
            control: whether a condition counts too.
        """
        seen = set() if seen is None else seen
        while True:
            parent = self.parents.get(node)
            if parent is None:
                return
            if isinstance(parent, ast.stmt):
                yield from self._into(parent, node, seen, control)
                return
            verdict = self._passes(parent, node, control)
            if verdict is None:
                statement = self._statement(parent)
                if statement is not None:
                    yield Need(parent, statement)
                return
            if not verdict:
                return
            node = parent

    def _statement(self, node: ast.AST) -> ast.stmt | None:
        while node is not None and not isinstance(node, ast.stmt):
            node = self.parents.get(node)  # type: ignore[assignment]
        return node

    def _into(self, statement: ast.stmt, node: ast.AST, seen: set[int], control: bool) -> Iterator[Need]:
        """A value that a statement takes: a name that is given it is followed."""
        if isinstance(statement, (ast.If, ast.While)):
            if control and node is statement.test:
                yield Need(node, statement)
            return
        if isinstance(statement, ast.AugAssign) and node is not statement.target:
            divides = isinstance(statement.op, (ast.Div, ast.Pow)) and self.active(statement.value)
            if divides or (isinstance(statement.op, (ast.Mult, ast.Div, ast.Pow)) and self._target_active(statement)):
                yield Need(statement, statement)
                return
        yield from self._follow(statement, node, seen, control)

    def _follow(self, statement: ast.stmt, node: ast.AST, seen: set[int], control: bool) -> Iterator[Need]:
        """The needs behind the names that a statement gives a value to."""
        for definition in self.function.flow.defs:
            if definition.kind not in ("assign", "augment", "component") or id(definition) in seen:
                continue
            if definition.site is None or definition.site.statement is not statement:
                continue
            if definition.kind == "assign" and definition.index is None and definition.value is not node:
                continue
            seen.add(id(definition))
            for read in self.function.flow.reads_of(definition):
                yield from self.needs_of_read(read, seen, control)

    def needs_of_read(self, read: ast.AST, seen: set[int], control: bool) -> Iterator[Need]:
        """The needs behind one read of a name; ``p *= x`` reads ``p`` as its target."""
        parent = self.parents.get(read)
        if isinstance(parent, ast.AugAssign) and parent.target is read:
            scaled = isinstance(parent.op, (ast.Mult, ast.Div)) and self.active(parent.value)
            if scaled or isinstance(parent.op, ast.Pow):
                yield Need(parent, parent)
            else:
                yield from self._follow(parent, parent.value, seen, control)
            return
        yield from self.needs(read, seen, control)

    def _target_active(self, statement: ast.AugAssign) -> bool:
        if isinstance(statement.target, ast.Name):
            definition = self.function.flow.uses.get(statement.target)
            return definition is not None and self.active_def(definition)
        return True

    def _passes(self, parent: ast.AST, node: ast.AST, control: bool) -> bool | None:
        """Whether a value goes on through an operation: yes, no, or ``None``: it is needed there."""
        if isinstance(parent, ast.BinOp):
            other = parent.right if node is parent.left else parent.left
            if isinstance(parent.op, (ast.Add, ast.Sub)):
                return True
            if isinstance(parent.op, (ast.Mult, ast.MatMult)):
                return None if self.active(other) else True
            if isinstance(parent.op, ast.Div):
                needed = self.active(other) or (node is parent.right and self.active(parent.right))
                return None if needed else True
            return None if isinstance(parent.op, ast.Pow) and self.active(parent) else False
        if isinstance(parent, ast.Call):
            return self._passes_call(parent, node)
        if isinstance(parent, (ast.UnaryOp, ast.keyword, ast.Tuple)):
            return not isinstance(getattr(parent, "op", None), ast.Not)
        if isinstance(parent, ast.Subscript):
            return node is parent.value
        if isinstance(parent, (ast.Attribute, ast.Starred)):
            return True
        if isinstance(parent, ast.IfExp):
            return node is not parent.test
        if isinstance(parent, (ast.Compare, ast.BoolOp)):
            return control
        return False

    def _passes_call(self, call: ast.Call, node: ast.AST) -> bool | None:
        function = self.function
        name = function.builtin(call)
        if name is None:
            callee = function.callee(call)
            if callee is None or callee is function:
                return None
            return _callee_passes(callee, call, node, 0)
        if name in ("where", "select"):
            return bool(call.args) and node is not call.args[0]
        if name in _DISCRETE or name.startswith(("atomic_", "rand", "tile_")):
            return False
        if name in _LINEAR_BUILTINS or (name.startswith(_COMPOSITE) and not _computes(name)):
            return True
        if name in _BILINEAR:
            return None if any(self.active(other) for other in call.args if other is not node) else True
        return None if self.active(call) else False


def _computes(name: str) -> bool:
    """Whether a name that starts as a composite type's is a function of it."""
    return "_" in name and not name.startswith(("spatial_vector", "spatial_matrix"))


def _callee_passes(callee: DeviceFunction, call: ast.Call, node: ast.AST, depth: int) -> bool | None:
    """Whether a func's result is linear in an argument."""
    if depth > _DEPTH or callee.kind == "native" or has_custom_gradient(callee):
        return None
    place = next((i for i, argument in enumerate(call.args) if argument is node), None)
    word = next((k.arg for k in call.keywords if k.value is node), None)
    for parameter in callee.parameters:
        if parameter.index == place or parameter.name == word:
            return None if value_needed(callee, parameter.name) else True
    return None


def value_needed(function: DeviceFunction, name: str) -> bool:
    """Whether the adjoint of a function needs the value of a parameter, or of an array's elements."""
    cache: dict[str, bool] = function.__dict__.setdefault("_values_needed", {})
    if name not in cache:
        cache[name] = False
        cache[name] = _value_needed(function, name)
    return cache[name]


def _value_needed(function: DeviceFunction, name: str) -> bool:
    gradients = Gradients.of(function)
    parameter = function.by_name.get(name)
    if parameter is not None and parameter.is_array:
        for access in function.accesses:
            if access.root == name and access.reads and is_float(access.type.dtype):
                if access.what == "update" or any(gradients.needs(access.node)):
                    return True
        for call, _ in function.calls():
            callee = function.callee(call) if function.builtin(call) is None else None
            if callee is None or callee is function:
                continue
            for inner, argument in zip(callee.parameters, call.args, strict=False):
                if function.root_name(argument) == name and value_needed(callee, inner.name):
                    return True
        return False
    for definition in function.flow.defs:
        if definition.kind == "parameter" and definition.name == name:
            seen: set[int] = set()
            for read in function.flow.reads_of(definition):
                if any(gradients.needs_of_read(read, seen, False)):
                    return True
    return False


def has_custom_gradient(function: DeviceFunction) -> bool:
    """Whether the file gives a func a gradient or replay of its own."""
    return any(
        isinstance(other.decorator, ast.Call)
        and other.decorator.args
        and isinstance(other.decorator.args[0], ast.Name)
        and other.decorator.args[0].id == function.name
        for other in function.module.device_functions
        if other.kind in ("grad", "replay")
    )


def _behind(definition: Def) -> Iterator[Def]:
    """A definition and all whose value it takes up: behind phis, before changes."""
    seen: set[int] = set()
    stack = [definition]
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        stack.extend(one.sources)
        if one.kind in ("augment", "component") and one.previous is not None:
            stack.append(one.previous)


# Loops


def dynamic(function: DeviceFunction, loop: ast.For | ast.While) -> str | None:
    """Why a loop is not unrolled: its bounds are known at ``run time``, it is too ``long``, a ``break`` is in it."""
    if isinstance(loop, ast.While):
        return "run time"
    call = loop.iter
    if not isinstance(call, ast.Call) or function.builtin(call) != "range" or not call.args:
        return "run time"
    bounds = [function.constant(argument) for argument in call.args]
    if not all(isinstance(bound, int) for bound in bounds):
        return None if any(_may_be_constant(function, argument) for argument in call.args) else "run time"
    if any(isinstance(node, ast.Call) and function.builtin(node) == "static" for node in walk(loop)):
        return None
    if 0 in bounds[2:]:
        return None
    limit = max_unroll(function)
    if limit is None:
        return None
    if len(range(*bounds)) > limit:  # type: ignore[arg-type]
        return "long"
    return "break" if _breaks(loop.body) else None


def _may_be_constant(function: DeviceFunction, node: ast.expr) -> bool:
    """Whether a bound is a name from outside, which is a constant that the text does not tell."""
    for part in walk(node):
        if isinstance(part, ast.Name):
            definition = function.flow.uses.get(part)
            if definition is not None and definition.kind == "free":
                return True
    return False


def _breaks(body: list[ast.stmt]) -> bool:
    """Whether a ``break`` belongs to the loop with this body."""
    for statement in body:
        if isinstance(statement, ast.Break):
            return True
        if isinstance(statement, ast.If) and (_breaks(statement.body) or _breaks(statement.orelse)):
            return True
    return False


def max_unroll(function: DeviceFunction) -> int | None:
    """The longest loop that is unrolled; ``None`` if the text does not tell."""
    given = option(function, "max_unroll", _MAX_UNROLL)
    return given if isinstance(given, int) else None


def option(function: DeviceFunction, name: str, default: Constant) -> Constant | None:
    """An option of code generation, by the decorator, the module's options, ``wp.config`` or Warp's default.

    ``None`` if it is set to what the text does not tell.
    """
    for options in (function.options.get("module_options"), *_calls_set_options(function.module)):
        if options is None:
            continue
        if not isinstance(options, ast.Dict):
            return None
        for key, value in zip(options.keys, options.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == name:
                return constant(value, function.scope)
    given = _configured(function.module).get(name)
    return default if given is None else constant(given, function.module.scope)


def _calls_set_options(module: Module) -> list[ast.expr]:
    found: list[ast.expr] | None = module.__dict__.get("_set_options")
    if found is None:
        found = module.__dict__["_set_options"] = [
            call.args[0]
            for call, scope in module.calls_by_name.get("set_module_options", ())
            if call.args and module.qualified(call.func, scope) == "warp.set_module_options"
        ]
    return found


def _configured(module: Module) -> dict[str, ast.expr]:
    """What the file assigns to ``wp.config``, wherever it does so."""
    found: dict[str, ast.expr] | None = module.__dict__.get("_configured")
    if found is None:
        found = module.__dict__["_configured"] = {}
        for target, statement, scope in module.attribute_stores:
            name = module.qualified(target, scope)
            if name is not None and name.startswith("warp.config."):
                found.setdefault(name.removeprefix("warp.config."), statement.value)
    return found


@dataclass(frozen=True, slots=True)
class Stale:
    """A use, in or behind a loop that is not unrolled, of a value that the backward pass does not have again."""

    loop: ast.For | ast.While
    why: str
    name: str
    node: ast.AST
    inside: bool


def stale_values(function: DeviceFunction) -> list[Stale]:
    """Where derivatives need a floating-point value that a loop carries from step to step."""
    found: list[Stale] | None = function.__dict__.get("_stale_values")
    if found is None:
        found = function.__dict__["_stale_values"] = list(_stale_values(function))
    return found


def _stale_values(function: DeviceFunction) -> Iterator[Stale]:
    gradients = Gradients.of(function)
    reported: set[ast.AST] = set()
    for definition, loop, why in carried(function):
        if is_whole(function, definition):
            continue
        for read in function.flow.reads_of(definition):
            for need in gradients.needs_of_read(read, set(), False):
                if need.statement not in reported:
                    reported.add(need.statement)
                    inside = any(one.node is loop for one in function.flow.steps[need.statement].loops)
                    yield Stale(loop, why, definition.name, need.node, inside)


def carried(function: DeviceFunction) -> Iterator[tuple[Def, ast.For | ast.While, str]]:
    """The values that loops which are not unrolled carry from step to step, with the loop and why it is not."""
    reasons: dict[ast.AST, str | None] = {}
    for definition in function.flow.defs:
        node = definition.node
        if definition.kind != "loop_phi" or len(definition.sources) < 2 or not isinstance(node, (ast.For, ast.While)):
            continue
        if definition.sources[0].kind in ("unassigned", "free") or "." in definition.name:
            continue
        if _stores_only(function, definition):
            continue
        if node not in reasons:
            reasons[node] = dynamic(function, node)
        why = reasons[node]
        if why is not None:
            yield definition, node, why


def _stores_only(function: DeviceFunction, definition: Def) -> bool:
    """Whether the name is an array that the loop stores through."""
    return all(source is definition or source.kind == "parameter" for source in definition.sources)


def is_whole(function: DeviceFunction, definition: Def) -> bool:
    """Whether a value is a whole number, as far as its definitions tell."""
    known = function.def_type(definition)
    if known is None and definition.sources:
        known = function.def_type(definition.sources[0])
    return known is not None and not is_float(known)


def index_sources(function: DeviceFunction, nodes: tuple[ast.expr, ...]) -> Iterator[Def]:
    """All definitions that indices are made from, through locals and through tables."""
    seen: set[int] = set()
    stack: list[ast.AST] = list(nodes)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            definition = function.flow.uses.get(node)
            if definition is not None and id(definition) not in seen:
                seen.add(id(definition))
                yield definition
                if definition.kind in ("assign", "augment") and definition.value is not None:
                    stack.append(definition.value)
                if definition.kind == "augment" and isinstance(definition.node, ast.AugAssign):
                    stack.append(definition.node.target)
        stack.extend(children(node))


def accesses_of_floats(function: DeviceFunction) -> Iterator[Access]:
    """Accesses to arrays whose elements have gradients."""
    yield from (access for access in function.accesses if is_float(access.type.dtype))

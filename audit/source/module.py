"""One file: its scopes, kernels, funcs, structs and constants, gathered in one pass over the tree."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from warp_audit.audit.source.scopes import Binding, Scope, canonical, dotted
from warp_audit.audit.source.walk import children

if TYPE_CHECKING:
    from collections.abc import Iterator

    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.host import HostFunction, Launch
    from warp_audit.audit.source.project import Project
    from warp_audit.audit.source.types import Type

_DEVICE_DECORATORS = {
    "warp.kernel": "kernel",
    "warp.Kernel": "kernel",
    "warp.func": "func",
    "warp.func_grad": "grad",
    "warp.func_replay": "replay",
    "warp.func_native": "native",
    "warp.fem.integrand": "integrand",
    "warp._src.fem.operator.integrand": "integrand",
}
_MAKE_KERNELS = ("kernel", "Kernel", "func")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    annotation: ast.expr
    node: ast.AnnAssign


class Struct:
    """A ``@wp.struct`` class."""

    def __init__(self, module: Module, scope: Scope, node: ast.ClassDef) -> None:
        self.module = module
        self.scope = scope
        self.node = node
        self.name = node.name
        self.fields = {
            item.target.id: Field(item.target.id, item.annotation, item)
            for item in node.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        }

    def type_of(self, field: str) -> Type | None:
        """The type of a field; ``None`` if there is no such field or its type is not known."""
        from warp_audit.audit.source.annotations import annotation_type

        known = self.fields.get(field)
        return annotation_type(known.annotation, self.scope) if known else None


class Module:
    """A source file.

    Args:
        path: where it is.
        text: its text.
        name: its dotted import name, as far as the folders tell.
        project: what finds other files.

    Raises:
        SyntaxError: the text is not Python.
    """

    def __init__(self, path: Path, text: str, name: str, project: Project) -> None:
        self.path = path
        self.folder = str(path.absolute().parent)
        """Where it lies: imports are looked for from there."""
        self.text = text
        self.name = name
        self.project = project
        self.tree = ast.parse(text, str(path))
        self.dependencies: dict[Path, str | None] = {}
        self.scope = Scope("module", self.tree, None, self, name)
        self.device_functions: list[DeviceFunction] = []
        self.structs: dict[ast.ClassDef, Struct] = {}
        self.items: dict[str, list[tuple[ast.expr, Scope]]] = {}
        """What is put into containers by ``NAME[key] = value``, wherever that is done."""
        self.attribute_stores: list[tuple[ast.Attribute, ast.Assign, Scope]] = []
        """Every assignment to an attribute, ``wp.config.mode = "debug"``, wherever it is done."""
        self._device_by_node: dict[ast.AST, DeviceFunction] = {}
        self._scopes_by_node: dict[ast.AST, Scope] = {self.tree: self.scope}
        self._names: dict[tuple[ast.expr, Scope], str | None] | None = None
        _Scan(self).run()
        self._names = {}

    @property
    def module(self) -> Module:
        """Itself, as everything of a file has a module."""
        return self

    @cached_property
    def lines(self) -> list[str]:
        """The text's lines without their ends, as ``ast`` counts them."""
        return self.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")

    def owns(self, name: str) -> bool:
        """Whether a qualified name is one of the file itself."""
        return name.startswith(self.name + ".")

    @property
    def package(self) -> str:
        """The dotted name of the package that relative imports start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    def scope_of(self, node: ast.AST) -> Scope:
        """The scope that a module, class or function node opens."""
        return self._scopes_by_node[node]

    def device_of(self, node: ast.AST) -> DeviceFunction | None:
        """The kernel or func that a function node is."""
        return self._device_by_node.get(node)

    @property
    def kernels(self) -> list[DeviceFunction]:
        return [function for function in self.device_functions if function.kind == "kernel"]

    @cached_property
    def host_functions(self) -> list[HostFunction]:
        """The top level and each Python function that names Warp or calls something launched."""
        from warp_audit.audit.source.host import HostFunction

        scopes = (s for s in self.scope.walk() if s.kind in ("module", "function"))
        return [HostFunction(self, scope) for scope in scopes if scope.uses_warp]

    @cached_property
    def launches(self) -> list[Launch]:
        """Every launch of the file, in the text's order."""
        return [launch for function in self.host_functions for launch in function.launches]

    @cached_property
    def calls_by_name(self) -> dict[str, list[tuple[ast.Call, Scope]]]:
        """Every call of the file's Python functions by the last part of what is called, with its scope."""
        found: dict[str, list[tuple[ast.Call, Scope]]] = {}
        for scope in self.scope.walk():
            for call in scope.calls:
                function = call.func
                if function.__class__ is ast.Attribute:
                    last = function.attr
                elif function.__class__ is ast.Name:
                    last = function.id
                else:
                    continue
                found.setdefault(last, []).append((call, scope))
        return found

    def launches_of(self, kernel: DeviceFunction) -> list[Launch]:
        """The launches of this file that may start a kernel."""
        return self._launches_by_kernel.get(kernel, [])

    @cached_property
    def _launches_by_kernel(self) -> dict[DeviceFunction, list[Launch]]:
        found: dict[DeviceFunction, list[Launch]] = {}
        for launch in self.launches:
            for kernel in launch.kernels:
                found.setdefault(kernel, []).append(launch)
        return found

    def host_of(self, scope: Scope) -> HostFunction | None:
        """The host function of a scope."""
        return self._host_by_scope.get(scope)

    def host_at(self, scope: Scope) -> HostFunction:
        """The host function of a scope, also of one that does not name Warp."""
        found = self._host_by_scope.get(scope)
        if found is None:
            from warp_audit.audit.source.host import HostFunction

            found = self._host_by_scope[scope] = HostFunction(self, scope)
        return found

    @cached_property
    def _host_by_scope(self) -> dict[Scope, HostFunction]:
        return {function.scope: function for function in self.host_functions}

    # Names

    def qualified(self, node: ast.expr, scope: Scope) -> str | None:
        """The canonical qualified name of an expression: ``wp.launch`` is ``warp.launch`` under ``import warp as wp``.

        Names of the file itself get the file's own name before them; ``None`` for what is not a plain name.
        """
        known = self._names
        if known is None:  # not all bindings are known yet
            return self._qualified_anew(node, scope)
        key = node, scope
        if key in known:
            return known[key]
        found = known[key] = self._qualified_anew(node, scope)
        return found

    def _qualified_anew(self, node: ast.expr, scope: Scope) -> str | None:
        text = dotted(node)
        if text is None:
            return None
        root, _, rest = text.partition(".")
        return self._qualified(root, rest, scope, 0)

    def _qualified(self, root: str, rest: str, scope: Scope, depth: int) -> str | None:
        found = scope.lookup(root)
        if found is None:
            return f"builtins.{root}" + (f".{rest}" if rest else "")
        where, bindings = found
        tail = f".{rest}" if rest else ""
        for binding in bindings:
            if binding.kind == "import":
                return canonical(binding.target + tail)
        binding = bindings[-1]
        if binding.kind in ("function", "class"):
            return f"{self.name}.{where.qualified + '.' if where.kind != 'module' else ''}{root}{tail}"
        if binding.kind == "assign" and binding.value is not None and binding.index is None and depth < 8:
            # `launch = wp.launch`, `vec6 = wp.types.vector(…)`: follow plain names only.
            text = dotted(binding.value)
            if text is not None and text != root and not text.startswith(root + "."):
                head, _, more = text.partition(".")
                return self._qualified(head, ".".join(filter(None, [more, rest])), where, depth + 1)
            if where.kind == "module":
                return f"{self.name}.{root}{tail}"
        return None


class _Scan:
    """The one pass: scopes, bindings, calls, device functions, structs."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.warp_names: set[str] = set()
        """What ``import warp as …`` binds, anywhere in the file."""
        self.called_kernels: list[tuple[ast.Call, Scope]] = []

    def run(self) -> None:
        self.suite(self.module.tree.body, self.module.scope)
        for call, scope in self.called_kernels:
            self.kernel_by_call(call, scope)

    def suite(self, body: list[ast.stmt], scope: Scope) -> None:
        for statement in body:
            self.statement(statement, scope)

    def statement(self, node: ast.stmt, scope: Scope) -> None:
        kind = node.__class__
        if kind is ast.Assign:
            self.assignment(node, scope)  # type: ignore[arg-type]
        elif kind is ast.Expr:
            self.expression(node.value, scope)  # type: ignore[attr-defined]
        elif isinstance(node, _FUNCTIONS):
            self.function(node, scope)
        elif isinstance(node, ast.ClassDef):
            self.class_(node, scope)
        elif isinstance(node, ast.AnnAssign):
            self.bind(node.target, node, node.value, scope)
            if node.value is not None:
                self.expression(node.value, scope)
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name):
                scope.bind(node.target.id, Binding("other", node))
            self.expression(node.target, scope)
            self.expression(node.value, scope)
        elif isinstance(node, ast.If):
            self.expression(node.test, scope)
            self.suite(node.body, scope)
            self.suite(node.orelse, scope)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self.bind(node.target, node, node.iter, scope, "loop")
            self.expression(node.iter, scope)
            self.suite(node.body, scope)
            self.suite(node.orelse, scope)
        elif isinstance(node, ast.While):
            self.expression(node.test, scope)
            self.suite(node.body, scope)
            self.suite(node.orelse, scope)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            scope.contexts += node.items
            for item in node.items:
                self.expression(item.context_expr, scope)
                if item.optional_vars is not None:
                    self.bind(item.optional_vars, node, item.context_expr, scope, "with")
            self.suite(node.body, scope)
        elif isinstance(node, ast.Return):
            if node.value is not None:
                scope.returns.append(node.value)
                self.expression(node.value, scope)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self.imports(node, scope)
        elif isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            self.suite(node.body, scope)  # type: ignore[attr-defined]
            for handler in node.handlers:  # type: ignore[attr-defined]
                if handler.name:
                    scope.bind(handler.name, Binding("other", handler))
                self.suite(handler.body, scope)
            self.suite(node.orelse, scope)  # type: ignore[attr-defined]
            self.suite(node.finalbody, scope)  # type: ignore[attr-defined]
        elif isinstance(node, ast.Match):
            self.expression(node.subject, scope)
            for case in node.cases:
                self.suite(case.body, scope)
        else:
            for child in children(node):
                if isinstance(child, ast.expr):
                    self.expression(child, scope)

    def assignment(self, node: ast.Assign, scope: Scope) -> None:
        for target in node.targets:
            self.bind(target, node, node.value, scope)
        self.expression(node.value, scope)
        for target in node.targets:
            if target.__class__ is ast.Name:
                continue
            self.expression(target, scope)
            if isinstance(target, ast.Subscript):
                if isinstance(target.value, ast.Name):
                    self.module.items.setdefault(target.value.id, []).append((node.value, scope))
            elif isinstance(target, ast.Attribute):
                self.module.attribute_stores.append((target, node, scope))
                if not scope.uses_warp:
                    name = self.module.qualified(target, scope)
                    scope.uses_warp = name is not None and name.startswith("warp.")

    def expression(self, root: ast.expr, scope: Scope) -> None:
        """Note the calls in an expression and whether it names Warp."""
        stack: list[ast.AST] = [root]
        while stack:
            node = stack.pop()
            kind = type(node)
            if kind is ast.Name or kind is ast.Constant:
                continue
            if kind is ast.Attribute:
                inner_node = node.value  # type: ignore[attr-defined]
                if inner_node.__class__ is ast.Name:
                    if inner_node.id in self.warp_names:
                        scope.uses_warp = True
                else:
                    stack.append(inner_node)
                continue
            if kind is ast.Call:
                self.call(node, scope)  # type: ignore[arg-type]
                stack.append(node.func)  # type: ignore[attr-defined]
                stack.extend(node.args)  # type: ignore[attr-defined]
                stack.extend(keyword.value for keyword in node.keywords)  # type: ignore[attr-defined]
                continue
            if kind is ast.Lambda:
                inner = self.open("function", node, scope, "<lambda>")
                self.parameters(node.args, inner)  # type: ignore[attr-defined]
                inner.returns.append(node.body)  # type: ignore[attr-defined]
                self.expression(node.body, inner)  # type: ignore[attr-defined]
                continue
            if kind in _COMPREHENSIONS:
                for generator in node.generators:  # type: ignore[attr-defined]
                    self.bind(generator.target, generator, generator.iter, scope, "loop")
            elif kind is ast.NamedExpr:
                self.bind(node.target, node, node.value, scope)  # type: ignore[attr-defined]
            for field in node._fields:
                value = getattr(node, field, None)
                if value.__class__ is list:
                    stack.extend(item for item in value if isinstance(item, ast.AST))
                elif isinstance(value, ast.AST):
                    stack.append(value)

    def call(self, node: ast.Call, scope: Scope) -> None:
        scope.calls.append(node)
        function = node.func
        if scope.uses_warp and isinstance(function, ast.Attribute) and function.attr not in _MAKE_KERNELS:
            return
        if isinstance(function, ast.Call):
            function = function.func
        text = dotted(function)
        if text is None:
            return
        name = self.module._qualified(*text.partition(".")[::2], scope, 0)
        if name is None or not name.startswith("warp."):
            last = text.rpartition(".")[2]
            if last.startswith(("launch", "capture", "backward")):
                scope.uses_warp = True
            return
        scope.uses_warp = True
        if name in ("warp.kernel", "warp.Kernel", "warp.func"):
            self.called_kernels.append((node, scope))

    def open(self, kind: str, node: ast.AST, scope: Scope, name: str) -> Scope:
        inner = Scope(kind, node, scope, self.module, name)
        scope.children.append(inner)
        self.module._scopes_by_node[node] = inner
        return inner

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        scope.bind(node.name, Binding("function", node))
        for decorator in node.decorator_list:
            kind = self.device_kind(decorator, scope)
            if kind is not None:
                self.device(node, kind, decorator, scope)
                return
        for decorator in node.decorator_list:
            self.expression(decorator, scope)
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.expression(default, scope)
        inner = self.open("function", node, scope, node.name)
        self.parameters(node.args, inner)
        self.suite(node.body, inner)

    def device_kind(self, decorator: ast.expr, scope: Scope) -> str | None:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = self.module.qualified(called, scope)
        if name is None:
            return None
        if name in _DEVICE_DECORATORS:
            return _DEVICE_DECORATORS[name]
        if name.endswith(".cache.dynamic_kernel"):
            return "kernel"
        if name.endswith(".cache.dynamic_func"):
            return "func"
        return "kernel" if name.endswith("kernel") and self.makes_kernels(name) else None

    def makes_kernels(self, name: str) -> bool:
        """Whether a decorator is a function of the project that calls ``wp.kernel`` itself."""
        found = self.module.project.binding(name, self.module)
        if found is None or found[1].kind != "function":
            return False
        scope = found[0].module._scopes_by_node.get(found[1].node)
        inner = [call for one in scope.walk() for call in one.calls] if scope is not None else []
        return any(found[0].module.qualified(call.func, found[0]) in ("warp.kernel", "warp.Kernel") for call in inner)

    def device(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, kind: str, decorator: ast.expr | None, scope: Scope
    ) -> None:
        from warp_audit.audit.source.device import DeviceFunction

        scope.uses_warp = True
        function = DeviceFunction(self.module, scope, node, kind, decorator)
        self.module.device_functions.append(function)
        self.module._device_by_node[node] = function

    def kernel_by_call(self, call: ast.Call, scope: Scope) -> None:
        """``k = wp.kernel(f, …)``, ``wp.Kernel(func=f)``, ``wp.kernel(…)(f)`` on a plain function."""
        outer = call
        if isinstance(call.func, ast.Call):
            call = call.func
        given = list(outer.args[:1]) or [k.value for k in outer.keywords if k.arg in ("f", "func")]
        if not given or not isinstance(given[0], ast.Name):
            return
        found = scope.lookup(given[0].id)
        if found is None or found[1][-1].kind != "function":
            return
        node = found[1][-1].node
        if isinstance(node, _FUNCTIONS) and node not in self.module._device_by_node:
            name = self.module.qualified(call.func, scope)
            self.device(node, _DEVICE_DECORATORS.get(name or "", "kernel"), call, found[0])
            inner = self.module._scopes_by_node.pop(node)
            found[0].children.remove(inner)

    def class_(self, node: ast.ClassDef, scope: Scope) -> None:
        scope.bind(node.name, Binding("class", node))
        inner = self.open("class", node, scope, node.name)
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if self.module.qualified(called, scope) == "warp.struct":
                self.module.structs[node] = Struct(self.module, scope, node)
                scope.uses_warp = True
        self.suite(node.body, inner)

    def parameters(self, arguments: ast.arguments, scope: Scope) -> None:
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            scope.bind(argument.arg, Binding("parameter", argument))
        for argument in filter(None, (arguments.vararg, arguments.kwarg)):
            scope.bind(argument.arg, Binding("parameter", argument))

    def bind(self, target: ast.expr, node: ast.AST, value: ast.expr | None, scope: Scope, kind: str = "assign") -> None:
        if isinstance(target, ast.Name):
            scope.bind(target.id, Binding(kind, node, value))
        elif isinstance(target, (ast.Tuple, ast.List)):
            for index, item in enumerate(target.elts):
                if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                    self.bind(item, node, value.elts[index], scope, kind)
                elif isinstance(item, ast.Name):
                    scope.bind(item.id, Binding(kind, node, value, index))
                else:
                    self.bind(item, node, None, scope, "other")
        elif isinstance(target, ast.Starred):
            self.bind(target.value, node, None, scope, "other")

    def imports(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "warp" or alias.name.startswith("warp."):
                    self.warp_names.add(alias.asname or "warp")
                if alias.asname:
                    scope.bind(alias.asname, Binding("import", node, target=alias.name))
                else:
                    root = alias.name.partition(".")[0]
                    scope.bind(root, Binding("import", node, target=root))
            return
        base = node.module or ""
        if node.level:
            parts = self.module.package.split(".") if self.module.package else []
            kept = parts[: len(parts) - node.level + 1] if node.level > 1 else parts
            outside = [] if node.level <= len(parts) + 1 else ["<above>"]
            base = ".".join([*outside, *kept, *filter(None, [node.module])])
        for alias in node.names:
            if alias.name == "*":
                scope.bind("*", Binding("import", node, target=base))
            else:
                target = f"{base}.{alias.name}" if base else alias.name
                scope.bind(alias.asname or alias.name, Binding("import", node, target=canonical(target)))


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements of a body, nested ones too, but not those of functions and classes in it."""
    for statement in body:
        yield statement
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            continue
        for field in ("body", "orelse", "finalbody"):
            yield from statements(getattr(statement, field, []))
        for handler in getattr(statement, "handlers", []):
            yield from statements(handler.body)
        for case in getattr(statement, "cases", []):
            yield from statements(case.body)

"""Values of integer expressions as sums, so that two ways of writing an index compare equal.

A ``Form`` is ``constant + Σ coefficient · atom``. An atom is a tuple that starts with its kind::

    ("tid", axis)                 a thread coordinate
    ("parameter", name)           a scalar parameter
    ("shape", array, axis)        an array's extent; ("size", array) its number of elements
    ("load", array, *indices)     an array's element, ("value", …) an element or field of something else
    ("loop", id)                  what a ``for`` binds
    ("def", id)                   a value of which no more is known: a phi, an unpacked result
    ("free", name)                a name from outside whose value is not known
    ("call", name, *arguments)    a builtin or func; with an id behind it if two calls may differ
    ("floordiv", a, b) …          an operation that is not linear

Expressions inside an atom are ``Form`` again. Loads are compared by array and index, as if nothing was
stored in between: rules that speak on inequality are the more silent for it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from warp_audit.audit.source.scopes import dotted

if TYPE_CHECKING:
    from warp_audit.audit.source.flow import Def, Flow, Site

Atom: TypeAlias = "tuple[Any, ...]"

_CASTS = {"int", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
_NONLINEAR = {
    ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Div: "div", ast.Pow: "pow", ast.LShift: "lshift",
    ast.RShift: "rshift", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.MatMult: "matmul",
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
LARGEST = 200
"""Atoms that a form may have, at every depth together."""
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


class Body(Protocol):
    """What symbols are made of: a kernel's or a host function's body."""

    @property
    def flow(self) -> Flow: ...
    def constant(self, node: ast.expr | None) -> Any: ...
    def builtin(self, call: ast.Call) -> str | None: ...
    def root_name(self, node: ast.expr) -> str | None: ...


class Form:
    """``constant + Σ coefficient · atom``; never changed once made.

    ``size`` counts its atoms, at every depth. Expressions that share parts grow by doubling when the parts are
    written out, so a form above ``LARGEST`` is not kept: its value counts as one that nothing is known of.
    """

    __slots__ = ("_hash", "constant", "size", "terms")

    def __init__(self, constant: int | float = 0, terms: frozenset[tuple[Atom, int | float]] = frozenset()) -> None:
        self.constant = constant
        self.terms = terms
        self.size = sum(_size(atom) for atom, _ in terms)
        self._hash = hash((constant, terms))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Form) or self._hash != other._hash:
            return False
        return self.constant == other.constant and self.terms == other.terms

    def __repr__(self) -> str:
        return f"Form({self.constant}, {sorted(self.terms, key=repr)})"

    @staticmethod
    def of(atom: Atom) -> Form:
        return Form(0, frozenset([(atom, 1)]))

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def atoms(self) -> list[Atom]:
        return [atom for atom, _ in self.terms]

    def coefficient(self, atom: Atom) -> int | float:
        return next((c for a, c in self.terms if a == atom), 0)

    def plus(self, other: Form, times: int | float = 1) -> Form:
        """This + ``times`` · other."""
        sums = dict(self.terms)
        for atom, coefficient in other.terms:
            sums[atom] = sums.get(atom, 0) + times * coefficient
        return Form(self.constant + times * other.constant, frozenset((a, c) for a, c in sums.items() if c))

    def minus(self, other: Form) -> Form:
        return self.plus(other, -1)

    def scaled(self, factor: int | float) -> Form:
        return Form().plus(self, factor)

    def single(self) -> Atom | None:
        """The atom, if the form is nothing else."""
        if self.constant == 0 and len(self.terms) == 1:
            ((atom, coefficient),) = self.terms
            return atom if coefficient == 1 else None
        return None

    def mentions(self, kind: str) -> bool:
        """Whether an atom of a kind is in it, at any depth."""
        return any(_mentions(atom, kind) for atom, _ in self.terms)

    def all_atoms(self) -> set[Atom]:
        """Every atom in it, at any depth."""
        found: set[Atom] = set()
        for atom, _ in self.terms:
            _collect(atom, found)
        return found


def _size(atom: Atom) -> int:
    return 1 + sum(part.size for part in atom if isinstance(part, Form))


def _mentions(atom: Atom, kind: str) -> bool:
    if atom[0] == kind:
        return True
    return any(part.mentions(kind) for part in atom[1:] if isinstance(part, Form))


def _collect(atom: Atom, found: set[Atom]) -> None:
    found.add(atom)
    for part in atom[1:]:
        if isinstance(part, Form):
            for inner, _ in part.terms:
                _collect(inner, found)


@dataclass(frozen=True, slots=True)
class Fact:
    """``form relation 0`` holds; the relation is ``<``, ``<=``, ``==`` or ``!=``."""

    form: Form
    relation: str


@dataclass(frozen=True, slots=True)
class Bound:
    """``expression < limit``, or ``<=`` if not strict; for a lower bound ``>`` and ``>=``."""

    limit: Form
    strict: bool


class Symbols:
    """The forms of one body's expressions."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self._forms: dict[ast.AST, Form] = {}
        self._defs: dict[int, Form] = {}
        self._facts: dict[int, list[Fact]] = {}
        self._held: list[Any] = []

    def form(self, node: ast.expr) -> Form:
        """The value of an expression."""
        found = self._forms.get(node)
        if found is None:
            found = self._form(node)
            if found.size > LARGEST:
                found = Form.of(("node", self._identity(node)))
            self._forms[node] = found
        return found

    def same(self, left: ast.expr, right: ast.expr) -> bool:
        """Whether two expressions surely have the same value."""
        return self.form(left) == self.form(right)

    def _form(self, node: ast.expr) -> Form:
        if isinstance(node, ast.Constant):
            value = node.value
            if isinstance(value, (int, float)) and value == value:
                return Form(value)
            return Form.of(("constant", repr(value)))
        if isinstance(node, ast.Name):
            definition = self.body.flow.uses.get(node)
            return self.of_def(definition) if definition is not None else Form.of(("name", node.id))
        if isinstance(node, ast.UnaryOp):
            inner = self.form(node.operand)
            if isinstance(node.op, ast.USub):
                return inner.scaled(-1)
            return inner if isinstance(node.op, ast.UAdd) else Form.of((type(node.op).__name__.lower(), inner))
        if isinstance(node, ast.BinOp):
            return self._operation(node.op, self.form(node.left), self.form(node.right))
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Compare):
            parts = [self.form(part) for part in (node.left, *node.comparators)]
            return Form.of(("compare", tuple(type(op).__name__ for op in node.ops), *parts))
        if isinstance(node, ast.IfExp):
            return Form.of(("if", self.form(node.test), self.form(node.body), self.form(node.orelse)))
        if isinstance(node, (ast.Tuple, ast.List)):
            return Form.of(("tuple", *(self.form(item) for item in node.elts)))
        if isinstance(node, ast.BoolOp):
            return Form.of((type(node.op).__name__.lower(), *(self.form(value) for value in node.values)))
        return Form.of(("node", self._identity(node)))

    def _identity(self, thing: Any) -> int:
        self._held.append(thing)
        return id(thing)

    def _operation(self, op: ast.operator, left: Form, right: Form) -> Form:
        if isinstance(op, ast.Add):
            return left.plus(right)
        if isinstance(op, ast.Sub):
            return left.minus(right)
        if isinstance(op, ast.Mult):
            if left.is_constant:
                return right.scaled(left.constant)
            if right.is_constant:
                return left.scaled(right.constant)
            return Form.of(
                ("mul", frozenset([left, right]), left, right)
                if hash(left) <= hash(right)
                else ("mul", frozenset([left, right]), right, left)
            )
        if (
            left.is_constant
            and right.is_constant
            and isinstance(left.constant, int)
            and isinstance(right.constant, int)
        ):
            a, b = left.constant, right.constant
            if isinstance(op, ast.FloorDiv) and b:
                return Form(int(a / b) if abs(a) < 2**52 else a // b)
            if isinstance(op, ast.LShift) and 0 <= b < 64:
                return Form(a << b)
        return Form.of((_NONLINEAR.get(type(op), type(op).__name__), left, right))

    def of_def(self, definition: Def) -> Form:
        """The value of a definition."""
        found = self._defs.get(id(definition))
        if found is None:
            self._defs[id(definition)] = Form.of(("def", self._identity(definition)))  # for cycles
            found = self._of_def(definition)
            if found.size > LARGEST:
                found = Form.of(("def", self._identity(definition)))
            self._defs[id(definition)] = found
        return found

    def _of_def(self, definition: Def) -> Form:
        kind, value = definition.kind, definition.value
        if kind == "parameter":
            return Form.of(("parameter", definition.name))
        if kind == "free":
            known = self.body.constant(ast.Name(definition.name, ast.Load()))
            return Form(known) if isinstance(known, (int, float)) else Form.of(("free", definition.name))
        if kind == "assign" and value is not None:
            return self.form(value) if definition.index is None else self._element(value, definition)
        if kind == "augment" and value is not None and definition.previous is not None:
            operator = definition.node.op if isinstance(definition.node, ast.AugAssign) else None
            if operator is not None:
                return self._operation(operator, self.of_def(definition.previous), self.form(value))
        if kind == "loop":
            return Form.of(("loop", self._identity(definition)))
        return Form.of(("def", self._identity(definition)))

    def _element(self, value: ast.expr, definition: Def) -> Form:
        index = definition.index or 0
        if isinstance(value, ast.Call):
            name = self.body.builtin(value)
            if name == "tid":
                return Form.of(("tid", index))
        if isinstance(value, ast.Attribute) and value.attr == "shape":
            return self._extent(value.value, index)
        if isinstance(value, ast.Name):
            inner = self.body.flow.uses.get(value)
            if inner is not None and inner.kind == "assign" and inner.value is not None and inner.index is None:
                return self._element(inner.value, definition)
        return Form.of(("def", self._identity(definition)))

    def _call(self, node: ast.Call) -> Form:
        name = self.body.builtin(node)
        if name == "tid":
            return Form.of(("tid", 0))
        if name in _CASTS and len(node.args) == 1 and not node.keywords:
            return self.form(node.args[0])
        if name == "len" and len(node.args) == 1:
            return self._extent(node.args[0], 0)
        if name == "static":
            known = self.body.constant(node)
            return Form(known) if isinstance(known, (int, float)) else Form.of(("free", ast.unparse(node)))
        arguments = tuple(self.form(argument) for argument in node.args)
        if name is None:
            # A func may be called twice with the same arguments and give the same; a method may not.
            text = dotted(node.func)
            return (
                Form.of(("call", text, *arguments))
                if text and "." not in text
                else Form.of(("call", text, *arguments, self._identity(node)))
            )
        if name.startswith(("atomic_", "rand")):
            return Form.of(("call", name, *arguments, self._identity(node)))
        if name == "mod" and len(arguments) == 2:
            return Form.of(("mod", *arguments))
        if name in ("min", "max") and len(arguments) == 2:
            arguments = tuple(sorted(arguments, key=hash))
        return Form.of(("call", name, *arguments))

    def _extent(self, array: ast.expr, axis: int) -> Form:
        root = self.body.root_name(array)
        if root is not None:
            return Form.of(("shape", root, axis))
        return Form.of(("shape", self.form(array), axis))

    def _subscript(self, node: ast.Subscript) -> Form:
        base = node.value
        if isinstance(base, ast.Name):  # `s = a.shape; s[0]`
            definition = self.body.flow.uses.get(base)
            if definition is not None and definition.kind == "assign" and definition.index is None:
                if isinstance(definition.value, ast.Attribute) and definition.value.attr == "shape":
                    base = definition.value
        if isinstance(base, ast.Attribute) and base.attr == "shape":
            axis = self.body.constant(node.slice)
            if isinstance(axis, int):
                return self._extent(base.value, axis)
        indices: list[ast.expr] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Subscript):
            own = list(inner.slice.elts) if isinstance(inner.slice, ast.Tuple) else [inner.slice]
            indices = own + indices
            inner = inner.value
        forms = tuple(self.form(index) for index in indices)
        if isinstance(inner, ast.Name):
            definition = self.body.flow.uses.get(inner)
            if definition is not None and any(one.kind not in ("parameter", "free") for one in definition.origins()):
                root = self.body.root_name(inner)
                if root is None or root == inner.id:
                    return Form.of(("value", self.of_def(definition), *forms))
        root = self.body.root_name(inner)
        return Form.of(("load", root, *forms)) if root is not None else Form.of(("value", self.form(inner), *forms))

    def _attribute(self, node: ast.Attribute) -> Form:
        known = self.body.constant(node)
        if isinstance(known, (int, float)):
            return Form(known)
        definition = self.body.flow.uses.get(node)
        if definition is not None:
            return self.of_def(definition)
        if node.attr == "size":
            root = self.body.root_name(node.value)
            if root is not None:
                return Form.of(("size", root))
        text = dotted(node)
        root_node: ast.expr = node
        while isinstance(root_node, ast.Attribute):
            root_node = root_node.value
        if text is not None and isinstance(root_node, ast.Name):
            base = self.body.flow.uses.get(root_node)
            if base is None or base.kind == "free":
                return Form.of(("free", text))
        return Form.of(("value", self.form(node.value), node.attr))

    # Conditions

    def facts(self, site: Site) -> list[Fact]:
        """What is known to hold at a site: guards, and the ranges of the loops around it."""
        key = id(site)
        found = self._facts.get(key)
        if found is None:
            self._held.append(site)
            found = []
            for guard in site.guards:
                self._conclude(guard.test, guard.positive, found, 0)
            for loop in site.loops:
                if isinstance(loop.node, ast.For):
                    self._range(loop.node, loop.defs, found)
            self._facts[key] = found
        return found

    def conclusions(self, test: ast.expr, positive: bool) -> list[Fact]:
        """What holds where a condition was true, or was false if not ``positive``."""
        found: list[Fact] = []
        self._conclude(test, positive, found, 0)
        return found

    def _conclude(self, test: ast.expr, positive: bool, found: list[Fact], depth: int) -> None:
        if depth > 6:
            return
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self._conclude(test.operand, not positive, found, depth + 1)
        elif isinstance(test, ast.BoolOp):
            if isinstance(test.op, ast.And) == positive:
                for value in test.values:
                    self._conclude(value, positive, found, depth + 1)
        elif isinstance(test, ast.Compare):
            operands = [test.left, *test.comparators]
            if positive or len(test.ops) == 1:
                for op, left, right in zip(test.ops, operands, operands[1:], strict=False):
                    relation = _COMPARISONS.get(type(op))
                    if relation is not None:
                        found.append(
                            _fact(self.form(left), relation if positive else _NEGATED[relation], self.form(right))
                        )
        elif isinstance(test, ast.Name):
            definition = self.body.flow.uses.get(test)
            if definition is not None and definition.kind == "assign" and definition.index is None and definition.value:
                self._conclude(definition.value, positive, found, depth + 1)
        elif isinstance(test, ast.Call) and self.body.builtin(test) == "bool" and len(test.args) == 1:
            self._conclude(test.args[0], positive, found, depth + 1)

    def _range(self, loop: ast.For, defs: tuple[Def, ...], found: list[Fact]) -> None:
        if not isinstance(loop.iter, ast.Call) or self.body.builtin(loop.iter) != "range" or len(defs) < 1:
            return
        arguments = loop.iter.args
        if not 1 <= len(arguments) <= 3:
            return
        variable = self.of_def(defs[0])
        start = self.form(arguments[0]) if len(arguments) > 1 else Form(0)
        stop = self.form(arguments[1] if len(arguments) > 1 else arguments[0])
        step = self.form(arguments[2]) if len(arguments) == 3 else Form(1)
        if step.is_constant and step.constant < 0:
            found.append(_fact(variable, "<=", start))
            found.append(_fact(variable, ">", stop))
        else:
            found.append(_fact(variable, ">=", start))
            found.append(_fact(variable, "<", stop))

    def upper_bounds(self, form: Form, site: Site) -> list[Bound]:
        """Limits that conditions set to a value from above; an equality is one on both sides."""
        return self._bounds(form, site, 1)

    def lower_bounds(self, form: Form, site: Site) -> list[Bound]:
        """Limits that conditions set to a value from below."""
        return self._bounds(form, site, -1)

    def _bounds(self, form: Form, site: Site, sign: int) -> list[Bound]:
        own = set(form.atoms)
        if not own:
            return []
        bounds: list[Bound] = []
        for fact in self.facts(site):
            candidates = [fact.form] if fact.relation != "==" else [fact.form, fact.form.scaled(-1)]
            if fact.relation == "!=":
                continue
            for candidate in candidates:
                # sign·form − limit < 0, so limit = sign·form − candidate, free of the form's own atoms.
                limit = form.scaled(sign).minus(candidate)
                if not own & set(limit.atoms):
                    bounds.append(Bound(limit.scaled(sign), fact.relation == "<"))
        return bounds


def _fact(left: Form, relation: str, right: Form) -> Fact:
    if relation in (">", ">="):
        left, right = right, left
        relation = "<" if relation == ">" else "<="
    return Fact(left.minus(right), relation)

"""Values: moves, constants, comparisons, places and references, gradients kept in locals."""

from __future__ import annotations

from typing import ClassVar

from warp_audit.compiler.ir.expr import (
    Binary,
    Braces,
    Call,
    Cast,
    Dual,
    Expr,
    Field,
    Group,
    Literal,
    Name,
    Primal,
    Unary,
)
from warp_audit.compiler.ir.op import Op
from warp_audit.compiler.ir.statement import Statement
from warp_audit.compiler.ops.kind import Kind, Scope

LOCAL = frozenset({"local"})


class _Assign(Kind, base=True):
    """``left = right;`` classified by what stands on either side."""

    operator: ClassVar[str] = "="

    def fits(self, left: Expr, right: Expr) -> bool:
        raise NotImplementedError

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        left, right = statement.left, statement.right
        assert left is not None
        assert right is not None
        if statement.text != self.operator or not self.fits(left, right):
            return None
        return Op(self, self.name, (left,), (right,))

    def write(self, op: Op) -> Statement:
        return Statement("assign", self.operator, op.results[0], op.operands[0])

    def check(self, op: Op) -> str | None:
        if len(op.results) != 1 or len(op.operands) != 1:
            return f"{self.name} takes one result and one operand"
        return None


def _is_value(expression: Expr) -> bool:
    return isinstance(expression, (Primal, Dual, Name))


class SetField(_Assign):
    """Writes a field of a local struct, or hands an array's gradient to a struct's field."""

    name = "set_field"
    forms = ("assign",)
    effects = LOCAL
    example = "var_3.mass = var_7;"
    rank = 10

    def fits(self, left: Expr, right: Expr) -> bool:
        return isinstance(left, Field) and not any(isinstance(e, Call) for e in left.walk())


class SetReference(_Assign):
    """Writes through a reference parameter (``wp.ref``)."""

    name = "set_ref"
    forms = ("assign",)
    effects = LOCAL
    example = "*var_out = var_3;"
    rank = 11

    def fits(self, left: Expr, right: Expr) -> bool:
        return isinstance(left, Unary) and left.op == "*"


class SetSlot(_Assign):
    """Writes one component of an array element in place."""

    name = "set_slot"
    forms = ("assign",)
    effects = frozenset({"memory"})
    example = "wp::index(var_points, var_0).x = var_4;"
    rank = 12

    def fits(self, left: Expr, right: Expr) -> bool:
        return not _is_value(left) and any(isinstance(e, Call) for e in left.walk())


class Zero(_Assign):
    """Sets a value or an adjoint to zero."""

    name = "zero"
    forms = ("assign",)
    effects = LOCAL
    example = "adj_6 = {};"
    rank = 20

    def fits(self, left: Expr, right: Expr) -> bool:
        return isinstance(right, Braces) and not right.ctype and not right.items


class Literals(_Assign):
    """Sets a value to a number that keeps its full precision."""

    name = "literal"
    forms = ("assign",)
    example = "var_2 = 3000000000ll;"
    rank = 20

    def fits(self, left: Expr, right: Expr) -> bool:
        if isinstance(right, Unary) and right.op == "-":
            right = right.inner
        return isinstance(right, Literal) or (isinstance(right, Name) and right.name in _NAMED)


_NAMED = frozenset({"INFINITY", "NAN", "true", "false"})


class ElementReference(_Assign):
    """The place of a component of an array element: an address, nothing is read."""

    name = "element_ref"
    forms = ("assign",)
    example = "var_4 = &(wp::index(var_points, var_0).x);"
    rank = 21

    def fits(self, left: Expr, right: Expr) -> bool:
        return _is_address(right) and any(isinstance(e, Call) for e in right.walk())


class FieldReference(_Assign):
    """The place of a field of a struct or of an array's descriptor: an address, nothing is read."""

    name = "field_ref"
    forms = ("assign",)
    example = "var_5 = &((var_state).grid);"
    rank = 22

    def fits(self, left: Expr, right: Expr) -> bool:
        return _is_address(right)


def _is_address(expression: Expr) -> bool:
    if isinstance(expression, Cast):
        expression = expression.inner
    return isinstance(expression, Unary) and expression.op == "&"


class PointerValue(_Assign):
    """The numeric address of a place (``wp.address_of``)."""

    name = "pointer_value"
    forms = ("assign",)
    example = "var_3 = (wp::uint64)(&(var_2));"
    rank = 23

    def fits(self, left: Expr, right: Expr) -> bool:
        return isinstance(right, Cast)


class Combine(_Assign):
    """One step of a short-circuit ``and`` or ``or``."""

    name = "combine"
    forms = ("assign",)
    example = "var_1 = var_1 && var_3;"
    rank = 24

    def fits(self, left: Expr, right: Expr) -> bool:
        return isinstance(right, Binary)


class Negate(_Assign):
    """The negative of a value, as deterministic scatters write it."""

    name = "negate"
    forms = ("assign",)
    example = "var_9 = -(var_8);"
    rank = 25

    def fits(self, left: Expr, right: Expr) -> bool:
        return isinstance(right, Unary) and right.op == "-"


class Move(_Assign):
    """Copies a value into another variable."""

    name = "move"
    forms = ("assign",)
    example = "var_4 = var_2;"
    rank = 30

    def fits(self, left: Expr, right: Expr) -> bool:
        if isinstance(right, Unary) and right.op == "*":
            right = right.inner
        while isinstance(right, Field):
            right = right.base
        return _is_value(right)


class Accumulate(_Assign):
    """Adds into a place, mostly an adjoint: the reverse of handing a value on."""

    name = "accumulate"
    forms = ("assign",)
    effects = frozenset({"local", "adjoint"})
    example = "adj_3 += adj_ret;"
    operator = "+="
    rank = 31

    def fits(self, left: Expr, right: Expr) -> bool:
        return not isinstance(right, Literal)


class Advance(Kind):
    """Steps the counter of a loop whose range is constant, forward or back."""

    name = "advance"
    forms = ("assign",)
    effects = LOCAL
    example = "var_0 += 1;"
    rank = 32

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        if statement.text not in ("+=", "-=") or not isinstance(statement.right, Literal):
            return None
        assert statement.left is not None
        return Op(self, self.name, (statement.left,), (statement.right,), {"by": statement.text})

    def write(self, op: Op) -> Statement:
        return Statement("assign", op.attrs["by"], op.results[0], op.operands[0])

    def check(self, op: Op) -> str | None:
        return None if op.attrs.get("by") in ("+=", "-=") else "advance needs by: += or -="


class Compare(Kind):
    """A comparison, or a chain of them as in ``a < b < c``; ``by`` lists the operators."""

    name = "compare"
    forms = ("assign",)
    example = "var_3 = (var_1 < var_2);"
    rank = 19

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        left, right = statement.left, statement.right
        if statement.text != "=" or not isinstance(right, Group) or left is None:
            return None
        chain = _unchain(right)
        if chain is None:
            return None
        return Op(self, self.name, (left,), chain[0], {"by": " ".join(chain[1])})

    def write(self, op: Op) -> Statement:
        operators = op.attrs["by"].split()
        built: Expr = Group(Binary(operators[0], op.operands[0], op.operands[1]))
        for i, operator in enumerate(operators[1:], 1):
            step = Group(Binary(operator, op.operands[i], op.operands[i + 1]))
            built = Group(Binary("&&", built, step))
        return Statement("assign", "=", op.results[0], built)

    def check(self, op: Op) -> str | None:
        operators = op.attrs.get("by", "").split()
        if not operators or len(op.operands) != len(operators) + 1 or len(op.results) != 1:
            return "compare needs one operand more than operators"
        if wrong := [o for o in operators if o not in _COMPARISONS]:
            return f"{wrong[0]!r} is not a comparison"
        return None


_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})


def _unchain(expression: Expr) -> tuple[tuple[Expr, ...], list[str]] | None:
    if not isinstance(expression, Group) or not isinstance(expression.inner, Binary):
        return None
    binary = expression.inner
    if binary.op in _COMPARISONS:
        return (binary.left, binary.right), [binary.op]
    if binary.op != "&&":
        return None
    before, last = _unchain(binary.left), _unchain(binary.right)
    if before is None or last is None or len(last[0]) != 2 or before[0][-1] != last[0][0]:
        return None
    return (*before[0], last[0][1]), [*before[1], *last[1]]


class ViewReference(Kind):
    """A view that the reverse pass takes of an array to find a gradient's place."""

    name = "view_ref"
    forms = ("let",)
    example = "auto _wp_ref_view_3 = wp::view(adj_values, var_0);"

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        assert statement.right is not None
        return Op(self, self.name, (Name(statement.text),), (statement.right,))

    def write(self, op: Op) -> Statement:
        name = op.results[0]
        assert isinstance(name, Name)
        return Statement("let", name.name, right=op.operands[0])

    def check(self, op: Op) -> str | None:
        if len(op.results) != 1 or not isinstance(op.results[0], Name) or len(op.operands) != 1:
            return "view_ref takes one plain name and one operand"
        return None


class GradClear(Kind):
    """Sets the gradient of a tile to zero at the start of a loop's reverse iteration."""

    name = "grad_clear"
    forms = ("call",)
    effects = frozenset({"adjoint", "block"})
    example = "adj_7.grad_zero();"
    rank = 10

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        call = statement.right
        if isinstance(call, Call) and isinstance(call.function, Field) and call.function.name == "grad_zero":
            return Op(self, self.name, operands=(call.function.base,))
        return None

    def write(self, op: Op) -> Statement:
        return Statement("call", right=Call(Field(op.operands[0], "grad_zero"), ()))

"""Where an expression needs parentheses around it."""

from __future__ import annotations

import libcst as cst

# Python's grammar, from what binds loosest to what binds closest.
_LOOSEST, _LAMBDA, _CONDITION, _OR, _AND, _NOT, _COMPARISON = range(7)
_BIT_OR, _BIT_XOR, _BIT_AND, _SHIFT, _SUM, _PRODUCT, _SIGN, _POWER, _AWAIT, _ATOM = range(7, 17)

_BINARY: dict[type[cst.BaseBinaryOp], int] = {
    cst.BitOr: _BIT_OR, cst.BitXor: _BIT_XOR, cst.BitAnd: _BIT_AND, cst.LeftShift: _SHIFT, cst.RightShift: _SHIFT,
    cst.Add: _SUM, cst.Subtract: _SUM, cst.Multiply: _PRODUCT, cst.Divide: _PRODUCT, cst.FloorDivide: _PRODUCT,
    cst.Modulo: _PRODUCT, cst.MatrixMultiply: _PRODUCT, cst.Power: _POWER,
}  # fmt: skip
_OWN: dict[type[cst.CSTNode], int] = {
    cst.NamedExpr: _LOOSEST, cst.Yield: _LOOSEST, cst.Tuple: _LOOSEST, cst.GeneratorExp: _LOOSEST,
    cst.Lambda: _LAMBDA, cst.IfExp: _CONDITION, cst.Comparison: _COMPARISON, cst.Await: _AWAIT,
}  # fmt: skip
# What takes any expression but a bare tuple, `yield` or `:=`.
_PLAIN = (
    cst.Arg, cst.Element, cst.DictElement, cst.Slice, cst.Index, cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Return,
    cst.Expr, cst.If, cst.While, cst.Assert, cst.For, cst.WithItem, cst.Raise, cst.Decorator, cst.Annotation, cst.Param,
    cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp, cst.Lambda, cst.FormattedStringExpression, cst.Match,
    cst.ExceptHandler, cst.NamedExpr, cst.Yield,
)  # fmt: skip
# What takes those too.
_BARE = (cst.Assign, cst.Expr)


def needs(node: cst.BaseExpression, parent: cst.CSTNode | None, old: cst.BaseExpression) -> bool:
    """Whether an expression needs parentheses to stand where an old one stands in its parent."""
    if node.lpar:
        return False
    if isinstance(parent, _BARE) and isinstance(node, (cst.Tuple, cst.Yield)):
        return False
    if isinstance(parent, cst.Attribute) and isinstance(node, cst.Integer):
        return True
    return _tightness(node) < _wanted(parent, old)


def bracketed(node: cst.BaseExpression) -> cst.BaseExpression:
    """An expression in parentheses."""
    return node.with_changes(lpar=[cst.LeftParen(), *node.lpar], rpar=[*node.rpar, cst.RightParen()])


def _tightness(node: cst.BaseExpression) -> int:
    if isinstance(node, cst.BinaryOperation):
        return _BINARY[type(node.operator)]
    if isinstance(node, cst.BooleanOperation):
        return _OR if isinstance(node.operator, cst.Or) else _AND
    if isinstance(node, cst.UnaryOperation):
        return _NOT if isinstance(node.operator, cst.Not) else _SIGN
    return _OWN.get(type(node), _ATOM)


def _wanted(parent: cst.CSTNode | None, old: cst.BaseExpression) -> int:
    if isinstance(parent, cst.BinaryOperation):
        own = _BINARY[type(parent.operator)]
        if isinstance(parent.operator, cst.Power):
            return _AWAIT if parent.left is old else _SIGN
        return own if parent.left is old else own + 1
    if isinstance(parent, cst.BooleanOperation):
        return (_OR if isinstance(parent.operator, cst.Or) else _AND) + 1
    if isinstance(parent, cst.UnaryOperation):
        return _NOT if isinstance(parent.operator, cst.Not) else _SIGN
    if isinstance(parent, (cst.Comparison, cst.ComparisonTarget, cst.StarredElement, cst.StarredDictElement)):
        return _BIT_OR
    if isinstance(parent, cst.IfExp):
        return _LAMBDA if parent.orelse is old else _OR
    if isinstance(parent, (cst.CompFor, cst.CompIf)):
        return _OR
    if isinstance(parent, _PLAIN):
        return _LAMBDA
    return _ATOM

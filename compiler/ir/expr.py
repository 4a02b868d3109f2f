"""Operands: the expressions of the C++ dialect that Warp's code generator writes.

One grammar, two spellings. In CUDA C++ a primal value is ``var_7`` and its adjoint
``adj_7``; in a ``.wir`` file they are ``%7`` and ``^7``. Everything else is spelled alike,
so that a reader who knows one knows the other. Printing is exact: an expression that
was read prints back to the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_DEPTH = 100  # nesting of one expression; Warp's own is below 10


class Spelling:
    """How values are written: ``CPP`` in generated code, ``WIR`` in IR text."""

    __slots__ = ("dual", "primal")

    def __init__(self, primal: str, dual: str) -> None:
        self.primal = primal
        self.dual = dual


CPP = Spelling("var_", "adj_")
WIR = Spelling("%", "^")


class ExprError(ValueError):
    """The text is not an expression of the dialect; the message says where."""


class Expr:
    """An operand. Subclasses are immutable and compare by content."""

    __slots__ = ()

    def text(self, how: Spelling) -> str:
        """The expression as written in one of the two spellings."""
        raise NotImplementedError

    def children(self) -> tuple[Expr, ...]:
        """Direct sub-expressions, left to right."""
        return ()

    def walk(self) -> Iterator[Expr]:
        """This expression and everything below it, outermost first."""
        yield self
        for child in self.children():
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class Primal(Expr):
    """A value of the forward computation: ``%name``."""

    name: str

    def text(self, how: Spelling) -> str:
        return how.primal + self.name


@dataclass(frozen=True, slots=True)
class Dual(Expr):
    """The adjoint (gradient) of a value: ``^name``; ``^ret`` is that of the result."""

    name: str

    def text(self, how: Spelling) -> str:
        return how.dual + self.name


@dataclass(frozen=True, slots=True)
class Name(Expr):
    """Any other name: a native function with its template arguments, ``ret_0``, ``_e``."""

    name: str

    def text(self, how: Spelling) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Literal(Expr):
    """A number or a quoted string, as C++ spells it."""

    value: str

    def text(self, how: Spelling) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Field(Expr):
    """``base.name`` or ``base->name``."""

    base: Expr
    name: str
    arrow: bool = False

    def text(self, how: Spelling) -> str:
        return f"{self.base.text(how)}{'->' if self.arrow else '.'}{self.name}"

    def children(self) -> tuple[Expr, ...]:
        return (self.base,)


@dataclass(frozen=True, slots=True)
class Subscript(Expr):
    """``base[index]``."""

    base: Expr
    index: Expr

    def text(self, how: Spelling) -> str:
        return f"{self.base.text(how)}[{self.index.text(how)}]"

    def children(self) -> tuple[Expr, ...]:
        return (self.base, self.index)


@dataclass(frozen=True, slots=True)
class Group(Expr):
    """A parenthesised expression."""

    inner: Expr

    def text(self, how: Spelling) -> str:
        return f"({self.inner.text(how)})"

    def children(self) -> tuple[Expr, ...]:
        return (self.inner,)


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    """A prefix operator: ``&`` (address), ``*`` (dereference), ``!``, ``-``, ``~``."""

    op: str
    inner: Expr

    def text(self, how: Spelling) -> str:
        return self.op + self.inner.text(how)

    def children(self) -> tuple[Expr, ...]:
        return (self.inner,)


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """``(type)inner`` with the C++ type as Warp spells it."""

    ctype: str
    inner: Expr

    def text(self, how: Spelling) -> str:
        return f"({self.ctype}){self.inner.text(how)}"

    def children(self) -> tuple[Expr, ...]:
        return (self.inner,)


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """``left op right`` with one space on either side."""

    op: str
    left: Expr
    right: Expr

    def text(self, how: Spelling) -> str:
        return f"{self.left.text(how)} {self.op} {self.right.text(how)}"

    def children(self) -> tuple[Expr, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, slots=True)
class Choice(Expr):
    """``condition ? first : second``."""

    condition: Expr
    first: Expr
    second: Expr

    def text(self, how: Spelling) -> str:
        return f"{self.condition.text(how)} ? {self.first.text(how)} : {self.second.text(how)}"

    def children(self) -> tuple[Expr, ...]:
        return (self.condition, self.first, self.second)


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """``function(arguments)``."""

    function: Expr
    arguments: tuple[Expr, ...]

    def text(self, how: Spelling) -> str:
        inner = ", ".join(a.text(how) for a in self.arguments)
        return f"{self.function.text(how)}({inner})"

    def children(self) -> tuple[Expr, ...]:
        return (self.function, *self.arguments)


@dataclass(frozen=True, slots=True)
class Braces(Expr):
    """An initializer list ``{a, b}``, or ``type{a, b}``."""

    ctype: str
    items: tuple[Expr, ...]

    def text(self, how: Spelling) -> str:
        return f"{self.ctype}{{{', '.join(i.text(how) for i in self.items)}}}"

    def children(self) -> tuple[Expr, ...]:
        return self.items


@dataclass(frozen=True, slots=True)
class Accessor(Expr):
    """A component selector ``[&](auto& _e) -> auto& { return _e…; }`` of the slot atomics."""

    path: Expr

    def text(self, how: Spelling) -> str:
        return f"[&](auto& _e) -> auto& {{ return {self.path.text(how)}; }}"

    def children(self) -> tuple[Expr, ...]:
        return (self.path,)


@dataclass(frozen=True, slots=True)
class Steps(Expr):
    """Gradient storage found step by step: ``([&]() -> type { … return x; }())``.

    A step is ``auto name = value;``, ``if (!value) return {};`` (empty name, guard) or the
    last ``return value;``.
    """

    ctype: str
    steps: tuple[tuple[str, Expr], ...]  # ("name", value) | ("?", guard) | ("=", result)

    def text(self, how: Spelling) -> str:
        lines = []
        for name, value in self.steps:
            if name == "?":
                lines.append(f"if (!{value.text(how)}) return {{}};")
            elif name == "=":
                lines.append(f"return {value.text(how)};")
            else:
                lines.append(f"auto {name} = {value.text(how)};")
        return f"([&]() -> {self.ctype} {{ {' '.join(lines)} }}())"

    def children(self) -> tuple[Expr, ...]:
        return tuple(value for _, value in self.steps)


@dataclass(frozen=True, slots=True)
class Embedded(Expr):
    """A statement as a macro's argument (deterministic mode): ``left = right;`` or ``right;``."""

    left: Expr | None
    right: Expr

    def text(self, how: Spelling) -> str:
        if self.left is None:
            return f"{self.right.text(how)};"
        return f"{self.left.text(how)} = {self.right.text(how)};"

    def children(self) -> tuple[Expr, ...]:
        return (self.right,) if self.left is None else (self.left, self.right)


_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_~]\w*)*")
_NUMBER = re.compile(r"(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[uUlLfF]*")
_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
_VALUE = re.compile(r"\w+")
_CASTABLE = re.compile(r"\(((?:const )?(?:wp::)?[A-Za-z_][\w:]*(?:<[^()]*>)?\s?[*&]*)\)(?=[&*(%^A-Za-z_])")
_ACCESSOR = re.compile(r"\[&\]\(auto& _e\) -> auto& \{ return ")
_STEPS = re.compile(r"\(\[&\]\(\) -> (.+?) \{ ")
_BINARY = re.compile(r" (==|!=|<=|>=|&&|\|\||[<>+\-*/%]) ")


class Reader:
    """Recursive descent over one piece of text."""

    __slots__ = ("at", "cpp", "depth", "source", "subscripts")

    def __init__(self, source: str, how: Spelling, subscripts: bool = True) -> None:
        self.source = source
        self.subscripts = subscripts
        self.at = 0
        self.depth = 0
        self.cpp = how is CPP

    def fail(self, wanted: str) -> ExprError:
        near = self.source[self.at : self.at + 24]
        return ExprError(f"expected {wanted} at column {self.at + 1}, near {near!r}")

    def take(self, token: str) -> None:
        if not self.source.startswith(token, self.at):
            raise self.fail(repr(token))
        self.at += len(token)

    def expression(self) -> Expr:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ExprError(f"expression nested deeper than {MAX_DEPTH}")
        left = self.operand()
        while match := _BINARY.match(self.source, self.at):
            self.at = match.end()
            left = Binary(match[1], left, self.operand())
        if self.source.startswith(" ? ", self.at):
            self.at += 3
            first = self.expression()
            self.take(" : ")
            left = Choice(left, first, self.expression())
        self.depth -= 1
        return left

    def operand(self) -> Expr:
        source, at = self.source, self.at
        if at >= len(source):
            raise self.fail("an expression")
        first = source[at]
        if first in "&*!-~" and not (first == "-" and source[at + 1 : at + 2].isdigit()):
            self.at += 1
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise ExprError(f"expression nested deeper than {MAX_DEPTH}")
            inner = self.operand()
            self.depth -= 1
            return Unary(first, inner)
        return self.postfix(self.primary(first))

    def primary(self, first: str) -> Expr:
        source, at = self.source, self.at
        if first == "(":
            if match := _STEPS.match(source, at):
                return self.steps(match)
            if (match := _CASTABLE.match(source, at)) and not self.is_value(match[1]):
                self.at = match.end()
                return Cast(match[1], self.operand())
            self.at += 1
            inner = self.expression()
            self.take(")")
            return Group(inner)
        if first == "{":
            return Braces("", self.items("{", "}"))
        if first == '"':
            if match := _STRING.match(source, at):
                self.at = match.end()
                return Literal(match[0])
            raise self.fail("the end of a string")
        if first == "[" and (match := _ACCESSOR.match(source, at)):
            self.at = match.end()
            path = self.expression()
            self.take("; }")
            return Accessor(path)
        if first.isdigit() or first in "-.":
            if match := _NUMBER.match(source, at + (first == "-")):
                self.at = match.end()
                return Literal(source[at : self.at])
            raise self.fail("a number")
        if not self.cpp and first in "%^":
            if match := _VALUE.match(source, at + 1):
                self.at = match.end()
                return Primal(match[0]) if first == "%" else Dual(match[0])
            raise self.fail("a value's name")
        if match := _IDENTIFIER.match(source, at):
            self.at = match.end()
            return self.named(match[0])
        raise self.fail("an expression")

    def is_value(self, text: str) -> bool:
        return self.cpp and text.startswith(("var_", "adj_"))

    def named(self, name: str) -> Expr:
        source = self.source
        if source.startswith("<", self.at):
            end = self.template_end()
            if end:
                name += source[self.at : end]
                self.at = end
        following = source[self.at : self.at + 1]
        if following == "{":
            return Braces(name, self.items("{", "}"))
        if self.cpp and following != "(":
            if name.startswith("var_"):
                return Primal(name[4:])
            if name.startswith("adj_"):
                return Dual(name[4:])
        return Name(name)

    def template_end(self) -> int:
        """Where the template arguments that open here end; 0 when ``<`` is a comparison."""
        depth = 0
        for position in range(self.at, len(self.source)):
            char = self.source[position]
            if char == "<":
                depth += 1
            elif char == ">":
                depth -= 1
                if not depth:
                    return position + 1
        return 0

    def items(self, opening: str, closing: str) -> tuple[Expr, ...]:
        self.take(opening)
        found: list[Expr] = []
        if self.source.startswith(closing, self.at):
            self.at += 1
            return ()
        while True:
            found.append(self.argument())
            if self.source.startswith(closing, self.at):
                self.at += 1
                return tuple(found)
            self.take(", ")

    def argument(self) -> Expr:
        first = self.expression()
        if self.source.startswith(" = ", self.at):
            self.at += 3
            second = self.expression()
            self.take(";")
            return Embedded(first, second)
        if self.source.startswith(";", self.at):
            self.at += 1
            return Embedded(None, first)
        return first

    def postfix(self, base: Expr) -> Expr:
        source = self.source
        while self.at < len(source):
            char = source[self.at]
            if char == "(":
                base = Call(base, self.items("(", ")"))
            elif char == "." or source.startswith("->", self.at):
                arrow = char != "."
                match = _VALUE.match(source, self.at + (2 if arrow else 1))
                if not match:
                    raise self.fail("a field's name")
                self.at = match.end()
                base = Field(base, match[0], arrow)
            elif char == "[" and self.subscripts:
                self.at += 1
                base = Subscript(base, self.expression())
                self.take("]")
            else:
                break
        return base

    def steps(self, match: re.Match[str]) -> Expr:
        self.at = match.end()
        found: list[tuple[str, Expr]] = []
        while True:
            if self.source.startswith("auto ", self.at):
                self.at += 5
                name = _VALUE.match(self.source, self.at)
                if not name:
                    raise self.fail("a name")
                self.at = name.end()
                self.take(" = ")
                found.append((name[0], self.expression()))
                self.take("; ")
            elif self.source.startswith("if (!", self.at):
                self.at += 5
                found.append(("?", self.expression()))
                self.take(") return {}; ")
            else:
                self.take("return ")
                found.append(("=", self.expression()))
                self.take("; }())")
                return Steps(match[1], tuple(found))


def values(expression: Expr) -> Iterator[Primal | Dual]:
    """The primal and dual values named anywhere in an expression."""
    for part in expression.walk():
        if isinstance(part, (Primal, Dual)):
            yield part

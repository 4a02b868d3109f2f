"""Statements of Warp's generated code, between text and typed ops.

A statement is read from one line of C++, and an op's kind turns it into fields; printing
goes the same way back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from warp_audit.compiler.ir.expr import CPP, Expr, ExprError, Reader, Spelling


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its form and its parts.

    Forms: ``note`` (text), ``open`` (condition), ``close``, ``exit`` (condition, text = label),
    ``goto`` (text), ``label`` (text), ``return`` (right, or none), ``continue``,
    ``let`` (text = name, right), ``assign`` (left, text = operator, right), ``call`` (right),
    ``assert`` (text = quoted source, right = condition).
    """

    form: str
    text: str = ""
    left: Expr | None = None
    right: Expr | None = None

    def cpp(self) -> str:
        """The statement as one line of C++, without indentation."""
        return self.spell(CPP)

    def spell(self, how: Spelling) -> str:
        """The statement in either spelling of values."""
        left = self.left.text(how) if self.left else ""
        right = self.right.text(how) if self.right else ""
        match self.form:
            case "note":
                return self.text
            case "open":
                return f"if ({right}) {{"
            case "close":
                return "}"
            case "exit":
                return f"if ({right}) goto {self.text};"
            case "goto":
                return f"goto {self.text};"
            case "label":
                return f"{self.text}:;"
            case "return":
                return f"return {right};" if right else "return;"
            case "continue":
                return "continue;"
            case "let":
                return f"auto {self.text} = {right};"
            case "assign":
                return f"{left} {self.text} {right};"
            case "call":
                return f"{right};"
            case "assert":
                return f"assert(((void){self.text},{right}));"
        raise ValueError(self.form)


_GOTO = re.compile(r"goto (\w+);")
_LABEL = re.compile(r"(\w+):;")
_EXIT = re.compile(r"if \((.*)\) goto (\w+);")
_LET = re.compile(r"auto (\w+) = (.*);")
_ASSERT = re.compile(r'assert\(\(\(void\)("(?:\\.|[^"\\])*"),(.*)\)\);')
_ASSIGN = re.compile(r" (=|\+=|-=) ")


def read_statement(line: str) -> Statement:
    """The statement on one stripped line of generated C++.

    Raises:
        ExprError: the line is not of the dialect.
    """
    if line.startswith("//"):
        return Statement("note", line)
    if line == "}":
        return Statement("close")
    if line.startswith("if ("):
        if line.endswith(") {"):
            return Statement("open", right=_whole(line[4:-3]))
        if match := _EXIT.fullmatch(line):
            return Statement("exit", match[2], right=_whole(match[1]))
    if line.startswith("return"):
        if line == "return;":
            return Statement("return")
        if line.startswith("return ") and line.endswith(";"):
            return Statement("return", right=_whole(line[7:-1]))
    if line == "continue;":
        return Statement("continue")
    if match := _GOTO.fullmatch(line):
        return Statement("goto", match[1])
    if match := _LABEL.fullmatch(line):
        return Statement("label", match[1])
    if match := _LET.fullmatch(line):
        return Statement("let", match[1], right=_whole(match[2]))
    if match := _ASSERT.fullmatch(line):
        return Statement("assert", match[1], right=_whole(match[2]))
    if not line.endswith(";"):
        raise ExprError("expected ';' at the end")
    body = line[:-1]
    reader = Reader(body, CPP)
    first = reader.operand()
    if reader.at == len(body):
        return Statement("call", right=first)
    if match := _ASSIGN.match(body, reader.at):
        reader.at = match.end()
        right = reader.expression()
        if reader.at == len(body):
            return Statement("assign", match[1], first, right)
    raise reader.fail("the end of the statement")


def _whole(text: str) -> Expr:
    reader = Reader(text, CPP)
    found = reader.expression()
    if reader.at != len(text):
        raise reader.fail("the end")
    return found

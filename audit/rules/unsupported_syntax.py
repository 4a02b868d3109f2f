"""Declares the rule ``unsupported-syntax``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Fix, Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


_STATEMENTS = {
    ast.Try: "exception handling", ast.Raise: "raising an exception", ast.With: "a with block", ast.Delete: "del",
    ast.ClassDef: "a class", ast.FunctionDef: "a nested function", ast.Global: "global", ast.Nonlocal: "nonlocal",
    ast.Import: "an import", ast.ImportFrom: "an import", ast.AnnAssign: "an annotated assignment", ast.Match: "match",
}  # fmt: skip
_EXPRESSIONS = {
    ast.List: "a list", ast.Dict: "a dictionary", ast.Set: "a set", ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension", ast.DictComp: "a comprehension", ast.GeneratorExp: "a generator",
    ast.Lambda: "a lambda",
    ast.JoinedStr: "an f-string", ast.NamedExpr: "an assignment expression", ast.Await: "await", ast.Yield: "yield",
    ast.YieldFrom: "yield from", ast.Starred: "unpacking by *",
}  # fmt: skip


class UnsupportedSyntax(Rule):
    """A kernel uses Python that Warp cannot translate.

    What it finds: statements and expressions in kernels and funcs outside the part of Python that Warp knows:
    annotated assignments, ``in`` and ``is``, lists, dictionaries, comprehensions, lambdas, f-strings, exceptions,
    nested functions.

    Why it matters: Warp stops at the first of them, and only when the module is built, that is at the first launch.

    Instead: ``k == 1 or k == 2`` for ``k in (1, 2)``; ``wp.vec3(…)`` or an array for a list; a plain assignment.
    """

    code = "WPA608"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#882",)
    fix_safety = Safety.SAFE
    BAD = (
        """
        @wp.func
        def pick(k: int, x: float):
            scale: float = 2.0  # error: WPA608
            table = {1: 2.0}  # error: WPA608
            if k not in (1, 2):  # error: WPA608
                return x * scale
            try:  # error: WPA608
                y = x
            except ValueError:
                y = 0.0
            z = [v for v in (x, y)]  # error: WPA608
            return y

        @wp.kernel
        def spread(a: wp.array(dtype=float), *rest: float):  # error: WPA608
            i = wp.tid()
            low = high = a[i]  # error: WPA608
            best = None  # error: WPA608
            for x in a:  # error: WPA608
                low = wp.min(low, x)
            for k in (0, 2):  # error: WPA608
                a[k] = 0.0
            if (n := i + 1) > 2:  # error: WPA608
                a[i] = 1.0
        """,
    )
    GOOD = (
        """
        LEVELS = [1, 2, 3]

        @wp.func
        def pick(k: int, x: float, name: str = "none"):
            '''Docstrings, asserts and conditional expressions are known.'''
            assert x > 0.0
            if k == 1 or k == 2:
                return x
            a, b = x, 2.0 * x
            if wp.static(3 in LEVELS):
                a = wp.static([1.0, 2.0][0])
            t = wp.tile_zeros(shape=[2, 2], dtype=float)
            return a if a > b else b
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function.kind == "integrand":
            return
        skipped = _skipped(function)
        for statement in function.flow.steps:
            word = _STATEMENTS.get(type(statement))
            if word is not None and not _is_placeholder(function, statement):
                fix = None
                if isinstance(statement, ast.AnnAssign) and statement.value is not None:
                    text = f"{ast.unparse(statement.target)} = {ast.unparse(statement.value)}"
                    fix = self.mend("leave the annotation out", Replace(Place.of(statement), text))
                yield self.at(function, statement, f"Warp has no translation for {word} in a kernel", fix=fix)
            word = _unsupported_part(function, statement)
            if word is not None:
                yield self.at(function, statement, f"Warp has no translation for {word} in a kernel")
        yield from self._signature(function)
        for kind, word in _EXPRESSIONS.items():
            for node in function.flow.of(kind):
                if node not in skipped and not (isinstance(node, ast.List) and isinstance(node.ctx, ast.Store)):
                    yield self.at(function, node, f"Warp has no translation for {word} in a kernel")
        for node in function.flow.of(ast.Compare):
            for op in node.ops:  # type: ignore[attr-defined]
                if isinstance(op, (ast.In, ast.NotIn, ast.Is, ast.IsNot)) and node not in skipped:
                    word = {"In": "in", "NotIn": "not in", "Is": "is", "IsNot": "is not"}[type(op).__name__]
                    yield self.at(
                        function, node, f"Warp has no translation for '{word}' in a kernel", fix=self._in(node)
                    )

    def _signature(self, function: DeviceFunction) -> Iterator[Finding]:
        arguments = function.node.args
        for argument, mark in ((arguments.vararg, "*"), (arguments.kwarg, "**")):
            if argument is not None and function.kind in ("kernel", "func"):
                yield self.at(
                    function,
                    argument,
                    f"Warp cannot call '{function.name}' with '{mark}{argument.arg}': it wants each parameter",
                )

    def _in(self, node: ast.AST) -> Fix | None:
        """``a in (1, 2)`` as ``a == 1 or a == 2``, where the left side is cheap to repeat."""
        if (
            not isinstance(node, ast.Compare)
            or len(node.ops) != 1
            or not isinstance(node.left, (ast.Name, ast.Attribute))
        ):
            return None
        container = node.comparators[0]
        if not isinstance(container, (ast.Tuple, ast.List, ast.Set)) or not container.elts:
            return None
        left, negated = ast.unparse(node.left), isinstance(node.ops[0], ast.NotIn)
        if not isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return None
        sign, word = ("!=", " and ") if negated else ("==", " or ")
        text = word.join(f"{left} {sign} {ast.unparse(item)}" for item in container.elts)
        return self.mend("compare with each", Replace(Place.of(node), text))


def _unsupported_part(function: DeviceFunction, statement: ast.stmt) -> str | None:
    """What Warp cannot translate about a statement of a kind that it knows."""
    if isinstance(statement, ast.Assign):
        if len(statement.targets) > 1:
            return "several targets of one value"
        target = statement.targets[0]
        if isinstance(target, (ast.Tuple, ast.List)) and any(isinstance(item, ast.Starred) for item in target.elts):
            return "unpacking by *"
        value = statement.value
        if isinstance(value, ast.Constant) and (value.value is None or isinstance(value.value, (complex, bytes))):
            return f"the value {ast.unparse(value)}"
    if isinstance(statement, ast.For) and (
        isinstance(statement.iter, (ast.Tuple, ast.Constant)) or function.array_type(statement.iter) is not None
    ):
        return f"a loop over '{ast.unparse(statement.iter)}'"
    return None


def _is_placeholder(function: DeviceFunction, statement: ast.stmt) -> bool:
    """``raise NotImplementedError`` as a whole body: a func that another one replaces, never built."""
    return isinstance(statement, ast.Raise) and statement in function.node.body[:2]


def _skipped(function: DeviceFunction) -> set[ast.AST]:
    """Nodes that Python evaluates, and lists that builtins take for tuples."""
    found: set[ast.AST] = set()
    for call, _ in function.calls():
        name = function.builtin(call)
        if name == "static":
            found.update(walk(call))
        elif name is not None:
            arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
            found.update(argument for argument in arguments if isinstance(argument, (ast.List, ast.Starred)))
        found.update(argument for argument in call.args if isinstance(argument, ast.Starred))
    for node in function.flow.of(ast.Subscript):
        found.add(node.slice)  # type: ignore[attr-defined]
    return found

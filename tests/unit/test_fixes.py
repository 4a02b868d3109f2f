"""Fixes carried out on text: what is edited, what is left, and that nothing else changes."""

import ast
import importlib.util
import random
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warp_audit.audit.edits import Delete, Fix, InsertBefore, Place, Replace, Safety, SetKeyword, Wrap
from warp_audit.audit.fixes import apply


def place(text, part, number=0):
    """Where a part of a text stands, in characters."""
    start = -1
    for _ in range(number + 1):
        start = text.index(part, start + 1)

    def point(offset):
        return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1)

    return Place(*point(start), *point(start + len(part)))


def fixed(text, *edits, safety=Safety.UNSAFE):
    return apply(text, [Fix("a fix", edits, safety)], in_bytes=False).text


def replaced(text, part, code, number=0):
    return fixed(text, Replace(place(text, part, number), code))


def wrapped(text, part, before, after):
    return fixed(text, Wrap(place(text, part), before, after))


@pytest.mark.parametrize(
    ("text", "part", "code", "result"),
    [
        ("x = a * b\n", "a", "c + d", "x = (c + d) * b\n"),
        ("x = (a) * b\n", "a", "c + d", "x = (c + d) * b\n"),
        ("x = a + b\n", "a", "c + d", "x = c + d + b\n"),
        ("x = a - b\n", "b", "c - d", "x = a - (c - d)\n"),
        ("x = a ** b\n", "a", "-c", "x = (-c) ** b\n"),
        ("x = a ** b\n", "b", "-c", "x = a ** -c\n"),
        ("x = not a\n", "a", "b and c", "x = not (b and c)\n"),
        ("x = a if b else c\n", "b", "p if q else r", "x = a if (p if q else r) else c\n"),
        ("x = a.b\n", "a", "1", "x = (1).b\n"),
        ("f(a, b)\n", "a", "c, d", "f((c, d), b)\n"),
        ("f(a, b)\n", "a", "c if d else e", "f(c if d else e, b)\n"),
        ("f(*a)\n", "a", "c if d else e", "f(*c if d else e)\n"),
        ("x = [i for i in a]\n", "a", "b if c else d", "x = [i for i in (b if c else d)]\n"),
        ("x = a\n", "a", "1, 2", "x = 1, 2\n"),
        ("return_ = 0\nif-a: pass\n", "-a", "b", "return_ = 0\nif(b): pass\n"),
        ("a[i, j] = 0\n", "i, j", "j", "a[j] = 0\n"),
        ("a[1:2] = 0\n", "1:2", "3", "a[3] = 0\n"),
        ("f(dim=1, x=2)\n", "dim=1", "dims=(1,)", "f(dims=(1,), x=2)\n"),
        ("def f(a, b: int = 3): pass\n", "b: int", "b: float", "def f(a, b: float = 3): pass\n"),
        ("x = (\n    a  # why\n)\n", "a", "b", "x = (\n    b  # why\n)\n"),
        ("x = (1, 2)\n", "(1, 2)", "y", "x = y\n"),
        ("x = ((1, 2))\n", "(1, 2)", "y", "x = (y)\n"),
        (
            "@wp.kernel\n# note\ndef f(): pass\n",
            "wp.kernel",
            "wp.kernel(x=1)",
            "@wp.kernel(x=1)\n# note\ndef f(): pass\n",
        ),
        ("x = a\n", "a", "b +\n    c", "x = (b +\n    c)\n"),
        ("x = 1; y = 2  # c\n", "y = 2", "z = 3; w = 4", "x = 1; z = 3; w = 4  # c\n"),
        ("x = 1  # c\n", "x = 1", "y = 2\nz = 3", "y = 2\nz = 3  # c\n"),
        ("def f():\n\tx = 1\n", "x = 1", "if a:\n    b = 1", "def f():\n\tif a:\n\t\tb = 1\n"),
    ],
)
def test_replace(text, part, code, result):
    assert replaced(text, part, code) == result


@pytest.mark.parametrize(
    ("text", "part", "before", "after", "result"),
    [
        ("x = a + b\n", "a + b", "float(", ")", "x = float(a + b)\n"),
        ("x = (a + b) * c\n", "a + b", "float(", ")", "x = float(a + b) * c\n"),
        ("x = (a + b) * c\n", "a + b", "-", "", "x = -(a + b) * c\n"),
        ("x = b ** 2\n", "b", "-", "", "x = (-b) ** 2\n"),
        ("x = a if b else c\n", "b", "", " and d", "x = a if b and d else c\n"),
        ("x = (\n    a  # one\n    + b  # two\n)\n", "a  # one\n    + b", "int(", ")",
         "x = (\n    int(a  # one\n    + b)  # two\n)\n"),
        ("def f():\n    return(a)\n", "a", "g(", ")", "def f():\n    return(g(a))\n"),
        ("x = [*a, (1, 2)]\n", "(1, 2)", "f(", ")", "x = [*a, f((1, 2))]\n"),
    ],
)  # fmt: skip
def test_wrap(text, part, before, after, result):
    assert wrapped(text, part, before, after) == result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("f()\n", "f(k=1)\n"),
        ("f(a)\n", "f(a, k=1)\n"),
        ("f(a, )\n", "f(a, k=1, )\n"),
        ("f(x for x in y)\n", "f((x for x in y), k=1)\n"),
        ("f(a, k=2, b=3)\n", "f(a, k=1, b=3)\n"),
        ("f(a, **b)\n", "f(a, **b, k=1)\n"),
        ("f(\n    a,\n    b,\n)\n", "f(\n    a,\n    b,\n    k=1,\n)\n"),
        ("f(\n    a,\n    b\n)\n", "f(\n    a,\n    b,\n    k=1\n)\n"),
        (
            "f(\n    a,  # one\n    b,  # two\n    # rest\n)\n",
            "f(\n    a,  # one\n    b,  # two\n    k=1,\n    # rest\n)\n",
        ),
        ("f(\n    a,\n    b  # two\n)\n", "f(\n    a,\n    b,  # two\n    k=1\n)\n"),
        ("f(\n    a\n)\n", "f(\n    a,\n    k=1\n)\n"),
        ("f(\n    a, b\n)\n", "f(\n    a, b, k=1\n)\n"),
        ("f(a,\n  b)\n", "f(a,\n  b,\n  k=1)\n"),
        ("f(a  # one\n  )\n", "f(a,  # one\n  k=1\n  )\n"),
        ("f(  # why\n    a)\n", "f(  # why\n    a,\n    k=1)\n"),
    ],
)
def test_set_keyword(text, result):
    assert fixed(text, SetKeyword(place(text, text.rstrip("\n")), "k", "1"), safety=Safety.SAFE) == result


@pytest.mark.parametrize(
    ("text", "part", "result"),
    [
        ("a = 1\nb = 2\n", "b = 2", "a = 1\nnew()\nb = 2\n"),
        ("a; b; c  # d\n", "b", "a\nnew()\nb; c  # d\n"),
        ("a;\n", "a", "new()\na;\n"),
        ("if x: y  # z\n", "y", "if x:\n    new()\n    y  # z\n"),
        ("def f():\n\n    # why\n    a()\n", "a()", "def f():\n\n    new()\n    # why\n    a()\n"),
        ("x\n@d\n# why\ndef f(): pass\n", "def f(): pass", "x\nnew()\n@d\n# why\ndef f(): pass\n"),
        ("x\n@d\nasync def f(): pass\n", "async def f(): pass", "x\nnew()\n@d\nasync def f(): pass\n"),
        (
            "#!/usr/bin/python\n# -*- coding: utf-8 -*-\nx\n",
            "x",
            "#!/usr/bin/python\n# -*- coding: utf-8 -*-\nnew()\nx\n",
        ),
        ("if a:\n    b\nelif c:\n    d\n", "if c:\n    d", "if a:\n    b\nelif c:\n    d\n"),
    ],
)
def test_insert_before(text, part, result):
    assert fixed(text, InsertBefore(place(text, part), "new()")) == result


@pytest.mark.parametrize(
    ("text", "part", "result"),
    [
        ("a = 1\nb = 2\n", "a = 1", "b = 2\n"),
        ("def f():\n    a = 1\n", "a = 1", "def f():\n    pass\n"),
        ("if x: y\n", "y", "if x: pass\n"),
        ("a; b\n", "b", "a\n"),
        ("a; b\n", "a", "b\n"),
        ("a\n\nb = 1\n\nc\n", "b = 1", "a\n\nc\n"),
        ("x\n# of a\na = 1\nb\n", "a = 1", "x\n# of a\nb\n"),
        ("def f():\n    x\n    # of a\n    a = 1\n", "a = 1", "def f():\n    x\n    # of a\n"),
        ("x\n@d\ndef f(): pass\ny\n", "def f(): pass", "x\ny\n"),
        ("x\nwhile x:\n    y\nz\n", "while x:\n    y", "x\nz\n"),
    ],
)
def test_delete(text, part, result):
    assert fixed(text, Delete(place(text, part))) == result


def test_comments_are_not_lost_by_safe_fixes():
    cases = [
        ("x = 1  # why\ny\n", Delete, "x = 1"),
        ("if x:\n    # why\n    y\nz\n", Delete, "if x:\n    # why\n    y"),
        ("f(a,  # why\n  b)\n", Replace, "f(a,  # why\n  b)"),
        ("f(k=[  # why\n  b])\n", SetKeyword, "f(k=[  # why\n  b])"),
    ]
    for text, kind, part in cases:
        at = place(text, part)
        edit = Delete(at) if kind is Delete else Replace(at, "g()") if kind is Replace else SetKeyword(at, "k", "1")
        safe, unsafe = (Fix("a fix", (edit,), safety) for safety in (Safety.SAFE, Safety.UNSAFE))
        result = apply(text, [safe], in_bytes=False)
        assert (result.text, result.made, result.left) == (text, 0, (safe,))
        assert apply(text, [unsafe], in_bytes=False).made == 1
    text = "f(a,  # why\n  b)\n"
    kept = Fix("a fix", (Replace(place(text, text.strip()), "g(  # why\n  b)"),), Safety.SAFE)
    assert apply(text, [kept], in_bytes=False).text == "g(  # why\n  b)\n"


def test_of_overlapping_fixes_the_first_is_made():
    text = "f(a, g(b))\n"
    outer = Fix("outer", (SetKeyword(place(text, text.strip()), "k", "1"),))
    inner = Fix("inner", (Replace(place(text, "b"), "c"),))
    result = apply(text, [inner, outer], in_bytes=False)
    assert result.text == "f(a, g(b), k=1)\n"
    assert (result.made, result.left) == (1, (inner,))
    assert apply(text, [inner, Fix("other", (Replace(place(text, "a"), "z"),))], in_bytes=False).text == "f(z, g(c))\n"


def test_edits_of_one_fix_go_together():
    text = "x = f(a) + b\ny = 1\n"
    at = place(text, "f(a) + b")
    both = (Wrap(at, "g(", ")"), Replace(place(text, "a"), "z"), InsertBefore(place(text, "y = 1"), "import m"))
    assert fixed(text, *both) == "x = g(f(z) + b)\nimport m\ny = 1\n"
    assert fixed(text, *both, Replace(Place(9, 0, 9, 1), "w")) == text
    assert fixed(text, Replace(at, "1"), Replace(place(text, "a"), "z")) == text


def test_the_same_statement_is_put_in_once():
    text = "x = a\ny = b\n"
    add = InsertBefore(place(text, "x = a"), "import m")
    fixes = [Fix("a", (add, Replace(place(text, part), f"m.{part}"))) for part in ("a", "b")]
    assert apply(text, fixes, in_bytes=False).text == "import m\nx = m.a\ny = m.b\n"


def test_a_fix_that_breaks_the_text_is_left_alone():
    text = "\n".join(f"x{number} = f(a{number})" for number in range(9)) + "\n"
    fixes = [Fix("fine", (Replace(place(text, f"a{number}"), f"b{number}"),)) for number in range(9)]
    guilty = Fix("guilty", (Replace(place(text, "x4"), "1"),))
    result = apply(text, [*fixes, guilty], in_bytes=False)
    assert result.left == (guilty,)
    assert result.text == text.replace("a", "b")


@pytest.mark.parametrize("code", ["(", "a b", "", "return", "*a"])
def test_code_that_is_no_expression_is_left(code):
    assert replaced("x = f(a)\n", "a", code) == "x = f(a)\n"


@pytest.mark.parametrize("text", ["def f(:\n", "print 'old'\n", "\0", "x = 1\n\x00"])
def test_text_that_is_no_python_is_left(text):
    fix = Fix("a fix", (Replace(Place(1, 0, 1, 1), "y"),))
    assert apply(text, [fix]) == apply(text, [fix], in_bytes=False)
    assert apply(text, [fix]).left == (fix,)


def test_columns_of_ast_are_bytes_and_newlines_stay():
    text = "\ufeff# é\r\nx = 'é𝒳' + y\r\n\r\nif a:\r\n\tb"
    tree = ast.parse(text[1:])
    edits = (
        Replace(Place.of(tree.body[0].value.right), "q"),
        InsertBefore(Place.of(tree.body[1]), "m = 3\nn = 4"),
        Replace(Place.of(tree.body[1].body[0]), "if c:\n    d"),
    )
    result = apply(text, [Fix("a fix", edits, Safety.SAFE)])
    assert result.text == "\ufeff# é\r\nx = 'é𝒳' + q\r\n\r\nm = 3\r\nn = 4\r\nif a:\r\n\tif c:\r\n\t\td"


@cache
def sources():
    """Real programs: Warp's own examples, looked up without importing Warp."""
    found = importlib.util.find_spec("warp")
    if found is None or found.origin is None:
        pytest.skip("warp-lang is not installed")
    files = sorted((Path(found.origin).parent / "examples").rglob("*.py"))
    return [text for text in (file.read_text("utf-8") for file in files) if len(text) < 12_000]


def functions(text):
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]


@cache
def piece(seed):
    """A random function of a random program, as a file of its own."""
    chance = random.Random(seed)
    text = chance.choice(sources())
    found = functions(text)
    if not found:
        return piece(seed + 1)
    node = chance.choice(found)
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    lines = text.split("\n")[first - 1 : node.end_lineno]
    return "\n".join(line[node.col_offset :] if line[: node.col_offset].isspace() else line for line in lines) + "\n"


def expressions(text):
    """Expressions that are loaded, outside of formatted strings."""
    tree = ast.parse(text)
    inside = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp, ast.Compare, ast.Constant))
        and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        and node not in inside
    ]


def offsets(text, node):
    lines = text.split("\n")

    def offset(line, column):
        return sum(len(one) + 1 for one in lines[: line - 1]) + len(lines[line - 1].encode()[:column].decode())

    return offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)


quick = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@quick
@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_an_expression_in_parentheses_changes_nothing_else(seed, choice):
    text = piece(seed)
    node = random.Random(choice).choice(expressions(text))
    start, end = offsets(text, node)
    result = apply(text, [Fix("a fix", (Replace(Place.of(node), f"({text[start:end]})"),), Safety.SAFE)])
    assert result.text == f"{text[:start]}({text[start:end]}){text[end:]}"
    assert ast.dump(ast.parse(result.text)) == ast.dump(ast.parse(text))


@quick
@given(st.integers(0, 10_000), st.integers(0, 10_000), st.sampled_from([("f(", ")"), ("-", ""), ("", " if c else d")]))
def test_wrapping_means_what_it_says(seed, choice, around):
    """The tree is the old one with the expression wrapped, whatever stands around it."""
    text = piece(seed)
    before, after = around
    nodes = expressions(text)
    index = random.Random(choice).randrange(len(nodes))
    result = apply(text, [Fix("a fix", (Wrap(Place.of(nodes[index]), before, after),), Safety.SAFE)])
    assert result.made == 1
    expected = ast.parse(text)
    target = Place.of(nodes[index])
    template = ast.parse(f"{before}__inner__{after}", mode="eval").body

    class Put(ast.NodeTransformer):
        def __init__(self, inner):
            self.inner = inner

        def visit_Name(self, node):
            return self.inner if node.id == "__inner__" else node

    class Find(ast.NodeTransformer):
        def visit(self, node):
            if isinstance(node, ast.expr) and Place.of(node) == target and type(node) is type(nodes[index]):
                return Put(node).visit(template)
            return self.generic_visit(node)

    assert ast.dump(ast.parse(result.text)) == ast.dump(Find().visit(expected))


@quick
@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_statements_come_and_go(seed, choice):
    """A statement put in is one more line; taking it away again gives the text back."""
    text = piece(seed)
    statements = [one for node in functions(text) for one in node.body]
    node = random.Random(choice).choice(statements)
    result = apply(text, [Fix("a fix", (InsertBefore(Place.of(node), "put_in = 1"),), Safety.SAFE)])
    if result.made:
        (put,) = [one for one in ast.walk(ast.parse(result.text)) if isinstance(one, ast.Assign)
                  and isinstance(one.targets[0], ast.Name) and one.targets[0].id == "put_in"]  # fmt: skip
        back = apply(result.text, [Fix("a fix", (Delete(Place.of(put)),), Safety.SAFE)])
        assert back.text == text


@quick
@given(st.integers(0, 10_000), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_every_call_takes_a_keyword(seed, newline, bom):
    text = piece(seed)
    calls = [node for node in expressions(text) if isinstance(node, ast.Call)]
    fixes = [Fix("a fix", (SetKeyword(Place.of(node), "put_in", "1"),), Safety.SAFE) for node in calls]
    written = "\ufeff" * bom + text.replace("\n", newline)
    for _ in range(30):
        result = apply(written, fixes)
        if not result.made:
            break
        written = result.text
        tree = ast.parse(written.removeprefix("\ufeff"))
        fixes = [
            Fix("a fix", (SetKeyword(Place.of(node), "put_in", "1"),), Safety.SAFE)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and not any(one.arg == "put_in" for one in node.keywords)
        ]
        if not fixes:
            break
    after = expressions(written.removeprefix("\ufeff"))
    assert all(any(one.arg == "put_in" for one in node.keywords) for node in after if isinstance(node, ast.Call))
    assert written.count("\n") >= text.count("\n")
    assert ("\r\n" in written) == (newline == "\r\n" and "\n" in text)

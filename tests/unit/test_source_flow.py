"""Values, conditions and forms of a kernel's body."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from warp_audit.audit.source.device import DeviceFunction
from warp_audit.audit.source.flow import Def
from warp_audit.audit.source.project import Project
from warp_audit.audit.source.symbolic import Form

TID = ("tid", 0)


def function(body: str, parameters: str = "a: wp.array(dtype=float), n: int, v: wp.vec3") -> DeviceFunction:
    text = f"import warp as wp\nN = 8\n@wp.kernel\ndef k({parameters}):\n" + textwrap.indent(
        textwrap.dedent(body), "    "
    )
    return Project().load(Path("k.py"), text).kernels[0]


def read(kernel: DeviceFunction, name: str) -> ast.Name:
    """The last read of a name."""
    return [node for node in kernel.flow.of(ast.Name) if node.id == name and node in kernel.flow.uses][-1]  # type: ignore[attr-defined, return-value]


def value(kernel: DeviceFunction, name: str) -> Def:
    return kernel.flow.uses[read(kernel, name)]


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("x = 1\ny = x", {"assign"}),
        ("y = n", {"parameter"}),
        ("y = N", {"free"}),
        ("if n > 0:\n    x = 1\ny = x", {"assign", "unassigned"}),
        ("if n > 0:\n    x = 1\nelse:\n    x = 2\ny = x", {"assign"}),
        ("if n > 0:\n    x = 1\nelse:\n    return\ny = x", {"assign"}),
        ("for x in range(n):\n    pass\ny = x", {"loop", "unassigned"}),
        ("x = 0\nfor k in range(n):\n    x += 1\ny = x", {"assign", "augment"}),
        ("for k in range(n):\n    x = k\n    break\ny = x", {"assign", "unassigned"}),
        ("x = 0\nwhile x < n:\n    x = x + 1\ny = x", {"assign"}),
        ("while True:\n    x = n\n    if x > 3:\n        break\ny = x", {"assign"}),
        ("x = v\nx[0] = 1.0\ny = x", {"component"}),
    ],
)
def test_where_a_value_comes_from(body: str, kinds: set[str]) -> None:
    kernel = function(body)
    names = [node for node in kernel.flow.uses if isinstance(node, ast.Name) and node.id in ("x", "n", "N")]
    assert {one.kind for one in kernel.flow.uses[names[-1]].origins()} == kinds


def test_a_changed_name_is_another_value() -> None:
    kernel = function("i = wp.tid()\nb = a[i]\ni += 1\nc = a[i]")
    first, second = kernel.accesses
    assert kernel.symbols.form(first.indices[0]) == Form.of(TID)
    assert kernel.symbols.form(second.indices[0]) == Form(1, frozenset({(TID, 1)}))


def test_a_name_changed_in_a_loop_is_not_its_start() -> None:
    kernel = function("k = 0\nfor i in range(n):\n    a[k] = 1.0\n    k += 1\na[k] = 2.0")
    inside, after = (kernel.symbols.form(access.indices[0]) for access in kernel.accesses)
    assert inside != Form(0)
    assert inside == after, "at the head of the loop and behind it stands the same phi"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("2 * (i + 1)", "i + i + 2"),
        ("i * N", "8 * i"),
        ("int(i) - n", "-n + wp.int32(i)"),
        ("a.shape[0] - 1", "len(a) - 1"),
        ("wp.min(i, n)", "min(n, i)"),
        ("i * n", "n * i"),
    ],
)
def test_two_ways_of_writing_a_value(left: str, right: str) -> None:
    kernel = function(f"i = wp.tid()\nx = {left}\ny = {right}\nz = x + y")
    assert kernel.symbols.form(read(kernel, "x")) == kernel.symbols.form(read(kernel, "y"))


@pytest.mark.parametrize(("left", "right"), [("i / 2", "i // 2"), ("wp.randi(s)", "wp.randi(s)"), ("i - n", "n - i")])
def test_what_only_looks_alike(left: str, right: str) -> None:
    kernel = function(f"i = wp.tid()\ns = wp.rand_init(1)\nx = {left}\ny = {right}\nz = x + y")
    assert kernel.symbols.form(read(kernel, "x")) != kernel.symbols.form(read(kernel, "y"))


@pytest.mark.parametrize(
    ("body", "bounded"),
    [
        ("if i < n:\n    a[i] = 0.0", True),
        ("if i >= n:\n    return\na[i] = 0.0", True),
        ("if not i < n:\n    return\na[i] = 0.0", True),
        ("if n > 3 and i < n:\n    a[i] = 0.0", True),
        ("if n > 3 or i < n:\n    a[i] = 0.0", False),
        ("inside = i < n\nif inside:\n    a[i] = 0.0", True),
        ("if i + 1 < n:\n    a[i] = 0.0", True),
        ("if i < n:\n    i += 1\n    a[i] = 0.0", True),
        ("while i < n:\n    a[i] = 0.0\n    i += 1", True),
        ("while i < n:\n    i = i * 2\n    a[i] = 0.0", False),
        ("x = 0.0 if i >= n else a[i]", True),
        ("if i < n:\n    pass\na[i] = 0.0", False),
    ],
)
def test_conditions_that_hold_at_an_access(body: str, bounded: bool) -> None:
    kernel = function("i = wp.tid()\n" + body)
    (access,) = kernel.accesses
    form = kernel.symbols.form(access.indices[0])
    assert bool(kernel.symbols.upper_bounds(form, access.site)) is bounded


def test_loop_ranges_bound_their_variable() -> None:
    kernel = function("for k in range(2, n):\n    a[k] = 0.0\nfor j in range(n, 0, -1):\n    a[j] = 0.0")
    up, down = kernel.accesses
    k, j = kernel.symbols.form(up.indices[0]), kernel.symbols.form(down.indices[0])
    assert [b.limit for b in kernel.symbols.lower_bounds(k, up.site)] == [Form(2)]
    assert [(b.limit, b.strict) for b in kernel.symbols.upper_bounds(k, up.site)] == [
        (Form.of(("parameter", "n")), True)
    ]
    assert [(b.limit, b.strict) for b in kernel.symbols.lower_bounds(j, down.site)] == [(Form(0), True)]


def test_code_behind_a_return_is_not_reached() -> None:
    kernel = function("return\na[0] = 1.0")
    assert kernel.accesses == []

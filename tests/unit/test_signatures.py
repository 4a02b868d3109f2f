from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from warp_audit.audit.source import builtin_facts, builtin_patterns, builtin_results, builtins
from warp_audit.audit.source.types import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT32,
    UINT64,
    Array,
    Matrix,
    Opaque,
    Quaternion,
    Scalar,
    Tile,
    Transformation,
    TupleType,
    Type,
    Vector,
)
from warp_audit.compiler.tap.signature_lines import Overload, folded, merge

MAT22 = Matrix(2, 2, FLOAT32)
VEC3, MAT33 = Vector(3, FLOAT32), Matrix(3, 3, FLOAT32)
UINT32 = Scalar("uint32")


def names() -> list[str]:
    return sorted(builtins._lines())


def test_the_table_is_sorted_and_every_line_can_be_read() -> None:
    lines = Path(builtins.__file__).with_name("builtins.txt").read_text().splitlines()[1:]
    keys = [line.partition("(")[0] for line in lines]
    assert keys == sorted(keys)
    for name in names():
        for one in builtins.signature(name) or ():
            assert one.name == name
            assert one.group
            for text in (one.returns, *(parameter.type for parameter in one.parameters)):
                assert builtin_patterns.pattern(text)


def test_every_result_that_is_computed_has_a_rule() -> None:
    internal = {"extract", "select", "slice", "view"}
    lacking = {name for name in names() for one in builtins.signature(name) or () if one.computed}
    assert lacking - set(builtin_results.RULES) == internal


def test_a_line_says_all_of_a_signature() -> None:
    (one,) = builtins.signature("bit_count") or ()
    assert (one.returns, one.group, one.since, one.until) == ("int32", "Scalar Math", "1.19", None)
    assert not one.differentiable
    assert one.parameters == (builtins.Parameter("x", "Int"),)
    variadic = (builtins.signature("printf") or ())[0].parameters[1]
    assert (variadic.name, variadic.variadic) == ("args", True)
    load = (builtins.signature("tile_load") or ())[0]
    assert [p.default for p in load.parameters][2:] == ["None", "'register'", "True", "False"]
    assert builtins.signature("no_such_thing") is None
    assert builtins.is_builtin("vec3d")
    assert builtins.is_builtin("tid")
    assert not builtins.is_builtin("launch")


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("dot", (VEC3, VEC3), FLOAT32),
        ("dot", (VEC3, None), FLOAT32),
        ("dot", (None, None), None),
        ("cross", (Vector(3, FLOAT64), None), Vector(3, FLOAT64)),
        ("length", (Quaternion(FLOAT64),), FLOAT64),
        ("min", (VEC3, VEC3), VEC3),
        ("min", (INT32, FLOAT32), None),
        ("clamp", (None, FLOAT32, None), FLOAT32),
        ("where", (BOOL, MAT33, None), MAT33),
        ("where", (BOOL, FLOAT32, INT32), None),
        ("tid", (), INT32),
        ("rand_init", (INT32, None), UINT32),
        ("randf", (UINT32,), FLOAT32),
        ("atomic_add", (Array(VEC3, 1), INT32, VEC3), VEC3),
        ("atomic_add", (Array(None, 2), INT32, INT32, FLOAT32), FLOAT32),
        ("transpose", (Matrix(2, 3, FLOAT32),), Matrix(3, 2, FLOAT32)),
        ("outer", (Vector(2, FLOAT32), VEC3), Matrix(2, 3, FLOAT32)),
        ("svd2", (MAT22,), TupleType((MAT22, Vector(2, FLOAT32), MAT22))),
        ("transform_point", (Transformation(FLOAT32), VEC3), VEC3),
        ("quat_identity", (), Quaternion(FLOAT32)),
        ("mesh_query_ray", (UINT64, VEC3, VEC3, FLOAT32), Opaque("MeshQueryRay")),
        ("argmin", (VEC3,), UINT32),
        ("vec2d", (None, None), Vector(2, FLOAT64)),
        ("vector", (FLOAT64, FLOAT64), Vector(2, FLOAT64)),
        ("matrix_from_cols", (VEC3, VEC3), Matrix(3, 2, FLOAT32)),
        ("tile_transpose", (Tile(FLOAT32, (2, 4)),), Tile(FLOAT32, (4, 2), "shared")),
        ("tile_sum", (Tile(FLOAT32, (2, 4)),), Tile(FLOAT32, (1,))),
        ("tile_matmul", (Tile(FLOAT32, (2, 4)), Tile(FLOAT32, (4, 8))), Tile(FLOAT32, (2, 8), "shared")),
        ("untile", (Tile(FLOAT32, (3, None)),), VEC3),
        ("tile", (VEC3,), Tile(FLOAT32, (3, None))),
        ("printf", (None, None), None),
        ("store", (FLOAT32, FLOAT32), None),
        ("no_such_thing", (FLOAT32,), None),
        ("sin", (FLOAT32, FLOAT32), None),
    ],
)
def test_results_follow_from_types(name: str, arguments: tuple[Type | None, ...], expected: Type | None) -> None:
    assert builtins.result(name, arguments) == expected


def test_results_follow_from_constants() -> None:
    said: dict[int | str, object] = {"shape": (8, 4), "dtype": FLOAT64, "storage": "shared", 1: (8, None), "length": 5}
    two = TupleType((INT32, INT32))
    shape: dict[str, Type | None] = {"shape": two}
    assert builtins.result("tile_load", [Array(VEC3, 2)], shape, said.get) == Tile(VEC3, (8, 4), "register")
    assert builtins.result("tile_load", [Array(VEC3, 2), two], {}, said.get) == Tile(VEC3, (8, None), "register")
    kept: dict[str, Type | None] = {"shape": two, "dtype": None, "storage": None}
    assert builtins.result("tile_zeros", [], kept, said.get) == Tile(FLOAT64, (8, 4), "shared")
    assert builtins.result("cast", [INT32], {"dtype": None}, said.get) == FLOAT64
    assert builtins.result("vector", [], {"length": INT32, "dtype": None}, said.get) == Vector(5, FLOAT64)
    assert builtins.result("zeros", [], {"shape": two, "dtype": None}, said.get) == Array(FLOAT64, 2, "fixedarray")
    assert builtins.result("tile_full", [], {"shape": INT32, "value": INT32}) == Tile(INT32, (None,), "register")
    assert builtins.result("identity", [None, None], {}, {0: 3, 1: FLOAT64}.get) == Matrix(3, 3, FLOAT64)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("op", "left", "right", "expected"),
    [
        ("+", INT32, INT32, INT32),
        ("/", INT32, INT32, INT32),
        ("+", INT32, FLOAT32, None),
        ("*", FLOAT32, VEC3, VEC3),
        ("*", VEC3, VEC3, None),
        ("*", FLOAT64, VEC3, None),
        ("@", MAT33, VEC3, VEC3),
        ("*", VEC3, MAT33, VEC3),
        ("@", Matrix(2, 3, FLOAT32), Matrix(3, 4, FLOAT32), Matrix(2, 4, FLOAT32)),
        ("@", Matrix(2, 3, FLOAT32), MAT33, Matrix(2, 3, FLOAT32)),
        ("@", MAT33, Matrix(2, 3, FLOAT32), None),
        ("*", Quaternion(FLOAT32), Quaternion(FLOAT32), Quaternion(FLOAT32)),
        ("*", Transformation(FLOAT32), Transformation(FLOAT32), Transformation(FLOAT32)),
        ("**", FLOAT32, FLOAT32, FLOAT32),
        ("**", INT32, INT32, None),
        ("<<", UINT32, UINT32, UINT32),
        ("+", None, VEC3, VEC3),
        ("*", None, FLOAT32, None),
        ("+", Tile(FLOAT32, (4, None)), Tile(FLOAT32, (None, 2)), Tile(FLOAT32, (4, 2))),
        ("*", Tile(FLOAT32, (4,)), FLOAT32, Tile(FLOAT32, (4,))),
        ("<", None, VEC3, BOOL),
        ("compare", None, None, BOOL),
    ],
)
def test_operators(op: str, left: Type | None, right: Type | None, expected: Type | None) -> None:
    assert builtins.binary(op, left, right) == expected


def test_unary_operators() -> None:
    assert builtins.unary("-", VEC3) == VEC3
    assert builtins.unary("~", FLOAT32) is None
    assert builtins.unary("not", None) == BOOL


def test_attributes() -> None:
    assert builtins.attribute(VEC3, "z") == FLOAT32
    assert builtins.attribute(VEC3, "w") is None
    assert builtins.attribute(Quaternion(FLOAT64), "w") == FLOAT64
    assert builtins.attribute(Transformation(FLOAT64), "p") == Vector(3, FLOAT64)
    assert builtins.attribute(Transformation(FLOAT64), "q") == Quaternion(FLOAT64)
    assert builtins.attribute(Array(VEC3, 2), "shape") == TupleType((INT32, INT32))
    assert builtins.attribute(Array(VEC3, None), "shape") == Opaque("shape_t")
    assert builtins.attribute(Array(VEC3, 1), "ptr") == UINT64
    assert builtins.attribute(Opaque("MeshQueryPoint"), "face") == INT32
    assert builtins.attribute(Opaque("Mesh"), "points") == Array(VEC3, 1)
    assert builtins.attribute(Opaque("Mesh"), "id") is None


def test_facts_speak_of_builtins() -> None:
    for name in (*builtin_facts.ATOMICS, *builtin_facts.TILE_OPS, *builtin_facts.WRITES, *builtin_facts.SINGULAR):
        assert builtins.is_builtin(name), name
    for name, places in builtin_facts.WRITES.items():
        for one in builtins.signature(name) or ():
            assert max(places) < len(one.parameters)


def test_versions_merge_in_any_order(tmp_path: Path) -> None:
    def lines(*texts: str) -> dict[str, list[Overload]]:
        table: dict[str, list[Overload]] = {}
        for text in texts:
            table.setdefault(text.partition("(")[0], []).append(Overload(text, "Math", ("hidden",)))
        return table

    tables = {
        "1.9": lines("a(x: S) -> S", "gone() -> None"),
        "1.10": lines("a(x: F) -> F", "a(x: S) -> S", "gone() -> None", "passing() -> None"),
        "1.11": lines("a(x: S) -> S", "new() -> None"),
    }
    texts = set()
    for order in itertools.permutations(tables):
        path = tmp_path / "-".join(order)
        for version in (*order, order[0]):
            path.write_text(merge(path, version, {k: list(v) for k, v in tables[version].items()}))
        texts.add(path.read_text())
    assert [text.splitlines()[1:] for text in texts] == [
        [
            "a(x: S) -> S | Math | hidden",
            "a(x: F) -> F | Math | hidden, since 1.10, until 1.10",
            "gone() -> None | Math | hidden, until 1.10",
            "new() -> None | Math | hidden, since 1.11",
            "passing() -> None | Math | hidden, since 1.10, until 1.10",
        ]
    ]


def test_lines_that_differ_in_one_type_are_one() -> None:
    pytest.importorskip("warp")
    texts = ("f(a: quat[F], b: T) -> F", "f(a: vec[N, F], b: T) -> F", "f(a: T, b: S) -> F", "f(a: T, b: S) -> S")
    lines = folded([Overload(text, "Math", ()) for text in texts])
    assert [line.text for line in lines] == ["f(a: quat[F]/vec[N, F], b: T) -> F", *texts[2:]]


def test_reading_needs_no_warp() -> None:
    code = (
        "import sys; from warp_audit.audit.source import builtins; builtins.signature('add');"
        "print(sorted(set(sys.modules) & {'warp', 'numpy', 'z3', 'textual', 'libcst'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.home())
    assert done.stdout.strip() == "[]"

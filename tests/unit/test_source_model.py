"""What the source model says of kernels, launches and arrays, across files."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from warp_audit.audit.source.module import Module
from warp_audit.audit.source.project import Project
from warp_audit.audit.source.types import FLOAT32, FLOAT64, INT32, Array, Matrix, Scalar, StructType, Vector


def load(text: str) -> Module:
    return Project().load(Path("m.py"), "import warp as wp\n" + textwrap.dedent(text))


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("int", INT32),
        ("wp.uint8", Scalar("uint8")),
        ("'float'", FLOAT32),
        ("wp.vec3d", Vector(3, FLOAT64)),
        ("vec6", Vector(6, FLOAT32)),
        ("vec7", Vector(7, FLOAT64)),
        ("Box", Vector(2, FLOAT32)),
        ("wp.mat22", Matrix(2, 2, FLOAT32)),
        ("wp.array(dtype=float)", Array(FLOAT32, 1)),
        ("wp.array(dtype=wp.vec3, ndim=2)", Array(Vector(3, FLOAT32), 2)),
        ("wp.array2d[int]", Array(INT32, 2)),
        ("wp.array[vec6]", Array(Vector(6, FLOAT32), 1)),
        ("wp.array(float)", Array(FLOAT32, 1)),
        ("wp.array", Array(None, None)),
        ("wp.array3d(dtype=Any)", Array(None, 3)),
        ("Unknown", None),
    ],
)
def test_annotations(annotation: str, expected: object) -> None:
    module = load(f"""
        from typing import Any
        vec6 = wp.types.vector(length=6, dtype=float)
        SEVEN = 7
        class Box(wp.types.vector(length=2, dtype=wp.float32)): pass
        vec7 = wp.types.vector(SEVEN, wp.float64)
        @wp.kernel
        def k(x: {annotation}): pass
    """)
    assert module.kernels[0].parameters[0].type == expected


def test_a_struct_field_has_its_type() -> None:
    module = load("""
        @wp.struct
        class Spring:
            rest: float
            ends: wp.array(dtype=wp.vec2i)
        @wp.kernel
        def k(s: Spring, out: wp.array(dtype=float)):
            out[0] = s.rest
            e = s.ends[0]
    """)
    kernel = module.kernels[0]
    spring = kernel.parameters[0].type
    assert isinstance(spring, StructType)
    assert spring.name == "Spring"
    assert [(access.root, access.what) for access in kernel.accesses] == [("out", "write"), ("s.ends", "read")]


def test_accesses_of_every_form() -> None:
    module = load("""
        @wp.kernel
        def k(a: wp.array(dtype=float), p: wp.array(dtype=wp.vec3), m: wp.array2d(dtype=float)):
            i = wp.tid()
            a[i] = 1.0
            a[i] += 1.0
            a[i] *= 2.0
            p[i][0] = 1.0
            p[i].y = a[i]
            m[i, 0] = m[i][1]
            row = m[i]
            row[2] = 1.0
            wp.atomic_max(m, i, 3, 1.0)
            v = p[i]
            v[0] = 2.0
    """)
    found = [(x.root, x.what, len(x.indices), x.component) for x in module.kernels[0].accesses]
    assert found == [
        ("a", "write", 1, False),
        ("a", "augment", 1, False),
        ("a", "update", 1, False),
        ("p", "write", 1, True),
        ("a", "read", 1, False),
        ("p", "write", 1, True),
        ("m", "read", 2, False),
        ("m", "write", 2, False),
        ("m", "write", 2, False),
        ("m", "atomic", 2, False),
        ("p", "read", 1, False),
    ]


def test_effects_of_called_funcs_are_folded_in() -> None:
    module = load("""
        @wp.func
        def put(to: wp.array(dtype=float), i: int, x: float):
            to[i] = x
        @wp.func
        def twice(out: wp.array(dtype=float), i: int):
            put(out, i, 1.0)
            wp.atomic_add(out, i, 2.0)
        @wp.kernel
        def k(a: wp.array(dtype=float), b: wp.array(dtype=float)):
            i = wp.tid()
            twice(b, int(a[i]))
    """)
    effects = module.kernels[0].effects
    assert (effects["a"].reads, effects["a"].changes) == (True, False)
    assert (effects["b"].reads, effects["b"].writes, effects["b"].atomics) == (False, True, True)


def test_a_decorator_that_makes_kernels() -> None:
    module = load("""
        def named_kernel(key):
            def make(f):
                return wp.Kernel(f, key=key)
            return make
        def logged_kernel(f):
            return f
        @named_kernel("first")
        def a(x: wp.array(dtype=float)): pass
        @logged_kernel
        def b(x): pass
    """)
    assert [kernel.name for kernel in module.kernels] == ["a"]


@pytest.mark.parametrize(
    ("launched", "reached"),
    [
        ("first", {"first"}),
        ("first if flag else second", {"first", "second"}),
        ("TABLE['b']", {"second"}),
        ("TABLE[flag]", {"first", "second"}),
        ("make(3)", {"made"}),
        ("cached()", {"made"}),
        ("Holder.inner", {"inner"}),
        ("Holder().kernel", set()),
        ("local", {"first"}),
        ("pair[1]", {"second"}),
        ("wp.overload(first, [float])", {"first"}),
        ("OVERLOADS[float]", {"first"}),
        ("called", {"plain"}),
        ("bundle.back", {"second"}),
        ("built().fore", {"first"}),
        ("unknown", set()),
    ],
)
def test_the_kernel_of_a_launch(launched: str, reached: set[str]) -> None:
    module = load(f"""
        import functools
        @wp.kernel
        def first(a: wp.array(dtype=float)): pass
        @wp.kernel
        def second(a: wp.array(dtype=float)): pass
        TABLE = {{"a": first, "b": second}}
        OVERLOADS = {{}}
        for t in (float, int):
            OVERLOADS[t] = wp.overload(first, [t])
        def make(n):
            @wp.kernel
            def made(a: wp.array(dtype=float)): pass
            return made
        cached = functools.cache(make)
        def plain(a: wp.array(dtype=float)): pass
        called = wp.Kernel(func=plain)
        bundle = dict_like(fore=first, back=second)
        def built():
            return dict_like(fore=first, back=second)
        class Holder:
            @wp.kernel
            def inner(a: wp.array(dtype=float)): pass
        def run(flag, a):
            local = first
            pair = (first, second)
            wp.launch({launched}, dim=1, inputs=[a])
    """)
    (launch,) = module.launches
    assert {kernel.name for kernel in launch.kernels} == reached


def test_a_kernel_kept_by_an_object() -> None:
    module = load("""
        @wp.kernel
        def k(a: wp.array(dtype=float)): pass
        class Base:
            def __init__(self):
                self.kernel = k
        class Solver(Base):
            def step(self, a):
                wp.launch(self.kernel, dim=1, inputs=[a])
    """)
    assert module.launches[0].kernel is module.kernels[0]


def test_kernels_and_constants_of_other_files(tmp_path: Path) -> None:
    package = tmp_path / "pool"
    package.mkdir()
    (package / "__init__.py").write_text("from .kernels import stir\n")
    (package / "kernels.py").write_text(
        "import warp as wp\nfrom .sizes import *\n@wp.kernel\ndef stir(a: wp.array(dtype=float)): pass\n"
    )
    (package / "sizes.py").write_text("import warp as wp\nTILE = wp.constant(1 << 3)\n")
    user = package / "user.py"
    text = textwrap.dedent("""
        import warp as wp
        import pool
        from . import kernels as ks
        from .sizes import TILE
        def run(a):
            wp.launch(ks.stir, dim=TILE, inputs=[a])
            wp.launch(pool.stir, dim=TILE, inputs=[a])
    """)
    module = Project().load(user, text)
    assert [launch.kernel.name for launch in module.launches if launch.kernel] == ["stir", "stir"]
    assert module.launches[0].function.constant(module.launches[0].dim) == 8
    assert {path.name for path in module.dependencies} >= {"kernels.py", "sizes.py", "__init__.py"}


@pytest.mark.parametrize(
    ("dim", "rank"),
    [
        ("n", None), ("8", 1), ("(n, 4)", 2), ("[n]", 1), ("n // 2", 1), ("len(a)", 1), ("a.shape", 1), ("g.shape", 2),
        ("g.shape[0]", 1), ("made.shape", 3), ("size", 2), ("a.size", 1), ("-(-n // 4)", 1), ("(*size, 2)", None),
    ],
)  # fmt: skip
def test_the_rank_of_a_launch(dim: str, rank: int | None) -> None:
    module = load(f"""
        @wp.kernel
        def k(a: wp.array(dtype=float), g: wp.array2d(dtype=float)): pass
        def run(n, a, g):
            made = wp.zeros((n, n, 3), dtype=float)
            size = (n, 2)
            wp.launch(k, dim={dim}, inputs=[a], outputs=[g])
    """)
    assert module.launches[0].rank == rank


@pytest.mark.parametrize(
    ("made", "dtype", "ndim", "grad"),
    [
        ("wp.zeros(8)", FLOAT32, 1, False),
        ("wp.empty((2, 3), dtype=wp.vec3, requires_grad=True)", Vector(3, FLOAT32), 2, True),
        ("wp.full(4, 1, dtype=int)", INT32, 1, False),
        ("wp.array([[1.0, 2.0], [3.0, 4.0]], dtype=float)", FLOAT32, 2, False),
        ("wp.array([[1.0, 2.0, 3.0]], dtype=wp.vec3)", Vector(3, FLOAT32), 1, False),
        ("wp.array([1.0, 2.0])", FLOAT64, 1, False),
        ("wp.zeros_like(wp.ones(3, dtype=int, requires_grad=True))", INT32, 1, True),
        ("wp.zeros((2, 3), dtype=int).flatten()", INT32, 1, False),
    ],
)
def test_what_is_known_of_an_array(made: str, dtype: object, ndim: int, grad: bool) -> None:
    module = load(f"def run():\n    x = {made}\n    return x\n")
    host = next(function for function in module.host_functions if function.name == "run")
    fact = host.array(host.scope.returns[0])
    assert fact is not None
    assert (fact.dtype, fact.ndim, fact.requires_grad) == (dtype, ndim, grad)


def test_arguments_through_names_and_sums() -> None:
    module = load("""
        @wp.kernel
        def k(a: wp.array(dtype=float), b: wp.array(dtype=float), c: float): pass
        def run(a, b):
            first = [a, b]
            grown = [a]
            grown.append(b)
            wp.launch(k, 4, first + [1.0])
            wp.launch(k, dim=4, inputs=[*first], outputs=(2.0,))
            wp.launch(k, dim=4, inputs=grown, outputs=[1.0])
    """)
    counts = [None if launch.arguments is None else len(launch.arguments) for launch in module.launches]
    assert counts == [3, 3, None]

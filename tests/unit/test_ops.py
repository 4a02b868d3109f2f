"""Op kinds: each declaration's example is read by it and prints back; builtins are known by key."""

import pytest

from warp_audit.compiler.ops import builtins
from warp_audit.compiler.ops.assemble import AssembleError, Line, assemble, read_op
from warp_audit.compiler.ops.kind import EFFECTS, Kind, Scope, kind_of, kinds

SCOPE = Scope(functions=frozenset({"area_0"}), structs=frozenset({"Particle_1a2b3c4d"}))


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: type(kind).__name__)
def test_example(kind):
    op = read_op(kind.example, SCOPE)
    assert type(op.kind) is type(kind)
    assert kind_of(op.name) is kind
    assert op.kind.write(op).cpp() == kind.example
    assert op.kind.check(op) is None
    assert op.kind.affects(op) <= EFFECTS


def test_a_kind_without_parts_is_refused():
    with pytest.raises(TypeError, match="declares no"):
        type("Hollow", (Kind,), {"__doc__": "Nothing."})


def test_core_names_do_not_hide_builtins():
    assert not {kind.name for kind in kinds() if kind.name} & set(builtins.all_keys())


def test_every_builtin_has_an_op_and_a_native():
    for key in builtins.all_keys():
        kind = kind_of(key)
        assert kind is not None
        assert kind.affects(read_op(f"var_0 = {builtins.usual_native(key)}(var_1);", Scope())) <= EFFECTS


@pytest.mark.parametrize(
    ("statement", "name", "effects"),
    [
        ("var_2 = wp::add(var_0, var_1);", "add", set()),
        ("wp::array_store(var_a, var_0, var_1);", "array_store", {"memory"}),
        ("var_3 = wp::atomic_add(var_a, var_0, var_1);", "atomic_add", {"memory"}),
        ("var_3 = wp::vec_t<3, wp::float32>(var_0, var_1, var_2);", "vector", set()),
        ("wp::adj_array_store(var_a, var_0, var_1, adj_a, adj_0, adj_1);", "adj.array_store", {"adjoint", "memory"}),
        ("var_1 = wp::randf(var_0);", "randf", {"random"}),
        ("printf(var_0, var_1);", "printf", {"output"}),
        ("var_2 = (var_0 < var_1);", "compare", set()),
        ("var_3 = (((var_0 < var_1) && (var_1 <= var_2)) && (var_2 != var_4));", "compare", set()),
    ],
)
def test_names_and_effects(statement, name, effects):
    op = read_op(statement, Scope())
    assert (op.name, set(op.kind.affects(op))) == (name, effects)
    assert op.kind.write(op).cpp() == statement


def test_trailing_results_of_a_call():
    op = read_op("builtin_tid2d(var_0, var_1);", Scope())
    assert [len(op.results), len(op.operands), op.attrs["outs"]] == [2, 0, "2"]
    known = Scope(written={"0", "1"})
    assert not read_op("builtin_tid2d(var_0, var_1);", known).results


LOOP = """\
start_for_0:;
if (iter_cmp(var_4) == 0) goto end_for_0;
var_5 = wp::iter_next(var_4);
if (var_6) {
goto start_for_0;
}
if (!var_6) {
goto end_for_0;
}
goto start_for_0;
end_for_0:;"""


def test_loops_and_branches_become_regions():
    region, _ = assemble([Line(text) for text in LOOP.split("\n")], Scope())
    (loop,) = region
    assert loop.attrs == {"label": "for_0"}
    assert [op.name for op in loop.body] == ["exit_if", "iter_next", "if", "if"]
    assert [op.body[0].name for op in loop.body[2:]] == ["continue", "break"]


@pytest.mark.parametrize("text", ["}", "if (var_0) {", "start_for_0:;", "var_0 ?= 1;", "this is not C++"])
def test_broken_structure_is_refused(text):
    with pytest.raises(AssembleError):
        assemble([Line(text)], Scope())

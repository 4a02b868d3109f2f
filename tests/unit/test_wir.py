""".wir text: printing and parsing are inverse, versions are checked, mistakes are named by line."""

import pytest

from warp_audit.compiler.emit.cuda import emit
from warp_audit.compiler.ir.types import parse_type
from warp_audit.compiler.wir.parser import load_module, parse_module
from warp_audit.compiler.wir.printer import print_module
from warp_audit.compiler.wir.verifier import verify
from warp_audit.errors import BadInput


@pytest.fixture(scope="module")
def texts(examples):
    return [(examples.root / unit.folder / "module.wir").read_text() for unit in examples.units]


def test_identity(texts):
    for text in texts:
        module = parse_module(text)
        assert print_module(module) == text
        assert verify(module) == []


def test_a_node_is_a_line(texts):
    for text in texts:
        lines = text.split("\n")
        module = parse_module(text)
        for function in module.functions:
            assert lines[function.node - 1].startswith(f"{function.kind} ")
            for _, op in function.ops():
                assert op.name == "note" or f"{op.name}(" in lines[op.node - 1]
                if op.end_node:
                    assert lines[op.end_node - 1].strip() == "}"


def test_emitted_text_needs_no_python(examples):
    for unit in examples.units:
        folder = examples.root / unit.folder
        assert emit(load_module(folder / "module.wir"))[0] == (folder / "module.cu").read_text()


@pytest.mark.parametrize(
    "text",
    [
        "float32", "vec<3, float32>", "mat<2, 3, float64>", "quat<float16>", "array<vec<3, float32>, 2>",
        "ref<struct<Lens_1a2b>>", "tile<float32, 16x16, shared, 16x1, owner>", "tuple<float32, array<int32, 1>>",
        "native<wp::range_t>", "native<wp::tile_stack_t<wp::int32, 8> = wp::tile_stack_alloc<wp::int32, 8>()>",
        "fixedarray<float32, 16, 1>", "indexedarray<float32, 1>",
    ],
)  # fmt: skip
def test_types_print_back(text):
    assert str(parse_type(text)) == text


HEADER = 'wir 1.0 warp 1.19.0\nmodule "m" as "wp_m_1"\nsource 0 sha256: "m.py"\n'
KERNEL = HEADER + 'kernel "k" as k_1 @0:1:1-1:4 {{\n  param %a: array<float32, 1>\n{}  forward {{\n{}\n  }}\n}}\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the first line is not a .wir header"),
        ("hello", "the first line is not a .wir header"),
        ("wir 2.0 warp 2.0.0\n", "written in IR version 2.0 (with Warp 2.0.0)"),
        ("wir 1.9 warp 1.30.0\n", "reads 1.0 to 1.0"),
        (HEADER + "nonsense", "'nonsense' is not part of a module"),
        (HEADER + 'kernel "k" as k_1 @0:1:1-1:4 {', "ends in the middle"),
        (KERNEL.format("  value %0: floot32\n", ""), "'floot32' is not a type"),
        (KERNEL.format("  value %0: int32\n", "    %0 = lod(%a) @0:1:1-1:2"), "unknown op 'lod'"),
        (KERNEL.format("  value %0: int32\n", "    %0 = tid( @0:1:1-1:2"), "expected"),
        (KERNEL.format("  value %0: int32\n", "    %0 = compare(%0, %0) @0:1:1-1:2"), "compare needs"),
        (KERNEL.format("", "    return() @7:1:1-1:2"), "names a source that the module does not list"),
        (KERNEL.format("", "    return() <3 @0:1:1-1:2"), "no op stands on line 3"),
        (HEADER + "body forward nobody", "no function nobody"),
        (HEADER + "blob ltoir:x AAAA", "damaged"),
    ],
)
def test_mistakes_are_named(text, sentence):
    with pytest.raises(BadInput, match=r":\d+: ") as caught:
        parse_module(text, "m.wir")
    assert sentence in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("value", "op", "message"),
    [
        ("  value %0: int32\n", "    %0 = tid()", "no origin"),
        ("  value %0: int32\n", "    %1 = tid() @0:1:1-1:2", "%1 is not declared"),
        ("  value %0: int32\n  value %0: int32\n", "    %0 = tid() @0:1:1-1:2", "declared twice"),
        ("  value %0: int32\n", "    %0 = compare(%0, %0) {\"by\": \"<\"} @0:1:1-1:2", "gives int32, not bool"),
        ("  value %0: int32\n", "    %0 = address(%a, %0) @0:1:1-1:2", "not a reference"),
        ("", "    break() {\"label\": \"for_0\"} @0:1:1-1:2", "outside the loop"),
        ("  value %0: int32\n", "    %0 = call(%a) {\"fn\": \"gone_0\"} @0:1:1-1:2", "does not declare"),
        ("  value %0: int32\n", "    array_store(%a, %0, %0) @0:1:1-1:2", "states another access"),
        ("  value %0: int32\n", "    array_store(%a, %0, %0) !read global %a[%0] @0:1:1-1:2", "states another access"),
    ],
)  # fmt: skip
def test_the_verifier_finds(value, op, message):
    violations = verify(parse_module(KERNEL.format(value, op)))
    assert any(message in violation.message for violation in violations), violations


def test_the_verifier_accepts_a_right_kernel():
    text = KERNEL.format(
        "  value %0: int32 @0:1:1-1:2\n",
        "    %0 = tid() @0:1:1-1:2\n    array_store(%a, %0, %0) !write global %a[%0] @0:1:1-1:2",
    )
    assert verify(parse_module(text)) == []

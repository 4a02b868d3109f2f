"""The index: any kind of address from any other, and back again."""

import json
import re

import pytest

from warp_audit.addresses import CudaLine, IrNode, PtxLine, PythonPlace, SassPc, parse_address
from warp_audit.debugger.builds import open_build
from warp_audit.debugger.trace import Tracer
from warp_audit.errors import BadInput


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("kernel+0x1710", SassPc("kernel", 0x1710)),
        ("0x1710@kernel", SassPc("kernel", 0x1710)),
        ("k_1a_cuda_kernel_forward+16", SassPc("k_1a_cuda_kernel_forward", 16)),
        ("ptx:12", PtxLine(12)),
        ("cu:12", CudaLine(12)),
        ("ir:7", IrNode(7)),
        ("dir/file.py:12", PythonPlace("dir/file.py", 12)),
        ("C:\\x\\file.py:12:3", PythonPlace("C:\\x\\file.py", 12, 3)),
    ],
)
def test_addresses_are_read(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "kernel", "kernel+", "+0x10", "kernel+0xzz", "0x10@", "ptx:", "ptx:-1", "file.py:"]
)
def test_others_are_refused(text):
    with pytest.raises(BadInput, match="is not an address"):
        parse_address(text)


def everything(build):
    for unit in build.units:
        index = build.index(unit)
        for code in index.codes():
            for found in index.all(code):
                yield index, code, found


def test_round_trip_law(examples):
    """From a pc to its IR node, PTX line, Python span and C++ line, and back: the pc is among them."""
    nodes, lines, spans, count = {}, {}, {}, 0
    for index, code, found in everything(examples):
        count += 1
        if found.node is None:
            continue
        key = (id(index), found.node.node)
        if key not in nodes:
            nodes[key] = set(index.from_node(found.node.node))
            at = index.nodes_at(found.node.file, found.node.line, found.node.column)
            spans[key] = {node.node for node in at}
            assert index.cuda_lines(found.node.node)
            assert all(index.from_cuda(line) == found.node for line in index.cuda_lines(found.node.node))
        assert (code.id, found.offset) in nodes[key]
        assert found.node.node in spans[key]
        if found.ptx is not None:
            if (id(index), found.ptx) not in lines:
                lines[id(index), found.ptx] = set(index.from_ptx(found.ptx))
            assert (code.id, found.offset) in lines[id(index), found.ptx]
    assert count > 3000


def test_nearly_every_instruction_reaches_a_node(examples):
    missing = [found for _, _, found in everything(examples) if found.node is None and found.sass != "NOP"]
    total = sum(1 for _ in everything(examples))
    assert len(missing) <= 0.03 * total, [(f.code.name, hex(f.offset), f.sass) for f in missing[:10]]


def test_the_unchecked_store(examples, root):
    """The calibration kernel's store is found from its address alone."""
    unit, code = examples.one("undistort")
    stores = [
        found
        for found in examples.index(unit).all(code)
        if found.sass.startswith("STG") and found.node.op == "array_store"
    ]
    assert len({found.node for found in stores}) == 1
    node = stores[0].node
    source = (root / "examples" / "camera_calibration.py").read_text().split("\n")
    assert source[node.line - 1][node.column - 1 : node.end_column - 1] == "output[i * 1920 + j] = result"
    assert re.fullmatch(r"write global %output\[%\d+\]", node.access)
    answer = Tracer(examples).answer("x", SassPc(code.name, stores[0].offset))
    assert answer.python_text == "output[i * 1920 + j] = result"
    assert [frame.function for frame in answer.instruction.frames][-1] == "undistort"


def test_loads_on_one_line_are_told_apart(examples):
    unit, code = examples.one("undistort")
    texts = set()
    for found in examples.index(unit).all(code):
        if found.sass.startswith("LDG") and found.node.op == "load":
            texts.add(Tracer(examples).complete("", unit, found).python_text)
    assert texts == {"image[v, u]", "image[v, u + 1]", "image[v + 1, u]", "image[v + 1, u + 1]"}


def test_reverse_ops_name_their_forward_op(examples):
    unit, code = examples.one("spring_forces_backward")
    index = examples.index(unit)
    adjoint = next(f.node for f in index.all(code) if f.node and f.node.op.startswith("adj.") and f.node.forward)
    forward = index.node(adjoint.forward)
    assert f"adj.{forward.op}" in (adjoint.op, "adj.load") or adjoint.op in ("adj.call", "adj.construct")
    assert forward.passed == "forward"
    assert (forward.file, forward.line) == (adjoint.file, adjoint.line)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("nobody", "no kernel here is called 'nobody'"), ("forward", "fits several kernels")],
)
def test_names_that_fit_none_or_several(examples, name, sentence):
    with pytest.raises(BadInput, match=sentence):
        examples.one(name)


def test_names(examples):
    whole = examples.one("undistort")[1].name
    assert examples.one(whole)[1].name == whole
    assert examples.one(whole.removesuffix("_cuda_kernel_forward"))[1].name == whole
    assert examples.one("undist")[1].name == whole
    assert examples.one("undistort_backward")[1].passed == "backward"


def test_a_column_without_an_op_means_its_line(examples, root):
    source = (root / "examples" / "camera_calibration.py").read_text().split("\n")
    line = next(n for n, text in enumerate(source, 1) if "result = 0.25" in text)
    answer = Tracer(examples).answer("x", PythonPlace("camera_calibration.py", line, 5))
    assert answer.node.line == line
    with pytest.raises(BadInput, match="no kernel code comes from line 1"):
        Tracer(examples).answer("x", PythonPlace("camera_calibration.py", 1))
    with pytest.raises(BadInput, match=r"no kernel of this build comes from other\.py"):
        Tracer(examples).answer("x", PythonPlace("other.py", 1))


def test_the_machine_format(examples):
    answer = Tracer(examples).answer("undistort+0x0", SassPc("undistort", 0)).to_json()
    assert list(answer) == [
        "address", "function", "offset", "sass", "ptx", "ir", "python", "inline", "others", "verified", "error",
    ]  # fmt: skip
    assert set(answer["ptx"]) == {"line", "text"}
    assert {"node", "op", "pass", "access"} <= set(answer["ir"])
    assert set(answer["python"]) == {"file", "line", "column", "end_line", "end_column", "text"}
    json.dumps(answer)


def test_past_the_end(examples):
    with pytest.raises(BadInput, match="ends at"):
        Tracer(examples).answer("x", SassPc("undistort", 1 << 40))


def test_a_batch_equals_single_look_ups(examples):
    unit, code = examples.one("integrate")
    index = examples.index(unit)
    table = index.table(code)
    for found in index.all(code):
        assert table[found.offset // 16] == (found.node.node if found.node else None, found.ptx)


@pytest.mark.parametrize("damage", [b"", b"not a database" * 100, b"SQLite format 3\0" + b"\0" * 200])
def test_damaged_indexes_are_refused(examples, tmp_path, damage):
    (tmp_path / "build.json").write_bytes((examples.root / "build.json").read_bytes())
    folder = tmp_path / examples.units[0].folder
    folder.mkdir(parents=True)
    (folder / "index.db").write_bytes(damage)
    build = open_build(tmp_path)
    with pytest.raises(BadInput, match=r"is not an index|another version"):
        build.index(build.units[0])


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 99}', '{"format": 1, "units": [3]}'])
def test_damaged_manifests_are_refused(tmp_path, text):
    (tmp_path / "build.json").write_text(text)
    with pytest.raises(BadInput):
        open_build(tmp_path)

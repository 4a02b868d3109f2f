"""What is read of a cubin: its container, its functions and their resources, its PTX."""

import lzma
import struct
from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from warp_audit.debugger.binary import nvinfo
from warp_audit.debugger.binary.cubin import INSTRUCTION, read_cubin
from warp_audit.debugger.binary.lines import Frame
from warp_audit.errors import BadInput

DATA = Path(__file__).parent / "data"
LENS, PLAIN = (lzma.decompress((DATA / f"{name}.cubin.xz").read_bytes()) for name in ("lens", "lens_plain"))
FORWARD, BACKWARD = (f"distort_1ab9e74d_cuda_kernel_{which}" for which in ("forward", "backward"))


def test_functions_and_their_resources():
    cubin = read_cubin(LENS)
    assert cubin.arch == "sm_80"
    assert sorted(cubin.functions) == [BACKWARD, FORWARD]
    code = cubin.functions[FORWARD]
    assert code.is_entry
    assert (code.registers, code.local, code.shared, code.barriers, code.max_threads) == (24, 0, 1024, 0, None)
    assert code.instructions * INSTRUCTION == code.size == len(cubin.code(FORWARD))
    assert code.parameters == tuple(
        nvinfo.Parameter(*fields) for fields in [(0, 0, 24), (1, 24, 56), (2, 80, 4), (3, 84, 4), (4, 88, 56)]
    )


def test_code_is_the_same_without_line_information():
    cubin, plain = read_cubin(LENS), read_cubin(PLAIN)
    assert [cubin.digest(name) for name in cubin.functions] == [plain.digest(name) for name in cubin.functions]
    assert cubin.has_lines
    assert not plain.has_lines
    assert plain.ptx is None
    assert not plain.lines(FORWARD)
    assert not plain.ptx_lines(FORWARD)


def test_sections_and_symbols_are_those_of_pyelftools():
    cubin, reference = read_cubin(LENS), ELFFile(BytesIO(LENS))
    assert [(s.name, s.offset, s.size) for s in cubin.sections] == [
        (s.name, s["sh_offset"], s["sh_size"]) for s in reference.iter_sections()
    ]
    assert [(s.name, s.value, s.size) for s in cubin.symbols] == [
        (s.name, s["st_value"], s["st_size"]) for s in reference.get_section_by_name(".symtab").iter_symbols()
    ]
    assert {s.name for s in cubin.symbols if s.is_entry} == {FORWARD, BACKWARD}


def test_inline_stack_of_a_pc():
    cubin = read_cubin(LENS)
    for name in (FORWARD, BACKWARD):
        table = cubin.lines(name)
        outermost = {frames[-1].line for _, frames in table}
        assert outermost <= set(range(16, 22))
        assert {20, 21} & outermost
        assert all(Path(frames[-1].file).name == "lens.py" for _, frames in table)
        assert all(frames[-1].function is None for _, frames in table)
        assert all(frame.function for _, frames in table for frame in frames[:-1])
    called = Frame("/src/kernels/lens.py", 12)
    assert any((frame.file, frame.line) == (called.file, called.line) for _, fs in table for frame in fs[:-1])


def test_a_pc_has_what_the_last_pair_before_it_has():
    table = read_cubin(LENS).lines(FORWARD)
    first, second = table.pairs[1], table.pairs[2]
    assert table.at(first[0]) == table.at(second[0] - 1) == first[1]
    assert table.at(second[0]) == second[1]
    assert table.at(-1) is None
    assert table.at(table.end - 1) == table.pairs[-1][1]
    assert table.at(table.end) is None
    assert len(table) == len(list(table)) == len(table[:])


def test_ptx_lines_name_instructions_of_the_embedded_ptx():
    cubin = read_cubin(LENS)
    assert cubin.ptx is not None
    assert any(line.startswith(".target sm_80") for line in cubin.ptx)
    for name in (FORWARD, BACKWARD):
        texts = [cubin.ptx[line - 1] for _, line in cubin.ptx_lines(name)]
        instructions = [text for text in texts if text.endswith(";")]
        assert len(instructions) > len(texts) * 0.9
        assert not any(text.startswith(".loc") for text in texts)


def test_an_unknown_function_is_an_error_of_the_asker():
    with pytest.raises(BadInput, match="has no function nosuch"):
        read_cubin(LENS).lines("nosuch")


def test_a_file_is_read_by_its_path(tmp_path):
    path = tmp_path / "lens.cubin"
    path.write_bytes(LENS)
    assert read_cubin(path).functions == read_cubin(str(path)).functions == read_cubin(LENS).functions


def test_architecture_of_both_layouts_of_the_flags():
    """EF_CUDA_*: the flags were laid out anew with ABI version 8."""
    for abi, flags, arch in [(8, 0x06005A04, "sm_90"), (8, 0x06005A0C, "sm_90a"), (7, 0x005A055A, "sm_90"),
                             (7, 0x00500D50, "sm_80a"), (8, 0x06007804, "sm_120")]:  # fmt: skip
        data = bytearray(LENS)
        data[8] = abi
        struct.pack_into("<I", data, 48, flags)
        assert read_cubin(bytes(data)).arch == arch


def attribute(form, number, value):
    size = struct.pack("<H", len(value)) if form == 4 else b""
    return bytes([form, number]) + size + value


def test_attributes_of_every_form():
    data = (
        attribute(1, 0x50, bytes(2))
        + attribute(2, nvinfo.NUM_BARRIERS, b"\3\0")
        + attribute(3, 0x1B, b"\xff\0")
        + attribute(4, nvinfo.MAX_THREADS, struct.pack("<III", 64, 4, 1))
        + attribute(4, nvinfo.KPARAM_INFO, struct.pack("<IHHI", 0, 1, 24, 56 << 18 | 0x1F000))
        + attribute(4, nvinfo.KPARAM_INFO_V2, struct.pack("<IHHI", 0, 2, 0x18, 5600))
        + attribute(4, nvinfo.REGCOUNT, struct.pack("<II", 1, 24))[:-2]
    )
    found = list(nvinfo.attributes(data))
    assert [number for number, _ in found] == [0x50, 0x4C, 0x1B, 0x05, 0x17, 0x45]
    assert nvinfo.threads(found[3][1]) == 256
    assert [nvinfo.parameter(*one) for one in found[3:]] == [
        None, nvinfo.Parameter(1, 24, 56), nvinfo.Parameter(2, 24, 5600),
    ]  # fmt: skip

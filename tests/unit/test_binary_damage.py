"""Whatever is wrong with a file, one sentence says so, soon and within bounds."""

import contextlib
import lzma
import random
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warp_audit.debugger.binary import cubin, elf, lines
from warp_audit.debugger.binary.cubin import read_cubin
from warp_audit.debugger.binary.lines import LineError, Stacks, decode
from warp_audit.debugger.binary.ptx import parse_ptx
from warp_audit.errors import BadInput

DATA = Path(__file__).parent / "data"
LENS = lzma.decompress((DATA / "lens.cubin.xz").read_bytes())
MIB = 1 << 20


def everything(data):
    """All that can be asked of a cubin."""
    asked = read_cubin(bytes(data), "x.cubin")
    answers = [asked.arch, asked.functions, asked.symbols, asked.sections, asked.ptx]
    for name in asked.functions:
        answers.append([asked.digest(name), list(asked.lines(name)), list(asked.ptx_lines(name))])
    return answers


def refusal(data):
    """The sentence that refuses the data; None if it is read after all."""
    try:
        everything(data)
    except BadInput as wrong:
        refused = wrong
    else:
        return None
    assert refused.where == "x.cubin"
    assert "\n" not in refused.message
    return refused.message


def headers(data):
    """Offset and fields of each section header: name, type, flags, address, offset, size, …"""
    start, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    return [(start + 64 * i, struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * i)) for i in range(count)]


SECTIONS = {found.name: found for found in read_cubin(LENS).sections}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is empty"),
        (b"\x7fEL", "is not a cubin: it does not begin as an ELF file"),
        (b"//\n.version 9.0\n.target sm_80\n", "is not a cubin: it does not begin as an ELF file"),
        (b"MZ" + bytes(100), "is not a cubin: it does not begin as an ELF file"),
        (LENS[:40], "is truncated or damaged: its ELF headers cannot be read"),
        (LENS[:64], "is truncated: its program headers end after the file"),
        (LENS[:40] + bytes(8) + LENS[48:], "is truncated or damaged: it has no table of sections"),
        (LENS[:-100], "is truncated: its program headers end after the file"),
        (LENS[:18] + b"\x3e\0" + LENS[20:], "is not a cubin: it is an ELF file for X86_64, not for CUDA"),
        (LENS[:4] + b"\1" + LENS[5:], "is not a cubin: those are 64-bit little-endian ELF files"),
        (LENS[:58] + b"\0\0" + LENS[60:], "is damaged: its section headers have an impossible size"),
    ],
)
def test_the_sentence_says_what_is_wrong(data, sentence):
    assert sentence in refusal(data)


def test_files_that_cannot_be_read(tmp_path):
    for path in (tmp_path / "none.cubin", tmp_path):
        with pytest.raises(BadInput, match="cannot be read") as caught:
            read_cubin(path)
        assert caught.value.where == str(path)


def test_every_truncation_is_refused():
    for size in (*range(0, len(LENS), 997), len(LENS) - 1):
        assert refusal(LENS[:size]) is not None


def test_a_file_too_large_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(elf, "MAX_SIZE", 1000)
    assert "larger than any cubin" in refusal(LENS)


@pytest.mark.parametrize("seed", range(200))
def test_flipped_bytes(seed):
    """A damaged file is refused or read; where it matters most, it is damaged most."""
    chance = random.Random(seed)
    data = bytearray(LENS)
    names = (".debug_line", ".debug_str", ".symtab", ".rel.debug_line", ".nv.info", ".nv_debug_line_sass", ".shstrtab")
    places = [range(64), range(len(LENS))]
    places += [range(s.offset, s.offset + s.size) for s in map(SECTIONS.get, names)]
    places.append(range(headers(LENS)[0][0], len(LENS)))
    for _ in range(chance.choice((1, 3, 20))):
        data[chance.choice(chance.choice(places))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    refusal(data)


@pytest.mark.parametrize("field", [3, 4, 5, 6, 7])
def test_huge_numbers_in_section_headers(field):
    """Address, offset, size, link, info of each section in turn."""
    for at, fields in headers(LENS):
        for number in (0xFFFFFFFF, 1 << 31, len(LENS), 1 << 63):
            data = bytearray(LENS)
            limit = 0xFFFFFFFF if field in (6, 7) else (1 << 64) - 1
            struct.pack_into("<IIQQQQIIQQ", data, at, *fields[:field], number & limit, *fields[field + 1 :])
            refusal(data)


def test_sections_that_overlap_cannot_multiply_the_work():
    data = bytearray(LENS)
    for at, fields in headers(LENS)[1:]:
        struct.pack_into("<QQ", data, at + 24, 64 + fields[0] % 8, len(LENS) - 100)
    for at, _ in headers(LENS)[1:3]:  # but the names stay where they are
        data[at : at + 64] = LENS[at : at + 64]
    assert "overlap" in refusal(data)


def test_more_sections_than_the_file_holds():
    data = bytearray(LENS)
    struct.pack_into("<H", data, 60, 0xFFFF)
    assert "65535 sections ends after the file" in refusal(data)
    struct.pack_into("<H", data, 60, 0)
    struct.pack_into("<Q", data, headers(LENS)[0][0] + 32, 1 << 60)
    assert "sections ends after the file" in refusal(data)


def line_section(body):
    """A ``.debug_line`` section of one program with one file."""
    tables = b"\0a.py\0\0\0\0\0"
    header = b"\1\1\xfb\x0e\x0a\0\1\1\1\1\0\0\0\1" + tables
    program = b"\2\0" + len(header).to_bytes(4, "little") + header + body
    return len(program).to_bytes(4, "little") + program


SET_ADDRESS = b"\0\x09\x02" + bytes(8)
END = b"\0\1\1"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\xff", "does not fit its section"),
        (b"\xff\xff\xff\xff" + bytes(20), "does not fit its section"),
        (line_section(SET_ADDRESS + b"\2" + b"\xff" * 30), "longer than ten bytes"),
        (line_section(SET_ADDRESS + b"\0\x90\x90\1\1"), "does not fit its program"),
        (line_section(SET_ADDRESS + b"\0\4\x90\xff\x7f\0\1" + END), "names a row that comes later"),
        (line_section(SET_ADDRESS + b"\2\x80"), "ends in the middle of an entry"),
        (line_section(b"").replace(b"\2\0\x18", b"\7\0\x18", 1), "DWARF version 7"),
        (line_section(b"").replace(b"\x0e\x0a", b"\0\x0a", 1), "makes no sense"),
    ],
)
def test_line_programs_that_do_not_hold_together(data, sentence):
    with pytest.raises(LineError, match=sentence):
        decode(data)


def test_a_file_number_out_of_range():
    (program,) = decode(line_section(SET_ADDRESS + b"\4\x09\1" + END))
    with pytest.raises(LineError, match="file 9 of 1"):
        Stacks(program, elf.Strings(b"")).stack(0)


def test_calls_that_go_too_deep():
    body = SET_ADDRESS + b"\1"
    for row in range(1, 400):
        body += b"\0\4\x90" + bytes([row & 127 | 128, row >> 7]) + b"\0\1"
    (program,) = decode(line_section(body + END))
    stacks = Stacks(program, elf.Strings(b"f\0"))
    assert len(stacks.stack(255)) == 256
    with pytest.raises(LineError, match="too deep"):
        stacks.stack(399)


def test_a_large_program_stays_within_bounds(monkeypatch):
    monkeypatch.setattr(lines, "MAX_ROWS", 1 << 16)
    tracemalloc.start()
    try:
        with pytest.raises(LineError, match="larger than any cubin's"):
            decode(line_section(SET_ADDRESS + b"\x20" * MIB + END))
        assert tracemalloc.get_traced_memory()[1] < 20 * MIB
    finally:
        tracemalloc.stop()


def ask_all(data):
    asked = read_cubin(data)
    return asked.ptx, asked.symbols, [asked.lines(name) for name in asked.functions]


@pytest.mark.parametrize(
    ("module", "limit", "name", "content", "sentence"),
    [
        (cubin, "MAX_PTX_LINES", ".nv_debug_ptx_txt", b"ret;\0" * 9, "more lines of PTX than any cubin"),
        (elf, "MAX_RELOCATIONS", ".rel.debug_line", bytes(16) * 9, "more entries than there can be functions"),
        (elf, "MAX_SYMBOLS", ".symtab", bytes(24) * 99, "more symbols than any cubin"),
        (elf, "MAX_SECTIONS", ".symtab", b"", "more sections than any cubin"),
        (lines, "MAX_RUNS", ".debug_line", line_section(SET_ADDRESS * 9), "larger than any cubin's"),
        (lines, "MAX_RUNS", ".debug_line", line_section(SET_ADDRESS) * 9, "larger than any cubin's"),
    ],
)
def test_more_than_any_cubin_has(module, limit, name, content, sentence, monkeypatch):
    monkeypatch.setattr(module, limit, 8)
    data = bytearray(LENS)
    place = next(at for at, fields in headers(LENS) if fields[4] == SECTIONS[name].offset)
    struct.pack_into("<QQ", data, place + 24, len(data), len(content))
    with pytest.raises(BadInput, match=sentence):
        ask_all(bytes(data + content))


def test_names_that_never_end_stay_within_bounds():
    strings = elf.Strings(b"x" * elf.MAX_NAME + b"\0" + b"y" * (2 * elf.MAX_NAME))
    assert strings.at(1) == "x" * (elf.MAX_NAME - 1)
    assert strings.at(elf.MAX_NAME + 1) is None
    for offset in range(elf.MAX_NAMES // elf.MAX_NAME * 3):
        strings.at(offset % elf.MAX_NAME)
    assert strings.at(2 * elf.MAX_NAME) is None


@given(st.lists(st.tuples(st.integers(0, len(LENS) - 1), st.binary(min_size=1, max_size=12)), max_size=6))
@settings(max_examples=150, deadline=None)
def test_any_damage(patches):
    data = bytearray(LENS)
    for at, patch in patches:
        data[at : at + len(patch)] = patch
    refusal(data)


@given(st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_any_line_program(body):
    with contextlib.suppress(LineError):
        for program in decode(line_section(SET_ADDRESS + body)) + decode(line_section(body + END)):
            stacks = Stacks(program, elf.Strings(b"name\0"))
            for row in range(len(program.pcs)):
                stacks.stack(row)


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_after_the_magic(data):
    assert refusal(b"\x7fELF" + data) is not None


@given(st.text(alphabet='.{}();,\n\t "$%abcdefilnoptuy0123456789_+', max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_ptx(text):
    head = '.version 9.0\n.target sm_80\n.visible .entry k()\n{\n\t.file 1 "a.py"\n'
    with contextlib.suppress(BadInput):
        parse_ptx((head + text + "\n}\n").encode(), "x.ptx")

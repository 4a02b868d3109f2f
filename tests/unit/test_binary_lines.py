"""Line programs, written by hand."""

from warp_audit.debugger.binary.elf import Strings
from warp_audit.debugger.binary.lines import Frame, Stacks, decode, last_rows


def number(value):
    """LEB128 of a number that is not negative."""
    out = bytearray()
    while True:
        out.append(value & 127 | (128 if value > 127 else 0))
        value >>= 7
        if not value:
            return bytes(out)


def ahead(value):
    """Signed LEB128 of a number that is not negative."""
    return number(value) if value < 64 else bytes([value & 127 | 128]) + ahead(value >> 7)


def extended(opcode, operands=b""):
    return b"\0" + number(1 + len(operands)) + bytes([opcode]) + operands


def sequence(*parts, address=0):
    return extended(2, address.to_bytes(8, "little")) + b"".join(parts) + extended(1)


def row(pc_ahead, line_ahead, file=1):
    return b"\2" + number(pc_ahead) + b"\4" + number(file) + b"\3" + ahead(line_ahead) + b"\1"


def inlined(context, name):
    return extended(0x90, number(context) + number(name))


def section(*sequences, version=2, files=((1, "k.py"), (1, "vec.h")), base=None, folders=("/home/me",)):
    tables = b"".join(folder.encode() + b"\0" for folder in folders) + b"\0"
    tables += b"".join(name.encode() + b"\0" + bytes([folder, 0, 0]) for folder, name in files) + b"\0"
    tables += b"" if base is None else base.to_bytes(4, "little")
    fields = b"\1" + (b"\1" if version == 4 else b"") + b"\1\xfb\x0e\x0a\0\1\1\1\1\0\0\0\1" + tables
    program = bytes([version, 0]) + len(fields).to_bytes(4, "little") + fields + b"".join(sequences)
    return len(program).to_bytes(4, "little") + program


NAMES = b"?\0?\0wp::mul\0wp::dot\0"
FRAMES = {"kernel": Frame("/home/me/k.py", 11), "call": Frame("/home/me/k.py", 12)}


def stacks(data, names=NAMES):
    """For each program and sequence, the stack of each pc."""
    answers = []
    for program in decode(data):
        found = Stacks(program, Strings(names))
        answers += [{pc: found.stack(at) for pc, at in last_rows(program, run, 0).items()} for run in program.runs]
    return answers


def test_rows_and_folders():
    (table,) = stacks(section(sequence(row(0, 10), row(16, 1)), files=((1, "k.py"), (0, "vec.h"), (1, "/abs.h"))))
    assert table == {0: (FRAMES["kernel"],), 16: (FRAMES["call"],)}
    (program,) = decode(section(files=((1, "k.py"), (0, "vec.h"), (1, "/abs.h"), (9, "odd.h"))))
    assert program.files == ["/home/me/k.py", "vec.h", "/abs.h", "odd.h"]


def test_the_last_row_of_a_pc_is_the_innermost():
    (table,) = stacks(section(sequence(row(0, 10), row(16, 1), inlined(2, 4), row(0, 89, file=2)), base=0))
    assert table[16] == (Frame("/home/me/vec.h", 101, "wp::mul"), FRAMES["call"])
    assert table[0] == (FRAMES["kernel"],)


def test_calls_nest_and_end():
    data = section(
        sequence(
            row(0, 10),
            inlined(1, 4),
            row(16, 90, file=2),
            inlined(2, 12),
            row(16, 1, file=2),
            inlined(0, 0),
            row(16, 1),
        )  # fmt: skip
    )
    (table,) = stacks(data)
    assert table[32] == (
        Frame("/home/me/vec.h", 102, "wp::dot"), Frame("/home/me/vec.h", 101, "wp::mul"), FRAMES["kernel"],
    )  # fmt: skip
    assert table[48] == (Frame("/home/me/k.py", 103),)


def test_rows_of_calls_are_counted_in_their_own_sequence():
    """Not over the program: nvdisasm resolves them so, and ptxas numbers them so."""
    first = sequence(row(0, 10), row(16, 1), row(16, 1))
    second = sequence(row(0, 11), inlined(1, 4), row(16, 89, file=2))
    assert stacks(section(first, second))[1][16] == (Frame("/home/me/vec.h", 101, "wp::mul"), FRAMES["call"])


def test_names_count_from_the_base_that_the_header_states():
    data = section(sequence(row(0, 10), inlined(1, 0), row(16, 90, file=2)), base=4)
    assert stacks(data)[0][16][0].function == "wp::mul"


def test_special_opcodes_and_the_rest_of_the_standard_ones():
    body = [b"\3" + ahead(9), bytes([10 + 5 + 1 + 14 * 3]), b"\x08", b"\x09\x10\0", b"\5\x07", b"\6", b"\7", b"\1"]
    (program,) = decode(section(sequence(*body)))
    assert (program.pcs, program.line) == ([3, 3 + 17 + 16], [11, 11])


def test_the_address_is_kept_for_its_relocation():
    data = section(sequence(row(0, 1)), sequence(row(0, 1), address=0x400))
    (program,) = decode(data)
    first, second = program.runs
    assert (first.address, second.address, second.end) == (0, 0x400, 0)
    assert data[second.operand : second.operand + 8] == (0x400).to_bytes(8, "little")
    assert list(last_rows(program, second, 0x100)) == [0x100]


def test_several_programs_and_versions():
    assert stacks(section(sequence(row(0, 10))) + section(sequence(row(0, 11)), version=4)) == [
        {0: (FRAMES["kernel"],)}, {0: (FRAMES["call"],)},
    ]  # fmt: skip
    assert decode(b"") == []

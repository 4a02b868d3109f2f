"""Line tables and instructions against NVIDIA's own reader, over freshly compiled modules.

nvdisasm prints a stack only where the innermost file and line change; the stacks between
are seen by writing the same line program once more with a line of its own for each row.
"""

import os
import re
import struct
import subprocess
import sys
import textwrap

import pytest

from warp_audit.debugger.binary.cubin import INSTRUCTION, read_cubin
from warp_audit.debugger.binary.lines import decode
from warp_audit.debugger.binary.sass import disassemble, find_nvdisasm
from warp_audit.errors import ToolFailed

pytest.importorskip("warp")

MODULES = {
    "inlined": """
        import warp as wp

        @wp.func
        def inner(x: float, y: float):
            return wp.sin(x) * y + wp.sqrt(x)

        @wp.func
        def outer(x: float, y: wp.vec3):
            return inner(x, y[0]) + inner(x * 2.0, y[1])

        @wp.kernel
        def step(a: wp.array(dtype=float), b: wp.array2d(dtype=float), v: wp.vec3, out: wp.array(dtype=float)):
            i = wp.tid()
            s = float(0.0)
            for j in range(b.shape[1]):
                s += outer(b[i, j], v) + a[i] * a[j]
            if s > 0.0:
                wp.atomic_add(out, i, s)
            u, d, w = wp.mat33(), wp.vec3(), wp.mat33()
            wp.svd3(wp.mat33(s, 0.0, 0.0, 0.0, 1.0, a[i], 0.0, 0.0, 1.0), u, d, w)
            out[i] = d[0] + wp.determinant(u)
    """,
    "tiles": """
        import warp as wp

        @wp.kernel
        def total(a: wp.array(dtype=float), out: wp.array(dtype=float)):
            tile = wp.tile_load(a, shape=64, offset=wp.tid() * 64)
            wp.tile_atomic_add(out, wp.tile_sum(tile))
    """,
}
COMPILE = """
import importlib, sys
import warp as wp
name, arch, mode, out = sys.argv[1:]
wp.config.quiet, wp.config.lineinfo, wp.config.line_directives, wp.config.mode = True, True, True, mode
wp.compile_aot_module(importlib.import_module(name), arch=int(arch), module_dir=out, use_ptx=False)
"""
CASES = [("inlined", 80, "release"), ("inlined", 90, "release"), ("inlined", 120, "release"), ("inlined", 86, "debug"),
         ("tiles", 89, "release")]  # fmt: skip

HEADING = re.compile(r'\s*//## File "(.*?)", line (\d+)')
INSTRUCTIONS = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+\S")


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join(map(str, case)))
def cubin(request, tmp_path_factory):
    try:
        find_nvdisasm()
    except ToolFailed as absent:
        pytest.skip(str(absent))
    name, arch, mode = request.param
    folder = tmp_path_factory.mktemp(name)
    (folder / f"{name}.py").write_text(textwrap.dedent(MODULES[name]))
    command = [sys.executable, "-c", COMPILE, name, str(arch), mode, "out"]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    (path,) = (folder / "out").glob("*.cubin")
    return path


def listing(path, option):
    """For each function its (pc, printed stack, whether it was printed just before) instructions."""
    done = subprocess.run([find_nvdisasm(), option, path], capture_output=True, text=True, check=True)
    functions, stack, waiting, current = {}, None, [], None
    for line in done.stdout.split("\n"):
        if line.startswith("//-----"):
            current = None
        elif line.startswith(".text."):
            current = functions.setdefault(line.removeprefix(".text.").rstrip(":"), [])
        elif current is None:
            continue
        elif match := HEADING.match(line):
            waiting.append((match[1], int(match[2])))
        elif match := INSTRUCTIONS.match(line):
            stack, fresh, waiting = waiting or stack, bool(waiting), []
            current.append((int(match[1], 16), stack, fresh))
    return functions


def frames(stack):
    return [(frame.file, frame.line) for frame in stack]


def test_every_instruction_has_the_printed_place(cubin):
    ours, compared = read_cubin(cubin), 0
    for name, instructions in listing(cubin, "-gi").items():
        table = ours.lines(name)
        for pc, stack, fresh in instructions:
            found = table.at(pc)
            if found is None:
                assert not fresh
                continue
            assert frames(found) == stack if fresh else frames(found)[0] == stack[0], (name, hex(pc))
            compared += 1
    assert compared > 100


def test_every_instruction_has_the_printed_stack_when_all_are_printed(cubin, tmp_path):
    path = tmp_path / "all.cubin"
    path.write_bytes(with_a_line_for_each_row(cubin.read_bytes()))
    ours, printed = read_cubin(path), listing(path, "-gi")
    assert sorted(printed) == sorted(ours.functions)
    for name, instructions in printed.items():
        table = ours.lines(name)
        for pc, stack, _ in instructions:
            found = table.at(pc)
            assert found is None or frames(found) == stack, (name, hex(pc))
    inlined = any(len(found) > 1 for name in printed for _, found in ours.lines(name))
    assert inlined == bool(ours.section(".debug_str"))


def test_every_instruction_has_the_printed_ptx_line(cubin):
    ours = read_cubin(cubin)
    for name, instructions in listing(cubin, "-gp").items():
        table = ours.ptx_lines(name)
        for pc, stack, _ in instructions:
            found = table.at(pc)
            assert found is None or stack == [(".nv_debug_ptx_txt", found)], (name, hex(pc))


def test_every_instruction_is_disassembled(cubin):
    ours = read_cubin(cubin)
    for name, instructions in disassemble(cubin).items():
        assert [pc for pc, _ in instructions] == list(range(0, ours.functions[name].size, INSTRUCTION))
        assert all(text for _, text in instructions)


def leb128(value, signed=False):
    out = bytearray()
    while True:
        byte, value = value & 127, value >> 7
        done = value == (-1 if byte & 64 else 0) if signed else not value
        out.append(byte if done else byte | 128)
        if done:
            return bytes(out)


def with_a_line_for_each_row(data):
    """The cubin with its line program written again at the end, where the line of row n is 1000 + n."""
    raw = bytearray(data)
    sections = {section.name: (number, section) for number, section in enumerate(read_cubin(data).sections)}
    number, lines = sections[".debug_line"]
    old = data[lines.offset : lines.offset + lines.size]
    (program,) = decode(old)
    header = 10 + int.from_bytes(old[6:10], "little")
    body, moved = bytearray(), {}
    for run in program.runs:
        moved[run.operand] = header + len(body) + 3
        body += b"\0\x09\x02" + run.address.to_bytes(8, "little")
        pc, line, called = 0, 1, (0, -1)
        for row in range(run.start, run.stop):
            context = program.context[row] and program.context[row] - run.start
            if (context, program.name[row]) != called:
                called = context, program.name[row]
                operands = leb128(context) + leb128(max(called[1], 0))
                body += b"\0" + leb128(1 + len(operands)) + b"\x90" + operands
            body += b"\x02" + leb128(program.pcs[row] - pc) + b"\x04" + leb128(program.file[row])
            body += b"\x03" + leb128(1000 + row - line, signed=True) + b"\x01"
            pc, line = program.pcs[row], 1000 + row
        body += b"\x02" + leb128(run.end - pc) + b"\0\x01\x01"
    new = (header - 4 + len(body)).to_bytes(4, "little") + old[4:header] + body
    struct.pack_into("<QQ", raw, struct.unpack_from("<Q", raw, 40)[0] + 64 * number + 24, len(raw), len(new))
    for name, size in ((".rel.debug_line", 16), (".rela.debug_line", 24)):
        if name in sections:
            _, table = sections[name]
            for at in range(table.offset, table.offset + table.size, size):
                struct.pack_into("<Q", raw, at, moved[struct.unpack_from("<Q", raw, at)[0]])
    return bytes(raw) + new

"""The IR of small kernels, compared whole: a module beside its ``.wir``; ``--bless`` rewrites it."""

import re
from pathlib import Path

import pytest

CASES = sorted((Path(__file__).parent / "cases").glob("*.py"))
NEWEST = (1, 19)  # IR follows Warp's code generation: the text holds for this version


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_ir(case, compiled, tmp_path, bless, warp_version):
    if warp_version != NEWEST:
        pytest.skip(f"golden IR is of Warp {NEWEST[0]}.{NEWEST[1]}, here is {warp_version[0]}.{warp_version[1]}")
    build = compiled(tmp_path, case)
    assert not build.refused
    text = "\n".join(functions((tmp_path / unit.folder / "module.wir").read_text()) for unit in build.units)
    golden = case.with_suffix(".wir")
    if bless:
        golden.write_text(text)
    assert text == golden.read_text()


def functions(text):
    """The structs and functions of a module: without header, frames and absolute numbers of lines."""
    lines = text.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith(("struct ", "func ", "kernel ", "native ")))
    end = lines.index("text {")
    shift = start
    return "\n".join(renumbered(line, shift) for line in lines[start:end]) + "\n"


def renumbered(line, shift):
    line = re.sub(r"(?<=_)[0-9a-f]{8}\b", "HASH", line)
    return re.sub(r" <(\d+)(?= |$)", lambda match: f" <{int(match[1]) - shift}", line)

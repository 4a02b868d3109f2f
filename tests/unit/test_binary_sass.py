"""The disassembler as a program that may be absent, fail, or answer."""

import os
import sys
from pathlib import Path

import pytest

from warp_audit.debugger.binary import sass
from warp_audit.errors import ToolFailed

pytestmark = pytest.mark.skipif(os.name == "nt", reason="stands in for the program by a script")

LISTING = """
\t.headerflags\t@"EF_CUDA_SM80"
.section .text.second,"ax",@progbits
.text.second:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/               @P0 BRA   `(.L_x_1) ;  /* 0xabc */
.text.first:
        /*10000*/                  EXIT ;
"""


def program(folder, text):
    path = folder / "nvdisasm"
    path.write_text(f"#!{sys.executable}\nimport sys\n{text}\n")
    path.chmod(0o755)
    return path


def test_instructions_of_each_function(tmp_path):
    found = sass.disassemble(Path("x.cubin"), program(tmp_path, f"print({LISTING!r})"))
    assert found == {
        "second": [(0, "MOV R1, c[0x0][0x28]"), (16, "@P0 BRA `(.L_x_1)")],
        "first": [(0x10000, "EXIT")],
    }


def test_its_own_message_is_passed_on(tmp_path):
    failing = program(tmp_path, "sys.exit('nvdisasm fatal   : File x.cubin does not appear to be an Elf file')")
    with pytest.raises(ToolFailed) as caught:
        sass.disassemble(Path("x.cubin"), failing)
    assert caught.value.message == "nvdisasm could not read x.cubin: File x.cubin does not appear to be an Elf file"
    assert caught.value.command == f"{failing} -c x.cubin"


def test_a_program_that_does_not_start(tmp_path):
    with pytest.raises(ToolFailed, match="could not be started"):
        sass.disassemble(Path("x.cubin"), tmp_path / "none")


def test_where_it_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setenv("PATH", "")
    if not Path("/usr/local/cuda/bin/nvdisasm").is_file():
        with pytest.raises(ToolFailed, match="not installed") as caught:
            sass.find_nvdisasm()
        assert "nvidia-cuda-nvdisasm" in caught.value.hint
    (tmp_path / "tools").mkdir()
    on_path = program(tmp_path / "tools", "")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert sass.find_nvdisasm() == on_path
    packaged = tmp_path / "nvidia" / "cu13" / "bin"
    packaged.mkdir(parents=True)
    assert sass.find_nvdisasm() == on_path
    assert program(packaged, "") == sass.find_nvdisasm()

"""Damaged files: each gives one sentence and exit code 2, none hangs or takes much memory."""

import json
import os
import random
import resource
import subprocess
import sys

import pytest

ENDINGS = (".wir", ".cubin", ".ptx")
EACH = 34  # of each kind: a hundred together


def mutants(data, seed):
    """Truncated, flipped, spliced, with huge counts, of the wrong machine."""
    chance = random.Random(seed)
    for number in range(EACH):
        broken = bytearray(data)
        match number % 6:
            case 0:
                del broken[chance.randrange(len(broken)) :]
            case 1:
                for _ in range(chance.randrange(1, 60)):
                    broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
            case 2:
                at = chance.randrange(min(len(broken), 4096))
                broken[at : at + 8] = b"\xff" * 8
            case 3:
                a, b = sorted(chance.randrange(len(broken)) for _ in range(2))
                del broken[a:b]
            case 4:
                at = chance.randrange(len(broken))
                broken[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 2000)))
            case 5:
                for at in range(16, min(64, len(broken))):
                    if chance.random() < 0.3:
                        broken[at] = chance.randrange(256)
        yield bytes(broken)


READ = """
import json, sys
from pathlib import Path
from warp_audit.errors import BadInput
from warp_audit.compiler.wir.parser import load_module
from warp_audit.compiler.wir.printer import print_module
from warp_audit.compiler.wir.verifier import verify
from warp_audit.debugger.binary.cubin import read_cubin
from warp_audit.debugger.binary.ptx import read_ptx

def read(path):
    if path.suffix == ".wir":
        module = load_module(path)
        verify(module)
        print_module(module)
    elif path.suffix == ".cubin":
        cubin = read_cubin(path)
        for name in cubin.functions:
            cubin.lines(name), cubin.ptx_lines(name), cubin.digest(name)
        cubin.ptx
    else:
        read_ptx(path)

for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        read(path)
        print(json.dumps([path.name, "read", ""]))
    except BadInput as wrong:
        print(json.dumps([path.name, wrong.exit_code, str(wrong)]))
"""


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_hundred_mutants(ending, examples, tmp_path):
    unit = examples.units[0]
    data = (examples.root / unit.folder / f"module{ending}").read_bytes()
    folder = tmp_path / "mutants"
    folder.mkdir()
    for number, broken in enumerate(mutants(data, ending)):
        (folder / f"{number:03}{ending}").write_bytes(broken)
    limit = 1 << 30

    def bounded():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = subprocess.run(
        [sys.executable, "-c", READ, str(folder)],
        capture_output=True, text=True, timeout=300, preexec_fn=bounded, check=False, env=os.environ, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == EACH
    refused = [r for r in results if r[1] != "read"]
    assert len(refused) > EACH // 3
    for name, code, sentence in refused:
        assert code == 2
        assert name in sentence
        assert "\n" not in sentence
        assert len(sentence) < 400


def test_the_command_says_it_in_one_sentence(examples, tmp_path, capsys):
    from warp_audit.cli import main

    unit = examples.units[0]
    folder = examples.root / unit.folder
    for ending in (".cubin", ".ptx"):
        path = tmp_path / f"module{ending}"
        path.write_bytes((folder / f"module{ending}").read_bytes()[:200])
        assert main(["trace", "undistort+0x10", "--in", str(path)]) == 2
        assert capsys.readouterr().err.count("\n") <= 2

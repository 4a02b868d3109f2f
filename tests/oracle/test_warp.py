"""Against Warp itself: the text that we emit, the PTX and the code that come of it."""

import json
import os
import re
import subprocess
import sys

import pytest

from warp_audit.debugger.binary.cubin import read_cubin
from warp_audit.debugger.binary.ptx import read_ptx, without_debug

PLAIN = """
import importlib, json, sys
from pathlib import Path
import warp as wp
from warp._src import context
sys.path.insert(0, sys.argv[1])
name, out = sys.argv[2], Path(sys.argv[3])
module = importlib.import_module(name)
for use_ptx in (True, False):
    wp.compile_aot_module(module, arch=80, module_dir=str(out), use_ptx=use_ptx)
"""

TARGETS = [("examples", name) for name in ("camera_calibration", "lidar_filter", "spring_step")] + [
    (None, "warp.examples.core.example_sph"),
    (None, "warp.examples.core.example_wave"),
    (None, "warp.examples.core.example_work_queue"),
]


@pytest.mark.parametrize(("folder", "name"), TARGETS, ids=[name for _, name in TARGETS])
def test_identical(folder, name, root, compiled, tmp_path, warp_version):
    """Warp's own text, PTX and ``.text`` are what we emit and compile, line information aside."""
    # Up to 1.18 Warp emits a module's kernels in the order of a set: another one in each process.
    ordered = list if warp_version >= (1, 19) else unordered
    target = root / folder / f"{name}.py" if folder else name
    subprocess.run(
        [sys.executable, "-c", PLAIN, str(root / (folder or "")), name, str(tmp_path / "warp")],
        check=True, capture_output=True, env=os.environ, cwd=tmp_path,
    )  # fmt: skip
    build = compiled(tmp_path / "ours", target)
    unit = next(unit for unit in build.units if unit.module == name)
    ours = build.root / unit.folder
    stem = tmp_path / "warp" / unit.identifier
    theirs_text = stem.with_name(f"{unit.identifier}.cu").read_text()
    ours_text = (ours / "module.cu").read_text()
    assert ordered(statements(ours_text)) == ordered(statements(theirs_text))
    ours_ptx = [text for _, text in without_debug(read_ptx(ours / "module.ptx").lines)]
    theirs_ptx = [text for _, text in without_debug(read_ptx(stem.with_name(f"{unit.identifier}.sm80.ptx")).lines)]
    assert ordered(ours_ptx) == ordered(theirs_ptx)
    mine, plain = read_cubin(ours / "module.cubin"), read_cubin(stem.with_name(f"{unit.identifier}.sm80.cubin"))
    assert sorted(mine.functions) == sorted(plain.functions)
    for function in plain.functions:
        assert mine.digest(function) == plain.digest(function)


def unordered(lines):
    """The lines sorted, without the numbers and the file's hash that follow from their order."""
    return sorted(re.sub(r"(__local_depot|\$L__BB)\d+|(_cu_)[0-9a-f]{8}", r"\1\2", line) for line in lines)


def statements(text):
    return [line.strip() for line in text.split("\n") if line.strip() and not line.startswith("#line ")]


LIFT = """
import importlib, json, sys
import warp as wp
from warp._src import context
from warp_audit.compiler.tap import listen, units
from warp_audit.compiler.emit.cuda import emit
from warp_audit.compiler.wir.parser import parse_module
from warp_audit.compiler.wir.printer import print_module
from warp_audit.compiler.wir.verifier import verify

names = sys.argv[1:]
for name in names:
    importlib.import_module(name)
counts = {"modules": 0, "kernels": 0, "ops": 0, "opaque": 0}
for module in list(context.user_modules.values()):
    kernels = units.live_kernels(module)
    if not units.concrete(kernels):
        continue
    block_dim = int(module.options["block_dim"])
    options = units.options_of(module, block_dim) | {"output_arch": 80}
    hasher = units.hasher_of(module, block_dim, kernels, options)
    try:
        named = {"target": "cuda"} if "target" in context.ModuleBuilder.__init__.__code__.co_varnames else {}
        plain = context.ModuleBuilder(module, options | {"lineinfo": False}, hasher=hasher, **named).codegen("cuda")
    except Exception:
        continue  # Warp refuses it too
    unit = units.generate(module, options, hasher)
    text = print_module(unit.module)
    again = parse_module(text, module.name)
    assert print_module(again) == text, module.name
    assert not (wrong := verify(again)), (module.name, wrong[:3])
    ours = [s for line in emit(again, "none")[0].split("\\n") if (s := line.strip())]
    theirs = [s for line in listen.unmarked(plain).split("\\n") if (s := line.strip())]
    assert ours == theirs, module.name
    counts["modules"] += 1
    for function in again.functions:
        counts["kernels"] += function.kind == "kernel"
        for _, op in function.ops():
            counts["ops"] += 1
            counts["opaque"] += op.name == "external"
            assert op.origin is not None or op.name == "note", (module.name, op.name)
print(json.dumps(counts))
"""


@pytest.mark.parametrize(
    ("names", "at_least"),
    [
        (["warp.tests.test_struct", "warp.tests.test_func", "warp.tests.test_lvalue", "warp.tests.test_tuple"], 60),
        (["warp.tests.test_static", "warp.tests.test_conditional", "warp.tests.test_grad", "warp.tests.test_vec"], 60),
        (["warp.tests.tile.test_tile", "warp.tests.tile.test_tile_reduce", "warp.tests.test_atomic"], 60),
    ],
    ids=["data", "control", "tiles"],
)
def test_warps_own_tests_are_lifted(names, at_least, tmp_path):
    """Kernels made to try every corner of the code generator: read, printed, parsed, emitted alike."""
    done = subprocess.run(
        [sys.executable, "-c", LIFT, *names],
        capture_output=True, text=True, env=os.environ, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts["kernels"] >= at_least
    assert counts["opaque"] == 0

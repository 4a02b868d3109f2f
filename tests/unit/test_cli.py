"""The command line as a user meets it: exit codes, messages, what is imported when."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from warp_audit.cli import command_names, main

PROGRAM = [sys.executable, "-c", "import sys; from warp_audit.cli import main; sys.exit(main())"]


def run(*arguments, cwd, **environment):
    return subprocess.run(
        [*PROGRAM, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=os.environ | {"NO_COLOR": "1"} | environment,
        check=False,
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with programs that are right, wrong, and half wrong."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "good.py").write_text(
        "import warp as wp\n\n\n@wp.kernel\ndef scale(a: wp.array(dtype=float), s: float):\n"
        "    i = wp.tid()\n    a[i] = a[i] * s\n"
    )
    (folder / "mixed.py").write_text(
        "from typing import Any\n\nimport warp as wp\n\n\n@wp.kernel\ndef fine(a: wp.array(dtype=float)):\n"
        "    a[wp.tid()] = 1.0\n\n\n@wp.kernel\ndef wrong(a: wp.array(dtype=float)):\n    i = wp.tid()\n"
        "    a[i] = no_such_thing(i)\n\n\n@wp.kernel\ndef anything(a: wp.array(dtype=Any)):\n    i = wp.tid()\n"
        "    a[i] = a[i]\n\n\nraise RuntimeError('the end')\n"
    )
    (folder / "made.py").write_text(
        "import sys\n\nimport warp as wp\n\n\ndef make(n):\n    @wp.kernel(module='unique')\n"
        "    def times(a: wp.array(dtype=float)):\n        i = wp.tid()\n        for k in range(wp.static(n)):\n"
        "            a[i] = a[i] * 2.0\n    return times\n\n\nif __name__ == '__main__':\n    a = wp.ones(4)\n"
        "    wp.launch(make(int(sys.argv[1])), dim=4, inputs=[a])\n    assert a.numpy()[0] == 8.0\n"
    )
    (folder / "tiles.py").write_text(
        "import warp as wp\n\n\n@wp.kernel\ndef total(a: wp.array(dtype=float), out: wp.array(dtype=float)):\n"
        "    i, j = wp.tid()\n    x = a[i * 64 + j]\n    t = wp.tile(x)\n    s = wp.tile_sum(t)\n"
        "    wp.tile_store(out, s, offset=i)\n"
        "\n\ndef main(a, out):\n    wp.launch_tiled(total, dim=[4], inputs=[a, out], block_dim=64)\n"
    )
    (folder / "warp_free.py").write_text("x = 1\n")
    (folder / "broken.py").write_text("def f(:\n")
    return folder


def test_commands_are_found_and_declared():
    assert {"compile", "trace", "show", "debug"} <= set(command_names())


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], *([name, "--help"] for name in command_names())])
def test_help(arguments, tmp_path):
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 0
    assert "warp-audit" in done.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["trace", "--help"], ["trace", "k+1"]])
def test_starting_imports_nothing_heavy(arguments, tmp_path):
    code = (
        "import sys; from warp_audit.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "print('LOADED', *{n.partition('.')[0] for n in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    loaded = set(done.stdout.split("LOADED")[1].split())
    assert not loaded & {"warp", "textual", "rich", "numpy", "elftools", "z3", "libcst"}


def test_compile_lists_and_explains(project):
    done = run("compile", "good.py", "-o", "b1", cwd=project)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^scale +forward +sm_80 +256 +\d+", done.stdout, re.MULTILINE)


def test_compile_machine_format(project):
    done = run("compile", "good.py", "-o", "b2", "--json", "--arch", "sm_90", cwd=project)
    assert done.returncode == 0
    kernels = json.loads(done.stdout)["kernels"]
    assert [(k["name"], k["pass"], k["arch"]) for k in kernels] == [
        ("scale", "forward", "sm_90"),
        ("scale", "backward", "sm_90"),
    ]
    for kernel in kernels:
        assert {"mangled", "registers", "shared_bytes", "local_bytes", "spills", "instructions", "ir_ops"} <= set(
            kernel
        )
        assert all((project / "b2" / path).is_file() for path in kernel["files"].values())
        assert kernel["instructions"] > 50
        assert kernel["registers"] > 0


def test_artefacts_are_reused(project):
    run("compile", "good.py", "-o", "b3", cwd=project)
    folder = next((project / "b3" / "units").iterdir())
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    run("compile", "good.py", "-o", "b3", cwd=project)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert not [path for path in (project / "b3" / "units").iterdir() if path.name.startswith(".")]


def test_a_damaged_index_is_made_anew(project):
    run("compile", "good.py", "-o", "b16", cwd=project)
    index = next((project / "b16").rglob("index.db"))
    index.write_bytes(b"damaged")
    assert run("trace", "scale+0", "--in", "b16", cwd=project).returncode == 2
    run("compile", "good.py", "-o", "b16", cwd=project)
    assert run("trace", "scale+0", "--in", "b16", cwd=project).returncode == 0


def test_a_half_wrong_program(project):
    done = run("compile", "mixed.py", "-o", "b4", cwd=project)
    assert done.returncode == 1
    assert re.search(r"^fine +forward", done.stdout, re.MULTILINE)
    assert "mixed.py:23: mixed failed: RuntimeError: the end" in done.stderr
    assert re.search(r"mixed.py:14: kernel wrong not built: .*no_such_thing", done.stderr)
    assert "kernel anything not built: generic" in done.stderr
    assert "Traceback" not in done.stderr


def test_kernels_made_at_run_time(project):
    done = run("compile", "-o", "b5", "--run", "made.py", "3", cwd=project)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^make.*times +forward|^times +forward", done.stdout, re.MULTILINE)


def test_kernels_that_warp_makes(project):
    """``wp.map`` builds a kernel of its own source around the user's function."""
    (project / "mapped.py").write_text(
        "import warp as wp\n\n\n@wp.func\ndef mix(x: float, y: float):\n    return x * y + 1.0\n\n\n"
        "wp.map(mix, wp.ones(4), wp.ones(4))\n"
    )
    done = run("compile", "-o", "b17", "--run", "mapped.py", cwd=project)
    assert done.returncode == 0, done.stderr
    answer = json.loads(run("trace", "mapped.py:6:12", "--in", "b17", "--json", cwd=project).stdout)
    assert answer["python"]["text"] == "x * y"
    assert [frame["function"] for frame in answer["inline"]][-2] == "mix"


def test_tile_kernels_take_the_launch_block(project):
    done = run("compile", "tiles.py", "-o", "b6", cwd=project)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^total +forward +sm_80 +64 ", done.stdout, re.MULTILINE)
    done = run("compile", "tiles.py", "-o", "b6", "--block-dim", "32", "--block-dim", "128", cwd=project)
    assert [line.split()[3] for line in done.stdout.splitlines()[2:]] == ["32", "32", "128", "128"]


def test_from_wir_alone(project):
    """A saved module compiles with no Python source at hand, to the same code."""
    run("compile", "good.py", "-o", "b7", cwd=project)
    saved = next((project / "b7").rglob("module.wir"))
    (project / "saved.wir").write_bytes(saved.read_bytes())
    done = run("compile", "saved.wir", "-o", "b8", cwd=project)
    assert done.returncode == 0, done.stderr
    assert next((project / "b8").rglob("module.cubin")).read_bytes() == saved.with_name("module.cubin").read_bytes()


def test_wir_of_another_warp_is_refused(project):
    run("compile", "good.py", "-o", "b9", cwd=project)
    text = next((project / "b9").rglob("module.wir")).read_text()
    (project / "other.wir").write_text(re.sub(r"warp \S+", "warp 1.2.3", text, count=1))
    done = run("compile", "other.wir", "-o", "b10", cwd=project)
    assert done.returncode == 3
    assert "was written with Warp 1.2.3" in done.stderr


def test_python_lines(project):
    done = run("compile", "good.py", "-o", "b11", "--lines", "python", cwd=project)
    assert done.returncode == 0
    ptx = next((project / "b11").rglob("module.ptx")).read_text(errors="replace")
    assert re.search(r'\.file\s+\d+ "[^"]*good\.py"', ptx)
    traced = run("trace", "good.py:7", "--in", "b11", "--json", cwd=project)
    answer = json.loads(traced.stdout)
    assert answer["python"]["line"] == 7
    assert answer["function"].startswith("scale_")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["compile"], 2, "nothing to compile"),
        (["compile", "gone.py"], 2, "gone.py: there is no such file"),
        (["compile", "."], 2, "is a folder"),
        (["compile", "no.such.module"], 2, "there is no module"),
        (["compile", "good.py", "--arch", "sm_12"], 2, "not an architecture"),
        (["compile", "good.py", "--arch", "volta"], 2, "not an architecture"),
        (["compile", "good.py", "--block-dim", "0"], 2, "1 to 1024 threads"),
        (["compile", "good.py::gone", "-o", "c1"], 2, "no kernel 'gone'"),
        (["compile", "gone.wir"], 2, "no such file"),
        (["trace"], 2, "no address"),
        (["trace", "k"], 2, "is not an address"),
        (["trace", "k+1", "--in", "gone"], 2, "no such file or folder"),
        (["trace", "k+1", "--in", "good.py"], 2, "is not a cubin"),
        (["trace", "k+1", "--in", "."], 2, "holds neither a build nor cubins"),
        (["show", "warp_free.py::k"], 2, "no kernel"),
        (["debug", "good.py"], 2, "needs a terminal"),
    ],
)
def test_mistakes(project, arguments, code, sentence):
    done = run(*arguments, cwd=project)
    assert done.returncode == code, done.stderr
    assert sentence in done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_a_program_that_does_not_parse(project):
    done = run("compile", "broken.py", "-o", "c2", cwd=project)
    assert done.returncode == 1
    assert "broken.py:1: broken failed: SyntaxError" in done.stderr


def test_usage_errors_are_two(project):
    assert run("compile", "--no-such-option", cwd=project).returncode == 2
    assert run("no-such-command", cwd=project).returncode == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written(project, tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    assert run("compile", "good.py", "-o", locked / "x", cwd=project).returncode == 2


def test_an_output_that_is_a_file(project):
    done = run("compile", "good.py", "-o", "good.py", cwd=project)
    assert done.returncode == 2
    assert "cannot be written" in done.stderr


def test_what_a_user_has_is_left_alone(project, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    assert run("compile", "good.py", "-o", mine, cwd=project).returncode == 0
    assert not (mine / ".gitignore").exists()
    (mine / "build.json").write_text('{"scripts": {}}')
    done = run("compile", "good.py", "-o", mine, cwd=project)
    assert done.returncode == 2
    assert "not ours" in done.stderr
    assert (mine / "build.json").read_text() == '{"scripts": {}}'


def test_odd_names(project, tmp_path):
    """Spaces, signs of URIs and markup, other alphabets, and control characters."""
    folder = tmp_path / "a b?c#d%20 [bold]é"
    folder.mkdir()
    (folder / "kérnels [red].py").write_text(
        "import warp as wp\n\n\n@wp.kernel\ndef scaled(a: wp.array(dtype=float)):\n"
        "    i = wp.tid()  # µ\n    ä = a[i]; a[i] = ä * 2.0\n"
    )
    done = run("compile", "kérnels [red].py", "-o", "out ?#%", cwd=folder)
    assert done.returncode == 0, done.stderr
    traced = json.loads(run("trace", "kérnels [red].py:7:20", "--in", "out ?#%", "--json", cwd=folder).stdout)
    assert traced["python"]["text"] == "a[i] = ä * 2.0"
    assert "scaled" in run("show", "scaled", "--in", "out ?#%", cwd=folder).stdout
    wild = run("trace", "\x1b[31mred+0x1", "--in", "out ?#%", cwd=folder)
    assert "\x1b" not in wild.stderr


def test_trace_answers_in_text_and_json(project):
    run("compile", "good.py", "-o", "b12", cwd=project)
    text = run("trace", "good.py:7:12", "--in", "b12", cwd=project)
    assert "a[i] = a[i] * s" in text.stdout
    assert "IR" in text.stdout
    lines = run("trace", "--all", "scale", "--in", "b12", "--json", cwd=project).stdout.splitlines()
    answers = [json.loads(line) for line in lines]
    assert [a["offset"] for a in answers] == list(range(0, 16 * len(answers), 16))
    mixed = run("trace", "scale+0", "gone+0", "--in", "b12", "--json", cwd=project)
    assert mixed.returncode == 2
    assert [json.loads(line)["error"] is None for line in mixed.stdout.splitlines()] == [True, False]


def test_show(project):
    run("compile", "good.py", "-o", "b13", cwd=project)
    for width in ("60", "80", "200"):
        done = run("show", "scale", "--in", "b13", "--width", width, cwd=project)
        assert done.returncode == 0
        assert max(map(len, done.stdout.splitlines())) <= max(int(width), 80)
        assert "array_store" in done.stdout
    view = json.loads(run("show", "scale", "--in", "b13", "--json", "--backward", cwd=project).stdout)
    assert view["pass"] == "backward"
    assert {node for line in view["sass"] for node in line["nodes"]} <= {
        node for line in view["ir"] for node in line["nodes"]
    }


def test_several_architectures_are_told_apart(project):
    run("compile", "good.py", "-o", "b15", "--arch", "sm_80", "--arch", "sm_90", cwd=project)
    unclear = run("trace", "scale+0x10", "--in", "b15", cwd=project)
    assert unclear.returncode == 2
    assert "add --arch, one of sm_80, sm_90" in unclear.stderr
    for arch in ("sm_80", "sm_90"):
        done = run("trace", "scale+0x10", "good.py:7", "--in", "b15", "--arch", arch, cwd=project)
        assert done.returncode == 0, done.stderr
        assert f"(forward, {arch})" in done.stdout
        assert run("show", "scale", "--in", "b15", "--arch", arch, cwd=project).returncode == 0
    assert (
        "nothing here was compiled for sm_75"
        in run("trace", "scale+0x10", "--in", "b15", "--arch", "75", cwd=project).stderr
    )


def test_output_that_nobody_reads(project):
    run("compile", "good.py", "-o", "b14", cwd=project)
    process = subprocess.Popen(
        [*PROGRAM, "trace", "--all", "scale", "--in", "b14"],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.readline()
    process.stdout.close()
    assert process.wait() == 0
    assert process.stderr.read() == b""


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_stopped_in_the_middle(project, tmp_path, sign):
    """No traceback, no process left behind, nothing half made in the build."""
    (tmp_path / "slow.py").write_text(
        "import os, time\nopen('pid', 'w').write(str(os.getpid()))\nwhile True:\n    time.sleep(0.05)\n"
    )
    process = subprocess.Popen(
        [*PROGRAM, "compile", "slow.py", "-o", "b"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # a test run in the background of a shell ignores SIGINT, and what it starts would too
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    pid = tmp_path / "pid"
    wait_for(lambda: pid.is_file() and pid.read_text())
    process.send_signal(sign)
    code = process.wait(timeout=120)
    assert b"Traceback" not in process.stderr.read()
    if sign == signal.SIGINT:
        assert code == 130
    wait_for(lambda: not Path(f"/proc/{pid.read_text()}").exists())
    assert not list((tmp_path / "b" / "units").iterdir())


def wait_for(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("did not come about")


def test_unexpected_failures_are_ours(monkeypatch, capsys):
    import warp_audit.cli.commands.trace as trace

    monkeypatch.setattr(trace, "run", lambda arguments: 1 / 0)
    assert main(["trace", "k+1"]) == 4
    assert "this is our bug" in capsys.readouterr().err


def test_warp_output_without_lines(project, tmp_path):
    """A cubin that Warp compiled without line information is explained by compiling it again."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\nimport warp as wp, good\n"
        "wp.compile_aot_module(good, arch=80, module_dir=sys.argv[2], use_ptx=False)\n"
        "wp.compile_aot_module(good, arch=80, module_dir=sys.argv[2], use_ptx=True)\n"
    )
    out = tmp_path / "aot"
    subprocess.run([sys.executable, "-c", script, project, out], check=True, capture_output=True)
    done = run("trace", "scale+0x100", "--in", out, "--source", "good.py", "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["verified"] == "recompiled"
    assert Path(answer["python"]["file"]).name == "good.py"
    ptx = next(out.glob("*.ptx"))
    store = next(n for n, line in enumerate(ptx.read_text(errors="replace").split("\n"), 1) if "st.global" in line)
    answer = json.loads(run("trace", f"ptx:{store}", "--in", ptx, "--source", "good.py", "--json", cwd=project).stdout)
    assert answer["ir"]["op"] == "array_store"
    changed = (project / "good.py").read_text().replace("* s", "* s * s")
    (tmp_path / "good.py").write_text(changed)
    refused = run("trace", "scale+0x100", "--in", out, "--source", tmp_path / "good.py", cwd=project)
    assert refused.returncode == 2
    assert "not identical" in refused.stderr


def test_warp_output_with_lines(project, tmp_path):
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\nimport warp as wp\nwp.config.lineinfo = True\nimport good\n"
        "wp.compile_aot_module(good, arch=80, module_dir=sys.argv[2], use_ptx=False)\n"
        "wp.compile_aot_module(good, arch=80, module_dir=sys.argv[2], use_ptx=True)\n"
    )
    subprocess.run([sys.executable, "-c", script, project, tmp_path / "aot"], check=True, capture_output=True)
    done = run("trace", "--all", "scale", "--in", tmp_path / "aot", "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    lines = {answer["python"]["line"] for answer in answers if answer["python"]}
    assert {6, 7} <= lines
    assert {answer["verified"] for answer in answers} == {"embedded"}
    ptx = next((tmp_path / "aot").glob("*.ptx"))
    store = next(n for n, line in enumerate(ptx.read_text(errors="replace").split("\n"), 1) if "st.global" in line)
    answer = json.loads(run("trace", f"ptx:{store}", "--in", ptx, "--json", cwd=project).stdout)
    assert (answer["python"]["line"], answer["python"]["text"]) == (7, "a[i] = a[i] * s")
    assert "st.global" in answer["ptx"]["text"]
    assert run("trace", "good.py:7", "--in", ptx, cwd=project).returncode == 0
    assert "--source" in run("trace", "scale+0", "--in", ptx, cwd=project).stderr

"""The lint command: exit codes, fixes, standard input, what is loaded."""

import io
import json
import os
import signal
import subprocess
import sys

import pytest

from warp_audit.cli import main

SOURCE = "import warp\nbad()\nugly = ancient\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(SOURCE)
    return path


def stdin(monkeypatch, data):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_exit_codes(lint, file):
    assert lint().code == 1
    assert lint("--exit-zero").code == 0
    assert lint("--select", "WPA4").code == 0
    assert lint("--fail-on", "error").code == 1
    assert lint("--select", "tiny-name", "--fail-on", "error").code == 0
    assert lint("--select", "tiny-name", "--fail-on", "warning").code == 1
    assert lint("--min-warp", "1.0", "--select", "tiny-old", "--fail-on", "warning").code == 0
    assert lint("gone", "--exit-zero").code == 2


def test_statistics(lint, file):
    file.write_text(SOURCE + "bad()\n" * 10)
    assert lint("--statistics", "--all-rules").out == "11  WPA190  tiny-call\n 1  WPA290  tiny-name\n"
    assert json.loads(lint("--statistics", "--format", "json").out) == [
        {"code": "WPA190", "rule": "tiny-call", "count": 11}
    ]


def test_quiet(lint, file):
    assert lint("-q", "--select", "WPA4").out == ""
    assert lint("-q").out == (
        "a.py:2:1: error WPA190[tiny-call]: bad is called\n  2 | bad()\n    | ^^^^^\n    = fix: call good instead\n\n"
    )


def test_standard_input(lint, file, monkeypatch):
    stdin(monkeypatch, SOURCE.encode())
    ran = lint("-", "--stdin-filename", "sub/b.py", "--format", "concise")
    assert (ran.code, ran.out) == (1, "sub/b.py:2:1: WPA190[tiny-call] bad is called\n")
    stdin(monkeypatch, b"\xffwarp")
    assert lint("-", "--format", "concise").out == "<stdin>:1:1: WPA900[unreadable-source] the byte 0xff is not utf-8\n"
    stdin(monkeypatch, SOURCE.encode())
    assert lint("-", "--stdin-filename", "build/b.py", "--force-exclude").code == 0


def test_fixes(lint, file):
    file.write_bytes(b"import warp\r\nbad(  )  # a comment\r\nugly = '\xc3\xa9', bad()\r\n")
    ran = lint("--diff")
    assert ran.code == 1
    assert ran.out == (
        "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n import warp\n-bad(  )  # a comment\n-ugly = 'é', bad()\n"
        "+good(  )  # a comment\n+ugly = 'é', good()\n"
    )
    assert b"bad" in file.read_bytes()
    ran = lint("--fix", "--all-rules")
    assert (ran.code, ran.out.splitlines()[-1]) == (
        1,
        "Found 1 fault (1 warning) in 1 file; 2 fixed. 1 can be fixed with --fix --unsafe-fixes.",
    )
    assert file.read_bytes() == b"import warp\r\ngood(  )  # a comment\r\nugly = '\xc3\xa9', good()\r\n"
    ran = lint("--fix", "--unsafe-fixes", "--all-rules")
    assert (ran.code, ran.out) == (0, "No faults found in 1 file; 1 fixed.\n")
    assert file.read_bytes() == b"import warp\r\ngood(  )  # a comment\r\nfair = '\xc3\xa9', good()\r\n"


def test_fixes_keep_encoding_and_mode(lint, file):
    file.write_bytes(b"# coding: latin-1\nimport warp\nbad('\xe9')\n")
    file.chmod(0o751)
    assert lint("--fix-only").code == 0
    assert file.read_bytes() == b"# coding: latin-1\nimport warp\ngood('\xe9')\n"
    assert file.stat().st_mode & 0o777 == 0o751


def test_accepted_findings_are_not_fixed(lint, file):
    file.write_text("import warp\nbad()  # noqa: WPA190\nbad(1)\n")
    before = file.read_text()
    lint("--write-baseline", "known.json")
    assert lint("--fix", "--baseline", "known.json").code == 0
    assert file.read_text() == before


def test_rules_that_may_not_be_fixed(lint, file, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.warp-audit]\nunfixable = ["tiny-call"]\n')
    lint("--fix")
    assert file.read_text() == SOURCE
    (tmp_path / "pyproject.toml").write_text('[tool.warp-audit]\nfixable = ["tiny-name"]\n')
    lint("--fix")
    assert file.read_text() == SOURCE


def test_fixes_standard_input(lint, file, monkeypatch, tmp_path):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import conftest\n"
        "import warp_audit.audit.catalogue as c; c.all_rules = lambda: (conftest.TinyCall,)\n"
        "from warp_audit.cli import main; sys.exit(main(['lint', '-', '--fix', '--isolated']))"
    )
    here = os.path.dirname(__file__)
    ran = subprocess.run(
        [sys.executable, "-c", code, here], input=b"import warp\r\nbad()\r\n", capture_output=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, b"import warp\r\ngood()\r\n")
    assert ran.stderr == b"No faults found in 1 file; 1 fixed.\n"


def test_what_is_loaded(tmp_path):
    (tmp_path / "a.py").write_text(
        "import warp as wp\n\n\n@wp.kernel\ndef k(a: wp.array(dtype=float)):\n    a[wp.tid()] = 1.0\n\n\n"
        "wp.launch(k, dim=3, inputs=[wp.zeros(3)])\n"
    )
    heavy = ("warp", "z3", "textual", "cuda", "libcst", "numpy", "rich", "elftools", "pygls", "jinja2")
    cold = ("warp_audit.audit.rule", "warp_audit.audit.catalogue", "warp_audit.audit.source.module", "multiprocessing")
    code = (
        "import sys\nfrom warp_audit.cli import main\nmain(['lint', '-q', '--format', sys.argv[1]])\n"
        "sys.stdout.write(' '.join(sys.modules))"
    )

    def loaded(name):
        ran = subprocess.run(
            [sys.executable, "-c", code, name], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert ran.stderr == ""
        return set(ran.stdout.split())

    for name in ("text", "json", "text"):
        modules = loaded(name)
        assert not modules.intersection(heavy)
    assert "warp_audit.audit.lint.run" in modules
    # The last run was warm: nothing that only checking needs.
    assert not modules.intersection(cold)


def test_an_interrupted_run_ends_quietly(tmp_path):
    for number in range(80):
        (tmp_path / f"m{number}.py").write_text("import warp\nx = [" + "1, " * 30_000 + "]\n")
    code = (
        "import os, signal, threading; from warp_audit.cli import main; import warp_audit.audit.lint.pool as p\n"
        "check, seen = p._pooled, []\n"
        "def pooled(tasks, known, workers, progress):\n"
        "    return check(tasks, known, workers, lambda n: seen or seen.append(os.kill(os.getpid(), signal.SIGINT)))\n"
        "p._pooled = pooled\n"
        "raise SystemExit(main(['lint', '--jobs', '2', '--no-cache']))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + code],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "interrupted\n")


def test_watch_lints_again_after_a_change(tmp_path):
    (tmp_path / "a.py").write_text("import warp\nx = (\n")
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from warp_audit.cli import main\n"
        "raise SystemExit(main(['lint', '--watch', '--format', 'concise', '--no-cache']))"
    )
    with subprocess.Popen(
        [sys.executable, "-u", "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout.readline().startswith("a.py:2:5: WPA900")
        assert process.stdout.readline() == "waiting for changes; Ctrl-C ends\n"
        (tmp_path / "b.py").write_text("import warp\n\ny = (\n")
        assert process.stdout.readline().startswith("a.py:2:5: WPA900")
        assert process.stdout.readline().startswith("b.py:3:5: WPA900")
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0


def test_rules(tiny_rules, capsys):
    assert main(["rules"]) == 0
    assert (
        capsys.readouterr().out
        == """\
WPA190  tiny-call           error    The function ``bad`` is called. (fixable)
WPA290  tiny-name           warning  The name ``ugly`` is used. (opt-in, fixable)
WPA390  tiny-old            info     The name ``ancient`` is used. (Warp before 1.14)
WPA490  tiny-def            warning  A function has a name that starts with ``bad_``.
WPA900  unreadable-source   error    The file cannot be read as Python source.
WPA901  unused-suppression  warning  A comment suppresses a rule that finds nothing there.
WPA902  bad-suppression     warning  A suppressing comment does not say what it suppresses, or names no rule.
"""
    )
    assert main(["rules", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[1] == {
        "code": "WPA290",
        "rule": "tiny-name",
        "aliases": ["old-name"],
        "severity": "warning",
        "confidence": "medium",
        "fixable": True,
        "min_warp": None,
        "summary": "The name ``ugly`` is used.",
        "opt_in": True,
    }


@pytest.mark.parametrize("command", ["rule", "explain"])
def test_a_page(tiny_rules, capsys, command):
    assert main([command, "unused-suppression"]) == 0
    assert capsys.readouterr().out.startswith("WPA901 unused-suppression\n\nA comment suppresses a rule that finds")
    assert main([command, "wpa901", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["page"].startswith("# WPA901 unused-suppression\n")
    assert main([command, "unused-supression"]) == 2
    assert "did you mean unused-suppression?" in capsys.readouterr().err

"""Known findings, by what they are and not by where they are."""

import json

import pytest

HEAD = "import warp\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "sub" / "a.py"
    path.parent.mkdir()
    path.write_text(HEAD + "bad()\n\n\ndef f():\n    bad(1)\n")
    return path


def test_a_baseline_whole(lint, tmp_path, file):
    ran = lint("--write-baseline", "known.json")
    assert (ran.code, ran.out, ran.err) == (0, "", "2 findings written to known.json\n")
    text = (tmp_path / "known.json").read_text()
    marks = [one["fingerprint"] for one in json.loads(text)["findings"]]
    entries = [
        f'    {{"file": "sub/a.py", "code": "WPA190", "rule": "tiny-call", "fingerprint": "{mark}", "count": 1}}'
        for mark in marks
    ]
    assert text == '{\n  "version": 1,\n  "findings": [\n' + ",\n".join(entries) + "\n  ]\n}\n"
    assert marks == sorted(marks)
    ran = lint("--baseline", "known.json")
    assert (ran.code, ran.out) == (0, "No faults found in 1 file; 2 in the baseline.\n")


@pytest.mark.parametrize(
    ("after", "left"),
    [
        (HEAD + "\n\n# more above\n\nbad()\n\n\ndef f():\n    bad(1)\n", []),
        (HEAD + "bad(  )  # words\n\n\ndef f():\n    if True:\n        bad(1)\n", []),
        (HEAD + "bad()\nbad()\n\n\ndef f():\n    bad(1)\n", [3]),
        (HEAD + "bad()\n\n\ndef f():\n    bad(2)\n", [6]),
        (HEAD + "bad()\n\n\ndef g():\n    bad(1)\n", [6]),
        (HEAD + "def h():\n    bad()\ndef f():\n    bad(1)\n", [3]),
    ],
)
def test_what_is_the_same(lint, file, after, left):
    lint("--write-baseline", "known.json")
    file.write_text(after)
    assert [one["line"] for one in json.loads(lint("--baseline", "known.json", "--format", "json").out)] == left


def test_stale_entries(lint, tmp_path, file):
    lint("--write-baseline", "known.json")
    file.write_text(HEAD + "bad()\n")
    (tmp_path / "pyproject.toml").write_text('[tool.warp-audit]\nbaseline = "known.json"\n')
    ran = lint()
    assert ran.code == 0
    assert ran.err == (
        "known.json: stale: sub/a.py: WPA190[tiny-call]\nknown.json: 1 stale entries; --prune-baseline takes them out\n"
    )
    assert lint("--ignore", "tiny-call").err == ""  # a rule that did not run says nothing of its entries
    assert lint("-q").err == ""
    assert lint("--prune-baseline").err == "known.json: 1 stale entries taken out\n"
    assert len(json.loads((tmp_path / "known.json").read_text())["findings"]) == 1
    assert lint().err == ""
    file.unlink()
    assert "stale: sub/a.py" in lint().err


def test_entries_of_files_that_are_not_linted_are_kept(lint, tmp_path, file):
    other = tmp_path / "b.py"
    other.write_text(HEAD + "bad()\n")
    lint("--write-baseline", "known.json")
    file.write_text(HEAD)
    other.write_text(HEAD)
    lint("b.py", "--baseline", "known.json", "--prune-baseline")
    assert {one["file"] for one in json.loads((tmp_path / "known.json").read_text())["findings"]} == {"sub/a.py"}


def test_suppressed_findings_are_not_written(lint, tmp_path, file):
    file.write_text(HEAD + "bad()  # noqa: WPA190\n")
    lint("--write-baseline", "known.json")
    assert (tmp_path / "known.json").read_text() == '{\n  "version": 1,\n  "findings": []\n}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a baseline: not JSON"),
        ("[]", "is not a baseline"),
        ('{"version": 1, "findings": [{"file": "a"}]}', "is not a baseline"),
        ('{"version": 9, "findings": []}', "is a baseline of version 9, which a later warp-audit wrote"),
    ],
)
def test_a_file_that_is_no_baseline(lint, tmp_path, file, text, message):
    (tmp_path / "known.json").write_text(text)
    ran = lint("--baseline", "known.json")
    assert (ran.code, ran.err) == (2, f"error: {tmp_path}/known.json: {message}\n")

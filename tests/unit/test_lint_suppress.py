"""Comments that silence findings."""

import json

import pytest

HEAD = "import warp as wp\n"


def codes(ran):
    """Line and code of each finding."""
    return [(one["line"], one["code"]) for one in json.loads(ran.out)]


@pytest.fixture
def found(lint, tmp_path):
    """What is found in a text, by line and code."""

    def run(text, *arguments):
        (tmp_path / "a.py").write_text(HEAD + text)
        return codes(lint("--no-cache", "--format", "json", *arguments))

    return run


@pytest.mark.parametrize(
    "text",
    [
        "bad()  # noqa: WPA190\n",
        "bad()  # noqa: E501, WPA190\n",
        "bad()  # NOQA:WPA190 for now\n",
        "bad()  # type: ignore # noqa: WPA190\n",
        "bad()  # warp-audit: ignore[WPA190]\n",
        "bad()  # warp-audit: ignore[tiny-call] known and harmless\n",
        "bad()  #warp-audit:ignore[ tiny-call ]\n",
        "bad()  # noqa: E501  # warp-audit: fixme[tiny-call] later\n",
        "# warp-audit: ignore[tiny-call] the whole statement below\n\nbad()\n",
        "x = (\n    1,\n    bad(),\n)  # noqa: WPA190\n",
        "x = (  # noqa: WPA190\n    1,\n    bad(),\n)\n",
        "x = (\n    1,\n    bad(),  # noqa: WPA190\n)\n",
        "s = '''\n''', bad(), '''\n'''  # noqa: WPA190\n",
        "if (  # noqa: WPA190\n    bad()\n):\n    pass\n",
        "@wp.kernel\ndef bad_name():  # noqa: WPA490\n    pass\n",
        "# warp-audit: ignore[tiny-def]\n@wp.kernel\ndef bad_name():\n    pass\n",
        "# warp-audit: ignore-file[tiny-call]\nbad()\nbad()\n",
        "bad()\n\n\n# warp-audit: ignore-file[WPA190] generated\n",
        "# warp-audit: off[tiny-call]\nbad()\n# warp-audit: on\n",
        "# warp-audit: off[tiny-call, tiny-def]\nbad()\n# warp-audit: on[tiny-call]\ndef bad_x(): ...\n",
        "# warp-audit: off[tiny-call]\nbad()\n",
        "match 1:\n    case 1 if bad():  # noqa: WPA190\n        pass\n",
        "try:\n    pass\nexcept bad():  # noqa: WPA190\n    pass\n",
    ],
)
def test_silences(found, text):
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("bad()  # noqa: E501\n", [(2, "WPA190")]),
        ("s = '# noqa: WPA190'; bad()\n", [(2, "WPA190")]),
        ("if True:  # warp-audit: ignore[tiny-call]\n    bad()\n", [(2, "WPA901"), (3, "WPA190")]),
        ("bad()  # warp-audit: ignore\n", [(2, "WPA190"), (2, "WPA902")]),
        ("bad()  # warp-audit: ignore[]\n", [(2, "WPA190"), (2, "WPA902")]),
        ("bad()  # warp-audit: ignore[ALL]\n", [(2, "WPA190"), (2, "WPA902")]),
        ("bad()  # warp-audit: ignore[tiny-call\n", [(2, "WPA190"), (2, "WPA902")]),
        ("bad()  # warp-audit: ingore[tiny-call]\n", [(2, "WPA190"), (2, "WPA902")]),
        ("bad()  # warp-audit: ignore[tiny-cal]\n", [(2, "WPA190"), (2, "WPA902")]),
        ("bad()  # noqa: WPA999\n", [(2, "WPA190"), (2, "WPA902")]),
        ("# warp-audit: on\n", [(2, "WPA902")]),
        ("# warp-audit: off\nbad()\n", [(2, "WPA902"), (3, "WPA190")]),
        ("# warp-audit: see the docs\nx = 1\n", []),
        ("x = 1  # warp-audit: ignore[tiny-call]\n", [(2, "WPA901")]),
        ("bad()  # warp-audit: ignore[tiny-call, tiny-def]\n", [(2, "WPA901")]),
        ("x = 1  # warp-audit: ignore[old-name]\n", []),
        ("x = 1  # warp-audit: ignore[tiny-call]\n# warp-audit: ignore-file[WPA901]\n", []),
        ("# warp-audit: off[tiny-call]\nbad()\n# warp-audit: on\nbad()\n", [(5, "WPA190")]),
    ],
)
def test_does_not_silence_what_it_does_not_name(found, text, left):
    assert found(text) == left


def test_a_rule_that_did_not_run_leaves_no_unused_comment(found):
    text = "x = 1  # warp-audit: ignore[tiny-call]\n"
    assert found(text, "--ignore", "tiny-call") == []
    assert found(text, "--per-file-ignores", "a.py:tiny-call") == []


def test_comments_can_be_overruled(found):
    assert found("bad()  # noqa: WPA190\n", "--ignore-suppressions") == [(2, "WPA190")]


def test_a_bare_noqa_gets_a_note(lint, tmp_path):
    (tmp_path / "a.py").write_text(HEAD + "bad()  # noqa\n")
    (one,) = json.loads(lint("--format", "json").out)
    assert one["notes"] == ["a `noqa` without a code does not silence warp-audit; write `# noqa: WPA190`"]


def test_counts_debt_apart(lint, tmp_path):
    (tmp_path / "a.py").write_text(HEAD + "bad()  # noqa: WPA190\nbad()  # warp-audit: fixme[tiny-call]\n")
    assert lint().out == "No faults found in 1 file; 1 suppressed; 1 to be mended (fixme).\n"


def test_writes_comments(lint, tmp_path):
    file = tmp_path / "a.py"
    file.write_bytes(
        b"import warp\r\n"
        b"bad(); bad()\r\n"
        b"x = bad() + \\\r\n"
        b"    1\r\n"
        b"y = bad('''\r\n"
        b"''')\r\n"
        b"def bad_x(a=bad()):  # old words\r\n"
        b"    pass"
    )
    ran = lint("--add-ignore=since 2026")
    assert (ran.code, ran.out, ran.err) == (0, "", "5 comments written\n")
    assert file.read_bytes() == (
        b"import warp\r\n"
        b"bad(); bad()  # warp-audit: ignore[tiny-call] since 2026\r\n"
        b"x = bad() + \\\r\n"
        b"    1  # warp-audit: ignore[tiny-call] since 2026\r\n"
        b"y = bad('''\r\n"
        b"''')  # warp-audit: ignore[tiny-call] since 2026\r\n"
        b"def bad_x(a=bad()):  # old words  # warp-audit: ignore[tiny-def, tiny-call] since 2026\r\n"
        b"    pass"
    )
    assert lint("--no-cache").code == 0


def test_adds_to_a_comment(lint, tmp_path):
    file = tmp_path / "a.py"
    file.write_text(HEAD + "def bad_x(a=bad()): pass  # warp-audit: ignore[tiny-def] a reason\n")
    assert lint("--add-ignore").code == 0
    assert file.read_text() == HEAD + "def bad_x(a=bad()): pass  # warp-audit: ignore[tiny-def, tiny-call] a reason\n"

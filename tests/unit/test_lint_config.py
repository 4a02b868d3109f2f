"""Settings from files and the command line."""

import json

import pytest

from warp_audit.audit.lint.bound import lower_bound

SOURCE = "import warp\nbad()\nugly = ancient\ndef bad_x(): ...\n"


@pytest.fixture
def codes(lint, tmp_path):
    """The codes found in ``a.py``."""
    (tmp_path / "a.py").write_text(SOURCE)

    def run(*arguments, path="."):
        return [one["code"][3:] for one in json.loads(lint("--format", "json", *arguments, path).out)]

    return run


@pytest.fixture
def project(tmp_path):
    """Writes a configuration."""

    def write(text, name="pyproject.toml", head="[tool.warp-audit]\n"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(head + text)

    return write


def test_what_runs(codes):
    assert codes() == ["190", "490"]
    assert codes("--all-rules") == ["190", "290", "490"]
    assert codes("--extend-select", "tiny-name") == ["190", "290", "490"]
    assert codes("--select", "old-name") == ["290"]
    assert codes("--select", "WPA2") == []
    assert codes("--select", "WPA2", "--all-rules") == ["290"]
    assert codes("--select", "ALL") == ["190", "290", "490"]
    assert codes("--select", "WPA1,WPA4") == ["190", "490"]
    assert codes("--select", "WPA190", "--ignore", "WPA1") == ["190"]
    assert codes("--select", "WPA1", "--ignore", "WPA190") == []
    assert codes("--ignore", "tiny-def") == ["190"]
    assert codes("--extend-ignore", "WPA") == []
    assert codes("--per-file-ignores", "*.py:WPA4,tiny-call") == []
    assert codes("--per-file-ignores", "!a.py:WPA4") == ["190", "490"]
    assert codes("--per-file-ignores", "!b.py:WPA4") == ["190"]


def test_older_warp(codes, project):
    assert codes("--min-warp", "1.13") == ["190", "390", "490"]
    assert codes("--min-warp", "1.14") == ["190", "490"]
    project('min-warp = "1.12"\n')
    assert codes() == ["190", "390", "490"]
    assert codes("--isolated") == ["190", "490"]


@pytest.mark.parametrize(
    ("name", "text", "speaks"),
    [
        ("pyproject.toml", '[project]\ndependencies = ["numpy", "warp-lang>=1.10,<2"]\n', True),
        ("pyproject.toml", "[project]\ndependencies = [\"warp_lang[extras]~=1.14.1; python_version>'3'\"]\n", False),
        ("pyproject.toml", '[project]\ndependencies = ["warp-lang"]\n', False),
        ("pyproject.toml", '[project]\ndependencies = ["warp-lang-extra>=1.0"]\n', False),
        (
            "pyproject.toml",
            '[project]\ndependencies = ["warp-lang>=1.15"]\n[project.optional-dependencies]\nx = ["warp-lang>=1.0"]\n',
            False,
        ),
        (
            "pyproject.toml",
            '[project.optional-dependencies]\nx = ["warp-lang==1.9.*"]\ny = ["warp-lang>=1.16"]\n',
            True,
        ),
        ("pyproject.toml", '[dependency-groups]\ndev = [{include-group = "x"}, "warp-lang>1.9"]\n', True),
        ("pyproject.toml", '[tool.poetry.dependencies]\nwarp-lang = "^1.9"\n', True),
        ("pyproject.toml", "[project\n warp-lang", False),
        ("setup.cfg", "[options]\ninstall_requires =\n    numpy\n    warp-lang>=1.8\n", True),
        ("requirements.txt", "# ours\nnumpy\nwarp-lang==1.10.0 --hash=sha256:1 # pinned\n", True),
    ],
)
def test_the_project_says_which_warp_it_supports(codes, project, name, text, speaks):
    project(text, name, "")
    assert ("390" in codes()) is speaks
    assert "390" not in codes("--min-warp", "1.19")


def test_bounds():
    assert lower_bound("warp-lang >= 1.10, != 1.11") == (1, 10)
    assert lower_bound("Warp.Lang>=1.10,>=1.12") == (1, 12)
    assert lower_bound("warp-lang<2") is None
    assert lower_bound("warp-language>=1") is None
    assert lower_bound("warp-lang @ https://x.org/w.whl") is None
    assert lower_bound("warp-lang >>= 3") is None


def test_the_nearest_file_counts(codes, project, tmp_path):
    project('ignore = ["tiny-call"]\n')
    project("[project]\n", "sub/pyproject.toml", "")
    project('select = ["tiny-call"]\n', "sub/own/warp-audit.toml", "")
    project('select = ["tiny-def"]\n', "sub/own/pyproject.toml")
    for folder in ("sub", "sub/own"):
        (tmp_path / folder / "a.py").write_text(SOURCE)
    assert codes(path="a.py") == ["490"]
    assert codes(path="sub/a.py") == ["490"]
    assert codes(path="sub/own") == ["190"]
    assert codes() == ["490", "490", "190"]
    assert codes("--config", "sub/own/pyproject.toml") == ["490"] * 3
    assert codes("--select", "tiny-call") == ["190"] * 3
    assert codes("--isolated", path="a.py") == ["190", "490"]


def test_settings_of_a_project(codes, project, tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "t.py").write_text(SOURCE)
    project(
        'extend-select = ["tiny-name"]\nextend-ignore = ["WPA4"]\nextend-exclude = ["old"]\n'
        '[tool.warp-audit.per-file-ignores]\n"tests/*" = ["tiny-call"]\n'
    )
    assert codes() == ["190", "290", "290"]
    assert codes(path="tests") == ["290"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('selct = ["x"]', "pyproject.toml: there is no setting 'selct'\nhint: did you mean select?"),
        ("extend_select = []", "there is no setting 'extend_select'\nhint: did you mean extend-select?"),
        ('select = ["tiny-cal"]', "pyproject.toml: select: there is no rule 'tiny-cal'\nhint: did you mean tiny-call?"),
        ('ignore = ["WPA7"]', "ignore: there is no rule 'WPA7'\n"),
        ('select = "tiny-call"', "pyproject.toml: select: is not a list of strings\n"),
        ('per-file-ignores = ["x"]', "per-file-ignores: is not a table of patterns\n"),
        ('per-file-ignores = {"x" = ["y"]}', "per-file-ignores of x: there is no rule 'y'\n"),
        ("min-warp = 1.12", 'min-warp: is not a string\nhint: for example min-warp = "1.12"'),
        ('min-warp = "new"', "min-warp: 'new' is not a version of Warp\n"),
        ('all-rules = "yes"', "all-rules: is neither true nor false\n"),
        ("baseline = 3", "baseline: is not the name of a file\n"),
        ('baseline = "gone.json"', "gone.json: there is no such baseline\n"),
        ("select = [", "pyproject.toml: is not TOML: "),
    ],
)
def test_faults_of_a_configuration(lint, tmp_path, project, text, message):
    (tmp_path / "a.py").write_text(SOURCE)
    project(text + "\n")
    ran = lint()
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--select", "old-nme"], "error: select: there is no rule 'old-nme'\nhint: did you mean old-name?\n"),
        (["--min-warp", "2"], "error: --min-warp: '2' is not a version of Warp\nhint: for example 1.12\n"),
        (["--config", "gone.toml"], "gone.toml: there is no such configuration file\n"),
        (["--per-file-ignores", "x"], "error: --per-file-ignores: 'x' is not PATTERN:RULE\n"),
        (["--jobs", "0"], "error: --jobs: the number of processes is at least 1\n"),
        (["-", "a.py"], "error: -: standard input cannot be linted together with files\n"),
    ],
)
def test_faults_of_the_command_line(lint, tmp_path, arguments, message):
    (tmp_path / "a.py").write_text(SOURCE)
    ran = lint(*arguments)
    assert ran.code == 2
    assert message in ran.err


def test_shows_settings(lint, project, tmp_path):
    project('select = ["WPA1"]\nmin-warp = "1.12"\nbaseline = "b.json"\n')
    (shown,) = json.loads(lint("--show-settings", "--ignore", "tiny-def").out)
    assert shown.pop("exclude")[:3] == [".bzr", ".direnv", ".eggs"]
    assert shown == {
        "path": ".",
        "root": str(tmp_path),
        "source": str(tmp_path / "pyproject.toml"),
        "select": ["WPA1"],
        "ignore": ["tiny-def"],
        "extend-select": [],
        "extend-ignore": [],
        "per-file-ignores": {},
        "extend-exclude": [],
        "min-warp": "1.12",
        "min-warp-from": str(tmp_path / "pyproject.toml"),
        "all-rules": False,
        "baseline": str(tmp_path / "b.json"),
        "fixable": [],
        "unfixable": [],
        "rules": ["WPA190"],
    }

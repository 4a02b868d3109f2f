"""Times `warp-audit lint` on Warp's own sources, beside Python's parser and other linters, all in one run.

    python bench/lint.py [--peers FOLDER_OF_PROGRAMS] [--runs N]

Each program runs on one core, on the same copy of the installed `warp` package. Times are CPU seconds of the
process (wall seconds for the warm runs, which are about waiting); the first column of ratios is against
`ast.parse` + `ast.walk` over the same files. A peer that is not installed is left out, aloud; pylint, which is
slow, gets every tenth file and its time is multiplied.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WALK = """
import ast, sys
from pathlib import Path
for name in sys.stdin.read().split("\\n"):
    tree = ast.parse(Path(name).read_bytes())
    for node in ast.walk(tree):
        pass
"""
LINT = "import sys; from warp_audit.cli import main; sys.exit(main())"
TRIVIAL = """
from fixit import LintRule
import libcst as cst

class NoEval(LintRule):
    def visit_Call(self, node: cst.Call) -> None:
        if isinstance(node.func, cst.Name) and node.func.value == "eval":
            self.report(node, "eval")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", metavar="FOLDER", type=Path, help="where ruff, fixit and pylint are installed")
    parser.add_argument("--runs", type=int, default=3, help="runs of each, of which the median is shown (default: 3)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "code"
        files = copy(root)
        lines = sum(path.read_bytes().count(b"\n") for path in files)
        print(f"{len(files)} files, {lines:,} lines")
        base = measure("ast.parse + ast.walk", [sys.executable, "-c", WALK], root, options.runs, None, files)
        cold = [sys.executable, "-c", LINT, "lint", str(root), "--isolated", "--jobs", "1", "-q", "--exit-zero"]
        measure("warp-audit lint, cold", [*cold, "--no-cache"], root, options.runs, base)
        warm(cold, root, files, options.runs)
        peers(root, files, options, base)


def copy(root: Path) -> list[Path]:
    """A copy of the installed package's Python files."""
    spec = importlib.util.find_spec("warp")
    if spec is None or spec.origin is None:
        sys.exit("warp-lang is not installed")
    shutil.copytree(
        Path(spec.origin).parent,
        root / "warp",
        ignore=lambda folder, names: [n for n in names if not (n.endswith(".py") or (Path(folder) / n).is_dir())],
    )
    return sorted(root.rglob("*.py"))


def cpu(command: list[str], root: Path, files: list[Path] | None = None) -> float:
    """CPU seconds of a process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = "\n".join(map(str, files)) if files else None
    done = subprocess.run(command, cwd=root, input=text, capture_output=True, text=True)
    if done.returncode not in (0, 1, *range(2, 32)) or "Traceback" in done.stderr:
        sys.exit(f"{command[0]} failed:\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(
    name: str,
    command: list[str],
    root: Path,
    runs: int,
    base: float | None,
    files: list[Path] | None = None,
    times: float = 1.0,
) -> float:
    seconds = statistics.median(cpu(command, root, files) for _ in range(runs)) * times
    ratio = f"{seconds / base:6.2f} x" if base else ""
    print(f"{name:34} {seconds:8.2f} s CPU {ratio}", flush=True)
    return seconds


def warm(cold: list[str], root: Path, files: list[Path], runs: int) -> None:
    """Runs with a cache: nothing changed, and ten files changed."""
    command = [*cold, "--cache-dir", str(root.parent / "cache")]
    subprocess.run(command, cwd=root, capture_output=True)
    unchanged, changed = [], []
    some = [path for path in files if b"wp.kernel" in path.read_bytes()][::20][:10]
    for number in range(runs):
        unchanged.append(wall(command, root))
        for path in some:
            path.write_text(path.read_text() + f"# {number}\n")
        changed.append(wall(command, root))
    ten = [*cold[: cold.index(str(root))], *map(str, some), *cold[cold.index(str(root)) + 1 :], "--no-cache"]
    print(f"{'warm, nothing changed':34} {statistics.median(unchanged):8.2f} s wall")
    print(f"{f'warm, {len(some)} files changed':34} {statistics.median(changed):8.2f} s wall")
    seconds = statistics.median(wall(ten, root) for _ in range(runs))
    print(f"{f'{len(some)} files given, no cache':34} {seconds:8.2f} s wall")


def wall(command: list[str], root: Path) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=root, capture_output=True)
    return time.perf_counter() - start


def peers(root: Path, files: list[Path], options: argparse.Namespace, base: float) -> None:
    """Other linters on the same files."""
    found = {name: program(name, options.peers) for name in ("ruff", "fixit", "pylint")}
    for name, path in found.items():
        if path is None:
            print(f"{name:34} not installed")
    if found["ruff"]:
        os.environ["RAYON_NUM_THREADS"] = "1"
        measure(
            "ruff check, default rules", [found["ruff"], "check", "--isolated", "--no-cache", "-q", "."], root, 3, base
        )
    if found["fixit"]:
        (root / "trivial.py").write_text(TRIVIAL)
        (root / "pyproject.toml").write_text(
            '[tool.fixit]\nroot = true\nenable = [".trivial"]\ndisable = ["fixit.rules"]\n'
        )
        measure("fixit, one trivial rule", [found["fixit"], "-q", "lint", "warp"], root, 1, base)
    if found["pylint"]:
        part = [str(path) for path in files[::10]]
        command = [found["pylint"], "--rcfile", os.devnull, "--jobs", "1", "--errors-only", *part]
        measure("pylint --errors-only, a tenth, × 10", command, root, 1, base, times=len(files) / len(part))


def program(name: str, folder: Path | None) -> str | None:
    path = folder / name if folder else None
    return str(path) if path and path.exists() else shutil.which(name)


if __name__ == "__main__":
    main()

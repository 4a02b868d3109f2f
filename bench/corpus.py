"""Lifts every kernel of real packages and checks each step: IR, verifier, printing, emitting, code.

    python bench/corpus.py lift newton mujoco_warp warp.fem
    python bench/corpus.py code warp.examples.core.example_sph …

``lift`` needs no NVRTC: for every module with kernels that the named modules (and all their
submodules) define, it compares our text with Warp's own, and times the tap against Warp's own
code generation. ``code`` compiles as well and compares PTX, ``.text`` and the index with
Warp's own artefacts and ``nvdisasm -gi``. Each module is imported in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent


def submodules(name: str) -> list[str]:
    """A module and every module in the folders below it, tests aside, found without importing any."""
    spec = find_spec(name)
    if spec is None:
        sys.exit(f"no module {name}")
    found = [name]
    for place in map(Path, spec.submodule_search_locations or ()):
        for path in sorted(place.rglob("*.py")):
            parts = path.relative_to(place).with_suffix("").parts
            if parts[-1] in ("__init__", "__main__") or "tests" in parts or not all(p.isidentifier() for p in parts):
                continue
            found.append(".".join([name, *parts]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("lift", "code"))
    parser.add_argument("modules", nargs="+", help="modules or packages; their submodules too")
    parser.add_argument(
        "--together", action="store_true", help="import all in one process: faster, one failure ends it"
    )
    parser.add_argument("--timeout", type=int, default=600, help="seconds for one process")
    arguments = parser.parse_args()
    names = [name for package in arguments.modules for name in submodules(package)]
    groups = [names] if arguments.together else [[name] for name in names]
    total: Counter[str] = Counter()
    seen: set[str] = set()
    for group in groups:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(HERE / "corpus_worker.py"), arguments.what, *group]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=arguments.timeout, check=False, cwd=folder,
                    env=os.environ | {"PYTHONHASHSEED": "0"},
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                total["timed out"] += 1
                print(f"{' '.join(group)[:60]}: more than {arguments.timeout} s", flush=True)
                continue
        for line in done.stdout.splitlines():
            if not line.startswith("{"):
                continue
            found = json.loads(line)
            key = found.pop("key")
            if key in seen:
                continue
            seen.add(key)
            for problem in found.pop("problems"):
                print(f"{key}: {problem}", flush=True)
            total.update(found)
        if done.returncode:
            total["processes that failed"] += 1
            reason = done.stderr.strip().splitlines()[-1:] or ["?"]
            print(f"{' '.join(group)[:60]}: {reason[0][:200]}", flush=True)
    report(total)


def report(total: Counter[str]) -> None:
    """Print the sums, and ratios of what was timed."""
    for name in sorted(total):
        value = total[name]
        print(f"{name:<36} {value:.2f}" if isinstance(value, float) else f"{name:<36} {value}")
    if total["seconds: Warp alone"]:
        print(f"tap over Warp alone: {total['seconds: tapped'] / total['seconds: Warp alone'] - 1:+.1%}")
    if total["seconds: nvdisasm -gi"]:
        print(f"index over nvdisasm -gi: {total['seconds: index'] / total['seconds: nvdisasm -gi']:.2f}")
    if total["instructions"]:
        print(f"instructions that reach an IR node: {total['instructions: with a node'] / total['instructions']:.2%}")


if __name__ == "__main__":
    main()

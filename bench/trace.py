"""Times `warp-audit trace` as a whole process, and look-ups by the million in one.

    python bench/trace.py

Prints the median of several runs beside that of a bare start of Python, and the rate of look-ups.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from warp_audit.compiler.stages.session import Request
from warp_audit.debugger.builds import make_build

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PROGRAM = "import sys; from warp_audit.cli import main; sys.exit(main())"
RUNS = 11
LOOKUPS = 1_000_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        targets = tuple(str(path) for path in sorted(EXAMPLES.glob("*.py")) if path.stem != "store_pc")
        build = make_build(Request(build_dir=folder, targets=targets))
        trace = [sys.executable, "-c", PROGRAM, "trace", "undistort+0xaf0", "--in", folder, "--json"]
        print(f"trace of one address      {median(trace, folder):.3f} s")
        print(f"bare start of Python      {median([sys.executable, '-c', 'pass'], folder):.3f} s")
        unit, code = build.one("undistort")
        chance = random.Random(1)
        offsets = [chance.randrange(code.size) for _ in range(LOOKUPS)]
        start = time.perf_counter()
        table = build.index(unit).table(code)
        found = [table[offset // 16] for offset in offsets]
        seconds = time.perf_counter() - start
        reached = sum(node is not None for node, _ in found)
        print(f"{LOOKUPS:,} look-ups      {seconds:.3f} s ({reached / LOOKUPS:.1%} reach an IR node)")


def median(command: list[str], folder: str) -> float:
    """The median time of a command, after one run that does not count."""
    times = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, cwd=folder)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


if __name__ == "__main__":
    main()

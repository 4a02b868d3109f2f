"""Compile Warp kernels as Warp does and index them, on any machine.

TARGET is a Python file, a module's name, or a .wir file; TARGET::KERNEL lists one kernel of
it. Files and modules are imported in a process of their own. Kernels that are only made while
the program runs (closures, generics, wp.map) are met with --run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from warp_audit.errors import BadInput

if TYPE_CHECKING:
    from warp_audit.debugger.builds import Build, Progress

SUMMARY = "compile a target's kernels to IR, PTX, cubin and SASS, and index them"
EPILOG = """\
examples:
  warp-audit compile sim.py
  warp-audit compile sim.py::integrate --arch sm_90 -o build
  warp-audit compile package.kernels --json
  warp-audit compile --run train.py --epochs 1
  warp-audit compile saved.wir            (no Python source needed)
"""

_ARCH = re.compile(r"(?:sm_?|compute_?)?(\d{2,3})")


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help="file.py, module, file.wir; ::KERNEL for one kernel"
    )
    parser.add_argument(
        "--run", dest="script", nargs=argparse.REMAINDER, metavar="SCRIPT ...",
        help="run SCRIPT with the arguments after it; the last option",
    )  # fmt: skip
    parser.add_argument(
        "--arch",
        action="append",
        default=[],
        metavar="sm_NN",
        help="architecture, repeatable (default: the GPU's, else sm_80)",
    )
    parser.add_argument(
        "--block-dim", action="append", default=[], type=int, metavar="N",
        help="block size to build for, repeatable (default: the launches seen, else the module's)",
    )  # fmt: skip
    parser.add_argument("-o", "--out", metavar="DIR", help="build folder (default: .warp-audit/build)")
    parser.add_argument(
        "--lines", choices=("ir", "python"), default="ir",
        help="what line tables state: IR nodes, or Python lines for cuda-gdb and Nsight (default: ir)",
    )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="also kernels of modules that the target imports")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="compilations at a time")
    parser.add_argument("--json", action="store_true", help="print the kernels as JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the target and the compilers print")


def run(arguments: argparse.Namespace) -> int:
    """Compile; exit code 1 when a kernel or target was refused."""
    from warp_audit.debugger.builds import make_build
    from warp_audit.reports.kernels import kernels_json, refusals_text, table

    request, only = build_request(arguments)
    tell = progress_printer()
    show = (lambda line: print(line, file=sys.stderr)) if arguments.verbose or arguments.script else None
    build = make_build(request, tell, show)
    tell(None)
    build.only = only
    check_only(build)
    if arguments.json:
        json.dump(kernels_json(build), sys.stdout, indent=2)
        print()
    else:
        print(table(build))
    text = refusals_text(build)
    if text:
        print(text, file=sys.stderr)
    return 1 if build.refused or build.failed else 0


def build_request(arguments: argparse.Namespace) -> tuple[object, tuple[str, ...]]:
    """The compile request that the arguments make, and the kernels asked for by name.

    Raises:
        BadInput: an option makes no sense, or there is nothing to compile.
    """
    from warp_audit.compiler.stages.session import Request
    from warp_audit.debugger.builds import DEFAULT

    targets, only = [], []
    for target in arguments.targets:
        name, _, kernel = target.partition("::")
        targets.append(name)
        if kernel:
            only.append(kernel)
    script = list(arguments.script or ())
    if not targets and not script:
        raise BadInput("there is nothing to compile", hint="name a file or module, or use --run SCRIPT")
    wir = [t for t in targets if t.endswith(".wir")]
    if wir and len(wir) != len(targets):
        raise BadInput("a .wir file cannot be compiled together with Python targets", where=wir[0])
    for path in wir:
        if not Path(path).is_file():
            raise BadInput("there is no such file", where=path)
    if arguments.jobs < 1:
        raise BadInput("--jobs takes a number from 1 up")
    for size in arguments.block_dim:
        if not 1 <= size <= 1024:
            raise BadInput(f"a block has 1 to 1024 threads, not {size}", where="--block-dim")
    request = Request(
        build_dir=str(arguments.out or DEFAULT),
        targets=tuple(t for t in targets if t not in wir),
        run=tuple(script),
        wir=tuple(wir),
        archs=tuple(parse_arch(a) for a in arguments.arch),
        block_dims=tuple(arguments.block_dim),
        lines=arguments.lines,
        all=arguments.all,
        jobs=arguments.jobs,
    )
    return request, tuple(only)


def parse_arch(text: str) -> int:
    """The number in ``sm_90``, ``compute_90`` or ``90``.

    Raises:
        BadInput: the text is none of these.
    """
    match = _ARCH.fullmatch(text)
    if not match:
        raise BadInput(f"{text!r} is not an architecture", where="--arch", hint="write sm_80, sm_90, …")
    return int(match[1])


def check_only(build: Build) -> None:
    """Refuse names after ``::`` that no kernel has.

    Raises:
        BadInput: names the kernels there are.
    """
    from warp_audit.debugger.builds import shortened

    known = {name for unit in build.units for name in unit.kernels.values()}
    refused = {one["kernel"] for one in build.refused}
    for name in build.only:
        if not any(name in (k, k.rpartition(".")[2]) for k in known | refused) and not build.find(name):
            raise BadInput(f"there is no kernel {name!r} in the target", hint=f"there are {shortened(sorted(known))}")


class _Progress:
    """One line on standard error that is rewritten; nothing where that is no terminal."""

    def __init__(self) -> None:
        self.on = sys.stderr.isatty()
        self.width = 0

    def __call__(self, progress: Progress | None) -> None:
        if not self.on:
            return
        text = ""
        if progress is not None:
            count = f"[{progress.done}/{progress.total}] " if progress.total else ""
            text = f"{count}{progress.text}"[:78]
        print("\r" + text.ljust(self.width), end="" if text else "\r", file=sys.stderr, flush=True)
        self.width = len(text)


def progress_printer() -> _Progress:
    """A progress line for a terminal."""
    return _Progress()

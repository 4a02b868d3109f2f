"""Show a kernel's Python, IR, PTX and SASS side by side, what belongs together in one colour.

TARGET::KERNEL is compiled first, as `warp-audit compile` does; with --in, KERNEL is one of an
earlier build.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from warp_audit.cli.commands import compile as compile_command
from warp_audit.errors import BadInput

if TYPE_CHECKING:
    from warp_audit.debugger.builds import Build, UnitFacts
    from warp_audit.debugger.index import Code

SUMMARY = "show a kernel's Python, IR, PTX and SASS side by side"
EPILOG = """\
examples:
  warp-audit show sim.py::integrate
  warp-audit show sim.py::integrate --backward | less -R
  warp-audit show integrate --in build --json
"""


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("target", metavar="TARGET::KERNEL")
    add_build_options(parser)
    parser.add_argument("--backward", action="store_true", help="the adjoint kernel")
    parser.add_argument("--width", type=int, metavar="N", help="columns to use (default: the terminal's)")
    parser.add_argument("--json", action="store_true", help="the lines of each level with their IR nodes, as JSON")


def add_build_options(parser: argparse.ArgumentParser) -> None:
    """The options that say what to compile, shared with ``debug``."""
    parser.add_argument("--in", dest="place", metavar="DIR", help="use this build and compile nothing")
    parser.add_argument("--arch", action="append", default=[], metavar="sm_NN", help="architecture to compile for")
    parser.add_argument(
        "--block-dim", action="append", default=[], type=int, metavar="N", help="block size to build for"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print one kernel."""
    from warp_audit.debugger.views import kernel_view
    from warp_audit.reports.sidebyside import side_by_side, view_json
    from warp_audit.reports.style import Style

    build, kernel = open_or_build(arguments.target, arguments)
    if kernel is None:
        names = sorted({name for unit in build.units for name in unit.kernels.values()})
        if len(names) != 1:
            raise BadInput("names no kernel", where=arguments.target, hint=f"add one: ::{', ::'.join(names[:8])}")
        kernel = names[0]
    unit, code = build.one(kernel)
    if arguments.backward:
        code = backward_of(build, unit, code)
    view = kernel_view(build, unit, code)
    if arguments.json:
        json.dump(view_json(view), sys.stdout, indent=1)
        print()
        return 0
    width = arguments.width or (shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 160)
    for line in side_by_side(view, max(width, 40), Style()):
        print(line)
    return 0


def backward_of(build: Build, unit: UnitFacts, code: Code) -> Code:
    """The adjoint of a compiled kernel.

    Raises:
        BadInput: it was compiled without one.
    """
    for other in build.index(unit).codes():
        if other.kernel == code.kernel and other.passed == "backward":
            return other
    raise BadInput(f"{code.kernel} has no backward pass", hint="its module or kernel sets enable_backward=False")


def open_or_build(target: str, arguments: argparse.Namespace) -> tuple[Build, str | None]:
    """The build to show, and the kernel named in the target.

    Raises:
        BadInput: the target cannot be compiled, or is not in the build.
    """
    from warp_audit.debugger.builds import make_build, open_build
    from warp_audit.reports.kernels import refusals_text

    name, _, kernel = target.partition("::")
    if arguments.place:
        arch = f"sm_{compile_command.parse_arch(arguments.arch[0])}" if arguments.arch else None
        block_dim = arguments.block_dim[0] if arguments.block_dim else None
        build = open_build(Path(arguments.place)).narrowed(arch, block_dim)
        return build, kernel or (None if name.endswith(".py") else name)
    options = argparse.Namespace(
        targets=[target], script=None, jobs=os.cpu_count() or 1, block_dim=arguments.block_dim, out=None,
        arch=arguments.arch, lines="ir", all=False,
    )  # fmt: skip
    request, only = compile_command.build_request(options)
    tell = compile_command.progress_printer()
    build = make_build(request, tell)
    tell(None)
    build.only = only
    compile_command.check_only(build)
    if text := refusals_text(build):
        print(text, file=sys.stderr)
    if not build.units:
        raise BadInput("has no kernel that compiles", where=name)
    return build, kernel or None

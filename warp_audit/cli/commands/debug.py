"""Walk through a kernel in the terminal: Python, IR, PTX and SASS in four panes tied together.

TARGET, or TARGET::KERNEL, is compiled first, as `warp-audit compile` does; with --in it is a
kernel of an earlier build. Moving in one pane lights what belongs to the line in the others.
"""

from __future__ import annotations

import argparse
import sys

from warp_audit.cli.commands.show import add_build_options, backward_of, open_or_build
from warp_audit.errors import BadInput

SUMMARY = "walk through a kernel in the terminal, four levels side by side"
EPILOG = """\
keys:
  tab, shift+tab   next and previous pane       arrows, j k, page keys   move
  o                open another kernel          b     forward or backward pass
  /, n, N          find, next, previous         z     zoom the pane
  enter            next lit line                d     dark or light
  q                quit
"""


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("target", metavar="TARGET[::KERNEL]")
    add_build_options(parser)
    parser.add_argument("--backward", action="store_true", help="open the adjoint kernel")


def run(arguments: argparse.Namespace) -> int:
    """Open the screen."""
    try:
        from warp_audit.tui.app import DebugApp
    except ModuleNotFoundError as missing:
        if missing.name and missing.name.partition(".")[0] in ("textual", "rich"):
            raise BadInput("the terminal debugger needs Textual", hint="pip install 'warp-audit[debug]'") from None
        raise
    if not (sys.stdout.isatty() and sys.stderr.isatty()):  # Textual draws on standard error
        raise BadInput("the terminal debugger needs a terminal", hint="warp-audit show prints the same levels as text")
    build, kernel = open_or_build(arguments.target, arguments)
    if kernel is None:
        unit = build.units[0]
        order = build.index(unit).entity_lines()
        code = min(build.index(unit).codes(), key=lambda c: (c.passed != "forward", order.get(c.kernel, (0, 0))))
    else:
        unit, code = build.one(kernel)
    if arguments.backward:
        code = backward_of(build, unit, code)
    DebugApp(build, unit, code).run()
    return 0

"""Say what an address is on every level: Python expression, IR node, PTX line, SASS.

An ADDRESS is KERNEL+0x1710, 0x1710@KERNEL, ptx:LINE, cu:LINE, ir:NODE, or file.py:LINE[:COLUMN].
A KERNEL is the mangled name, the name in Python, or any part that fits one kernel.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from warp_audit.addresses import parse_address
from warp_audit.cli.commands.compile import parse_arch
from warp_audit.errors import BadInput

if TYPE_CHECKING:
    from warp_audit.debugger.trace import Answer, Tracer

SUMMARY = "say which Python expression, IR node, PTX and SASS an address is"
EPILOG = """\
examples:
  warp-audit trace integrate+0x1710
  warp-audit trace sim.py:42 sim.py:42:17 ir:120 --in build
  warp-audit trace solve_c14bbadc_cuda_kernel_forward+0x1710 --in ~/.cache/warp/1.19.0/wp_sim_1a2b3c4 --source sim.py
  warp-audit trace --all integrate --json
"""


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("addresses", nargs="*", metavar="ADDRESS", help="see above for the forms")
    parser.add_argument(
        "--in", dest="place", metavar="DIR|FILE",
        help="a build folder, a folder of Warp's kernel cache, or a .cubin or .ptx file (default: .warp-audit/build)",
    )  # fmt: skip
    parser.add_argument("--all", metavar="FUNCTION", help="every instruction of a function")
    parser.add_argument(
        "--source", metavar="TARGET", help="the program that a binary without line information was compiled from"
    )
    parser.add_argument("--arch", metavar="sm_NN", help="which code is meant, in a build for several architectures")
    parser.add_argument("--block-dim", type=int, metavar="N", help="which code is meant, in a build for several sizes")
    parser.add_argument("--json", action="store_true", help="one JSON object a line, one for each address")


def run(arguments: argparse.Namespace) -> int:
    """Answer each address; exit code 2 when one cannot be answered."""
    from warp_audit.debugger.places import open_place

    if not arguments.addresses and not arguments.all:
        raise BadInput("there is no address to trace", hint="for example: warp-audit trace KERNEL+0x10")
    wanted = [(text, parse_address(text)) for text in arguments.addresses]
    names = [address.function for _, address in wanted if hasattr(address, "function")]
    tracer = open_place(
        Path(arguments.place) if arguments.place else None,
        arguments.source,
        [*names, *filter(None, [arguments.all])],
        f"sm_{parse_arch(arguments.arch)}" if arguments.arch else None,
        arguments.block_dim,
    )
    write = _json_writer() if arguments.json else _text_writer(tracer)
    code = 0
    for text, address in wanted:
        try:
            write(tracer.answer(text, address))
        except BadInput as wrong:
            if len(wanted) == 1 and not arguments.json:
                raise
            code = wrong.exit_code
            _failed(text, wrong, arguments.json)
    if arguments.all:
        for answer in tracer.all(arguments.all):
            write(answer)
    return code


def _failed(text: str, wrong: BadInput, as_json: bool) -> None:
    from warp_audit.cli import report
    from warp_audit.debugger.trace import Answer

    if as_json:
        print(json.dumps(Answer(text, verified="none", error=str(wrong)).to_json()))
    else:
        report(wrong)


def _json_writer() -> Callable[[Answer], None]:
    def write(answer: Answer) -> None:
        sys.stdout.write(json.dumps(answer.to_json()) + "\n")

    return write


def _text_writer(tracer: Tracer) -> Callable[[Answer], None]:
    from warp_audit.reports.places import answer_text
    from warp_audit.reports.style import Style

    style = Style()
    first = True

    def write(answer: Answer) -> None:
        nonlocal first
        if not first:
            print()
        first = False
        print(answer_text(answer, tracer, style))

    return write

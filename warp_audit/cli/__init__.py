"""The command line. Each module of ``commands`` is one command; a new file is a new command."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import pkgutil
import sys
from types import ModuleType

from warp_audit import __version__
from warp_audit.cli import commands
from warp_audit.errors import BadInput, BrokenPromise, WarpAuditError

_EPILOG = """\
Start with:
  warp-audit lint                         what is wrong here? source text only, no GPU, no Warp needed
  warp-audit compile FILE.py              compile its kernels and index them, no GPU needed
  warp-audit trace KERNEL+0x1710          which Python expression is this address?
  warp-audit show FILE.py::KERNEL         Python, IR, PTX and SASS side by side

Exit codes: 0 nothing found, 1 findings, 2 bad input or usage, 3 a tool failed, 4 our bug.
"""

# What the user's disk says, whichever file it is about.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


def command_names() -> list[str]:
    """The commands there are, in alphabetical order."""
    return sorted(found.name for found in pkgutil.iter_modules(commands.__path__))


def _command(name: str) -> ModuleType:
    module = importlib.import_module(f"{commands.__name__}.{name}")
    for part, word in (("__doc__", "docstring"), ("SUMMARY",) * 2, ("register",) * 2, ("run",) * 2):
        if not getattr(module, part, None):
            raise BrokenPromise(f"the command module {name} declares no {word}")
    return module


def _parser(only: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="warp-audit",
        description="Finds faulty NVIDIA Warp kernels and launches, and explains those that failed.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the versions of what is installed, and end")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in command_names() if only is None else [only]:
        module = _command(name)
        sub = subparsers.add_parser(
            name,
            help=module.SUMMARY,
            description=module.__doc__,
            epilog=getattr(module, "EPILOG", None),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.register(sub)
        sub.set_defaults(run=module.run)
    return parser


class _Version(argparse.Action):
    """Asks for the versions only when they are wanted: that takes longer than a look-up."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(_versions())
        parser.exit()


def _versions() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        warp = f"warp-lang {version('warp-lang')}"
    except PackageNotFoundError:
        warp = "warp-lang not installed"
    return f"warp-audit {__version__} (Python {sys.version.split()[0]}, {warp})"


def main(argv: list[str] | None = None) -> int:
    """Run one command and give its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    if sys.stdout is None:  # started with standard output closed
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    first = arguments[0] if arguments else ""
    try:
        parser = _parser(first if first in command_names() else None)
        parsed = parser.parse_args(arguments)
        if not parsed.command:
            parser.print_help()
            return 0
        code = int(parsed.run(parsed))
        sys.stdout.flush()
        return code
    except WarpAuditError as wrong:
        report(wrong)
        return wrong.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away, as `head` does.
        _drop_output()
        return 0
    except Exception as unexpected:
        if isinstance(unexpected, OSError) and unexpected.errno in _FULL:
            _drop_output()
            report(BadInput(f"cannot write: {unexpected.strerror}", where=unexpected.filename))
            return BadInput.exit_code
        if os.environ.get("WARP_AUDIT_TRACEBACK"):
            import traceback

            traceback.print_exc()
        report(
            BrokenPromise(
                f"unexpected {type(unexpected).__name__}: {unexpected}",
                hint="this is our bug; WARP_AUDIT_TRACEBACK=1 shows where, please report it",
            )
        )
        return 4


def _drop_output() -> None:
    """Send what is still to be written to nowhere, so that Python's own flush at the end is quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def report(wrong: WarpAuditError) -> None:
    """Print an error on standard error: a sentence, and what to do."""
    from warp_audit.reports.style import printable

    print(f"error: {printable(str(wrong))}", file=sys.stderr)
    if wrong.output:
        lines = wrong.output.splitlines()
        for line in lines[-20:]:
            print(f"  | {printable(line)}", file=sys.stderr)
    if wrong.command:
        print(f"  shown by: {printable(wrong.command)}", file=sys.stderr)
    if wrong.hint:
        print(f"hint: {printable(wrong.hint)}", file=sys.stderr)

"""Speak the Language Server Protocol on standard input and output: the linter inside an editor.

An editor starts this by itself; docs/editors.md says how for VS Code, Neovim, Helix and Emacs. Settings come
from the workspace's pyproject.toml, as for `warp-audit lint`.
"""

from __future__ import annotations

import argparse
import os
import sys

from warp_audit.errors import BadInput

SUMMARY = "the linter as a language server, for editors"
EPILOG = """\
needs: pip install 'warp-audit[lsp]'
"""


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--stdio", action="store_true", help="the only way there is; accepted because editors pass it")


def run(arguments: argparse.Namespace) -> int:
    """Serve until the client closes the connection."""
    del arguments
    try:
        from warp_audit.cli.language_server import serve
    except ImportError as missing:
        if (missing.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise BadInput("the language server needs pygls", hint="pip install 'warp-audit[lsp]'") from None
    serve()
    if sys.stdout.closed:  # by the server, at its end
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    return 0

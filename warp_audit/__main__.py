"""Runs the command line: ``python -m warp_audit``."""

import sys

# `-m` puts the working folder first: a `random.py` or `warp.py` of the user's would be taken for the real one.
if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]

from warp_audit.cli import main

sys.exit(main())

"""Runs the command line: ``python -m warp_audit``."""

import sys

from warp_audit.cli import main

sys.exit(main())

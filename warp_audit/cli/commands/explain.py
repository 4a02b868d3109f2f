"""Print a rule's page: the same as `rule`."""

from __future__ import annotations

from warp_audit.cli.commands.rule import EPILOG as _EPILOG
from warp_audit.cli.commands.rule import register, run

SUMMARY = "the same as rule"
EPILOG = _EPILOG.replace("warp-audit rule", "warp-audit explain")

__all__ = ["EPILOG", "SUMMARY", "register", "run"]

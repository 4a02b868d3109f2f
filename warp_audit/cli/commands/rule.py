"""Print a rule's page: what it finds, why it matters, what to write instead.

A RULE is a code, a rule's name or another name of it.
"""

from __future__ import annotations

import argparse
import json

SUMMARY = "say what a rule finds, why, and what to write instead"
EPILOG = """\
examples:
  warp-audit rule WPA101
  warp-audit rule launch-arg-count --format json
"""


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("rules", nargs="+", metavar="RULE", help="for example WPA101 or launch-arg-count")
    parser.add_argument("--format", default="text", choices=("text", "markdown", "json"), help="how it is written")


def run(arguments: argparse.Namespace) -> int:
    """Print each page."""
    from warp_audit.audit.lint.known import known_rules
    from warp_audit.reports.findings._help import help_of, rule_named

    rules = known_rules()
    pages = [(rule, *help_of(rule)) for rule in (rule_named(name, rules) for name in arguments.rules)]
    if arguments.format == "json":
        data = [rule.to_json() | {"page": markdown} for rule, _, markdown in pages]
        print(json.dumps(data[0] if len(data) == 1 else data, indent=2))
        return 0
    print("\n".join(markdown if arguments.format == "markdown" else text for _, text, markdown in pages), end="")
    return 0

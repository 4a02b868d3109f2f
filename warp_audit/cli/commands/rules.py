"""List the rules."""

from __future__ import annotations

import argparse
import json

SUMMARY = "list the lint rules"


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--format", default="text", choices=("text", "json"), help="how they are written")


def run(arguments: argparse.Namespace) -> int:
    """Print a line or an object for each rule."""
    from warp_audit.audit.lint.known import known_rules

    rules = known_rules()
    if arguments.format == "json":
        print(json.dumps([rule.to_json() for rule in rules], indent=2))
        return 0
    width = max(len(rule.rule) for rule in rules)
    for rule in rules:
        marks = [
            *(["opt-in"] if rule.opt_in else []),
            *(["fixable"] if rule.fixable else []),
            *([f"Warp before {rule.min_warp}"] if rule.min_warp else []),
        ]
        more = f" ({', '.join(marks)})" if marks else ""
        print(f"{rule.code}  {rule.rule:<{width}}  {rule.severity:<7}  {rule.summary}{more}")
    return 0

"""The text form of the IR: printer, parser, verifier."""

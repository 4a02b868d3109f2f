"""Explains binaries, addresses and runs: from a pc, a line or a pointer back to Python."""

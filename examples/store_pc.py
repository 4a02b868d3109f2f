"""Prints the address of the calibration kernel's store, as a sanitizer log would name it."""

import json
import subprocess
import sys
from pathlib import Path


def main(build: str) -> None:
    program = Path(sys.executable).with_name("warp-audit")
    command = [str(program), "trace", "--all", "undistort", "--in", build, "--json"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        found = json.loads(line)
        if "STG" in (found["sass"] or "") and (found["ir"] or {}).get("op") == "array_store":
            print(f"{found['function']}+{found['offset']:#x}")
            return
    sys.exit("the kernel has no store")


if __name__ == "__main__":
    main(sys.argv[1])

"""Runs the child process that meets the user's program, and tells what it reports."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warp_audit import errors
from warp_audit.errors import ToolFailed


@dataclass(frozen=True, slots=True)
class Request:
    """What to build and how; see ``warp-audit compile --help`` for the meaning of each."""

    build_dir: str
    targets: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    wir: tuple[str, ...] = ()
    archs: tuple[int, ...] = ()
    block_dims: tuple[int, ...] = ()
    lines: str = "ir"
    all: bool = False
    jobs: int = 2


Event = dict[str, Any]

_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from warp_audit.compiler.tap.child import main; main()"
)


def run_child(request: Request, show: Callable[[str], None] | None = None) -> Iterator[Event]:
    """Carry out a request in a child process; yields its events as they come.

    What the user's program and the compilers print goes to ``show`` line by line, if given,
    and is kept for the error message in any case.

    Raises:
        BadInput, ToolFailed, BrokenPromise: as the child found; ToolFailed also when the
            child dies.
    """
    with tempfile.TemporaryDirectory(prefix="warp-audit-") as folder:
        path = Path(folder) / "request.json"
        path.write_text(json.dumps(asdict(request)))
        reader, writer = os.pipe()
        alive, life = os.pipe()  # ends when we do, however that comes about; the child then ends too
        command = [sys.executable, "-c", _START, json.dumps(sys.path), str(path), str(writer), str(alive)]
        process = subprocess.Popen(
            command,
            pass_fds=(writer, alive),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        os.close(writer)
        os.close(alive)
        tail: list[str] = []
        listener = threading.Thread(target=_drain, args=(process, tail, show), daemon=True)
        listener.start()
        try:
            with os.fdopen(reader, encoding="utf-8") as pipe:
                for line in pipe:
                    event = json.loads(line)
                    if event["event"] == "error":
                        raise _rebuilt(event)
                    yield event
            code = process.wait()
            listener.join(timeout=5)
            if code == 130:
                raise KeyboardInterrupt
            if code:
                raise ToolFailed(
                    f"the process that imports the target died ({_death(code)})", output="\n".join(tail[-20:])
                )
        finally:
            os.close(life)
            if process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=5)
                process.kill()
                process.wait()


def _drain(process: subprocess.Popen[bytes], tail: list[str], show: Callable[[str], None] | None) -> None:
    assert process.stdout is not None
    for raw in process.stdout:
        line = raw.decode(errors="replace").rstrip("\n")
        tail.append(line)
        del tail[:-200]
        if show is not None:
            show(line)


def _rebuilt(event: Event) -> Exception:
    kinds = {"BadInput": errors.BadInput, "ToolFailed": errors.ToolFailed, "BrokenPromise": errors.BrokenPromise}
    kind = kinds.get(event["kind"], errors.BrokenPromise)
    wanted = {name: event.get(name) for name in ("where", "hint", "command", "output") if event.get(name)}
    accepted = kind.__init__.__code__.co_varnames
    return kind(event["message"], **{name: value for name, value in wanted.items() if name in accepted})


def _death(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"

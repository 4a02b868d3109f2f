"""The child process that meets the user's program: loads it, builds its kernels, compiles them.

It reads one request (JSON) and answers with one JSON object a line on a pipe of its own;
standard output and error stay the program's. The parent's side is ``stages/session.py``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path
from typing import Any

from warp_audit.compiler.emit.cuda import emit
from warp_audit.compiler.store import Store, artefact_key
from warp_audit.compiler.tap import nvrtc, seams, target, units
from warp_audit.compiler.wir.parser import load_module
from warp_audit.compiler.wir.printer import print_module
from warp_audit.compiler.wir.verifier import verify
from warp_audit.errors import BrokenPromise, ToolFailed, WarpAuditError

Say = Callable[..., None]

_PATIENCE = 3.0  # seconds for the process to end by itself


def main() -> None:
    """Answer the request named on the command line."""
    request = json.loads(Path(sys.argv[1]).read_text())
    pipe = os.fdopen(int(sys.argv[2]), "w", buffering=1)
    threading.Thread(target=_end_with_parent, args=(int(sys.argv[3]),), daemon=True).start()

    def say(event: str, **facts: Any) -> None:
        pipe.write(json.dumps({"event": event, **facts}) + "\n")

    try:
        _Child(request, say).run()
    except WarpAuditError as wrong:
        say("error", **describe(wrong))
    except KeyboardInterrupt:
        sys.exit(130)
    pipe.close()
    sys.stdout.flush()
    sys.stderr.flush()
    # Warp removes its precompiled headers at exit; threads of the user's are not ours to wait for.
    patience = threading.Timer(_PATIENCE, os._exit, args=(0,))
    patience.daemon = True
    patience.start()


def _end_with_parent(alive: int) -> None:
    """Wait on a pipe that nobody writes to: it ends when the parent does, for whatever reason."""
    os.read(alive, 1)
    if threading.main_thread().is_alive():
        os._exit(130)


def describe(wrong: WarpAuditError) -> dict[str, Any]:
    """An error as the parent can raise it again."""
    fields = ("where", "hint", "command", "output")
    return {"kind": type(wrong).__name__, "message": str(wrong.args[0])} | {
        name: getattr(wrong, name, None) for name in fields
    }


class _Child:
    def __init__(self, request: dict[str, Any], say: Say) -> None:
        self.request = request
        self.say = say
        self.store = Store(Path(request["build_dir"]))
        self.lines: str = request["lines"]
        self.pool = ThreadPoolExecutor(max_workers=request["jobs"])
        self.pending: set[Future[None]] = set()

    def run(self) -> None:
        seams.check()
        import warp

        if hasattr(warp.config, "log_level") and hasattr(warp, "LOG_WARNING"):
            warp.config.log_level = warp.LOG_WARNING
        else:
            warp.config.quiet = True
        self.say("warp", version=seams.warp_version())
        archs = [nvrtc.choose_arch(a) for a in self.request["archs"] or [None]]
        if self.request["wir"]:
            for path in self.request["wir"]:
                self.from_text(Path(path), archs)
        else:
            self.from_program(archs)
        self.drain(0)

    def from_program(self, archs: list[int]) -> None:
        launches = target.Launches()
        undo = launches.install()
        loaded: list[target.Loaded] = []
        try:
            if self.request["run"]:
                script, *arguments = self.request["run"]
                self.say("loading", name=script)
                loaded.append(target.run(script, arguments))
            for name in self.request["targets"]:
                self.say("loading", name=name)
                loaded.append(target.load(name))
        finally:
            undo()
        for one in loaded:
            if one.failure is not None:
                self.say("failed", target=one.name, **asdict(one.failure))
        written = target.literal_block_dims(tuple(file for one in loaded for file in one.files))
        chosen = units.select(loaded, launches.modules, self.request["all"])
        for module in chosen:
            for refusal in units.generic_refusals(module):
                self.say("refused", **asdict(refusal))
        jobs = [
            (module, block_dim, arch)
            for module in chosen
            if units.concrete(units.live_kernels(module))
            for block_dim in units.block_dims(module, launches.block_dims, written, self.request["block_dims"])
            for arch in archs
        ]
        self.say("plan", units=len(jobs))
        for module, block_dim, arch in jobs:
            self.say("building", module=module.name, block_dim=block_dim, arch=arch)
            unit, refused = units.build(module, block_dim, arch)
            for refusal in refused:
                self.say("refused", **asdict(refusal))
            if unit is not None:
                self.compile(unit, block_dim, arch)

    def from_text(self, path: Path, archs: list[int]) -> None:
        module = load_module(path)
        installed = seams.warp_version()
        if module.warp != installed:
            raise ToolFailed(
                f"{path} was written with Warp {module.warp}, but {installed} is installed",
                hint=f"its native headers belong to that version: pip install warp-lang=={module.warp}",
            )
        unit = units.from_text(module)
        self.say("plan", units=len(archs))
        for arch in archs:
            self.compile(unit, int(module.options.get("block_dim", "256")), arch)

    def compile(self, unit: units.Unit, block_dim: int, arch: int) -> None:
        module = unit.module
        text = print_module(module)
        if wrong := verify(module):
            raise BrokenPromise(wrong[0].message, where=f"{module.identifier}.wir:{wrong[0].node}")
        source, _ = emit(module, self.lines)
        key = artefact_key(text, self.lines, arch, module.warp, nvrtc.toolkit())
        kernels = [{"symbol": symbol, "key": name} for symbol, name in unit.kernels.items()]
        facts = {
            "module": module.name,
            "identifier": module.identifier,
            "block_dim": block_dim,
            "arch": f"sm_{arch}",
            "kernels": kernels,
            "module_hash": unit.module_hash,
            "warp": module.warp,
            "nvrtc": nvrtc.toolkit(),
            "lines": self.lines,
        }
        if self.store.complete(key):
            self.say("built", key=key, reused=True, **facts)
            return
        self.drain(2 * self.request["jobs"])
        self.pending.add(self.pool.submit(self.make, unit, key, text, source, arch, facts))

    def make(self, unit: units.Unit, key: str, text: str, source: str, arch: int, facts: dict[str, Any]) -> None:
        with self.store.making(key) as folder:
            (folder / "module.wir").write_text(text, encoding="utf-8")
            cu = folder / f"{unit.module.identifier}.cu"
            cu.write_text(source, encoding="utf-8")
            try:
                for name in ("module.ptx", "module.cubin"):
                    nvrtc.compile_cuda(cu, folder / name, arch, unit.options, unit.ltoirs, unit.fatbins)
            except ToolFailed as failed:
                self.say("uncompiled", **describe(failed), unit=facts)
                self.store.abandon(folder)
                return
            cu.rename(folder / "module.cu")
            (folder / "unit.json").write_text(json.dumps(facts | {"meta": unit.meta}, indent=1))
        self.say("built", key=key, reused=False, **facts)

    def drain(self, below: int) -> None:
        """Wait until no more than so many compilations are under way; raise what one raised."""
        while len(self.pending) > below or (self.pending and not below):
            done, self.pending = wait(self.pending, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()

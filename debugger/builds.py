"""A build: the compiled and indexed units of one target, in one folder, listed in ``build.json``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warp_audit.compiler.store import MANIFEST, Store, write_whole
from warp_audit.debugger.index import Code, Index, match_codes
from warp_audit.errors import BadInput

FORMAT = 1
INDEX = "index.db"
DEFAULT = Path(".warp-audit") / "build"


@dataclass(frozen=True, slots=True, eq=False)
class UnitFacts:
    """One compiled Warp module: where its artefacts lie and what they were made from."""

    key: str
    module: str
    identifier: str
    arch: str
    block_dim: int
    warp: str
    nvrtc: str
    lines: str
    module_hash: str
    kernels: dict[str, str]  # mangled name → name in Python

    @property
    def folder(self) -> str:
        """The unit's folder, relative to the build folder."""
        return f"units/{self.key}"


@dataclass(slots=True)
class Build:
    """A build folder and what its manifest lists."""

    root: Path
    units: list[UnitFacts] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    only: tuple[str, ...] = ()  # kernel names asked for with TARGET::kernel
    _indexes: dict[str, Index] = field(default_factory=dict)

    def index(self, unit: UnitFacts) -> Index:
        """The unit's index."""
        if unit.key not in self._indexes:
            self._indexes[unit.key] = Index(self.root / unit.folder / INDEX)
        return self._indexes[unit.key]

    def find(self, name: str) -> list[tuple[UnitFacts, Code]]:
        """The compiled functions that a name fits, over all units."""
        pairs = [(unit, code) for unit in self.units for code in self.index(unit).codes()]
        found = match_codes([code for _, code in pairs], name)
        return [(unit, code) for unit, code in pairs if any(code is one for one in found)]

    def one(self, name: str) -> tuple[UnitFacts, Code]:
        """The one compiled function that a name fits.

        Raises:
            BadInput: it fits none, or several; the message lists them.
        """
        found = self.find(name)
        names = sorted({code.name for _, code in found})
        if not found:
            known = sorted({kernel for unit in self.units for kernel in unit.kernels.values()})
            raise BadInput(f"no kernel here is called {name!r}", hint=f"there are {shortened(known)}")
        if len(names) > 1:
            raise BadInput(f"{name!r} fits several kernels", hint=f"write more of the name: {shortened(names)}")
        if len(found) > 1:
            raise BadInput(f"{names[0]} was compiled several times", hint=choose([unit for unit, _ in found]))
        return found[0]

    def narrowed(self, arch: str | None, block_dim: int | None) -> Build:
        """The build with only the units of an architecture and a block size, where these are given.

        Raises:
            BadInput: there are none; says what there is.
        """
        units = [
            unit
            for unit in self.units
            if (arch is None or unit.arch == arch) and (block_dim is None or unit.block_dim == block_dim)
        ]
        if self.units and not units:
            asked = arch if block_dim is None else f"a block of {block_dim} threads"
            raise BadInput(f"nothing here was compiled for {asked}", hint=choose(self.units))
        return Build(self.root, units, self.refused, self.failed, self.only)

    def save(self) -> None:
        """Write the manifest."""
        units = [{name: getattr(unit, name) for name in UnitFacts.__slots__} for unit in self.units]
        content = {
            "format": FORMAT, "units": units, "refused": self.refused, "failed": self.failed,
        }  # fmt: skip
        write_whole(self.root / MANIFEST, json.dumps(content, indent=1))


def choose(units: list[UnitFacts]) -> str:
    """How to name one of several units that differ in what they were compiled for."""
    archs = sorted({unit.arch for unit in units})
    if len(archs) > 1:
        return f"add --arch, one of {', '.join(archs)}"
    sizes = sorted({unit.block_dim for unit in units})
    if len(sizes) > 1:
        return f"add --block-dim, one of {', '.join(map(str, sizes))}"
    return f"name one unit's folder with --in, of {shortened([unit.folder for unit in units])}"


def shortened(names: list[str], limit: int = 8) -> str:
    """A list of names for a message, cut after ``limit``."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def open_build(root: Path) -> Build:
    """The build in a folder.

    Raises:
        BadInput: there is none, or its manifest is damaged.
    """
    path = root / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise BadInput(
                f"was written by another version (format {content['format']})",
                where=str(path),
                hint="build it again with warp-audit compile",
            )
        units = [UnitFacts(**unit) for unit in content["units"]]
        return Build(root, units, content["refused"], content["failed"])
    except FileNotFoundError:
        raise BadInput(
            "there is no build here",
            where=str(root),
            hint="make one with warp-audit compile TARGET, or name it with --in",
        ) from None
    except OSError as wrong:
        raise BadInput(f"cannot be read: {wrong.strerror}", where=str(path)) from None
    except (ValueError, KeyError, TypeError):
        raise BadInput("the manifest is damaged", where=str(path), hint="build it again") from None


@dataclass(frozen=True, slots=True)
class Progress:
    """What is going on: a short text, and how many units are done of how many."""

    text: str
    done: int = 0
    total: int = 0


def make_build(
    request: Any, tell: Callable[[Progress], None] | None = None, show: Callable[[str], None] | None = None
) -> Build:
    """Carry out a compile request (``stages.session.Request``): compile, disassemble, index, list.

    Raises:
        BadInput, ToolFailed, BrokenPromise: as the stages do.
    """
    from warp_audit.compiler.stages.session import run_child

    root = Path(request.build_dir)
    Store(root).prepare()
    build = Build(root)
    done = total = 0

    def say(text: str) -> None:
        if tell is not None:
            tell(Progress(text, done, total))

    with ThreadPoolExecutor(max_workers=request.jobs) as pool:
        indexing: list[Future[None]] = []
        for event in run_child(request, show):
            match event["event"]:
                case "loading":
                    say(f"importing {event['name']}")
                case "plan":
                    total = event["units"]
                case "building":
                    say(f"generating {event['module']}")
                case "built":
                    unit = _unit(event)
                    build.units.append(unit)
                    done += 1
                    say(f"compiled {unit.module}")
                    indexing.append(pool.submit(_index, root, unit))
                case "refused":
                    build.refused.append(_without_event(event))
                case "failed":
                    build.failed.append(_without_event(event))
                case "uncompiled":
                    build.refused.extend(_uncompiled(event))
        for number, future in enumerate(indexing, 1):
            future.result()
            if tell is not None:
                tell(Progress("indexing", number, len(indexing)))
    build.units.sort(key=lambda u: (u.module, u.block_dim, u.arch, u.identifier))
    build.save()
    return build


def _without_event(event: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != "event"}


def _unit(event: dict[str, Any]) -> UnitFacts:
    kernels = {kernel["symbol"]: kernel["key"] for kernel in event["kernels"]}
    facts = {name: event[name] for name in UnitFacts.__slots__ if name != "kernels"}
    return UnitFacts(**facts, kernels=kernels)


def _uncompiled(event: dict[str, Any]) -> list[dict[str, Any]]:
    facts = event["unit"]
    lines = [line for line in (event["output"] or "").splitlines() if "error" in line.lower()]
    reason = lines[0].strip() if lines else event["message"]
    return [
        {
            "kernel": kernel["key"], "module": facts["module"], "reason": f"NVRTC: {reason}",
            "file": "", "line": 0, "hint": "the whole message: warp-audit compile -v",
        }
        for kernel in facts["kernels"]
    ]  # fmt: skip


def _index(root: Path, unit: UnitFacts) -> None:
    """Disassemble and index a unit, unless that was done before."""
    from warp_audit.compiler.wir.parser import load_module
    from warp_audit.debugger.binary.cubin import read_cubin
    from warp_audit.debugger.binary.sass import disassemble
    from warp_audit.debugger.indexing import build_index

    folder = root / unit.folder
    with contextlib.suppress(BadInput):  # absent, of another version, or damaged: made anew
        Index(folder / INDEX)
        return
    module = load_module(folder / "module.wir")
    cubin = read_cubin(folder / "module.cubin")
    sass = disassemble(folder / "module.cubin")
    facts = {"arch": unit.arch, "module": unit.module, "identifier": unit.identifier, "lines": unit.lines}
    partial = folder / f".{INDEX}-part"
    build_index(partial, module, cubin, sass, facts, unit.lines)
    partial.replace(folder / INDEX)

"""One process of ``corpus.py``: imports modules and prints one JSON line for each Warp module."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import warp
from warp._src import build, context

from warp_audit.compiler.emit.cuda import emit
from warp_audit.compiler.tap import listen, nvrtc, target, units
from warp_audit.compiler.wir.parser import parse_module
from warp_audit.compiler.wir.printer import print_module
from warp_audit.compiler.wir.verifier import verify
from warp_audit.debugger.binary.cubin import read_cubin
from warp_audit.debugger.binary.ptx import read_ptx, without_debug
from warp_audit.debugger.binary.sass import disassemble, find_nvdisasm
from warp_audit.debugger.index import Index
from warp_audit.debugger.indexing import build_index
from warp_audit.errors import WarpAuditError

ARCH = 80
TARGET = {"target": "cuda"} if "target" in inspect.signature(context.ModuleBuilder).parameters else {}


def main() -> None:
    what, *names = sys.argv[1:]
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as failed:
            say(name, Counter({"modules that do not import": 1}), [f"import: {type(failed).__name__}: {failed}"[:160]])
    warp.init()
    for module in list(context.user_modules.values()):
        kernels = units.live_kernels(module)
        mine = [k for k in units.concrete(kernels) if k.func.__module__ in names]
        if not mine:
            continue
        files = tuple({Path(kernel.adj.filename) for kernel in mine})
        asked = units.block_dims(module, {}, target.literal_block_dims(files), [])
        for block_dim in asked:
            one(what, module, kernels, block_dim)


def say(key: str, counts: Counter[str], problems: list[str]) -> None:
    print(json.dumps({"key": key, "problems": problems, **counts}), flush=True)


def one(what: str, module: Any, kernels: list[Any], block_dim: int) -> None:
    counts: Counter[str] = Counter()
    problems: list[str] = []
    options = units.options_of(module, block_dim) | {"output_arch": ARCH}
    hasher = units.hasher_of(module, block_dim, kernels, options)
    try:
        warm = context.ModuleBuilder(module, options | {"lineinfo": False}, hasher=hasher, **TARGET)
        warm.codegen("cuda")
    except Exception:
        say(module.name, Counter({"modules that Warp refuses": 1}), [])
        return
    plain, counts["seconds: Warp alone"] = timed(lambda: warps_own(module, options, hasher, lineinfo=False))
    with listen.listening():
        _, counts["seconds: tapped"] = timed(lambda: warps_own(module, options, hasher, lineinfo=True))
    try:
        unit = units.generate(module, options, hasher)
        text = print_module(unit.module)
        again = parse_module(text, module.name)
    except WarpAuditError as wrong:
        say(module.name, Counter({"modules not lifted": 1}), [str(wrong)[:300]])
        return
    counts["modules"] += 1
    if print_module(again) != text:
        problems.append("print, parse, print is not the identity")
    problems += [f"verifier, node {wrong.node}: {wrong.message}" for wrong in verify(again)[:3]]
    if statements(emit(again, "none")[0]) != statements(listen.unmarked(plain)):
        problems.append("the emitted text differs")
    for function in again.functions:
        counts[f"{function.kind}s"] += 1
        for _, op in function.ops():
            counts["ops"] += 1
            counts["calls of external builtins"] += op.name == "external"
    if what == "code":
        code(unit, plain, text, counts, problems)
    counts["problems found"] += len(problems)
    say(f"{module.name} ({unit.module.identifier})", counts, problems)


def warps_own(module: Any, options: dict[str, Any], hasher: Any, lineinfo: bool) -> str:
    builder = context.ModuleBuilder(module, options | {"lineinfo": lineinfo}, hasher=hasher, **TARGET)
    return str(builder.codegen("cuda"))


def timed(action: Any) -> tuple[Any, float]:
    """The result, and the shortest of three runs."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        found = action()
        times.append(time.perf_counter() - start)
    return found, min(times)


def statements(text: str) -> list[str]:
    return [s for line in text.split("\n") if (s := line.strip()) and not s.startswith("#line ")]


def code(unit: units.Unit, plain: str, text: str, counts: Counter[str], problems: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "ours", Path(folder) / "theirs"
        source, _ = emit(unit.module)
        for place, content, lineinfo in ((ours, source, True), (theirs, listen.unmarked(plain), False)):
            place.mkdir()
            path = place / f"{unit.module.identifier}.cu"
            path.write_text(content)
            for name in ("module.ptx", "module.cubin"):
                if lineinfo:
                    nvrtc.compile_cuda(path, place / name, ARCH, unit.options, unit.ltoirs, unit.fatbins)
                else:
                    compile_plain(path, place / name, unit)
        counts["modules compiled"] += 1
        pair = [[line for _, line in without_debug(read_ptx(p / "module.ptx").lines)] for p in (ours, theirs)]
        same = pair[0] == pair[1]
        counts["PTX identical"] += same
        if not same:
            problems.append("PTX differs")
        mine, others = read_cubin(ours / "module.cubin"), read_cubin(theirs / "module.cubin")
        same = all(mine.digest(name) == others.digest(name) for name in others.functions)
        counts[".text identical"] += same
        if not same:
            problems.append(".text differs")
        index(unit, text, ours / "module.cubin", counts, problems)


def compile_plain(source: Path, output: Path, unit: units.Unit) -> None:
    """As Warp compiles by itself: the same call, without line information."""
    plain = build.build_cuda

    def without_lines(*args: Any, **kwargs: Any) -> None:
        plain(*args, **(kwargs | {"lineinfo": False}))

    without_lines.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]
    build.build_cuda = without_lines
    try:
        nvrtc.compile_cuda(source, output, ARCH, unit.options, unit.ltoirs, unit.fatbins)
    finally:
        build.build_cuda = plain


def index(unit: units.Unit, text: str, path: Path, counts: Counter[str], problems: list[str]) -> None:
    start = time.perf_counter()
    listing = subprocess.run(
        [str(find_nvdisasm()), "-gi", str(path)], capture_output=True, text=True, check=True
    ).stdout
    counts["seconds: nvdisasm -gi"] += time.perf_counter() - start
    sass = disassemble(path)
    start = time.perf_counter()
    cubin = read_cubin(path)
    build_index(path.with_name("index.db"), unit.module, cubin, sass, {})
    counts["seconds: index"] += time.perf_counter() - start
    compare(cubin, listing, counts, problems)
    found = Index(path.with_name("index.db"))
    for code_ in found.codes():
        start_of_calls = internal(cubin, code_.name)
        for one_ in found.all(code_):
            counts["instructions"] += 1
            if one_.node is not None:
                counts["instructions: with a node"] += 1
            elif one_.sass == "NOP":
                counts["instructions: padding"] += 1
            elif one_.offset >= start_of_calls:
                counts["instructions: compiler's own subroutines"] += 1
            elif not one_.frames:
                counts["instructions: no line stated"] += 1
            else:
                counts["instructions: a header's line alone"] += 1


def internal(cubin: Any, name: str) -> int:
    """Where the subroutines that the compiler adds to a function begin."""
    starts = [s.value for s in cubin.symbols if s.section == f".text.{name}" and s.name.startswith("$__internal")]
    return min(starts, default=1 << 62)


_FUNCTION = re.compile(r"\.text\.(\S+):")
_PLACE = re.compile(r'\s*//## File "(.*?)", line (\d+)')
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+\S")


def compare(cubin: Any, listing: str, counts: Counter[str], problems: list[str]) -> None:
    """Our frames against those that nvdisasm prints.

    It prints a stack where the innermost file or line changes: there the whole stack is
    compared; in between, only the innermost frame.
    """
    function = ""
    fresh: list[tuple[str, int]] = []
    current: list[tuple[str, int]] = []
    table: Any = None
    for line in listing.split("\n"):
        if match := _FUNCTION.match(line):
            function = match[1]
            table = cubin.lines(function)
        elif match := _PLACE.match(line):
            fresh.append((match[1], int(match[2])))
        elif function and (match := _INSTRUCTION.match(line)):
            ours = [(frame.file, frame.line) for frame in table.at(int(match[1], 16)) or ()]
            whole = bool(fresh)
            if fresh:
                current, fresh = fresh, []
            if not ours or not current:
                counts["oracle: not comparable"] += 1
                continue
            same = ours == current if whole else ours[0] == current[0]
            counts["oracle: whole stack" if whole else "oracle: innermost frame"] += 1
            if not same:
                counts["oracle: different"] += 1
                problems.append(f"{function}+0x{match[1]}: {ours} for {current}"[:300])
        elif line.startswith("//---------------------"):
            function = ""


if __name__ == "__main__":
    main()

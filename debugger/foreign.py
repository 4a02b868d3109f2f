"""Explains binaries that Warp itself wrote: its kernel cache, ahead-of-time output.

With line information inside they are read as they are. Without, their program is compiled
again, and the answer is given only when the code comes out byte-identical.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path

from warp_audit.addresses import Address, PtxLine, PythonPlace
from warp_audit.compiler.ir.module import Module
from warp_audit.debugger.binary.cubin import Cubin, read_cubin
from warp_audit.debugger.binary.demangle import demangle
from warp_audit.debugger.binary.ptx import Ptx, read_ptx, without_debug
from warp_audit.debugger.builds import DEFAULT, INDEX, Build, UnitFacts, make_build, shortened
from warp_audit.debugger.index import StackFrame, kernel_of, path_fits
from warp_audit.debugger.trace import Answer, Tracer, python_frame
from warp_audit.errors import BadInput, WarpAuditError

FOREIGN = "foreign"

_STEM = re.compile(r"(wp_.+?_[0-9a-f]{7,8})?(.*?)\.sm(\d+)[af]?\.(?:cubin|ptx)$")


def open_foreign(paths: list[Path], source: str | None, names: list[str]) -> Tracer:
    """A tracer for binaries outside a build.

    Raises:
        BadInput: none holds the function asked for, several do, or the one cannot be explained.
    """
    path = _choose(paths, names)
    if path.suffix == ".ptx":
        ptx = read_ptx(path)
        return PtxTracer(ptx) if source is None and ptx.has_lines else _open_ptx(path, ptx, source)
    cubin = read_cubin(path)
    if source is not None or not cubin.has_lines:
        return _recompiled(path, cubin, cubin.arch, source)
    return _embedded(path, cubin)


def _choose(paths: list[Path], names: list[str]) -> Path:
    if len(paths) == 1:
        return paths[0]
    fitting = [path for path in paths if all(_holds(path, name) for name in names)]
    if len(fitting) > 1:
        cubins = [path for path in fitting if path.suffix == ".cubin"]
        fitting = cubins or fitting
    if len(fitting) == 1:
        return fitting[0]
    asked = " and ".join(repr(name) for name in names) or "the address"
    if not fitting:
        raise BadInput(f"no binary here holds {asked}", where=str(paths[0].parent))
    raise BadInput(
        f"several binaries hold {asked}", hint=f"name one with --in: {shortened([str(path) for path in fitting])}"
    )


def _holds(path: Path, name: str) -> bool:
    try:
        functions = list(read_ptx(path).entries) if path.suffix == ".ptx" else list(read_cubin(path).functions)
    except BadInput:
        return False
    return any(name in function for function in functions)


def _embedded(path: Path, cubin: Cubin) -> Tracer:
    """A binary with its own line information: Python lines without IR nodes."""
    from warp_audit.compiler.store import Store
    from warp_audit.debugger.binary.sass import disassemble
    from warp_audit.debugger.indexing import build_index

    key = hashlib.sha256(path.read_bytes()).hexdigest()[:20]
    root = DEFAULT.parent / FOREIGN
    store = Store(root)
    store.prepare()
    unit = UnitFacts(
        key, path.stem, path.stem, cubin.arch, 0, "", "", "python", "",
        {kernel_of(name)[0]: kernel_of(name)[0] for name in cubin.functions},
    )  # fmt: skip
    if not (root / unit.folder / INDEX).is_file():
        with store.making(key) as folder:
            if cubin.ptx is not None:
                (folder / "module.ptx").write_text("\n".join(cubin.ptx))
            build_index(folder / INDEX, Module("", "", ""), cubin, disassemble(path), {"arch": cubin.arch}, "none")
    return Tracer(Build(root, [unit]))


class PtxTracer(Tracer):
    """Answers from a PTX file's own line information: PTX lines, and Python lines the other way."""

    def __init__(self, ptx: Ptx) -> None:
        super().__init__(Build(Path(ptx.name).parent))
        self.text = ptx

    def answer(self, text: str, address: Address) -> Answer:
        """What a PTX line or a Python line is; a PTX file has no other kind of address."""
        match address:
            case PtxLine(line):
                if line not in self.text.places:
                    raise BadInput(f"no code stands on line {line} of {self.text.name}", where=text)
                return self.line(text, line)
            case PythonPlace(file, number):
                lines = [
                    line
                    for line, frames in self.text.places.items()
                    if any(frame.line == number and path_fits(frame.file, file) for frame in frames)
                ]
                if not lines:
                    raise BadInput(f"no PTX comes from line {number} of {file}", where=text)
                more = shortened([str(PtxLine(line)) for line in lines[1:]])
                return replace(self.line(text, lines[0]), notes=(f"also {more}",) if more else ())
        raise BadInput(
            "a PTX file alone answers ptx:LINE and file.py:LINE", where=text,
            hint="name its program with --source FILE.py to have the other levels",
        )  # fmt: skip

    def line(self, text: str, line: int) -> Answer:
        """The answer for one line of the PTX."""
        frames = tuple(StackFrame(f.file, f.line, demangle(f.function)) for f in self.text.places[line])
        place = python_frame(frames)
        source = self.source_line(None, *place) if place is not None else None
        return Answer(
            text, frames=frames, ptx_line=line, ptx_text=" ".join(self.text.lines[line - 1].split()),
            python_text=source.strip() if source else None,
        )  # fmt: skip


def _open_ptx(path: Path, ptx: Ptx, source: str | None) -> Tracer:
    tracer = _recompiled(path, ptx, ptx.target, source)
    folder = tracer.build.root / tracer.build.units[0].folder
    pairs = _same_lines(ptx, read_ptx(folder / "module.ptx"))
    assert isinstance(pairs, dict)
    tracer.ptx_lines = pairs
    return tracer


# What names carry of the file and of the order of functions in it: the order is a set's up to
# Warp 1.18, and the file's name holds the module's hash.
_INCIDENTAL = re.compile(r"_ZN?\d+_INTERNAL_\w+?_cu_[0-9a-f]{8}|(?<=__local_depot)\d+|(?<=\$L__BB)\d+")


def _same_lines(theirs: Ptx, ours: Ptx) -> dict[int, int] | str:
    """Which of our lines each line of their functions is; what differs if they are not the same code."""
    known = {function.name: function for function in ours.functions}
    pairs: dict[int, int] = {}
    for function in theirs.functions:
        mine = known.get(function.name)
        if mine is None:
            return f"it has no {function.name}"
        blocks = [
            [(number + f.first - 1, text) for number, text in without_debug(ptx.lines[f.first - 1 : f.last])]
            for ptx, f in ((theirs, function), (ours, mine))
        ]
        texts = [[_INCIDENTAL.sub("", text) for _, text in block] for block in blocks]
        if texts[0] != texts[1]:
            return f"PTX of {function.name} differs"
        pairs.update((a, b) for (a, _), (b, _) in zip(*blocks, strict=True))
    return pairs


def _recompiled(path: Path, binary: Cubin | Ptx, arch: str, source: str | None) -> Tracer:
    """The build of the program that the binary came from, proved by comparing the code."""
    from warp_audit.compiler.stages.session import Request

    match = _STEM.match(path.name)
    identifier = (match[1] or match[2]) if match else path.stem
    target = source or _guess(identifier)
    if target is None:
        raise BadInput(
            "was compiled without line information", where=str(path),
            hint="name the program that it comes from with --source FILE.py, to compile it again and compare",
        )  # fmt: skip
    number = re.sub(r"\D", "", arch)
    request = Request(build_dir=str(DEFAULT.parent / FOREIGN), targets=(target,), archs=(int(number),))
    try:
        build = make_build(request)
    except BadInput as wrong:
        if source is not None:
            raise
        raise BadInput(
            f"was compiled without line information, and its program was not found: {wrong}", where=str(path),
            hint="name the program with --source FILE.py",
        ) from None  # fmt: skip
    same = [unit for unit in build.units if unit.identifier == identifier]
    named = [unit for unit in build.units if unit.module == _module_name(identifier)]
    reasons: list[str] = []
    for unit in same or named or build.units:
        reason = _difference(build, unit, binary)
        if reason is None:
            build.units = [unit]
            return Tracer(build, verified="recompiled")
        reasons.append(f"{unit.module}: {reason}")
    if not reasons:
        reasons = [f"{target} has no kernels that compile"]
    why = (
        ""
        if same
        else f"; the module hash differs: source, options or Warp version changed since ({_versions(path, build)})"
    )
    raise BadInput(
        f"cannot be explained by {target}: compiled again, the code is not identical ({shortened(reasons, 3)}){why}",
        where=str(path),
    )


def _versions(path: Path, build: Build) -> str:
    """The Warp versions on either side, the cache's read from its folder's name."""
    ours = build.units[0].warp if build.units else "unknown"
    theirs = next((p for p in reversed(path.resolve().parts) if re.fullmatch(r"\d+\.\d+\.\d+\w*", p)), "unknown")
    return f"here Warp {ours}, there {theirs}"


def _difference(build: Build, unit: UnitFacts, binary: Cubin | Ptx) -> str | None:
    """Why our binary is not the same as the given one; None when it is."""
    folder = build.root / unit.folder
    if isinstance(binary, Ptx):
        found = _same_lines(binary, read_ptx(folder / "module.ptx"))
        return found if isinstance(found, str) else None
    mine = {code.name: code.digest for code in build.index(unit).codes()}
    missing = [name for name in binary.functions if name not in mine]
    if missing:
        return f"it has no {shortened(missing, 2)}"
    if unit.arch != binary.arch:
        return f"compiled for {binary.arch}"
    changed = [name for name in binary.functions if binary.digest(name) != mine[name]]
    return f"code of {shortened(changed, 2)} differs" if changed else None


def _module_name(identifier: str) -> str:
    return re.sub(r"_[0-9a-f]{7,8}$", "", identifier.removeprefix("wp_"))


def _guess(identifier: str) -> str | None:
    """The Python module that Warp named the file after, if there is one to import."""
    import importlib.util

    name = _module_name(identifier)
    if name in ("", "__main__") or not all(part.isidentifier() for part in name.split(".")):
        return None
    try:
        return name if importlib.util.find_spec(name) is not None else None
    except (ImportError, ValueError, WarpAuditError):
        return None

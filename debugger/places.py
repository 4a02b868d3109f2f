"""Opens what ``--in`` names: a build folder, a unit's folder, or binaries that Warp itself wrote."""

from __future__ import annotations

from pathlib import Path

from warp_audit.compiler.store import MANIFEST
from warp_audit.debugger.builds import DEFAULT, INDEX, Build, open_build
from warp_audit.debugger.trace import Tracer
from warp_audit.errors import BadInput


def open_place(
    place: Path | None, source: str | None, names: list[str], arch: str | None = None, block_dim: int | None = None
) -> Tracer:
    """A tracer for a place.

    Args:
        place: a build folder, one unit of it, a folder with Warp's artefacts, or one such file;
            the default build folder when None.
        source: the program that Warp's artefacts were compiled from, where they lack lines.
        names: the functions asked for, to pick the binary among several.
        arch, block_dim: which of a build's units are meant, where it has several.

    Raises:
        BadInput: there is nothing to look in, or it cannot be explained; says why.
    """
    if place is None:
        return Tracer(open_build(DEFAULT).narrowed(arch, block_dim))
    if place.is_dir():
        if (place / MANIFEST).is_file():
            return Tracer(open_build(place).narrowed(arch, block_dim))
        if (place / INDEX).is_file() and (place.parent.parent / MANIFEST).is_file():
            whole = open_build(place.parent.parent)
            units = [unit for unit in whole.units if unit.key == place.name]
            return Tracer(Build(whole.root, units))
        from warp_audit.debugger.foreign import open_foreign

        return open_foreign(_binaries(place, names), source, names)
    if place.is_file():
        from warp_audit.debugger.foreign import open_foreign

        return open_foreign([place], source, names)
    raise BadInput("there is no such file or folder", where=str(place))


def _binaries(folder: Path, names: list[str]) -> list[Path]:
    """The cubins and PTX files of a folder, and of the folders in it."""
    found = sorted(p for pattern in ("*.cubin", "*.ptx", "*/*.cubin", "*/*.ptx") for p in folder.glob(pattern))
    if not found:
        raise BadInput("holds neither a build nor cubins or PTX", where=str(folder))
    return found

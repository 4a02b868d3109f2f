"""The build folder: artefacts under the hash of what they were made from, whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from warp_audit.errors import BadInput

_ABANDONED = 24 * 3600  # seconds after which a half-made folder belongs to a process that died
MANIFEST = "build.json"
ARTEFACTS = ("module.wir", "module.cu", "module.ptx", "module.cubin", "unit.json")


def artefact_key(wir: str, lines: str, arch: int, warp: str, nvrtc: str) -> str:
    """The name of the folder for artefacts made from these inputs."""
    digest = hashlib.sha256()
    for part in (wir, lines, str(arch), warp, nvrtc):
        digest.update(part.encode(errors="surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()[:20]


class Store:
    """A build folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, key: str) -> Path:
        """Where the artefacts of a key lie."""
        return self.root / "units" / key

    def complete(self, key: str) -> bool:
        """Whether the artefacts of a key are there."""
        folder = self.folder(key)
        return all((folder / name).is_file() for name in ARTEFACTS)

    def prepare(self) -> None:
        """Make the folder; a new one is kept out of version control.

        Raises:
            BadInput: it cannot be written, or holds a ``build.json`` of something else.
        """
        manifest = self.root / MANIFEST
        try:
            new = not self.root.exists()
            if manifest.exists() and b'"format"' not in manifest.read_bytes():
                raise BadInput("holds a build.json that is not ours", where=str(self.root), hint="name another folder")
            (self.root / "units").mkdir(parents=True, exist_ok=True)
            for folder in (self.root / "units").glob(".*-*"):
                if time.time() - folder.stat().st_mtime > _ABANDONED:
                    shutil.rmtree(folder, ignore_errors=True)
            if new:
                (self.root / ".gitignore").write_text("# made by warp-audit\n*\n")
        except OSError as wrong:
            raise BadInput(f"cannot be written: {wrong.strerror}", where=str(self.root)) from None

    @contextlib.contextmanager
    def making(self, key: str) -> Iterator[Path]:
        """A folder to make the artefacts of a key in; it takes its place when the block ends well."""
        final = self.folder(key)
        folder = Path(tempfile.mkdtemp(prefix=f".{key}-", dir=final.parent))
        try:
            yield folder
            if not folder.exists():
                return
            if final.exists():
                shutil.rmtree(final, ignore_errors=True)
            folder.rename(final)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def abandon(self, folder: Path) -> None:
        """Drop a folder that ``making`` gave: what was to be made failed."""
        shutil.rmtree(folder, ignore_errors=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that others see all of it or none."""
    data = content.encode() if isinstance(content, str) else content
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise

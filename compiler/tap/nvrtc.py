"""Compiles CUDA C++ with the NVRTC inside Warp's own native library, with Warp's options."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from warp_audit.errors import BadInput, ToolFailed

DEFAULT_ARCH = 80  # Ampere: the oldest that every current Warp feature supports


def supported_archs() -> list[int]:
    """The architectures that the NVRTC inside Warp compiles for, ascending."""
    import warp
    from warp._src import context

    warp.init()
    return sorted(int(a) for a in context.runtime.nvrtc_supported_archs)


def choose_arch(asked: int | None) -> int:
    """The architecture to build for: as asked, the GPU's, or the default.

    Raises:
        BadInput: NVRTC does not know the architecture.
    """
    import warp

    known = supported_archs()
    if asked is None:
        devices = [d for d in warp.get_cuda_devices() if d.arch in known]
        return int(devices[0].arch) if devices else DEFAULT_ARCH
    if asked not in known:
        listed = ", ".join(f"sm_{a}" for a in known)
        raise BadInput(f"sm_{asked} is not an architecture that this NVRTC compiles for", hint=f"one of {listed}")
    return asked


def compile_cuda(
    source: Path, output: Path, arch: int, options: dict[str, Any], ltoirs: list[bytes], fatbins: list[bytes]
) -> None:
    """Compile one CUDA file to PTX or cubin (by the output's ending), with line information.

    Raises:
        ToolFailed: with NVRTC's own messages.
    """
    from warp._src import build, context

    level = options.get("optimization_level")
    wanted = {
        "config": options.get("mode", "release"),
        "optimization_level": 3 if level is None else level,
        "verify_fp": options.get("verify_fp", False),
        "fast_math": options.get("fast_math", False),
        "fuse_fp": options.get("fuse_fp", True),
        "lineinfo": True,
        "ltoirs": ltoirs,
        "fatbins": fatbins,
        "llvm_cuda": False,
        "use_precompiled_headers": options.get("use_precompiled_headers", True),
        "extra_include_dirs": options.get("extra_cuda_include_dirs", ()),
        "pch_dir": _pch_dir(context),
    }
    accepted = inspect.signature(build.build_cuda).parameters
    wanted = {key: value for key, value in wanted.items() if key in accepted}
    try:
        build.build_cuda(str(source), arch, str(output), **wanted)
    except Exception:
        pass
    else:
        return
    # Once more by itself, to have the messages that the native code prints.
    with _ALONE, captured() as read_log:
        try:
            build.build_cuda(str(source), arch, str(output), **wanted)
        except Exception as failed:
            raise ToolFailed(f"NVRTC could not compile {source.name}: {failed}", output=read_log()) from None


def _pch_dir(context: Any) -> str | None:
    get = getattr(context.runtime, "get_nvrtc_pch_dir", None)
    return get() if get is not None else None


_ALONE = threading.Lock()


@contextlib.contextmanager
def captured() -> Iterator[Callable[[], str]]:
    """Keep what native code prints meanwhile; the block gets a function that reads it."""
    with tempfile.TemporaryFile() as log:
        sys.stdout.flush()
        sys.stderr.flush()
        saved = os.dup(1), os.dup(2)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)

        def read() -> str:
            log.seek(0)
            return log.read().decode(errors="replace").strip()

        try:
            yield read
        finally:
            os.dup2(saved[0], 1)
            os.dup2(saved[1], 2)
            os.close(saved[0])
            os.close(saved[1])


def toolkit() -> str:
    """The version of the CUDA toolkit that Warp's NVRTC comes from."""
    import warp
    from warp._src import context

    warp.init()
    found = getattr(context.runtime, "toolkit_version", None)
    return ".".join(map(str, found)) if found else "unknown"

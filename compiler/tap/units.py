"""Which Warp modules to build, for which block sizes, and what cannot be built and why."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warp_audit.compiler.ir.module import Module
from warp_audit.compiler.tap.lift import Lifter
from warp_audit.compiler.tap.listen import listening
from warp_audit.compiler.tap.seams import warp_version
from warp_audit.compiler.tap.target import Loaded


@dataclass(frozen=True, slots=True)
class Refusal:
    """A kernel that is not built: why, where, and what to do."""

    kernel: str
    module: str
    reason: str
    file: str = ""
    line: int = 0
    hint: str = ""


@dataclass(slots=True)
class Unit:
    """One Warp module for one block size and architecture, lifted."""

    module: Module
    options: dict[str, Any]
    ltoirs: list[bytes]
    fatbins: list[bytes]
    meta: dict[str, Any]
    module_hash: str
    kernels: dict[str, str] = field(default_factory=dict)  # symbol → key


def select(loaded: Iterable[Loaded], used: set[Any], everything: bool) -> list[Any]:
    """The Warp modules that hold kernels of the loaded files, or that the program loaded to run them.

    Warp's own library is left out unless it is asked for.
    """
    from warp._src import context

    places = [place for one in loaded for place in one.files]
    chosen = []
    for module in list(context.user_modules.values()):
        kernels = live_kernels(module)
        if not kernels:
            continue
        files = {Path(k.adj.filename) for k in kernels}
        mine = any(file == place or place in file.parents for file in files for place in places)
        library = module.name == "warp" or module.name.startswith("warp.")
        if everything or mine or (module in used and not library):
            chosen.append(module)
    return chosen


def live_kernels(module: Any) -> list[Any]:
    """The module's kernels, generic ones included, overloads not."""
    return list(module._get_live_kernels())


def concrete(kernels: Iterable[Any]) -> list[Any]:
    """The kernels that can be compiled: plain ones and the overloads of generic ones."""
    found: list[Any] = []
    for kernel in kernels:
        if kernel.is_generic:
            found.extend(kernel.overloads.values())
        else:
            found.append(kernel)
    return found


def generic_refusals(module: Any) -> list[Refusal]:
    """Generic kernels that nothing instantiates."""
    return [
        Refusal(
            kernel.key,
            module.name,
            "generic, and nothing instantiates it here",
            kernel.adj.filename,
            kernel.adj.fun_lineno,
            "run the program with --run, or register types with wp.overload",
        )
        for kernel in live_kernels(module)
        if kernel.is_generic and not kernel.overloads
    ]


def block_dims(module: Any, seen: dict[Any, set[int]], written: dict[str, set[int]], asked: list[int]) -> list[int]:
    """The block sizes to build a module for: those asked for, else those launched, else its default."""
    if asked:
        return asked
    found: set[int] = set()
    for kernel in live_kernels(module):
        found |= seen.get(kernel, set())
        for overload in kernel.overloads.values() if kernel.is_generic else ():
            found |= seen.get(overload, set())
        found |= written.get(kernel.key.rpartition(".")[2], set())
    return sorted(found) or [int(module.options["block_dim"])]


def build(module: Any, block_dim: int, arch: int) -> tuple[Unit | None, list[Refusal]]:
    """Generate and lift a module; a kernel that Warp refuses is left out and reported."""
    from warp._src import context

    options = options_of(module, block_dim)
    kernels = live_kernels(module)
    hasher = hasher_of(module, block_dim, kernels, options)
    options = options | {"output_arch": arch}
    refused: list[Refusal] = []
    try:
        return generate(module, options, hasher), refused
    except Exception as failed:
        if not _is_codegen_error(failed):
            raise
        whole = failed
    good = []
    for kernel in concrete(kernels):
        _forget_failures(module)
        alone = context.ModuleHasher([kernel], options)
        try:
            generate(module, options, alone)
        except Exception as failed:
            if not _is_codegen_error(failed):
                raise
            refused.append(_refusal(kernel, module, failed, block_dim))
        else:
            good.append(kernel)
    if not refused:  # each is fine alone, not together
        refused = [_refusal(kernel, module, whole, block_dim) for kernel in good]
        return None, refused
    if not good:
        return None, refused
    _forget_failures(module)
    return generate(module, options, context.ModuleHasher(good, options)), refused


def _forget_failures(module: Any) -> None:
    """Undo a mark of Warp 1.16: what failed to build once is silently left out from then on."""
    adjoints = [kernel.adj for kernel in concrete(live_kernels(module))]
    adjoints += [overload.adj for f in module.functions.values() for overload in f.user_overloads.values()]
    for adj in adjoints:
        if hasattr(adj, "skip_build"):
            adj.skip_build = False


def generate(module: Any, options: dict[str, Any], hasher: Any) -> Unit:
    """Let Warp generate a module's code while we listen, and lift what was heard."""
    from warp._src import context

    with listening() as heard:
        # Warp 1.17 and later are told the backend that is built for.
        named = {"target": "cuda"} if "target" in inspect.signature(context.ModuleBuilder).parameters else {}
        builder = context.ModuleBuilder(module, options | {"lineinfo": True}, hasher=hasher, **named)
        text = builder.codegen("cuda")
    lifted = Lifter(builder, heard, text, warp_version()).lift()
    lifted.options["lineinfo"] = str(options.get("lineinfo", False))
    digest = hasher.get_hash()
    return Unit(
        lifted,
        options,
        [builder.ltoirs[key] for key in sorted(builder.ltoirs)],
        [builder.fatbins[key] for key in sorted(builder.fatbins)],
        builder.build_meta(),
        digest.hex(),
        {kernel.get_mangled_name(): kernel.key for kernel in builder.kernels},
    )


def options_of(module: Any, block_dim: int) -> dict[str, Any]:
    """The options that Warp builds a module with for a block size."""
    import warp

    return dict(module.resolve_options(warp.config, block_dim=block_dim))


def hasher_of(module: Any, block_dim: int, kernels: list[Any], options: dict[str, Any]) -> Any:
    """Warp's own hasher of the module, so that names and order are those of the user's run."""
    from warp._src import context

    try:
        module.get_module_hash(block_dim)
        found = module.hashers.get(block_dim)
        if found is not None:
            return found
    except Exception as failed:
        if not _is_codegen_error(failed):
            raise
    return context.ModuleHasher(kernels, options)


def _is_codegen_error(failed: Exception) -> bool:
    """Whether Warp refused the user's code; our own failures pass through."""
    from warp_audit.errors import WarpAuditError

    return not isinstance(failed, WarpAuditError)


_PLACE = re.compile(r'function "[^"]*" at (.*?):(\d+):')


def _refusal(kernel: Any, module: Any, failed: Exception, block_dim: int) -> Refusal:
    text = "; ".join(str(part) for part in failed.args).strip() or type(failed).__name__
    place = _PLACE.search(text)
    reason = text.split("\n;", 1)[-1].strip() if place else text
    reason = " ".join(reason.split())
    hint = ""
    if "tile" in reason or "block_dim" in reason:
        hint = f"built for a block of {block_dim} threads; name the launch's with --block-dim, or use --run"
    return Refusal(
        kernel.key,
        module.name,
        f"{type(failed).__name__}: {reason}",
        place[1] if place else kernel.adj.filename,
        int(place[2]) if place else kernel.adj.fun_lineno,
        hint,
    )


def from_text(module: Module) -> Unit:
    """A unit from a ``.wir`` file alone: options and device libraries as the file states them."""
    options: dict[str, Any] = {}
    for key, value in module.options.items():
        try:
            options[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            options[key] = value
    kinds: dict[str, list[bytes]] = {"ltoir": [], "fatbin": []}
    for name, blob in module.blobs.items():
        kinds.setdefault(name.partition(":")[0], []).append(blob)
    kernels = {f.symbol: f.key for f in module.functions if f.kind == "kernel"}
    return Unit(module, options, kinds["ltoir"], kinds["fatbin"], {}, "", kernels)

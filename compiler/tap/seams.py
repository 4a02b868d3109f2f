"""The places of Warp's internals that the tap needs, and the check that they are there."""

from __future__ import annotations

import importlib
import inspect
from importlib.metadata import PackageNotFoundError, version

from warp_audit.errors import BadInput, ToolFailed

# module, attribute path, parameters that we pass or rely on
SEAMS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("warp._src.codegen", "Adjoint.eval", ("node",)),
    ("warp._src.codegen", "Adjoint.get_line_directive", ("statement", "relative_lineno")),
    ("warp._src.codegen", "Adjoint.add_constant", ("n",)),
    ("warp._src.codegen", "codegen_func_forward", ("adj", "func_type", "device")),
    ("warp._src.codegen", "codegen_func_reverse", ("adj", "func_type", "device")),
    ("warp._src.codegen", "constant_str", ("value",)),
    ("warp._src.codegen", "Var.type_to_ctype", ("t",)),
    ("warp._src.context", "ModuleBuilder.codegen", ("device",)),
    ("warp._src.context", "ModuleHasher.get_unique_kernels", ()),
    ("warp._src.context", "ModuleHasher.get_hash", ()),
    ("warp._src.context", "Module.resolve_options", ("config", "block_dim")),
    ("warp._src.context", "Module.get_module_identifier", ("block_dim",)),
    ("warp._src.context", "Module._get_live_kernels", ()),
    ("warp._src.context", "Module.load", ("device",)),
    ("warp._src.context", "launch", ("kernel", "block_dim")),
    ("warp._src.context", "user_modules", ()),
    ("warp._src.build", "build_cuda", ("cu_path", "arch", "output_path", "lineinfo", "ltoirs", "fatbins")),
)


def warp_version() -> str:
    """The installed Warp's version, without importing it.

    Raises:
        BadInput: Warp is not installed.
    """
    try:
        return version("warp-lang")
    except PackageNotFoundError:
        raise BadInput(
            "Warp is not installed here", hint="pip install 'warp-audit[debug]', or install warp-lang"
        ) from None


def check() -> None:
    """Make sure that every seam is where we expect it.

    Raises:
        ToolFailed: names the first seam that is missing and the Warp version.
    """
    for module_name, path, parameters in SEAMS:
        found: object = None
        try:
            found = importlib.import_module(module_name)
            for part in path.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError):
            raise _missing(f"{module_name}.{path}") from None
        if parameters and callable(found):
            present = inspect.signature(found).parameters
            for parameter in parameters:
                if parameter not in present:
                    raise _missing(f"{module_name}.{path}, parameter {parameter!r}")


def _missing(what: str) -> ToolFailed:
    return ToolFailed(
        f"Warp {warp_version()} has no {what}, through which its code generation is heard",
        hint="this Warp version is not supported yet; see the supported range in the README",
    )

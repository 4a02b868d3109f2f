"""Brings the user's program into this process: a file, a module by name, or a script that is run."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import runpy
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from warp_audit.errors import BadInput


@dataclass(slots=True)
class Launches:
    """What was seen while the program ran: block sizes by kernel, and the modules that were loaded."""

    block_dims: dict[Any, set[int]] = field(default_factory=dict)
    modules: set[Any] = field(default_factory=set)

    def install(self) -> Callable[[], None]:
        """Watch launches and loads from now on; the result undoes it."""
        import warp
        from warp._src import context

        plain, plain_load = context.launch, context.Module.load

        def launch(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            seen = self.block_dims.setdefault(kernel, set())  # also keeps a kernel made on the way alive
            block_dim = kwargs.get("block_dim", 256)
            if isinstance(block_dim, int) and block_dim > 1:  # 1 is what a CPU device makes of any size
                seen.add(block_dim)
            return plain(kernel, *args, **kwargs)

        def load(module: Any, *args: Any, **kwargs: Any) -> Any:
            self.modules.add(module)
            return plain_load(module, *args, **kwargs)

        context.launch = warp.launch = launch
        context.Module.load = load

        def undo() -> None:
            context.launch = warp.launch = plain
            context.Module.load = plain_load

        return undo


@dataclass(frozen=True, slots=True)
class Failure:
    """The program itself failed: its own error, where it stands, and its traceback."""

    message: str
    file: str
    line: int
    traceback: str


@dataclass(slots=True)
class Loaded:
    """What was brought in: its files (or folders), and how it failed if it did."""

    name: str
    files: tuple[Path, ...]
    failure: Failure | None = None


def load(target: str) -> Loaded:
    """Import a file or a module by name.

    Raises:
        BadInput: there is no such file or module.
    """
    path = Path(target)
    if target.endswith(".py") or path.is_file():
        if not path.is_file():
            raise BadInput("there is no such file", where=target)
        return _load_file(path.resolve())
    if path.is_dir():
        raise BadInput("is a folder", where=target, hint="name a Python file, or a module as in package.module")
    return _load_module(target)


def _load_module(name: str) -> Loaded:
    if not all(part.isidentifier() for part in name.split(".")):
        raise BadInput(f"{name!r} is neither a file nor a module's name")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as missing:
        raise BadInput(f"there is no module {missing.name!r}") from None
    except Exception as failed:  # a parent package's own import failed
        return Loaded(name, (), _failure(failed, ()))
    if spec is None:
        raise BadInput(f"there is no module {name!r}")
    files: tuple[Path, ...] = (Path(spec.origin),) if spec.origin and spec.origin != "namespace" else ()
    if spec.submodule_search_locations:
        files = tuple(Path(p) for p in spec.submodule_search_locations)
    return Loaded(name, files, _attempt(lambda: importlib.import_module(name), files))


def _load_file(path: Path) -> Loaded:
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").is_file() and root.parent != root:
        parts.insert(0, root.name)
        root = root.parent
    sys.path.insert(0, str(root))
    name = ".".join(parts[:-1] if path.stem == "__init__" and len(parts) > 1 else parts)
    if len(parts) > 1:
        return Loaded(name, (path,), _attempt(lambda: importlib.import_module(name), (path,)))
    if name in sys.modules or not name.isidentifier():
        # called like a module already here, or as no module can be
        name = re.sub(r"\W", "_", name) + "_audited"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadInput("is not a Python file", where=str(path))
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader = spec.loader
    return Loaded(name, (path,), _attempt(lambda: loader.exec_module(module), (path,)))


def run(script: str, arguments: list[str]) -> Loaded:
    """Run a script as the main program.

    Raises:
        BadInput: there is no such file.
    """
    path = Path(script)
    if not path.is_file():
        raise BadInput("there is no such file", where=script)
    path = path.resolve()
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(path.parent))
    return Loaded("__main__", (path,), _attempt(lambda: runpy.run_path(str(path), run_name="__main__"), (path,)))


def _attempt(action: Callable[[], object], files: tuple[Path, ...]) -> Failure | None:
    try:
        action()
    except SystemExit as ended:
        if ended.code in (None, 0):
            return None
        return _failure(ended, files)
    except KeyboardInterrupt:
        raise
    except BaseException as failed:
        return _failure(failed, files)
    return None


def _failure(failed: BaseException, files: tuple[Path, ...]) -> Failure:
    text = "".join(traceback.format_exception(failed)).rstrip()
    if isinstance(failed, SyntaxError) and failed.filename:
        return Failure(f"SyntaxError: {failed.msg}", failed.filename, failed.lineno or 1, text)
    frames = traceback.extract_tb(failed.__traceback__)
    mine = [f for f in frames if any(_within(Path(f.filename), file) for file in files)]
    at = mine[-1] if mine else (frames[-1] if frames else None)
    message = f"{type(failed).__name__}: {failed}" if str(failed) else type(failed).__name__
    return Failure(message, at.filename if at else "", (at.lineno if at else 0) or 1, text)


def _within(path: Path, place: Path) -> bool:
    return path == place or place in path.parents


def literal_block_dims(files: tuple[Path, ...]) -> dict[str, set[int]]:
    """Block sizes that ``launch`` and ``launch_tiled`` calls state plainly, by the kernel's name.

    Read from the text: an integer, or a module-level name of one.
    """
    found: dict[str, set[int]] = {}
    for path in files:
        if not path.is_file():
            continue
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
        constants = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call) or _last_name(call.func) not in ("launch", "launch_tiled"):
                continue
            keywords = {k.arg: k.value for k in call.keywords if k.arg}
            kernel = call.args[0] if call.args else keywords.get("kernel")
            given = keywords.get("block_dim")
            value = given.value if isinstance(given, ast.Constant) else None
            if isinstance(given, ast.Name):
                value = constants.get(given.id)
            name = _last_name(kernel)
            if name and isinstance(value, int) and not isinstance(value, bool):
                found.setdefault(name, set()).add(value)
    return found


def _last_name(node: ast.AST | None) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""

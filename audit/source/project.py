"""Finds the files behind imports, and what their names stand for."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from warp_audit.audit.source.module import Module, Struct
from warp_audit.audit.source.text import SourceProblem, decode

if TYPE_CHECKING:
    import ast

    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.scopes import Binding, Scope

# A file that another imports is read only if it is not larger than this; generated tables are.
_LARGEST = 4_000_000
# Names that stand for nothing in the project.
_FOREIGN = ("builtins.", "numpy.", "torch.", "typing.", "math.", "functools.", "os.", "sys.", "time.")
# How many re-exports are followed, and down to which a result is kept.
_DEEPEST, _SURE = 6, 3
# How far above a package an import is looked for.
_LEVELS = 6
# Packages that are not part of what is checked, where a file of that name beside it is no likely change.
_OUTSIDE = {"warp", "numpy", "torch", "jax", *sys.stdlib_module_names}


class Project:
    """Files as they are reached from those that are checked.

    Args:
        min_warp: the oldest Warp that the project supports, for rules about older versions; ``None`` if
            it does not say.
    """

    def __init__(self, min_warp: tuple[int, int] | None = None) -> None:
        self.min_warp = min_warp
        self._modules: dict[Path, Module | None] = {}
        self._digests: dict[Path, str | None] = {}
        self._names: dict[Path, tuple[str, Path]] = {}
        self._tops: dict[tuple[str, Path], tuple[Path, ...]] = {}
        self._found: dict[tuple[str, str], Path | None] = {}
        self._bindings: dict[tuple[str, str], tuple[tuple[Scope, Binding] | None, dict[Path, str | None]]] = {}
        self._missing: dict[tuple[str, str], dict[Path, str | None]] = {}
        self._loading = 0

    def load(self, path: Path, text: str) -> Module:
        """The module of a file with this text.

        Raises:
            SyntaxError: it is not Python.
        """
        key = path.absolute()
        known = self._modules.get(key)
        if known is not None and known.text == text:
            return known
        self._modules[key] = None  # what it imports may look at it while it is read
        self._loading += 1
        try:
            module = self._modules[key] = Module(path, text, self._name(path)[0], self)
        finally:
            self._loading -= 1
        return module

    def _name(self, path: Path) -> tuple[str, Path]:
        """A file's dotted name and the folder that its topmost package lies in."""
        path = path.absolute()
        found = self._names.get(path.parent)
        if found is None:
            parts: list[str] = []
            folder = path.parent
            # A folder without `__init__.py` inside a package is part of it too.
            while folder.name and any((one / "__init__.py").is_file() for one in (folder, folder.parent)):
                parts.append(folder.name)
                folder = folder.parent
            found = self._names[path.parent] = (".".join(reversed(parts)), folder)
        package, root = found
        if path.name == "__init__.py":
            return package or path.parent.name, root
        return f"{package}.{path.stem}" if package else path.stem, root

    def _locate(self, name: str, asking: Module) -> Path | None:
        """The file of an absolute module name, beside the asking file's package or in its folder."""
        key = (name, asking.folder)
        if key not in self._found:
            candidates = self._candidates(name, asking)
            self._found[key] = next((candidate for candidate in candidates if candidate.is_file()), None)
        return self._found[key]

    def _candidates(self, name: str, asking: Module) -> list[Path]:
        """Where the file of a module name may be."""
        _, root = self._name(asking.path)
        first, *rest = name.split(".")
        found: list[Path] = []
        for base in dict.fromkeys((root, asking.path.absolute().parent, *self._above(first, root))):
            stem = base.joinpath(first, *rest)
            found += [stem.with_name(stem.name + ".py"), stem / "__init__.py"]
        return found

    def _absent(self, name: str, asking: Module) -> dict[Path, str | None]:
        """The files that would be a module, were they there."""
        key = (name, asking.folder)
        if key not in self._missing:
            self._missing[key] = dict.fromkeys(self._candidates(name, asking))
        return self._missing[key]

    def _above(self, first: str, root: Path) -> tuple[Path, ...]:
        """The nearest folder above that has a folder of this name: packages need no ``__init__.py`` to be imported."""
        key = (first, root)
        if key not in self._tops:
            above = (folder for folder in root.parents[:_LEVELS] if (folder / first).is_dir())
            self._tops[key] = next(((folder,) for folder in above), ())
        return self._tops[key]

    def module_named(self, name: str, asking: Module) -> Module | None:
        """The module of a dotted name, if its file is part of the project and can be read."""
        if name == asking.name:
            return asking
        path = self._locate(name, asking)
        if path is None:
            if name.partition(".")[0] not in _OUTSIDE:
                # Were one of these made, the findings could change.
                asking.dependencies.update(self._absent(name, asking))
            return None
        if path not in self._modules:
            self._modules[path] = None
            try:
                data = path.read_bytes()
                self._digests[path] = hashlib.sha256(data).hexdigest()
                if (b"warp" in data and len(data) <= _LARGEST) or path.name == "__init__.py":
                    self._loading += 1
                    try:
                        self._modules[path] = Module(path, decode(data), self._name(path)[0], self)
                    finally:
                        self._loading -= 1
            except (OSError, SourceProblem, SyntaxError, ValueError, RecursionError, MemoryError):
                pass
        if path not in self._digests:
            module = self._modules[path]
            if module is not None:
                self._digests[path] = _digest(path)
        asking.dependencies[path] = self._digests.get(path)
        return self._modules[path]

    def binding(self, name: str, asking: Module, depth: int = 0) -> tuple[Scope, Binding] | None:
        """What a qualified name is bound to, in the file that it belongs to; re-exports are followed.

        The longest leading part that names a file is taken as the module; then come classes.
        """
        if depth > _DEEPEST or name.startswith(_FOREIGN):
            return None
        key = (name, asking.folder if not asking.owns(name) else str(asking.path))
        known = self._bindings.get(key)
        if known is None:
            outer, asking.dependencies = asking.dependencies, {}
            try:
                found = self._binding(name, asking, depth)
            finally:
                needed, asking.dependencies = asking.dependencies, outer
            outer.update(needed)
            if self._loading or depth > _SURE:
                return found  # with a file half read, or a path cut short, the answer is not for good
            self._bindings[key] = found, needed
            return found
        asking.dependencies.update(known[1])
        return known[0]

    def _binding(self, name: str, asking: Module, depth: int) -> tuple[Scope, Binding] | None:
        parts = name.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            module = self.module_named(".".join(parts[:cut]), asking)
            if module is None:
                continue
            found = self._inside(module, parts[cut:], depth)
            if found is None:
                star = self._through_stars(module, parts[cut:], asking, depth)
                if star is not None:
                    return star
                continue
            _, binding = found
            if module is not asking:
                asking.dependencies.update(module.dependencies)
            if binding.kind == "import" and binding.target != name:
                further = self.binding(binding.target, module, depth + 1)
                if module is not asking:
                    asking.dependencies.update(module.dependencies)
                return further
            return found
        return None

    def _inside(self, module: Module, parts: list[str], depth: int) -> tuple[Scope, Binding] | None:
        scope = module.scope
        for number, part in enumerate(parts):
            bindings = scope.bindings.get(part)
            if not bindings:
                return None
            imports = [b for b in bindings if b.kind == "import"]
            binding = imports[0] if imports else bindings[-1]
            rest = parts[number + 1 :]
            if not rest:
                return scope, binding
            if binding.kind == "import":
                return self.binding(".".join([binding.target, *rest]), module, depth + 1)
            if binding.kind not in ("class", "function"):
                return None
            if module.device_of(binding.node) is not None:
                return None
            scope = module.scope_of(binding.node)
        return None

    def _through_stars(
        self, module: Module, parts: list[str], asking: Module, depth: int
    ) -> tuple[Scope, Binding] | None:
        for binding in module.scope.bindings.get("*", []):
            target = self.module_named(binding.target, module)
            if target is None or target is module or depth > _DEEPEST:
                continue
            found = self._inside(target, parts, depth + 1)
            if found is not None and found[1].kind == "import":
                found = self.binding(found[1].target, target, depth + 1)
            found = found or self._through_stars(target, parts, module, depth + 1)
            if found is not None:
                if module is not asking:
                    asking.dependencies.update(module.dependencies)
                return found
        return None

    def device_function(self, name: str, asking: Module) -> DeviceFunction | None:
        """The kernel or func of a qualified name."""
        found = self.binding(name, asking)
        return found[0].module.device_of(found[1].node) if found else None

    def struct(self, name: str, asking: Module) -> Struct | None:
        """The ``@wp.struct`` of a qualified name."""
        found = self.binding(name, asking)
        if found is None or found[1].kind != "class":
            return None
        node: ast.ClassDef = found[1].node  # type: ignore[assignment]
        return found[0].module.structs.get(node)


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None

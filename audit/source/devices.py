"""Where host code says that things are to run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from warp_audit.audit.source import reach

if TYPE_CHECKING:
    from warp_audit.audit.source.flow import Site
    from warp_audit.audit.source.host import HostFunction
    from warp_audit.audit.source.scopes import Scope

_SCOPES = ("warp.ScopedDevice", "warp.ScopedStream")


def scoped(function: HostFunction, site: Site) -> bool:
    """Whether a ``with wp.ScopedDevice(…)`` or ``ScopedStream`` around a site chooses the device."""
    return function.inside(site, *_SCOPES) is not None or any(
        "device" in ast.dump(item.context_expr).lower() for item in site.contexts
    )


def sets_default(function: HostFunction) -> bool:
    """Whether the file sets the default device itself."""
    return "set_device" in function.module.text


def kept_device(owner: Scope) -> str | None:
    """The attribute in which a class keeps its device, if its methods pass it on by ``device=self.NAME``."""
    found: dict[Scope, str | None] = owner.module.__dict__.setdefault("_kept_devices", {})
    if owner not in found:
        found[owner] = None
        kept = reach.attributes_of(owner)
        for method in owner.children:
            for call in method.calls:
                for keyword in call.keywords:
                    value = keyword.value
                    if keyword.arg != "device" or not isinstance(value, ast.Attribute):
                        continue
                    own = isinstance(value.value, ast.Name) and value.value.id == "self"
                    if own and value.attr in kept and "torch" not in value.attr:
                        found[owner] = value.attr
    return found[owner]

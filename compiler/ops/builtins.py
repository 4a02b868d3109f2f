"""Warp's builtins: their keys, native names, and what each affects.

The names come from the table beside this file, made from Warp's own registry by
``compiler/tap/builtin_table.py``; the effects follow from the keys' families, as the native
headers implement them.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

_PREFERRED = {  # natives shared by several keys: the key that users write
    "wp::vec_t": "vector",
    "wp::tile_bvh_query_aabb": "tile_bvh_query_aabb",
    "wp::tile_bvh_query_ray": "tile_bvh_query_ray",
    "wp::tile_bvh_query_next": "tile_bvh_query_next",
    "wp::tile_mesh_query_aabb": "tile_mesh_query_aabb",
    "wp::tile_mesh_query_aabb_next": "tile_mesh_query_aabb_next",
}


@cache
def _table() -> dict[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for line in (files(__package__) / "builtins.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            key, *natives = line.split()
            table[key] = tuple(natives)
    return table


@cache
def _keys() -> dict[str, str]:
    found: dict[str, str] = {}
    for key, natives in _table().items():
        for native in natives:
            taken = found.get(native)
            if taken is None or native == f"wp::{key}" or len(key) < len(taken):
                found[native] = key
    return found | _PREFERRED


def known(key: str) -> bool:
    """Whether Warp has a builtin of that key, in any supported version."""
    return key in _table()


def all_keys() -> tuple[str, ...]:
    """The keys of all builtins of the supported Warp versions."""
    return tuple(_table())


def key_of(native: str) -> str | None:
    """The key of a native function's name without template arguments, or None."""
    return _keys().get(native)


def usual_native(key: str) -> str:
    """The native function that a builtin mostly is."""
    return _table()[key][0]


_MEMORY = ("array_", "volume_", "texture_", "mesh_", "bvh_", "hash_grid_")
_MEMORY_KEYS = frozenset({"load", "store", "lower_bound", "view", "nonzero", "argmin", "argmax"})
_RANDOM = ("rand", "sample_", "poisson")
_QUERIES = ("iter_next",)
_INPLACE = ("assign_inplace", "add_inplace", "sub_inplace", "bit_and_inplace", "bit_or_inplace", "bit_xor_inplace")


@cache
def effects(key: str) -> frozenset[str]:
    """What a builtin does besides giving its result (see ``kind.EFFECTS``)."""
    found: set[str] = set()
    if key.startswith("atomic_") or key.startswith(_MEMORY) or key in _MEMORY_KEYS:
        found.add("memory")
    if key.startswith("tile_") or key.endswith("_tiled") or key in ("tile", "untile"):
        found.add("block")
        if any(word in key for word in ("load", "store", "atomic", "query", "scatter", "gather")):
            found.add("memory")
    if key.startswith(_RANDOM) and key != "rand_init":
        found.add("random")
    if key in _QUERIES or key.endswith("query_next") or key in _INPLACE or key == "assign":
        found.add("local")
    if key in ("printf", "print"):
        found.add("output")
    if key.startswith("expect_") or key == "breakpoint":
        found.add("trap")
    if key == "view":
        found.discard("memory")  # an address computation
    return frozenset(found)

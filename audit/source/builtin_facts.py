"""What the rules must know of builtins beyond their types, as Warp's native headers have it."""

from __future__ import annotations

from typing import NamedTuple


class Singularity(NamedTuple):
    """Where a function fails to have a derivative or a value.

    Args:
        where: the argument, in words that follow "at".
        value: what the function gives there, if that is not finite.
        gradient: what the backward pass adds there: ``infinite``, ``nan``, or ``zero`` where Warp guards it, so
            that the true gradient is lost without a sign.
    """

    where: str
    value: str | None
    gradient: str


ATOMICS = frozenset(f"atomic_{op}" for op in ("add", "sub", "min", "max", "cas", "exch", "and", "or", "xor"))
"""Builtins that read and write an array's element in one step."""

_INDEXED = ("tile_load_indexed", "tile_store_indexed", "tile_atomic_add_indexed")
_MOVES = ("tile", "tile_from_thread", "tile_load", "tile_store", "tile_atomic_add", "tile_assign", *_INDEXED)
_SCATTERS = ("tile_scatter_add", "tile_scatter_masked")
_INPLACE = tuple(f"tile_{op}_inplace" for op in ("add", "sub", "bit_and", "bit_or", "bit_xor"))
_REDUCTIONS = ("tile_sum", "tile_dot", "tile_min", "tile_argmin", "tile_max", "tile_argmax", "tile_reduce")
_SCANS = tuple(f"tile_scan_{kind}" for kind in ("inclusive", "exclusive", "max_inclusive", "min_inclusive"))
_SOLVERS = tuple(
    f"tile_{name}{suffix}"
    for name in ("cholesky", "cholesky_solve", "lower_solve", "upper_solve")
    for suffix in ("", "_inplace")
)
_ALGEBRA = ("tile_map", "tile_axpy", "tile_sort", "tile_diag_add", "tile_matmul", "tile_fft", "tile_ifft", *_SOLVERS)
_BVH_QUERIES = tuple(f"bvh_query_{kind}" for kind in ("aabb", "ray", "next"))
_MESH_QUERIES = tuple(f"mesh_query_{kind}" for kind in ("aabb", "aabb_next"))
_QUERIES = (
    *(f"{name}_tiled" for name in (*_BVH_QUERIES, *_MESH_QUERIES)),
    *(f"tile_{name}" for name in (*_BVH_QUERIES, *_MESH_QUERIES)),
    "tile_query_valid",
)
_STACKS = ("tile_stack", "tile_stack_push", "tile_stack_pop", "tile_stack_clear")

TILE_OPS = frozenset((*_MOVES, *_SCATTERS, *_INPLACE, *_REDUCTIONS, *_SCANS, *_ALGEBRA, *_QUERIES, *_STACKS))
"""Builtins that every thread of the block must reach: they share the work out, or hold a barrier.

Not among them are allocations, views, ``tile_extract`` and ``tile_stack_count``, which a single thread may call.
"""

WRITES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(sorted(ATOMICS), (0,)),
    "tile_store": (0,),
    "tile_store_indexed": (0,),
    "tile_atomic_add": (0,),
    "tile_atomic_add_indexed": (0,),
    "array_store": (0,),
    "store": (0,),
    "volume_store": (0,),
    "volume_store_f": (0,),
    "volume_store_i": (0,),
    "volume_store_v": (0,),
    "dense_gemm": (7,),
    "dense_gemm_batched": (10,),
    "dense_chol": (3,),
    "dense_chol_batched": (4,),
    "dense_subs": (3,),
    "dense_solve": (4,),
    "dense_solve_batched": (6,),
    "spatial_jacobian": (6,),
    "spatial_mass": (4,),
}
"""Builtins that write memory which outlives the thread, with the places of the arrays, addresses or volumes."""

SINGULAR: dict[str, Singularity] = {
    "sqrt": Singularity("0", None, "infinite"),
    "cbrt": Singularity("0", None, "infinite"),
    "log": Singularity("0", "-inf", "infinite"),
    "log2": Singularity("0", "-inf", "infinite"),
    "log10": Singularity("0", "-inf", "infinite"),
    "pow": Singularity("a base of 0", "inf if the exponent is negative", "nan"),
    "acos": Singularity("-1 and 1", None, "zero"),
    "asin": Singularity("-1 and 1", None, "zero"),
    "atan2": Singularity("(0, 0)", None, "zero"),
    "erfinv": Singularity("-1 and 1", "inf", "infinite"),
    "erfcinv": Singularity("0 and 2", "inf", "infinite"),
    "length": Singularity("0", None, "zero"),
    "normalize": Singularity("0", None, "zero"),
    "div": Singularity("a divisor of 0", "inf", "nan"),
    "inverse": Singularity("a singular matrix", None, "zero"),
    "quat_to_axis_angle": Singularity("the identity", None, "zero"),
}
"""Builtins with a place where the value or the derivative fails, without checks for finite numbers."""

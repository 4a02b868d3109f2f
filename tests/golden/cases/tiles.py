"""Tiles in registers and in shared memory."""

import warp as wp


@wp.kernel
def tiles(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), total: wp.array(dtype=float)):
    i, j = wp.tid()
    t = wp.tile_load(a, shape=(8, 8), offset=(i * 8, j * 8), storage="shared")
    u = wp.tile_transpose(t)
    s = wp.tile_sum(u)
    wp.tile_store(b, u + t, offset=(j * 8, i * 8))
    wp.tile_atomic_add(total, s, offset=0)

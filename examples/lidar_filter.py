"""Filters a lidar scan in three stages: gate by range, drop lonely points, compact the rest."""

import numpy as np
import warp as wp

CELL = 0.5  # meters: edge of a grid cell, and the radius in which a point needs company
GRID = 64  # cells along each axis


@wp.kernel
def gate(points: wp.array(dtype=wp.vec3), intensity: wp.array(dtype=float), keep: wp.array(dtype=int)):
    i = wp.tid()
    distance = wp.length(points[i])
    keep[i] = wp.where(distance > 0.5 and distance < 15.0 and intensity[i] > 0.05, 1, 0)


@wp.func
def cell_of(point: wp.vec3) -> wp.vec2i:
    half = GRID // 2
    x = wp.clamp(int(wp.floor(point[0] / CELL)) + half, 0, GRID - 1)
    y = wp.clamp(int(wp.floor(point[1] / CELL)) + half, 0, GRID - 1)
    return wp.vec2i(x, y)


@wp.kernel
def count(points: wp.array(dtype=wp.vec3), keep: wp.array(dtype=int), cells: wp.array2d(dtype=int)):
    i = wp.tid()
    if keep[i] == 0:
        return
    cell = cell_of(points[i])
    cells[cell[0], cell[1]] += 1


@wp.kernel
def compact(
    points: wp.array(dtype=wp.vec3),
    keep: wp.array(dtype=int),
    cells: wp.array2d(dtype=int),
    least: int,
    total: wp.array(dtype=int),
    kept: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    if keep[i] == 0:
        return
    cell = cell_of(points[i])
    company = 0
    for dx in range(-1, 2):
        for dy in range(-1, 2):
            x = cell[0] + dx
            y = cell[1] + dy
            if x >= 0 and x < GRID and y >= 0 and y < GRID:
                company += cells[x, y]
    if company < least:
        return
    slot = wp.atomic_add(total, 0, 1)
    if slot < kept.shape[0]:
        kept[slot] = points[i]


def main():
    rng = np.random.default_rng(3)
    n = 20000
    scan = rng.normal(scale=6.0, size=(n, 3)).astype(np.float32)
    points = wp.array(scan, dtype=wp.vec3)
    intensity = wp.array(rng.random(n, dtype=np.float32), dtype=float)
    keep = wp.zeros(n, dtype=int)
    cells = wp.zeros((GRID, GRID), dtype=int)
    total = wp.zeros(1, dtype=int)
    kept = wp.zeros(n, dtype=wp.vec3)
    wp.launch(gate, dim=n, inputs=[points, intensity], outputs=[keep])
    wp.launch(count, dim=n, inputs=[points, keep], outputs=[cells])
    wp.launch(compact, dim=n, inputs=[points, keep, cells, 6], outputs=[total, kept])
    print(f"kept {int(total.numpy()[0])} of {n} points")


if __name__ == "__main__":
    main()

"""Array reads, writes, atomics, views and components."""

import warp as wp


@wp.kernel
def arrays(points: wp.array2d(dtype=wp.vec3), index: wp.array(dtype=int), total: wp.array(dtype=float)):
    i, j = wp.tid()
    row = points[i]
    p = row[index[j]]
    points[i, j] = p * 2.0
    points[i, j].x = p[1]
    total[0] += p.z
    wp.atomic_max(total, 1, wp.length(p))

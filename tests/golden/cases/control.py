"""Branches, loops of both kinds, early returns, short circuits, static values."""

import warp as wp

LIMIT = wp.constant(20)


@wp.func
def first_above(values: wp.array(dtype=float), bound: float, n: int) -> int:
    for k in range(n):
        if values[k] > bound:
            return k
    return -1


@wp.kernel(enable_backward=False)
def control(values: wp.array(dtype=float), n: int, out: wp.array(dtype=int)):
    i = wp.tid()
    if i >= n or values[i] < 0.0:
        return
    count = int(0)
    while count < LIMIT and values[i] > float(count):
        count += 1
    for k in range(100):
        if k == i:
            continue
        if k > count:
            break
        count += k
    out[i] = wp.where(count > 3, first_above(values, values[i], n), wp.static(2 + 3))

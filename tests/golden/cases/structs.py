"""Structs, fields of arrays in structs, functions with several results, and the reverse pass."""

import warp as wp


@wp.struct
class State:
    x: wp.array(dtype=float)
    gain: float


@wp.func
def split(a: float, b: float):
    return a + b, a - b


@wp.kernel
def structs(state: State, out: wp.array(dtype=float)):
    i = wp.tid()
    s, d = split(state.x[i], state.gain)
    if s < d:
        return
    out[i] = s * d

"""The kernel of lens.cubin.xz and lens_plain.cubin.xz, which the tests of the binary reader read.

Both were made by Warp 1.19's ``compile_aot_module`` for sm_80; ``wp.config.lineinfo`` was on
for the first and off for the second.
"""

import warp as wp


@wp.func
def radial(r2: float, k1: float, k2: float):
    return 1.0 + r2 * (k1 + r2 * k2)


@wp.kernel
def distort(image: wp.array2d(dtype=float), k1: float, k2: float, output: wp.array(dtype=float)):
    i, j = wp.tid()
    x = float(j) * 0.01
    y = float(i) * 0.01
    output[i * image.shape[1] + j] = image[i, j] * radial(x * x + y * y, k1, k2)

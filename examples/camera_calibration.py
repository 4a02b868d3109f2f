"""Undistorts a camera image into a row-major buffer, with an index that nothing checks.

The buffer has 1080 rows of 1920 values. The kernel is right as long as the launch has that
shape; launched over a wider image it writes past its end, and the crash names a mangled kernel
and an offset. ``warp-audit trace`` says which expression that is.
"""

import numpy as np
import warp as wp

HEIGHT = 1080
WIDTH = 1920


@wp.struct
class Lens:
    focal: float
    center_x: float
    center_y: float
    k1: float
    k2: float


@wp.func
def radial_gain(r2: float, lens: Lens) -> float:
    return 1.0 + r2 * (lens.k1 + r2 * lens.k2)


@wp.kernel
def undistort(image: wp.array2d(dtype=float), lens: Lens, output: wp.array(dtype=float)):
    i, j = wp.tid()
    x = (float(j) - lens.center_x) / lens.focal
    y = (float(i) - lens.center_y) / lens.focal
    gain = radial_gain(x * x + y * y, lens)
    u = wp.clamp(int(x * gain * lens.focal + lens.center_x), 0, image.shape[1] - 2)
    v = wp.clamp(int(y * gain * lens.focal + lens.center_y), 0, image.shape[0] - 2)
    result = 0.25 * (image[v, u] + image[v, u + 1] + image[v + 1, u] + image[v + 1, u + 1])
    output[i * 1920 + j] = result  # unchecked: nothing says that output has this many elements


def main():
    rng = np.random.default_rng(7)
    image = wp.array(rng.random((HEIGHT, WIDTH), dtype=np.float32), dtype=float)
    output = wp.zeros(HEIGHT * WIDTH, dtype=float)
    lens = Lens()
    lens.focal, lens.center_x, lens.center_y = 1400.0, WIDTH / 2.0, HEIGHT / 2.0
    lens.k1, lens.k2 = -0.12, 0.03
    wp.launch(undistort, dim=(HEIGHT, WIDTH), inputs=[image, lens], outputs=[output])
    print(f"mean of the undistorted image: {output.numpy().mean():.4f}")


if __name__ == "__main__":
    main()

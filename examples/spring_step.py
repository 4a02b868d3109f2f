"""Fits the stiffness of a chain of springs by gradient descent through one differentiable step."""

import numpy as np
import warp as wp


@wp.struct
class Chain:
    rest: float
    mass: float
    damping: float
    dt: float


@wp.kernel
def spring_forces(
    x: wp.array(dtype=wp.vec3), stiffness: wp.array(dtype=float), chain: Chain, f: wp.array(dtype=wp.vec3)
):
    i = wp.tid()
    stretch = x[i + 1] - x[i]
    length = wp.length(stretch)
    pull = stretch * (stiffness[0] * (length - chain.rest) / length)
    wp.atomic_add(f, i, pull)
    wp.atomic_sub(f, i + 1, pull)


@wp.kernel
def integrate(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    f: wp.array(dtype=wp.vec3),
    chain: Chain,
    x_next: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    a = f[i] / chain.mass - v[i] * chain.damping
    x_next[i] = x[i] + (v[i] + a * chain.dt) * chain.dt


@wp.kernel
def distance_to(x: wp.array(dtype=wp.vec3), target: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.length_sq(x[i] - target[i]))


def step(n, x, v, stiffness, chain):
    f = wp.zeros(n, dtype=wp.vec3, requires_grad=True)
    x_next = wp.zeros(n, dtype=wp.vec3, requires_grad=True)
    wp.launch(spring_forces, dim=n - 1, inputs=[x, stiffness, chain], outputs=[f])
    wp.launch(integrate, dim=n, inputs=[x, v, f, chain], outputs=[x_next])
    return x_next


def main():
    n = 32
    chain = Chain()
    chain.rest, chain.mass, chain.damping, chain.dt = 1.0, 0.1, 0.2, 0.05
    rng = np.random.default_rng(1)
    start = np.cumsum(rng.uniform(0.8, 1.4, size=(n, 3)), axis=0).astype(np.float32)
    x = wp.array(start, dtype=wp.vec3, requires_grad=True)
    v = wp.zeros(n, dtype=wp.vec3, requires_grad=True)
    wanted = wp.array([40.0], dtype=float)
    target = step(n, x, v, wanted, chain)
    stiffness = wp.array([10.0], dtype=float, requires_grad=True)
    for _ in range(40):
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(distance_to, dim=n, inputs=[step(n, x, v, stiffness, chain), target], outputs=[loss])
        tape.backward(loss)
        gradient = float(stiffness.grad.numpy()[0])
        tape.zero()
        stiffness = wp.array([float(stiffness.numpy()[0]) - 30.0 * gradient], dtype=float, requires_grad=True)
    print(f"stiffness found: {float(stiffness.numpy()[0]):.2f} (true 40.00)")


if __name__ == "__main__":
    main()

"""Diffusion with a field κ: sides, rough and smooth κ, and the matrix of a step."""

import numpy as np

SCHEMES = ["forward-euler", "rk4"]
STATED = {"value": {"value": 0.0}, "value face": {"value": 0.0, "at": "face"},
          "derivative": {"derivative": 0}, "derivative face": {"derivative": 0, "at": "face"},
          "slope": {"derivative": 0.5}, "slope face": {"derivative": 0.5, "at": "face"},
          "mixed": {"mixed": 1.0}, "mixed face": {"mixed": 1.0, "at": "face"},
          "stiffly mixed": {"mixed": 9.0}, "stiffly mixed face": {"mixed": 9.0, "at": "face"}}
MAPS = ["symmetric", "mirror", "antisymmetric", "halo"]
V = {"mixed": 1.0, "stiffly mixed": 9.0}
ROUNDING = 1e-10

PATTERNS = {"random": lambda random, shape: 10.0 ** random.uniform(-6, 0, shape),
            "of two values": lambda random, shape: random.choice([1e-3, 1.0], shape),
            "mostly none": lambda random, shape: random.choice([0.0, 1.0], shape, p=[0.8, 0.2]),
            "a tenth off": lambda random, shape: random.uniform(0.9, 1.0, shape),
            "in layers": lambda random, shape: np.where(np.indices(shape)[-1] // 3 % 2, 0.01, 1.0),
            "smooth": lambda random, shape: 0.7 + 0.3 * np.cos(np.indices(shape).sum(0) * 2 / max(shape) + 0.5)}


def diffusivity(random, pattern, shape):
    """Its largest number is 1."""
    k = PATTERNS[pattern](random, shape)
    return k / k.max() if k.max() > 0 else np.ones(shape)


def word(side):
    if side in STATED:
        return STATED[side]
    return {"halo": 1.0} if side == "halo" else {"type": side}


def is_at_node(side):
    return side in ("value", "derivative", "slope", "mixed", "stiffly mixed", "mirror")


def step_matrices(client, ks, **params):
    """One step at the limit (cfl 1) on every unit vector, minus that on 0, for each κ. The largest κ is 1, so
    that the step is the same for all."""
    shape, points = ks[0].shape, ks[0].size
    f = np.concatenate([np.zeros((1, *shape)), np.eye(points).reshape(points, *shape)])
    k = np.repeat(np.stack(ks), points + 1, 0)
    out = client.out("diffusion", f=np.tile(f, (len(ks),) + (1,) * len(shape)), batch=1, steps=1, cfl=1.0,
                     diffusivity=k, **params)
    rows = out.reshape(len(ks), points + 1, points)
    return [(one[1:] - one[0]).T for one in rows]


def spectrum(matrix, h):
    """Eigenvalues of a step's matrix, which must be symmetric with the weights h of the points."""
    root = np.sqrt(h[h > 0])
    inner = matrix[np.ix_(h > 0, h > 0)] * root[:, None] / root
    assert np.abs(inner - inner.T).max() <= ROUNDING
    return np.linalg.eigvalsh((inner + inner.T) / 2)


def assert_stable(matrix, h, scheme, *where):
    """Returns the step over the largest stable one of this very κ."""
    found = spectrum(matrix, h)
    low = 0.0 if scheme == "rk4" else -1.0
    assert low - ROUNDING <= found.min() and found.max() <= 1 + ROUNDING, (*where, found.min(), found.max())
    return (1 - found.min()) / 2


def stated(side, number):
    given = dict(word(side))
    name = "const" if "mixed" in side else next(iter(given.keys() & {"value", "derivative"}), None)
    return given | {name: number} if name else given


def steady_error(client, accuracy, side, x, spacing):
    """(of the steady state, which is the solution of the server's own rows; of a step's rate inside)"""
    other, n = "value" if is_at_node(side) else "value face", len(x)

    def u_of(x, order=0):
        return 0.7**order * np.exp(0.7 * x) + 2**order * np.sin(2 * x + order * np.pi / 2)

    low, high = (x[0], x[-1]) if is_at_node(side) else (1.5 * x[0] - x[1] / 2, 1.5 * x[-1] - x[-2] / 2)
    k, slope = 1 + 0.5 * np.sin(3 * x + 0.4), 1.5 * np.cos(3 * x + 0.4)
    u, v = u_of(x), V.get(side.removesuffix(" face"), 0.0)
    number = u_of(low) if side.startswith("value") else v * u_of(low) - u_of(low, 1)
    source = -(k * u_of(x, 2) + slope * u_of(x, 1))
    f = np.concatenate([np.zeros((1, n)), np.eye(n), u[None]])
    out = client.out("diffusion", f=f, diffusivity=np.tile(k, (n + 2, 1)), source=np.tile(source, (n + 2, 1)),
                     boundary={"x-": stated(side, number), "x+": stated(other, u_of(high))}, accuracy=accuracy,
                     steps=1, dt=n**-2.0, allow_unstable=True, spacing=spacing, batch=1)
    step, added = (out[1:-1] - out[0]).T, out[0].copy()
    for edge, one in ((0, side), (-1, other)):
        if one == "value":
            step[edge], added[edge] = 0, u[edge]
    rate = np.abs(out[-1] - u)[2:-2].max() * n**2
    return np.abs(np.linalg.solve(np.eye(n) - step, added) - u).max(), rate

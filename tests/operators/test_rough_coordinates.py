"""Diffusion with a field κ along coordinates, at accuracy 2, is stable for every κ ≥ 0, all coordinates and every
accepted side: its matrix is symmetric in the sum over the points times their lengths and has no positive
eigenvalue, and the largest stable step is a bound of it. Its order is measured."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from rough import (MAPS, PATTERNS, SCHEMES, STATED, V, assert_stable, diffusivity, is_at_node, stated,
                   step_matrices, word, steady_error)

GRIDS = {"by 1.7": lambda random, n: random.uniform(1, 1.7, n), "by 30": lambda random, n: 30 ** random.uniform(0, 1, n),
         "by 1e6": lambda random, n: 1e6 ** random.uniform(-1, 0, n),
         "in layers": lambda random, n: np.where(np.arange(n) // 4 % 2, 0.1, 1.0),
         "one short": lambda random, n: np.where(np.arange(n) == n // 3, 1e-3, 1.0),
         "fine edges": lambda random, n: np.diff(np.tanh(2 * np.linspace(-1, 1, n + 1))),
         "uniform": lambda random, n: np.full(n, 0.25)}


def coordinates(random, grid, count):
    """They begin at 0.25, so that rounding shows."""
    return 0.25 + np.r_[0, GRIDS[grid](random, count - 1).cumsum()]


def lengths(x, low, high):
    """The weight of each point in a sum along an axis; 0: held points and data."""
    gaps = np.diff(x)
    h = np.r_[gaps[0], gaps[:-1] + gaps[1:], gaps[-1]] / 2
    for side, edge in ((low, 0), (high, -1)):
        h[edge] = 0 if side in ("value", "halo") else h[edge] if is_at_node(side) else 2 * h[edge]
    return h


# The rows themselves, from their definition alone.

def rows_of(x, k, low, high):
    """(the matrix, {end: the weights of its number}) of (κ u′)′; numbers of `mixed` are c."""
    n = len(x)
    h, gaps = lengths(x, "mirror" if low == "value" else low, "mirror" if high == "value" else high), np.diff(x)
    matrix, data = np.zeros((n, n)), {"-": np.zeros(n), "+": np.zeros(n)}
    with np.errstate(divide="ignore"):
        over = np.where(h > 0, 1 / h, 0)
    for i in range(n - 1):
        flow = (k[i] + k[i + 1]) / 2 / gaps[i]
        for here, there in ((i, i + 1), (i + 1, i)):
            matrix[here, there] += flow * over[here]
            matrix[here, here] -= flow * over[here]
    for end, side, at, inner, gap in (("-", low, 0, 1, gaps[0]), ("+", high, n - 1, n - 2, gaps[-1])):
        v, face = V.get(side.removesuffix(" face"), 0.0), not is_at_node(side)
        if side == "antisymmetric" or side == "value face":  # f at the face: half a cell away
            matrix[at, at] -= 2 * k[at] / gap * over[at]
            data[end][at] = 2 * k[at] / gap * over[at]
        elif "slope" in side or "mixed" in side:
            limit = 2 * k[at] if "mixed" in side else np.inf
            edge = (3 * k[at] - min(k[inner], limit)) / 2 if face else k[at]
            data[end][at] = edge * over[at] / (1 + v * gap / 2 if face else 1)
            matrix[at, at] -= v * data[end][at]
    for side, at in ((low, 0), (high, -1)):
        if side in ("value", "halo"):
            matrix[at] = 0
            for of in data.values():
                of[at] = 0
    return matrix, data


@pytest.mark.parametrize("low", [*STATED, *MAPS])
def test_weights(client, low):
    random = np.random.default_rng(3)
    for grid, high in itertools.product(GRIDS, [*STATED, *MAPS]):
        x = coordinates(random, grid, 9)
        k, u = diffusivity(random, "random", (9,)), random.standard_normal(9)
        numbers = [0.75 if "slope" in side or "mixed" in side or "value" in side else 0.0 for side in (low, high)]
        for end, side, number in ((0, low, numbers[0]), (-1, high, numbers[1])):
            u[end] = number if side == "value" else u[end]
        matrix, data = rows_of(x, k, low, high)
        dt = 1 / np.abs(matrix).max()
        out = client.out("diffusion", f=u, diffusivity=k, steps=1, dt=dt, allow_unstable=True, accuracy=2,
                         spacing={"x": x}, boundary={"x-": stated(low, numbers[0]), "x+": stated(high, numbers[1])})
        rate = matrix @ u + data["-"] * numbers[0] + data["+"] * numbers[1]
        size = np.abs(matrix).sum(1).max() + sum(np.abs(of).max() for of in data.values())
        assert np.abs(out - u - dt * rate).max() <= 1e-13 * dt * size, (grid, high)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("low", [*STATED, *MAPS])
def test_one_dimension(client, low, scheme):
    """Every pair of sides, on all coordinates."""
    random = np.random.default_rng(2)
    for high, grid, n in itertools.product([*STATED, *MAPS], GRIDS, (4, 7, 19)):
        x = coordinates(random, grid, n)
        ks = [diffusivity(random, pattern, (n,)) for pattern in PATTERNS] + [np.ones(n)]
        made = step_matrices(client, ks, accuracy=2, scheme=scheme, spacing={"x": x},
                             boundary={"x-": word(low), "x+": word(high)})
        ratios = [assert_stable(matrix, lengths(x, low, high), scheme, high, grid, n, name)
                  for matrix, name in zip(made, [*PATTERNS, "one"])]
        if scheme == "forward-euler" and not {"mixed face", "stiffly mixed face"} & {low, high}:
            assert ratios[-1] >= 0.995, (high, grid, n, ratios)  # κ 1: the bound is sharp


@pytest.mark.parametrize("kind", ["periodic", "endpoint"])
@pytest.mark.parametrize("grid", GRIDS)
def test_around(client, grid, kind):
    random = np.random.default_rng(5)
    for n in (1, 2, 3, 18, 19):
        if kind == "endpoint" and n < 3:
            continue
        x = coordinates(random, grid, n + (kind == "periodic")) if n > 1 else np.array([0.25, 0.5])
        ks = [diffusivity(random, pattern, (n,)) for pattern in PATTERNS] + [np.ones(n)]
        for k in ks:
            k[n // 2] = 1.0
            k[-1] = k[0] if kind == "endpoint" else k[-1]
        gaps = np.diff(x)
        h = (gaps + np.roll(gaps, 1)) / 2
        h = np.r_[h, 0] if kind == "endpoint" else h
        made = step_matrices(client, ks, accuracy=2, spacing={"x": x}, endpoint=kind == "endpoint")
        for matrix, name in zip(made, [*PATTERNS, "one"]):
            if kind == "endpoint":  # the last point is the first one
                matrix = matrix + np.outer(matrix[:, -1], np.arange(n) == 0)
            ratio = assert_stable(matrix, h, "forward-euler", n, name)
        assert ratio >= (0 if n == 1 else 0.7 if n < 18 else 0.985), (n, ratio)


def test_few_points(client):
    """Maps need fewer points than sides that state a number."""
    random = np.random.default_rng(4)
    for low, high, n in itertools.product(MAPS, MAPS, (2, 3)):
        if (low, high, n) == ("halo", "halo", 2):  # nothing moves
            continue
        x, k = coordinates(random, "by 1.7", n), np.ones(n)
        matrix, = step_matrices(client, [k], accuracy=2, spacing={"x": x},
                                boundary={"x-": word(low), "x+": word(high)})
        assert assert_stable(matrix, lengths(x, low, high), "forward-euler", low, high, n) >= 0.985


@pytest.mark.parametrize("kind", [*STATED, *MAPS])
def test_two_dimensions(client, kind):
    """One axis has coordinates, and both."""
    shape, random = (9, 8), np.random.default_rng(6)
    ks = [diffusivity(random, pattern, shape) for pattern in ("random", "of two values", "a tenth off", "smooth")]
    y = coordinates(random, "by 30", shape[0])
    for x in (coordinates(random, "by 1.7", shape[1]), np.arange(shape[1]) * 2.0):
        h = np.kron(lengths(y, kind, kind), lengths(x, kind, kind))
        spacing = {"y": y, "x": x if x[0] else 2.0}
        for matrix in step_matrices(client, ks, accuracy=2, spacing=spacing, boundary=word(kind)):
            assert_stable(matrix, h, "forward-euler")


@pytest.mark.parametrize("side", ["derivative", "derivative face", "slope", "slope face", "mirror", "symmetric"])
def test_what_flows_in_stays(client, side):
    """The sum over the points, times their lengths, grows by κ at the edges times ∂n u."""
    random = np.random.default_rng(5)
    x, dt = coordinates(random, "by 30", 24), 0.05
    h, k, u = lengths(x, side, side), diffusivity(random, "random", (24,)), random.standard_normal(24)
    out = client.out("diffusion", f=u, diffusivity=k, steps=1, dt=dt, accuracy=2, spacing={"x": x},
                     boundary=stated(side, 0.5) if "slope" in side else word(side))
    right = 0.5 * sum((3 * k[a] - k[b]) / 2 if side == "slope face" else k[a] for a, b in ((0, 1), (-1, -2)))
    assert abs((h @ out - h @ u) / dt - (right if "slope" in side else 0)) <= 1e-10


@pytest.mark.parametrize("end", ["x-", "x+"])
def test_distances_are_not_rounded_before_the_weights(client, end):
    """What flows in over the length of the edge's point, 2/h, is the double nearest to it, also where no double
    is h."""
    for random in map(np.random.default_rng, range(20)):
        x = np.r_[random.uniform(0.1, 0.2), random.uniform(1, 2), 3, 4] * (1 if end == "x-" else -1)
        x.sort()
        edge, inner = (0, 1) if end == "x-" else (-1, -2)
        out = client.out("diffusion", f=np.zeros(4), diffusivity=np.ones(4), steps=1, dt=1, allow_unstable=True, accuracy=2,
                         spacing={"x": x}, boundary={end: {"derivative": 1.0}, "*": "mirror"})
        assert out[edge] == float(2 / abs(Fraction(x[inner]) - Fraction(x[edge])))


# The order: of the steady state, the solution of the server's own rows.

def smooth(random, n):
    """Distances of 7 : 1."""
    t = np.linspace(0, 1, n)
    return t + 0.75 * np.sin(2 * np.pi * t) / (2 * np.pi)


def rough(random, n):
    """Distances at random, of 3 : 1."""
    x = np.r_[0, random.uniform(1, 3, n - 1).cumsum()]
    return x / x[-1]


ORDERS = {"smooth": smooth, "rough": rough}


@pytest.mark.parametrize("grid", ORDERS)
@pytest.mark.parametrize("side", ["value", "value face", "slope", "slope face", "mixed", "mixed face"])
def test_order(client, side, grid):
    random = np.random.default_rng(8)
    grids = [ORDERS[grid](random, n) for n in (81, 161, 321)]
    errors = np.array([steady_error(client, 2, side, x, {"x": x}) for x in grids])
    order, of_rate = np.log2(errors[:-1] / errors[1:]).T
    print(f"{grid} {side}: {errors[0, 0]:.1e} {errors[1, 0]:.1e} {errors[2, 0]:.1e} {order}"
          f" rate {errors[0, 1]:.1e} {errors[2, 1]:.1e} {of_rate}")
    assert np.log2(errors[0, 0] / errors[2, 0]) / 2 >= (1.85 if grid == "smooth" else 1.7)


# Other accuracies are refused without allow_unstable.

@pytest.mark.parametrize("accuracy", [4, 6, 8, None])
def test_refusals(client, accuracy):
    job = dict(f=np.ones(20), diffusivity=np.ones(20), cfl=0.5, spacing={"x": np.arange(20.0)}, boundary="mirror")
    job |= {} if accuracy is None else {"accuracy": accuracy}
    for dry_run in (False, True):
        for method, params in (("diffusion", job), ("chain", {"ops": [{"op": "diffusion", **job}]})):
            error = client.refused(method, dry_run=dry_run, **params)
            assert error.code == "UNSUPPORTED" and error.parameter.endswith("accuracy")
            assert (error.need, error.limit) == (accuracy or 8, 2) and "accuracy 2" in str(error)
    job["allow_unstable"] = True
    assert client.call("diffusion", dry_run=True, **job)["dt"] is None
    assert client.call("diffusion", **job)["out"].shape == (20,)


def test_what_is_taken(client):
    x = coordinates(np.random.default_rng(9), "by 1.7", 20)
    job = {"f": np.ones(20), "diffusivity": np.ones(20), "cfl": 0.5, "boundary": "mirror", "spacing": {"x": x}}
    for params in ({"accuracy": 2}, {"accuracy": 8, "diffusivity": 0.5}, {"accuracy": 8, "spacing": 0.5}):
        assert client.out("diffusion", **job | params).shape == (20,)
    f = np.sin(x / 4)
    answer = client.call("diffusion", f=f, diffusivity=1 + 0.1 * f, cfl=0.5, boundary="mirror", spacing={"x": x},
                         accuracy=2, report=True)
    assert answer["report"]["stability"] == pytest.approx(0.5)
    assert 0 < answer["report"]["error"]["max"] < 0.05  # by the rows of accuracy 4, in one step

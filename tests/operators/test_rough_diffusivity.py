"""Diffusion with a field κ is stable for every κ ≥ 0 and every accepted side: its matrix is symmetric in
a sum over the points (halved at a mirror's node) and has no positive eigenvalue, and the largest stable step is a
bound of it. The rows beside sides that state a number are those of docs/NUMERICS.md; their order is measured."""

import itertools

import numpy as np
import pytest

import exact
from offered import ACCURACIES
from rough import (MAPS, PATTERNS, SCHEMES, STATED, V, assert_stable, diffusivity, is_at_node, stated,
                   step_matrices, word, steady_error)


def offered(accuracy, sides):
    """Without those that are refused at other accuracies than 2."""
    return [side for side in sides if accuracy == 2 or "mixed" not in side]


def cases(sides):
    return [(accuracy, side) for accuracy in ACCURACIES for side in offered(accuracy, sides)]


def lengths(n, low, high, accuracy):
    """The weight of each point in a sum along an axis; 0: held points and data."""
    h = np.ones(n)
    for side, edge, frame in ((low, 0, slice(accuracy // 2)), (high, -1, slice(n - accuracy // 2, n))):
        h[edge] = 0.0 if side == "value" else 0.5 if is_at_node(side) else 1.0
        h[frame] = 0.0 if side == "halo" else h[frame]
    return h


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("accuracy, low", cases([*STATED, *MAPS]))
def test_one_dimension(client, accuracy, low, scheme):
    """Every pair of sides, on short axes, whose points are all near an edge, and on longer ones."""
    random = np.random.default_rng(accuracy)
    for high, n in itertools.product(offered(accuracy, [*STATED, *MAPS]), (max(12, accuracy + 2), 25)):
        ks = [diffusivity(random, pattern, (n,)) for pattern in PATTERNS] + [np.ones(n)]
        made = step_matrices(client, ks, accuracy=accuracy, scheme=scheme,
                             boundary={"x-": word(low), "x+": word(high)})
        h = lengths(n, low, high, accuracy)
        ratios = [assert_stable(matrix, h, scheme, high, n, name)
                  for matrix, name in zip(made, [*PATTERNS, "one"])]
        if scheme == "forward-euler" and n == 25 and "halo" not in (low, high):  # κ 1: the bound is sharp
            assert ratios[-1] >= 0.97, (high, ratios)


@pytest.mark.parametrize("kind", ["periodic", "endpoint"])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_around(client, accuracy, kind):
    random, n = np.random.default_rng(accuracy), 25
    ks = [diffusivity(random, pattern, (n,)) for pattern in PATTERNS]
    for k in ks:
        k[-1] = k[0] if kind == "endpoint" else k[-1]
        k[n // 2] = 1.0
    h = np.r_[np.ones(n - 1), float(kind == "periodic")]
    for matrix in step_matrices(client, ks, accuracy=accuracy, boundary="periodic", endpoint=kind == "endpoint"):
        if kind == "endpoint":  # the last point is the first one
            matrix = matrix + np.outer(matrix[:, -1], np.arange(n) == 0)
        assert_stable(matrix, h, "forward-euler")


@pytest.mark.parametrize("accuracy, kind", cases([*STATED, *MAPS]))
def test_two_dimensions(client, accuracy, kind):
    shape, random = (11, 10), np.random.default_rng(accuracy)
    ks = [diffusivity(random, pattern, shape) for pattern in ("random", "of two values", "a tenth off", "smooth")]
    h = np.kron(*(lengths(n, kind, kind, accuracy) for n in shape))
    for matrix in step_matrices(client, ks, accuracy=accuracy, spacing=[0.75, 1.0], boundary=word(kind)):
        assert_stable(matrix, h, "forward-euler")


# The rows themselves, from their definition alone.

def image(j, n, low, high):
    """(point, sign, the end whose value is added twice)."""
    if 0 <= j < n:
        return j, 1, None
    side, at = (low, -j) if j < 0 else (high, 2 * (n - 1) - j)
    at += 0 if is_at_node(side) else -1 if j < 0 else 1
    odd = side.startswith("value") or side == "antisymmetric"
    return at, -1 if odd else 1, None if side == "antisymmetric" or not odd else "-" if j < 0 else "+"


def inflow(k, accuracy, side, d, c):
    """The effect of ∂n u = 1 at the point d from the edge, h = 1: (k L′)′ minus the flow of L's images, L = −j at
    the point j."""
    r, shift = accuracy // 2, 0 if is_at_node(side) else -1

    def of(j):
        return j if j >= 0 else -j + shift

    if "mixed" in side and shift:
        return (3 * k[0] - min(k[1], 2 * k[0])) / 2
    slope = sum(float(w) * k[j] for j, w in enumerate(exact.row(1, tuple(range(r + 1)), d).weights))
    flow = sum(float(w) * k[of(d + way * l)] * (d - of(d + way * m))
               for m, row in c.items() for l, w in row.items() for way in (1, -1))
    return -slope - flow


def rows_of(k, accuracy, low, high):
    """(the matrix, {end: the weights of its number}) of (k u′)′, h = 1; numbers of `mixed` are c."""
    n, (c, _) = len(k), exact.conductances(accuracy)
    matrix, data = np.zeros((n, n)), {"-": np.zeros(n), "+": np.zeros(n)}
    for i in range(n):
        for m, row in c.items():
            for way in (1, -1):
                g = sum(float(w) * k[image(i + way * l, n, low, high)[0]] for l, w in row.items())
                at, sign, end = image(i + way * m, n, low, high)
                matrix[i, at] += sign * g
                matrix[i, i] -= g
                if end:
                    data[end][i] += 2 * g
    for end, side in (("-", low), ("+", high)):
        v, edge = V.get(side.removesuffix(" face"), 0.0), 0 if end == "-" else n - 1
        for d in range(accuracy // 2) if "slope" in side or "mixed" in side else ():
            at = d if end == "-" else n - 1 - d
            part = inflow(k if end == "-" else k[::-1], accuracy, side, d, c)
            part /= 1 if is_at_node(side) else 1 + v / 2
            data[end][at] += part
            matrix[at, edge] -= v * part
        if side == "value":
            matrix[edge] = 0
            for of in data.values():
                of[edge] = 0
    return matrix, data


@pytest.mark.parametrize("accuracy, low", cases(STATED))
def test_weights(client, accuracy, low):
    n, random = 13, np.random.default_rng(3)
    for pattern, high in itertools.product(PATTERNS, offered(accuracy, [*STATED, *MAPS[:3]])):
        k, u = diffusivity(random, pattern, (n,)), random.standard_normal(n)
        numbers = [0.0 if side.startswith("derivative") else 0.75 for side in (low, high)]
        for end, side, number in ((0, low, numbers[0]), (-1, high, numbers[1])):
            u[end] = number if side == "value" else u[end]
        out = client.out("diffusion", f=u, diffusivity=k, steps=1, dt=1.0, allow_unstable=True, accuracy=accuracy,
                         boundary={"x-": stated(low, numbers[0]), "x+": stated(high, numbers[1])})
        matrix, data = rows_of(k, accuracy, low, high)
        rate = matrix @ u + data["-"] * numbers[0] + data["+"] * numbers[1]
        assert np.abs(out - u - rate).max() <= 1e-11, (pattern, high)


@pytest.mark.parametrize("accuracy, side", cases(["derivative", "derivative face", "slope", "slope face", "mixed",
                                                  "mixed face"]))
def test_what_flows_in_stays(client, accuracy, side):
    """The sum over the points grows by the inflow at the edges; at accuracy 2 that is κ there times ∂n u."""
    n, dt, random = 24, 0.05, np.random.default_rng(5)
    h = lengths(n, side, side, accuracy)
    k, u = diffusivity(random, "random", (n,)), random.standard_normal(n)
    number = 0.0 if side.startswith("derivative") else 0.5
    out = client.out("diffusion", f=u, diffusivity=k, steps=1, dt=dt, accuracy=accuracy,
                     boundary=stated(side, number))
    came = (h @ out - h @ u) / dt
    if side.startswith("derivative"):
        assert abs(came) <= 1e-12
    elif accuracy == 2:
        face = not is_at_node(side)
        right = 0.0
        for end, inner in ((0, 1), (-1, -2)):
            at_edge = (3 * k[end] - (min(k[inner], 2 * k[end]) if "mixed" in side else k[inner])) / 2 if face else k[end]
            v = V.get(side.removesuffix(" face"), 0.0)
            right += at_edge * (number - v * u[end]) / (1 + v / 2 if face else 1)
        assert abs(came - right) <= 1e-12


# The order where κ′ is not 0 at the edge: of the steady state, the solution of the server's own rows.

@pytest.mark.parametrize("accuracy, side", cases(["value", "value face", "slope", "slope face", "mixed", "mixed face"]))
def test_order_at_the_edge(client, accuracy, side):
    hs = [1 / (n - is_at_node(side)) for n in (81, 161)]
    errors = [steady_error(client, accuracy, side, np.arange(0 if is_at_node(side) else h / 2, 1 + h / 4, h), h)[0]
              for h in hs]
    order = np.log2(errors[0] / errors[1])
    print(f"{accuracy} {side}: {errors[0]:.2e} {errors[1]:.2e} {order:.2f}")
    assert 1.85 <= order <= 2.15

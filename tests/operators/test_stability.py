"""Every closure of diffusion is stable at its limit: the matrix of one step, obtained by stepping the unit
vectors, has no eigenvalue outside the unit circle, and its powers remain bounded."""

import itertools

import numpy as np
import pytest

import matrices
from matrices import radius
from offered import ACCURACIES

KINDS = {"value": {"value": 0.0}, "derivative": {"derivative": 0}, "halo": {"halo": 1.0},
         "value at the face": {"value": 0.0, "at": "face"},
         "derivative at the face": {"derivative": 0, "at": "face"},
         "mixed": {"mixed": 1.0}, "mixed at the face": {"mixed": 1.0, "at": "face"},
         "stiffly mixed": {"mixed": 9.0}, "curvature": {"curvature": 0.0},
         "curvature at the face": {"curvature": 0.0, "at": "face"}, "symmetric": {"type": "symmetric"},
         "mirror": {"type": "mirror"}, "antisymmetric": {"type": "antisymmetric"}}
SCHEMES = ["forward-euler", "rk4"]
ROUNDING = 1e-10


def assert_stable(matrix):
    assert radius(matrix) <= 1 + ROUNDING, radius(matrix)
    # Nor may eigenvalues on the circle be defective: the 2^14th power is no larger than the 2^13th. The
    # norm is not small, because an edge's rows are not symmetric.
    power = matrix
    for _ in range(13):
        power = power @ power
    assert np.abs(power @ power).max() <= 1.01 * np.abs(power).max() + ROUNDING
    assert np.abs(power).max() <= 200, np.abs(power).max()


def sides_of(low, high):
    if low == high and low in ("periodic", "endpoint"):
        return {"boundary": "periodic", "endpoint": low == "endpoint"}
    return {"boundary": {"x-": KINDS[low], "x+": KINDS[high]}}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("low", ["periodic", "endpoint", *KINDS])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_one_dimension(client, accuracy, low, scheme):
    """Every pair of sides: on short axes, whose points are all near an edge, and on longer ones."""
    for high in [low] if low in ("periodic", "endpoint") else KINDS:
        short = 3 * accuracy + 1 if {low, high} == {"curvature at the face", "halo"} else accuracy + 2
        for n in (max(short, 12), 31):
            assert_stable(matrices.of_job(client, (n,), steps=1, cfl=1.0, accuracy=accuracy, scheme=scheme,
                                          **sides_of(low, high)))


@pytest.mark.parametrize("kind", ["value at the face", "mixed", "stiffly mixed"])
@pytest.mark.parametrize("accuracy", [2, 4, 6])
def test_limit_of_edges_is_sharp(client, accuracy, kind):
    """If an edge and not the grid sets the limit, a mode of that edge grows just above it."""
    over = matrices.of_job(client, (31,), steps=1, cfl=1.02, allow_unstable=True, accuracy=accuracy,
                           boundary=KINDS[kind])
    assert radius(over) > 1.01


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("boundary", KINDS)
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_two_dimensions(client, accuracy, boundary, scheme):
    assert_stable(matrices.of_job(client, (14, 13), steps=1, cfl=1.0, accuracy=accuracy, boundary=KINDS[boundary],
                                  scheme=scheme, spacing=[0.75, 1.0]))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_limit_is_sharp(client, accuracy, scheme):
    """Just over the limit (of RK4 the end of its real interval, 2.785…), the highest frequency of a periodic grid
    grows."""
    over = matrices.of_job(client, (16,), steps=1, cfl=1.01, allow_unstable=True, accuracy=accuracy, scheme=scheme)
    assert radius(over) > 1.005


# Σ u · weights is kept where nothing flows in or out.
CLOSED = {"periodic": ("periodic", lambda n: np.ones(n)),
          "mirror": ({"type": "mirror"}, lambda n: np.r_[0.5, np.ones(n - 2), 0.5]),
          "symmetric": ({"type": "symmetric"}, lambda n: np.ones(n)),
          "derivative": ({"derivative": 0}, lambda n: np.r_[0.5, np.ones(n - 2), 0.5]),
          "derivative at the face": ({"derivative": 0, "at": "face"}, lambda n: np.ones(n))}


@pytest.mark.parametrize("scheme, accuracy", [*itertools.product(SCHEMES, ACCURACIES), ("adi", 2)])
@pytest.mark.parametrize("kind", CLOSED)
def test_mass_is_kept(client, kind, scheme, accuracy):
    boundary, weights = CLOSED[kind]
    u = np.random.default_rng(accuracy).standard_normal((23, 17))
    steps = {"dt": 5.0} if scheme == "adi" else {"cfl": 1.0}
    out = client.out("diffusion", f=u, boundary=boundary, scheme=scheme, accuracy=accuracy, steps=50, **steps)
    before, after = (weights(23) @ f @ weights(17) for f in (u, out))
    assert abs(after - before) < 1e-11
    assert np.abs(out - u).max() > 0.1


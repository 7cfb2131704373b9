"""Every closure of diffusion is stable at its limit: the matrix of one step, got by stepping the unit
vectors, has no eigenvalue outside the unit circle, and its powers stay bounded."""

import itertools

import numpy as np
import pytest

ACCURACIES = [2, 4, 6, 8]
KINDS = {"value": {"value": 0.0}, "derivative": {"derivative": 0}, "halo": {"halo": 1.0}}
ROUNDING = 1e-10


def step_matrix(client, shape, **params):
    """One step at the limit (cfl 1) on every unit vector; column j is what vector j becomes."""
    points = int(np.prod(shape))
    rows = client.out("diffusion", f=np.eye(points).reshape(points, *shape), batch=1, steps=1, cfl=1.0,
                      **params)
    return rows.reshape(points, points).T


def assert_stable(matrix):
    radius = np.abs(np.linalg.eigvals(matrix)).max()
    assert radius <= 1 + ROUNDING, radius
    # Eigenvalues on the circle must not grow by being defective either: the 2^14th power.
    power = matrix
    for _ in range(14):
        power = power @ power
    assert np.abs(power).max() <= 10, np.abs(power).max()


@pytest.mark.parametrize("n", [12, 31])
@pytest.mark.parametrize("boundary", ["periodic", "endpoint", *itertools.product(KINDS, KINDS)])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_one_dimension(client, accuracy, boundary, n):
    if isinstance(boundary, tuple):
        params = {"boundary": {"x-": KINDS[boundary[0]], "x+": KINDS[boundary[1]]}}
    else:
        params = {"boundary": "periodic", "endpoint": boundary == "endpoint"}
    matrix = step_matrix(client, (n,), accuracy=accuracy, **params)
    assert_stable(matrix)


@pytest.mark.parametrize("boundary", ["value", "derivative"])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_two_dimensions(client, accuracy, boundary):
    matrix = step_matrix(client, (14, 13), accuracy=accuracy, boundary=KINDS[boundary],
                         spacing=[0.75, 1.0])
    assert_stable(matrix)


@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_limit_is_sharp(client, accuracy):
    """Just over the limit, the highest frequency of a periodic grid grows."""
    n = 16
    f = np.eye(n)
    matrix = client.out("diffusion", f=f, batch=1, steps=1, cfl=1.01, allow_unstable=True,
                        accuracy=accuracy).T
    assert np.abs(np.linalg.eigvals(matrix)).max() > 1.005

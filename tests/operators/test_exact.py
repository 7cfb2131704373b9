"""The exact rows, and the server's weights: each is the exact fraction, rounded once to the dtype."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import exact
from exact import CURVATURE, DERIVATIVE, FACE, NODE, VALUE

ORDERS = [1, 2, 3, 4]
ACCURACIES = [2, 4, 6, 8]
DTYPES = ["<f4", "<f8"]


def fractions(text):
    return [Fraction(part) for part in text.split()]


# From the literature: central (Fornberg 1988, table 1), one-sided (table 3), and cell-centred grids'
# second derivative beside a wall.
@pytest.mark.parametrize("made, weights, data", [
    (exact.centred(1, 4), "1/12 -2/3 0 2/3 -1/12", 0),
    (exact.centred(1, 8), "1/280 -4/105 1/5 -4/5 0 4/5 -1/5 4/105 -1/280", 0),
    (exact.centred(2, 6), "1/90 -3/20 3/2 -49/18 3/2 -3/20 1/90", 0),
    (exact.centred(2, 8), "-1/560 8/315 -1/5 8/5 -205/72 8/5 -1/5 8/315 -1/560", 0),
    (exact.centred(3, 4), "1/8 -1 13/8 0 -13/8 1 -1/8", 0),
    (exact.centred(4, 4), "-1/6 2 -13/2 28/3 -13/2 2 -1/6", 0),
    (exact.one_sided(1, 2, 0), "-3/2 2 -1/2", 0),
    (exact.one_sided(1, 4, 0), "-25/12 4 -3 4/3 -1/4", 0),
    (exact.one_sided(2, 2, 0), "2 -5 4 -1", 0),
    (exact.with_datum(2, 1, 0, VALUE, FACE), "-4 4/3", Fraction(8, 3)),
    (exact.with_datum(2, 1, 0, DERIVATIVE, FACE), "-1 1", 1),
    (exact.with_datum(2, 1, 0, DERIVATIVE, NODE), "-2 2", 2),
])
def test_known_rows(made, weights, data):
    assert made.weights == fractions(weights) and made.data == data


@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("order", ORDERS)
def test_accuracy_of_rows(order, accuracy):
    """A centred row is of exactly its accuracy; at an edge no row is of less. A constant gives nothing."""
    assert exact.centred(order, accuracy).error(order, 0)[0] == accuracy
    for distance in range(exact.radius(order, accuracy)):
        rows = [exact.one_sided(order, accuracy, distance)]
        rows += [exact.with_datum(order, accuracy, distance, kind, place)
                 for kind in (VALUE, DERIVATIVE, CURVATURE) for place in (NODE, FACE)
                 if (kind, place) != (VALUE, NODE)]  # there the datum is a point, not one more
        for row in rows:
            if row.datum == (order, NODE) and distance == 0:  # the answer itself, for every function
                assert not any(row.weights) and row.data == (-1) ** order
            else:
                assert row.error(order, distance)[0] >= accuracy, (distance, row.datum)
        assert sum(rows[0].weights) == 0


def test_rounded():
    third = Fraction(1, 3)
    assert exact.rounded(third, "f8") == 1 / 3 and exact.rounded(third, "f4") == np.float32(1 / 3)
    # Just over the middle of two float32, and nearer to it than a double can tell.
    half_ulp = Fraction(1, 2**24)
    assert exact.rounded(1 + half_ulp, "f4") == 1
    assert exact.rounded(1 + half_ulp + Fraction(1, 2**80), "f4") == np.float32(1 + 2**-23)


def columns(client, method, n, dtype, **params):
    """The matrix of an operator on a line: its rows, from all unit vectors at once."""
    return client.out(method, f=np.eye(n, dtype=dtype), batch=1, **params).T


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("boundary", ["periodic", "endpoint", "one-sided"])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_weights_of_derivative(client, accuracy, order, boundary, dtype):
    n = 24
    rows = exact.axis(n, order, accuracy, boundary)
    where = ({"boundary": "periodic", "endpoint": True} if boundary == "endpoint"
             else {"boundary": boundary})
    for h in (1.0, 0.3, 1 / 1024):
        made = columns(client, "derivative", n, dtype, accuracy=accuracy, order=order, spacing=h, **where)
        assert_rows(made, rows, Fraction(h) ** -order, dtype)
        if order == 2:
            of_laplacian = columns(client, "laplacian", n, dtype, accuracy=accuracy, spacing=h, **where)
            np.testing.assert_array_equal(of_laplacian, made)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sides", ["periodic", "endpoint",
                                   *itertools.product(["value", "halo", "reflect"], repeat=2)])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_weights_of_diffusion(client, accuracy, sides, dtype):
    """One step is the identity and κ dt/h² times the second derivative; data stay as they are."""
    n, h, kappa, dt = 24, 0.3, 0.7, 0.01
    low, high = sides if isinstance(sides, tuple) else (sides, sides)
    words = {"value": {"value": 0.0}, "halo": {"halo": 0.75}, "reflect": {"derivative": 0}}
    where = ({"boundary": {"x-": words[low], "x+": words[high]}} if isinstance(sides, tuple)
             else {"boundary": "periodic", "endpoint": sides == "endpoint"})
    made = columns(client, "diffusion", n, dtype, accuracy=accuracy, spacing=h, diffusivity=kappa, dt=dt,
                   steps=1, allow_unstable=True, **where)
    scale = Fraction(kappa) * Fraction(dt) / Fraction(h) ** 2
    rows = [{j: w * scale for j, w in row.items()} for row in exact.axis(n, 2, accuracy, low, high)]
    for i, row in enumerate(rows):
        row[i] = row[i] + 1 if row else Fraction(3, 4)
    # A node that holds a value (here 0) gets it before the first step, so that no row reads it.
    for node in [0] * (low == "value") + [n - 1] * (high == "value"):
        for row in rows:
            row[node] = Fraction(0)
    # Away from the edges to the bit. Beside them two weights that are rounded already may be added: of
    # points that a reflection joins, or of a closure and the identity. The sum is at most 1 + Σ|w|.
    inside = slice(accuracy // 2, n - accuracy // 2)
    assert_rows(made[inside], rows[inside], 1, dtype)
    for got, row in zip(made, rows):
        exactly = np.array([float(row.get(j, 0)) for j in range(n)])
        assert np.abs(got - exactly).max() <= 2 * np.finfo(dtype).eps * (1 + np.abs(exactly).sum())


def assert_rows(made, rows, scale, dtype):
    """Each weight times the scale, rounded once; bit for bit."""
    for got, row in zip(made, rows):
        expected = [exact.rounded(row.get(j, 0) * scale, dtype) for j in range(len(got))]
        np.testing.assert_array_equal(got, np.array(expected, dtype))

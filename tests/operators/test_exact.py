"""The exact rows, and the server's weights: each is the exact fraction, rounded once to the dtype."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import exact
import sides
from exact import CURVATURE, DERIVATIVE, FACE, NODE, VALUE
from offered import ACCURACIES, DTYPES, ORDERS
from sides import DIFFUSION_SIDES, OPERATOR_SIDES


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
    """A centred row has exactly its accuracy, a row at an edge at least that. A constant gives 0."""
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


@pytest.mark.parametrize("accuracy, under, table", [
    (2, 2, "1 1"),
    (4, 24, "4 12 12 4, -3 4 -3"),
    (6, 360, "9 108 153 153 108 9, -18 -63 108 -63 -18, 11 -9 -9 11"),
    (8, 10080, "48 672 3744 3600 3600 3744 672 48, -108 -1056 -1860 4032 -1860 -1056 -108, "
               "144 560 -576 -576 560 144, -75 48 36 48 -75"),
    (10, 151200, "150 2750 15500 61500 46100 46100 61500 15500 2750 150, "
                 "-400 -4500 -22000 -27100 72000 -27100 -22000 -4500 -400, "
                 "600 5250 10650 -13500 -13500 10650 5250 600, -600 -2525 2000 1500 2000 -2525 -600, "
                 "274 -150 -100 -100 -150 274")])
def test_conductances(accuracy, under, table):
    """The coefficients of docs/NUMERICS.md have the accuracy, are symmetric in both points, equal those of the second
    derivative for constant k, and belong to a definite S."""
    c, parts = exact.conductances(accuracy)
    r = accuracy // 2
    assert [list(row.values()) for row in c.values()] == [[x / under for x in fractions(row)]
                                                          for row in table.split(",")]
    second = exact.centred(2, accuracy)
    for m, row in c.items():
        assert all(row[l] == row[m - l] for l in row)
        assert sum(row.values()) == second.weights[r + m]
    for a, b in itertools.product(range(accuracy + 2), repeat=2):  # u = x^a, k = x^b at 0
        made = sum(w * ((-l)**b * (-m)**a + l**b * m**a) for m, row in c.items() for l, w in row.items()
                   if a > 0)
        if a + b <= accuracy + 1:
            assert made == (a if a + b == 2 else 0)
    for parity in (0, 1):
        orders = [s for s in range(r + 1, accuracy + 1) if s % 2 == parity]
        left = {(s, t): parts[min(s, t), max(s, t)] for s in orders for t in orders}
        for k in orders:  # Cholesky's pivots
            assert left[k, k] > 0
            left = {(s, t): x - left[s, k] * left[k, t] / left[k, k] for (s, t), x in left.items()}


def test_rounded():
    third = Fraction(1, 3)
    assert exact.rounded(third, "f8") == 1 / 3 and exact.rounded(third, "f4") == np.float32(1 / 3)
    # Just above the middle of two float32, by less than a double can represent.
    half_ulp = Fraction(1, 2**24)
    assert exact.rounded(1 + half_ulp, "f4") == 1
    assert exact.rounded(1 + half_ulp + Fraction(1, 2**80), "f4") == np.float32(1 + 2**-23)


STAGGERS = {None: Fraction(0), "forward": Fraction(1, 2), "backward": Fraction(-1, 2)}
FORMS = [(order, stagger) for order in range(5) for stagger in STAGGERS if order or stagger]
N = 26
V = (0.75, 2.5)  # of mixed sides
OPERATOR_PAIRS = [*sides.AROUND, *zip(OPERATOR_SIDES, OPERATOR_SIDES[3:] + OPERATOR_SIDES[:3])]
DIFFUSION_PAIRS = [*sides.AROUND, *zip(DIFFUSION_SIDES, DIFFUSION_SIDES[3:] + DIFFUSION_SIDES[:3])]


def columns(client, method, n, dtype, low, high, arrays, v=V, **params):
    """The matrix of an operator on a line, (rows, n + 2): from all unit vectors at once, as a batch; the
    last two columns are the weights of the sides' numbers. arrays: these sides have one number for each field
    of the batch; otherwise each number has its own request."""
    f, unit = np.eye(n + 2, n, dtype=dtype), np.eye(n + 2, dtype=dtype)
    known = [side in sides.WITH_NUMBER for side in (low, high)]
    if arrays:
        numbers = [unit[n + k] if known[k] else 0.0 for k in range(2)]
        return client.out(method, f=f, batch=1, **sides.boundary("x", low, high, numbers, v), **params).T
    made = client.out(method, f=f, batch=1, **sides.boundary("x", low, high, (0.0, 0.0), v), **params).copy()
    for k in range(2):
        if known[k]:
            numbers = [float(k == other) for other in range(2)]
            made[n + k] = client.out(method, f=f[n], **sides.boundary("x", low, high, numbers, v), **params)
    return made.T


def scaled(rows, order, h, low, high):
    """Rows for a spacing h."""
    by = {"-": order - sides.order_of(low) if sides.states_number(low) else 0,
          "+": order - sides.order_of(high) if sides.states_number(high) else 0}
    return [{j: w / h ** by.get(j, order) for j, w in made.items()} for made in rows]


def dense(made, n, dtype):
    row = np.zeros(n + 2, dtype)
    for j, w in made.items():
        row[{"-": n, "+": n + 1}.get(j, j)] = float(w)
    return row


def assert_rows(matrix, rows, dtype, low, high, add=0):
    """Each weight rounded once, bit for bit. If images add weights of a point, or a mixed side subtracts v times
    a value, within the rounding of the sum. add: a term of Σ|w|."""
    n = len(rows)
    for i, (got, made) in enumerate(zip(matrix, rows, strict=True)):
        size = float(sum(map(abs, made.values()))) + add
        if {low, high}.isdisjoint({*exact.IMAGES, "mixed", "mixed face"}) and not add:
            expected = dense({j: exact.rounded(w, dtype) for j, w in made.items()}, n, dtype)
            np.testing.assert_array_equal(got, expected, err_msg=f"{low} {high} row {i}")
        wrong = np.abs(got - dense(made, n, "f8")).max()
        assert wrong <= 4 * np.finfo(dtype).eps * size, (low, high, i, wrong / size)


def assert_frames(rows, low, high):
    """Points without a row have the halo's factor (an operator's or a diffusion's)."""
    for i, made in enumerate(rows):
        if not made:
            made[i] = Fraction(sides.HALO)
    assert sum(1 for made in rows if len(made) == 1) >= (low == "halo") + (high == "halo")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order, stagger", FORMS)
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_weights_of_derivative(client, accuracy, order, stagger, dtype):
    for (low, high), h in itertools.product(OPERATOR_PAIRS, (1.0, 0.3)):
        mixed = [Fraction(v) * Fraction(h) for v in V]
        rows = exact.axis(N, order, accuracy, low, high, STAGGERS[stagger], mixed)
        rows = scaled(rows, order, Fraction(h), low, high)
        assert_frames(rows, low, high)
        same = dict(accuracy=accuracy, spacing=h) | ({"stagger": stagger} if stagger else {})
        made = columns(client, "derivative", N, dtype, low, high, dtype == "<f8", order=order, **same)
        assert_rows(made, rows, dtype, low, high)
        also = {(0, "forward"): "interpolate", (0, "backward"): "interpolate", (2, None): "laplacian",
                (4, None): "biharmonic"}.get((order, stagger))
        if also:
            np.testing.assert_array_equal(columns(client, also, N, dtype, low, high, False, **same), made)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_weights_of_diffusion(client, accuracy, dtype):
    """One step is the identity plus κ dt/h² times the second derivative; data are unchanged. A slope that is an
    array has its own rows, a slope that is a number is a mirror image."""
    h, kappa, dt = 0.3, 0.7, 0.01
    for low, high in DIFFUSION_PAIRS:
        same = dict(accuracy=accuracy, spacing=h, diffusivity=kappa, dt=dt, steps=1, allow_unstable=True)
        made = columns(client, "diffusion", N, dtype, low, high, True, **same)
        scale = Fraction(kappa) * Fraction(dt)
        mixed = [Fraction(v) * Fraction(h) for v in V]
        rows = exact.axis(N, 2, accuracy, low, high, mixed=mixed, diffusion=True)
        rows = scaled(rows, 2, Fraction(h), low, high)
        numbers = {"-+"[k] for k, side in enumerate((low, high)) if side.startswith("reflect")}  # here 0
        rows = [{j: w * scale for j, w in made.items() if j not in numbers} for made in rows]
        for i, made_row in enumerate(rows):
            claimed = {0: (low, "-"), N - 1: (high, "+")}.get(i, (None, None))
            if made_row:
                made_row[i] = made_row.get(i, 0) + 1
            elif claimed[0] == "value":
                made_row[claimed[1]] = Fraction(1)
            else:
                made_row[i] = Fraction(sides.HALO)
        # Away from the edges to the bit. Beside them the identity is added to a rounded weight.
        inside = slice(accuracy // 2, N - accuracy // 2)
        for got, made_row in zip(made[inside], rows[inside]):
            expected = dense({j: exact.rounded(w, dtype) for j, w in made_row.items()}, N, dtype)
            np.testing.assert_array_equal(got, expected)
        assert_rows(made, rows, dtype, low, high, add=1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("at", ["", " face"])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_slope_of_diffusion(client, accuracy, at, dtype):
    """The term of a step that is due to a slope that is a number: the mirror image's lift."""
    h, kappa, dt, slopes = 0.5, 0.75, 0.0625, (0.75, -1.5)
    where = sides.boundary("x", "reflect" + at, "reflect" + at, slopes)
    out = client.out("diffusion", f=np.zeros(N, dtype), accuracy=accuracy, spacing=h, diffusivity=kappa,
                     dt=dt, steps=1, allow_unstable=True, **where)
    rows = scaled(exact.axis(N, 2, accuracy, "reflect" + at), 2, Fraction(h), "reflect", "reflect")
    right = [kappa * dt * float(made.get("-", 0) * Fraction(slopes[0]) + made.get("+", 0) * Fraction(slopes[1]))
             for made in rows]
    assert np.abs(right[0]) > 0.01
    np.testing.assert_allclose(out, right, rtol=0, atol=4 * np.finfo(dtype).eps * np.abs(right).max())


def stretched(n):
    """Coordinates that a double represents exactly with few digits: steps from 3/4 to 5/4."""
    steps = [Fraction(12 + (7 * j + j * j // 3) % 9, 16) for j in range(n)]
    return [sum(steps[:j], Fraction(-3)) for j in range(n)]


COORDINATE_PAIRS = [*sides.AROUND, *OPERATOR_PAIRS[2:]]


@pytest.mark.parametrize("order, stagger", FORMS)
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_weights_on_coordinates(client, accuracy, order, stagger):
    """As many points as the order needs, around each."""
    n = order + accuracy + 8
    # A third of the pairs for each form; all of them over the forms.
    for low, high in COORDINATE_PAIRS[(accuracy // 2 + order + len(stagger or "")) % 3::3]:
        x = stretched(n + (low == "periodic"))
        mixed = [Fraction(v) for v in V]
        rows = exact.on_coordinates(x, order, accuracy, low, high, STAGGERS[stagger], mixed)
        assert_frames(rows, low, high)
        made = columns(client, "derivative", n, "<f8", low, high, True, accuracy=accuracy, order=order,
                       spacing={"x": np.array([float(c) for c in x])},
                       **({"stagger": stagger} if stagger else {}))
        assert_rows(made, rows, "<f8", low, high)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_coefficient(client, accuracy, dtype):
    """∇·(k∇u) is linear in both: with 1 at one point of each it gives a weight."""
    h, n, r = 0.5, 2 * accuracy + 3, accuracy // 2
    pairs = list(itertools.product(range(n), repeat=2))
    k, u = (np.array([np.arange(n) == pair[which] for pair in pairs]).astype(dtype) for which in (0, 1))
    out = client.out("laplacian", f=u, coefficient=k, batch=1, accuracy=accuracy, spacing=h).astype("f8")
    c, _ = exact.conductances(accuracy)
    expected, size = np.zeros((2, n, n, n))
    for m, row in c.items():
        for (l, w), i, sign in itertools.product(row.items(), range(n), (1, -1)):
            at = (i + sign * l) % n
            for j, value in (((i + sign * m) % n, w), (i, -w)):
                expected[at, j, i] += value / Fraction(h)**2
                size[at, j, i] += abs(value) / Fraction(h)**2
    # Rounded are the weight, a ratio and their product; at the point itself all that goes before as well.
    error = np.abs(out.reshape(n, n, n) - expected)
    count = np.where(np.eye(n, dtype=bool)[None], 2 * r, 2)
    assert (error <= count * np.finfo(dtype).eps * size).all()
    assert np.abs(expected).max() > 1

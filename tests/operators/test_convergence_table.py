"""The observed order of every operator × order × accuracy × boundary × dimension × dtype, in the
maximum norm with the edge points, from two grids that differ by a factor of 2. Writes convergence.tsv
into the build folder.

Fields are plane waves e^{i(a·x)}, real and imaginary part a job each, and an error is a modulus: there are
no zeros to be lucky at, and no place differs from another but by its row. A row's error on a wave is the
series of its moments (exact.py) in i·θ, θ = a·h; by that the grids are chosen: fine enough for the
order, coarse enough for rounding to show in nothing. Where a boundary without flux asks for an even
field, the wave is a cosine that has its extreme there.

In float32 the errors of high orders vanish in rounding before they are asymptotic: where no grid shows the
order, the row of the table says so. Every float32 result agrees with float64's within rounding."""

import collections
import functools
import itertools
from typing import NamedTuple

import numpy as np
import pytest

import exact
import fdtest

ACCURACIES = [2, 4, 6, 8]
DTYPES = ["<f4", "<f8"]
TOLERANCE = 0.2
LENGTHS = {"x": 1.0, "y": 1.5, "z": 0.75}  # of a wave: so that the axes differ in their spacing
THIN = {"x": 5, "y": 2, "z": 3}  # points of axes along which nothing happens

OPERATOR_SIDES = [("periodic",) * 2, ("endpoint",) * 2, ("one-sided",) * 2]
DIFFUSION_SIDES = OPERATOR_SIDES[:2] + list(itertools.product(["value", "derivative", "halo"], repeat=2))
DIFFUSION_EVERYWHERE = [s for s in DIFFUSION_SIDES if "value" not in s]  # a number is no wave along a face


class Case(NamedTuple):
    """sides: (low, high) of each axis on which the field varies, in the order x, y, z."""
    method: str
    order: int
    accuracy: int
    dimensions: int
    along: str
    sides: tuple
    dtype: str


def cases(method, accuracy):
    lines = [(d, a) for d in (1, 2, 3) for a in "xyz"[:d]]
    found = []
    if method == "derivative":
        found = [(order, d, a, (s,)) for order in (1, 2) for d, a in lines for s in OPERATOR_SIDES]
    elif method == "diffusion":
        found = [(2, d, a, (s,)) for d, a in lines for s in DIFFUSION_SIDES]
        found += [(2, d, "xyz"[:d], (s,) * d) for d in (2, 3) for s in DIFFUSION_EVERYWHERE]
    else:
        order = 2 if method == "laplacian" else 1
        for d in (2, 3) if method == "curl" else (1, 2, 3):
            found += [(order, d, "xyz"[:d], (s,) * d) for s in OPERATOR_SIDES]
            if d > 1:  # an own kind for each axis
                found += [(order, d, "xyz"[:d], tuple(OPERATOR_SIDES[(k + turn) % 3] for k in range(d)))
                          for turn in range(3)]
    return [Case(method, order, accuracy, d, along, sides, dtype)
            for (order, d, along, sides), dtype in itertools.product(found, DTYPES)]


METHODS = ["derivative", "laplacian", "gradient", "divergence", "curl", "diffusion"]
EVERYTHING = [case for m in METHODS for accuracy in ACCURACIES for case in cases(m, accuracy)]


# The choice of grids.

@functools.cache
def edge_rows(order, accuracy, sides):
    """The rows of an axis that differ: (places, row)."""
    rows = [(0, exact.centred(order, accuracy))]
    for side in set(sides) & {"one-sided", "value"}:
        rows += [(d, exact.closure(side, order, accuracy, d)) for d in range(exact.radius(order, accuracy))
                 if side == "one-sided" or d > 0]
    return rows


@functools.cache
def moments(order, accuracy, sides):
    """By row: its errors on x^q/q!, from q = order on; and the largest Σ|w|."""
    rows = edge_rows(order, accuracy, sides)
    series = [[float(row.on_power(order + q, at) - (q == 0)) for q in range(accuracy + 21)]
              for at, row in rows]
    return np.array(series), max(float(sum(map(abs, row.weights))) for _, row in rows)


def relative_error(order, accuracy, sides, theta, length):
    """Of the worst row, on a wave, as a share of its derivative."""
    series, _ = moments(order, accuracy, sides)
    errors = series @ (1j * theta) ** np.arange(series.shape[1])
    if "derivative" in sides:  # real: how the wave stands at the other edge's rows counts
        distances = np.array([at for at, _ in edge_rows(order, accuracy, sides)[1:]])
        errors[1:] = np.real(errors[1:] * np.exp(1j * (distances * theta - length)))
    return np.abs(errors).max()


class Grid(NamedTuple):
    """The fine one of an axis: intervals, its θ, and the order that the moments predict; None where
    rounding would show."""
    intervals: int
    theta: float
    predicted: float | None


@functools.cache
def choose(order, accuracy, sides, dtype, most):
    """Of the grids of up to `most` intervals on which the error is so many times what rounding may make of
    Σ|w|, the one that is nearest to its limit."""
    if set(sides) & {"periodic", "endpoint"} or sides == ("derivative",) * 2:
        lengths = [2 * np.pi]  # as phases: whole waves
    else:
        lengths = np.linspace(2, 8, 25)
    # The coarse grid has 13 points at least, which are what a closure needs; a periodic one needs none.
    counts = range(12 if set(sides) & {"periodic", "endpoint"} else 24, most + 1, 4)
    _, magnitude = moments(order, accuracy, sides)
    best, off = Grid(counts[0], lengths[-1] / counts[0], None), np.inf
    for n, length in itertools.product(counts, lengths):
        theta = length / n
        coarse, fine = (relative_error(order, accuracy, sides, t, length) for t in (2 * theta, theta))
        if fine < (1000 if dtype == "<f8" else 50) * np.finfo(dtype).eps * magnitude / theta**order:
            continue
        predicted = np.log2(coarse / fine)
        if abs(predicted - accuracy) < off:
            best, off = Grid(n, theta, predicted), abs(predicted - accuracy)
    return best


def grids_of(case):
    """One for each axis on which the field varies."""
    most = {1: 128, 2: 64, 3: 48}[len(case.along)]
    return [choose(case.order, case.accuracy, sides, case.dtype, most) for sides in case.sides]


def shows(grids, accuracy):
    """Can the order be seen? The errors of several axes add up to one less near to its limit."""
    return all(g.predicted is not None and abs(g.predicted - accuracy) <= TOLERANCE / 4 for g in grids)


def test_number_of_rows():
    """Nothing is dropped in silence: the rows of each operator, and those that show an order."""
    assert len(set(EVERYTHING)) == len(EVERYTHING) == 1368
    assert collections.Counter(case.method for case in EVERYTHING) == {
        "derivative": 288, "laplacian": 120, "gradient": 120, "divergence": 120, "curl": 96,
        "diffusion": 624}
    assert collections.Counter(case.dtype for case in EVERYTHING
                               if shows(grids_of(case), case.accuracy)) == {"<f8": 684, "<f4": 231}


# One case on one grid.

class Line(NamedTuple):
    """The wave along one axis."""
    h: float
    wavenumber: float
    wave: np.ndarray


def line(axis, sides, intervals, theta):
    n = intervals if "periodic" in sides else intervals + 1
    h = LENGTHS[axis] * theta / (2 * np.pi)
    phases = theta * np.arange(n)
    if "derivative" in sides:
        return Line(h, theta / h, np.cos(phases if sides[0] == "derivative" else phases[::-1]))
    return Line(h, theta / h, np.exp(1j * (phases + 0.3)))


def product(lines, case, factor=lambda axis, line: line.wave):
    """The field: C order, z first; a thin axis where nothing varies."""
    f = np.ones((1,) * case.dimensions)
    for k, axis in enumerate("xyz"[:case.dimensions]):
        values = factor(axis, lines[axis]) if axis in lines else np.ones(THIN[axis])
        f = f * values.reshape((-1,) + (1,) * k)
    return f


def boundary(case, f):
    """The wire's words, where f, a real part, gives the values."""
    words, endpoint = {}, {}
    places = {"-": 0, "+": -1}
    for axis, sides in zip(case.along, case.sides):
        endpoint[axis] = "endpoint" in sides
        for end, side in zip("-+", sides):
            words[axis + end] = {
                "endpoint": "periodic", "derivative": {"derivative": 0}, "halo": {"halo": 1.0},
                "value": {"value": float(f.take(places[end], -1 - "xyz".index(axis)).flat[0])},
            }.get(side, side)
    return {"boundary": words, "endpoint": endpoint}


def apply(client, case, f, params):
    """The operator on complex fields: the results of the parts, put together."""
    parts = []
    for part in (np.real, np.imag):
        real = {a: np.ascontiguousarray(part(c).astype(case.dtype)) for a, c in f.items()}
        if part is np.imag and not any(c.any() for c in real.values()):
            continue
        first = next(iter(real.values()))
        out = client.out(case.method, f=first if case.method not in ("divergence", "curl") else real,
                         **params, **boundary(case, first))
        out = out if isinstance(out, dict) else {"": out}
        if case.method == "diffusion":
            out[""] = out[""].astype("f8") - first
        parts.append({a: o.astype("f8") * (1j if part is np.imag else 1) for a, o in out.items()})
    return {a: sum(p[a] for p in parts) for a in parts[0]}


def run(client, case, grids, coarser):
    """(results, exact results, Σ|w| of all terms)."""
    lines, magnitude = {}, 0.0
    for axis, sides, (n, theta, _) in zip(case.along, case.sides, grids):
        lines[axis] = line(axis, sides, n // coarser, theta * coarser)
        magnitude += moments(case.order, case.accuracy, sides)[1] / lines[axis].h ** case.order

    def field(component=0, along=None):
        """Or its derivative along an axis. Components are in phase, so that errors of axes add up."""
        def factor(axis, line):
            if axis != along:
                return line.wave
            return line.wave * (1j * line.wavenumber if case.order == 1 else -line.wavenumber**2)
        return (1.0, -0.7, 1.3)[component] * product(lines, case, factor)

    axes = case.along
    parts = {a: k for k, a in enumerate(axes)}
    if case.method in ("divergence", "curl"):
        f = {a: field(k) for a, k in parts.items()}
    else:
        f = {"": field()}
    if case.method == "gradient":
        right = {a: field(0, a) for a in axes}
    elif case.method == "divergence":
        right = {"": sum(field(k, a) for a, k in parts.items())}
    elif case.method == "curl" and case.dimensions == 2:
        right = {"": field(1, "x") - field(0, "y")}
    elif case.method == "curl":
        right = {a: field(parts[c], b) - field(parts[b], c) for a, b, c in ("xyz", "yzx", "zxy")}
    else:
        right = {"": sum(field(0, a) for a in axes)}
    params = dict(accuracy=case.accuracy, spacing={a: lines[a].h if a in lines else 1.0
                                                   for a in "xyz"[:case.dimensions]})
    if case.method == "derivative":
        params |= dict(axis=case.along, order=case.order)
    if case.method == "diffusion":
        params |= dict(steps=1, dt=1.0, allow_unstable=True)
        magnitude += 2
    out = apply(client, case, f, params)
    if case.dtype == "<f4":
        # The same in doubles, of the very same numbers: inputs, weights and operations are all that differ.
        same = {a: np.real(c).astype("<f4") + 1j * np.imag(c).astype("<f4") for a, c in f.items()}
        wide = apply(client, case._replace(dtype="<f8"), same, params)
        points = len(axes) * (case.order + case.accuracy)
        most = (points + 3) * np.finfo("<f4").eps * magnitude
        for a in out:
            assert np.abs(out[a] - wide[a]).max() <= most, (case, "float32 differs from float64")
    return out, right


def inside(case, out):
    """Without the points that hold data, which a step leaves alone."""
    place = [slice(None)] * out.ndim
    for axis, sides in zip(case.along, case.sides):
        low, high = ({"value": 1, "halo": case.accuracy // 2}.get(s, 0) for s in sides)
        k = -1 - "xyz".index(axis)
        place[k] = slice(low, out.shape[k] - high)
    kept = out[tuple(place)]
    untouched = np.ones(out.shape, bool)
    untouched[tuple(place)] = False
    assert not out[untouched].any()
    return kept, tuple(place)


def error(case, out, right):
    worst = 0.0
    for a in right:
        kept, place = (out[a], ...) if case.method != "diffusion" else inside(case, out[a])
        worst = max(worst, np.abs(kept - right[a][place]).max())
    return worst


@pytest.fixture(scope="module")
def table():
    rows = []
    yield rows
    head = "method order accuracy dimensions along low,high dtype intervals error observed".split()
    with open(fdtest.BUILD / "convergence.tsv", "w") as file:
        for row in [head, *rows]:
            print(*row, sep="\t", file=file)


@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("method", METHODS)
def test_orders(client, table, method, accuracy):
    wrong = []
    for case in cases(method, accuracy):
        grids = grids_of(case)
        errors = [error(case, *run(client, case, grids, coarser)) for coarser in (2, 1)]
        observed = np.log2(errors[0] / errors[1])
        if shows(grids, accuracy) and abs(observed - accuracy) > TOLERANCE:
            wrong.append((case, grids, errors, observed))
        table.append([*case[:5], " ".join(map(",".join, case.sides)), case.dtype,
                      ",".join(str(grid.intervals) for grid in grids), f"{errors[1]:.2e}",
                      f"{observed:.2f}" if shows(grids, accuracy) else "rounding"])
    assert not wrong, "\n".join(map(str, wrong))

"""Waves on one axis, and the errors of the rows of exact.py on them. They determine the grids of a convergence
table: fine enough to show the order and coarse enough to hide rounding.

A wave is e^{iψ}: it has no zeros at which errors could vanish by chance, and points differ only by their
rows. If a side requires an even or an odd field, the wave is a cosine or a sine about the image's centre. Its
wavenumber is then complex if the other side is free, so that it is nearly a single exponential there; errors
are measured relative to its envelope. Coordinates are phases: the coordinate is ψ itself. Errors are as small
as 1e-14 of a result: hence the long doubles."""

import functools
import itertools
from fractions import Fraction
from typing import NamedTuple

import numpy as np

import exact

STAGGER = {None: Fraction(0), "forward": Fraction(1, 2), "backward": Fraction(-1, 2)}
V = {"-": 0.6, "+": 1.1}  # of mixed sides, times the wavenumber
BENT = 1 + 0.12j  # a wavenumber
SHARE = 0.1  # by how much the steps of a stretched axis differ from their mean
SWING = 0.3  # of a coefficient about its mean
REAL = np.longdouble
TURN = 2 * REAL(np.pi)


class Form(NamedTuple):
    """Which rows."""
    order: int
    accuracy: int
    stagger: str | None = None
    diffusion: bool = False


class Grid(NamedTuple):
    """n points; ends: the wave's symmetry there: "periodic", "endpoint", "free", or "even" or "odd" about the
    "node" or the "face"; length: of the period, or between the ends or the centres of the images."""
    n: int
    length: float
    low: str = "free"
    high: str = "free"
    stretched: bool = False


def end_of(side):
    if side in ("periodic", "endpoint"):
        return side
    if side not in exact.IMAGES:
        return "free"
    return ("odd " if side == "antisymmetric" else "even ") + (
        "face" if side in exact.ABOUT_FACE else "node")


def parts(grid):
    """The wave Σ c e^{imψ}: [(c, m)]."""
    ends = {grid.low, grid.high}
    if ends <= {"free", "periodic", "endpoint"}:
        return [(1.0, 1.0)]
    centred = grid.low if grid.low != "free" else grid.high
    m = BENT if "free" in ends else 1.0
    return [(0.5, m), (-0.5 if "odd" in centred else 0.5, -m)]


def field(grid, psi, order=0):
    """The wave's derivative at ψ."""
    return sum(c * (1j * m) ** order * wave(psi, m) for c, m in parts(grid))


@functools.cache
def phases(grid):
    """ψ of the points; of a periodic axis also where the first comes again."""
    around = grid.low == "periodic"
    s = np.arange(grid.n + around, dtype=REAL) / (grid.n if around else grid.n - 1)
    x = s + SHARE * np.sin(TURN * s + 0.3) / TURN if grid.stretched else s
    first = x[0] - (x[1] - x[0]) / 2 if "face" in grid.low else x[0]
    last = x[-1] + (x[-1] - x[-2]) / 2 if "face" in grid.high else x[-1]
    if grid.low not in ("free", "periodic", "endpoint"):
        start = REAL(0)  # the centre of the image
    elif grid.high not in ("free", "periodic", "endpoint"):
        start = -REAL(grid.length)
    else:
        start = REAL(0.3)
    return start + (x - first) * (REAL(grid.length) / (last - first))


def lagrange(a, order, datum=None):
    """Weights of the values at a ([rows, points], distances from where the derivative is asked for) and of
    the derivative of order datum[0] at the distances datum[1] ([rows]), as exact.row() has them."""
    rows, count = a.shape

    def derivative(k, at, skip):
        """That of order k of Π (t − a_l) at t = at; skip: for each l without its factor."""
        shape = (rows, count) if skip else (rows, 1)
        c = [np.ones(shape, REAL)] + [np.zeros(shape, REAL) for _ in range(k)]
        for l in range(count):
            root = at - a[:, l:l + 1]
            keep = (np.arange(count) == l) if skip else False
            for m in range(k, -1, -1):
                new = c[m] * root + (c[m - 1] if m else 0)
                c[m] = np.where(keep, c[m], new) if skip else new
        factorial = REAL(np.prod(np.arange(1, k + 1, dtype=float)))
        return factorial * c[k]

    own = a[:, :, None] - a[:, None, :]
    own[:, np.arange(count), np.arange(count)] = 1
    own = own.prod(2)
    zero = np.zeros((rows, 1), REAL)
    w = derivative(order, zero, True) / own
    if datum is None:
        return w, np.zeros(rows, REAL)
    at = datum[1].reshape(rows, 1)
    rho = derivative(order, zero, False) / derivative(datum[0], at, False)
    return w - rho * derivative(datum[0], at, True) / own, rho[:, 0]


def zone(form):
    """Points at an end whose rows may be of their own."""
    return (form.order + form.accuracy) // 2 + 2


def uniform_row(grid, form, end, side, i):
    """(indices, place) of the row of point i, and whether the side's datum belongs to it; None: data. The
    place counts in points."""
    stagger = STAGGER[form.stagger]
    middle = exact.centred(form.order, form.accuracy, stagger)
    d = i if end == "-" else grid.n - 1 - i
    reach = -middle.points[0] if end == "-" else middle.points[-1]
    if side == "halo" and d < max(-middle.points[0], middle.points[-1]):
        return None
    if exact.has_rows(side) and d < reach:
        points, datum = exact.closure_points(side, form.order, form.accuracy)
        return [j if end == "-" else grid.n - 1 - j for j in points], i + stagger, datum is not None
    return [i + m for m in middle.points], i + stagger, False


def extended(grid, j, low, high):
    """ψ of a point that may lie outside."""
    psi = phases(grid)
    if not grid.stretched:
        return psi[0] + j * (psi[1] - psi[0])
    return exact.position(j, psi, grid.n, low, high)


def halfway(grid, place, low, high):
    """ψ of a place that counts in points."""
    base = int(place // 1)
    if base == place:
        return extended(grid, base, low, high)
    beyond = [j for j in (base, base + 1) if not 0 <= j < grid.n]
    psi = phases(grid)
    if beyond and grid.stretched and (low if beyond[0] < 0 else high) not in (
            "periodic", "endpoint", *exact.IMAGES):
        return face(psi, grid.n, "-" if beyond[0] < 0 else "+")
    return (extended(grid, base, low, high) + extended(grid, base + 1, low, high)) / 2


def face(psi, n, end):
    return psi[0] - (psi[1] - psi[0]) / 2 if end == "-" else psi[n - 1] + (psi[n - 1] - psi[n - 2]) / 2


def rows(grid, form, end, side):
    """The rows of the zone at an end: [(i, ψ of the points, ψ of the place, has the datum)]; of data: i."""
    z, n = zone(form), grid.n
    low, high = (side, "one-sided") if end == "-" else ("one-sided", side)
    if side in ("periodic", "endpoint"):
        low = high = side
    made = []
    for i in (range(z) if end == "-" else range(n - z, n)):
        if form.diffusion and side == "value" and i == (0 if end == "-" else n - 1):
            made.append((i, None, None, False))
            continue
        if grid.stretched:
            r = (form.order + form.accuracy + (form.stagger is not None)) // 2
            if side == "halo" and (i if end == "-" else n - 1 - i) < r:
                made.append((i, None, None, False))
                continue
            source = 0 if side == "endpoint" and i == n - 1 else i
            first, count, _ = exact.window(source, phases(grid), n, form.order, form.accuracy, low, high,
                                           STAGGER[form.stagger])
            datum = exact.datum_of(side) if side not in exact.IMAGES and side != "halo" else None
            out = first < 0 if end == "-" else first + count > n
            if out and exact.has_rows(side):
                count = count if datum is None else max(count - 1, datum[0])
                first = 0 if end == "-" else n - count
            has = out and exact.has_rows(side) and datum is not None
            points, place = range(first + i - source, first + i - source + count), i + STAGGER[form.stagger]
        else:
            found = uniform_row(grid, form, end, side, i)
            if found is None:
                made.append((i, None, None, False))
                continue
            points, place, has = found
        made.append((i, np.array([extended(grid, j, low, high) for j in points]),
                     halfway(grid, place, low, high), has))
    return made


def wave(psi, m):
    return np.exp(np.clongdouble(1j * m) * psi)


def stated(grid, end, side, m):
    """The number that a side states of e^{imψ}."""
    psi = phases(grid)
    at = face(psi, grid.n, end) if "face" in side else psi[0 if end == "-" else grid.n - 1]
    slope = 1j * m * (-1 if end == "-" else 1)
    kind = side.split()[0]
    return wave(at, m) * {"value": 1, "derivative": slope, "reflect": slope, "mixed": slope + V[end],
                          "curvature": -m * m}[kind]


def number(grid, end, side):
    """The number that a side states of the wave."""
    return complex(sum(c * stated(grid, end, side, m) for c, m in parts(grid)))


class Rows(NamedTuple):
    """Those of a zone that have equally many points. Distances count from the edge's point."""
    numbers: list  # of the zone's points, from 0
    points: np.ndarray  # [rows, points]
    places: np.ndarray
    weights: np.ndarray
    data: np.ndarray | None  # of the derivative of order `kind` at the distance `at`; None: no datum
    kind: int
    at: REAL
    face: tuple | None  # mixed, at the face: points and weights of the value there, that of the derivative


@functools.cache
def weighed(grid, form, end, side):
    psi = phases(grid)
    origin = psi[0 if end == "-" else grid.n - 1]
    at = (face(psi, grid.n, end) if "face" in side else origin) - origin
    made = rows(grid, form, end, side)
    groups = []
    for has, count in sorted({(row[3], len(row[1])) for row in made if row[1] is not None}):
        group = [row for row in made if row[1] is not None and (row[3], len(row[1])) == (has, count)]
        points = np.stack([row[1] for row in group]) - origin
        places = np.array([row[2] for row in group]) - origin
        kind = exact.datum_of(side)[0] if has else 0
        w, rho = lagrange(points - places[:, None], form.order, (kind, at - places) if has else None)
        value = None
        if has and side == "mixed face":
            of = range(exact.face_points(form.order, form.accuracy))
            of = psi[[j if end == "-" else grid.n - 1 - j for j in of]] - origin
            e, slope = lagrange(of[None] - at, 0, (1, np.zeros(1, REAL)))
            value = of, e[0], slope[0]
        groups.append(Rows([row[0] - made[0][0] for row in group], points, places, w, rho if has else None,
                           kind, at, value))
    return groups


UNIT = Grid(64, 63.0)  # whose step is 1: of uniform grids all rows are its rows


@functools.cache
def edge(grid, form, end, side, m):
    """For the zone's points: the row's error on e^{imψ}, and its Σ|w|."""
    z, k = zone(form), form.order
    errors, sizes = np.zeros(z, np.clongdouble), np.zeros(z, REAL)
    psi = phases(grid)
    h = REAL(1) if grid.stretched else psi[1] - psi[0]
    origin = wave(psi[0 if end == "-" else grid.n - 1], m)
    normal = -1 if end == "-" else 1
    for group in weighed(grid if grid.stretched else UNIT, form, end, side):
        w = group.weights / h**k
        result, size = (w * wave(group.points * h, m)).sum(1), np.abs(w).sum(1)
        if group.data is not None:
            rho = group.data / h ** (k - group.kind)
            g = wave(group.at * h, m) * (1j * m) ** group.kind
            if group.face:
                c = stated(grid, end, side, m) / origin
                of, weights, slope = group.face[0] * h, group.face[1], group.face[2] * normal * h
                value = ((weights * wave(of, m)).sum() + slope * c) / (1 + slope * V[end])
                g = normal * (c - V[end] * value)
            result, size = result + rho * g, size + 2 * np.abs(rho)
        errors[group.numbers] = (result - (1j * m) ** k * wave(group.places * h, m)) * origin
        sizes[group.numbers] = size
    return errors, sizes


@functools.cache
def centred_weights(form):
    """Of a uniform grid: distances from the place, in steps, and weights."""
    stagger = STAGGER[form.stagger]
    a = np.array([[REAL(float(p - stagger)) for p in exact.centred(form.order, form.accuracy, stagger).points]])
    return a[0], lagrange(a, form.order)[0][0]


@functools.cache
def stretched_weights(grid, form):
    """Of the points between the zones: (points, places, weights)."""
    psi, z = phases(grid), zone(form)
    inner = range(z, grid.n - z)
    points, places = [], []
    for i in inner:
        first, count, at = exact.window(i, psi, grid.n, form.order, form.accuracy, "one-sided", "one-sided",
                                        STAGGER[form.stagger])
        points.append(psi[first:first + count])
        places.append(at)
    points, places = np.stack(points), np.array(places)
    return points, places, lagrange(points - places[:, None], form.order)[0]


@functools.cache
def middle(grid, form, m):
    """The same of the points between the zones."""
    z, n, k = zone(form), grid.n, form.order
    if n == 2 * z:
        return np.zeros(0, np.clongdouble), np.zeros(0, REAL)
    if grid.stretched:
        points, places, w = stretched_weights(grid, form)
        return (w * wave(points, m)).sum(1) - (1j * m) ** k * wave(places, m), np.abs(w).sum(1)
    psi = phases(grid)
    h = psi[1] - psi[0]
    a, w = centred_weights(form)
    w = w / h**k
    places = psi[z:n - z] + float(STAGGER[form.stagger]) * h
    error = (w * wave(a * h, m)).sum() - (1j * m) ** k
    return error * wave(places, m), np.full(n - 2 * z, np.abs(w).sum())


def truncation(grid, form, low, high, waves=None):
    """The rows' errors on the wave (or on others, [(c, m)]), and the largest Σ|w|. 0 for points without a
    row."""
    errors, size = 0, 0.0
    for c, m in waves or parts(grid):
        made = [edge(grid, form, "-", low, m), middle(grid, form, m), edge(grid, form, "+", high, m)]
        errors = errors + c * np.concatenate([part[0] for part in made])
        size = max(part[1].max(initial=0) for part in made)
    return errors, float(size)


def with_datum(grid, form, low, high):
    """Whether the row of each point has the datum of its side."""
    has = np.zeros(grid.n, bool)
    for end, side in (("-", low), ("+", high)):
        for group in weighed(grid if grid.stretched else UNIT, form, end, side):
            if group.data is not None:
                first = 0 if end == "-" else grid.n - zone(form)
                has[[first + i for i in group.numbers]] = True
    return has


def without_data(side):
    """The rows there for fields other than f: the points at the edge alone."""
    return "value" if exact.datum_of(side) else side


class Coefficient(NamedTuple):
    """1 + SWING cos(often · ψ + at), even about the centres of images."""
    often: float
    at: float

    @property
    def parts(self):
        turn = np.exp(1j * self.at) * SWING / 2
        return [(1.0, 0.0), (turn, self.often), (np.conj(turn), -self.often)]

    def of(self, psi, order=0):
        return sum(c * (1j * m) ** order * wave(psi, m) for c, m in self.parts).real


def coefficient(grid):
    if {grid.low, grid.high} <= {"free", "periodic", "endpoint"}:
        return Coefficient(1.0, 0.2)
    apart = "free" not in (grid.low, grid.high) and ("odd" in grid.low) != ("odd" in grid.high)
    return Coefficient(2.0 if apart else 1.0, 0.0)


def is_centred(grid, form, low, high):
    """Whether each point has the centred row of a uniform grid."""
    made = np.full(grid.n, not grid.stretched)
    r = exact.radius(form.order, form.accuracy)
    if exact.has_rows(low):
        made[:r] = False
    if exact.has_rows(high):
        made[-r:] = False
    return made


def conducted(grid, form, kappa):
    """(the error of (κ f′)′ by centred rows, the sum of its weights' magnitudes)."""
    psi = phases(grid)
    h = psi[1] - psi[0]
    errors, size = np.zeros(grid.n, np.clongdouble), REAL(0)
    for (cf, a), (ck, b) in itertools.product(parts(grid), kappa.parts):
        symbol = a * (a + b)
        for m, row in exact.conductances(form.accuracy)[0].items():
            for l, w in row.items():
                w = REAL(w.numerator) / REAL(w.denominator) / h**2
                symbol += w * sum(wave(s * l * h, b) * (wave(s * m * h, a) - 1) for s in (1, -1))
                size += 4 * abs(w)
        errors += cf * ck * symbol * wave(psi[:grid.n], a + b)
    return errors, float(size) / (len(parts(grid)) * len(kappa.parts))


def product(grid, form, low, high):
    """((κ f′)′, the rows' error, Σ|w|) for κ = coefficient(): on centred rows by
    their conductances; else half of κ D f + D(κ f) − f D κ, for every row that takes a constant to 0; beside a
    datum of f, κ D f + D′κ D′f."""
    kappa, psi = coefficient(grid), phases(grid)[:grid.n]
    form = form._replace(diffusion=False)  # whose nodes with a value are rows like others to the others' fields
    first = form._replace(order=1)
    alone = without_data(low), without_data(high)
    f, k = field(grid, psi), kappa.of(psi)
    both = [(c * ck, m + mk) for c, m in parts(grid) for ck, mk in kappa.parts]
    off, size = truncation(grid, form, *alone)
    flow = (k * off + truncation(grid, form, *alone, both)[0] -
            f * truncation(grid, form, *alone, kappa.parts)[0]) / 2
    of_f, of_k = truncation(grid, first, low, high)[0], truncation(grid, first, *alone, kappa.parts)[0]
    second, more = truncation(grid, form, low, high)
    slopes = (field(grid, psi, 1), kappa.of(psi, 1))
    split = k * second + (slopes[0] + of_f) * (slopes[1] + of_k) - slopes[0] * slopes[1]
    right = k * field(grid, psi, 2) + slopes[0] * slopes[1]
    wrong, size = np.where(with_datum(grid, form, low, high), split, flow), 2 * max(size, more)
    if not grid.stretched:
        centred, sum_of = conducted(grid, form, kappa)
        wrong, size = np.where(is_centred(grid, form, low, high), centred, wrong), max(size, sum_of)
    return right, wrong, (1 + SWING) * size


def places(grid, form, low, high):
    """ψ of where the results are."""
    if form.stagger is None:
        return phases(grid)[:grid.n]
    stagger = STAGGER[form.stagger]
    return np.array([halfway(grid, i + stagger, low, high) for i in range(grid.n)])


def least_points(form):
    """The points of a grid for which the rows of the two ends do not overlap and each side has enough points."""
    return max(2 * zone(form), form.order + form.accuracy + zone(form) - 2,
               3 * form.accuracy + 1 if form.diffusion else 0)


def length_of(low, high, least):
    """Of a wave on an axis: the least from `least` on."""
    if "free" in (low, high):
        return least
    period = float(TURN) if low in ("periodic", "endpoint") else float(TURN / 2)
    part = 0.5 if ("odd" in low) != ("odd" in high) else 0.0
    return period * (max(1, np.ceil(least / period - part)) + part)


def pair(form, low, high, stretched, theta, most, least=3.0):
    """(coarse, fine) of about this step of the fine one; None where a grid had more points than may be."""
    ends = end_of(low), end_of(high)
    n = max(int(np.ceil(1.05 * least / theta / 2)), least_points(form))
    if stretched:  # a closure's points are a small part of them
        n = max(n, min(60, most // 2))
    if 2 * n > most:
        return None
    length = length_of(*ends, max(least, theta * 2 * n * 0.97))
    around = ends[0] == "periodic"
    fine = 2 * n if around or "free" not in ends and ends[0] != "endpoint" else 2 * n - 1
    return (Grid(n, length, *ends, stretched), Grid(fine, length, *ends, stretched))


def envelope(grid):
    return np.exp(abs(np.imag(parts(grid)[0][1])) * np.abs(phases(grid)[:grid.n])).astype(float)


def step(grid):
    """The mean step, for the order."""
    psi = phases(grid)
    return (psi[-1] - psi[0]) / (len(psi) - 1)


def error_of(grid, form, low, high, of_product):
    errors, size = product(grid, form, low, high)[1:] if of_product else truncation(grid, form, low, high)
    return float((np.abs(errors) / envelope(grid)).max()), size


def observed(errors, grids):
    return float(np.log(errors[0] / errors[1]) / np.log(step(grids[0]) / step(grids[1])))


@functools.cache
def choose(form, low, high, stretched, dtype, most, of_product=False):
    """((coarse, fine), the order of the rows on them; None if rounding would show)."""
    eps = float(np.finfo(dtype).eps)
    margin = 50
    k, p = form.order, form.accuracy
    # Where the truncation of a centred row, about (θ/2)^p of a derivative, is some 30 roundings.
    sum_of = float(sum(map(abs, exact.centred(k, p, STAGGER[form.stagger]).weights)))
    guess = min((30 * eps * sum_of * 2.0**p) ** (1 / (p + k)) * 1.2, 1.0)
    guess = max(guess, 0.12) * (0.6 if of_product else 1)  # already near the limit
    best, off = None, np.inf
    steps, leasts = (1, 1.2, 0.85, 1.45, 0.7, 1.8, 0.55), (3.0,)
    if stretched:  # whose lengths follow from their points
        steps = (1, 1.3, 0.8) if dtype == "<f8" else (1,)
    elif "free" in (end_of(low), end_of(high)) and end_of(low) != end_of(high):
        leasts = (3.0, 4.5, 3.7)  # the phase at the free end counts
    for least, factor in itertools.product(leasts, steps):
        grids = pair(form, low, high, stretched, guess * factor, most, least)
        if grids is None:
            continue
        (coarse, _), (fine, size) = (error_of(grid, form, low, high, of_product) for grid in grids)
        if fine < margin * eps * size:
            best = best or (grids, None)
            continue
        predicted = observed((coarse, fine), grids)
        if abs(predicted - p) < off:
            best, off = (grids, predicted), abs(predicted - p)
        if off < 0.12:
            break
    return best or (pair(form, low, high, stretched, 1.0, max(most, 2 * least_points(form))), None)

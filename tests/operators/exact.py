"""Rows of weights as exact fractions, from their definition alone, without code of the server.

A row gives a derivative at one point as Σ w_j f(x_j) (+ data · datum, if a side has one). It is exact for
every polynomial that so many numbers determine, and is computed here by solving for the Taylor
coefficients of its points; the server uses products instead. Distances are in units of the spacing.
Rows at an edge count from it inwards; those of the high edge are those of the low edge, times (−1)^order.

Sides are words: "periodic", "endpoint" (both or none), "one-sided", "halo", "symmetric", "mirror",
"antisymmetric", and "value", "derivative", "mixed", "curvature", alone (at the node) or with " face". A
diffusion's no flux is "reflect" or "reflect face". Results at i ± 1/2 are `stagger` ± 1/2.
"""

import functools
from fractions import Fraction
from math import factorial
from typing import NamedTuple

# Kinds of data, by the order of the derivative along the outward normal, and their places.
VALUE, DERIVATIVE, CURVATURE = 0, 1, 2
NODE, FACE = Fraction(0), Fraction(-1, 2)


class Row(NamedTuple):
    """points: places; weights: one for each; data: the weight of the datum, a pair (kind, place)."""
    points: list
    weights: list
    data: Fraction = Fraction(0)
    datum: tuple | None = None

    def on_power(self, q, at):
        """The row applied to (x − at)^q / q!."""
        terms = zip(self.weights, (taylor(0, x - at, q) for x in self.points))
        return sum(w * t for w, t in terms) + (self.data * outward(self.datum, at, q) if self.datum else 0)

    def error(self, order, at):
        """(power, coefficient): the error of the row at `at` is coefficient · h^power · f^(order + power)."""
        for q in range(100):
            wrong = self.on_power(q, at) - int(q == order)
            if wrong != 0:
                return q - order, wrong
        raise AssertionError("right for every polynomial")


def taylor(order, distance, q):
    """The `order`-th derivative of t^q / q! at t = distance."""
    return Fraction(distance) ** (q - order) / factorial(q - order) if q >= order else Fraction(0)


def outward(datum, at, q):
    """The datum of (x − at)^q / q!; x counts inwards, the normal points outwards."""
    kind, place = datum
    return (-1) ** kind * taylor(kind, place - at, q)


def solve(matrix, right):
    """The solution of a square system, by elimination."""
    rows = [[*row, b] for row, b in zip(matrix, right)]
    for c in range(len(rows)):
        pivot = next(r for r in range(c, len(rows)) if rows[r][c] != 0)
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [x / rows[c][c] for x in rows[c]]
        for r in range(len(rows)):
            if r != c and rows[r][c] != 0:
                rows[r] = [x - rows[r][c] * y for x, y in zip(rows[r], rows[c])]
    return [row[-1] for row in rows]


@functools.cache
def row(order, points, at=0, datum=None):
    """The derivative at `at` from the values at `points` (a tuple or range), and from a datum."""
    count = len(points) + (datum is not None)
    columns = [[taylor(0, x - at, q) for q in range(count)] for x in points]
    if datum is not None:
        columns.append([outward(datum, at, q) for q in range(count)])
    weights = solve(zip(*columns), [Fraction(q == order) for q in range(count)])
    data = weights.pop() if datum is not None else Fraction(0)
    return Row(list(points), weights, data, datum)


@functools.cache
def conductances(accuracy):
    """(c, S): (k u′)′ at i is Σ_m Σ_l c[m][l] (k_{i+l} (u_{i+m} − u_i) + k_{i−l} (u_{i−m} − u_i)), r = accuracy/2,
    m = 1 … r, l = m − r … r.

    Σ u (k u′)′ = −Σ k_i uᵀ M u, u around i, with M = D₁D₁ᵀ + Σ S_st D_s D_tᵀ, s, t = r + 1 … 2r, where D_s are the
    weights of the s-th derivative on all 2r + 1 points. For every S the form is of the accuracy and symmetric; if S
    is definite, no k ≥ 0 has a positive eigenvalue. The chosen S couples no points further apart than r."""
    r = accuracy // 2
    d = {s: row(s, tuple(range(-r, r + 1))).weights for s in (1, *range(r + 1, accuracy + 1))}
    pairs = [(s, t) for s in range(r + 1, accuracy + 1) for t in range(s, accuracy + 1, 2)]
    apart = [(a, b) for a in range(accuracy) for b in range(a + r + 1, accuracy - a + 1)]  # but for reflections

    def met(s, t, a, b):
        return d[s][a] * d[t][b] + (d[t][a] * d[s][b] if s != t else 0)

    found = dict(zip(pairs, solve([[met(*pair, *at) for pair in pairs] for at in apart],
                                  [-met(1, 1, *at) for at in apart])))

    def weight(m, l):
        at = r - l, r - l + m
        return -met(1, 1, *at) - sum(value * met(*pair, *at) for pair, value in found.items())

    return {m: {l: weight(m, l) for l in range(m - r, r + 1)} for m in range(1, r + 1)}, found


IMAGES = ("symmetric", "mirror", "antisymmetric", "reflect", "reflect face")
ABOUT_FACE = ("symmetric", "antisymmetric", "reflect face")
DATA = {"value": VALUE, "derivative": DERIVATIVE, "mixed": DERIVATIVE, "curvature": CURVATURE}


def has_rows(side):
    """Whether a side closes its rows: neither a map nor a halo."""
    return side == "one-sided" or side.split()[0] in DATA


def datum_of(side):
    """(kind, place) of the number that a side states and that is not a point's value; None: there is none."""
    kind, _, at = side.partition(" ")
    if kind not in DATA or side == "value":
        return None
    return DATA[kind], FACE if at else NODE


def radius(order, accuracy):
    return (accuracy + order - 1) // 2


@functools.cache
def centred(order, accuracy, stagger=Fraction(0)):
    """The symmetric row of the accuracy with the fewest points; for point 0, or half a cell off."""
    for r in range(1, 20):
        points = range(-r + (stagger > 0), r - (stagger < 0) + 1)
        if len(points) > order:
            made = row(order, points, stagger)
            if made.error(order, stagger)[0] >= accuracy:
                return made
    raise AssertionError("no such row")


def one_sided(order, accuracy, distance, stagger=Fraction(0)):
    """At a distance from the edge, from the points at the edge alone."""
    return row(order, closure_points("one-sided", order, accuracy)[0], distance + stagger)


def with_datum(order, accuracy, distance, kind, place, stagger=Fraction(0)):
    """At a distance from an edge with a datum: a fixed window, in which the datum replaces one point (one
    point and a curvature determine no polynomial)."""
    return row(order, range(max(order + accuracy - 1, kind)), distance + stagger, (kind, place))


def closure_points(side, order, accuracy):
    """(points, datum) of the row at a distance from an edge that has rows: the first points, including a
    node that holds a value."""
    datum = datum_of(side)
    if datum is not None:
        return range(max(order + accuracy - 1, datum[0])), datum
    return range(order + accuracy), None


def closure(side, order, accuracy, distance, stagger=Fraction(0)):
    points, datum = closure_points(side, order, accuracy)
    return row(order, points, distance + stagger, datum)


def at_face(order, accuracy):
    """The value at the face from the derivative there and the points of the rows of this order (of the
    first, for values)."""
    return row(0, range(face_points(order, accuracy)), FACE, (DERIVATIVE, FACE))


def face_points(order, accuracy):
    return max(order, 1) + accuracy - 1


def centre(side, edge, inner):
    """The centre of reflection, given the positions of the edge's point and the one before it."""
    return edge + (edge - inner) / 2 if side in ABOUT_FACE else edge


def image(j, n, low, high):
    """(point, sign, lift by end) of a point that may lie outside: sign · f + Σ lift · h · g."""
    if low in ("periodic", "endpoint"):
        return (j if 0 <= j < n else j % (n - 1 if low == "endpoint" else n)), 1, {}
    sign, lift = 1, {}
    while not 0 <= j < n:
        end, side, edge, inner = ("-", low, 0, 1) if j < 0 else ("+", high, n - 1, n - 2)
        assert side in IMAGES
        mirrored = int(2 * centre(side, Fraction(edge), inner)) - j
        if side.startswith("reflect"):
            lift[end] = lift.get(end, 0) + sign * abs(j - mirrored)
        sign = -sign if side == "antisymmetric" else sign
        j = mirrored
    return j, sign, lift


def mixed_in(made, edge, closing, face, v):
    """The row of a derivative's datum, if ∂n f + v f = c is stated: the datum is c − v f_b."""
    data = made.pop(edge)
    if face is None:  # stated at the node: f_b is the node's
        made[closing] = made.get(closing, 0) - data * v
        made[edge] = data
        return
    weights, e = face
    for j, w in weights.items():
        made[j] = made.get(j, 0) - data * v * w / (1 + e * v)
    made[edge] = data / (1 + e * v)


def axis(n, order, accuracy, low="periodic", high=None, stagger=Fraction(0), mixed=(0, 0), diffusion=False):
    """The n rows of a uniform axis of spacing 1, each {point: weight, "-": of the low side's number, "+":
    of the high one's}. mixed: each side's v. Rows of data (a halo; in a diffusion a node that holds a
    value) are empty."""
    high = high or low
    middle = centred(order, accuracy, stagger)
    below, above = -middle.points[0], middle.points[-1]
    rows = []
    for i in range(n):
        made = {}
        d = n - 1 - i
        r = max(below, above)
        if (low == "halo" and i < r) or (high == "halo" and d < r):
            pass
        elif diffusion and ((low == "value" and i == 0) or (high == "value" and d == 0)):
            pass
        elif i < below and has_rows(low):
            edge = closure(low, order, accuracy, i, stagger)
            made.update(zip(edge.points, edge.weights))
            finish(made, "-", low, edge, order, accuracy, mixed[0], lambda j: j)
        elif d < above and has_rows(high):  # the low edge's twin
            edge = closure(high, order, accuracy, d, -stagger)
            sign = (-1) ** order
            edge = edge._replace(weights=[sign * w for w in edge.weights], data=sign * edge.data)
            made.update((n - 1 - j, w) for j, w in zip(edge.points, edge.weights))
            finish(made, "+", high, edge, order, accuracy, mixed[1], lambda j: n - 1 - j)
        else:
            for m, w in zip(middle.points, middle.weights):
                j, sign, lift = image(i + m, n, low, high)
                made[j] = made.get(j, 0) + sign * w
                for end, distance in lift.items():
                    made[end] = made.get(end, 0) + distance * w
        rows.append(made)
    return imposed(rows, n, low, high)


def finish(made, end, side, edge, order, accuracy, v, place):
    """A closure's datum."""
    if edge.datum is None:
        return
    made[end] = edge.data
    if side.startswith("mixed"):
        face = None
        if side == "mixed face":
            value = at_face(order, accuracy)
            face = {place(j): w for j, w in zip(value.points, value.weights)}, value.data
        mixed_in(made, end, place(0), face, v)


def imposed(rows, n, low, high):
    """A row that reads a node with a value reads the side's number."""
    for made in rows:
        for end, side, node in (("-", low, 0), ("+", high, n - 1)):
            if side == "value" and node in made:
                made[end] = made.pop(node)
    return rows


# Coordinates.

def position(j, x, n, low, high):
    """The coordinate of a point that may lie outside."""
    if low in ("periodic", "endpoint"):
        period = n - 1 if low == "endpoint" else n
        turns = 0 if 0 <= j < n else j // period
        return x[j - turns * period] + turns * (x[period] - x[0])
    at, sign = 0, 1
    while not 0 <= j < n:
        side, edge, inner = (low, 0, 1) if j < 0 else (high, n - 1, n - 2)
        at += sign * 2 * centre(side, x[edge], x[inner])
        sign = -sign
        j = int(2 * centre(side, Fraction(edge), inner)) - j
    return at + sign * x[j]


def window(i, x, n, order, accuracy, low, high, stagger):
    """(first, count, at): order + accuracy points around the point of a row. If the two sides cannot have
    equally many, the nearer point is taken (then the lower), or the points that exist."""
    count = order + accuracy
    def inside(j):
        return 0 <= j < n or (low if j < 0 else high) in ("periodic", "endpoint", *IMAGES)

    base, half = i - (stagger < 0), stagger != 0
    if not half:
        at = position(i, x, n, low, high)
    elif inside(base) and inside(base + 1):
        at = (position(base, x, n, low, high) + position(base + 1, x, n, low, high)) / 2
    else:
        at = x[0] - (x[1] - x[0]) / 2 if base < 0 else x[-1] + (x[-1] - x[-2]) / 2
    first = base - (count - half) // 2
    if (count % 2 == 0) != half:  # one more on one side
        left, right = first, first + count
        if not inside(left):
            first += 1
        elif inside(right):
            nearer = position(right, x, n, low, high) - at < at - position(left, x, n, low, high)
            first += nearer
    return first, count, at


def on_coordinates(x, order, accuracy, low="periodic", high=None, stagger=Fraction(0), mixed=(0, 0),
                   diffusion=False):
    """Like axis(), for points at the coordinates x (if periodic one more: the repeated first point)."""
    high = high or low
    n = len(x) - (low == "periodic")
    x = [Fraction(c) for c in x]
    r = (order + accuracy + (stagger != 0)) // 2
    rows = []
    for i in range(n):
        made = {}
        rows.append(made)
        if (low == "halo" and i < r) or (high == "halo" and n - 1 - i < r):
            continue
        if diffusion and ((low == "value" and i == 0) or (high == "value" and i == n - 1)):
            continue
        source = 0 if low == "endpoint" and i == n - 1 else i  # the point that it repeats: its weights
        first, count, at = window(source, x, n, order, accuracy, low, high, stagger)
        if (first < 0 and has_rows(low)) or (first + count > n and has_rows(high)):
            end, side = ("-", low) if first < 0 and has_rows(low) else ("+", high)
            edge, cell = (x[0], x[1] - x[0]) if end == "-" else (x[-1], x[-1] - x[-2])
            face = edge - cell / 2 if end == "-" else edge + cell / 2
            datum = datum_of(side)
            count = count if datum is None else max(count - 1, datum[0])
            points = range(count) if end == "-" else range(n - count, n)
            stated = None if datum is None else (datum[0], (face if datum[1] else edge) - at)
            found = row(order, tuple(x[j] - at for j in points), Fraction(0), stated)
            made.update(zip(points, found.weights))
            if datum is None:
                continue
            # row() has a normal that looks down.
            made[end] = found.data if end == "-" else found.data * (-1) ** datum[0]
            if side.startswith("mixed"):
                value = None
                if side == "mixed face":
                    of = face_points(order, accuracy)
                    of = range(of) if end == "-" else range(n - of, n)
                    made_at = row(0, tuple(x[j] - face for j in of), Fraction(0), (datum[0], Fraction(0)))
                    sign = 1 if end == "-" else -1
                    value = dict(zip(of, made_at.weights)), made_at.data * sign
                mixed_in(made, end, 0 if end == "-" else n - 1, value, mixed[0 if end == "-" else 1])
            continue
        points = range(first, first + count)
        places = tuple(position(j, x, n, low, high) - at for j in points)
        for j, w in zip(points, row(order, places).weights):
            j, sign, _ = image(j + i - source, n, low, high)
            made[j] = made.get(j, 0) + sign * w
    return imposed(rows, n, low, high)


def matrix(rows):
    """An axis's rows as doubles, each rounded once; without their data."""
    import numpy as np  # in here, so that a build that prints rows (tests/unit/weights_exact.py) does without
    dense = np.zeros((len(rows), len(rows)))
    for i, made in enumerate(rows):
        for j, w in made.items():
            if j not in ("-", "+"):
                dense[i, j] = float(w)
    return dense


@functools.cache
def rounded(fraction, dtype):
    """Rounded once, to the nearest of the dtype's numbers; a tie to the even one."""
    import numpy as np
    dtype = np.dtype(dtype).type
    near = dtype(float(fraction))
    candidates = [np.nextafter(near, dtype(-np.inf)), near, np.nextafter(near, dtype(np.inf))]
    return min(candidates, key=lambda x: (abs(Fraction(float(x)) - fraction),
                                          int(x.view(f"u{x.itemsize}")) & 1))

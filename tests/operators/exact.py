"""Rows of weights as exact fractions, from their definition alone: nothing of the server's own.

A row gives a derivative at one point as Σ w_j f(x_j) (+ data · datum, where a side has one). It is the
one that is exact for every polynomial that so many numbers determine, found by solving for the Taylor
coefficients of its points; the server comes to the same by Fornberg's recurrence. Distances are in units
of the spacing. Rows at an edge count from it inwards; the high edge's are the low edge's, times
(−1)^order.
"""

import functools
from fractions import Fraction
from math import factorial
from typing import NamedTuple

import numpy as np

# What a datum gives, by the order of its derivative along the outward normal, and where.
VALUE, DERIVATIVE, CURVATURE = 0, 1, 2
NODE, FACE = Fraction(0), Fraction(-1, 2)


class Row(NamedTuple):
    """points: places; weights: one for each; data: the weight of the datum, a pair (kind, place)."""
    points: list
    weights: list
    data: Fraction = Fraction(0)
    datum: tuple | None = None

    def on_power(self, q, at):
        """What the row makes of (x − at)^q / q!."""
        terms = zip(self.weights, (taylor(0, x - at, q) for x in self.points))
        return sum(w * t for w, t in terms) + (self.data * outward(self.datum, at, q) if self.datum else 0)

    def error(self, order, at):
        """(power, coefficient): the row at `at` is wrong by coefficient · h^power · f^(order + power)."""
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


def radius(order, accuracy):
    return (accuracy + order - 1) // 2


def centred(order, accuracy):
    r = radius(order, accuracy)
    return row(order, range(-r, r + 1))


def one_sided(order, accuracy, distance):
    """At a distance from the edge: a window that slides with the point."""
    return row(order, range(distance, distance + order + accuracy), distance)


def with_datum(order, accuracy, distance, kind, place):
    """At a distance from an edge with a datum: a fixed window, whose place of one point the datum takes."""
    return row(order, range(order + accuracy - 1), distance, (kind, place))


def closure(side, order, accuracy, distance):
    """The row at a distance below the radius from an edge that is one of these."""
    if side == "one-sided":
        return one_sided(order, accuracy, distance)
    if side == "value" and distance > 0:  # diffusion: the node that holds it is one of the points
        return row(order, range(accuracy + 2), distance)
    return Row([], [])  # the node itself, or a frame of a halo: data


def image(j, n, side):
    """The point that stands for one that may lie outside."""
    if side == "reflect":
        j %= 2 * (n - 1)
        return min(j, 2 * (n - 1) - j)
    return j if 0 <= j < n else j % (n - 1 if side == "endpoint" else n)


def axis(n, order, accuracy, low="periodic", high=None):
    """The n rows of an axis, each {point: weight}. Sides: "periodic" or "endpoint", "one-sided",
    "reflect" (about the node), "value" and "halo" (diffusion; rows of data are empty)."""
    high = high or low
    closed = ("one-sided", "value", "halo")
    r, middle = radius(order, accuracy), centred(order, accuracy)
    rows = []
    for i in range(n):
        made = {}
        if low in closed and i < r:
            edge = closure(low, order, accuracy, i)
            made.update(zip(edge.points, edge.weights))
        elif high in closed and n - 1 - i < r:  # the low edge's twin
            edge = closure(high, order, accuracy, n - 1 - i)
            made.update((n - 1 - j, w * (-1) ** order) for j, w in zip(edge.points, edge.weights))
        else:
            for m, w in zip(middle.points, middle.weights):
                j = image(i + m, n, low if i + m < 0 else high)
                made[j] = made.get(j, 0) + w
        rows.append(made)
    return rows


def matrix(rows):
    """An axis's rows as doubles, each rounded once."""
    dense = np.zeros((len(rows), len(rows)))
    for i, made in enumerate(rows):
        for j, w in made.items():
            dense[i, j] = float(w)
    return dense


def rounded(fraction, dtype):
    """Rounded once, to the nearest of the dtype's numbers; a tie to the even one."""
    dtype = np.dtype(dtype).type
    near = dtype(float(fraction))
    candidates = [np.nextafter(near, dtype(-np.inf)), near, np.nextafter(near, dtype(np.inf))]
    return min(candidates, key=lambda x: (abs(Fraction(float(x)) - fraction),
                                          int(x.view(f"u{x.itemsize}")) & 1))

"""A boundary that is correct for a stencil that reaches one point beyond the edge, and wrong for one that reaches
four: libraries have shipped this bug, since tests at accuracy 2 do not detect it. For a smooth field the results
of all accuracies may differ by no more than the truncation errors of the exact rows."""

import numpy as np
import pytest

import exact
import sides
import waves
from offered import ACCURACIES
from waves import Form, Grid

KINDS = [*sides.WITH_NUMBER, "one-sided", *sides.MAPS]
N, LENGTH = 61, 4.0


def grid_of(side, n=N):
    end = waves.end_of(side)
    return Grid(n, LENGTH, end, end if end == "free" else "free")


def left_out(grid, order, accuracy, low, high):
    """(the error of each row on the wave, and a bound of the rounding)."""
    form = Form(order, accuracy)
    off, size = waves.truncation(grid, form, low, high)
    rounding = 4 * (order + accuracy) * np.finfo("f8").eps * size * waves.envelope(grid).max()
    return np.abs(off.astype("c16")), rounding


def assert_alike(results, grid, order, low, high):
    """results: complex, by accuracy."""
    for p in ACCURACIES:
        for q in ACCURACIES:
            one, two = (left_out(grid, order, accuracy, low, high) for accuracy in (p, q))
            over = np.abs(results[p] - results[q]) - (one[0] + two[0]) * (1 + 1e-9) - one[1] - two[1]
            assert over.max() <= 0, (p, q, int(np.argmax(over)), over.max())


def ask(client, method, grid, low, high, **params):
    psi = waves.phases(grid)
    f = waves.field(grid, psi).astype("c16")
    numbers = [np.array([g.real, g.imag]) for g in (
        waves.number(grid, end, side) if side in sides.WITH_NUMBER else 0j
        for end, side in (("-", low), ("+", high)))]
    out = client.out(method, f=np.stack([f.real, f.imag]), batch=1, spacing=float(psi[1] - psi[0]),
                     **sides.boundary("x", low, high, numbers, list(waves.V.values())), **params)
    return out[0] + 1j * out[1]


@pytest.mark.parametrize("side", KINDS)
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_every_width_is_right(client, order, side):
    grid = grid_of(side)
    other = ("value face", side) if grid.low == "free" else (side, "derivative")
    for low, high in ((side, "one-sided"), other):
        results = {p: ask(client, "derivative", grid, low, high, order=order, accuracy=p) for p in ACCURACIES}
        assert_alike(results, grid, order, low, high)
        if order == 2:
            results = {p: ask(client, "laplacian", grid, low, high, accuracy=p) for p in ACCURACIES}
            assert_alike(results, grid, order, low, high)


def only_the_first_ghost(grid, order, accuracy, side):
    """The error on the wave of ghosts of which the first is right and the others are copies of it."""
    h = float(waves.phases(grid)[1] - waves.phases(grid)[0])
    f = waves.field(grid, waves.phases(grid)).astype("c16")
    kind, place = exact.datum_of(side)
    row = exact.with_datum(0, max(accuracy, 2), -1, kind, place)
    g = waves.number(grid, "-", side) * h**kind
    ghost = sum(float(w) * f[j] for j, w in zip(row.points, row.weights)) + float(row.data) * g
    made = exact.centred(order, accuracy)
    padded = np.concatenate([[ghost] * -made.points[0], f])
    out = np.zeros(len(f), complex)
    for i in range(len(f) - made.points[-1]):
        out[i] = sum(float(w) * padded[i + k] for k, w in enumerate(made.weights)) / h**order
    return out


@pytest.mark.parametrize("side", ["value face", "derivative face", "curvature"])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_a_wrong_width_is_seen(order, side):
    """The bug itself, at the low edge: the results of the accuracies differ, and they have no order."""
    grid = grid_of(side)
    inner = slice(0, N // 2)
    results = {}
    for p in ACCURACIES:
        off = waves.truncation(grid, Form(order, p), side, side)[0]
        results[p] = (waves.field(grid, waves.phases(grid), order) + off).astype("c16")
    assert_alike(results, grid, order, side, side)
    results[8][inner] = only_the_first_ghost(grid, order, 8, side)[inner]
    with pytest.raises(AssertionError):
        assert_alike(results, grid, order, side, side)

    def error(n):
        finer = grid_of(side, n)
        right = waves.field(finer, waves.phases(finer), order).astype("c16")
        return np.abs(only_the_first_ghost(finer, order, 8, side) - right)[:n // 2].max()

    assert np.log2(error(N) / error(2 * N - 1)) < 8 - 2

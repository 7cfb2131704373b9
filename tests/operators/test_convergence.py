"""Diffusion over many steps: the observed order of convergence, in the maximum norm with the edge points,
in float64; and boundaries whose values are not 0 or do not fit the start. test_convergence_table.py has
single steps.

The error of forward Euler is excluded: results are compared with Euler's steps of the exact derivative,
each of which multiplies an eigenfunction of ∂²/∂x² by a known factor."""

import numpy as np
import pytest

from offered import ACCURACIES

TOLERANCE = 0.2


def assert_order(error_of, grids, nominal, at_least=False):
    errors = [error_of(n) for n in grids]
    observed = np.log(errors[0] / errors[1]) / np.log(grids[1] / grids[0])
    assert observed >= nominal - TOLERANCE, (observed, errors)
    assert at_least or observed <= nominal + TOLERANCE, (observed, errors)


def points(boundary, intervals, length):
    """Coordinates and spacing of one axis."""
    h = length / intervals
    return h * np.arange(intervals if boundary == "periodic" else intervals + 1), h


def boundary_params(boundary):
    if boundary == "endpoint":
        return {"boundary": "periodic", "endpoint": True}
    return {"boundary": boundary}


KINDS = ["periodic", "endpoint", "value", "derivative", "halo", "value, derivative",
         "derivative, value", "halo, value", "derivative, halo"]


def sides(boundary, axes, factor, low_value, high_value):
    """The wire's form of "low, high" or of one kind for both sides."""
    if boundary in ("periodic", "endpoint"):
        return boundary_params(boundary)
    kinds = {"derivative": {"derivative": 0}, "halo": {"halo": factor}}
    low, high = (boundary.split(", ") * 2)[:2]
    return {"boundary": {axis + side: kinds.get(kind, {"value": value}) for axis in axes
                         for side, kind, value in (("-", low, low_value), ("+", high, high_value))}}


# An eigenfunction of ∂²/∂x² with the eigenvalue −1 for each boundary.
MODES = {
    "periodic": (2 * np.pi, lambda x: np.sin(x + 0.7)),
    "endpoint": (2 * np.pi, lambda x: np.sin(x + 0.7)),
    "value": (3 * np.pi, lambda x: np.sin(x)),
    "derivative": (3 * np.pi, lambda x: np.cos(x)),
    "halo": (6.0, lambda x: np.sin(x + 0.7)),
    "value, derivative": (2.5 * np.pi, lambda x: np.sin(x)),
    "derivative, value": (2.5 * np.pi, lambda x: np.cos(x)),
    "halo, value": (3 * np.pi - 0.7, lambda x: np.sin(x + 0.7)),
    "derivative, halo": (6.0, lambda x: np.cos(x)),
}
MODE_GRIDS = {2: (48, 96), 4: (32, 64), 6: (24, 48), 8: (20, 40)}
KAPPA, STEPS = 0.75, 60


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("boundary", KINDS)
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_diffusion(client, accuracy, boundary, dimensions):
    """Many steps. Next to a `value` the even derivatives of a sine vanish, so that the closures gain two
    orders there: the test requires at least the nominal order there, and exactly that elsewhere."""
    length, mode = MODES[boundary]
    axes = "zyx"[3 - dimensions:]
    coarse, fine = (20, 40) if dimensions == 3 else MODE_GRIDS[accuracy]
    # One time step for both grids, stable on the fine one.
    dt = 0.3 * (length / fine)**2 / KAPPA / dimensions
    factor = 1 - KAPPA * dimensions * dt

    def error(intervals):
        x, h = points(boundary, intervals, length)
        f = mode(x)
        for _ in range(dimensions - 1):
            f = np.multiply.outer(f, mode(x))
        out = client.out("diffusion", f=f, steps=STEPS, dt=dt, accuracy=accuracy, spacing=h,
                         diffusivity=KAPPA, **sides(boundary, axes, factor, 0.0, 0.0))
        return np.abs(out - factor**STEPS * f).max()

    assert_order(error, (coarse, fine), accuracy, at_least="value" in boundary)


@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_values_at_the_edges(client, accuracy):
    """Values other than 0: the steady state between them is a straight line, which is kept to rounding."""
    n = 33
    x = np.linspace(0, 1, n)
    mode = np.sin(np.pi * x)
    line = 2 - 3 * x
    h, kappa = 1 / (n - 1), 1.0
    dt = 0.3 * h * h
    params = dict(steps=STEPS, dt=dt, accuracy=accuracy, spacing=h, diffusivity=kappa)
    with_line = client.out("diffusion", f=line + mode,
                           boundary={"x-": {"value": 2.0}, "x+": {"value": -1.0}}, **params)
    without = client.out("diffusion", f=mode, boundary={"value": 0.0}, **params)
    assert with_line[0] == 2.0 and with_line[-1] == -1.0
    np.testing.assert_allclose(with_line - line, without, rtol=0, atol=1e-13)
    # The values are imposed on a start that differs from them.
    start = line + mode
    start[0], start[-1] = 7.0, np.nan
    np.testing.assert_array_equal(
        client.out("diffusion", f=start, boundary={"x-": {"value": 2.0}, "x+": {"value": -1.0}},
                   **params), with_line)


@pytest.mark.parametrize("power", [1, 3, 5])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_what_no_flux_assumes(client, accuracy, power):
    """A reflection requires a field whose odd derivatives vanish at the edge, as in a diffusion. If the
    derivative of order `power` does not vanish, the error of a step there is O(h^(power − 2))."""
    def error(intervals):
        x = np.linspace(0, 1, intervals + 1)
        out = client.out("diffusion", f=x**power, steps=1, dt=1.0, allow_unstable=True, accuracy=accuracy,
                         spacing=1 / intervals, boundary={"x-": {"derivative": 0}, "x+": {"halo": 1.0}})
        right = power * (power - 1) * x ** max(power - 2, 0)
        return np.abs(out - x**power - right)[:-accuracy].max()

    assert_order(error, (32, 64), min(power - 2, accuracy))

"""Diffusion beside boundaries whose values are not 0, do not fit the start, or do not fit the field.
test_convergence_table.py has the order of every row; test_schemes.py shows that many steps are single ones."""

import numpy as np
import pytest

from offered import ACCURACIES

TOLERANCE = 0.2


def assert_order(error_of, grids, nominal, at_least=False):
    errors = [error_of(n) for n in grids]
    observed = np.log(errors[0] / errors[1]) / np.log(grids[1] / grids[0])
    assert observed >= nominal - TOLERANCE, (observed, errors)
    assert at_least or observed <= nominal + TOLERANCE, (observed, errors)


STEPS = 60


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

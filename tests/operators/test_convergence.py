"""The observed order of convergence, in the maximum norm with the edge points, in float64.

The error of forward Euler is no part of it: diffusion is compared with what Euler's steps make of the
exact derivative, which on an eigenfunction of ∂²/∂x² is a known factor for each step."""

import numpy as np
import pytest

ACCURACIES = [2, 4, 6, 8]
TOLERANCE = 0.2


def assert_order(error_of, grids, nominal, at_least=False):
    errors = [error_of(n) for n in grids]
    observed = np.log(errors[0] / errors[1]) / np.log(grids[1] / grids[0])
    assert observed >= nominal - TOLERANCE, (observed, errors)
    assert at_least or observed <= nominal + TOLERANCE, (observed, errors)


# Intervals of the coarse and the fine grid: fine enough for the leading error to rule, coarse enough for
# it to stay far over the rounding.
PERIODIC_GRIDS = {2: (64, 128), 4: (48, 96), 6: (40, 80), 8: (32, 64)}
CLOSED_GRIDS = {2: (128, 256), 4: (96, 192), 6: (56, 112), 8: (36, 72)}


def points(boundary, intervals, length):
    """Coordinates and spacing of one axis."""
    h = length / intervals
    return h * np.arange(intervals if boundary == "periodic" else intervals + 1), h


def boundary_params(boundary):
    if boundary == "endpoint":
        return {"boundary": "periodic", "endpoint": True}
    return {"boundary": boundary}


@pytest.mark.parametrize("axis", ["x", "y", "z"])
@pytest.mark.parametrize("boundary", ["periodic", "endpoint", "one-sided"])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_derivative(client, accuracy, order, boundary, axis):
    closed = boundary == "one-sided"
    length, phase = (6.0, 0.7) if closed else (2 * np.pi, 0.7)

    def error(intervals):
        x, h = points(boundary, intervals, length)
        shape = [3, 2, 5]
        place = "zyx".index(axis)
        shape[place] = len(x)
        line = [-1 if k == place else 1 for k in range(3)]
        f = np.broadcast_to(np.sin(x + phase).reshape(line), shape)
        exact = np.cos(x + phase) if order == 1 else -np.sin(x + phase)
        out = client.out("derivative", f=np.ascontiguousarray(f), axis=axis, order=order,
                         accuracy=accuracy, spacing=h, **boundary_params(boundary))
        return np.abs(out - exact.reshape(line)).max()

    assert_order(error, (CLOSED_GRIDS if closed else PERIODIC_GRIDS)[accuracy], accuracy)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("boundary", ["periodic", "endpoint", "one-sided"])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_laplacian(client, accuracy, boundary, dimensions):
    closed = boundary == "one-sided"
    length = 4.0 if closed else 2 * np.pi

    def error(intervals):
        # The axes differ in spacing, so that none can stand in for another.
        lines, spacings, weights = [], [], []
        for k in range(dimensions):
            x, h = points(boundary, intervals, length)
            stretch = 1 + 0.25 * k
            lines.append(np.sin(x + 0.7 + 0.2 * k))
            spacings.append(h * stretch)
            weights.append(stretch**-2)
        f = lines[0]
        for line in lines[1:]:
            f = np.multiply.outer(f, line)
        out = client.out("laplacian", f=f, accuracy=accuracy, spacing=spacings,
                         **boundary_params(boundary))
        return np.abs(out + sum(weights) * f).max()

    grids = {2: (48, 96), 4: (48, 96), 6: (36, 72), 8: (24, 48)}[accuracy]
    assert_order(error, grids, accuracy)


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("operator", ["gradient", "divergence", "curl"])
@pytest.mark.parametrize("boundary", ["periodic", "endpoint", "one-sided"])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_vector_operators(client, accuracy, boundary, operator, dimensions):
    """Of products of sines, each component and each axis with a phase of its own."""
    length = 6.0 if boundary == "one-sided" else 2 * np.pi
    axes = "xyz"[:dimensions]

    def error(intervals):
        lines, spacing = {}, {}
        for k, axis in enumerate(axes):
            x, h = points(boundary, intervals, length)
            stretch = 1 + 0.25 * k
            lines[axis], spacing[axis] = x, h * stretch

        def field(component, along=None):
            """A component or its derivative along an axis."""
            out = 1.0
            for k, axis in enumerate(axes):
                angle = lines[axis] + 0.3 + 0.1 * k + 0.2 * axes.index(component)
                factor = np.cos(angle) / (1 + 0.25 * k) if axis == along else np.sin(angle)
                out = np.multiply.outer(factor, out)
            return out

        if operator == "gradient":
            f, exact = field("x"), {axis: field("x", axis) for axis in axes}
        else:
            f = {axis: field(axis) for axis in axes}
            if operator == "divergence":
                exact = sum(field(axis, axis) for axis in axes)
            elif dimensions == 2:
                exact = field("y", "x") - field("x", "y")
            else:
                exact = {a: field(c, b) - field(b, c) for a, b, c in ("xyz", "yzx", "zxy")}
        out = client.out(operator, f=f, accuracy=accuracy, spacing=spacing, **boundary_params(boundary))
        if not isinstance(exact, dict):
            return np.abs(out - exact).max()
        return max(np.abs(out[axis] - exact[axis]).max() for axis in exact)

    grids = {2: (64, 128), 4: (48, 96), 6: (56, 112), 8: (44, 88)}[accuracy]
    assert_order(error, grids, accuracy)


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


@pytest.mark.parametrize("axis", ["x", "y", "z"])
@pytest.mark.parametrize("boundary", KINDS)
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_diffusion_rate(client, accuracy, boundary, axis):
    """What one step adds, for a field that is smooth across every edge and has no other symmetry than a
    zero derivative asks for: the closures' own order. (dt = 1 is far from stable, and exact.)"""
    if boundary in ("periodic", "endpoint"):
        length, phase = 2 * np.pi, 0.7
    elif boundary == "derivative":
        length, phase = 2 * np.pi, np.pi / 2
    elif boundary.startswith("derivative"):
        length, phase = 7.0, np.pi / 2
    elif boundary.endswith("derivative"):
        length, phase = 7.0, np.pi / 2 - 7.0
    else:
        length, phase = 8.0, 0.7

    def error(intervals):
        x, h = points(boundary, intervals, length)
        shape = [3, 2, 5]
        place = "zyx".index(axis)
        shape[place] = len(x)
        line = [-1 if k == place else 1 for k in range(3)]
        mode = np.sin(x + phase)
        f = np.ascontiguousarray(np.broadcast_to(mode.reshape(line), shape))
        params = sides(boundary, axis, 1.0, float(mode[0]), float(mode[-1]))
        if "boundary" in params and isinstance(params["boundary"], dict):
            params["boundary"]["*"] = "periodic"
        out = client.out("diffusion", f=f, steps=1, dt=1.0, allow_unstable=True, accuracy=accuracy,
                         spacing={"x": 1.0, "y": 1.0, "z": 1.0, axis: h}, **params)
        rate, low, high = np.moveaxis(out - f, place, 0), *boundary_layers(boundary, accuracy)
        exact = np.moveaxis(-f, place, 0)
        inside = slice(low, len(x) - high)
        assert not rate[:low].any() and not rate[len(x) - high:].any()
        return np.abs(rate - exact)[inside].max()

    assert_order(error, CLOSED_GRIDS[accuracy], accuracy)


def boundary_layers(boundary, accuracy):
    """Points at either end that hold data, which one step leaves alone."""
    layers = {"value": 1, "halo": accuracy // 2}
    low, high = (boundary.split(", ") * 2)[:2]
    return layers.get(low, 0), layers.get(high, 0)


# An eigenfunction of ∂²/∂x² with the factor −1 that each boundary keeps for all times.
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
    """Many steps. Next to a `value` the odd derivatives of a sine vanish with the second, so that the
    closures gain two orders there: no less than nominal is asked then, and exactly that elsewhere."""
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
    """Values other than 0: the steady state between them is a straight line, and stays to rounding."""
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
    # A start that does not hold the values is given them first.
    start = line + mode
    start[0], start[-1] = 7.0, np.nan
    np.testing.assert_array_equal(
        client.out("diffusion", f=start, boundary={"x-": {"value": 2.0}, "x+": {"value": -1.0}},
                   **params), with_line)

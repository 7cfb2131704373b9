"""The same results as findiff, py-pde, SciPy and NumPy, if they offer the same operator; and if they differ, a
proof of which is right. Their axes follow their arrays' ((x, y, z)), so they get our arrays transposed.

Tolerances: two chains of m operations and two roundings of the weights amount to at most (2m + 2)·ε/2 of
Σ|w_j f_j|, with m points of a stencil; one ε is added for terms of the order of ε². The error of a peer's
weights is added for that peer."""

from fractions import Fraction

import findiff
import numpy as np
import pde
import pytest
from scipy import ndimage

import exact
from offered import ACCURACIES, DTYPES, ORDERS

SHAPES = {1: (31,), 2: (21, 26), 3: (20, 19, 22)}
SPACING = (0.75, 1.25, 0.5)  # x, y, z


def random_field(dimensions, dtype="<f8", seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, SHAPES[dimensions]).astype(dtype)


def spacing(dimensions):
    return dict(zip("xyz"[:dimensions], SPACING))


def rounding(points, dtype="<f8"):
    return (points + 2) * float(np.finfo(dtype).eps)


def applied(matrix, f, axis):
    """A matrix along an axis of an array."""
    return np.moveaxis(np.tensordot(matrix, f, (1, axis)), 0, axis)


def exactly(rows, f, scale):
    """The rows of an axis on a line, in fractions."""
    f = [Fraction(float(x)) for x in f]
    return [scale * sum(w * f[j] for j, w in row.items()) for row in rows]


# findiff: periodic, or one-sided. On a uniform axis its windows move with their points. With coordinates its
# windows at the edge are like ours; inside they have one point more. It solves for its weights in doubles.

BOUNDARIES = {"periodic": {}, "one-sided": {"boundary": "one-sided"}}
# The relative error of findiff's weights: it depends on the kernels that OpenBLAS selects for the processor
# (1.3e-6 to 1.2e-4 on the processors seen, at accuracy 8 and order 4). Weights of another stencil or of
# another order of accuracy would be off by a percent and more.
FINDIFF_SOLVES_TO = 1e-3


def findiff_derivative(axis, h, order, accuracy, boundary):
    first = findiff.Diff(axis, h, periodic=boundary == "periodic", acc=accuracy)
    return first if order == 1 else first**order


def findiff_weights(n, h, order, accuracy, boundary):
    """Its matrix along a uniform axis, with its rows of coordinates at the edges."""
    weights = findiff_derivative(0, h, order, accuracy, boundary).matrix((n,)).toarray()
    if boundary == "one-sided":
        at_edges = findiff_derivative(0, h * np.arange(n), order, accuracy, boundary).matrix((n,)).toarray()
        r = exact.radius(order, accuracy)
        weights[:r], weights[-r:] = at_edges[:r], at_edges[-r:]
    return weights


def findiff_weights_off(n, h, order, accuracy, boundary):
    """The largest error of findiff's weights, as a matrix along the axis."""
    weights = findiff_weights(n, h, order, accuracy, boundary)
    return np.abs(weights - exact.matrix(exact.axis(n, order, accuracy, boundary)) / h**order)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_findiff_derivative(client, accuracy, order, boundary, dimensions):
    f = random_field(dimensions)
    for k, axis in enumerate("zyx"[3 - dimensions:]):
        n, h = f.shape[k], spacing(dimensions)[axis]
        ours = client.out("derivative", f=f, axis=axis, order=order, accuracy=accuracy,
                          spacing={axis: h}, **BOUNDARIES[boundary])
        theirs = applied(findiff_weights(n, h, order, accuracy, boundary), f, k)
        magnitude = np.abs(exact.matrix(exact.axis(n, order, accuracy, boundary))) / h**order
        off = findiff_weights_off(n, h, order, accuracy, boundary)
        assert (off.sum(1) <= FINDIFF_SOLVES_TO * magnitude.sum(1)).all()
        tolerance = applied(off + rounding(order + accuracy + 1) * magnitude, np.abs(f), k)
        assert (np.abs(ours - theirs) <= tolerance).all()
        right = applied(exact.matrix(exact.axis(n, order, accuracy, boundary)) / h**order, f, k)
        tolerance = applied(rounding(order + accuracy + 1) * magnitude, np.abs(f), k)
        assert (np.abs(ours - right) <= tolerance).all()


def coordinates(n):
    """A smooth map."""
    s = np.linspace(0, 1, n)
    return s + 0.3 * np.sin(2 * np.pi * s + 0.4) / (2 * np.pi)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_findiff_on_coordinates(client, accuracy, order):
    """Nearest to an edge the two use the same points, and for odd derivatives everywhere. For even ones findiff
    (0.16) uses one more: both have the order, with different results."""
    n = 31
    x = coordinates(n)
    f = np.random.default_rng(order).uniform(-1, 1, n)
    where = dict(order=order, accuracy=accuracy, boundary="one-sided")
    ours = client.out("derivative", f=f, spacing={"x": x}, **where)
    theirs = findiff_derivative(0, x, order, accuracy, "one-sided")
    weights = theirs.matrix((n,)).toarray()
    rows = exact.on_coordinates(x, order, accuracy, "one-sided")
    r = (order + accuracy) // 2
    same = np.ones(n, bool) if order % 2 else (np.arange(n) < r) | (np.arange(n) >= n - r)
    right = np.array([float(v) for v in exactly(rows, f, 1)])
    magnitude = np.abs(exact.matrix(rows)) @ np.abs(f)
    assert (np.abs(ours - right) <= rounding(order + accuracy) * magnitude).all()
    off = np.abs(weights - exact.matrix(rows))[same]
    assert (off.sum(1) <= FINDIFF_SOLVES_TO * np.abs(exact.matrix(rows))[same].sum(1)).all()
    difference = np.abs(ours - theirs(f))[same]
    assert (difference <= off @ np.abs(f) + rounding(2 * order + accuracy) * magnitude[same]).all()
    points = (np.abs(weights) > 0).sum(1)
    assert (points[same] == order + accuracy).all()
    if order % 2 == 0:
        assert points[n // 2] == order + accuracy + 1


# py-pde: accuracy 2; its points are the centres of cells.

def grid(dimensions, spacings=SPACING):
    shape = SHAPES[dimensions][::-1]
    return pde.CartesianGrid([[0, n * h] for n, h in zip(shape, spacings)], shape, periodic=True)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_pypde_operators(client, dimensions):
    axes, h = "xyz"[:dimensions], spacing(dimensions)
    f = random_field(dimensions)
    vector = {a: random_field(dimensions, seed=k) for k, a in enumerate(axes)}
    scalar = pde.ScalarField(grid(dimensions), f.T)
    field = pde.VectorField(grid(dimensions), np.stack([vector[a].T for a in axes]))
    same = dict(accuracy=2, spacing=h)
    first = rounding(3 * dimensions) * sum(1 / h[a] for a in axes)  # |f| ≤ 1, Σ|w| = 1/h
    second = rounding(3 * dimensions) * sum(4 / h[a] ** 2 for a in axes)
    np.testing.assert_allclose(client.out("laplacian", f=f, **same), scalar.laplace("periodic").data.T,
                               rtol=0, atol=second)
    np.testing.assert_allclose(client.out("divergence", f=vector, **same),
                               field.divergence("periodic").data.T, rtol=0, atol=first)
    ours = client.out("gradient", f=f, **same)
    for a, theirs in zip(axes, scalar.gradient("periodic").data, strict=True):
        np.testing.assert_allclose(ours[a], theirs.T, rtol=0, atol=first)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_pypde_diffusion(client, dimensions):
    """Its explicit Euler steps. No step increases the maximum, so the errors of steps add up."""
    steps, kappa, dt, h = 20, 0.5, 0.04, 0.75
    f = random_field(dimensions)
    result = pde.DiffusionPDE(kappa, bc="periodic").solve(
        pde.ScalarField(grid(dimensions, [h] * 3), f.T), t_range=steps * dt, dt=dt, tracker=None,
        backend="scipy", solver="euler")
    ours = client.out("diffusion", f=f, steps=steps, dt=dt, diffusivity=kappa, spacing=h, accuracy=2)
    weights = 1 + 4 * dimensions * kappa * dt / h**2
    np.testing.assert_allclose(ours, result.data.T, rtol=0,
                               atol=steps * rounding(3 * dimensions + 2) * weights)


# Its boundaries lie half a cell outside the outermost centre, as ours at the face. It has one ghost point at an
# edge, computed from the outermost point alone.

def line(n):
    return pde.CartesianGrid([[0, 1]], n)


@pytest.mark.parametrize("side, theirs", [("symmetric", {"derivative": 0}), ("antisymmetric", {"value": 0})])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_pypde_images(client, dimensions, side, theirs):
    """An image half a cell outside is its Neumann's or Dirichlet's with 0: equal at accuracy 2."""
    axes, h = "xyz"[:dimensions], spacing(dimensions)
    f = random_field(dimensions)
    shape = SHAPES[dimensions][::-1]
    closed = pde.CartesianGrid([[0, n * s] for n, s in zip(shape, SPACING)], shape)
    field = pde.ScalarField(closed, f.T)
    words = {a + end: theirs for a in axes for end in "-+"}
    same = dict(accuracy=2, spacing=h, boundary=side)
    first = rounding(3 * dimensions) * sum(1 / h[a] for a in axes)
    second = rounding(3 * dimensions) * sum(4 / h[a] ** 2 for a in axes)
    np.testing.assert_allclose(client.out("laplacian", f=f, **same), field.laplace(words).data.T,
                               rtol=0, atol=second)
    ours = client.out("gradient", f=f, **same)
    for a, made in zip(axes, field.gradient(words).data, strict=True):
        np.testing.assert_allclose(ours[a], made.T, rtol=0, atol=first)


@pytest.mark.parametrize("slopes", [(0.0, 0.0), (0.75, -1.5)])
def test_pypde_slope_of_diffusion(client, slopes):
    """A slope at the face, as a number: our mirror image's lift is its ghost."""
    n, dt = 24, 1e-4
    f = np.random.default_rng(2).uniform(-1, 1, n)
    stated = {end: {"derivative": slope} for end, slope in zip(("x-", "x+"), slopes)}
    rate = pde.ScalarField(line(n), f).laplace(stated, backend="scipy").data
    ours = client.out("diffusion", f=f, steps=1, dt=dt, accuracy=2, spacing=1 / n, boundary={
        end: word | {"at": "face"} for end, word in stated.items()})
    np.testing.assert_allclose(ours, f + dt * rate, rtol=0, atol=rounding(6) * (1 + 4 * dt * n**2))


def test_pypde_curvature(client):
    """Its curvature is that of the outermost centre, not of the face: it equals ours at the node."""
    n, curvatures = 24, (0.75, -1.5)
    f = np.random.default_rng(2).uniform(-1, 1, n)
    theirs = pde.ScalarField(line(n), f).laplace(
        {"x-": {"curvature": curvatures[0]}, "x+": {"curvature": curvatures[1]}}, backend="scipy").data
    ours = client.out("laplacian", f=f, accuracy=2, spacing=1 / n, boundary={
        end: {"curvature": v} for end, v in zip(("x-", "x+"), curvatures)})
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=rounding(4) * 4 * n**2)
    assert (ours[0], ours[-1]) == curvatures


# SciPy: our weights in its correlation.

def kernel(dimensions, order, accuracy, axes):
    """The stencil of a sum of derivatives along these axes, in an array."""
    r = exact.radius(order, accuracy)
    whole = np.zeros((2 * r + 1,) * dimensions)
    for a in axes:
        line = [r] * dimensions
        line["zyx"[3 - dimensions:].index(a)] = slice(None)
        weights = [float(w / Fraction(spacing(dimensions)[a]) ** order)
                   for w in exact.centred(order, accuracy).weights]
        whole[tuple(line)] += weights
    return whole


def assert_correlates(out, f, weights, mode, points, dtype):
    """SciPy computes in doubles, so its own errors are negligible beside float32."""
    wide = f.astype("f8")
    theirs = ndimage.correlate(wide, weights, mode=mode)
    terms = ndimage.correlate(np.abs(wide), np.abs(weights), mode=mode)
    assert (np.abs(out - theirs) <= rounding(points, dtype) * terms).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_scipy_wrap(client, accuracy, dimensions, dtype):
    f, axes = random_field(dimensions, dtype), "xyz"[:dimensions]
    h = spacing(dimensions)
    for order in ORDERS:
        for a in axes:
            out = client.out("derivative", f=f, axis=a, order=order, accuracy=accuracy, spacing={a: h[a]})
            assert_correlates(out, f, kernel(dimensions, order, accuracy, a), "wrap", accuracy + order, dtype)
    out = client.out("laplacian", f=f, accuracy=accuracy, spacing=h)
    points = dimensions * accuracy + 1
    assert_correlates(out, f, kernel(dimensions, 2, accuracy, axes), "wrap", points, dtype)
    if accuracy == 2:
        out = client.out("laplacian", f=f, accuracy=2)
        theirs = ndimage.laplace(f.astype("f8"), mode="wrap")
        assert np.abs(out - theirs).max() <= rounding(points, dtype) * 4 * dimensions


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("mode, boundary", [("mirror", "mirror"), ("reflect", "symmetric")])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_scipy_images(client, accuracy, mode, boundary, dimensions, dtype):
    """Its `mirror` and `reflect` are NumPy's `reflect` and `symmetric`."""
    f, axes = random_field(dimensions, dtype), "xyz"[:dimensions]
    h = spacing(dimensions)
    same = dict(accuracy=accuracy, boundary=boundary)
    for order in ORDERS:
        a = axes[order % dimensions]
        out = client.out("derivative", f=f, axis=a, order=order, spacing={a: h[a]}, **same)
        assert_correlates(out, f, kernel(dimensions, order, accuracy, a), mode, accuracy + order, dtype)
    out = client.out("laplacian", f=f, spacing=h, **same)
    assert_correlates(out, f, kernel(dimensions, 2, accuracy, axes), mode, dimensions * accuracy + 1, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("mode, boundary", [("wrap", {}), ("mirror", {"boundary": {"derivative": 0}})])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_scipy_diffusion_step(client, accuracy, mode, boundary, dimensions, dtype):
    """No flux is SciPy's `mirror`, about the outermost node; its `reflect` has the wall half a cell outside and
    differs."""
    f, axes = random_field(dimensions, dtype), "xyz"[:dimensions]
    reply = client.call("diffusion", f=f, steps=1, cfl=1.0, accuracy=accuracy, diffusivity=0.5,
                        spacing=spacing(dimensions), **boundary)
    weights = 0.5 * reply["dt"] * kernel(dimensions, 2, accuracy, axes)
    weights[(accuracy // 2,) * dimensions] += 1
    # Three more, for the centre's weight here.
    assert_correlates(reply["out"], f, weights, mode, dimensions * accuracy + 4, dtype)
    if mode == "mirror":
        reflected = ndimage.correlate(f.astype("f8"), weights, mode="reflect")
        assert np.abs(reply["out"] - reflected).max() > 0.05


# NumPy has one of these formulas: accuracy 2 to the edge.

@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_numpy_gradient(client, dimensions, dtype):
    f, h = random_field(dimensions, dtype), spacing(dimensions)
    ours = client.out("gradient", f=f, accuracy=2, spacing=h, boundary="one-sided")
    for k, a in enumerate("zyx"[3 - dimensions:]):
        theirs = np.gradient(f.astype("f8"), h[a], axis=k, edge_order=2)
        # |f| ≤ 1; the weights at an edge are 3/2, 2 and 1/2.
        np.testing.assert_allclose(ours[a], theirs, rtol=0, atol=rounding(3, dtype) * 4 / h[a])

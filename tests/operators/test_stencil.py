"""User-defined stencils, against SciPy's correlate, against sums over arrays padded by NumPy, and against
polynomials, which every ghost point must continue."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy import ndimage

import exact
from offered import epsilon

MODES = {"periodic": "wrap", "mirror": "mirror", "symmetric": "reflect", "nearest": "nearest", "constant": "constant"}
PADS = {"periodic": "wrap", "mirror": "reflect", "nearest": "edge"}  # as numpy.pad() has those that are named otherwise
CVAL = -0.625


def box(radii):
    return list(itertools.product(*(range(-r, r + 1) for r in radii)))


def star(radii):
    return [o for o in box(radii) if sum(i != 0 for i in o) <= 1]


def random_weights(rng, count):
    return rng.uniform(-1, 1, count)


def assert_close(found, expected, size, operations):
    assert found.shape == expected.shape
    error = np.abs(found.astype("f8") - expected)
    assert np.all(error <= operations * epsilon(found.dtype) * size), np.max(error / size)


def on_grid(offsets, weights, radii):
    """The weights as SciPy takes them."""
    kernel = np.zeros([2 * r + 1 for r in radii])
    for o, w in zip(offsets, weights):
        kernel[tuple(i + r for i, r in zip(o, radii))] = w
    return kernel


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
@pytest.mark.parametrize("boundary", MODES)
@pytest.mark.parametrize("shape,radii", [((97,), (8,)), ((5,), (8,)), ((31, 40), (3, 8)), ((2, 23), (8, 1)),
                                         ((12, 17, 9), (2, 2, 2)), ((20, 9, 33), (8, 0, 4)),
                                         ((3, 1, 2), (5, 8, 8)), ((24, 70, 90), (1, 1, 1))])
@pytest.mark.parametrize("points", [box, star])
def test_like_scipy(client, points, shape, radii, boundary, dtype):
    rng = np.random.default_rng(1)
    f = rng.uniform(-1, 1, shape).astype(dtype)
    offsets = points(radii)
    rng.shuffle(offsets)
    weights = random_weights(rng, len(offsets)).astype(dtype)
    out = client.out("stencil", f=f, offsets=np.array(offsets, "<i4"), weights=weights,
                     boundary={"constant": CVAL} if boundary == "constant" else boundary)
    kernel, f = on_grid(offsets, weights, radii), f.astype("f8")
    if any(n <= r for n, r in zip(shape, radii)):  # where SciPy 1.17 reads memory that is not the field's
        thin, mode = [(r, r) for r in radii], PADS.get(boundary, boundary)
        whole = np.pad(f, thin, mode=mode, **({"constant_values": CVAL} if mode == "constant" else {}))
        inner = tuple(slice(r, r + n) for r, n in zip(radii, shape))
    else:
        whole, inner = f, ...
    expected = ndimage.correlate(whole, kernel, mode=MODES[boundary], cval=CVAL)[inner]
    size = ndimage.correlate(np.abs(whole), np.abs(kernel), mode=MODES[boundary], cval=abs(CVAL))[inner]
    # The error of a sum of m fused terms is at most m/2 ε of its terms.
    assert_close(out, expected, size, max(4, len(offsets) / 2) if dtype == "<f4" else 4 + len(offsets) / 16)


# ---- sums over what is padded


SIDES = [("one-sided", 0, 0), ("value", 1, 0.3), ("derivative", 0, -0.7), ("derivative", 1, 0.4),
         ("curvature", 0, 1.5), ("curvature", 1, -0.6), ("constant", 0, 0.8), ("constant", 0, -1.3)]
WORDS = ["periodic", "endpoint", "mirror", "symmetric", "antisymmetric", "nearest"]


def ghost_rows(radius, accuracy, side):
    """(weights, data weight) of the values at the distance 1, … outside, counted from the edge."""
    kind, at_face = side[0], side[1]
    if kind == "constant":
        return [exact.Row([], [], Fraction(1))] * radius
    return [exact.closure(kind + at_face * " face", 0, accuracy, -m) for m in range(1, radius + 1)]


def growth(accuracy, radius):
    """The amplification of rounding errors by a ghost point."""
    rows = (ghost_rows(radius, accuracy, side)[-1] for side in SIDES)
    return max(float(sum(map(abs, row.weights))) for row in rows)


def padded(f, axis, radius, boundary, h, accuracy):
    """One axis longer by `radius` at both ends. boundary: a word, or (kind, at face, number) by side."""
    f = np.moveaxis(f, axis, -1)
    n = f.shape[-1]
    index = np.arange(-radius, n + radius)
    if boundary in PADS:
        f = np.pad(f, [(0, 0)] * (f.ndim - 1) + [(radius, radius)], mode=PADS[boundary])
    elif boundary == "endpoint":
        inside = (index >= 0) & (index < n)
        f = f[..., np.where(inside, index, index % (n - 1))]
    elif boundary in ("symmetric", "antisymmetric"):
        turns = (index // n) % 2
        f = np.where(turns & (boundary == "antisymmetric"), -1, 1) * f[
            ..., np.where(turns, n - 1 - index % n, index % n)]
    else:
        low, high = boundary
        parts = [f]
        for place, side in ((0, low), (1, high)):
            line = f if place == 0 else f[..., ::-1]
            ghosts = []
            for row in ghost_rows(radius, accuracy, side):
                order = exact.DATA.get(side[0], 0)
                value = sum((float(w) * line[..., i] for i, w in enumerate(row.weights)), np.zeros(line.shape[:-1]))
                ghosts.append(value + float(row.data) * h**order * side[2])
            ghosts = np.stack(ghosts, axis=-1) if ghosts else line[..., :0]
            parts = [ghosts[..., ::-1], *parts] if place == 0 else [*parts, ghosts]
        f = np.concatenate(parts, axis=-1)
    return np.moveaxis(f, -1, axis)


def applied(f, offsets, weights, radii, boundaries, spacing, accuracy):
    """One step in float64; boundaries by NumPy axis, padded last axis first."""
    p = padded_all(f.astype("f8"), radii, boundaries, spacing, accuracy)
    total = np.zeros(f.shape)
    for o, w in zip(offsets, weights):
        total += w * p[tuple(slice(r + i, r + i + n) for r, i, n in zip(radii, o, f.shape))]
    return total


def wire(boundaries):
    """The parameters boundary and endpoint for what is listed by NumPy axis."""
    names = "zyx"[-len(boundaries):]
    made, endpoint = {}, {}
    for name, boundary in zip(names, boundaries):
        if boundary == "endpoint":
            endpoint[name] = True
        elif isinstance(boundary, str):
            made[name] = boundary
        else:
            for sign, (kind, at_face, number) in zip("-+", boundary):
                made[name + sign] = kind if kind == "one-sided" else {
                    kind: number, **({"at": "face"} if at_face else {})}
    return dict(boundary=made, endpoint=endpoint)


@pytest.mark.parametrize("accuracy", [2, 4, 6, 8])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_padded_sums(client, dimensions, accuracy):
    rng = np.random.default_rng(accuracy)
    shape = {1: (21,), 2: (13, 19), 3: (9, 11, 14)}[dimensions]
    pairs = [*WORDS, *((a, b) for a, b in zip(SIDES, SIDES[2:] + SIDES[:2]))]
    for trial in range(3 * len(pairs)):
        # Beyond an antisymmetric side data change their sign, which padding by numbers does not know.
        boundaries = [pairs[(trial * (axis + 1) + 5 * axis) % len(pairs)] for axis in range(dimensions)]
        if "antisymmetric" in boundaries and any(not isinstance(b, str) for b in boundaries):
            continue
        radii = [int(r) for r in rng.integers(0, 5 if dimensions > 1 else 9, dimensions)]
        offsets = [o for o in box(radii) if rng.uniform() < 0.7] or [(0,) * dimensions]
        weights = random_weights(rng, len(offsets))
        f = rng.uniform(-1, 1, shape)
        spacing = [0.5, 1.25, 0.75][:dimensions]
        out = client.out("stencil", f=f, offsets=offsets if len(offsets) < 1000 else np.array(offsets, "<i8"),
                         weights=weights, spacing=spacing, accuracy=accuracy, **wire(boundaries))
        expected = applied(f, offsets, weights, radii, boundaries, spacing, accuracy)
        # The size includes the values of ghosts; their amplification of rounding is a separate factor.
        size = np.abs(padded_all(f, radii, boundaries, spacing, accuracy)).max() * np.abs(weights).sum()
        grows = sum(not isinstance(b, str) for b in boundaries)
        assert_close(out, expected, np.full(shape, size), 8 * growth(accuracy, max(*radii, 1)) ** (grows / 2))


def padded_all(f, radii, boundaries, spacing, accuracy):
    for axis in reversed(range(f.ndim)):
        f = padded(f, axis, radii[axis], boundaries[axis], spacing[axis], accuracy)
    return f


def test_halo(client):
    """The halo is as wide as the offsets reach along each axis, and is multiplied by the factor; where two
    halos overlap, by the x axis's."""
    rng = np.random.default_rng(3)
    f = rng.uniform(-1, 1, (12, 15))
    offsets, weights = box((2, 3)), random_weights(rng, 35)
    out = client.out("stencil", f=f, offsets=offsets, weights=weights,
                     boundary={"x": {"halo": 0.5}, "y": {"halo": -2.0}})
    expected = f * -2
    expected[:, :3] = f[:, :3] * 0.5
    expected[:, -3:] = f[:, -3:] * 0.5
    inner = ndimage.correlate(f, on_grid(offsets, weights, (2, 3)), mode="wrap")
    expected[2:-2, 3:-3] = inner[2:-2, 3:-3]
    assert np.abs(out - expected).max() < 1e-13
    assert np.array_equal(out[:, :3], f[:, :3] * 0.5) and np.array_equal(out[:2, 3:-3], f[:2, 3:-3] * -2)


def test_value_at_node(client):
    """The node is read as the value, whatever the field has there, and the result has the value."""
    rng = np.random.default_rng(4)
    f = rng.uniform(-1, 1, (16, 18))
    edge = rng.uniform(-1, 1, 18)
    offsets, weights = box((2, 2)), random_weights(rng, 25)
    same = dict(offsets=offsets, weights=weights, accuracy=4)
    out = client.out("stencil", f=f, boundary={"y-": {"value": edge}, "y+": "one-sided", "x": "mirror"}, **same)
    held = f.copy()
    held[0] = edge
    expected = client.out("stencil", f=held, boundary={"y": "one-sided", "x": "mirror"}, **same)
    assert np.array_equal(out[1:], expected[1:])
    assert np.array_equal(out[0], edge)


def test_derivative_of_0_is_a_mirror(client):
    rng = np.random.default_rng(5)
    f = rng.uniform(-1, 1, (9, 11))
    same = dict(f=f, offsets=box((4, 3)), weights=random_weights(rng, 63))
    for boundary, word in (({"derivative": 0}, "mirror"), ({"derivative": 0, "at": "face"}, "symmetric")):
        assert np.array_equal(client.out("stencil", boundary=boundary, **same),
                              client.out("stencil", boundary=word, **same))


def test_steps_batch_and_place(client):
    rng = np.random.default_rng(6)
    f = rng.uniform(-1, 1, (3, 14, 17)).astype("<f4")
    face = rng.uniform(-1, 1, (3, 14)).astype("<f4")
    same = dict(offsets=star((2, 3)), weights=list(random_weights(rng, 11) / 4), accuracy=4)
    def boundary(face):
        return {"x-": {"derivative": face}, "x+": {"mixed": 0.5, "const": face, "at": "face"}, "y": "symmetric"}
    whole = client.out("stencil", f=f, batch=1, steps=5, boundary=boundary(face), **same)
    for one, side, out in zip(f, face, whole):
        for _ in range(5):
            one = client.out("stencil", f=one, boundary=boundary(side), **same)
        assert np.array_equal(one, out)
    field = client.put(f)
    here = {"field": field}
    client.call("stencil", f=here, out=here, batch=1, steps=5, boundary=boundary(face), **same)
    assert np.array_equal(client.get(field), whole)


def polynomial(rng, degree, dimensions):
    """Of that degree in each variable; and all its derivatives at points, by orders."""
    factors = rng.uniform(-1, 1, (dimensions, degree + 1))
    def value(points, orders):
        product = 1
        for c, x, order in zip(factors, points, orders):
            product = product * np.polynomial.Polynomial(c).deriv(order)(x) if order else (
                product * np.polynomial.Polynomial(c)(x))
        return product
    return value


@pytest.mark.parametrize("accuracy", [2, 4, 6, 8])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_polynomials_are_continued(client, dimensions, accuracy):
    """Every ghost, including corners, has the polynomial's value if the sides state its data as arrays over
    the faces."""
    rng = np.random.default_rng(accuracy + 10 * dimensions)
    n, radius = accuracy + 1, 3
    names = "zyx"[-dimensions:]
    h = [0.11, 0.07, 0.09][:dimensions]
    origin = [-0.4, -0.3, 0.1][:dimensions]
    for trial in range(8):
        f = polynomial(rng, accuracy - 1, dimensions)
        axes = [o + s * np.arange(n + k) for k, (o, s) in enumerate(zip(origin, h))]
        mesh = np.meshgrid(*axes, indexing="ij")
        zero = (0,) * dimensions
        sides, held = {}, []
        for axis, sign in itertools.product(range(dimensions), (0, 1)):
            kind = ["one-sided", "value", "derivative", "curvature", "mixed"][rng.integers(5)]
            at_face = kind != "one-sided" and bool(rng.integers(2))
            edge = axes[axis][-1 if sign else 0] + (h[axis] / 2 if sign else -h[axis] / 2) * at_face
            others = np.meshgrid(*(np.atleast_1d(edge) if a == axis else axes[a] for a in range(dimensions)),
                                 indexing="ij")
            def given(order):
                orders = tuple(order if a == axis else 0 for a in range(dimensions))
                found = np.squeeze(f(others, orders) * np.ones_like(others[0]), axis)
                found = found * (-1 if order == 1 and not sign else 1)
                return found if dimensions > 1 else float(found)
            name = names[axis] + "-+"[sign]
            if kind == "one-sided":
                sides[name] = kind
            elif kind == "mixed":
                v = np.full(np.shape(given(0)), 0.7) if dimensions > 1 else 0.7  # v f of the degree of f
                sides[name] = {"mixed": v, "const": given(1) + v * given(0)}
            else:
                sides[name] = {kind: given(exact.DATA[kind])}
            if at_face:
                sides[name]["at"] = "face"
            elif kind == "value":
                held.append((axis, sign))
        offsets = box((radius,) * dimensions)
        weights = random_weights(rng, len(offsets))
        out = client.out("stencil", f=f(mesh, zero) * np.ones_like(mesh[0]), offsets=np.array(offsets),
                         weights=weights, accuracy=accuracy, spacing=h, boundary=sides)
        expected = sum(w * f([x + o * s for x, o, s in zip(mesh, offset, h)], zero)
                       for offset, w in zip(offsets, weights))
        for axis, sign in held:  # comes out as it is
            edge = (slice(None),) * axis + (-sign,)
            expected[edge] = f(mesh, zero)[edge]
        size = np.abs(f(mesh, zero)).max() * np.abs(weights).sum() * growth(accuracy, radius) ** dimensions
        assert np.abs(out - expected).max() < 8 * epsilon("f8") * size, sides


def test_one_axis_takes_plain_numbers(client):
    f = np.arange(10.0)
    out = client.out("stencil", f=f, offsets=[-1, 0, 1], weights=[1, -2, 1])
    assert np.array_equal(out[1:-1], np.zeros(8)) and out[0] == 10 and out[-1] == -10


def test_largest_box(client):
    """4,913 points, whose weights come as payload."""
    rng = np.random.default_rng(8)
    f = rng.uniform(-1, 1, (18, 6, 20))
    offsets, weights = box((8, 8, 8)), random_weights(rng, 17**3)
    out = client.out("stencil", f=f, offsets=np.array(offsets, "<i4"), weights=weights, boundary="mirror")
    expected = ndimage.correlate(f, on_grid(offsets, weights, (8, 8, 8)), mode="mirror")
    assert np.abs(out - expected).max() < 1e-12

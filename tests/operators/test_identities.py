"""Identities that hold for every field, however rough: the fields are random, and the expressions vanish to
rounding.

Tolerances: u = ε/2 bounds the relative error of one operation. A derivative is a chain of at most m
operations for a row of m points (m − 1 fused ones after a product, or a difference and half as many),
so its error is at most m·u·Σ|w_j f_j|. The rounding of the weights adds one u if an identity needs exact
weights. Chains of chains add their counts. Each bound is that sum for the given field, plus one ε for
terms of the order of ε²."""

import math
from fractions import Fraction

import numpy as np
import pytest

import exact
import sides
from offered import ACCURACIES, DTYPES, epsilon
from fdtest import SYMBOL

SHAPES = {1: (47,), 2: (23, 29), 3: (19, 21, 23)}
SPACING = {"x": 0.75, "y": 1.25, "z": 0.5}
V = 0.75  # of mixed sides
# Sides whose rows along an axis do not depend on the other axes, with numbers that are 0. (Nodes that hold a
# value, and halos, are held along the other axes as well.)
KINDS = ["one-sided", *sides.MAPS, "value face", *(kind + at for kind in ("derivative", "mixed", "curvature")
                                                   for at in ("", " face"))]
BOUNDARIES = {"periodic": {}, "endpoint": {"endpoint": True}} | {
    kind: {"boundary": sides.word(kind, 0.0, V)} for kind in KINDS}


def random_field(shape, dtype, seed=0):
    """Of mean 1/2, so that a mass is no zero itself."""
    return np.random.default_rng(seed).uniform(-1, 2, shape).astype(dtype)


def row_points(order, accuracy, boundary=""):
    """m: no row has more points. Where a side is mixed at the face, the value there is a row of its own."""
    return (order + accuracy) * (3 if boundary == "mixed face" else 1) + (boundary.startswith("mixed")) * 4


class Magnitudes:
    """|D_a| by axis: the sum of the absolute values of a derivative's terms."""

    def __init__(self, shape, order, accuracy, boundary):
        self.axes = "xyz"[:len(shape)]
        mixed = {a: [V * SPACING[a]] * 2 for a in self.axes}
        sides = [boundary]
        if boundary.startswith("mixed"):  # its v f and the rest may cancel
            sides.append("derivative" + boundary[5:])
        self.by_axis = {
            a: sum(np.abs(exact.matrix(exact.axis(n, order, accuracy, side, mixed=mixed[a]))) for side in sides)
            / SPACING[a] ** order for a, n in zip(self.axes, reversed(shape))}

    def along(self, a, f):
        place = -1 - "xyz".index(a)
        return np.moveaxis(np.tensordot(self.by_axis[a], f, (1, place)), 0, place)


def params(dimensions, accuracy, boundary):
    spacing = {a: SPACING[a] for a in "xyz"[:dimensions]}
    return dict(spacing=spacing, accuracy=accuracy, **BOUNDARIES[boundary])


# In three dimensions and in a plane; the kinds of sides have all accuracies in a plane alone.
FIELDS = [(boundary, d) for boundary in BOUNDARIES for d in (2, 3)
          if d == 2 or boundary in ("periodic", "endpoint", "one-sided", "antisymmetric", "mixed face")]


def assert_below(found, bound):
    over = np.abs(found.astype("f8")) - bound
    assert over.max() <= 0, over.max()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("boundary, dimensions", FIELDS)
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_curl_of_gradient(client, accuracy, boundary, dimensions, dtype):
    """D_b D_c f − D_c D_b f. Matrices along different axes commute for all weights, so only the roundings of
    the operations count: two chains of m, and the difference."""
    f = random_field(SHAPES[dimensions], dtype)
    same = params(dimensions, accuracy, boundary)
    gradient = client.out("gradient", f=f, **same)
    assert all(np.abs(part).max() > 0.5 for part in gradient.values())
    curl = client.out("curl", f=gradient, **same)
    sizes, size = Magnitudes(f.shape, 1, accuracy, boundary), np.abs(f.astype("f8"))
    count = (2 * row_points(1, accuracy, boundary) + 1) / 2 + 1
    pairs = {"z": "xy"} if dimensions == 2 else {"x": "yz", "y": "zx", "z": "xy"}
    for component, (b, c) in pairs.items():
        terms = 2 * sizes.along(b, sizes.along(c, size))
        assert_below(curl if dimensions == 2 else curl[component], count * epsilon(dtype) * terms)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("boundary, dimensions", FIELDS)
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_divergence_of_curl(client, accuracy, boundary, dimensions, dtype):
    """As above, with a sum of three. In a plane the curl of ψ e_z is (∂ψ/∂y, −∂ψ/∂x)."""
    same = params(dimensions, accuracy, boundary)
    sizes = Magnitudes(SHAPES[dimensions], 1, accuracy, boundary)
    if dimensions == 2:
        f = random_field(SHAPES[2], dtype)
        gradient = client.out("gradient", f=f, **same)
        curl = {"x": gradient["y"], "y": -gradient["x"]}
        terms = 2 * sizes.along("x", sizes.along("y", np.abs(f.astype("f8"))))
    else:
        f = {a: random_field(SHAPES[3], dtype, seed) for seed, a in enumerate("xyz")}
        curl = client.out("curl", f=f, **same)
        assert all(np.abs(part).max() > 0.5 for part in curl.values())
        terms = sum(2 * sizes.along(b, sizes.along(c, np.abs(f[a].astype("f8"))))
                    for a, b, c in ("xyz", "yzx", "zxy"))
    divergence = client.out("divergence", f=curl, **same)
    # Inside: a chain and a difference; around it: a chain and two sums.
    count = (2 * row_points(1, accuracy, boundary) + 3) / 2 + 1
    assert_below(divergence, count * epsilon(dtype) * terms)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_divergence_of_curl_on_staggered_points(client, accuracy, boundary, dtype):
    """ψ in the corners of cells, its curl on their faces, the divergence in their middle."""
    psi = random_field(SHAPES[2], dtype)
    same = params(2, accuracy, boundary)

    for stagger in ({"x": "forward", "y": "forward"}, {"x": "forward", "y": "backward"}):
        def derivative(f, axis):
            return client.out("derivative", f=f, axis=axis, stagger=stagger[axis], **same)

        u, v = derivative(psi, "y"), -derivative(psi, "x")
        ux, vy = derivative(u, "x"), derivative(v, "y")
        assert np.abs(ux).max() > 0.5
        size = 1.0
        for a, n in zip("yx", SHAPES[2]):
            kinds = {boundary, boundary.replace("mixed", "derivative")}  # v f and the rest may cancel
            rows = [exact.axis(n, 1, accuracy, kind, stagger=STAGGER[stagger[a]], mixed=[V * SPACING[a]] * 2)
                    for kind in kinds]
            size *= sum(np.abs(exact.matrix(made)).sum(1).max() for made in rows) / SPACING[a]
        count = (2 * row_points(1, accuracy, boundary) + 1) / 2 + 1
        assert np.abs(ux.astype("f8") + vy).max() <= 2 * count * epsilon(dtype) * size * 2


STAGGER = {"forward": Fraction(1, 2), "backward": Fraction(-1, 2)}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("boundary", ["periodic", "endpoint", "symmetric"])
def test_staggered_there_and_back(client, boundary, dtype):
    """At accuracy 2 the difference of differences is the second derivative."""
    f = repeated(random_field(SHAPES[1], dtype), boundary)
    same = params(1, 2, boundary)
    half = client.out("derivative", f=f, stagger="forward", **same)
    if boundary == "symmetric":  # half a cell off it is antisymmetric about the outermost point itself
        same |= {"boundary": "periodic"}
    there = client.out("derivative", f=half, stagger="backward", **same)
    there = there[1:-1] if boundary == "symmetric" else there
    second = client.out("derivative", f=f, order=2, **params(1, 2, boundary))
    second = second[1:-1] if boundary == "symmetric" else second
    assert np.abs(there.astype("f8") - second).max() <= 8 * epsilon(dtype) * 8 / SPACING["x"] ** 2


def period(f, boundary):
    """Without the points that repeat the first."""
    return f[(slice(None, -1),) * f.ndim] if boundary == "endpoint" else f


def repeated(f, boundary):
    return np.pad(period(f, boundary), (0, 1), mode="wrap") if boundary == "endpoint" else f


def total(f):
    """Σ, exact but for one rounding in the end."""
    return math.fsum(f.ravel().astype("f8"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("boundary", ["periodic", "endpoint"])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_sum_of_periodic_derivatives(client, accuracy, boundary, dimensions, dtype):
    """Each weight multiplies each point once, and the weights sum to 0 (rounded: to Σ|w| u)."""
    f = repeated(random_field(SHAPES[dimensions], dtype), boundary)
    same = params(dimensions, accuracy, boundary)
    size = np.abs(f.astype("f8"))
    count = (row_points(4, accuracy) + 1) / 2 + 1
    for order in (1, 2, 3, 4):
        sizes = Magnitudes(f.shape, order, accuracy, boundary)
        sums = {a: total(period(sizes.along(a, size), boundary)) for a in sizes.axes}
        for a in sizes.axes:
            out = client.out("derivative", f=f, axis=a, order=order, accuracy=accuracy,
                             spacing={a: SPACING[a]}, **BOUNDARIES[boundary])
            assert abs(total(period(out, boundary))) <= count * epsilon(dtype) * sums[a]
            for stagger in ("forward", "backward"):
                out = client.out("derivative", f=f, axis=a, order=order, accuracy=accuracy, stagger=stagger,
                                 spacing={a: SPACING[a]}, **BOUNDARIES[boundary])
                # Its weights' sum is larger: of points that are nearer together.
                assert abs(total(period(out, boundary))) <= 2**order * count * epsilon(dtype) * sums[a]
        if order > 2:
            continue
        # The terms of all axes in one chain, or each in its own and then two sums.
        method, along = ("divergence", {a: f for a in sizes.axes}) if order == 1 else ("laplacian", f)
        out = client.out(method, f=along, **same)
        most = (dimensions * count + 1) * epsilon(dtype) * sum(sums.values())
        assert abs(total(period(out, boundary))) <= most


# Walls without flux, at the outermost node (whose cell is half a one) and half a cell outside.
CLOSED = {"no-flux": {"boundary": {"derivative": 0}}, "mirror": {"boundary": "mirror"},
          "no-flux at the face": {"boundary": {"derivative": 0, "at": "face"}},
          "symmetric": {"boundary": "symmetric"}}
STEPS = 41  # odd: the result is in the other array than after an even number


def mass(u, boundary):
    """The field's sum; with mirrors at the edge nodes, by the trapezoidal rule."""
    u = period(u, boundary).astype("f8")
    if boundary in ("no-flux", "mirror"):
        for axis in range(u.ndim):
            ends = np.ones(u.shape[axis])
            ends[[0, -1]] = 0.5
            u = u * ends.reshape([-1 if k == axis else 1 for k in range(u.ndim)])
    return total(u)


def coefficient(shape, boundary, dtype):
    """A rough κ > 0."""
    return repeated(np.random.default_rng(9).uniform(0.25, 1.0, shape).astype(dtype), boundary)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("boundary", ["periodic", "endpoint", *CLOSED])
@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("field", [False, True])
def test_mass(client, field, accuracy, boundary, dimensions, dtype):
    """Diffusion conserves it; of ∇·(κ∇u) the flux out of a point is the flux into another: rows are symmetric.
    The error of a step is (m + 1)u Σ|w| Σ|u|, with m points on each axis (twice as many of a field κ) and the
    identity. Below its limit no step makes the field larger in the mean square (with no flux: that of its periodic
    extension by reflection, 2 points for each along an axis), and Σ|u| is at most √points times that."""
    shape, spacing = SHAPES[dimensions], {a: SPACING[a] for a in "xyz"[:dimensions]}
    u = repeated(random_field(shape, dtype), boundary)
    where = CLOSED[boundary] if boundary in CLOSED else BOUNDARIES[boundary]
    kappa = dict(zip(spacing, (1.0, 0.5, 0.25)))
    reply = client.call("diffusion", f=u, steps=STEPS, cfl=0.5 if field else 0.9, accuracy=accuracy, spacing=spacing,
                        diffusivity=coefficient(shape, boundary, dtype) if field else kappa, **where)
    magnitude = float(sum(map(abs, exact.centred(2, accuracy).weights)))
    weights = 1 + sum((2 if field else kappa[a]) * reply["dt"] / h**2 * magnitude for a, h in spacing.items())
    count = (dimensions * (1 + field) * row_points(2, accuracy) + 1) / 2 + 1
    images = 2**dimensions if boundary in CLOSED else 1
    most = math.sqrt(images * u.size) * math.sqrt(images * np.sum(u.astype("f8") ** 2))
    tolerance = STEPS * count * epsilon(dtype) * weights * most
    change = mass(reply["out"], boundary) - mass(u, boundary)
    assert abs(change) <= tolerance, (change, tolerance)
    # The field has changed, and the tolerance is small compared with the mass.
    assert np.abs(reply["out"] - u).max() > (0.2 if field else 0.5)
    assert tolerance < (0.04 if field else 0.02) * mass(u, boundary)


@pytest.mark.parametrize("contrast", [4.0, 1e6])
@pytest.mark.parametrize("shape", [(24,), (11, 12)])
@pytest.mark.parametrize("boundary", ["periodic", "symmetric", "antisymmetric"])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_matrix_of_a_field_of_coefficients(client, accuracy, boundary, shape, contrast):
    """∇·(k∇) is symmetric to the bit away from the diagonal, and maps a constant to 0 except where −f is beyond
    an edge. Its eigenvalues lie between 0 and that of the largest k. (A point that occurs twice, itself and as
    an image, sums two products: to rounding there.)"""
    n = int(np.prod(shape))
    k = np.broadcast_to(contrast ** -np.random.default_rng(9).uniform(0, 1, shape), (n, *shape))
    made = client.out("laplacian", f=np.eye(n).reshape(n, *shape), coefficient=np.ascontiguousarray(k),
                      batch=1, accuracy=accuracy, boundary=boundary).reshape(n, n).T
    off = made - np.diag(np.diag(made))
    if boundary == "periodic":
        np.testing.assert_array_equal(off, off.T)
    np.testing.assert_allclose(off, off.T, rtol=0, atol=4 * np.finfo("f8").eps)
    if boundary != "antisymmetric":
        assert np.abs(made.sum(1)).max() <= 64 * np.finfo("f8").eps
    eigenvalues = np.linalg.eigvalsh((made + made.T) / 2)
    assert eigenvalues.max() <= 1e-12 and eigenvalues.min() < -1
    assert eigenvalues.min() >= -len(shape) * SYMBOL[accuracy] * k.max() - 1e-12


def sides_of(kind):
    """A kind of boundary as a parameter; its value lies within the field's range."""
    return {"periodic": {}, "endpoint": {"endpoint": True}, "value": {"boundary": {"value": 0.5}},
            "halo": {"boundary": {"halo": 1.0}}, "antisymmetric": {"boundary": "antisymmetric"}, **CLOSED}[kind]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("boundary", ["periodic", "endpoint", "value", "halo", "antisymmetric", *CLOSED])
@pytest.mark.parametrize("field", [False, True])
def test_maximum_principle(client, field, boundary, dimensions, dtype):
    """At accuracy 2, within its limit, a new value is a mean of old ones with weights ≥ 0, so no step leaves the
    range of the previous one; the weights sum to 1 within (m + 1) u. This also holds for a field κ, where a
    difference is multiplied by a mean of two of its values."""
    u = repeated(random_field(SHAPES[dimensions], dtype), boundary)
    same = dict(accuracy=2, spacing={a: SPACING[a] for a in "xyz"[:dimensions]}, **sides_of(boundary))
    if field:
        same |= dict(diffusivity=coefficient(SHAPES[dimensions], boundary, dtype))
    tolerance = ((3 * dimensions + 1) * 2 / 2 + 1) * epsilon(dtype) * float(np.abs(u).max()) * (1 + 3 * field)
    for cfl in (0.5, 1.0):
        v = u
        for _ in range(4):
            low, high = float(v.min()) - tolerance, float(v.max()) + tolerance
            if boundary == "antisymmetric":  # −u is beyond the edge
                low, high = min(low, -high), max(high, -low)
            v = client.out("diffusion", f=v, steps=1, cfl=cfl, **same)
            assert v.min() >= low and v.max() <= high
        at_once = client.out("diffusion", f=u, steps=4, cfl=cfl, **same)
        np.testing.assert_array_equal(at_once, v)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_limits_of_the_maximum_principle(client, accuracy, dimensions):
    """A higher accuracy has negative weights and overshoots at a jump within its limit; accuracy 2 overshoots
    beyond its limit."""
    u = np.zeros(SHAPES[dimensions])
    u[tuple(n // 2 for n in u.shape)] = 1.0
    beyond = accuracy == 2
    step = client.call("diffusion", f=u, steps=1, cfl=1.0, accuracy=accuracy)
    dt = step["dt"] * (1.1 if beyond else 0.5)
    out = client.out("diffusion", f=u, steps=1, dt=dt, allow_unstable=beyond, accuracy=accuracy)
    assert out.min() < -1e-3
    assert step["out"].min() >= 0 or not beyond


UNIFORM = [("derivative", {"order": order} | stagger) for order in (1, 2, 3, 4)
           for stagger in ({}, {"stagger": "forward"}, {"stagger": "backward"})] + [
    ("interpolate", {"stagger": "forward"}), ("interpolate", {"stagger": "backward"}), ("laplacian", {}),
    ("biharmonic", {}), ("gradient", {}), ("divergence", {}), ("curl", {})]


@pytest.mark.parametrize("boundary", ["one-sided", "value face", "derivative", "mixed", "curvature face"])
@pytest.mark.parametrize("method, more", UNIFORM, ids=lambda value: str(value))
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_a_uniform_axis_is_its_coordinates(client, accuracy, method, more, boundary):
    """The same polynomials through the same points, up to the edge. With steps of a power of two the weights are
    the same numbers, and only the order of the sums differs."""
    shape = (19, 17) if method in ("gradient", "divergence", "curl", "biharmonic", "laplacian") else (19,)
    f = random_field(shape, "f8")
    f = dict(zip("xy", (f, f[::-1].copy()))) if method in ("divergence", "curl") else f
    steps = dict(zip("xy", (0.5, 0.25)))
    coordinates = {a: h * np.arange(n) for (a, h), n in zip(steps.items(), reversed(shape))}
    even, uneven = (client.out(method, f=f, accuracy=accuracy, boundary=sides.word(boundary, 0.0, V),
                               spacing={a: spacing[a] for a in "xy"[:len(shape)]}, **more)
                    for spacing in (steps, coordinates))
    for one, other in zip(*(out.values() if isinstance(out, dict) else [out] for out in (even, uneven))):
        assert np.abs(one - other).max() <= 1e-12 * np.abs(one).max()


def test_gradient_beside_held_nodes(client):
    """Every component reads a node that holds a value as that value; a single derivative does not. If no side of
    another axis has such nodes, or a halo, the two have the same bits."""
    f = random_field((19, 21, 23), "f8")
    for accuracy in ACCURACIES:
        alone = {a: client.out("derivative", f=f, axis=a, accuracy=accuracy) for a in "xyz"}
        free = client.out("gradient", f=f, accuracy=accuracy)
        held = client.out("gradient", f=f, accuracy=accuracy, boundary={"y": {"value": 0.5}})
        read = f.copy()
        read[:, [0, -1]] = 0.5
        for a in "xyz":
            assert free[a].tobytes() == alone[a].tobytes()
        for a in "xz":
            again = client.out("derivative", f=read, axis=a, accuracy=accuracy)
            assert held[a].tobytes() == again.tobytes() != alone[a].tobytes()


@pytest.mark.parametrize("method", ["laplacian", "biharmonic", "diffusion"])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_an_axis_of_one_point_is_an_axis(client, accuracy, method):
    """Periodic: odd derivatives along it are 0, even ones 0 to rounding, and it counts in dt_max."""
    f = random_field((1, 23), "f8")
    same = dict(accuracy=accuracy, **({"dt": 0.1} if method == "diffusion" else {}))
    plane, line = client.out(method, f=f, **same), client.out(method, f=f[0], **same)
    assert 0 < np.abs(plane[0] - line).max() < 1e-13
    for order in (1, 3):
        assert not client.out("derivative", f=f, axis="y", order=order, accuracy=accuracy).any()
    assert not client.out("gradient", f=f, accuracy=accuracy)["y"].any()
    if method == "diffusion":
        largest = [client.call(method, f=u, accuracy=accuracy, cfl=1.0, dry_run=True)["dt_max"] for u in (f, f[0])]
        assert largest[1] == 2 * largest[0]
        adi = [client.out(method, f=u, dt=3.0, steps=2, scheme="adi") for u in (f, f[0])]
        assert adi[0].tobytes() == adi[1].tobytes()


@pytest.mark.parametrize("boundary", ["mixed", "mixed face", "derivative face", "value face", "one-sided", "mirror"])
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_biharmonic_is_a_sum(client, accuracy, boundary):
    """∂⁴x f + ∂⁴y f + 2 ∂²y(∂²x f), sides along x alone. The value at a mixed face is computed once, by the
    polynomial of the fourth derivative's rows, for ∂²x too, unlike in a single second derivative."""
    f, c = random_field((23, 29), "f8"), 0.3
    word = {"x": sides.word(boundary, 0.0 if boundary in ("one-sided", "mirror") else c, V)}
    whole = client.out("biharmonic", f=f, accuracy=accuracy, boundary=word)
    inner = dict(word)
    if boundary == "mixed face":
        row = exact.at_face(4, accuracy)
        weights, e = np.array([float(w) for w in row.weights]), float(row.data)
        for side, line in (("-", f), ("+", f[:, ::-1])):
            at_face = (line[:, :len(weights)] @ weights + e * c) / (1 + e * V)
            inner["x" + side] = {"derivative": (c - V * at_face).tolist(), "at": "face"}
        del inner["x"]
    along = {a: client.out("derivative", f=f, axis=a, order=4, accuracy=accuracy, boundary=word if a == "x" else
                           "periodic") for a in "xy"}
    second = client.out("derivative", f=f, axis="x", order=2, accuracy=accuracy, boundary=inner)
    across = client.out("derivative", f=second, axis="y", order=2, accuracy=accuracy)
    size = np.abs(along["x"]) + np.abs(along["y"]) + np.abs(2 * across)
    assert np.abs(whole - (along["x"] + along["y"] + 2 * across)).max() < 1e-12 * size.max()


@pytest.mark.parametrize("coordinates", [False, True])
def test_where_two_sides_meet(client, coordinates):
    """A point that two sides hold belongs to that of x, then of y. A halo of a curl is its component's."""
    f = {a: random_field((15, 16, 17), "f8") + k for k, a in enumerate("xyz")}
    spacing = {a: np.arange(n) * 0.5 for a, n in zip("xyz", (17, 16, 15))} if coordinates else 0.5
    same = dict(accuracy=2, spacing=spacing, boundary={"x": {"halo": 0.5}, "y": {"halo": -2.0}, "z": "one-sided"})
    curl = client.out("curl", f=f, **same)
    for out, given in ((client.out("laplacian", f=f["x"], **same), f["x"]), *((curl[a], f[a]) for a in "xyz")):
        np.testing.assert_array_equal(out[..., [0, -1]], 0.5 * given[..., [0, -1]])
        np.testing.assert_array_equal(out[:, [0, -1], 2:-2], -2 * given[:, [0, -1], 2:-2])
    for x, y in ((lambda e: 0 * e + 7, lambda e: -2 * e), (lambda e: -2 * e, lambda e: 0 * e + 7)):
        sides_of = [{"value": 7.0} if side(1.0) == 7 else {"halo": -2.0} for side in (x, y)]
        out = client.out("diffusion", f=f["x"], accuracy=2, spacing=spacing, dt=0.01, steps=1,
                         boundary={"x": sides_of[0], "y": sides_of[1], "z": "mirror"})
        np.testing.assert_array_equal(out[..., [0, -1]], x(f["x"][..., [0, -1]]))
        np.testing.assert_array_equal(out[:, [0, -1], 2:-2], y(f["x"][:, [0, -1], 2:-2]))


@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_values_at_the_edges(client, accuracy):
    """Values other than 0: the steady state between them is a straight line, which is kept to rounding."""
    n = 33
    x = np.linspace(0, 1, n)
    mode = np.sin(np.pi * x)
    line = 2 - 3 * x
    h, kappa = 1 / (n - 1), 1.0
    dt = 0.3 * h * h
    params = dict(steps=60, dt=dt, accuracy=accuracy, spacing=h, diffusivity=kappa)
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

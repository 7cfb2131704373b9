"""Schemes in time: RK4 is of order 4, ADI is Crank–Nicolson in 1D and of order 2 in 2D and 3D at any
step, sources and probes have their defined values, and every scheme can be stopped and resumed."""

import itertools

import numpy as np
import pytest
import scipy.linalg

import matrices

H, KAPPA = 0.3, 0.7

# Boundaries of ADI: the row at the low edge as weights of u_0, u_1 and of the datum, over h².
EDGES = {
    "value": ({"value": 0.4}, None),
    "value at the face": ({"value": 0.4, "at": "face"}, (-4, 4 / 3, 8 / 3 * 0.4)),
    "derivative": ({"derivative": -0.8}, (-2, 2, 2 * H * -0.8)),
    "derivative at the face": ({"derivative": -0.8, "at": "face"}, (-1, 1, H * -0.8)),
    "mixed": ({"mixed": 1.5, "const": 0.6}, (-2 - 2 * H * 1.5, 2, 2 * H * 0.6)),
    "mixed at the face": ({"mixed": 1.5, "const": 0.6, "at": "face"},
                          tuple(w / (1 + 3 / 8 * H * 1.5)
                                for w in (-1 - 1.5 * H * 1.5, 1 + H * 1.5 / 2, H * 0.6))),
    "curvature": ({"curvature": 0.9}, (0, 0, H**2 * 0.9)),
    "halo": ({"halo": 1.0}, None),
    "symmetric": ({"type": "symmetric"}, (-1, 1, 0)),
    "mirror": ({"type": "mirror"}, (-2, 2, 0)),
    "antisymmetric": ({"type": "antisymmetric"}, (-3, 1, 0)),
}


def rate_of(n, low, high):
    """du/dt = A u + b of accuracy 2."""
    a = np.diag(np.full(n - 1, 1.0), -1) + np.diag(np.full(n, -2.0)) + np.diag(np.full(n - 1, 1.0), 1)
    b = np.zeros(n)
    if low == "periodic":
        a[0, -1] += 1
        a[-1, 0] += 1
        return a * KAPPA / H**2, b
    for name, edge, inner in ((low, 0, 1), (high, -1, -2)):
        row = EDGES[name][1]
        a[edge] = 0
        if row:
            a[edge, edge], a[edge, inner], b[edge] = row
    return a * KAPPA / H**2, b * KAPPA / H**2


def sides(low, high):
    if low == "periodic":
        return "periodic"
    return {"x-": EDGES[low][0], "x+": EDGES[high][0]}


def imposed(u, low, high):
    u = u.copy()
    for name, edge in ((low, 0), (high, -1)):
        if name == "value":
            u[edge] = EDGES[name][0]["value"]
    return u


PAIRS = [("periodic", "periodic"), *itertools.product(EDGES, EDGES)]


@pytest.mark.parametrize("factor", [0.3, 5.0, 1000.0])
@pytest.mark.parametrize("n", [2, 3, 23])
def test_adi_is_crank_nicolson_in_1d(client, factor, n):
    steps, dt = 3, factor * H**2 / KAPPA
    u = np.random.default_rng(1).standard_normal(n)
    for low, high in PAIRS:
        a, b = rate_of(n, low, high)
        expected = imposed(u, low, high)
        for _ in range(steps):
            expected = np.linalg.solve(np.eye(n) - dt / 2 * a, (np.eye(n) + dt / 2 * a) @ expected + dt * b)
        out = client.out("diffusion", f=u, spacing=H, diffusivity=KAPPA, boundary=sides(low, high), dt=dt,
                         steps=steps, scheme="adi")
        worst = np.abs(out - expected).max()
        assert worst <= 1e-12 * max(1, np.abs(expected).max()) * (1 + factor / 50), (low, high, worst)


@pytest.mark.parametrize("kind", EDGES)
def test_adi_needs_two_points_along_an_axis(client, kind):
    for other, scheme in itertools.product(EDGES, ("number", "field")):
        if scheme == "field" and {"curvature", "value at the face", "mixed at the face",
                                  "derivative at the face"} & {kind, other}:
            continue
        params = {"boundary": {"x": "periodic", "y-": EDGES[kind][0], "y+": EDGES[other][0]}, "dt": 0.5,
                  "scheme": "adi"}
        if scheme == "field":
            params |= {"diffusivity": np.ones((2, 4)), "source": np.ones((2, 4))}
        assert np.isfinite(client.out("diffusion", f=np.ones((2, 4)), **params)).all()
        if kind == other == "halo":
            continue
        one = {key: value[:1] if isinstance(value, np.ndarray) else value for key, value in params.items()}
        error = client.refused("diffusion", f=np.ones((1, 4)), **one)
        assert "needs 2 points along y; got 1" in error.message
        assert error.parameter in ("boundary y-", "boundary y+")


@pytest.mark.parametrize("shape", [(13, 12), (7, 6, 5), (3, 2), (2, 3, 2)])
def test_adi_is_stable_at_any_step(client, shape):
    """100 times the limit of forward Euler: no eigenvalue outside the unit circle."""
    for name in ["periodic", *EDGES]:
        boundary = "periodic" if name == "periodic" else dict(EDGES[name][0])
        for key in ("value", "derivative", "const", "curvature"):
            if isinstance(boundary, dict) and key in boundary:
                boundary[key] = 0.0
        dt = 100 * 2 / (4 * len(shape))
        matrix = matrices.of_job(client, shape, dt=dt, steps=1, scheme="adi", boundary=boundary)
        assert matrices.radius(matrix) <= 1 + 1e-10, name
        power = np.linalg.matrix_power(matrix, 1 << 14)
        assert np.abs(power).max() <= 10, name


def orders(errors):
    return np.log2(np.array(errors[:-1]) / errors[1:])


@pytest.mark.parametrize("shape", [(31,), (17, 12), (9, 8, 7)])
def test_adi_is_of_order_2(client, shape):
    """Against the semidiscrete solution, of the rates along each axis, in 1D, 2D and 3D."""
    u = np.random.default_rng(2).standard_normal(shape)
    rates = [rate_of(n, "symmetric", "antisymmetric")[0] for n in shape]
    time = 0.5
    # Smooth: rough data show an order only at much smaller steps.
    for axis, rate in enumerate(rates):
        u = np.moveaxis(np.tensordot(scipy.linalg.expm(rate * 0.5), u, (1, axis)), 0, axis)
    expected = u
    for axis, rate in enumerate(rates):
        expected = np.moveaxis(np.tensordot(scipy.linalg.expm(rate * time), expected, (1, axis)), 0, axis)
    boundary = {f"{name}{side}": {"type": word} for name in "xyz"[:len(shape)]
                for side, word in (("-", "symmetric"), ("+", "antisymmetric"))}
    errors = []
    for steps in (8, 16, 32, 64):
        out = client.out("diffusion", f=u, spacing=H, diffusivity=KAPPA, boundary=boundary, steps=steps,
                         dt=time / steps, scheme="adi")
        errors.append(np.abs(out - expected).max())
    assert np.abs(orders(errors)[1:] - 2).max() < 0.1, errors


# --- RK4, sources ---

KINDS = ["periodic", {"value": 0.0}, {"value": 0.0, "at": "face"}, {"derivative": 0.0},
         {"derivative": 0.0, "at": "face"}, {"mixed": 1.5}, {"mixed": 1.5, "at": "face"}, {"curvature": 0.0},
         {"curvature": 0.0, "at": "face"}, {"halo": 1.0}, {"type": "symmetric"}, {"type": "mirror"},
         {"type": "antisymmetric"}]


@pytest.mark.parametrize("accuracy", [2, 4, 6, 8])
def test_rk4_is_the_fourth_order_polynomial_of_eulers_matrix(client, accuracy):
    """A step of forward Euler is 1 + z, one of RK4 1 + z + z²/2 + z³/6 + z⁴/24, of the same z."""
    shape = (17,)
    for kind in KINDS:
        dt = 0.1 / (1 + accuracy)
        params = {"accuracy": accuracy, "boundary": kind, "dt": dt, "steps": 1}
        z = matrices.of_job(client, shape, **params) - np.eye(*shape * 2)
        powers = [np.linalg.matrix_power(z, k) for k in range(5)]
        expected = sum(p / f for p, f in zip(powers, (1, 1, 2, 6, 24)))
        out = matrices.of_job(client, shape, scheme="rk4", **params)
        if isinstance(kind, dict) and kind.get("value") == 0.0 and "at" not in kind:
            expected[:, [0, -1]] = 0  # imposed before the first step
        assert np.abs(out - expected).max() < 1e-14 * accuracy, kind


@pytest.mark.parametrize("shape", [(19,), (12, 13), (11, 10, 12)])
def test_rk4_is_of_order_4(client, shape):
    """Against expm of the rate, on a fixed grid, with data and a source that do not change."""
    random = np.random.default_rng(3)
    source = random.standard_normal(shape)
    boundary = {"x-": {"value": 0.3}, "x+": {"derivative": -0.5, "at": "face"}}
    points = int(np.prod(shape))
    u = random.standard_normal(shape)
    u[..., 0] = 0.3
    dt = 1e-3
    params = {"accuracy": 4, "boundary": boundary, "diffusivity": KAPPA, "source": source}
    zero = {"x-": {"value": 0.0}, "x+": {"derivative": 0.0, "at": "face"}}
    matrix = matrices.of_job(client, shape, **params | {"boundary": zero, "dt": dt,
                                                        "source": np.zeros((points, *shape))})
    rate = (matrix - np.eye(points)) / dt
    held = np.zeros(shape, bool)
    held[..., 0] = True
    rate[held.ravel()] = rate[:, held.ravel()] = 0  # by the boundary, which is constant
    constant = (client.out("diffusion", f=u, dt=dt, steps=1, **params) - u).ravel() / dt - rate @ u.ravel()
    whole = np.zeros((points + 1, points + 1))
    whole[:-1, :-1], whole[:-1, -1] = rate, constant
    dt_max = 2.785 / matrices.radius(rate)
    time = 2 * dt_max
    expected = (scipy.linalg.expm(whole * time) @ np.append(u.ravel(), 1))[:-1].reshape(shape)
    errors = [np.abs(client.out("diffusion", f=u, dt=time / steps, steps=steps, scheme="rk4", **params)
                     - expected).max() for steps in (16, 32, 64)]
    assert np.abs(orders(errors)[-1] - 4) < 0.2, errors


@pytest.mark.parametrize("scheme", ["forward-euler", "rk4", "adi"])
def test_source(client, scheme):
    """Without fluxes u grows by s dt each step; a number equals a constant field."""
    random = np.random.default_rng(4)
    u, s = random.standard_normal((2, 9, 8))
    params = {"dt": 0.25, "steps": 3, "scheme": scheme, "accuracy": 2}
    still = client.out("diffusion", f=u, diffusivity=0.0, source=s, **params)
    assert np.abs(still - (u + 0.75 * s)).max() < 1e-15 * 8
    flow = params | {"dt": 0.0625}
    number = client.out("diffusion", f=u, source=0.625, **flow)
    field = client.out("diffusion", f=u, source=np.full(u.shape, 0.625), **flow)
    assert number.tobytes() == field.tobytes()


# --- stop and resume ---

SCHEMES = {**{f"euler, accuracy {accuracy}": {"accuracy": accuracy} for accuracy in (2, 4, 6, 8)},
           "euler with a source": {"source": 0.3}, "rk4": {"scheme": "rk4"},
           "rk4 with a source": {"scheme": "rk4", "source": -0.2}, "adi": {"scheme": "adi", "accuracy": 2}}
STEPS = 23


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("boundary", [*KINDS, {"value": 0.25}, {"x-": {"value": -1.5}, "x+": {"derivative": 0},
                                                               "*": {"halo": 1.0}}], ids=str)
def test_pieces_have_the_bits_of_the_whole(client, scheme, boundary):
    """In place, in pieces of any length."""
    if scheme == "adi" and boundary == {"curvature": 0.0, "at": "face"}:
        pytest.skip("not for ADI")
    random = np.random.default_rng(5)
    for shape, dtype in itertools.product([(97,), (31, 45), (15, 13, 14)], ["f4", "f8"]):
        u = random.standard_normal(shape).astype(dtype)
        params = {"accuracy": 4, "dt": 0.02, "boundary": boundary} | SCHEMES[scheme]
        whole = client.out("diffusion", f=u, steps=STEPS, **params)
        for pieces in ([8, 15], [1, 2, 1, 4, 2, 13]):
            assert sum(pieces) == STEPS
            field = client.put(u)
            for steps in pieces:
                client.call("diffusion", f={"field": field}, out={"field": field}, steps=steps, **params)
            assert client.get(field).tobytes() == whole.tobytes(), (shape, dtype, pieces)
            client.free(field)
        assert np.isfinite(whole).all() and (whole != u).any()


# --- probes ---

PROBED = {"euler": {"cfl": 0.9}, "euler with values": {"cfl": 0.9, "boundary": {"value": 0.25}},
          "euler by tables": {"dt": 0.02, "boundary": {"mixed": 1.0, "const": 0.5}},
          "rk4": {"cfl": 0.9, "scheme": "rk4"}, "adi": {"dt": 3.0, "scheme": "adi"}}


@pytest.mark.parametrize("params", PROBED.values(), ids=PROBED)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_probes_are_the_field_at_every_step(client, params, dtype):
    random = np.random.default_rng(6)
    u = random.standard_normal((3, 14, 15, 16)).astype(dtype)
    probes = [[0, 0, 0, 0], [2, 13, 14, 15], [1, 7, 3, 0], [-1, -2, 0, -16], [1, 7, 3, 0]]
    result = client.call("diffusion", f=u, batch=1, steps=5, probes=probes, **params)
    assert result["probes"].shape == (6, 5) and result["probes"].dtype == dtype
    at = tuple(np.array(probes).T)
    boundary = params.get("boundary", {})
    for step, row in enumerate(result["probes"]):
        field = client.out("diffusion", f=u, batch=1, steps=step, **params) if step else u.copy()
        if step == 0 and "value" in boundary:
            for axis in (1, 2, 3):
                for edge in (0, -1):
                    np.moveaxis(field, axis, 0)[edge] = boundary["value"]
        assert row.tobytes() == field[at].tobytes(), step
    assert result["out"].tobytes() == client.out("diffusion", f=u, batch=1, steps=5, **params).tobytes()


def test_probes_beside_a_field_and_a_report(client):
    u = np.random.default_rng(7).standard_normal((300, 200))
    points = [[k, k] for k in range(100)]
    result = client.call("diffusion", f=u, steps=2000, cfl=1.0, probes=np.array(points), out="field",
                         report=True)
    assert result["probes"].shape == (2001, 100)
    field = client.get(result["out"]["field"])
    assert result["probes"][-1].tobytes() == field[tuple(np.array(points).T)].tobytes()
    assert result["report"]["max"] == field.max()
    client.free(result["out"]["field"])


# --- a field κ ---

FLUX = {"periodic": "periodic", "value": {"value": 0.0}, "derivative": {"derivative": 0.0},
        "derivative at the face": {"derivative": 0.0, "at": "face"}, "symmetric": {"type": "symmetric"},
        "mirror": {"type": "mirror"}, "halo": {"halo": 1.0}}


def flux_matrix(k, kind):
    """∇·(k∇u) of accuracy 2, k between two points their mean; in 1D."""
    n = len(k)
    a = np.zeros((n, n))
    for i in range(n):
        for j in (i - 1, i + 1):
            if kind == "periodic":
                j %= n
            elif not 0 <= j < n:
                if kind not in ("derivative", "mirror"):
                    continue  # nothing flows, or the node does not move
                j = i + (i - j)
            w = (k[i] + k[j]) / 2 / H**2
            a[i, j] += w
            a[i, i] -= w
    if kind in ("value", "halo"):
        a[[0, -1]] = 0
    return a


@pytest.mark.parametrize("kind", FLUX)
@pytest.mark.parametrize("factor", [0.3, 30.0])
def test_adi_with_a_field_of_diffusivity(client, kind, factor):
    random = np.random.default_rng(9)
    u, k = random.standard_normal(25), 0.2 + random.random(25)
    if kind == "value":
        u[[0, -1]] = 0
    dt = factor * H**2
    a = flux_matrix(k, kind)
    expected = u
    for _ in range(3):
        expected = np.linalg.solve(np.eye(25) - dt / 2 * a, (np.eye(25) + dt / 2 * a) @ expected)
    out = client.out("diffusion", f=u, spacing=H, diffusivity=k, boundary=FLUX[kind], dt=dt, steps=3,
                     scheme="adi")
    assert np.abs(out - expected).max() < 1e-12, kind


def test_adi_with_a_field_of_one_number(client):
    """A constant field κ and the same number differ only by rounding."""
    u = np.random.default_rng(10).standard_normal((2, 9, 10))
    params = {"f": u, "batch": 1, "dt": 7.0, "steps": 2, "scheme": "adi",
              "boundary": {"x": {"derivative": 0.0}, "y": {"type": "antisymmetric"}}}
    number = client.out("diffusion", diffusivity=0.7, **params)
    field = client.out("diffusion", diffusivity=np.full(u.shape, 0.7), **params)
    assert np.abs(number - field).max() < 1e-13


# --- ADI with a field κ in space: a symmetric product of Crank–Nicolson steps along one axis ---

MOLD = (6, 5, 4)
ROUGH = {"of two values": lambda random, shape: random.choice([1e-3, 1.0], shape),
         "of three decades": lambda random, shape: np.exp(1.5 * random.standard_normal(shape)),
         "mostly none": lambda random, shape: random.choice([0.0, 1.0], shape, p=[0.7, 0.3])}


def inclusion(shape):
    k = np.ones(shape)
    k[tuple(slice(n // 3, 2 * n // 3) for n in shape)] = 10
    return k


def held_by(shape, *kinds):
    """The points that an axis holds; a kind for each axis, or one for all."""
    held = np.zeros(shape, bool)
    for axis, kind in enumerate(kinds * len(shape) if len(kinds) == 1 else kinds):
        if kind in ("value", "halo"):
            np.moveaxis(held, axis, 0)[[0, -1]] = True
    return held.ravel()


def rate_along(k, axis, kind):
    """The dense matrix of one axis's part of ∇·(k∇u), without points held by other axes."""
    points = np.arange(k.size).reshape(k.shape)
    a = np.zeros((k.size, k.size))
    for line in np.moveaxis(points, axis, -1).reshape(-1, k.shape[axis]):
        a[np.ix_(line, line)] = flux_matrix(k.ravel()[line], kind)
    return a


def cayley(a, dt):
    eye = np.eye(len(a))
    return np.linalg.solve(eye - dt / 2 * a, eye + dt / 2 * a)


def split_step(k, kind, dt):
    held = held_by(k.shape, kind)
    free = np.where(held, 0.0, 1.0)[:, None]
    z, y, x = (cayley(free * rate_along(k, axis, kind), dt / parts) for axis, parts in ((0, 1), (1, 2), (2, 2)))
    imposed = np.where(held & (kind == "value"), 0.0, 1.0)
    return x @ y @ z @ y @ x * imposed


def step_of(client, k, kind, **params):
    points = k.size
    return matrices.of_job(client, k.shape, diffusivity=np.tile(k, (points, 1, 1, 1)), spacing=H, steps=1,
                           scheme="adi", boundary=FLUX[kind], **params)


def lengths(n, kind):
    """The weight of a point in a sum along an axis; 0 for held points."""
    inner = np.ones(n)
    inner[[0, -1]] = {"mirror": 0.5, "derivative": 0.5, "value": 0, "halo": 0}.get(kind, 1)
    return inner


def growth(matrix, shape, kind):
    """The largest growth of a field's mean square in a step."""
    h = np.ones(1)
    for n in shape:
        h = np.kron(h, lengths(n, kind))
    inside, root = h > 0, np.sqrt(h[h > 0])
    return np.linalg.norm(matrix[np.ix_(inside, inside)] * root[:, None] / root, 2) - 1


@pytest.mark.parametrize("dt", [2.0, 1000.0])
@pytest.mark.parametrize("kind", FLUX)
def test_adi_in_space_grows_at_no_step(client, kind, dt):
    """κ rough by orders of magnitude, or 0, with steps up to 10⁵ times the limit of forward Euler."""
    random = np.random.default_rng(11)
    for k in [*(rough(random, MOLD) for rough in ROUGH.values()), inclusion(MOLD)]:
        matrix = step_of(client, k, kind, dt=dt)
        assert np.abs(matrix - split_step(k, kind, dt)).max() < 1e-12 * (1 + dt / H**2 * k.max() / 10)
        assert growth(matrix, MOLD, kind) < 1e-12 * (1 + dt / H**2 * k.max())


@pytest.mark.parametrize("boundary", ["periodic", {"derivative": 0.0}, {"value": 0.0}])
def test_adi_stays_in_range_beside_rough_diffusivity(client, boundary):
    """A field that grew by 6e21 in 300 steps when δ was solved for along all axes at once."""
    random = np.random.default_rng(12)
    u = random.standard_normal((16, 16, 16))
    for k, dt in ((np.exp(random.standard_normal(u.shape)), 2.0), (inclusion(u.shape), 10.0)):
        out = client.out("diffusion", f=u, diffusivity=k, dt=dt, steps=300, scheme="adi", boundary=boundary)
        assert np.sqrt((out**2).mean()) < 1.5 * np.sqrt((u**2).mean())


def problem_in_space(along_z):
    """The rate of all axes, with data and a source: its matrix and its constant term."""
    shape, kinds = (7, 6, 5), (along_z, "mirror", "derivative")
    random = np.random.default_rng(13)
    z, y, x = np.meshgrid(*(np.linspace(0, 1, n) for n in shape), indexing="ij")
    k = np.exp(np.sin(3 * x + 2 * y) + np.cos(2 * z - x))
    source = np.cos(2 * x - y) * np.sin(3 * z + x)
    rate = sum(rate_along(k, axis, kind) for axis, kind in enumerate(kinds))
    constant = source.copy()
    for edge, slope in ((0, 0.8), (-1, -0.4)):
        constant[..., edge] += k[..., edge] * 2 / H * slope
    constant = constant.ravel()
    held = held_by(shape, *kinds)
    rate[held], constant[held] = 0, 0
    params = {"diffusivity": k, "source": source, "spacing": H, "scheme": "adi",
              "boundary": {"x-": {"derivative": 0.8}, "x+": {"derivative": -0.4}, "y": FLUX["mirror"],
                           "z": FLUX[along_z]}}
    return random.standard_normal(shape), rate, constant, params


def test_adi_in_space_is_of_order_2(client):
    """Against expm of the rate, with data, a source and a κ that varies along all axes."""
    u, rate, constant, params = problem_in_space("periodic")
    whole = np.zeros((u.size + 1,) * 2)
    whole[:-1, :-1], whole[:-1, -1] = rate, constant
    time = 0.2
    u = (scipy.linalg.expm(whole * time) @ np.append(u, 1))[:-1].reshape(u.shape)  # smooth
    expected = (scipy.linalg.expm(whole * time) @ np.append(u, 1))[:-1].reshape(u.shape)
    errors = [np.abs(client.out("diffusion", f=u, dt=time / steps, steps=steps, **params) - expected).max()
              for steps in (32, 64, 128)]
    assert np.abs(orders(errors) - 2).max() < 0.1, errors


def test_steady_state_of_adi_in_space_is_good_to_order_2(client):
    """Unlike the form in which all axes share one right side, the steady state depends on the step: its error
    is four times smaller at half the step."""
    u, rate, constant, params = problem_in_space("value")
    free = ~held_by(u.shape, "value", "", "")
    steady = np.zeros(u.size)
    steady[free] = np.linalg.solve(rate[np.ix_(free, free)], -constant[free])
    away = [np.abs(client.out("diffusion", f=u, dt=0.005 / parts, steps=1000 * parts,
                                **params).ravel() - steady).max() for parts in (1, 2, 4)]
    assert away[-1] > 1e-6 and np.abs(orders(away) - 2).max() < 0.1, away


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_adi_in_space_can_be_stopped_and_gone_on_with(client, dtype):
    u, _, _, params = problem_in_space("value")
    u = u.astype(dtype)
    params |= {key: params[key].astype(dtype) for key in ("diffusivity", "source")}
    for boundary in (params["boundary"], {"value": 0.3}, "periodic"):
        params["boundary"] = boundary
        whole = client.out("diffusion", f=u, dt=0.7, steps=7, **params)
        field = client.call("put", f=u)["field"]
        for steps in (3, 1, 2, 1):
            client.call("diffusion", f={"field": field}, out={"field": field}, dt=0.7, steps=steps, **params)
        assert client.call("get", field=field)["out"].tobytes() == whole.tobytes()
        client.free(field)

"""The published tables from which this project began: NVIDIA's nine-point derivatives on 64³, the 2D heat
equation with a decaying frame, and the 3D seven-point stencil. Prints our figures beside the published ones."""

import numpy as np
import pytest

from fdtest import SYMBOL, derivative

N = 64
PUBLISHED_RMS, PUBLISHED_MAX = 7.277675e-06, 2.861023e-05


def show(capsys, text):
    with capsys.disabled():
        print(text)


def cosine(axis, in_float32):
    """cos(2π(i−1)/(n−1)) along `axis` of a 64³ field, and its exact derivative on the unit interval."""
    i = np.arange(N) - 1
    exact = 2 * np.pi * i / (N - 1)
    angle = exact
    if in_float32:  # each operation rounded, as the post computes it
        angle = np.float32(2 * np.pi) * i.astype("f4") / np.float32(N - 1)
        assert angle.dtype == np.float32
    line = np.cos(angle.astype("f8")).astype("f4")
    shape = [1, 1, 1]
    shape["zyx".index(axis)] = N
    field = np.ascontiguousarray(np.broadcast_to(line.reshape(shape), (N, N, N)))
    return field, (-2 * np.pi * np.sin(exact)).reshape(shape)


@pytest.mark.parametrize("input_type, most_rms, most_max", [("float32", 7.3e-6, 2.9e-5),
                                                             ("float64", 1.3e-6, 3.5e-6)])
def test_nine_point_derivative(client, capsys, input_type, most_rms, most_max):
    show(capsys, f"\n64³ float32, nine points, input computed in {input_type}: RMS error, maximum error")
    for axis in "xyz":
        f, exact = cosine(axis, input_type == "float32")
        out = client.out("derivative", f=f, axis=axis, order=1, accuracy=8, spacing=1 / (N - 1),
                         boundary="periodic", endpoint=True)
        assert out.dtype == np.float32 and out.shape == f.shape
        error = out.astype("f8") - exact
        rms, most = np.sqrt(np.mean(error**2)), np.abs(error).max()
        published = f"   published {PUBLISHED_RMS:.6e} {PUBLISHED_MAX:.6e}"
        show(capsys, f"  {axis}  {rms:.6e} {most:.6e}{published if input_type == 'float32' else ''}")
        assert rms <= most_rms and most <= most_max


# Many steps of diffusion in float64, by the derivatives of fdtest.py. Axes are NumPy's: the last is x.

def dt_max(accuracy, spacing, diffusivity=1.0, axes=1):
    spacing = np.broadcast_to(spacing, axes)
    return float(2 / np.sum(np.broadcast_to(diffusivity, axes) * SYMBOL[accuracy] / spacing**2))


def rate(u, accuracy, factors):
    return sum(factor * derivative(u, axis, 2, accuracy) for axis, factor in enumerate(factors))


def diffuse_periodic(u, steps, accuracy, factors):
    """Forward Euler; factors: κ dt/h² by axis."""
    u = u.astype("f8")
    for _ in range(steps):
        u = u + rate(u, accuracy, factors)
    return u


def diffuse_window(u, begin, end, steps, accuracy, factor, halo):
    """The window [begin, end) of a 2D field after `steps`, when each step scales the field's outer frame by
    `halo`. Computes the window and the points that can affect it in that time."""
    radius = accuracy // 2
    low = [max(b - steps * radius, 0) for b in begin]
    high = [min(e + steps * radius, n) for e, n in zip(end, u.shape)]
    part = u[low[0]:high[0], low[1]:high[1]].astype("f8")
    # At a cut that is not an edge of the field, wrong values advance by one radius a step and never
    # reach the window.
    frame = np.ones(part.shape, bool)
    frame[tuple(slice(max(radius - b, 0), n - radius - b) for b, n in zip(low, u.shape))] = False
    for _ in range(steps):
        part = np.where(frame, part * halo, part + rate(part, accuracy, (factor, factor)))
    return part[tuple(slice(b - l, e - l) for b, e, l in zip(begin, end, low))]


HEAT_N, HEAT_STEPS, WINDOW = 4096, 100, 48


def heat_windows(n):
    """Corners, where two frames overlap, an edge, and the interior."""
    middle = n // 2 - 11
    return [(0, 0), (n - WINDOW, n - WINDOW), (middle, n - WINDOW), (middle, middle)]


@pytest.mark.parametrize("accuracy", [2, 4, 8])
@pytest.mark.parametrize("start", ["sin(x)sin(y) float64", "random float32"])
def test_heat_with_decaying_frame(client, capsys, accuracy, start):
    h = 2 * np.pi / (HEAT_N - 1)
    dt = 0.9 * dt_max(accuracy, h, axes=2)
    halo = float(np.exp(-2 * dt))
    if start.startswith("sin"):  # moves by 1e-4 of itself: below what float32 could show
        sine = np.sin(h * np.arange(HEAT_N))
        u0 = np.outer(sine, sine)
    else:
        u0 = np.random.default_rng(accuracy).uniform(-1, 1, (HEAT_N, HEAT_N)).astype("f4")
    u = client.out("diffusion", f=u0, steps=HEAT_STEPS, dt=dt, accuracy=accuracy, spacing=h,
                   boundary={"halo": halo})
    worst = 0.0
    for begin in heat_windows(HEAT_N):
        end = [b + WINDOW for b in begin]
        place = tuple(slice(b, e) for b, e in zip(begin, end))
        expected = diffuse_window(u0, begin, end, HEAT_STEPS, accuracy, dt / h**2, halo)
        change, change_expected = u[place].astype("f8") - u0[place], expected - u0[place]
        worst = max(worst, np.abs(change - change_expected).max() / np.abs(change_expected).max())
    if start.startswith("sin"):
        # The whole field: it decays as a whole.
        change, change_expected = u - u0, (np.exp(-2 * dt * HEAT_STEPS) - 1) * u0
        worst = max(worst, np.abs(change - change_expected).max() / np.abs(change_expected).max())
    show(capsys, f"\nheat 2D {HEAT_N}², {HEAT_STEPS} steps, order {accuracy}, {start}: "
                 f"relative error of the change {worst:.1e} (at most 1e-4)")
    assert worst <= 1e-4


def test_seven_point_stencil(client, capsys):
    shape, steps = (96, 101, 113), 40
    u0 = np.random.default_rng(7).uniform(-1, 1, shape).astype("f4")
    spacing, kappa = {"z": 0.5, "y": 0.75, "x": 1.0}, {"z": 0.5, "y": 1.0, "x": 0.25}
    for equal in (True, False):
        h = np.array([1.0] * 3 if equal else [spacing[a] for a in "zyx"])
        k = np.array([1.0] * 3 if equal else [kappa[a] for a in "zyx"])
        dt = 0.9 * dt_max(2, h, k, axes=3)
        u = client.out("diffusion", f=u0, steps=steps, dt=dt, accuracy=2,
                       spacing=1.0 if equal else spacing, diffusivity=1.0 if equal else kappa)
        change = u.astype("f8") - u0
        expected = diffuse_periodic(u0, steps, 2, k * dt / h**2) - u0
        worst = np.abs(change - expected).max() / np.abs(expected).max()
        show(capsys, f"\ndiffusion 3D, 7 points, {shape}, {steps} steps, float32, "
                     f"{'equal' if equal else 'unequal'} axes: relative error of the change {worst:.1e}")
        assert worst <= 1e-4

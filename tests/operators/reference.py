"""Many steps of diffusion in float64 and NumPy, by the derivatives of fdtest.py. Axes are NumPy's: the last is x."""

import numpy as np

from fdtest import SYMBOL, derivative


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

"""The operators in float64 and NumPy, from textbook fractions, without code of the server.

Axes here are NumPy's: the last one is x.
"""

import numpy as np

RADIUS = {2: 1, 4: 2, 6: 3, 8: 4}

# Second derivative over h²: the centre, then 1, 2, … points away.
SECOND = {2: [-2, 1],
          4: [-5 / 2, 4 / 3, -1 / 12],
          6: [-49 / 18, 3 / 2, -3 / 20, 1 / 90],
          8: [-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560]}

# −h² times the symbol of the second derivative at the grid's highest frequency.
SYMBOL = {2: 4, 4: 16 / 3, 6: 272 / 45, 8: 2048 / 315}


def dt_max(accuracy, spacing, diffusivity=1.0, axes=1):
    spacing = np.broadcast_to(spacing, axes)
    return float(2 / np.sum(np.broadcast_to(diffusivity, axes) * SYMBOL[accuracy] / spacing**2))


def add_second(rate, u, axis, accuracy, factor):
    """rate += factor · h² ∂²u/∂axis² where the stencil lies inside the array."""
    radius, n = RADIUS[accuracy], u.shape[axis]

    def part(array, shift):
        index = [slice(None)] * array.ndim
        index[axis] = slice(radius + shift, n - radius + shift)
        return array[tuple(index)]

    target = part(rate, 0)
    target += factor * SECOND[accuracy][0] * part(u, 0)
    for m, weight in enumerate(SECOND[accuracy][1:], 1):
        target += factor * weight * (part(u, m) + part(u, -m))


def diffuse_periodic(u, steps, accuracy, factors):
    """Forward Euler; factors: κ dt/h² by axis."""
    u = u.astype("f8")
    radius = RADIUS[accuracy]
    for _ in range(steps):
        padded = np.pad(u, radius, mode="wrap")
        rate = np.zeros_like(padded)
        for axis, factor in enumerate(factors):
            add_second(rate, padded, axis, accuracy, factor)
        u = u + rate[(slice(radius, -radius),) * u.ndim]
    return u


def diffuse_window(u, begin, end, steps, accuracy, factor, halo):
    """The window [begin, end) of a 2D field after `steps`, when each step scales the field's outer frame by
    `halo`. Computes the window and the points that can affect it in that time."""
    reach = steps * RADIUS[accuracy]
    low = [max(b - reach, 0) for b in begin]
    high = [min(e + reach, n) for e, n in zip(end, u.shape)]
    part = u[low[0]:high[0], low[1]:high[1]].astype("f8")
    radius = RADIUS[accuracy]
    # At a cut that is not an edge of the field, wrong values advance by one radius a step and never
    # reach the window.
    frame = np.ones(part.shape, bool)
    frame[tuple(slice(max(radius - b, 0), n - radius - b) for b, n in zip(low, u.shape))] = False
    for _ in range(steps):
        rate = np.zeros_like(part)
        add_second(rate, part, 0, accuracy, factor)
        add_second(rate, part, 1, accuracy, factor)
        part = np.where(frame, part * halo, part + rate)
    return part[tuple(slice(b - l, e - l) for b, e, l in zip(begin, end, low))]

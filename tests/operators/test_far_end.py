"""A field of more than 2^31 points (float32, 8.6 GB) is correct at its largest indices and around index
2^31: derivatives along each axis, a Laplacian with every kind of boundary, a stencil and steps of diffusion,
compared with NumPy at those points. On a GPU (FDSERVER_TEST_DEVICE=cuda:0); on every device the same is tested
with a small field."""

import numpy as np
import pytest

import exact
import sides
from fdtest import DEVICE, Region

SMALL, HUGE = (61, 59, 67), (1291, 1291, 1289)  # z, y, x
PERIOD = 1_000_003  # of the values, in C order
BLOCK = 64  # points of an axis on which its rows are made
VALUE, KAPPA, STEPS = 0.375, 0.5, 2
SHAPES = [pytest.param(SMALL, id="small"),
          pytest.param(HUGE, id="huge", marks=pytest.mark.skipif(
              not DEVICE.startswith("cuda"), reason="two fields of 8.6 GB: FDSERVER_TEST_DEVICE=cuda:N"))]


class Field:
    """A resident field, and its values by formula. Results come into one region."""

    def __init__(self, client, shape):
        self.client, self.shape = client, shape
        self.points = int(np.prod(shape))
        self.pattern = np.random.default_rng(3).uniform(-1, 1, PERIOD).astype("f4")
        self.region = Region(4 * self.points)
        self.region.register(client)
        memory = self.region.array("<f4", (self.points,))
        for begin in range(0, self.points, PERIOD):
            part = memory[begin:begin + PERIOD]
            part[:] = self.pattern[:len(part)]
        place = {"region": self.region.id, "offset": 0, "shape": list(shape), "type": "<f4"}
        self.field = client.call("put", f=place)["field"]

    def value(self, at):
        """In doubles; at: (z, y, x), arrays of indices that lie inside."""
        flat = (np.int64(at[0]) * self.shape[1] + at[1]) * self.shape[2] + at[2]
        return self.pattern[flat % PERIOD].astype("f8")

    def result(self, method, **params):
        """The result of a job at the points of places()."""
        memory = self.region.array("<f4", (self.points,))
        memory[self.flat()] = np.nan  # what is there then, the job has written
        self.client.call(method, f={"field": self.field}, out={"region": self.region.id, "offset": 0}, **params)
        return memory[self.flat()].astype("f8")

    def flat(self):
        """The last points, those around 2^31 or the middle, and the corners of the last layer."""
        n, (_, ny, nx) = self.points, self.shape
        middle = 2**31 if n > 2**31 else n // 2
        corners = [n - ny * nx + j * nx + i for j in (0, 1, ny - 1) for i in (*range(8), *range(nx - 8, nx))]
        return np.unique([*range(n - 1200, n), *range(middle - 400, min(middle + 400, n)), *corners])

    def places(self):
        return np.unravel_index(self.flat(), self.shape)


def rows(n, order, accuracy, low, high, diffusion=False):
    """(indices, weights) [n, points] of an axis; with data as two last columns of weights."""
    made = exact.axis(BLOCK, order, accuracy, low, high, diffusion=diffusion)
    count = max(len(row) for row in made)
    index, weights = np.zeros((BLOCK, count), int), np.zeros((BLOCK, count))
    data = np.zeros((BLOCK, 2))
    for i, row in enumerate(made):
        inner = [(j, w) for j, w in row.items() if j not in ("-", "+")]
        for k, (j, w) in enumerate(inner):
            if abs(j - i) > BLOCK // 2:  # around the end
                j += BLOCK if j < i else -BLOCK
            index[i, k], weights[i, k] = j - i, float(w)
        data[i] = [float(row.get(end, 0)) for end in "-+"]
    where = np.arange(n)
    in_block = np.where(where < BLOCK // 2, where,
                        np.where(n - where <= BLOCK // 2, where - n + BLOCK, BLOCK // 2))
    return (where[:, None] + index[in_block]) % n, weights[in_block], data[in_block]


class Along:
    """A derivative along one axis: of a function of points, at points."""

    def __init__(self, axis, shape, order, accuracy, low="periodic", high=None, h=1.0, numbers=(0.0, 0.0),
                 diffusion=False):
        self.k = "zyx".index(axis)
        self.h, self.order, self.sides, self.numbers = h, order, (low, high or low), numbers
        self.rows = rows(shape[self.k], order, accuracy, *self.sides, diffusion)

    def __call__(self, value, at):
        """(derivative, Σ|w f|)."""
        index, weights, data = (part[at[self.k]] for part in self.rows)
        out = size = 0.0
        for j in range(index.shape[1]):
            moved = tuple(index[:, j] if k == self.k else at[k] for k in range(3))
            term = weights[:, j] * value(moved)
            out, size = out + term, size + np.abs(term)
        out, size = out / self.h**self.order, size / self.h**self.order
        for end, (side, number) in enumerate(zip(self.sides, self.numbers)):
            if sides.states_number(side):
                g = number(at) if callable(number) else number
                term = data[:, end] * g / self.h ** (self.order - sides.order_of(side))
                out, size = out + term, size + np.abs(term)
        return out, size


def assert_near(found, right, size, operations):
    assert np.isfinite(found).all()
    over = np.abs(found - right) - operations * float(np.finfo("f4").eps) * size
    assert over.max() <= 0, (over.max(), np.argmax(over))


@pytest.mark.parametrize("shape", SHAPES)
def test_far_end(client, shape):
    field = Field(client, shape)
    at = field.places()
    h = {"x": 0.5, "y": 0.75, "z": 1.25}

    for axis, order, accuracy, low, high in (("x", 1, 8, "periodic", None), ("y", 1, 8, "periodic", None),
                                             ("z", 1, 8, "periodic", None), ("z", 2, 8, "one-sided", None),
                                             ("y", 3, 6, "one-sided", "symmetric")):
        along = Along(axis, shape, order, accuracy, low, high, h[axis])
        found = field.result("derivative", axis=axis, order=order, accuracy=accuracy, spacing={axis: h[axis]},
                             **sides.boundary(axis, low, high or low))
        assert_near(found, *along(field.value, at), order + accuracy + 3)

    # Numbers of faces, one of them an array over the face where z is largest.
    face = np.random.default_rng(4).uniform(-1, 1, shape[1:]).astype("f4")
    stated = {"x": ("value face", "curvature", (0.5, -0.25)),
              "y": ("antisymmetric", "derivative face", (0, 0.75)),
              "z": ("one-sided", "derivative", (0, lambda at: face[at[1], at[2]].astype("f8")))}
    words = {a + end: sides.word(side, face if callable(number) else number)
             for a, (low, high, numbers) in stated.items()
             for end, side, number in (("-", low, numbers[0]), ("+", high, numbers[1]))}
    found = field.result("laplacian", accuracy=6, spacing=h, boundary=words)
    parts = [Along(a, shape, 2, 6, low, high, h[a], numbers)(field.value, at)
             for a, (low, high, numbers) in stated.items()]
    assert_near(found, sum(p[0] for p in parts), sum(p[1] for p in parts), 3 * 9 + 3)

    # A stencil, z first.
    offsets = [(0, 0, 0), (1, 0, 0), (0, -2, 0), (0, 0, 3), (-8, 8, -8), (2, 1, 0)]
    weights = [0.5, -1.0, 0.25, 1.5, -0.75, 2.0]
    found = field.result("stencil", offsets=offsets, weights=weights)
    terms = [w * field.value(tuple((i + o) % n for i, o, n in zip(at, offset, shape)))
             for offset, w in zip(offsets, weights)]
    assert_near(found, sum(terms), sum(map(np.abs, terms)), len(offsets) + 1)

    # Diffusion: the outermost nodes hold a value.
    dt = 0.03
    along = [Along(a, shape, 2, 4, "value", None, h[a], (VALUE, VALUE), diffusion=True) for a in "xyz"]

    def after(steps):
        def value(at):
            held = np.any([(i == 0) | (i == n - 1) for i, n in zip(at, shape)], axis=0)
            if steps == 0:
                return np.where(held, VALUE, field.value(at))
            before = after(steps - 1)
            new = before(at) + KAPPA * dt * sum(part(before, at)[0] for part in along)
            return np.where(held, VALUE, new)
        return value

    found = field.result("diffusion", steps=STEPS, dt=dt, diffusivity=KAPPA, accuracy=4, spacing=h,
                         boundary={"value": VALUE})
    weight = 1 + KAPPA * dt * sum(float(np.abs(part.rows[1]).sum(1).max()) / part.h**2 for part in along)
    assert_near(found, after(STEPS)(at), weight**STEPS, STEPS * 20)
    client.free(field.field)

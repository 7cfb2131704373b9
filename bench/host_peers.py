#!/usr/bin/env python3
"""The host backend as a client sees it, beside NumPy, SciPy and py-pde (numba) on the same cores.

    bench/host_peers.py --build build/release --json FILE [--points N] [--seconds S] [--only TEXT]

Fields of N³ float32 in memory that the server maps. The peers are written as a careful user would: NumPy with
slices of a padded array and results that are used again, SciPy by ndimage.correlate and correlate1d (of ADI by
solve_banded), py-pde by its compiled operators and steppers, on as many threads as it takes. Each result is
compared with the daemon's; the time of a wrong one is not told. A peer that is not installed is left out.
"""

import dataclasses
import itertools
import os
import pathlib
import statistics
import sys
import tempfile
import time
import typing

import numpy
from peers import FIRST, SECOND

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "client/python"))

import fdclient  # noqa: E402
import serving  # noqa: E402

try:
    import scipy
    from scipy import linalg, ndimage
except ImportError:
    scipy = None
try:
    import pde
except ImportError:
    pde = None

BAR = 2
STEPS = 2
HELD = 0.5
DT, DT_ADI = 0.1, 2.0  # on a unit grid
TOLERANCE = 2e-4


# ---- stencils, as taps: {offset along z, y, x: weight} ----

def on_axis(axis, m):
    return tuple(m if a == axis else 0 for a in range(3))


def derivative_taps(axis):
    return {on_axis(axis, s * m): s * w for m, w in enumerate(FIRST[8], 1) for s in (-1, 1)}


def laplacian_taps(accuracy):
    taps = {(0, 0, 0): 3 * SECOND[accuracy][0]}
    for axis, (m, w), s in itertools.product(range(3), enumerate(SECOND[accuracy][1:], 1), (-1, 1)):
        taps[on_axis(axis, s * m)] = w
    return taps


def box_taps(radius, star=False):
    offsets = [o for o in itertools.product(range(-radius, radius + 1), repeat=3)
               if not star or numpy.count_nonzero(o) <= 1]
    return {o: 1 / (k + 3) for k, o in enumerate(offsets)}


# Steps of forward Euler by the Laplacian of accuracy 2.
STEP_TAPS = {o: (o == (0, 0, 0)) + DT * w for o, w in laplacian_taps(2).items()}


# ---- peers: makers that take a field and return a function of it, which computes into memory of its own ----

def numpy_sum(taps, views, out, term):
    for k, (view, w) in enumerate(zip(views, taps.values(), strict=True)):
        numpy.multiply(view, numpy.float32(w), out=term if k else out)
        if k:
            numpy.add(out, term, out=out)


def numpy_taps(taps, mode="wrap"):
    reach = [max(abs(o[a]) for o in taps) for a in range(3)]

    def make(f):
        out, term = numpy.empty_like(f), numpy.empty_like(f)

        def run(f):
            padded = numpy.pad(f, [(r, r) for r in reach], mode)
            views = [padded[tuple(slice(r + o, r + o + n) for r, o, n in zip(reach, offset, f.shape, strict=True))]
                     for offset in taps]
            numpy_sum(taps, views, out, term)
            return out
        return run
    return make


def scipy_box(taps):
    def make(f):
        r = max(abs(o) for offset in taps for o in offset)
        weights = numpy.zeros((2 * r + 1,) * 3, "f4")
        for offset, w in taps.items():
            weights[tuple(o + r for o in offset)] = w
        out = numpy.empty_like(f)
        return lambda f: ndimage.correlate(f, weights, out, mode="wrap")
    return make


def scipy_lines(lines, mode="wrap"):
    """A sum of stencils along axes: [(axis, weights)]."""
    def make(f):
        out, term = numpy.empty_like(f), numpy.empty_like(f)

        def run(f):
            for k, (axis, weights) in enumerate(lines):
                ndimage.correlate1d(f, weights, axis, term if k else out, mode)
                if k:
                    numpy.add(out, term, out=out)
            return out
        return run
    return make


def even_line(accuracy, centre):
    return [*reversed(SECOND[accuracy][1:]), centre, *SECOND[accuracy][1:]]


def scipy_laplacian(accuracy, mode="wrap"):
    return scipy_lines([(a, even_line(accuracy, SECOND[accuracy][0])) for a in range(3)], mode)


def scipy_derivative(axis):
    return scipy_lines([(axis, [-w for w in reversed(FIRST[8])] + [0] + FIRST[8])])


def several(*makers):
    def make(f):
        runs = [maker(f) for maker in makers]
        return lambda f: [run(f) for run in runs]
    return make


def stepped(maker):
    def make(f):
        step = maker(f)

        def run(f):
            for _ in range(STEPS):
                f = step(f)
            return f
        return run
    return make


def euler_of(laplacian):
    def make(f):
        rate, out = laplacian(f), numpy.empty_like(f)

        def run(f):
            change = rate(f)
            numpy.multiply(change, numpy.float32(DT), out=change)
            return numpy.add(f, change, out=out)
        return run
    return stepped(make)


def rk4_of(laplacian):
    """Of a linear equation without a source the four stages are nested."""
    def make(f):
        rate, stage, term = laplacian(f), numpy.empty_like(f), numpy.empty_like(f)

        def run(f):
            last = f
            for part in (4, 3, 2, 1):
                numpy.multiply(rate(last), numpy.float32(DT / part), out=term)
                last = numpy.add(f, term, out=stage)
            return last.copy()
        return run
    return stepped(make)


def faces(f):
    for axis, end in itertools.product(range(3), (0, -1)):
        yield f[tuple(end if a == axis else slice(None) for a in range(3))]


def numpy_held_steps(f):
    """Nodes of the faces are held."""
    buffers, term = [numpy.full_like(f, HELD) for _ in range(2)], numpy.empty_like(f)[1:-1, 1:-1, 1:-1]

    def run(f):
        buffers[0][1:-1, 1:-1, 1:-1] = f[1:-1, 1:-1, 1:-1]
        for step in range(STEPS):
            f, out = buffers[step % 2], buffers[1 - step % 2]
            views = [f[tuple(slice(1 + o, n - 1 + o) for o, n in zip(offset, f.shape, strict=True))]
                     for offset in STEP_TAPS]
            numpy_sum(STEP_TAPS, views, out[1:-1, 1:-1, 1:-1], term)
        return buffers[STEPS % 2]
    return run


def scipy_held_steps(f):
    rate, first = scipy_laplacian(2, "nearest")(f), numpy.empty_like(f)

    def run(f):
        numpy.copyto(first, f)
        for face in faces(first):
            face[...] = HELD
        for _ in range(STEPS):
            change = rate(first)
            for face in faces(change):
                face[...] = 0
            numpy.multiply(change, numpy.float32(DT), out=change)
            numpy.add(first, change, out=first)
        return first
    return run


def numpy_flow(f, k):
    """div(k grad f), accuracy 2."""
    out, term = numpy.empty_like(f), numpy.empty_like(f)

    def run(f):
        out[...] = 0
        for axis in range(3):
            pad = [(int(a == axis),) * 2 for a in range(3)]
            u, c = numpy.pad(f, pad, "wrap"), numpy.pad(k, pad, "wrap")
            low, high = (tuple(slice(b, -1 if b == 0 else None) if a == axis else slice(None) for a in range(3))
                         for b in (0, 1))
            flux = u[high] - u[low]
            flux *= c[high] + c[low]
            flux *= numpy.float32(0.5)
            numpy.subtract(flux[high], flux[low], out=term)
            numpy.add(out, term, out=out)
        return out
    return run


def lines_of_adi(n):
    """1 − dt/2 A along an axis whose ends reflect about their nodes: diagonals below, on and above."""
    half = DT_ADI / 2
    below, on, above = numpy.full(n, -half), numpy.full(n, 1 + 2 * half), numpy.full(n, -half)
    above[0] = below[-1] = -2 * half
    return below, on, above


def adi_of(solve, laplacian):
    def make(f):
        rate, out = laplacian(f), numpy.empty_like(f)

        def step(f):
            delta = numpy.multiply(rate(f), numpy.float32(DT_ADI))
            for axis in (2, 1, 0):
                delta = solve(delta, axis)
            return numpy.add(f, delta, out=out)
        return step
    return stepped(make)


def numpy_solve(r, axis):
    """Thomas's algorithm for all lines at once."""
    n = r.shape[axis]
    below, on, above = lines_of_adi(n)
    at = [tuple(i if a == axis else slice(None) for a in range(3)) for i in range(n)]
    ratio = numpy.empty(n)
    for i in range(n):
        pivot = on[i] - (below[i] * ratio[i - 1] if i else 0)
        ratio[i] = above[i] / pivot
        if i:
            r[at[i]] -= numpy.float32(below[i]) * r[at[i - 1]]
        r[at[i]] /= numpy.float32(pivot)
    for i in range(n - 2, -1, -1):
        r[at[i]] -= numpy.float32(ratio[i]) * r[at[i + 1]]
    return r


def scipy_solve(r, axis):
    n = r.shape[axis]
    below, on, above = lines_of_adi(n)
    bands = numpy.zeros((3, n), r.dtype)
    bands[0, 1:], bands[1], bands[2, :-1] = above[:-1], on, below[1:]
    first = numpy.moveaxis(r, axis, 0)
    solved = linalg.solve_banded((1, 1), bands, first.reshape(n, -1), overwrite_b=True, check_finite=False)
    return numpy.moveaxis(solved.reshape(first.shape), 0, axis)


def crank_nicolson(u, k, axis, dt):
    """A step along one axis, whose ends reflect about their nodes, by Thomas's algorithm for all lines at once."""
    u, k = numpy.moveaxis(u, axis, 0), numpy.moveaxis(k, axis, 0)
    n, between = len(u), k[1:] + k[:-1]
    between *= numpy.float32(dt / 2)
    flux, delta = between * (u[1:] - u[:-1]), numpy.zeros(u.shape, u.dtype)
    delta[:-1] = flux
    delta[1:] -= flux
    ratio, times = numpy.empty(u.shape, u.dtype), numpy.float32([2] + [1] * (n - 2) + [2])
    for i in range(n):
        delta[i] *= times[i]
        above = times[i] / 2 * between[i] if i < n - 1 else 0
        below = times[i] / 2 * between[i - 1] if i else 0
        pivot = 1 + above + below
        if i:
            pivot -= below * ratio[i - 1]
            delta[i] += below * delta[i - 1]
        delta[i] /= pivot
        numpy.divide(above, pivot, out=ratio[i])
    for i in range(n - 2, -1, -1):
        delta[i] += ratio[i] * delta[i + 1]
    u += delta


def numpy_field_adi(f, k):
    u = numpy.empty_like(f)

    def run(f):
        numpy.copyto(u, f)
        for _ in range(STEPS):
            for axis, part in ((2, 0.5), (1, 0.5), (0, 1), (1, 0.5), (2, 0.5)):
                crank_nicolson(u, k, axis, part * DT_ADI)
        return u
    return run


# Its axes are x, y, z; these jobs treat them alike, or have a result for each.

def pde_grid(f, periodic=True):
    return pde.CartesianGrid([[0, n] for n in f.shape], f.shape, periodic=periodic)


def pde_operator(name, periodic=True, bc="periodic"):
    def make(f):
        operator = pde_grid(f, periodic).make_operator(name, bc=bc)
        return (lambda f: list(operator(f))) if name == "gradient" else operator
    return make


def pde_steps(solver):
    def make(f):
        equation = pde.DiffusionPDE(1, bc="periodic")
        state = pde.ScalarField(pde_grid(f), f, dtype=f.dtype)
        stepper = solver(equation, backend="numba").make_stepper(state, dt=DT)

        def run(f):
            state.data[...] = f
            stepper(state, 0, STEPS * DT)
            return state.data
        return run
    return make


@dataclasses.dataclass
class Row:
    name: str
    method: str
    parameters: dict
    numpy: typing.Callable
    scipy: typing.Callable | None = None
    pde: typing.Callable | None = None
    steps: int = 1
    field: str | None = None  # the parameter that k is


def stencil_row(name, taps):
    return Row(name, "stencil", {"offsets": [list(o) for o in taps], "weights": list(taps.values())},
               numpy_taps(taps), scipy_box(taps))


def rows():
    diffusion = {"steps": STEPS, "accuracy": 2, "dt": DT}
    lap2 = laplacian_taps(2)
    for axis, word in ((2, "x"), (0, "z")):
        yield Row(f"derivative {word} accuracy 8", "derivative", {"axis": word},
                  numpy_taps(derivative_taps(axis)), scipy_derivative(axis))
    yield Row("gradient accuracy 2", "gradient", {"accuracy": 2},
              several(*(numpy_taps({on_axis(a, -1): -0.5, on_axis(a, 1): 0.5}) for a in range(3))),
              several(*(scipy_lines([(a, [-0.5, 0, 0.5])]) for a in range(3))), pde_operator("gradient"))
    yield Row("laplacian accuracy 2", "laplacian", {"accuracy": 2}, numpy_taps(lap2), scipy_laplacian(2),
              pde_operator("laplace"))
    yield Row("laplacian accuracy 8", "laplacian", {"accuracy": 8}, numpy_taps(laplacian_taps(8)),
              scipy_laplacian(8))
    yield Row("laplacian accuracy 2, no flux at faces", "laplacian", {"accuracy": 2, "boundary": "symmetric"},
              numpy_taps(lap2, "symmetric"), scipy_laplacian(2, "reflect"),
              pde_operator("laplace", False, {"derivative": 0}))
    yield stencil_row("stencil of 7 points", box_taps(1, star=True))
    yield stencil_row("stencil of 27 points", box_taps(1))
    yield stencil_row("stencil of 125 points", box_taps(2))
    yield Row("div(k grad) accuracy 2", "laplacian", {"accuracy": 2}, numpy_flow, field="coefficient")
    yield Row("diffusion accuracy 2, a step", "diffusion", diffusion, stepped(numpy_taps(STEP_TAPS)),
              euler_of(scipy_laplacian(2)), pde_steps(pde.EulerSolver) if pde else None, STEPS)
    yield Row("diffusion accuracy 2, value, a step", "diffusion", diffusion | {"boundary": {"value": HELD}},
              numpy_held_steps, scipy_held_steps, steps=STEPS)
    yield Row("rk4 accuracy 2, a step", "diffusion", diffusion | {"scheme": "rk4"}, rk4_of(numpy_taps(lap2)),
              rk4_of(scipy_laplacian(2)), pde_steps(pde.RungeKuttaSolver) if pde else None, STEPS)
    adi = {"steps": STEPS, "dt": DT_ADI, "scheme": "adi", "accuracy": 2, "boundary": {"derivative": 0}}
    yield Row("adi, a step", "diffusion", adi, adi_of(numpy_solve, numpy_taps(lap2, "reflect")),
              adi_of(scipy_solve, scipy_laplacian(2, "mirror")), steps=STEPS)
    yield Row("adi of a field, a step", "diffusion", adi, numpy_field_adi, steps=STEPS, field="diffusivity")


# ---- the daemon, and measuring ----

class Daemon:
    def __init__(self, options, folder):
        path = f"{folder}/socket"
        self.process = serving.start(options.build / "server/fdserver", path, options.device, "--log-level", "4",
                                     "--region-memory", "16G")
        self.client = fdclient.Client(f"unix:{path}", timeout=120)

    def close(self):
        self.client.close()
        self.process.terminate()
        self.process.wait()

    def job(self, row, f, k):
        """A function that computes the row's job of f, in memory that the server maps."""
        inside, outputs = fdclient.empty(f.shape, f.dtype), {"gradient": "zyx"}.get(row.method, "f")
        inside[:] = f
        out = {axis: fdclient.empty(f.shape, f.dtype) for axis in outputs}
        parameters = dict(row.parameters)
        if row.field:
            parameters[row.field] = fdclient.empty(k.shape, k.dtype)
            parameters[row.field][:] = k
        to = out if outputs == "zyx" else out["f"]

        def run():
            self.client.run(row.method, inside, out=to, **parameters)
            return list(out.values())
        return run


def peer_job(row, make, f, k):
    run = make(f, k) if row.field else make(f)

    def call():
        result = run(f)
        return result if isinstance(result, list) else [result]
    return call


def timed(call, seconds):
    """A result, and the median in ms of calls after the first; a long one is called once more alone."""
    result, samples, end = call(), [], time.perf_counter() + seconds
    while not samples or time.perf_counter() < end:
        begin = time.perf_counter()
        result = call()
        samples.append(time.perf_counter() - begin)
    return result, 1e3 * statistics.median(samples)


def are_close(got, expected):
    return all(numpy.abs(a - b).max() <= TOLERANCE * max(1, numpy.abs(b).max())
               for a, b in zip(got, expected, strict=True))


def measure(daemon, row, options):
    random, shape = numpy.random.default_rng(7), (options.points,) * 3
    f, k = (random.random(shape, dtype="f4") + numpy.float32(0.5) for _ in range(2))
    expected, ms = timed(daemon.job(row, f, k), options.seconds)
    said, ratios = {"name": row.name, "ms": round(ms / row.steps, 4)}, []
    line = f"{row.name:40} {ms / row.steps:9.2f} ms"
    for name, module, make in (("numpy", numpy, row.numpy), ("scipy", scipy, row.scipy), ("pypde", pde, row.pde)):
        if not module or not make:
            continue
        try:
            got, peer_ms = timed(peer_job(row, make, f.copy(), k), options.seconds)
        except Exception as error:  # of one peer: the others go on
            print(f"{name}: {row.name}: {type(error).__name__}: {str(error).splitlines()[0][:100]}")
            continue
        if not are_close(got, expected):
            print(f"{name}: {row.name}: not the daemon's result")
            continue
        ratios.append(peer_ms / ms)
        said |= {f"{name}_ms": round(peer_ms / row.steps, 3), f"{name}_ratio": round(ratios[-1], 2)}
        line += f"; {name} {peer_ms / row.steps:9.2f} ms ({ratios[-1]:.1f} ×)"
    said |= {"bar": BAR, "met": min(ratios) >= BAR if ratios else None}
    print(line + ("" if said["met"] is not False else "  MISSED"), flush=True)
    return said


def model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def main():
    parser = serving.parser(__doc__, device="host")
    parser.add_argument("--points", type=int, default=256, metavar="N")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each figure")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    peers = {"numpy": numpy.__version__} | {name: module.__version__ for name, module in
                                            (("scipy", scipy), ("pypde", pde)) if module}
    for name, module in (("SciPy", scipy), ("py-pde", pde)):
        if not module:
            print(f"{name} is not installed: left out")
    print(f"{model()}, {cores} cores, {peers}")
    said = {"device": model(), "cores": cores, "peers": peers, "shape": [options.points] * 3, "dtype": "float32",
            "rows": []}
    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(options, folder)
        try:
            for row in rows():
                if options.only in row.name:
                    said["rows"].append(measure(daemon, row, options))
                    serving.write(options.json, said)
        finally:
            daemon.close()


if __name__ == "__main__":
    main()

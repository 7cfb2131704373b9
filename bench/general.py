#!/usr/bin/env python3
"""Every kind of job as a client sees it, beside what a user would write in JAX and CuPy, on the same GPU.

    bench/general.py --build build/release --json general.json [--only TEXT] [--quick]

A job's arrays are resident fields, eight jobs are in flight, and the time is that of a whole series
divided by its jobs (for schemes in time: by its steps). JAX runs the same formula, jitted, in a process
of its own before the server starts; a call's result stays on the device there, too. Both are first
compared with NumPy on a small field, away from the edges: beside edges JAX has the simplest thing that a
user writes (padding), which costs less than closures of the accuracy. The floor is a device copy of all
arrays that one application must read and write. --quick: small arrays, to try the script.
"""

import argparse
import contextlib
import itertools
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

import serving
from peers import FIRST, SECOND
from service import kernels

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "client/python"))

THIRD = [-61 / 30, 169 / 120, -3 / 10, 7 / 240]  # accuracy 6, of the neighbours 1, 2, …; odd
FOURTH = [91 / 8, -122 / 15, 169 / 60, -2 / 5, 7 / 240]
IN_FLIGHT, SETS, STEPS, MARGIN = 8, 4, 10, 10
WARM_S = 1.5
warm = []  # once in a process
DT = 0.02  # below every limit here

# ---- formulas, for NumPy and JAX alike: xp is the module, `reach` pads or wraps ----


class Reach:
    """Reads of a field at offsets: by rolling where it is periodic, out of a padded copy elsewhere."""

    def __init__(self, xp, f, radius, mode):
        self.xp, self.f, self.radius, self.mode = xp, f, radius, mode
        self.padded = None if mode == "wrap" else xp.pad(f, radius, mode=mode)

    def at(self, offset):
        if self.padded is None:
            axes = [a for a, o in enumerate(offset) if o]
            return self.xp.roll(self.f, [-offset[a] for a in axes], axes) if axes else self.f
        r = self.radius
        return self.padded[tuple(slice(r + o, r + o + n) for o, n in zip(offset, self.f.shape, strict=True))]

    def along(self, m, axis):
        return self.at([m if a == axis else 0 for a in range(self.f.ndim)])


def even(reach, weights, axis):
    total = weights[0] * reach.f
    for m, w in enumerate(weights[1:], 1):
        total = total + w * (reach.along(m, axis) + reach.along(-m, axis))
    return total


def odd(reach, weights, axis):
    return sum(w * (reach.along(m, axis) - reach.along(-m, axis)) for m, w in enumerate(weights, 1))


def laplacian(accuracy, mode="wrap"):
    def apply(xp, f):
        reach = Reach(xp, f, accuracy // 2, mode)
        return sum(even(reach, SECOND[accuracy], a) for a in range(f.ndim))
    return apply


def derivative(weights, axis, parity, mode="wrap"):
    return lambda xp, f: parity(Reach(xp, f, 6, mode), weights, axis)


def stencil(offsets, weights, mode="wrap"):
    def apply(xp, f):
        reach = Reach(xp, f, max(max(map(abs, o)) for o in offsets), mode)
        return sum(w * reach.at(o) for o, w in zip(offsets, weights, strict=True))
    return apply


def by_cudnn(row):
    """A periodic box as a convolution, which XLA gives to cuDNN."""
    import jax
    width = max(max(o) for o in row.parameters["offsets"]) * 2 + 1
    weights = jax.numpy.asarray(row.parameters["weights"], "float32").reshape((1, 1) + (width,) * row.axes)

    def apply(f):
        padded = jax.numpy.pad(f, width // 2, mode="wrap")[None, None]
        return jax.lax.conv_general_dilated(padded, weights, (1,) * row.axes, "VALID",
                                            precision=jax.lax.Precision.HIGHEST)[0, 0]
    return jax.jit(apply)


def gradient(xp, f):
    reach = Reach(xp, f, 4, "edge")
    return tuple(odd(reach, FIRST[8], axis) for axis in (2, 1, 0))


def divergence(xp, x, y, z):
    return sum(odd(Reach(xp, f, 4, "edge"), FIRST[8], axis) for f, axis in ((x, 2), (y, 1), (z, 0)))


def flux(xp, f, k):
    """∇·(k∇f), accuracy 2."""
    of_f, of_k, total = Reach(xp, f, 1, "wrap"), Reach(xp, k, 1, "wrap"), 0
    for axis in range(f.ndim):
        for m in (1, -1):
            total = total + 0.5 * (k + of_k.along(m, axis)) * (of_f.along(m, axis) - f)
    return total


def flux_8(xp, f, k):
    """∇·(k∇f) as a user writes it at accuracy 8: the product rule on centred derivatives."""
    of_f, of_k = Reach(xp, f, 4, "wrap"), Reach(xp, k, 4, "wrap")
    return sum(k * even(of_f, SECOND[8], a) + odd(of_k, FIRST[8], a) * odd(of_f, FIRST[8], a)
               for a in range(f.ndim))


def biharmonic_2(xp, f):
    return laplacian(2)(xp, laplacian(2)(xp, f))


def biharmonic_8(xp, f):
    return laplacian(8)(xp, laplacian(8)(xp, f))


def step_of(rate):
    return lambda xp, f, *rest: f + DT * rate(xp, f, *rest)


def rk4(rate):
    def step(xp, f):
        stage = f
        for part in (DT / 4, DT / 3, DT / 2, DT):
            stage = f + part * rate(xp, stage)
        return stage
    return step


def by_coordinates(nodes, axes, order=2, points=10):
    """Weights of each node over the points around it (least squares would do as well): Fornberg's."""
    n = len(nodes)
    first = numpy.clip(numpy.arange(n) - points // 2, 0, n - points)
    rows = numpy.empty((points, n))
    for i in range(n):
        x = nodes[first[i]:first[i] + points] - nodes[i]
        powers = numpy.vander(x, points, increasing=True).T
        right = numpy.zeros(points)
        right[order] = math.factorial(order)
        rows[:, i] = numpy.linalg.solve(powers, right)

    def apply(xp, f):
        total = 0
        for axis in axes:
            reach = Reach(xp, f, points, "edge")
            shape = [n if a == axis else 1 for a in range(f.ndim)]
            for j in range(points):  # away from the edges the points are i − points/2 … i + points/2 − 1
                total = total + xp.asarray(rows[j].reshape(shape), f.dtype) * reach.along(j - points // 2, axis)
        return total
    return apply


def adi(xp, f):
    """A step of Crank–Nicolson split by axes (Douglas and Gunn), mirror images about the face."""
    reach = Reach(xp, f, 1, "edge")
    rate = DT * sum(even(reach, SECOND[2], a) for a in range(f.ndim))
    for axis in range(f.ndim):
        n = f.shape[axis]
        side = numpy.full(n, -DT / 2)
        diagonal = numpy.full(n, 1 + DT)
        diagonal[[0, -1]] = 1 + DT / 2
        lines = xp.moveaxis(rate, axis, -1)
        if xp is numpy:
            matrix = numpy.diag(diagonal) + numpy.diag(side[1:], -1) + numpy.diag(side[1:], 1)
            lines = numpy.linalg.solve(matrix, lines.reshape(-1, n).T).T.reshape(lines.shape)
        else:
            import jax
            low, high = side.copy(), side.copy()
            low[0] = high[-1] = 0
            columns = lines.reshape(-1, n).T
            lines = jax.lax.linalg.tridiagonal_solve(
                *(xp.asarray(d, f.dtype) for d in (low, diagonal, high)), columns).T.reshape(lines.shape)
        rate = xp.moveaxis(lines, -1, axis)
    return f + rate


# ---- rows ----

def box(radius, axes):
    side = range(-radius, radius + 1)
    return [list(o) for o in itertools.product(side, repeat=axes)]


def star(radius, axes):
    offsets = [[0] * axes]
    for m in range(1, radius + 1):
        for axis in range(axes):
            for sign in (1, -1):
                offsets.append([sign * m if a == axis else 0 for a in range(axes)])
    return sorted(offsets)


class Row:
    """One comparison: a method with its parameters, the formula, and how many arrays it must move.

    inputs: f, then operands by name; outputs: 1 or the axes of a vector. nodes: a shape's coordinates."""

    def __init__(self, name, method, formula, arrays=2, axes=3, operands=(), vector_in=False, outputs=1, steps=1,
                 nodes=None, **parameters):
        self.name, self.method, self.formula, self.arrays, self.axes = name, method, formula, arrays, axes
        self.operands, self.vector_in, self.outputs, self.steps = operands, vector_in, outputs, steps
        self.nodes, self.parameters = nodes, parameters | ({"steps": steps} if steps > 1 else {})

        self.is_box = False

    def inputs(self):
        return 3 if self.vector_in else 1 + len(self.operands)

    def formula_of(self, n):
        return self.formula(stretched(n)) if self.nodes else self.formula

    def parameters_of(self, n):
        if not self.nodes:
            return self.parameters
        return self.parameters | {"spacing": {axis: stretched(n).tolist() for axis in self.nodes}}


def stretched(n):
    t = numpy.linspace(0, 1, n)
    return (n - 1) * (t + 0.4 * numpy.sin(2 * numpy.pi * t) / (2 * numpy.pi))


def stencil_row(name, offsets, mode="wrap", axes=3, **parameters):
    weights = [(-1) ** i * (i % 7 + 1) / (8 * len(offsets)) for i in range(len(offsets))]
    row = Row(name, "stencil", stencil(offsets, weights, mode), axes=axes, offsets=offsets, weights=weights,
              **parameters)
    row.is_box = mode == "wrap" and any(min(map(abs, o)) for o in offsets)
    return row


def no_corners():
    return [o for o in box(1, 3) if 0 in o]


VALUE = {"boundary": {"*": {"value": 0.5}}}
MIXED = {"boundary": {"*": {"mixed": 0.5, "const": 0.25}}}
MIRROR = {"boundary": "mirror"}
FACE = {"boundary": {"*": {"derivative": 0, "at": "face"}}}
TIME = {"steps": STEPS, "dt": DT}


def all_rows():
    rows = [stencil_row("stencil of 7 points", star(1, 3)), stencil_row("stencil of 27 points", box(1, 3)),
            stencil_row("stencil of 25 points, a star", star(4, 3)), stencil_row("stencil of 125 points", box(2, 3)),
            stencil_row("stencil of 13 points, a star", star(2, 3)), stencil_row("stencil of 19 points", no_corners()),
            stencil_row("stencil of 7 points, value", star(1, 3), "edge", accuracy=4, **VALUE),
            stencil_row("stencil of 27 points, mirror", box(1, 3), "reflect", **MIRROR),
            stencil_row("stencil of 25 points, a star, one-sided", star(4, 3), "edge", boundary="one-sided"),
            stencil_row("stencil 2D of 5 points", star(1, 2), axes=2),
            stencil_row("stencil 2D of 9 points", box(1, 2), axes=2),
            stencil_row("stencil 2D of 81 points", box(4, 2), axes=2)]
    for accuracy in (2, 8):
        rows.append(Row(f"Laplacian, accuracy {accuracy}", "laplacian", laplacian(accuracy), accuracy=accuracy))
        rows.append(Row(f"Laplacian, value, accuracy {accuracy}", "laplacian", laplacian(accuracy, "edge"),
                        accuracy=accuracy, **VALUE))
    rows += [Row("Laplacian, mixed, accuracy 8", "laplacian", laplacian(8, "edge"), accuracy=8, **MIXED),
             Row("gradient, value, accuracy 8", "gradient", gradient, arrays=4, outputs=3, accuracy=8, **VALUE),
             Row("divergence, value, accuracy 8", "divergence", divergence, arrays=4, vector_in=True, accuracy=8,
                 **VALUE)]
    for axis, number in (("x", 2), ("z", 0)):
        rows.append(Row(f"derivative of order 3 along {axis}", "derivative",
                        derivative(THIRD, number, odd), axis=axis, order=3, accuracy=6))
    rows += [Row("derivative of order 4 along y, one-sided", "derivative", derivative(FOURTH, 1, even, "edge"),
                 axis="y", order=4, accuracy=6, boundary="one-sided"),
             Row("derivative by coordinates along x", "derivative",
                 lambda nodes: by_coordinates(nodes, [2], 1, 9), nodes="x", axis="x", accuracy=8,
                 boundary="one-sided"),
             Row("derivative by coordinates along z", "derivative",
                 lambda nodes: by_coordinates(nodes, [0], 1, 9), nodes="z", axis="z", accuracy=8,
                 boundary="one-sided"),
             Row("Laplacian by coordinates, accuracy 8", "laplacian",
                 lambda nodes: by_coordinates(nodes, [0, 1, 2], 2, 10), nodes="xyz", accuracy=8,
                 boundary="one-sided"),
             Row("∇·(k∇f), accuracy 2", "laplacian", flux, arrays=3, operands=("coefficient",), accuracy=2),
             Row("∇·(k∇f), accuracy 8", "laplacian", flux_8, arrays=3, operands=("coefficient",), accuracy=8),
             Row("biharmonic, accuracy 2", "biharmonic", biharmonic_2, accuracy=2),
             Row("biharmonic, accuracy 8", "biharmonic", biharmonic_8, accuracy=8),
             Row("diffusion of a field κ, a step, accuracy 2", "diffusion", step_of(flux), arrays=3,
                 operands=("diffusivity",), accuracy=2, **TIME),
             Row("diffusion with a source field, a step, accuracy 2", "diffusion",
                 lambda xp, f, s: f + DT * (laplacian(2)(xp, f) + s), arrays=3, operands=("source",),
                 accuracy=2, **TIME)]
    for accuracy in (2, 8):
        rows += [Row(f"diffusion, a step, accuracy {accuracy}", "diffusion", step_of(laplacian(accuracy)),
                     accuracy=accuracy, **TIME),
                 Row(f"diffusion, value, a step, accuracy {accuracy}", "diffusion",
                     step_of(laplacian(accuracy, "edge")), accuracy=accuracy, **TIME, **VALUE),
                 Row(f"diffusion, mixed, a step, accuracy {accuracy}", "diffusion",
                     step_of(laplacian(accuracy, "edge")), accuracy=accuracy, **TIME, **MIXED),
                 Row(f"diffusion by RK4, a step, accuracy {accuracy}", "diffusion", rk4(laplacian(accuracy)),
                     accuracy=accuracy, scheme="rk4", **TIME)]
    rows.append(Row("diffusion by ADI, a step", "diffusion", adi, scheme="adi", accuracy=2, **TIME,
                    **FACE))
    return rows


def shape_of(row, options):
    n = {(3, False): 512, (2, False): 8192, (3, True): 96, (2, True): 256}[row.axes, options.quick]
    return (n,) * row.axes


def small_inputs(row):
    """Smooth, so that formulas of the same order but of different truncation errors agree."""
    rng = numpy.random.default_rng(7)
    nodes = numpy.stack(numpy.meshgrid(*[numpy.arange(40)] * row.axes, indexing="ij"), -1)
    waves = rng.choice([-4, -3, 3, 4], (row.inputs(), 5, row.axes)) * 2 * numpy.pi / 40
    return [1 + 0.15 * sum(numpy.sin(nodes @ wave + i) for i, wave in enumerate(of_input)) for of_input in waves]


def expected(row):
    """NumPy's results on the small inputs, away from the edges."""
    f, *rest = small_inputs(row)
    formula = row.formula_of(f.shape[0])
    for _ in range(row.steps):
        f = formula(numpy, f, *rest)
    return [inner(a) for a in (f if isinstance(f, tuple) else (f,))]


def inner(array):
    return numpy.asarray(array)[(slice(MARGIN, -MARGIN),) * array.ndim]


def check(row, results, by=""):
    if max(numpy.abs(inner(a) - b).max() / numpy.abs(b).max()
           for a, b in zip(results, expected(row), strict=True)) > 5e-3:
        raise ValueError(by + "not NumPy's result")


@contextlib.contextmanager
def leaving_out(said, row):
    """Report a row that fails; the others go on."""
    try:
        yield
    except Exception as error:
        said["left_out"][row.name] = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"


def series(call, wait, seconds):
    """The median time of a call within a series that fills `seconds`."""
    began = time.perf_counter()
    wait([call(0)])
    while not warm and time.perf_counter() - began < WARM_S:  # the clocks of a device that did nothing are low
        wait([call(i) for i in range(IN_FLIGHT)])
    warm.append(True)
    for _ in range(2):  # the first compiles, the second shows the time
        begin = time.perf_counter()
        wait([call(i) for i in range(IN_FLIGHT)])
        once = (time.perf_counter() - begin) / IN_FLIGHT
    count, samples = max(IN_FLIGHT, math.ceil(seconds / 3 / once)), []
    for _ in range(3):
        begin, pending = time.perf_counter(), []
        for i in range(count):
            pending.append(call(i))
            if len(pending) == IN_FLIGHT:
                wait([pending.pop(0)])
        wait(pending)
        samples.append((time.perf_counter() - begin) / count)
    return statistics.median(samples)


# ---- JAX, in a process of its own ----

def measure_jax(options):
    import jax
    said = {"name": f"JAX {jax.__version__}", "ms": {}, "cudnn_ms": {}, "left_out": {}}
    for row in chosen(options):
        with leaving_out(said, row):
            shape = shape_of(row, options)

            def make(n, steps, row=row):
                formula = row.formula_of(n)
                if steps == 1:
                    return jax.jit(lambda f, *rest: formula(jax.numpy, f, *rest))
                return jax.jit(lambda f, *rest: jax.lax.fori_loop(
                    0, steps, lambda _, g: formula(jax.numpy, g, *rest), f))
            small = make(40, row.steps)(*[numpy.float32(a) for a in small_inputs(row)])
            check(row, small if isinstance(small, tuple) else (small,))
            key = jax.random.key(1)
            inputs = [0.5 + jax.random.uniform(jax.random.fold_in(key, i), shape, "float32")
                      for i in range(row.inputs())]
            run = make(shape[0], row.steps)
            each = series(lambda _, run=run, inputs=inputs: run(*inputs), jax.block_until_ready, options.seconds)
            said["ms"][row.name] = 1e3 * each / row.steps
            if row.is_box:
                check(row, [by_cudnn(row)(numpy.float32(small_inputs(row)[0]))], "cuDNN: ")
                run = by_cudnn(row)
                each = series(lambda _, run=run, inputs=inputs: run(*inputs), jax.block_until_ready, options.seconds)
                said["cudnn_ms"][row.name] = 1e3 * each
        yield said


# ---- CuPy, in a process of its own: what it has a function for ----

def correlation(row, cupy):
    import cupyx.scipy.ndimage
    radius = max(max(o) for o in row.parameters["offsets"])
    weights = numpy.zeros((2 * radius + 1,) * row.axes, "f4")
    for offset, weight in zip(row.parameters["offsets"], row.parameters["weights"], strict=True):
        weights[tuple(o + radius for o in offset)] = weight
    weights = cupy.asarray(weights)
    return lambda f: cupyx.scipy.ndimage.correlate(f, weights, mode="wrap")


def measure_cupy(options):
    import cupy
    said = {"name": f"CuPy {cupy.__version__}", "ms": {}, "left_out": {}}
    for row in chosen(options):
        if row.method != "stencil" or row.parameters.get("boundary"):
            continue
        with leaving_out(said, row):
            run = correlation(row, cupy)
            check(row, [run(cupy.asarray(small_inputs(row)[0], "f4")).get()])
            f = cupy.random.random(shape_of(row, options), dtype="f4")
            said["ms"][row.name] = 1e3 * series(lambda _, run=run, f=f: run(f),
                                                lambda _: cupy.cuda.Device().synchronize(), options.seconds)
        yield said


# ---- the server ----

class Pool:
    """Resident fields of one shape, which rows share."""

    def __init__(self, client, shape):
        self.client, self.shape, self.given, self.results = client, shape, [], []
        self.values = numpy.random.default_rng(1).random(shape, dtype="f4") + numpy.float32(0.5)

    def take(self, fields, count):
        while len(fields) < count:
            fields.append(self.client.put(self.values))
        return fields[:count]

    def inputs(self, count):
        return self.take(self.given, count)

    def outputs(self, count):
        """SETS of them: jobs that write the same field wait for one another."""
        fields = self.take(self.results, SETS * count)
        return [dict(zip("xyz", fields[i::SETS])) if count > 1 else fields[i] for i in range(SETS)]


def measure_server(options, address):
    import fdclient
    said = {"ms": {}, "left_out": {}}
    with fdclient.Client(address, timeout=120) as client:
        pools = {}
        for row in chosen(options):
            with leaving_out(said, row):
                small = [numpy.float32(a) for a in small_inputs(row)]
                result = client.run(row.method, **arguments(row, small), **row.parameters_of(40))
                result = [result[a] for a in "xyz"] if isinstance(result, dict) else [result]
                check(row, result)
                shape = shape_of(row, options)
                pool = pools.setdefault(shape, Pool(client, shape))
                given, outs = arguments(row, pool.inputs(row.inputs())), pool.outputs(row.outputs)
                parameters = row.parameters_of(shape[0])
                await_kernels(client, row.method, given | {"out": outs[0]}, parameters)
                each = series(lambda i: client.submit(row.method, **given, out=outs[i % SETS], **parameters),
                              lambda jobs: [job.result() for job in jobs], options.seconds)
                said["ms"][row.name] = 1e3 * each / row.steps
        said["device"] = client.call("info")["devices"][0]["model"]
    return said


def await_kernels(client, method, arrays, parameters):
    """A stencil's kernel is compiled when a job first asks for it."""
    count = -1
    while method == "stencil" and count != (count := client.call("info")["devices"][0]["kernels"]):
        client.run(method, **arrays, **parameters)
        time.sleep(1)


def arguments(row, inputs):
    if row.vector_in:
        return {"f": dict(zip("xyz", inputs, strict=True))}
    return dict(zip(("f", *row.operands), inputs, strict=True))


def chosen(options):
    return [row for row in all_rows() if options.only in row.name]


def main():
    parser = serving.parser(__doc__, device="cuda:0")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each row")
    parser.add_argument("--peer-s", type=float, default=900,
                        help="for all rows of JAX, and for those of CuPy; rows that come later are left out")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--peer", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)  # a process of one
    options = parser.parse_args()
    if options.peer:
        name, file = options.peer
        for said in {"JAX": measure_jax, "CuPy": measure_cupy}[name](options):
            pathlib.Path(file).write_text(json.dumps(said))
        return
    machine = kernels(options, "--device", options.device, "--floors")
    with tempfile.TemporaryDirectory() as folder:
        peers = {}
        for name in ("JAX", "CuPy"):
            said = pathlib.Path(folder) / name
            run = subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--peer", name, said])
            try:
                run.wait(options.peer_s)
            except subprocess.TimeoutExpired:
                run.kill()
            peers[name] = json.loads(said.read_text()) if said.exists() else \
                {"name": f"no {name}", "ms": {}, "cudnn_ms": {}, "left_out": {}}
        path = f"{folder}/s"
        server = serving.start(options.build / "server/fdserver", path, options.device, "--log-level", "4")
        try:
            ours = measure_server(options, f"unix:{path}")
        finally:
            server.terminate()
            server.wait()
    report(options, ours, peers, machine["floors"]["copy_gbs"], machine.get("driver"))


def report(options, ours, peers, floor, driver):
    jax, rows = peers["JAX"], []
    print(f"{ours['device']}, copy {floor:,.0f} GB/s, {jax['name']}, {peers['CuPy']['name']}\n"
          f"{'':52}{'ms':>9}{'JAX':>9}{'cuDNN':>9}{'CuPy':>9}{'JAX ÷ ms':>9}{'share of copy':>15}")
    for row in chosen(options):
        ms = ours["ms"].get(row.name)
        if ms is None:
            continue
        others = [jax["ms"].get(row.name), jax["cudnn_ms"].get(row.name), peers["CuPy"]["ms"].get(row.name)]
        ratio = others[0] and others[0] / ms
        share = 4e-6 * row.arrays * math.prod(shape_of(row, options)) / floor / ms
        rows.append({"name": row.name, "ms": round(ms, 4)} |
                    {f"{name}_ms": value and round(value, 4)
                     for name, value in zip(("jax", "cudnn", "cupy"), others, strict=True)} |
                    {"ratio": ratio and round(ratio, 3), "share_of_copy": round(share, 3)})
        print(f"{row.name:52}{ms:9.3f}" + "".join(f"{value or math.nan:9.3f}" for value in others) +
              f"{ratio or math.nan:9.2f}{share:15.3f}")
    left_out = {who: said["left_out"] for who, said in ({"fdserver": ours} | peers).items()}
    for who, reasons in left_out.items():
        for name, reason in reasons.items():
            print(f"left out: {who}: {name}: {reason}")
    serving.write(options.json, {"device": ours["device"], "driver": driver, "jax": jax["name"],
                                 "cupy": peers["CuPy"]["name"], "copy_gbs": floor, "rows": rows,
                                 "left_out": left_out})


if __name__ == "__main__":
    main()

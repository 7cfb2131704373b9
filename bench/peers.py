#!/usr/bin/env python3
"""The same operators as a user would write them in CuPy, JAX and torch.compile, if installed.

    bench/peers.py [--only TEXT] [--json FILE] [--seconds S]

CuPy: cupyx.scipy.ndimage.correlate1d. JAX and torch: sums of rolled arrays, which their compilers
fuse. All are periodic and float32; names, units and the floor (a device copy of as many bytes) are
those of bench_kernels. Each result is first compared with NumPy's on a small field; a wrong one is not
timed.
"""

import math
import os
import pathlib
import statistics
import sys
import time

import numpy

import serving

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the other libraries need memory too

FIRST = {8: [4 / 5, -1 / 5, 4 / 105, -1 / 280]}  # of the neighbours at 1, 2, …; odd
SECOND = {2: [-2, 1], 4: [-5 / 2, 4 / 3, -1 / 12], 8: [-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560]}
AXES = {"x": -1, "y": -2, "z": -3}
LARGEST_EIGENVALUE = {2: 4, 4: 16 / 3, 8: 2048 / 315}  # of −∂², on a unit grid
STEPS = 20


def derivative(axis):
    return lambda along, f: along(f, 0, FIRST[8], AXES[axis], -1)


def second(along, f, accuracy, axis):
    return along(f, SECOND[accuracy][0], SECOND[accuracy][1:], axis, 1)


def laplacian(accuracy):
    return lambda along, f: sum(second(along, f, accuracy, a) for a in range(-f.ndim, 0))


def diffusion_step(accuracy, axes):
    dt = 0.9 * 2 / (axes * LARGEST_EIGENVALUE[accuracy])
    return lambda along, f: f + dt * laplacian(accuracy)(along, f)


def gradient(along, f):
    return tuple(derivative(axis)(along, f) for axis in "xyz")


# name, shape, function of (along, f), steps, fields moved
OPERATORS = (
    [(f"derivative {axis} accuracy 8", (512, 512, 512), derivative(axis), 1, 2) for axis in "xyz"]
    + [(f"laplacian 3D accuracy {a}", (512, 512, 512), laplacian(a), 1, 2) for a in (2, 8)]
    + [("gradient 3D accuracy 8", (512, 512, 512), gradient, 1, 4)]
    + [(f"diffusion 2D accuracy {a}", (n, n), diffusion_step(a, 2), STEPS, 2)
       for n in (4096, 16384) for a in (2, 4, 8)]
    + [(f"diffusion 3D accuracy {a}", (512, 512, 512), diffusion_step(a, 3), STEPS, 2) for a in (2, 4, 8)])


def along_by(roll):
    """centre f + Σ wₘ (f(+m) ± f(−m)), out of whole arrays."""
    def along(f, centre, weights, axis, sign):
        out = centre * f if centre else 0
        for m, weight in enumerate(weights, 1):
            out = out + weight * (roll(f, -m, axis) + sign * roll(f, m, axis))
        return out
    return along


class Torch:
    def __init__(self):
        import torch
        self.torch, self.name = torch, f"torch.compile {torch.__version__}"
        if not torch.cuda.is_available():
            raise ImportError("no CUDA device")

    def device(self):
        return self.torch.cuda.get_device_name()

    def put(self, f):
        return self.torch.from_numpy(f).cuda()

    def get(self, f):
        return f.cpu().numpy()

    def make(self, operator, steps):
        self.torch._dynamo.reset()
        step = self.torch.compile(lambda f: operator(along_by(self.torch.roll), f))

        def run(f):
            for _ in range(steps):
                f = step(f)
            return f
        return run

    def wait(self, result):
        self.torch.cuda.synchronize()

    def copy(self, f):
        out = self.torch.empty_like(f)
        return lambda: out.copy_(f)


class Jax:
    def __init__(self):
        import jax
        self.jax, self.name = jax, f"JAX {jax.__version__}"
        if jax.default_backend() != "gpu":
            raise ImportError("no CUDA device")

    def device(self):
        return self.jax.devices()[0].device_kind

    def put(self, f):
        return self.jax.device_put(f)

    def get(self, f):
        return numpy.asarray(f)

    def make(self, operator, steps):
        along = along_by(self.jax.numpy.roll)
        if steps == 1:
            return self.jax.jit(lambda f: operator(along, f))
        return self.jax.jit(lambda f: self.jax.lax.fori_loop(0, steps, lambda _, g: operator(along, g), f))

    def wait(self, result):
        self.jax.block_until_ready(result)

    def copy(self, f):
        run = self.jax.jit(self.jax.numpy.copy)
        return lambda: run(f)


class Cupy:
    def __init__(self):
        import cupy
        import cupyx.scipy.ndimage
        self.cupy, self.ndimage, self.name = cupy, cupyx.scipy.ndimage, f"CuPy {cupy.__version__}"
        cupy.cuda.runtime.getDevice()

    def device(self):
        return self.cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()

    def put(self, f):
        return self.cupy.asarray(f)

    def get(self, f):
        return f.get()

    def make(self, operator, steps):
        def along(f, centre, weights, axis, sign):
            stencil = [sign * w for w in reversed(weights)] + [centre] + list(weights)
            return self.ndimage.correlate1d(f, self.cupy.asarray(stencil, "f4"), axis, mode="wrap")

        def run(f):
            for _ in range(steps):
                f = operator(along, f)
            return f
        return run

    def wait(self, result):
        self.cupy.cuda.Device().synchronize()

    def copy(self, f):
        out = self.cupy.empty_like(f)
        return lambda: self.cupy.cuda.runtime.memcpyAsync(
            out.data.ptr, f.data.ptr, f.nbytes, 3, self.cupy.cuda.Stream.null.ptr)


def is_right(peer, operator, shape):
    f = numpy.random.default_rng().standard_normal([24] * len(shape), dtype="f4")
    expected = operator(along_by(numpy.roll), f.astype("f8"))
    got = peer.make(operator, 1)(peer.put(f))
    as_tuple = (lambda a: a if isinstance(a, tuple) else (a,))
    return all(numpy.allclose(peer.get(a), b, rtol=0, atol=1e-4)
               for a, b in zip(as_tuple(got), as_tuple(expected), strict=True))


def seconds_each(call, wait, seconds):
    """The median of samples that are much longer than a launch."""
    wait(call())
    begin = time.perf_counter()
    wait(call())
    once = time.perf_counter() - begin
    times, samples = max(1, math.ceil(0.01 / once)), []
    end = time.perf_counter() + seconds
    while len(samples) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        for _ in range(times):
            result = call()
        wait(result)
        samples.append((time.perf_counter() - begin) / times)
    return statistics.median(samples)


def measure(peer, seconds, copy_gbs, only, rows):
    for name, shape, operator, steps, moved in OPERATORS:
        if only not in f"{peer.name} {name}":
            continue
        try:
            if not is_right(peer, operator, shape):
                print(f"{peer.name}: {name}: not its result")
                continue
            f = peer.put(numpy.random.default_rng().standard_normal(shape, dtype="f4"))
            run = peer.make(operator, steps)
            us = 1e6 * seconds_each(lambda: run(f), peer.wait, seconds) / steps
        except Exception as error:  # an exception of one peer does not stop the others
            print(f"{peer.name}: {name}: {type(error).__name__}: {str(error).splitlines()[0][:100]}")
            continue
        points = math.prod(shape)
        gbs = 1e-3 * moved * 4 * points / us
        row = {"peer": peer.name, "name": name, "shape": "x".join(map(str, shape)), "dtype": "float32",
               "boundary": "periodic", "us": round(us, 3), "gbs": round(gbs, 2),
               "gcells": round(1e-3 * points / us, 3), "ratio": round(gbs / copy_gbs, 4)}
        rows.append(row)
        print(f"{peer.name:<24} {name:<24} {row['shape']:<12} {us:10.2f} us {gbs:7.1f} GB/s "
              f"{row['gcells']:8.2f} Gcells/s {row['ratio']:5.3f}", flush=True)


def driver():
    """The version of the kernel module."""
    try:
        words = pathlib.Path("/proc/driver/nvidia/version").read_text().split()
        return next(word for word in words if word[0].isdigit() and "." in word)
    except (OSError, StopIteration):
        return None


def main():
    parser = serving.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=0.1, help="for each row")
    parser.add_argument("--only", default="", help="rows whose peer and name contain this")
    options = parser.parse_args()
    peers = []
    for kind in (Cupy, Jax, Torch):
        try:
            peers.append(kind())
        except Exception as error:  # not installed, or not usable here
            print(f"{kind.__name__}: {type(error).__name__}: {error}")
    if not peers:
        sys.exit("no peer is installed")
    large = numpy.random.default_rng().standard_normal(1 << 27, dtype="f4")
    copy_gbs = 0
    for peer in peers:
        copy = peer.copy(peer.put(large))
        copy_gbs = max(copy_gbs, 2e-9 * large.nbytes / seconds_each(copy, peer.wait, options.seconds))
    print(f"{peers[0].device()}\n  floor copy_gbs {copy_gbs:10.2f}")
    rows = []
    for peer in peers:
        measure(peer, options.seconds, copy_gbs, options.only, rows)
        serving.write(options.json, {"device": peers[0].device(), "driver": driver(),
                                     "floors": {"copy_gbs": round(copy_gbs, 1)}, "rows": rows})


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Diffusion on several GPUs as an engineer writes it in an afternoon: a Jacobi iteration over NCCL.

    bench/jacobi_nccl.py --gpus 2 --n 512 --planes 512 --accuracy 8

Explicit Euler steps of a periodic float32 field; a process a GPU, each with `planes` planes of n × n points and
ghost planes on either side along z, which torch.distributed exchanges. The kernel is the classical one: a block's
tile of x and y marches along z with its columns in registers and its plane in shared memory. A step is `serial`
(the exchange, then all planes) or `overlapped` (the planes that neighbours need, then their exchange beside the
others). Each is first compared with NumPy's on a small field, then timed with the tile and the planes of a block
that suit it best. --n, --planes and --accuracy take as many values as there are cases; each case is a line of
JSON: µs of a step, the fastest of four timings of 64 steps. What hangs for 60 s ends everything.
"""

import argparse
import faulthandler
import functools
import itertools
import json
import os
import sys
import tempfile
import time

import numpy

from peers import LARGEST_EIGENVALUE, SECOND, along_by, laplacian

try:
    import cupy
    import torch
    import torch.distributed as dist
    import torch.multiprocessing
except ImportError as error:
    sys.exit(str(error))

os.environ |= {"NCCL_NVLS_ENABLE": "0", "NCCL_SOCKET_IFNAME": "lo"}  # no multicast; the ranks are of one host

KERNEL = """
const int PITCH = BX + 2 * R, THREADS = BX * BY;
const int AROUND = 2 * R * (BX + BY), EACH = (AROUND + THREADS - 1) / THREADS; // points around a tile; a thread's

// `piece` planes from first + blockIdx.z * stride on, none from `end` on
extern "C" __global__ void __launch_bounds__(THREADS)
step(const float *__restrict__ f, float *__restrict__ out, int nx, int ny, int first, int stride, int piece, int end)
{
    __shared__ float tiles[2][PITCH * (BY + 2 * R)];
    const float w[] = {WEIGHTS};
    const int tx = threadIdx.x, ty = threadIdx.y, thread = ty * BX + tx, own = (R + ty) * PITCH + R + tx;
    const int x0 = blockIdx.x * BX, y0 = blockIdx.y * BY;
    const int begin = first + blockIdx.z * stride, stop = min(begin + piece, end);
    const long long plane = (long long)nx * ny, at = (y0 + ty) % ny * nx + (x0 + tx) % nx;
    int from[EACH], to[EACH];
    for (int k = 0; k < EACH; k++) {
        int i = thread + k * THREADS, j;
        if (i < 2 * R * BY) { // left and right
            j = i / (2 * R), i %= 2 * R;
            i += i < R ? -R : BX - R;
        } else {
            i -= 2 * R * BY, j = i / BX, i %= BX;
            j += j < R ? -R : BY - R;
        }
        from[k] = (y0 + j + ny) % ny * nx + (x0 + i + nx) % nx;
        to[k] = (R + j) * PITCH + R + i;
    }
    const float *now = f + begin * plane;
    float column[2 * R + 1], ahead = now[R * plane + at], around[EACH];
    for (int m = 0; m < 2 * R; m++)
        column[m] = now[(m - R) * plane + at];
    for (int k = 0; k < EACH; k++)
        around[k] = thread + k * THREADS < AROUND ? now[from[k]] : 0;
    for (int z = begin; z < stop; z++, now += plane) {
        float *tile = tiles[z & 1]; // of the other one, threads may still read the last plane
        tile[own] = column[R];
        for (int k = 0; k < EACH; k++)
            if (thread + k * THREADS < AROUND)
                tile[to[k]] = around[k];
        __syncthreads();
        column[2 * R] = ahead;
        if (z + 1 < stop) { // loads that arrive during the sums
            ahead = now[(R + 1) * plane + at];
            for (int k = 0; k < EACH; k++)
                around[k] = thread + k * THREADS < AROUND ? now[plane + from[k]] : 0;
        }
        float sum = w[0] * column[R];
        for (int m = 1; m <= R; m++)
            sum += w[m] * ((column[R - m] + column[R + m]) + (tile[own - m] + tile[own + m]) +
                           (tile[own - m * PITCH] + tile[own + m * PITCH]));
        if (x0 + tx < nx && y0 + ty < ny)
            out[z * plane + at] = sum;
        for (int m = 0; m < 2 * R; m++)
            column[m] = column[m + 1];
    }
}
"""
TILES, PIECES = ((32, 8), (32, 16), (64, 8), (64, 16)), (32, 64, 128, 256)
STEPS, TRIAL_STEPS, HANG_S = 64, 16, 60
VARIANTS = ("serial", "overlapped")


def dt_of(accuracy):
    """Half of the largest stable one, where κ and the spacing are 1."""
    return 0.5 * 2 / (3 * LARGEST_EIGENVALUE[accuracy])


def source(accuracy, tile):
    centre, *others = (dt_of(accuracy) * weight for weight in SECOND[accuracy])
    weights = ",".join(f"{weight:.9e}f" for weight in (1 + 3 * centre, *others))
    return f"#define R {accuracy // 2}\n#define BX {tile[0]}\n#define BY {tile[1]}\n#define WEIGHTS {weights}{KERNEL}"


def watch():
    """Ends this process, and thereby the others, unless it is called again in time."""
    faulthandler.dump_traceback_later(HANG_S, exit=True)


class Subdomain:
    """A rank's planes between ghosts, in two arrays: a step goes from one to the other."""

    def __init__(self, rank, gpus, shape, accuracy):
        self.shape, self.radius = shape, accuracy // 2
        self.arrays = [torch.zeros((shape[0] + accuracy, *shape[1:]), device=f"cuda:{rank}") for _ in range(2)]
        self.exchanges = [self.exchange_of(f, (rank - 1) % gpus, (rank + 1) % gpus) for f in self.arrays]

    def exchange_of(self, f, below, above):
        """Each of two ranks is both neighbours of the other; NCCL then pairs the first send with the first receive:
        what is sent up first must be received first, from below."""
        own, r = self.shape[0], self.radius
        return [dist.P2POp(dist.isend, f[own:own + r], above), dist.P2POp(dist.irecv, f[:r], below),
                dist.P2POp(dist.isend, f[r:2 * r], below), dist.P2POp(dist.irecv, f[own + r:], above)]

    def prepare(self, kernel, tile, piece):
        """The launches of a step from each array."""
        (own, ny, nx), r = self.shape, self.radius

        def launches(first, end, stride, planes):
            grid = (-(-nx // tile[0]), -(-ny // tile[1]), -(-(end - first) // stride))
            numbers = [numpy.int32(n) for n in (nx, ny, first, stride, planes, end)]
            return [functools.partial(kernel, grid, tile, (f.data_ptr(), out.data_ptr(), *numbers))
                    for f, out in (self.arrays, self.arrays[::-1])]
        self.all = launches(r, r + own, piece, piece)
        self.edges = launches(r, r + own, own - r, r)
        self.inner = launches(2 * r, own, piece, piece)

    def serial(self, i):
        self.exchange(i)
        self.all[i]()

    def overlapped(self, i):
        self.edges[i]()
        self.exchange(1 - i, self.inner[i])

    def exchange(self, i, beside=lambda: None):
        works = dist.batch_isend_irecv(self.exchanges[i])  # on a stream of torch's own
        beside()
        for work in works:
            work.wait()  # of the stream, not of the host

    def run(self, variant, steps):
        for k in range(steps):
            getattr(self, variant)(k % 2)

    def step_us(self, variant, steps):
        """On the slowest rank."""
        watch()
        self.exchange(0)
        dist.barrier()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        self.run(variant, steps)
        torch.cuda.synchronize()
        took = torch.tensor(time.perf_counter() - begin, dtype=torch.float64, device=self.arrays[0].device)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        return 1e6 * took.item() / steps


def check(rank, gpus, accuracy, kernels):
    planes, steps, r = 16, 5, accuracy // 2
    f = numpy.random.default_rng(1).standard_normal((planes * gpus, 24, 40), dtype="f4")
    expected = f.astype("f8")
    for _ in range(steps):
        expected = expected + dt_of(accuracy) * laplacian(accuracy)(along_by(numpy.roll), expected)
    own, part = slice(planes * rank, planes * (rank + 1)), Subdomain(rank, gpus, (planes, 24, 40), accuracy)
    for tile, variant in itertools.product(TILES, VARIANTS):
        watch()
        for array in part.arrays:
            array.fill_(torch.nan)
        part.arrays[0][r:-r] = torch.from_numpy(f[own])
        part.prepare(kernels[tile], tile, 6)
        part.exchange(0)
        part.run(variant, steps)
        error = abs(part.arrays[steps % 2][r:-r].cpu().numpy() - expected[own]).max() / abs(expected).max()
        if not error < 1e-5:
            raise RuntimeError(f"accuracy {accuracy}, {variant}, tile {tile}: the relative error is {error:.1e}")


def measure(rank, gpus, n, planes, accuracy, kernels):
    part, said = Subdomain(rank, gpus, (planes, n, n), accuracy), {}
    part.arrays[0][planes // 2, n // 2, n // 2] = 1
    for variant in VARIANTS:
        def fastest(times, steps, tile, piece, variant=variant):
            part.prepare(kernels[tile], tile, piece)
            return min([part.step_us(variant, steps) for _ in range(1 + times)][1:])
        tile, piece = min(itertools.product(TILES, PIECES), key=lambda each: fastest(1, TRIAL_STEPS, *each))
        said[variant] = {"us": round(fastest(4, STEPS, tile, piece), 3), "tile": tile, "piece": piece}
    us = min(variant["us"] for variant in said.values())
    return {"gpus": gpus, "n": n, "planes": planes, "accuracy": accuracy, "us": us} | said


def rank_main(rank, gpus, cases, folder):
    watch()
    torch.cuda.set_device(rank)
    cupy.cuda.Device(rank).use()  # with the default stream, as torch
    dist.init_process_group("nccl", init_method=f"file://{folder}/ranks", rank=rank, world_size=gpus,
                            device_id=torch.device("cuda", rank),
                            pg_options=dist.ProcessGroupNCCL.Options(is_high_priority_stream=True))
    kernels = {accuracy: {tile: cupy.RawKernel(source(accuracy, tile), "step") for tile in TILES}
               for accuracy in sorted({accuracy for *_, accuracy in cases})}
    for accuracy in kernels:
        check(rank, gpus, accuracy, kernels[accuracy])
    for n, planes, accuracy in cases:
        said = measure(rank, gpus, n, planes, accuracy, kernels[accuracy])
        if rank == 0:
            print(json.dumps(said), flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--n", type=int, nargs="+", default=[512], help="points along x and y")
    parser.add_argument("--planes", type=int, nargs="+", default=[512], help="of each GPU")
    parser.add_argument("--accuracy", type=int, nargs="+", default=[8], choices=sorted(SECOND))
    options = parser.parse_args()
    cases = list(zip(options.n, options.planes, options.accuracy, strict=True))
    if any(min(n, planes) < accuracy for n, planes, accuracy in cases):
        parser.error("--n and --planes: at least --accuracy")
    if not 2 <= options.gpus <= torch.cuda.device_count():
        parser.error(f"--gpus: from 2 to the {torch.cuda.device_count()} of this machine")
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(rank_main, (options.gpus, cases, folder), nprocs=options.gpus)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The alternatives to fdserver: CuPy in the user's own process, and CuPy behind gRPC in another.

    bench/service_peers.py [--large N] [--seconds S] [--json FILE]

The derivative along x at accuracy 8 of a periodic float32 array in host memory, at N³ (512) and 64³;
the result is in host memory again. bench/service.py calls this for its comparisons.

CuPy: a kernel of the user's own, a thread a point. "CuPy" uploads with cupy.asarray and downloads with
cupy.asnumpy into a new array each time; "reused" copies into one array that is kept; "pinned" also has
both arrays in pinned memory. gRPC: a unary call whose request and reply are the arrays' bytes, over a
Unix socket, without a limit on messages; the server computes like "CuPy".
"""

import concurrent.futures
import multiprocessing
import os
import statistics
import tempfile
import time

import numpy

import serving
from peers import FIRST

KERNEL = r"""
extern "C" __global__ void derivative(const float *f, float *out, int nx, long long points)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= points)
        return;
    const int x = (int)(i % nx);
    const float *row = f + (i - x);
    const float weights[4] = {4.0f / 5, -1.0f / 5, 4.0f / 105, -1.0f / 280};
    float sum = 0;
    for (int m = 1; m <= 4; m++) {
        const int after = x + m < nx ? x + m : x + m - nx, before = x >= m ? x - m : x - m + nx;
        sum += weights[m - 1] * (row[after] - row[before]);
    }
    out[i] = sum;
}
"""
THREADS = 256
METHOD = "/Derivative/x"
NO_LIMIT = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
CLIENTS, IN_FLIGHT = 8, 16
TOLERANCE = 1e-5


class Cupy:
    def __init__(self):
        import cupy
        import cupyx
        self.cupy, self.cupyx = cupy, cupyx
        self.kernel = cupy.RawKernel(KERNEL, "derivative")

    def derivative(self, f):
        """Of an array on the device."""
        out = self.cupy.empty_like(f)
        self.kernel(((f.size + THREADS - 1) // THREADS,), (THREADS,),
                    (f, out, numpy.int32(f.shape[-1]), numpy.int64(f.size)))
        return out

    def call(self, f):
        return self.cupy.asnumpy(self.derivative(self.cupy.asarray(f)))

    def pinned_copy(self, f):
        pinned = self.cupyx.empty_pinned(f.shape, f.dtype)
        pinned[...] = f
        return pinned


def field(n):
    return numpy.random.default_rng(n).standard_normal((n, n, n), dtype="f4")


def must_be_derivative(out, f):
    """Of the first plane, against NumPy."""
    expected = sum(weight * (numpy.roll(f[0], -m, -1) - numpy.roll(f[0], m, -1))
                   for m, weight in enumerate(FIRST[8], 1))
    if not numpy.abs(out[0] - expected).max() < TOLERANCE:
        raise SystemExit("a peer's result is not the derivative")


def median_us(call, seconds, least=3):
    call()
    samples = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(samples) < least:
        begin = time.perf_counter()
        call()
        samples.append(time.perf_counter() - begin)
    return 1e6 * statistics.median(samples)


def measure_cupy(sizes, seconds):
    cupy = Cupy()
    rows = {}
    for n in sizes:
        f = field(n)
        kept, pinned, pinned_out = numpy.zeros_like(f), cupy.pinned_copy(f), cupy.pinned_copy(f)
        must_be_derivative(cupy.call(f), f)
        rows[f"CuPy {n}³"] = median_us(lambda: cupy.call(f), seconds)
        rows[f"CuPy {n}³ reused"] = median_us(
            lambda: cupy.derivative(cupy.cupy.asarray(f)).get(out=kept), seconds)
        rows[f"CuPy {n}³ pinned"] = median_us(
            lambda: cupy.derivative(cupy.cupy.asarray(pinned)).get(out=pinned_out), seconds)
    return rows


def grpc_server(path, ready):
    import grpc
    cupy = Cupy()

    def derivative(request, _):
        n = round((len(request) / 4) ** (1 / 3))
        return cupy.call(numpy.frombuffer(request, "f4").reshape(n, n, n)).tobytes()

    service, method = METHOD.strip("/").split("/")
    handler = grpc.method_handlers_generic_handler(
        service, {method: grpc.unary_unary_rpc_method_handler(derivative)})
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(CLIENTS), options=NO_LIMIT)
    server.add_generic_rpc_handlers([handler])
    server.add_insecure_port(f"unix:{path}")
    server.start()
    ready.set()
    server.wait_for_termination()


class GrpcClient:
    def __init__(self, path):
        import grpc
        self.channel = grpc.insecure_channel(f"unix:{path}", options=NO_LIMIT)
        self.method = self.channel.unary_unary(METHOD)

    def call(self, f):
        return numpy.frombuffer(self.method(f.tobytes()), "f4").reshape(f.shape)

    def begin(self, f):
        return self.method.future(f.tobytes())


def keep_in_flight(path, seconds, start, results):
    client, f = GrpcClient(path), field(64)
    client.call(f)
    start.wait()
    begin = time.perf_counter()
    calls, done = [client.begin(f) for _ in range(IN_FLIGHT)], 0
    while time.perf_counter() - begin < seconds:
        numpy.frombuffer(calls.pop(0).result(), "f4")
        calls.append(client.begin(f))
        done += 1
    elapsed = time.perf_counter() - begin
    for call in calls:
        call.result()
    results.put(done / elapsed)


def grpc_jobs_per_s(context, path, seconds):
    start, results = context.Barrier(CLIENTS), context.Queue()
    processes = [context.Process(target=keep_in_flight, args=(path, seconds, start, results))
                 for _ in range(CLIENTS)]
    for process in processes:
        process.start()
    total = sum(results.get() for _ in processes)
    for process in processes:
        process.join()
    return total


def measure_grpc(sizes, seconds):
    import grpc  # noqa: F401: reports a missing package before a server is started
    context = multiprocessing.get_context("spawn")  # neither CUDA nor gRPC works after a fork
    with tempfile.TemporaryDirectory(prefix="grpc-") as folder:
        path, ready = f"{folder}/s", context.Event()
        server = context.Process(target=grpc_server, args=(path, ready), daemon=True)
        server.start()
        if not ready.wait(60):
            raise RuntimeError("the gRPC server did not start")
        try:
            rows = {}
            for n in sizes:
                f, client = field(n), GrpcClient(path)
                must_be_derivative(client.call(f), f)
                rows[f"gRPC + CuPy {n}³"] = median_us(lambda: client.call(f), seconds)
            rows["gRPC + CuPy 64³ jobs/s"] = grpc_jobs_per_s(context, path, seconds)
            return rows
        finally:
            server.terminate()
            server.join()


def main():
    parser = serving.parser(__doc__)
    parser.add_argument("--large", type=int, default=512, metavar="N")
    parser.add_argument("--seconds", type=float, default=2, help="for each row")
    options = parser.parse_args()
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    rows, missing = {}, {}
    for name, measure in (("CuPy", measure_cupy), ("gRPC + CuPy", measure_grpc)):
        try:
            rows |= measure((64, options.large), options.seconds)
        except Exception as error:  # not installed, or not usable here
            missing[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            print(f"{name}: {missing[name]}")
    for name, value in rows.items():
        print(f"{name:28}{value:14.1f}" + ("" if name.endswith("/s") else " µs"))
    serving.write(options.json, {"rows": rows, "missing": missing})  # microseconds and jobs/s by name


if __name__ == "__main__":
    main()

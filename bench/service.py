#!/usr/bin/env python3
"""What a client sees: latency, jobs per second, and throughput beside the socket's own floor.

    bench/service.py --build build/release --device host --json service.json

Starts an fdserver of its own, or measures one that runs (--connect PATH). Needs numpy, msgpack and
msgpack_numpy. Arrays are sent from and received into their own memory: what a careful client does.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import platform
import socket
import statistics
import subprocess
import tempfile
import time

import msgpack
import msgpack_numpy
import numpy


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)

    def call(self, method, **params):
        """A method whose reply is small."""
        self.socket.sendall(msgpack.packb([0, 0, method, [params]], default=msgpack_numpy.encode))
        unpacker = msgpack.Unpacker()
        while True:
            unpacker.feed(self.socket.recv(1 << 20))
            for _, _, error, result in unpacker:
                if error:
                    raise SystemExit(f"{method}: {error['code']}: {error['message']}")
                return result


class InlineJob:
    """One kind of job whose array goes both ways, packed once."""

    def __init__(self, f):
        self.f = f
        self.request = msgpack.packb([0, 0, "derivative", [{"axis": "x", "f": f}]],
                                     default=msgpack_numpy.encode)[:-f.nbytes]
        self.reply = msgpack.packb([1, 0, None, {"out": f}], default=msgpack_numpy.encode)[:-f.nbytes]
        self.header = bytearray(len(self.reply))
        self.out = numpy.empty_like(f)
        self.bytes_in, self.bytes_out = memoryview(f).cast("B"), memoryview(self.out).cast("B")

    def send(self, client):
        client.socket.sendall(self.request)
        client.socket.sendall(self.bytes_in)

    def receive(self, client):
        receive_into(client.socket, memoryview(self.header))
        if self.header != self.reply:
            raise SystemExit(f"not a result: {bytes(self.header)!r}")
        receive_into(client.socket, self.bytes_out)


def receive_into(from_socket, view):
    while view:
        count = from_socket.recv_into(view)
        if not count:
            raise SystemExit("the server closed the connection")
        view = view[count:]


def field(n):
    return numpy.random.default_rng(n).standard_normal((n, n, n), dtype="f4")


def quantiles(seconds):
    ordered = sorted(seconds)
    return {"p50_us": 1e6 * statistics.median(ordered), "p99_us": 1e6 * ordered[int(len(ordered) * 0.99)],
            "count": len(ordered)}


def timed(call, seconds, least=5):
    """How long each call took, for about so many seconds in all; the first ones warm up."""
    for _ in range(3):
        call()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < least:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return times


def latencies(path, seconds):
    client = Client(path)
    rows = {"ping": quantiles(timed(lambda: client.call("ping"), seconds))}
    f = field(64)
    source = client.call("put", f=f)["field"]
    target = client.call("put", f=f)["field"]
    resident = {"f": {"field": source}, "out": {"field": target}, "axis": "x"}
    rows["derivative 64³ resident"] = quantiles(timed(lambda: client.call("derivative", **resident), seconds))
    for made in (source, target):
        client.call("free", field=made)
    job = InlineJob(f)

    def inline():
        job.send(client)
        job.receive(client)
    rows["derivative 64³ inline"] = quantiles(timed(inline, seconds))
    return rows


def keep_in_flight(path, depth, seconds, start, results):
    client, job = Client(path), InlineJob(field(64))
    start.wait()
    # Replies go unread while a request is being written; the server holds them.
    for _ in range(depth):
        job.send(client)
    done = 0
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        job.receive(client)
        job.send(client)
        done += 1
    elapsed = time.perf_counter() - begin
    for _ in range(depth):
        job.receive(client)
    results.put(done / elapsed)


def jobs_per_second(path, clients, depth, seconds):
    start, results = multiprocessing.Barrier(clients), multiprocessing.Queue()
    processes = [multiprocessing.Process(target=keep_in_flight, args=(path, depth, seconds, start, results))
                 for _ in range(clients)]
    for process in processes:
        process.start()
    total = sum(results.get() for _ in processes)
    for process in processes:
        process.join()
    return total


def echo(end, size):
    """The floor's other side: take so many bytes into memory, then give them back."""
    memory = memoryview(bytearray(size))
    while True:
        view = memory
        while view:
            count = end.recv_into(view)
            if not count:
                return
            view = view[count:]
        end.sendall(memory)


def socket_floor(size, seconds):
    """Seconds for so many bytes there and back through a Unix socket, with nothing done to them."""
    mine, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        mine.close()
        echo(theirs, size)
        os._exit(0)
    theirs.close()
    data, back = numpy.zeros(size, "u1"), numpy.zeros(size, "u1")

    def once():
        mine.sendall(memoryview(data))
        receive_into(mine, memoryview(back))
    best = min(timed(once, seconds, least=3))
    mine.close()
    os.waitpid(child, 0)
    return best


def throughput(path, n, seconds):
    client, job = Client(path), InlineJob(field(n))

    def once():
        job.send(client)
        job.receive(client)
    best = min(timed(once, seconds, least=3))
    floor = socket_floor(job.f.nbytes, seconds)
    return {"seconds": best, "GB_per_s": 2 * job.f.nbytes / best / 1e9, "socket_seconds": floor,
            "share_of_socket": floor / best}


def processor():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def measure(path, sizes, seconds):
    info = Client(path).call("info")
    results = {
        "commit": os.environ.get("FDSERVER_COMMIT", ""),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"processor": processor(), "cores": len(os.sched_getaffinity(0)),
                    "kernel": platform.release(), "server": info["version"],
                    "devices": [{key: device[key] for key in ("name", "kind", "model", "driver")}
                                for device in info["devices"]]},
        "latency": latencies(path, seconds),
        "jobs_per_s": {f"64³ inline, {clients} × 16 in flight": jobs_per_second(path, clients, 16, seconds)
                       for clients in (1, 8)},
        "throughput": {f"derivative {n}³ inline": throughput(path, n, seconds) for n in sizes},
    }
    return results


def print_table(results):
    machine = results["machine"]
    print(f"{machine['processor']}, {machine['cores']} cores; "
          + ", ".join(f"{d['name']}: {d['model']}" for d in machine["devices"]))
    print(f"\n{'latency':32}{'p50 µs':>12}{'p99 µs':>12}{'calls':>10}")
    for name, row in results["latency"].items():
        print(f"{name:32}{row['p50_us']:12.1f}{row['p99_us']:12.1f}{row['count']:10}")
    print(f"\n{'rate':32}{'jobs/s':>12}")
    for name, rate in results["jobs_per_s"].items():
        print(f"{name:32}{rate:12.0f}")
    print(f"\n{'throughput':32}{'ms':>12}{'GB/s':>12}{'socket ms':>12}{'share':>8}")
    for name, row in results["throughput"].items():
        print(f"{name:32}{1e3 * row['seconds']:12.1f}{row['GB_per_s']:12.2f}"
              f"{1e3 * row['socket_seconds']:12.1f}{row['share_of_socket']:8.0%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--connect", metavar="PATH", help="the socket of a server that runs")
    parser.add_argument("--sizes", type=int, nargs="*", default=[256, 512], metavar="N")
    parser.add_argument("--seconds", type=float, default=3, help="for each row")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    if options.connect:
        results = measure(options.connect, options.sizes, options.seconds)
    else:
        with tempfile.TemporaryDirectory(prefix="fdserver-") as folder:
            path = f"{folder}/s"
            server = subprocess.Popen([options.build / "server/fdserver", "--listen", f"unix:{path}",
                                       "--device", options.device, "--log-level", "4"])
            try:
                while not os.path.exists(path):
                    if server.poll() is not None:
                        raise SystemExit("fdserver did not start")
                    time.sleep(0.01)
                results = measure(path, options.sizes, options.seconds)
            finally:
                server.terminate()
                server.wait()
    print_table(results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A stencil's kernel from its first job on, and what a flood of new stencils does to a neighbour, on a GPU.

    bench/first_use.py --build build/release --json first_use.json [--flood-s SECONDS]

First use: jobs of a stencil that the server has never seen, one after another, on a resident field of 512³
float32: the time of the first, when the first fast one was sent, and the same after a restart that finds the
kernel in its file. A neighbour: one client's 64³ job at a time, alone, and beside a user who sends stencils on
fields of 2^19 points as fast as they are answered: one and the same, or every one new; without a compiler and
with it. --neighbour: that alone. Needs root, for the second user.
"""

import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "client/python"))

import fdclient  # noqa: E402
import serving  # noqa: E402

OTHER_USER = 12345
BOX = [[z, y, x] for z in (-1, 0, 1) for y in (-1, 0, 1) for x in (-1, 0, 1)]


def stencil_of(number):
    """Half of a box, chosen by the number's bits, and a point that no common stencil has."""
    chosen = [o for k, o in enumerate(BOX) if number >> k & 1] + [[2, 2, 2]]
    return {"offsets": chosen, "weights": [1 / len(chosen)] * len(chosen)}


class Server:
    def __init__(self, options, folder, compiles=True):
        self.path = f"{folder}/socket"
        self.folder = pathlib.Path(folder) / "kernels"
        program = options.build / "server/fdserver"
        if not compiles:
            alone = pathlib.Path(folder) / "alone"
            alone.mkdir()
            program = shutil.copy(program, alone)
            shutil.copy(options.build / "gpu/fdworker", alone)
        self.process = serving.start(program, self.path, options.device, "--mode", "0666", "--log-level", "4",
                                     "--kernel-cache", self.folder)

    def client(self):
        return fdclient.Client(f"unix:{self.path}", timeout=120)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        os.unlink(self.path) if os.path.exists(self.path) else None

    def programs(self):
        """Resident MiB of its worker and its compiler."""
        found = {}
        for status in pathlib.Path("/proc").glob("[0-9]*/status"):
            text = status.read_text()
            if re.search(rf"^PPid:\t{self.process.pid}$", text, re.M):
                name = re.search(r"^Name:\t(\w+)", text).group(1)
                found[name] = int(re.search(r"^VmRSS:\s+(\d+)", text, re.M).group(1)) >> 10
        return found

    def files(self):
        return sum(f.stat().st_size for f in self.folder.iterdir()) if self.folder.exists() else 0


def first_use(server, number, jobs=400):
    with server.client() as client:
        field = client.put(numpy.random.default_rng(3).random((512, 512, 512), dtype="f4"))
        out = client.put(numpy.zeros((512, 512, 512), "f4"))
        client.run("laplacian", f=field, out=out)
        begun, times, at = time.perf_counter(), [], []
        while len(times) < jobs and time.perf_counter() - begun < 5:
            at.append(time.perf_counter() - begun)
            client.run("stencil", f=field, out=out, **stencil_of(number))
            times.append(1e3 * (time.perf_counter() - begun - at[-1]))
    fast = numpy.median(times[-20:])
    first = next(i for i, ms in enumerate(times) if ms < 1.3 * fast)
    return {"first_ms": round(times[0], 3), "fast_ms": round(float(fast), 3), "jobs_before": first,
            "after_ms": round(1e3 * at[first], 1)}


def flood(path, new, seconds):
    os.setuid(OTHER_USER)
    with fdclient.Client(f"unix:{path}", timeout=120) as client:
        field = client.put(numpy.ones((128, 64, 64), "f4"))
        out = client.put(numpy.ones((128, 64, 64), "f4"))
        number, begun, pending = 1000, time.monotonic(), []
        while time.monotonic() - begun < seconds:
            number += new
            pending.append(client.submit("stencil", f=field, out=out, **stencil_of(number)))
            if len(pending) == 8:
                pending.pop(0).result()
        for job in pending:
            job.result()
    return number


def neighbour(server, kind, seconds):
    child = None
    if kind:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                flood(server.path, kind == "new", seconds)
                status = 0
            finally:
                os._exit(status)
        time.sleep(0.5)
    times = []
    with server.client() as client:
        field = client.put(numpy.ones((64, 64, 64), "f4"))
        out = client.put(numpy.ones((64, 64, 64), "f4"))
        end = time.monotonic() + seconds - 1
        while time.monotonic() < end:
            begun = time.perf_counter()
            client.run("derivative", f=field, out=out, axis="x")
            times.append(1e6 * (time.perf_counter() - begun))
    if child and os.waitpid(child, 0)[1]:
        sys.exit("the flood ended with an error")
    return {"jobs": len(times)} | {name: round(float(numpy.percentile(times, share)), 1)
                                   for name, share in (("p50_us", 50), ("p99_us", 99), ("p999_us", 99.9))}


def main():
    parser = serving.parser(__doc__, device="cuda:0")
    parser.add_argument("--flood-s", type=float, default=15)
    parser.add_argument("--neighbour", action="store_true")
    options = parser.parse_args()
    said = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        with Server(options, folder) as server:
            with server.client() as client:
                device = client.call("info")["devices"][0]
                said |= {"device": device["model"], "driver": device["driver"]}
            if not options.neighbour:
                said["new"] = first_use(server, 12345)
                said["next_new"] = first_use(server, 54321)
        if not options.neighbour:
            with Server(options, folder) as server:
                said["restart"] = first_use(server, 12345)
        with Server(options, folder, compiles=False) as server:
            for name, kind in (("beside_one_stencil_uncompiled", "one"),
                               ("beside_new_stencils_uncompiled", "new")):
                said[name] = neighbour(server, kind, options.flood_s)
        with Server(options, folder) as server:
            before = server.programs()
            for name, kind in (("alone", None), ("beside_one_stencil", "one"), ("beside_new_stencils", "new")):
                said[name] = neighbour(server, kind, options.flood_s)
            said["resident_mib"] = {"before": before, "after": server.programs()}
            said["kernel_files_bytes"] = server.files()
            with server.client() as client:
                said["kernels"] = client.call("info")["devices"][0]["kernels"]
    print(json.dumps(said, indent=1))
    serving.write(options.json, said)


if __name__ == "__main__":
    main()

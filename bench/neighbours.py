#!/usr/bin/env python3
"""The rate of a user's jobs beside neighbours who use all that they may, relative to the rate alone.

    bench/neighbours.py --build build/release --device host [--only waiters] [--rounds 3]

    waiters   8 users with 1,016 jobs each in flight, all of which need a slab for their input
    unread    20 users with a computed result of 64 MiB each, which they do not read
    busy      as many computing processes as there are CPUs
    chain     the same
    long      8 users with an endless diffusion each, on small fields and on large ones
    asking    another user's 1,000 connections with one job at a time each (asking-pings: the same)
    joining   1,000 connections that reconnect for each job (joining-pings: the same)
    notifying 2,000 connections that send notifications without an answer (notifying-pings: the same)

Measured are the jobs a second of a user with one small inline job at a time (waiters, unread, asking,
joining, notifying), or pings; the median time of a resident 64³ derivative, one at a time (busy,
long); the time of 1,500 derivatives at 128² with coordinates, each of the result of the previous one
(chain). Each round measures alone and beside neighbours in turn. The last line of a row has the
medians, and the longest time without a message of the daemon's watchdog, which is due each second.
Needs root, for the neighbours' uids, and msgpack.
"""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import msgpack
import serving
from serving import array, connection, request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/lib"))
from flooding import ask_without_end, neighbour, send_without_end  # noqa: E402

FIRST_UID = 20000
MIB = 1 << 20


class Watchdog:
    """Receives the daemon's messages to systemd; gap: the longest time between two of its watchdog."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.gap, self.last = 0.0, time.monotonic()
        self.env = os.environ | {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000000"}
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            if b"WATCHDOG=1" in self.socket.recv(4096):
                now = time.monotonic()
                self.gap, self.last = max(self.gap, now - self.last), now


@contextlib.contextmanager
def front(options):
    with tempfile.TemporaryDirectory(prefix="fdserver-") as folder:
        os.chmod(folder, 0o755)
        path = f"{folder}/s"
        load = shutil.copy(options.build / "bench/bench_load", folder)  # accessible to any uid
        watchdog = Watchdog(f"{folder}/notify")
        process = serving.start(options.build / "server/fdserver", path, options.device, "--mode", "0666",
                                "--log-level", "3", env=watchdog.env)
        try:
            yield path, load, watchdog
        finally:
            process.kill()
            process.wait()


def start_load(path, load, uid, in_flight, seconds, *arguments):
    return subprocess.Popen([load, "--connect", path, "--in-flight", str(in_flight),
                             "--seconds", str(seconds), *arguments], user=uid, stdout=subprocess.PIPE)


def load_one(path, load, options, *arguments):
    """The output of a load of one job at a time; {}: the load does not end."""
    process = start_load(path, load, FIRST_UID, 1, options.seconds, *arguments)
    try:
        return json.loads(process.communicate(timeout=60 + options.seconds)[0])
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return {}


def jobs_per_second(path, load, options):
    return load_one(path, load, options, "--mode", "inline", "--shape", "1,1,64").get("jobs_per_s", 0.0)


def resident_us(path, load, options):
    return load_one(path, load, options, "--mode", "resident", "--shape", "64,64,64").get("p50_us", float("inf"))


def chain_s(path, load, options, jobs=1500, together=500):
    """From field to field and back, with several jobs in flight."""
    with connection(path, FIRST_UID) as (call, send, answer):
        fields = [call("put", f=array(128, 128))["field"] for _ in range(2)]
        spacing = {"x": [i + i % 3 / 8 for i in range(128)]}
        begin = time.monotonic()
        for i in range(jobs + together):
            if i < jobs:
                send("derivative", f={"field": fields[i % 2]}, out={"field": fields[1 - i % 2]}, axis="x",
                     spacing=spacing, boundary="one-sided")
            if i >= together:
                answer()
        return time.monotonic() - begin


@contextlib.contextmanager
def waiters(path, load, options):
    """Their inputs are as small as the user's."""
    loads = [start_load(path, load, FIRST_UID + 1 + i, 1016, options.seconds + 60,
                        "--mode", "inline", "--shape", "1,16,64") for i in range(8)]
    time.sleep(1)
    try:
        yield
    finally:
        for process in loads:
            process.kill()
            process.wait()


@contextlib.contextmanager
def unread(path, load, options):
    with contextlib.ExitStack() as stack:
        for i in range(20):
            _, send, _ = stack.enter_context(connection(path, FIRST_UID + 1 + i))
            send("laplacian", f=array(256, 256, 256))
        call, _, _ = stack.enter_context(connection(path, os.geteuid()))
        while call("stats")["queue"]["replying"] < 20:  # until all are computed
            time.sleep(0.01)
        yield


@contextlib.contextmanager
def busy(path, load, options):
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextlib.contextmanager
def long(path, load, options):
    with contextlib.ExitStack() as stack:
        for i in range(8):
            call, send, _ = stack.enter_context(connection(path, FIRST_UID + 1 + i))
            field = call("put", f=array(128, 128) if i % 2 else array(128, 128, 128))["field"]
            send("diffusion", f={"field": field}, out={"field": field}, steps=10**7, cfl=0.5)
        time.sleep(1)
        yield


def asked_per_second(path, options, method, **params):
    """On one connection, one request at a time."""
    with connection(path, os.geteuid()) as (call, _, _):
        count, begin = 0, time.monotonic()
        while time.monotonic() - begin < options.seconds:
            call(method, **params)
            count += 1
        return count / (time.monotonic() - begin)


def asked_jobs_per_second(path, load, options):
    return asked_per_second(path, options, "derivative", f=array(64), axis="x")


def asked_pings_per_second(path, load, options):
    return asked_per_second(path, options, "ping")


@contextlib.contextmanager
def flood(act):
    with neighbour(act):
        time.sleep(1)
        yield


def asking(path, load, options, reconnects=False):
    return flood(ask_without_end(path, request(1, "derivative", f=array(64), axis="x"), 1000, reconnects))


def joining(path, load, options):
    return asking(path, load, options, reconnects=True)


def notifying(path, load, options):
    return flood(send_without_end(path, msgpack.packb([2, "", []]), 2000))


def main():
    rows = {"waiters": (jobs_per_second, "jobs/s", waiters), "unread": (jobs_per_second, "jobs/s", unread),
            "busy": (resident_us, "µs", busy), "chain": (chain_s, "s", busy), "long": (resident_us, "µs", long)}
    for others in (asking, joining, notifying):
        rows[others.__name__] = asked_jobs_per_second, "jobs/s", others
        rows[f"{others.__name__}-pings"] = asked_pings_per_second, "pings/s", others
    parser = serving.parser(__doc__, device="host")
    parser.add_argument("--only", choices=rows, action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    print(f"{'neighbours':16}{'alone':>12}{'beside':>12}{'ratio':>9}   ({os.cpu_count()} CPUs)")

    def line(name, alone, beside, unit):
        print(f"{name:16}{alone:12,.4g}{beside:12,.4g}{beside / alone:9.3f}   {unit}", flush=True)

    medians = []
    for name in options.only or rows:
        measure, unit, neighbours = rows[name]
        seen, gap = [], 0.0
        for _ in range(options.rounds):
            with front(options) as (path, load, watchdog):
                alone = measure(path, load, options)
                with neighbours(path, load, options):
                    seen.append((alone, measure(path, load, options)))
                gap = max(gap, watchdog.gap, time.monotonic() - watchdog.last)
            line(name, *seen[-1], unit)
        alone, beside = (statistics.median(column) for column in zip(*seen))
        line("  median", alone, beside, f"{unit}, longest watchdog gap {gap:.2f} s")
        medians.append({"neighbours": name, "unit": unit, "alone": alone, "beside": beside, "watchdog_gap_s": gap})
    serving.write(options.json, {"rows": medians})


if __name__ == "__main__":
    main()

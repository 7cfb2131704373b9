#!/usr/bin/env python3
"""What one user's connection of one job, or one ping, at a time keeps of its rate beside another user's flood.

    bench/floods.py --build build/release [--device host] [--seconds 3] [--rounds 3] [--json FILE]

Alone and beside each flood are measured in turn, several rounds of them, so that whatever else the machine
does meets both; the ratio is that of the medians. Run as root: the flood is another uid's. Each daemon has a
watchdog due each second, and the longest time without a message of it is told.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/lib"))

import msgpack
import msgpack_numpy
import numpy

from flooding import ask_without_end, connect, neighbour, send_without_end

POINTS = 64


def job_bytes():
    f = numpy.sin(numpy.arange(POINTS, dtype="<f4"))
    return msgpack.packb([0, 1, "derivative", [{"f": f, "axis": "x"}]], default=msgpack_numpy.encode)


class Watchdog:
    """Takes the daemon's messages to systemd; the longest time between two of its watchdog."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.times = []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            if b"WATCHDOG=1" in self.socket.recv(4096):
                self.times.append(time.monotonic())

    def gap(self, since):
        times = [since] + [t for t in self.times if t > since] + [time.monotonic()]
        return max(b - a for a, b in zip(times, times[1:]))


def rate(path, seconds, request):
    """Answers a second on one connection, one request at a time."""
    count = 0
    with connect(path) as connection:
        begun = time.monotonic()
        while time.monotonic() - begun < seconds:
            connection.sendall(request)
            connection.recv(1 << 16)
            count += 1
        return count / (time.monotonic() - begun)


def await_hang_ups(path):
    """Until the server has seen that a flood's connections are gone: the next one's would be too many beside them."""
    with connect(path) as connection:
        while True:
            connection.sendall(msgpack.packb([0, 1, "stats", []]))
            if msgpack.unpackb(connection.recv(1 << 16))[3]["connections"] == 1:
                return
            time.sleep(0.1)


NOTIFICATION = msgpack.packb([2, "", []])  # which nothing answers
FLOODS = {
    "1000 connections of jobs": lambda path: ask_without_end(path, job_bytes(), 1000, reconnects=False),
    "1000 connections, a job each": lambda path: ask_without_end(path, job_bytes(), 1000, reconnects=True),
    "2000 connections of notifications": lambda path: send_without_end(path, NOTIFICATION, 2000),
}


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", required=True)
    options.add_argument("--device", default="host")
    options.add_argument("--seconds", type=float, default=3)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--only", help="floods whose name has this in it")
    options.add_argument("--json")
    options = options.parse_args()
    if os.geteuid() != 0:
        sys.exit("floods.py: another user's flood needs root")
    places = [pathlib.Path(options.build) / folder / "fdserver" for folder in ("", "server", "bin")]
    program = next(place for place in places if place.is_file())
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = f"{folder}/socket"
        watchdog = Watchdog(f"{folder}/notify")
        daemon = subprocess.Popen(
            [program, "--listen", f"unix:{path}", "--mode", "0666", "--device", options.device, "--log-level", "3"],
            env=os.environ | {"NOTIFY_SOCKET": f"{folder}/notify", "WATCHDOG_USEC": "1000000"})
        try:
            while not os.path.exists(path):
                time.sleep(0.05)
            requests = {"jobs": job_bytes(), "pings": msgpack.packb([0, 1, "ping", [{}]])}
            rate(path, 1, requests["jobs"])
            for name in [name for name in FLOODS if not options.only or options.only in name]:
                alone, beside, gap = {"jobs": [], "pings": []}, {"jobs": [], "pings": []}, 0
                for _ in range(options.rounds):
                    for kind, request in requests.items():
                        alone[kind].append(rate(path, options.seconds, request))
                    with neighbour(FLOODS[name](path)):
                        time.sleep(1)
                        since = time.monotonic()
                        for kind, request in requests.items():
                            beside[kind].append(rate(path, options.seconds, request))
                        gap = max(gap, watchdog.gap(since))
                    await_hang_ups(path)
                for kind in requests:
                    row = {"flood": name, "of": kind, "alone_per_s": statistics.median(alone[kind]),
                           "beside_per_s": statistics.median(beside[kind]), "watchdog_gap_s": gap}
                    row["ratio"] = row["beside_per_s"] / row["alone_per_s"]
                    rows.append(row)
                    print(f"{name:36} {kind:5} alone {row['alone_per_s']:8.0f}/s  beside {row['beside_per_s']:8.0f}/s  "
                          f"ratio {row['ratio']:.3f}  longest watchdog gap {gap:.2f} s", flush=True)
        finally:
            daemon.kill()
            daemon.wait()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

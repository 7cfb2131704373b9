#!/usr/bin/env python3
"""How soon a device serves again whose worker was killed while arrays were copied to it and from it.

    bench/recovery.py --build build/release --devices host,host [--kills 100] --json recovery.json

In each round one user has jobs on the first device that read a field of the last, and the reverse, with
results in shared memory, and the last device's worker is killed at a random moment of them. Their
answers must have the right bits, or say that the device or a field of it was lost. Jobs of another
connection, on the first device with its own field, must all have the right bits: one that fails ends
the measurement. Recovery is the time from the kill until all those jobs are answered and another one
has its result on the killed device.
"""

import json
import math
import os
import pathlib
import random
import signal
import sys
import threading
import time

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "client/python"))
import fdclient  # noqa: E402
import serving  # noqa: E402
from service import front, rounded  # noqa: E402

SHAPE = 64, 256, 256  # 16 MiB: many slabs
LOST = {"DEVICE_LOST", "FIELD_LOST"}
JOBS = 3  # each way
PATIENCE_S = 60


class Bystander(threading.Thread):
    """Runs jobs on one device, one at a time."""

    def __init__(self, path, device):
        super().__init__(daemon=True)
        self.path, self.device = path, device
        self.jobs, self.longest_s, self.fault, self.is_over = 0, 0.0, None, False

    def run(self):
        try:
            with fdclient.Client(self.path) as client:
                f = numpy.random.default_rng(1).random((64, 64, 64), "f4")
                field = client.put(f, placement=self.device)
                expected = client.run("laplacian", f).tobytes()
                while not self.is_over:
                    begin = time.monotonic()
                    if client.run("laplacian", field, placement=self.device).tobytes() != expected:
                        raise ValueError("wrong bits")
                    self.jobs += 1
                    self.longest_s = max(self.longest_s, time.monotonic() - begin)
        except Exception as error:  # of any kind: main() tells
            self.fault = error


def outcome(job):
    """Its result's bytes, or the code of its error."""
    try:
        return job.result().tobytes()
    except fdclient.Error as error:
        return error.code


def kill_worker(client, device):
    """Kill the device's worker; returns when that was."""
    pid = next(d["pid"] for d in client.call("info")["devices"] if d["name"] == device)
    os.kill(pid, signal.SIGKILL)
    return time.monotonic()


def measure(options, client, devices):
    """Recovery times, and how many jobs were answered with a result and with a loss."""
    first, last = devices[0], devices[-1]
    f = numpy.random.default_rng(2).random(SHAPE, "f4")
    here = client.put(f, placement=first)
    expected = client.run("laplacian", f).tobytes()
    results = [fdclient.empty(SHAPE) for _ in range(2 * JOBS)]
    times, answered, lost, span_s = [], 0, 0, 0.0
    for kill in range(-1, options.kills):
        there = client.put(f, placement=last)
        for result in results:
            result.fill(numpy.nan)
        begin = time.monotonic()
        jobs = [client.submit("laplacian", field, result, placement=device)
                for result, (field, device) in zip(results, JOBS * [(there, first), (here, last)])]
        if kill >= 0:  # before that, a round without a kill tells how long it takes
            time.sleep(random.random() * span_s)
            killed_s = kill_worker(client, last)
        outcomes = [outcome(job) for job in jobs]
        span_s = span_s or time.monotonic() - begin
        wrong = [each for each in outcomes if each != expected and each not in LOST]
        if wrong or (kill < 0 and set(outcomes) != {expected}):
            raise SystemExit(f"a job ended with {wrong or outcomes}")
        if kill < 0:
            continue
        while outcome(client.submit("laplacian", here, results[0], placement=last)) != expected:
            if time.monotonic() > killed_s + PATIENCE_S:  # until then: the killed worker had accepted it
                raise SystemExit(f"{last} does not serve again")
        times.append(time.monotonic() - killed_s)
        lost += sum(each in LOST for each in outcomes)
        answered += len(outcomes) - sum(each in LOST for each in outcomes)
    return sorted(times), answered, lost


def main():
    parser = serving.parser(__doc__, "host,host", "--devices")
    parser.add_argument("--kills", type=int, default=100)
    options = parser.parse_args()
    with front(options, options.devices) as server, fdclient.Client(server.path) as client:
        devices = [device["name"] for device in client.call("info")["devices"]]
        bystander = Bystander(server.path, devices[0])
        bystander.start()
        times, answered, lost = measure(options, client, devices)
        bystander.is_over = True
        bystander.join()
        if bystander.fault or not bystander.jobs:
            raise SystemExit(f"another connection's job failed: {bystander.fault}")
        said = {"devices": devices,
                "device": client.call("info")["devices"][0]["model"],
                "kills": options.kills, "jobs_with_result": answered, "jobs_lost": lost,
                "recovery_ms": {name: rounded(1e3 * times[math.ceil(share * len(times)) - 1])
                                for name, share in (("p50", 0.5), ("p99", 0.99), ("longest", 1))},
                "others_jobs": bystander.jobs, "others_longest_ms": rounded(1e3 * bystander.longest_s)}
    print(json.dumps(said, indent=1))
    serving.write(options.json, said)


if __name__ == "__main__":
    main()

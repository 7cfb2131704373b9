#!/usr/bin/env python3
"""How soon a device serves again whose worker was killed while arrays were copied to it and from it.

    bench/recovery.py --build build/release --devices host,host [--exchange] [--kills 100] --json recovery.json

In each round one user has jobs on the first device that read a field of the last, and the reverse, with
results in shared memory, and the last device's worker is killed at a random moment of them. With
--exchange they are diffusions of a distributed field, whose subdomains exchange ghost planes. Their
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
F = numpy.random.default_rng(2).random(SHAPE, "f4")
LEAST_S = 0.1  # of a diffusion
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


class Copies:
    """Jobs that read fields of another device than their own."""

    def __init__(self, client, devices):
        self.client, self.first, self.last = client, devices[0], devices[-1]
        self.here = client.put(F, placement=self.first)
        self.expected = client.run("laplacian", F).tobytes()

    def prepare(self):
        self.there = self.client.put(F, placement=self.last)

    def begin(self, results):
        return [self.client.submit("laplacian", field, result, placement=device) for result, (field, device)
                in zip(results, JOBS * [(self.there, self.first), (self.here, self.last)])]

    def serves_again(self, result):
        return outcome(self.client.submit("laplacian", self.here, result, placement=self.last)) == self.expected


class Exchange:
    """Steps of a distributed field."""

    def __init__(self, client, devices):
        """So many steps that a kill finds some to come."""
        self.client, self.steps, took_s = client, {"steps": 10, "accuracy": 2, "cfl": 0.5}, 0.0
        while took_s < LEAST_S:
            self.steps["steps"] *= 2
            begin = time.monotonic()
            client.run("diffusion", F, distribute=True, **self.steps)
            took_s = time.monotonic() - begin
        self.expected = client.run("diffusion", F, placement=devices[0], **self.steps).tobytes()

    def prepare(self):
        self.field = self.client.put(F, distribute=True)

    def begin(self, results):
        return [self.client.submit("diffusion", self.field, result, **self.steps) for result in results]

    def serves_again(self, result):
        return outcome(self.client.submit("diffusion", F, result, distribute=True, **self.steps)) == self.expected


def measure(options, client, devices):
    """Recovery times, and how many jobs were answered with a result and with a loss."""
    work = (Exchange if options.exchange else Copies)(client, devices)
    results = [fdclient.empty(SHAPE) for _ in range(2 * JOBS)]
    times, answered, lost, span_s = [], 0, 0, 0.0
    for kill in range(-1, options.kills):
        work.prepare()
        for result in results:
            result.fill(numpy.nan)
        begin = time.monotonic()
        jobs = work.begin(results)
        if kill >= 0:  # before that, a round without a kill tells how long it takes
            time.sleep(random.random() * span_s)
            killed_s = kill_worker(client, devices[-1])
        outcomes = [outcome(job) for job in jobs]
        span_s = span_s or time.monotonic() - begin
        wrong = [each for each in outcomes if each not in (work.expected, *LOST)]
        if wrong or (kill < 0 and set(outcomes) != {work.expected}):
            raise SystemExit(f"a job ended with {wrong or outcomes}")
        if kill < 0:
            continue
        while not work.serves_again(results[0]):
            if time.monotonic() > killed_s + PATIENCE_S:  # until then: the killed worker had accepted it
                raise SystemExit(f"{devices[-1]} does not serve again")
        times.append(time.monotonic() - killed_s)
        lost += sum(each in LOST for each in outcomes)
        answered += len(outcomes) - sum(each in LOST for each in outcomes)
    return sorted(times), answered, lost


def main():
    parser = serving.parser(__doc__, "host,host", "--devices")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--exchange", action="store_true", help="of ghost planes, not copies of inputs")
    options = parser.parse_args()
    with front(options, options.devices) as server, fdclient.Client(server.path) as client:
        devices = [device["name"] for device in client.call("info")["devices"] if device["name"] != "distributed"]
        bystander = Bystander(server.path, devices[0])
        bystander.start()
        times, answered, lost = measure(options, client, devices)
        bystander.is_over = True
        bystander.join()
        if bystander.fault or not bystander.jobs:
            raise SystemExit(f"another connection's job failed: {bystander.fault}")
        said = {"devices": devices, "killed_in": "exchanges" if options.exchange else "copies",
                "device": client.call("info")["devices"][0]["model"],
                "kills": options.kills, "jobs_with_result": answered, "jobs_lost": lost,
                "recovery_ms": {name: rounded(1e3 * times[math.ceil(share * len(times)) - 1])
                                for name, share in (("p50", 0.5), ("p99", 0.99), ("longest", 1))},
                "others_jobs": bystander.jobs, "others_longest_ms": rounded(1e3 * bystander.longest_s)}
    print(json.dumps(said, indent=1))
    serving.write(options.json, said)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What a user's jobs come to beside neighbours who take all that they may, as a share of them alone.

    bench/neighbours.py --build build/release --device host [--only waiters] [--rounds 3]

    waiters   8 users with 1,016 jobs each under way, all of which need a slab for their input
    unread    a user who asks for 20 results of 64 MiB and reads none of them

The user has one job at a time. Alone and beside neighbours are measured in turn, in each round.
Needs root, for the neighbours' uids, and msgpack.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

import msgpack

FIRST_UID = 20000
MIB = 1 << 20


@contextlib.contextmanager
def front(options):
    with tempfile.TemporaryDirectory(prefix="fdserver-") as folder:
        os.chmod(folder, 0o755)
        path = f"{folder}/s"
        load = shutil.copy(options.build / "bench/bench_load", folder)  # any uid reaches it there
        process = subprocess.Popen([options.build / "server/fdserver", "--listen", f"unix:{path}", "--mode", "0666",
                                    "--device", options.device, "--log-level", "4"])
        try:
            while not os.path.exists(path):
                if process.poll() is not None:
                    raise SystemExit(f"fdserver --device {options.device} did not start")
                time.sleep(0.01)
            yield path, load
        finally:
            process.kill()
            process.wait()


def start_load(path, load, uid, in_flight, seconds, *arguments):
    return subprocess.Popen([load, "--connect", path, "--in-flight", str(in_flight),
                             "--seconds", str(seconds), *arguments], user=uid, stdout=subprocess.PIPE)


def jobs_per_second(path, load, options):
    process = start_load(path, load, FIRST_UID, 1, options.seconds, "--mode", "inline", "--shape", "1,1,64")
    try:
        return json.loads(process.communicate(timeout=60 + options.seconds)[0])["jobs_per_s"]
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return 0.0


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


def request(msgid, method, **params):
    return msgpack.packb([0, msgid, method, [params]])


@contextlib.contextmanager
def unread(path, load, options):
    """All on connections of their own, since results of one come one after another."""
    uid, sockets = os.geteuid(), []
    os.seteuid(FIRST_UID + 1)
    try:
        first = socket.socket(socket.AF_UNIX)
        first.connect(path)
        sockets.append(first)
        array = {b"nd": True, b"type": "<f4", b"kind": b"", b"shape": [256, 256, 256], b"data": bytes(64 * MIB)}
        first.sendall(request(1, "put", f=array))
        field = msgpack.unpackb(first.recv(4096))[3]["field"]
        for _ in range(20):
            sockets.append(socket.socket(socket.AF_UNIX))
            sockets[-1].connect(path)
            sockets[-1].sendall(request(1, "get", field=field))
    finally:
        os.seteuid(uid)
    time.sleep(2)
    try:
        yield
    finally:
        for each in sockets:
            each.close()


def main():
    rows = {"waiters": waiters, "unread": unread}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default="build/release")
    parser.add_argument("--device", default="host")
    parser.add_argument("--only", choices=rows, action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    print(f"{'neighbours':12}{'alone':>12}{'beside':>12}{'share':>9}   (jobs/s; {os.cpu_count()} CPUs)")
    for name in options.only or rows:
        for _ in range(options.rounds):
            with front(options) as (path, load):
                alone = jobs_per_second(path, load, options)
                with rows[name](path, load, options):
                    beside = jobs_per_second(path, load, options)
            print(f"{name:12}{alone:12,.1f}{beside:12,.1f}{beside / alone:9.3f}", flush=True)


if __name__ == "__main__":
    main()

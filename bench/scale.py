#!/usr/bin/env python3
"""One user's jobs on one device of a node and on all that are given, in one run.

    bench/scale.py --build build/release --devices cuda:0,cuda:1 --json scale.json [--seconds 3]

The loads are bench_load's. Every job is free to run on any device (`placement` is not given), so what
is measured includes the front, which is one process for all of them. Fields in subdomains are also compared with
bench/jacobi_nccl.py, where torch and CuPy are installed.
"""

import json
import pathlib
import subprocess
import sys
import time

import numpy as np

import serving
from service import LeftOut, Table, front

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "client/python"))
import fdclient  # noqa: E402

# name, bench_load's mode, points along an axis, clients, jobs in flight of each, least speed-up on two devices
LOADS = (("512³, region to region", "region", 512, 4, 4, 1.9),
         ("512³, resident", "resident", 512, 8, 4, 1.8),
         ("256³, resident", "resident", 256, 8, 8, 1.8),
         ("64³, resident", "resident", 64, 8, 16, 1.8),
         ("64³, resident, 16 clients", "resident", 64, 16, 16, None))

# Diffusion of a resident field in place: name, accuracy, planes of 512 or 1024 points a side for one device,
# on all devices as many each (weak scaling) or together (strong), the least efficiency.
FIELDS = (("512³ a device, accuracy 8", 8, 512, True, 0.96),
          ("512³ a device, accuracy 2", 2, 512, True, 0.96),
          ("1024³, accuracy 8", 8, 1024, False, 0.92),
          ("1024³, accuracy 2", 2, 1024, False, 0.92))
STEPS = 64
PEER_S = 400  # for all of its cases


def step_us(server, accuracy, planes, n, distribute):
    """The time of a step of one job, the fastest of four."""
    f = np.zeros((planes, n, n), np.float32)
    f[planes // 2, n // 2, n // 2] = 1
    with fdclient.Client(server.path) as client, client.put(f, distribute=distribute) as field:
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            client.run("diffusion", field, out=field, cfl=0.5, accuracy=accuracy, steps=STEPS)
            times.append(time.perf_counter() - begin)
    return 1e6 * min(times[1:]) / STEPS


def nccl_steps(devices, table, fields):
    """The time of a step of each of these fields by a Jacobi over NCCL, on as many GPUs, before a server is started."""
    times = {}
    with table.part("a Jacobi over NCCL"):
        if not all(device.startswith("cuda") for device in devices):
            raise LeftOut("no GPUs are asked for")
        cases = [(n, n if weak else n // len(devices), accuracy) for _, accuracy, n, weak, _ in fields]
        values = dict(zip(("--n", "--planes", "--accuracy"), zip(*cases, strict=True), strict=True))
        run = subprocess.run([sys.executable, HERE / "jacobi_nccl.py", "--gpus", str(len(devices)),
                              *(str(word) for option in values for word in (option, *values[option]))],
                             capture_output=True, text=True, timeout=PEER_S, check=False)
        said = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        times |= {field[0]: case["us"] for field, case in zip(fields, said, strict=False)}
        if run.returncode:
            raise LeftOut((run.stderr.strip().splitlines() or [f"it ended with {run.returncode}"])[-1])
    return times


def copies_us(count, points, rounds=8):
    """The time of a job's copies alone, float32 into and out of pinned memory, on so many GPUs at once."""
    import cupy  # not at the top: there is none where there is no GPU
    import cupyx
    work = []
    for device in range(count):
        with cupy.cuda.Device(device):
            for up in (True, False):
                host = cupyx.empty_pinned(points, "f4")
                host.fill(0)
                work.append((device, up, host, cupy.zeros(points, "f4"), cupy.cuda.Stream(non_blocking=True)))
    for timed in (1, rounds):
        begin = time.perf_counter()
        for _ in range(timed):
            for device, up, host, array, stream in work:
                with cupy.cuda.Device(device), stream:
                    array.set(host, stream) if up else array.get(stream, out=host, blocking=False)
        for device, *_, stream in work:
            with cupy.cuda.Device(device):
                stream.synchronize()
    return 1e6 * (time.perf_counter() - begin) / rounds / count


def scale_copies(devices, table, n):
    """What the machine lets copies gain by more devices."""
    with table.part("copies alone"):
        if not all(device.startswith("cuda") for device in devices):
            raise LeftOut("no GPUs are asked for")
        try:
            one, every = copies_us(1, n**3), copies_us(len(devices), n**3)
        except ImportError as error:
            raise LeftOut(str(error)) from error
        table.row(f"  its copies alone by CuPy, {len(devices)} devices", every, "µs", one, "one device")


def scale_fields(options, devices, table, fields):
    """Steps of fields in subdomains beside those of a field of one device, and of a Jacobi over NCCL."""
    nccl = nccl_steps(devices, table, fields)
    with front(options, ",".join(devices), "--staging-bytes", "1G") as server:
        for name, accuracy, n, weak, least in fields:
            with table.part(name):
                one = step_us(server, accuracy, n, n, False)
                every = step_us(server, accuracy, n * len(devices) if weak else n, n, True)
                ideal = one if weak else one / len(devices)
                table.row(f"diffusion, {name}: a step, {len(devices)} devices", every, "µs", ideal,
                          "one device" if weak else f"one device / {len(devices)}", ratio_least=least)
                if name in nccl:
                    table.row(f"  a Jacobi over NCCL, {name}: a step", nccl[name], "µs", every, "the row above")


def main():
    parser = serving.parser(__doc__, device="host,host", option="--devices")
    parser.add_argument("--seconds", type=float, default=3, help="for each load")
    parser.add_argument("--only", default="", help="loads whose names contain this text")
    options = parser.parse_args()
    devices = options.devices.split(",")
    loads = [load for load in LOADS if options.only in load[0]]
    times, table = {}, Table({})
    for used in (devices[:1], devices):
        with front(options, ",".join(used), "--region-memory", "64G") as server:
            for name, mode, n, clients, in_flight, _ in loads:
                with table.part(f"{name}, {len(used)} devices"):
                    said = server.load(mode, n, clients=clients, in_flight=in_flight)
                    times[name, len(used)] = 1e6 / said["jobs_per_s"]
    fields = [field for field in FIELDS if options.only in field[0]]
    if fields and len(devices) > 1:
        scale_fields(options, devices, table, fields)
    for name, *_, least in loads:
        one, all_of_them = times.get((name, 1)), times.get((name, len(devices)))
        if one and all_of_them:
            table.row(f"{name}: a job, {len(devices)} devices", all_of_them, "µs", one, "one device",
                      ratio_least=round(least * len(devices) / 2, 2) if least and len(devices) > 1 else None)
            if "region" in name and len(devices) > 1:
                scale_copies(devices, table, LOADS[0][2])
    table.print(options.devices)
    cards = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                           capture_output=True, text=True, check=False).stdout.split("\n") \
        if "cuda" in options.devices else []
    serving.write(options.json, {"devices": devices, "cards": [card for card in cards if card], "rows": table.rows,
                                 "left_out": table.left_out})


if __name__ == "__main__":
    main()

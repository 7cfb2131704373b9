#!/usr/bin/env python3
"""A device of another node beside one of this node: jobs, copies, and steps of a distributed field.

    bench/nodes.py --build build/release --devices cuda:0,cuda:1 --json nodes.json [--n 512]

The other node is this machine: what its bridge adds is measured on the loopback interface, without a network. `link`
is the rate of one TCP connection there, in the same run.
"""

import pathlib
import socket
import sys
import threading
import time

import numpy as np

import serving
from service import Table, front

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "client/python"))
import fdclient  # noqa: E402

STEPS, ROUNDS, LINK_BYTES = 64, 100, 1 << 30


def link_gbs():
    """One way through a TCP connection, in pieces of 1 MiB."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def send():
            with socket.create_connection(server.getsockname()) as one:
                piece = bytes(1 << 20)
                for _ in range(LINK_BYTES >> 20):
                    one.sendall(piece)

        thread = threading.Thread(target=send)
        thread.start()
        plug, _ = server.accept()
        begin, left, buffer = time.perf_counter(), LINK_BYTES, bytearray(1 << 20)
        while left:
            left -= plug.recv_into(buffer)
        seconds = time.perf_counter() - begin
        thread.join()
        plug.close()
    return LINK_BYTES / seconds / 1e9


def median(call, rounds=ROUNDS):
    times = []
    for _ in range(rounds + 3):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return sorted(times[3:])[rounds // 2]


def measure(client, device, n):
    """Seconds of a resident and of an inline job of 64³, of a put and of a get of n³ bytes in regions."""
    small = np.random.default_rng(1).random((64, 64, 64), "f4")
    with client.put(small, placement=device) as field:
        resident = median(lambda: client.run("laplacian", field, out=field, placement=device))
    inline = median(lambda: client.run("laplacian", small, placement=device))
    large, back = fdclient.empty((n, n, n)), fdclient.empty((n, n, n))
    large[:], back[:] = 1, 0
    put = median(lambda: client.put(large, placement=device).free(), 3)
    with client.put(large, placement=device) as field:
        get = median(lambda: field.get(out=back), 3)
    if not (back == large).all():
        raise SystemExit(f"{device}: other bits")
    return resident, inline, put, get


def step(client, n):
    """Seconds of a step of a distributed field, and the bits."""
    f = np.zeros((n, n, n), np.float32)
    f[n // 2, n // 2, n // 2] = 1
    with client.put(f, distribute=True) as field:
        seconds = median(lambda: client.run("diffusion", field, out=field, cfl=0.5, accuracy=8, steps=STEPS), 3) / STEPS
        return seconds, field.get().tobytes()


def main():
    parser = serving.parser(__doc__, "host,host", "--devices")
    parser.add_argument("--n", type=int, default=256, help="points along an axis of the large arrays")
    options = parser.parse_args()
    here, there = options.devices.split(",")
    options.seconds, table = 1, Table({"link_gbs": link_gbs()})
    seen = {}
    for name, other in (("here", there), ("lent", "n1/" + there)):
        with front(options, f"{here},{other}", "--region-memory", "16G") as server:
            with fdclient.Client(server.path) as client:
                device = client.call("info")["devices"][1]["name"]
                seen[name] = measure(client, device, options.n), step(client, options.n)
    with front(options, f"n1/{here},n2/{there}") as server, fdclient.Client(server.path) as client:
        seen["nodes"] = None, step(client, options.n)
    if len({bits for _, (_, bits) in seen.values()}) > 1:
        raise SystemExit("a distributed field on two nodes has other bits")
    names = ("64³, resident: a job", "64³, region to region: a job")
    for name, local, lent in zip(names, seen["here"][0], seen["lent"][0], strict=False):
        table.row(f"{name} on another node", 1e6 * lent, "µs", 1e6 * local, "a device of this node")
    for name, local, lent in zip(("put", "get"), seen["here"][0][2:], seen["lent"][0][2:], strict=True):
        rate = 4e-9 * options.n**3
        table.row(f"{name} of {options.n}³ on another node", rate / lent, "GB/s", table.floors["link_gbs"], "one TCP connection")
        table.row("  the same on this node", rate / local, "GB/s")
    for name, title in (("lent", "the head and a node"), ("nodes", "two nodes")):
        table.row(f"diffusion {options.n}³, accuracy 8: a step, {title}", 1e6 * seen[name][1][0], "µs",
                  1e6 * seen["here"][1][0], "two devices of this node")
    table.print(options.devices)
    serving.write(options.json, {"devices": [here, there], "floors": table.floors, "rows": table.rows})


if __name__ == "__main__":
    main()

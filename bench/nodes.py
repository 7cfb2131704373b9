#!/usr/bin/env python3
"""A device of another node beside one of this node: jobs, copies, and steps of a distributed field.

    bench/nodes.py --build build/release --devices cuda:0,cuda:1 --json nodes.json [--n 512] [--nccl libnccl.so.2]

The other node is this machine: what its bridge adds is measured on the loopback interface, without a network. `link`
is the rate of one TCP connection there, in the same run. With --nccl the same copies go by NCCL, too: first as that of
different hosts, by its TCP, then as that of one host, by what connects the GPUs, in the place of a fast network.
"""

import os
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

STEPS, ROUNDS, LINK_BYTES, CONNECT_S = 64, 100, 1 << 30, 4


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


def between(client, devices, n):
    """Bytes a second of an array that a job on the other device reads."""
    f = np.ones((n, n, n), np.float32)
    with client.put(f, placement=devices[0]) as field:
        near, far = (median(lambda on=on: client.run("laplacian", field, out="field", placement=on).free(), 5) for on in devices)
    return f.nbytes / (far - near)


def two_nodes(options, here, there):
    """A step of the head and a node and of two nodes, and what passes between these, with the bits."""
    seen = {}
    for name, devices in ("lent", f"{here},n1/{there}"), ("nodes", f"n1/{here},n2/{there}"):
        with front(options, devices) as server, fdclient.Client(server.path) as client:
            if os.environ.get("FDSERVER_NCCL"):  # the first copies have the devices connected
                step(client, options.n)
                time.sleep(CONNECT_S)
            seen[name] = step(client, options.n)
            if name == "nodes":
                seen["between"] = between(client, devices.split(","), options.n)
    return seen


def main():
    parser = serving.parser(__doc__, "host,host", "--devices")
    parser.add_argument("--nccl", metavar="LIBRARY", help="measure copies by NCCL, too: this library of it")
    parser.add_argument("--n", type=int, default=256, help="points along an axis of the large arrays")
    options = parser.parse_args()
    here, there = options.devices.split(",")
    options.seconds, table = 1, Table({"link_gbs": link_gbs()})
    seen = {}
    for name, other in (("here", there), ("lent", "n1/" + there)):
        with front(options, f"{here},{other}", "--region-memory", "16G") as server:
            with fdclient.Client(server.path) as client:
                device = client.call("info")["devices"][1]["name"]
                seen[name] = measure(client, device, options.n)
                if name == "here":
                    local, bits = step(client, options.n)
    ways = {"": two_nodes(options, here, there)}
    if options.nccl:
        os.environ["FDSERVER_NCCL"] = options.nccl
        ways[", by NCCL"] = two_nodes(options, here, there)
        os.environ["NCCL_HOSTID"] = "one"
        ways[", by NCCL as one host"] = two_nodes(options, here, there)
    if any(way[name][1] != bits for way in ways.values() for name in ("lent", "nodes")):
        raise SystemExit("a distributed field on two nodes has other bits")
    names = ("64³, resident: a job", "64³, region to region: a job")
    for name, own, lent in zip(names, seen["here"], seen["lent"], strict=False):
        table.row(f"{name} on another node", 1e6 * lent, "µs", 1e6 * own, "a device of this node")
    for name, own, lent in zip(("put", "get"), seen["here"][2:], seen["lent"][2:], strict=True):
        rate = 4e-9 * options.n**3
        table.row(f"{name} of {options.n}³ on another node", rate / lent, "GB/s", table.floors["link_gbs"], "one TCP connection")
        table.row("  the same on this node", rate / own, "GB/s")
    for way, figures in ways.items():
        for name, title in (("lent", "the head and a node"), ("nodes", "two nodes")):
            table.row(f"diffusion {options.n}³, accuracy 8: a step, {title}{way}", 1e6 * figures[name][0], "µs",
                      1e6 * local, "two devices of this node")
        table.row(f"{options.n}³ from node to node{way}", 1e-9 * figures["between"], "GB/s", table.floors["link_gbs"],
                  "one TCP connection")
    table.print(options.devices)
    serving.write(options.json, {"devices": [here, there], "floors": table.floors, "rows": table.rows})


if __name__ == "__main__":
    main()

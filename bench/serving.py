"""What the benchmarks of the service share: their options, a server of their own, a connection to it, and the file
of their results."""

import argparse
import atexit
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import time


def parser(doc, device=None, option="--device"):
    """Options of all of them; device: where the server runs by default, None for benchmarks without a server."""
    options = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if device:
        options.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
        options.add_argument(option, default=device)
    options.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the results to this file")
    return options


def start(program, path, device, *options, **popen):
    """A server that listens at `path`. Devices of other nodes ("n1/cuda:1") are lent to it from this machine, over its
    loopback interface, by servers that end with this program."""
    lent = [one.split("/") for one in device.split(",") if "/" in one]
    if lent:
        with socket.create_server(("127.0.0.1", 0)) as free, open(f"{path}.key", "w", encoding="ascii") as key:
            cluster = ["--cluster-key", f"{path}.key"]
            address = f"127.0.0.1:{free.getsockname()[1]}"
            key.write(os.urandom(16).hex())
            os.fchmod(key.fileno(), 0o600)
        options = [*options, "--nodes", address, *cluster]
    process = subprocess.Popen([program, "--listen", f"unix:{path}", "--device", device, *options], **popen)
    process.nodes = []
    def listens():
        with socket.socket(socket.AF_UNIX) as one:
            return one.connect_ex(path) == 0

    while not listens():
        if process.poll() is not None:
            raise SystemExit(f"fdserver --device {device} did not start")
        time.sleep(0.01)
    for name in {name for name, _ in lent}:
        own = ",".join(one.split(":")[0] if one[0] == "h" else one for node, one in lent if node == name)
        node = subprocess.Popen([program, "--join", address, "--node", name, "--device", own, *cluster, "--log-level", "4"],
                                env={"NCCL_HOSTID": name} | os.environ)  # a host of its own, to NCCL
        process.nodes.append(node)
        atexit.register(node.terminate)
    while lent:
        with connection(path) as (call, *_):
            if all(each["state"] == "ready" for each in call("info")["devices"]):
                break
        time.sleep(0.1)
    return process


def write(file, said):
    """The results, with the commit and the date, where a file is wanted."""
    if file:
        stamp = {"commit": os.environ.get("FDSERVER_COMMIT", ""),
                 "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        file.write_text(json.dumps(stamp | said, indent=1, ensure_ascii=False) + "\n")


def request(msgid, method, **parameters):
    import msgpack  # not at the top: benchmarks without a server have no need of it
    return msgpack.packb([0, msgid, method, [parameters]])


def array(*shape):
    """Zeros, in float32."""
    points = 1
    for n in shape:
        points *= n
    return {b"nd": True, b"type": "<f4", b"kind": b"", b"shape": list(shape), b"data": bytes(4 * points)}


@contextlib.contextmanager
def connection(path, uid=None):
    """A connection, of that user: call() returns the result; or send(), and answer() for the next result."""
    import msgpack
    own = os.geteuid()
    os.seteuid(own if uid is None else uid)
    try:
        plug = socket.socket(socket.AF_UNIX)
        plug.connect(path)
    finally:
        os.seteuid(own)
    unpacker = msgpack.Unpacker()

    def send(method, **parameters):
        plug.sendall(request(1, method, **parameters))

    def answer():
        while True:
            for _, _, error, result in unpacker:
                if error:
                    raise SystemExit(error["message"])
                return result
            data = plug.recv(1 << 16)
            if not data:
                raise SystemExit("the connection is closed")
            unpacker.feed(data)

    def call(method, **parameters):
        send(method, **parameters)
        return answer()

    with plug:
        yield call, send, answer

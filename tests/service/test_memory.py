"""The memory of the front that clients can occupy, and its report to them."""

import json
import subprocess

import fdclient
import msgpack
import numpy
import pytest

from fdtest import (Client, Daemon, MiB, array_header, assert_serves, bin_header, binary, eventually, memory_bytes,
                    request_bytes, sanitized, stopped, wave)

WEIGHTS = MiB  # numbers of one message: 8 MiB

pytestmark = pytest.mark.skipif(bool(sanitized()), reason="a sanitizer's memory is not the server's")


def weights_begin(msgid):
    """A stencil's message up to the numbers of its weights."""
    packer = msgpack.Packer()
    return b"".join([packer.pack_array_header(4), packer.pack(0), packer.pack(msgid), packer.pack("stencil"),
                     packer.pack_array_header(1), packer.pack_map_header(3), packer.pack("f"),
                     msgpack.packb({"field": 1}), packer.pack("offsets"), msgpack.packb([0]), packer.pack("weights"),
                     array_header("<f8", [WEIGHTS], bin_header(8 * WEIGHTS))])


def held(client):
    return client.call("stats")["user"]["front_bytes"]


def held_idle(client):
    """The memory of an idle connection."""
    held(client)  # it is counted as it is served
    return held(client)


def fill(client, clients, block):
    """Send to all until none accepts more, although the server had time to read."""
    idle, last = 0, 0
    at = [0] * len(clients)
    while idle < 50:
        idle += 1
        for i, one in enumerate(clients):
            try:
                at[i] += one.socket.send(block[at[i] % len(block):])
                idle = 0
            except BlockingIOError:
                pass
        now = held(client)
        if now != last:
            idle, last = 0, now


def test_replies_that_nobody_reads():
    with Daemon() as daemon, Client(daemon.path) as client:
        before, rss = held_idle(client), memory_bytes(daemon.pid, "VmRSS")
        one = daemon.client()
        one.socket.setblocking(False)
        fill(client, [one], request_bytes(1, "ping", {}) * 4096)
        # A MiB of replies, and what the allocator leaves between them.
        assert MiB // 2 < held(client) - before < 2 * MiB
        assert memory_bytes(daemon.pid, "VmRSS") - rss < 8 * MiB
        assert client.call("stats")["totals"]["front_bytes"] >= held(client)
        assert_serves(client)
        daemon.close_clients()
        eventually(lambda: held(client) <= before, "all of it given back")


def test_arrays_that_are_announced_and_dropped():
    """A notification of no method announces arrays and sends none of their bytes. The worker, which is stopped
    meanwhile, is told of none of them: neither does the front grow, nor is the worker's silence then its end."""
    with Daemon("--device", "host") as daemon, Client(daemon.path) as client:
        kept = client.call("put", f=wave(8))["field"]
        device = client.call("info")["devices"][0]
        announced = {str(i): array_map((4 * MiB + i,)) for i in range(24)}
        one, flood = daemon.client(), msgpack.packb([2, "", [announced]]) * 200
        rss = memory_bytes(daemon.pid, "VmRSS")
        with stopped(device["pid"]):
            for _ in range(10):
                one.send_bytes(flood)
            assert one.call("ping") == {}
        assert memory_bytes(daemon.pid, "VmRSS") - rss < 8 * MiB
        assert (client.get(kept) == wave(8)).all()
        assert client.call("info")["devices"][0]["generation"] == device["generation"]


def array_map(shape):
    """An array whose bytes come in pieces, of which the first is empty and the others never come."""
    return {"nd": True, "type": "<f4", "kind": "", "shape": list(shape), "data": [b""]}


def test_numbers_of_messages_that_do_not_end():
    with Daemon("--front-bytes", 64 * MiB) as daemon, Client(daemon.path) as client:
        assert client.call("info")["limits"]["front_bytes"] == 64 * MiB
        before, rss = held_idle(client), memory_bytes(daemon.pid, "VmRSS")
        clients = [daemon.client() for _ in range(30)]
        for msgid, one in enumerate(clients):
            one.send_bytes(weights_begin(msgid) + bytes(8 * WEIGHTS - 1))
        assert 16 * MiB <= held(client) - before <= 32 * MiB
        assert memory_bytes(daemon.pid, "VmRSS") - rss < 48 * MiB
        codes = set()
        for msgid, one in enumerate(clients):
            one.send_bytes(bytes(1))
            error, _ = one.outcome(msgid)
            codes.add(error.code)
            if error.code == "OVER_BUDGET":
                assert error.parameter == "weights" and error.need > error.limit and error.retryable
        assert codes == {"OVER_BUDGET", "NOT_FOUND"}, "some had room, and fail for the field that is not there"
        eventually(lambda: held(client) < before + MiB, "all of it given back")
        # There is room again, and those connections go on.
        assert_serves(clients[0])
        assert_serves(clients[-1])


def test_messages_that_have_come_half():
    with Daemon() as daemon, Client(daemon.path) as client:
        before = held_idle(client)
        parts = msgpack.packb({str(i): "y" * 4000 for i in range(15)})[1:-1]
        clients = [daemon.client() for _ in range(20)]
        for one in clients:
            one.send_bytes(b"\x94\x00\x01\xa4ping\x91\x8f" + parts)
        eventually(lambda: held(client) - before > 20 * 60 * 1000, "every byte counted")
        for one in clients:
            one.send_bytes(b"y")
            assert one.error(1).code == "INVALID_ARGUMENT"
        # Idle connections keep little of it.
        eventually(lambda: held(client) - before < 20 * 4096, "what large messages took given back")


def test_fields_and_jobs_are_counted():
    with Daemon() as daemon, Client(daemon.path) as client:
        before = held_idle(client)
        fields = [client.put(wave(8)) for _ in range(100)]
        assert held(client) - before > 100 * 100
        client.free(*fields)
        eventually(lambda: held(client) <= before, "all of it given back")


def test_one_who_holds_too_much_may_still_let_go():
    """A user over the budget is refused requests that need more, and is still read."""
    with Daemon("--front-bytes", 64 * MiB) as daemon, Client(daemon.path) as client:
        field = client.put(wave(8))
        clients = [daemon.client() for _ in range(40)]
        for one in clients:
            one.socket.setblocking(False)
        fill(client, clients, request_bytes(1, "info", {}) * 256)
        assert 24 * MiB < held(client) < 40 * MiB
        code = "NOT_FOUND"
        while code == "NOT_FOUND":
            clients.append(one := daemon.client())
            one.send_bytes(weights_begin(1) + bytes(8 * WEIGHTS))
            code = one.error(1).code
        assert code == "OVER_BUDGET"
        client.free(field)
        assert numpy.isfinite(client.call("stats")["uptime_s"])
        daemon.close_clients()
        eventually(lambda: held(client) < MiB, "all of it given back")
        assert_serves(client)


def test_more_fields_than_one_answer_holds():
    """4,097 fields: `list` without a page is refused, and pages have each of them once, in order."""
    with Daemon() as daemon, Client(daemon.path) as client:
        message = [request_bytes(i, "put", {"f": wave(4)}) for i in range(4097)]
        fields = set()
        for begin in range(0, 4097, 500):  # at most --user-queue-jobs at once
            client.send_bytes(b"".join(message[begin:begin + 500]))
            fields |= {client.recv(i)["field"] for i in range(begin, min(begin + 500, 4097))}
        refused = client.refused("list")
        assert (refused.code, refused.need, refused.limit) == ("TOO_LARGE", 4097, 4096)
        listed, after = [], 0
        while page := client.call("list", after=after, limit=1000)["fields"]:
            assert len(page) <= 1000
            listed += [entry["field"] for entry in page]
            after = listed[-1]
        assert listed == sorted(fields)
        assert len(client.call("list", after=0)["fields"]) == 4096
        assert [entry["field"] for entry in client.call("list", after=listed[4094])["fields"]] == listed[4095:]
        for params in ({"limit": 0}, {"limit": 4097}, {"limit": -1}, {"after": -1}, {"after": "1"}):
            assert client.refused("list", **params).what == ("INVALID_ARGUMENT", next(iter(params)))
        shown = subprocess.run([binary("fdclient"), "list", "--connect", f"unix:{daemon.path}", "--json"],
                               capture_output=True, text=True, check=True)
        assert [entry["field"] for entry in json.loads(shown.stdout)["fields"]] == listed
        with fdclient.Client(daemon.path) as python:
            assert [entry["field"] for entry in python.fields()] == listed
        client.free(listed.pop())
        assert [entry["field"] for entry in client.call("list")["fields"]] == listed
        assert client.call("list", after=listed[-1]) == {"fields": []}

"""Many jobs in flight, slow clients and clients that disconnect: no client waits for another, and no resource remains
in use."""

import signal
import socket
import time

import msgpack
import numpy
import pytest

from fdtest import (ENDLESS, Client, Daemon, FdError, MiB, assert_serves, derivative, eventually, in_threads, jobs_under_way,
                    laplacian, memory_bytes, request_bytes, sanitized, stopped, upload_begin, wave)

OPTIONS = ("--staging-bytes", 16 * MiB, "--upload-timeout-s", 5)

LARGE = (24, 512, 512)  # 24 MiB: more than the arena

pytestmark = pytest.mark.usefixtures("no_fields_left")


def test_300_jobs_before_the_first_reply_is_read(client):
    f = wave(64, 64, 64)
    expected = derivative(f)
    jobs = [client.send("derivative", f=f, axis="x") for _ in range(300)]
    for _ in jobs:
        msgid, error, result = client.recv_any()
        assert error is None
        jobs.remove(msgid) if msgid in jobs else pytest.fail("a reply to no request")
        if msgid % 50 == 0:
            numpy.testing.assert_allclose(result["out"], expected, atol=1e-5)
    assert not client.replies


def test_replies_find_their_requests(client):
    fields = [wave(40 + i, 30) for i in range(60)]
    jobs = {client.send("laplacian", f=f): f for f in fields}
    for _ in fields:
        msgid, error, result = client.recv_any()
        assert error is None
        f = jobs.pop(msgid)
        assert result["out"].shape == f.shape
        numpy.testing.assert_allclose(result["out"], laplacian(f), atol=1e-4)
    assert not jobs


def test_results_that_nobody_reads_hold_no_memory(daemon, client):
    """Small results, complete in the front's memory, and large ones, all half sent: unread bytes are withdrawn."""
    small, large = wave(128, 1024), wave(*LARGE)
    fields = client.put(small), client.put(large)
    silent = [daemon.client() for _ in range(40)]
    jobs = [(one, one.send("get", field=fields[which]), (small, large)[which])
            for i, one in enumerate(silent) for which in ((1, 0) if i % 2 else 20 * (0,))]

    def taken_back():
        stats = client.call("stats")
        waiting = stats["queue"]["waiting"] + stats["queue"]["queued"] + stats["queue"]["running"]
        return not waiting and stats["queue"]["replying"] > 100 and stats["staging"]["reply_bytes"] == 0
    eventually(taken_back, "no staged bytes")
    for one in silent[:10]:
        one.send("ping")  # one word more to say, which it cannot be told, takes none again
    assert client.get(fields[0]).tobytes() == small.tobytes()
    assert client.call("stats")["staging"]["reply_bytes"] == 0
    for one, job, expected in jobs:
        assert one.recv(job)["out"].tobytes() == expected.tobytes()
    client.free(*fields)


def test_two_clients_that_each_upload_more_than_the_arena(daemon):
    def work(seed):
        f = wave(*LARGE, seed=seed)
        with Client(daemon.path) as client:
            jobs = [client.send("derivative", f=f, axis="z") for _ in range(2)]
            outs = [client.recv(job)["out"] for job in jobs]
        numpy.testing.assert_allclose(outs[0][:, 5], derivative(f[:, 5], 0), atol=1e-4)
        assert outs[0].tobytes() == outs[1].tobytes()
    in_threads(lambda: work(1), lambda: work(2))


def test_interleaved_halves_of_large_uploads(daemon):
    """Each of four clients has sent half of an upload that alone fills the arena."""
    f = wave(*LARGE)
    requests = [request_bytes(0, "put", {"f": f + i}) for i in range(4)]
    clients = [daemon.client() for _ in requests]
    half = len(requests[0]) // 2
    in_threads(*(lambda c=c, r=r: c.send_bytes(r[:half]) for c, r in zip(clients, requests)))
    in_threads(*(lambda c=c, r=r: c.send_bytes(r[half:]) for c, r in zip(clients, requests)))
    for i, client in enumerate(clients):
        assert client.get(client.recv(0)["field"]).tobytes() == (f + i).tobytes()


def test_one_that_never_reads_costs_only_itself(daemon):
    f = wave(*LARGE)
    idle = daemon.client()
    jobs = [idle.send("derivative", f=f, axis="x") for _ in range(3)]
    rss = memory_bytes(daemon.pid, "VmRSS")
    for _ in range(3):
        with Client(daemon.path) as other:
            assert_serves(other)
            out = other.out("derivative", f=f, axis="x")
    assert memory_bytes(daemon.pid, "VmRSS") < rss + (128 if sanitized() else 24) * MiB
    for job in jobs:  # it was only late
        assert idle.recv(job)["out"].tobytes() == out.tobytes()


def test_one_that_never_reads_and_leaves(daemon):
    idle = daemon.client()
    for _ in range(3):
        idle.send("derivative", f=wave(*LARGE), axis="x")
    daemon.assert_serves()


def test_an_upload_that_stalls_does_not_hold_others_and_times_out(daemon):
    stalled = [daemon.client() for _ in range(8)]
    for client in stalled:
        client.send_bytes(upload_begin(7, "put", LARGE) + bytes(3 * MiB + 5))
    f = wave(*LARGE)
    with Client(daemon.path) as other:
        numpy.testing.assert_allclose(other.out("derivative", f=f, axis="x")[3], derivative(f[3]),
                                      atol=1e-4)
    for client in stalled:
        messages = client.closed_by_server()
        assert [m[:2] for m in messages] == [[1, 7]]
        assert messages[0][2]["code"] == "TIMEOUT"


def test_an_upload_that_stalls_gives_its_staging_back_and_may_go_on():
    """Long before it times out; the part that has arrived is on the device."""
    f = wave(*LARGE)
    request = request_bytes(7, "derivative", {"f": f, "axis": "x"})
    with Daemon() as daemon, Client(daemon.path) as client, Client(daemon.path) as other:
        for part in (request[:3 * MiB + 5], request[3 * MiB + 5:5 * MiB], request[5 * MiB:]):
            client.send_bytes(part)
            eventually(lambda: other.call("stats")["staging"]["upload_bytes"] == 0, "nothing staged")
        assert client.recv(7)["out"].tobytes() == other.out("derivative", f=f, axis="x").tobytes()


def test_a_slow_upload_that_keeps_moving_does_not_time_out(daemon):
    """In total slower than the limit, which applies only to stalled messages."""
    f = wave(64, 64)
    request = request_bytes(3, "derivative", {"f": f, "axis": "x"})
    client = daemon.client()
    for i in range(6):
        client.send_bytes(request[i * 2700:(i + 1) * 2700])
        time.sleep(1)
    client.send_bytes(request[6 * 2700:])
    numpy.testing.assert_allclose(client.recv(3)["out"], derivative(f), atol=1e-5)


def test_a_server_that_was_stopped_does_not_blame_its_clients():
    """The rest of the message came in time; it is the server that reads it late."""
    f = wave(64, 64)
    request = request_bytes(3, "derivative", {"f": f, "axis": "x"})
    with Daemon("--upload-timeout-s", 1) as daemon, Client(daemon.path) as client:
        client.send_bytes(request[:2700])
        daemon.answers()
        with stopped(daemon.pid):
            client.send_bytes(request[2700:])
            time.sleep(2)
        numpy.testing.assert_allclose(client.recv(3)["out"], derivative(f), atol=1e-5)


def test_an_idle_connection_is_left_alone(daemon):
    with Client(daemon.path) as client:
        client.call("ping")
        time.sleep(6)
        client.call("ping")


def test_half_closed_gets_its_replies_and_is_closed(daemon):
    client = daemon.client()
    f = wave(48, 48, 48)
    jobs = [client.send("laplacian", f=f) for _ in range(10)]
    client.socket.shutdown(socket.SHUT_WR)
    messages = client.closed_by_server()
    assert sorted(m[1] for m in messages) == jobs
    assert all(m[2] is None for m in messages)


def test_half_closed_with_more_owed_than_the_socket_holds(daemon):
    client = daemon.client()
    client.send("laplacian", f=wave(*LARGE))
    client.socket.shutdown(socket.SHUT_WR)
    [message] = client.closed_by_server()
    assert message[2] is None and message[3]["out"].shape == LARGE


@pytest.mark.parametrize("bytes_sent", [0, 1, 4095, 5 * MiB, 20 * MiB])
def test_one_that_vanishes_half_way_through_an_upload(daemon, bytes_sent):
    for _ in range(3):
        client = daemon.client()
        client.send_bytes(upload_begin(1, "derivative", LARGE, axis="x") + bytes(bytes_sent))
        client.close()
    daemon.assert_serves()


@pytest.mark.parametrize("bytes_read", [0, 1, 5 * MiB])
def test_one_that_vanishes_half_way_through_a_download(daemon, bytes_read):
    for _ in range(3):
        client = daemon.client()
        client.send("derivative", f=wave(*LARGE), axis="x")
        while bytes_read > 0 and (data := client.socket.recv(min(bytes_read, MiB))):
            bytes_read -= len(data)
        client.close()
    daemon.assert_serves()


def vanish(path, f):
    """Disconnect during uploads and downloads of f, at many points."""
    request = request_bytes(1, "laplacian", {"f": f})
    for cut in range(1, 10):
        with Client(path) as client:
            client.send_bytes(request[:len(request) * cut // 10])
        with Client(path) as client:
            client.send_bytes(request)
            left = f.nbytes * cut // 10
            while left > 0:
                some = client.socket.recv(min(left, MiB))
                assert some, "the server hung up"
                left -= len(some)


def test_large_arrays_of_many_clients_while_others_leave(daemon):
    """Copies for several connections at once keep each connection's data and order."""
    def work(seed):
        f, large = wave(64, 64, 64, seed=seed), wave(*LARGE, seed=seed)
        expected = laplacian(f)
        with Client(daemon.path) as client:
            def exchange():
                jobs = [client.send("laplacian", f=f) for _ in range(4)]
                client.call("ping")
                for job in jobs:
                    numpy.testing.assert_allclose(client.recv(job)["out"], expected, atol=1e-4)
            for _ in range(3):
                exchange()
            assert client.get(client.put(large)).tobytes() == large.tobytes()
            exchange()
    in_threads(*(lambda seed=seed: work(seed) for seed in range(5)),
               lambda: vanish(daemon.path, wave(64, 64, 64)), lambda: vanish(daemon.path, wave(*LARGE)))


def test_cancelling_what_is_being_sent_beside_others(daemon):
    f = wave(64, 64, 64)
    expected = laplacian(f)

    def work():
        with Client(daemon.path) as client:
            for _ in range(4):
                jobs = [client.send("laplacian", f=f) for _ in range(4)]
                states = [client.call("cancel", msgid=job)["state"] for job in jobs]
                for job, state in zip(jobs, states):
                    error, result = client.outcome(job)
                    assert (error.code if error else None) == ("CANCELLED" if state == "cancelled" else None)
                    if not error:
                        numpy.testing.assert_allclose(result["out"], expected, atol=1e-4)
    in_threads(*[work] * 4)


def test_arrays_that_nobody_wants_from_many_clients(daemon):
    """Their bytes, more than the shape requires, are read and dropped, and later requests are answered."""
    f = {b"nd": True, b"type": "<f4", b"kind": b"", b"shape": [1024, 1024], b"data": bytes(9 * MiB)}

    def work():
        with Client(daemon.path) as client:
            for _ in range(3):
                assert client.refused("laplacian", f=f).code == "INVALID_ARGUMENT"
            assert_serves(client)
    in_threads(*[work] * 3)


def test_a_job_whose_reply_has_come_counts_no_more():
    """Each client has one job at a time, and there is room for just as many."""
    f = wave(64, 64, 64)
    request = request_bytes(0, "laplacian", {"f": f})
    with Daemon("--user-queue-jobs", 4) as daemon:
        def work():
            with Client(daemon.path) as client:
                for _ in range(100):
                    client.send_bytes(request)
                    client.recv(0)
        in_threads(*[work] * 4)


def test_leaving_in_the_middle_of_large_arrays():
    """The server ends while several connections send and receive."""
    with Daemon(*OPTIONS, "--drain-timeout-s", 0) as daemon:
        f = wave(*LARGE)

        def work():
            with pytest.raises((EOFError, OSError, FdError)), Client(daemon.path) as client:
                while True:
                    client.out("laplacian", f=f)

        def end():
            eventually(lambda: daemon.stats()["totals"]["bytes_out"] > 2 * f.nbytes, "replies on their way")
            daemon.process.send_signal(signal.SIGTERM)
        in_threads(*[work] * 4, end)
        assert daemon.wait() == 0


def test_hundreds_of_connections(daemon):
    clients = [daemon.client() for _ in range(300)]
    f = wave(16, 16)
    expected = derivative(f)
    jobs = [client.send("derivative", f=f, axis="x") for client in clients]
    for client, job in zip(clients, jobs):
        numpy.testing.assert_allclose(client.recv(job)["out"], expected, atol=1e-5)


def test_too_many_jobs_are_refused_and_the_rest_done():
    """One reads a field without end, and those that would write the field wait for it."""
    with Daemon("--max-jobs", 8) as daemon, Client(daemon.path) as client:
        f = wave(256, 256)
        field = client.put(f)
        reads = client.send("diffusion", f={"field": field}, **ENDLESS)
        writes = [client.send("laplacian", f=f, out={"field": field}) for _ in range(40)]
        for job in writes[7:]:
            error = client.error(job)
            assert (error.code, error.retryable, error.limit) == ("QUEUE_FULL", True, 8)
        client.cancel(reads)
        for job in writes[:7]:
            client.recv(job)
        assert client.get(field).tobytes() == client.out("laplacian", f=f).tobytes()


def test_too_many_connections_are_refused_and_the_rest_served():
    with Daemon("--max-connections", 4) as daemon:
        clients = [daemon.client()]
        # The one that looked whether the daemon answers may still be being closed.
        eventually(lambda: clients[0].call("stats")["connections"] == 1, "one connection")
        clients += [daemon.client() for _ in range(3)]
        for client in clients:
            client.call("ping")
        extra = daemon.client()
        for message in extra.closed_by_server():
            assert message[2]["code"] in ("QUEUE_FULL", "OVER_BUDGET")
        for client in clients:
            client.call("ping")
        clients[0].close()
        eventually(daemon.admits, "a place for another")


def test_msgids_are_the_clients_own_business(client):
    for msgid in (0, 1, 127, 128, 2**32 - 1, 2**32, 2**64 - 1):
        client.send_bytes(msgpack.packb([0, msgid, "ping", [{}]]))
        assert client.recv_any() == (msgid, None, {})


def test_notifications_are_ignored(client):
    client.send_bytes(msgpack.packb([2, b"nvim_set_client_info", ["name", {}, "remote"]]))
    client.send_bytes(msgpack.packb([2, "nothing", []]))
    assert client.call("ping") == {}
    assert jobs_under_way(client.call("stats")) == 0

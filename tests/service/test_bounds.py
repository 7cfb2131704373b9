"""Chains whose stability bounds take long to compute: the loop continues meanwhile."""

import select
import signal
import socket

import numpy
import pytest

from faults import HELD, HOLD, Faults
from fdtest import Client, Daemon, assert_serves, eventually, needs_root, sanitized, wave

N, LINKS = 2048, 16
PINGS = 50
SIDES = ("periodic", "mirror", "symmetric", "antisymmetric", {"value": 1}, {"derivative": 1},
         {"derivative": 1, "at": "face"}, {"mixed": 1, "const": 2}, {"mixed": 3, "const": 2, "at": "face"},
         {"value": 1, "at": "face"})


def coordinates(seed, periodic=False, n=N):
    return numpy.random.default_rng(seed).uniform(0.5, 1.5, n + periodic).cumsum()


def link(i, axes="*"):
    """The parameters of a diffusion whose bound takes long to compute."""
    side = SIDES[i % len(SIDES)]
    return {"steps": 1, "cfl": 0.5, "accuracy": 2 + 2 * (i % 4), "boundary": side,
            "spacing": {axes: coordinates(i, periodic=side == "periodic")}}


def ask(client, f=None):
    """Sixteen diffusions of three axes; the message's number."""
    given = {"nd": True, "type": "<f4", "shape": [N, N, N]} if f is None else f
    return client.send("chain", dry_run=f is None,
                       ops=[{"op": "diffusion", "f": given, **link(i)} for i in range(LINKS)])


def line(f):
    """The ops of a chain of sixteen diffusions of one axis, one after another."""
    return [{"op": "diffusion", "f": "u" if i else f, "out": "u", **link(i, "x")} for i in range(LINKS)]


def answered(client):
    return bool(select.select([client.socket], [], [], 0)[0])


@pytest.fixture
def held():
    """A daemon whose threads wait with computing bounds until faults[HOLD] is 0."""
    if sanitized():
        pytest.skip("a sanitizer has the allocator")
    faults = Faults("fdserver")
    faults[HOLD] = 1
    with Daemon("--mode", "0666", env=faults.env) as daemon:
        yield daemon, faults
        faults[HOLD] = 0
    faults.file.close()


def is_held(faults, count=1):
    eventually(lambda: faults[HELD] == count, f"{count} threads at it")


def serves(client):
    for _ in range(PINGS):
        assert client.call("ping") == {}


def test_others_are_answered_meanwhile(held):
    """One message of a user at a time is computed; its own connection continues in order."""
    daemon, faults = held
    clients = [daemon.client() for _ in range(3)]
    other = daemon.client()
    messages = [ask(client) for client in clients]
    behind = [client.send("ping") for client in clients]
    is_held(faults)
    serves(other)
    assert_serves(other)
    assert faults[HELD] == 1
    assert not any(map(answered, clients))
    faults[HOLD] = 0
    answers = []
    for client, message, ping in zip(clients, messages, behind):
        first = client.recv_any()
        assert first[0] == message
        answers.append(first[2])
        assert client.recv(ping) == {}
    assert [op["dt"] for op in answers[1]["ops"]] == [op["dt"] for op in answers[0]["ops"]]
    assert answers[2]["ops"] == answers[0]["ops"]


def test_what_is_found_is_what_the_loop_finds():
    """Every kind of side, whose op alone is judged at once."""
    with Daemon() as daemon:
        client = daemon.client()
        chain = client.recv(ask(client))["ops"]
        f = {"nd": True, "type": "<f4", "shape": [N, N, N]}
        alone = [client.call("diffusion", f=f, dry_run=True, **link(i)) for i in range(LINKS)]
        assert [(op["dt"], op["dt_max"]) for op in chain] == [(one["dt"], one["dt_max"]) for one in alone]
        # And as they run: 1D, so that it is done soon.
        f = wave(N)
        out = client.out("chain", ops=line(f))
        for i in range(LINKS):
            f = client.out("diffusion", f=f, **link(i, "x"))
        numpy.testing.assert_array_equal(out, f)


def test_refused_as_before():
    """A wrong chain is refused with its error, whether or not bounds were to be computed."""
    with Daemon() as daemon:
        client = daemon.client()
        f = {"nd": True, "type": "<f4", "shape": [N, N, N]}
        good = [{"op": "diffusion", "f": f, **link(i)} for i in range(LINKS)]
        for wrong, code in (({"spacing": {"*": coordinates(1)[::-1]}}, "INVALID_ARGUMENT"),
                            ({"spacing": {"*": numpy.full(N, numpy.nan)}}, "INVALID_ARGUMENT"),
                            ({"spacing": {"*": coordinates(1, n=N + 1)}}, "INVALID_ARGUMENT"),
                            ({"spacing": {"*": coordinates(1, n=20)}}, "INVALID_ARGUMENT"),
                            ({"dt": 1e3}, "UNSTABLE"), ({"boundary": {"x-": "periodic", "*": "mirror"}}, "INVALID_ARGUMENT")):
            ops = [dict(op) for op in good]
            ops[3].update(wrong)
            if "dt" in wrong:
                del ops[3]["cfl"]
            caught = client.refused("chain", ops=ops, dry_run=True)
            assert caught.code == code, caught
            assert "ops 3" in caught.parameter
        assert_serves(client)


def test_numbers_of_all_ops_together():
    """As those of one job: 8 MiB."""
    with Daemon("--max-work", 10**18) as daemon:
        client = daemon.client()
        n = 2**16

        def ops(axes, shape, links):
            f = {"nd": True, "type": "<f4", "shape": shape}
            return [{"op": "laplacian", "f": f, "boundary": "mirror", "spacing": {axes: numpy.arange(n, dtype="<i4")}}] * links
        assert len(client.call("chain", ops=ops("x", [2, 2, n], 16), dry_run=True)["ops"]) == 16
        error = client.refused("chain", ops=ops("*", [n, n, n], 6), dry_run=True)
        assert (error.code, error.need, error.limit) == ("TOO_LARGE", 6 * 3 * 8 * n, 8 * 2**20)


def test_hang_up(held):
    """Both of the user whose bounds are being computed and of one who waits."""
    daemon, faults = held
    other = daemon.client()
    serves(other)
    before = other.call("stats")["user"]["front_bytes"]
    first, second, third = (Client(daemon.path) for _ in range(3))
    ask(first)
    is_held(faults)
    ask(second)
    message = ask(third)
    serves(other)
    second.close()
    first.close()
    eventually(lambda: other.call("stats")["user"]["connections"] == 2, "both hang-ups")
    faults[HOLD] = 0
    assert len(third.recv(message)["ops"]) == LINKS
    third.close()
    eventually(lambda: other.call("stats")["user"]["front_bytes"] == before, "its memory back")
    assert len(other.recv(ask(other))["ops"]) == LINKS


def test_hang_ups_at_any_time():
    with Daemon() as daemon:
        other = daemon.client()
        other.call("ping")
        before = other.call("stats")["user"]["front_bytes"]
        for pings in range(20):
            clients = [Client(daemon.path) for _ in range(4)]
            for client in clients:
                ask(client)
            for _ in range(pings * pings):
                other.call("ping")
            for client in clients:
                client.close()
        assert len(other.recv(ask(other))["ops"]) == LINKS
        eventually(lambda: other.call("stats")["user"]["front_bytes"] == before, "its memory back")


def test_half_closed(held):
    daemon, faults = held
    client, behind = daemon.client(), daemon.client()
    ask(client)
    is_held(faults)
    ask(behind)
    for one in client, behind:
        one.socket.shutdown(socket.SHUT_WR)
    serves(daemon.client())
    faults[HOLD] = 0
    for one in client, behind:
        [message] = one.closed_by_server()
        assert len(message[3]["ops"]) == LINKS


def test_drained(held):
    """It is answered before the server ends: jobs are refused, other requests are not."""
    daemon, faults = held
    client, behind = daemon.client(), daemon.client()
    asked = ask(client)
    is_held(faults)
    refused = behind.send("chain", ops=line(wave(N)))
    serves(daemon.client())
    daemon.process.send_signal(signal.SIGTERM)
    eventually(lambda: "draining" in daemon.log(), "the drain")
    faults[HOLD] = 0
    assert len(client.recv(asked)["ops"]) == LINKS
    assert behind.error(refused).code == "SHUTTING_DOWN"
    assert daemon.wait() == 0


def test_the_worker_ends_meanwhile(held):
    """The array of the message is freed with it."""
    daemon, faults = held
    client = daemon.client()
    message = client.send("chain", ops=line(wave(N)))
    is_held(faults)
    daemon.kill_worker()
    faults[HOLD] = 0
    assert client.error(message).code == "DEVICE_LOST"
    assert_serves(client)


@needs_root
def test_another_user_does_not_wait(held):
    daemon, faults = held
    client = daemon.client()
    message = ask(client)
    is_held(faults)

    def another(one):
        ask(one)
        is_held(faults, 2)
    daemon.as_user(65534, another)
    faults[HOLD] = 0
    assert len(client.recv(message)["ops"]) == LINKS

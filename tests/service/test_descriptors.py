"""Descriptors: the limits of users, and the behaviour when there are none left."""

import contextlib
import os
import resource
import select
import signal
import socket
import struct

import numpy
import pytest

from faults import GO_ON, NO_THREADS, NO_WATCHES, Faults, needs_preload
from fdtest import (Client, Daemon, Region, as_user, assert_serves, descriptors, eventually,
                    lingering_socket, needs_root, one_table, request_bytes, restart_worker, stopped, wave)
from fuse import hanging_file_passed

MOST = 128


def limited():
    resource.setrlimit(resource.RLIMIT_NOFILE, (MOST, MOST))


def test_no_more_connections_than_descriptors():
    with Daemon(preexec_fn=limited) as daemon:
        assert daemon.info()["limits"]["max_connections"] < MOST
    with Daemon("--max-connections", 10, preexec_fn=limited) as daemon:
        assert daemon.info()["limits"]["max_connections"] == 10


def test_a_connection_counts_while_it_lasts():
    """A user who disconnects, cleanly or not, may reconnect, and the last places remain reserved for others."""
    with Daemon("--max-connections", 16) as daemon:
        with Client(daemon.path) as first:
            for how in ("close", "reset", "wrong"):
                for _ in range(20):
                    with Client(daemon.path) as client:
                        assert client.call("ping") == {}
                        if how == "reset":
                            client.send("put", f=numpy.zeros(1 << 20))
                        elif how == "wrong":
                            client.send_bytes(b"GET / HTTP/1.1\r\n")
                            client.closed_by_server()
                eventually(lambda: first.call("stats")["connections"] == 1, "all the others are closed")
                assert first.call("stats")["user"]["connections"] == 1


def test_a_region_counts_while_it_lasts():
    """Its bytes and its descriptor, until it is unregistered or its connection ends."""
    with Daemon("--region-memory", 4 << 20, preexec_fn=limited) as daemon, Client(daemon.path) as first:
        for i in range(MOST):
            with Client(daemon.path) as client:
                region = Region(1 << 20).registered(client)
                if i % 2:
                    client.call("unregister", region=region.id)
            eventually(lambda: first.call("stats")["user"]["region_bytes"] == 0, "nothing registered")


def pass_halves(daemon):
    """Pass a descriptor of memory on each of many connections, with half of its message, while a stranger is served.
    Returns the connections and the other halves."""
    *clients, last = daemon.connect_all()
    region = Region(4096)
    message = request_bytes(0, "register", {"bytes": region.size})
    for client in clients:
        with contextlib.suppress(BrokenPipeError):
            socket.send_fds(client.socket, [message[:9]], [region.descriptor])
        assert last.call("ping") == {}
    assert daemon.as_user(65534, lambda stranger: stranger.call("ping")) == {}
    last.close()
    return clients, message[9:]


def complete(clients, half):
    """Each message is answered. Returns how many connections had ended before."""
    ended = 0
    for client in clients:
        try:
            client.send_bytes(half)
            error, _ = client.outcome(0)
            assert not error or error.code == "OVER_BUDGET"
        except (ConnectionError, EOFError):
            ended += 1
        client.close()
    return ended


@needs_root
@one_table
def test_descriptors_of_half_messages_leave_others_theirs():
    """Others can connect, and what is held back is answered when its message is complete; but a connection is closed
    that passes more while many wait to be closed."""
    with Daemon("--mode", "0666", preexec_fn=limited) as daemon:
        ended = complete(*pass_halves(daemon))
        eventually(lambda: not ended or "descriptors faster than they can be closed" in daemon.log(), "the reason")


@needs_root
@needs_preload
def test_memory_that_is_slow_to_close_leaves_others_theirs():
    """As that of many GB may be, of which the server has the last descriptor."""
    faults = Faults("fdserver", hang="/memfd:region (deleted)")
    with Daemon("--mode", "0666", env=faults.env, preexec_fn=limited) as daemon:
        before = descriptors(daemon.pid)
        clients, half = pass_halves(daemon)
        faults[GO_ON] = 1
        assert complete(clients, half) > 0
        eventually(lambda: descriptors(daemon.pid) <= before, "all of them closed")


@contextlib.contextmanager
def all_taken():
    """A daemon of whose descriptors one user has as many as possible, and that user's first connection."""
    with Daemon("--mode", "0666", preexec_fn=limited) as daemon:
        first = daemon.client()
        for _ in range(MOST // 3):
            Region(1).register(first)
        clients = daemon.connect_all()
        assert len(clients) > 4
        yield daemon, first
        for client in clients:
            client.close()


def test_a_worker_comes_back_where_one_user_has_all_there_are():
    with all_taken() as (_, first):
        restart_worker(first)


@needs_root
def test_a_user_who_holds_none_gets_in():
    with all_taken() as (daemon, _):
        def another(client):
            Region(1).register(client)
            assert_serves(client)
        daemon.as_user(65534, another)


@needs_root
def test_who_comes_when_only_the_reserve_is_left_waits():
    with all_taken() as (daemon, first):
        others = []
        while "nobody can connect until there are more" not in daemon.log():
            assert len(others) < MOST
            others.append(daemon.client_as(60000 + len(others)))
            assert_serves(first)
        late = daemon.client_as(65000)
        for other in others:
            other.close()
        assert late.call("ping") == {}
        late.close()


@needs_preload
def test_descriptors_that_are_never_closed(tmp_path):
    """A user who passes more is disconnected; others are served, and a worker is restarted."""
    hang = tmp_path / "hang"
    hang.touch()
    faults = Faults("fdserver", hang=hang)
    with Daemon(env=faults.env, preexec_fn=limited) as daemon:
        other = daemon.client()
        other.call("ping")
        before = descriptors(daemon.pid)
        with open(hang, "rb") as file:
            for _ in range(20):
                with contextlib.suppress(OSError, EOFError), Client(daemon.path) as stranger:
                    for _ in range(20):
                        socket.send_fds(stranger.socket, [request_bytes(0, "ping", {})],
                                        [file.fileno()] * 10)
                        stranger.receive_message()
        assert descriptors(daemon.pid) > before, "none of them waits"
        assert_serves(other)
        restart_worker(other)
        faults[GO_ON] = 1
        eventually(lambda: descriptors(daemon.pid) <= before, "all of them closed")
        daemon.assert_serves()


def pass_unread(path, descriptor):
    """A stranger who is disconnected with the descriptor still in the connection."""
    with contextlib.suppress(OSError, EOFError), Client(path) as stranger:
        socket.send_fds(stranger.socket, [request_bytes(0, "ping", {})], [descriptor])
        stranger.closed_by_server()


def leave_to_the_server(daemon, client, file, message, flags=0, after=()):
    """Pass a file, after others, that nobody but the server has when it comes to it."""
    with stopped(daemon.pid):
        passed = [*after, file.fileno()]
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(passed)}i", *passed))
        client.socket.sendmsg([message], [rights], flags)  # send_fds() ignores its flags
        file.close()


@contextlib.contextmanager
def hanging(tmp_path):
    """A daemon to which a user has passed the most hanging descriptors that may wait; and closed connections with
    more of them."""
    hang = tmp_path / "hang"
    hang.touch()
    faults = Faults("fdserver", hang=hang)
    with Daemon("--mode", "0666", env=faults.env, preexec_fn=limited) as daemon:
        other = daemon.client()
        other.call("ping")
        before, threads = descriptors(daemon.pid), len(os.listdir(f"/proc/{daemon.pid}/task"))
        with open(hang, "rb") as file, Client(daemon.path) as stranger:
            with contextlib.suppress(OSError, EOFError):
                for _ in range(MOST):
                    socket.send_fds(stranger.socket, [request_bytes(0, "ping", {})], [file.fileno()])
                    stranger.receive_message()
            for _ in range(2 * MOST):
                pass_unread(daemon.path, file.fileno())
        eventually(lambda: descriptors(daemon.pid) <= before + MOST // 4, "no more than may wait")
        eventually(lambda: len(os.listdir(f"/proc/{daemon.pid}/task")) <= threads, "no thread more than before")
        yield daemon, other
        faults[GO_ON] = 1


def disposal_goes_on(path):
    """Is a descriptor that is left in a connection closed soon?"""
    reader, writer = os.pipe()
    pass_unread(path, writer)
    os.close(writer)
    closed, _, _ = select.select([reader], [], [], 10)
    os.close(reader)
    return bool(closed)


@needs_preload
def test_the_loop_never_closes_what_waits(tmp_path):
    """However many connections end with a descriptor in them, new ones are accepted and a worker is restarted."""
    with hanging(tmp_path) as (daemon, other), lingering_socket(1000) as lingering:
        with open(tmp_path / "hang", "rb") as file:
            assert disposal_goes_on(daemon.path), "others before"
            for _ in range(MOST):  # in a row: as many as a table has room for
                pass_unread(daemon.path, file.fileno())
        last = Client(daemon.path)
        leave_to_the_server(daemon, last, lingering, request_bytes(0, "ping", {}))
        assert last.closed_by_server() == []
        assert disposal_goes_on(daemon.path)
        assert_serves(other)
        restart_worker(other)
        daemon.assert_serves()


def with_many(null):
    return [null.fileno()] * 240


def pass_too_many(daemon, stranger, other, lingering, null):
    """The stranger does, with a lingering socket last; the other client is served nevertheless."""
    leave_to_the_server(daemon, stranger, lingering, request_bytes(0, "ping", {}), after=with_many(null))
    assert stranger.closed_by_server() == []
    assert_serves(other)


@one_table
def test_more_than_there_are_numbers_for():
    """The kernel would close what it has no number for, in the thread that receives the message."""
    with Daemon(preexec_fn=limited) as daemon, lingering_socket(1000) as lingering, open(os.devnull) as null:
        other = daemon.client()
        pass_too_many(daemon, daemon.client(), other, lingering, null)
        Region(1).register(other)


@one_table
def test_more_than_there_are_numbers_left_for():
    """Though the number that was given out last is a low one; and as before once there is room again. One user has all
    but the last eighth, which is less than the message needs."""
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (1700, 1700))
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with Daemon(preexec_fn=limit) as daemon, lingering_socket(1000) as lingering, open(os.devnull) as null:
        early, stranger, other = (daemon.client() for _ in range(3))
        for client in (early, stranger, other):
            client.call("ping")
        with contextlib.ExitStack() as stack:
            crowd = [stack.enter_context(Client(daemon.path)) for _ in range(740)]
            for one in crowd:
                one.call("ping")
            for one in crowd:  # one more each
                socket.send_fds(one.socket, [request_bytes(0, "ping", {})[:3]], [null.fileno()])
            eventually(lambda: descriptors(daemon.pid) > 1465, "all that there is room for")
            early.close()
            eventually(lambda: connects(daemon), "a low number is given out again")
            pass_too_many(daemon, stranger, other, lingering, null)
        eventually(lambda: is_answered(daemon, null), "messages with many are read again")


def connects(daemon):
    with contextlib.suppress(OSError, EOFError):
        return daemon.client().call("ping") == {}
    return False


def is_answered(daemon, null):
    """Is a message with many answered, with an error?"""
    with contextlib.suppress(EOFError), Client(daemon.path) as client:
        socket.send_fds(client.socket, [request_bytes(0, "ping", {})], with_many(null))
        return client.receive_message()[2]["code"] == "PROTOCOL"
    return False


def test_what_comes_out_of_band_is_not_closed_by_the_loop():
    """As the kernel closes it in a read that passes over such a byte."""
    message = request_bytes(0, "ping", {})
    with Daemon() as daemon, lingering_socket(1000) as lingering:
        stranger = daemon.client()
        leave_to_the_server(daemon, stranger, lingering, message[:1], socket.MSG_OOB)
        stranger.send_bytes(message[1:])
        assert stranger.error(0).code == "PROTOCOL"
        assert_serves(daemon.client())


@needs_preload
def test_exports_do_not_wait_for_what_hangs(tmp_path):
    with hanging(tmp_path) as (daemon, other):
        before = descriptors(daemon.pid)
        for _ in range(MOST):
            with Client(daemon.path) as client:
                field = other.put(wave(10))
                for export in [client.send("export", field=field) for _ in range(2)]:
                    client.recv(export)
                other.free(field)
        eventually(lambda: descriptors(daemon.pid) <= before, "each is closed")


@needs_preload
@needs_root
def test_what_hangs_is_its_users_alone(tmp_path):
    with hanging(tmp_path) as (daemon, _):
        def another():
            for _ in range(MOST):
                with Client(daemon.path) as client:
                    Region(1).register(client)
                    assert_serves(client)
        as_user(65534, another)


def test_a_worker_inherits_nothing(tmp_path):
    """Inherited descriptors are closed before a program starts, and its parent waits for that."""
    with Daemon() as daemon, hanging_file_passed(daemon.path, tmp_path / "file", 8):
        files = [os.readlink(f"/proc/{daemon.pid}/fd/{number}") for number in os.listdir(f"/proc/{daemon.pid}/fd")]
        assert files.count(str(tmp_path / "file")) > 1, "none of them waits to be closed"
        restart_worker(daemon.client())


@needs_preload
def test_where_epoll_takes_no_more():
    """A connection that cannot be watched is closed; so is a worker, and the next one is tried."""
    faults = Faults("fdserver")
    with Daemon(env=faults.env) as daemon:
        client = daemon.client()
        assert_serves(client)
        faults[NO_WATCHES] = 1
        with Client(daemon.path) as refused:
            assert refused.closed_by_server() == []
        [device] = client.call("info")["devices"]
        os.kill(device["pid"], signal.SIGKILL)
        eventually(lambda: client.call("info")["devices"][0]["generation"] > device["generation"] + 1,
                   "a worker that could not be watched")
        faults[NO_WATCHES] = 0
        eventually(lambda: client.call("info")["devices"][0]["state"] == "ready", "a worker")
        assert_serves(client)


@needs_preload
@pytest.mark.parametrize("program", ["fdserver", "fdworker"])
def test_threads_are_made_at_start(program):
    """If no thread can be created later, a first region and the descriptors of other users need none."""
    faults = Faults(program)
    with Daemon(env=faults.env) as daemon:
        client = daemon.client()
        pid = client.call("info")["devices"][0]["pid"]
        faults[NO_THREADS] = 1
        region = Region(1 << 20).registered(client)
        client.call("unregister", region=region.id)
        with open("/dev/null", "rb") as null, Client(daemon.path) as stranger:
            socket.send_fds(stranger.socket, [request_bytes(0, "ping", {})], [null.fileno()])
            assert stranger.error(0).code == "PROTOCOL"
        assert_serves(client)
        assert client.call("info")["devices"][0]["pid"] == pid


@needs_preload
def test_a_server_without_threads_says_so():
    faults = Faults("fdserver")
    faults[NO_THREADS] = 1
    with Daemon(env=faults.env, wait=False) as daemon:
        assert daemon.wait() == 1
        assert "thread" in daemon.log()
        daemon.process.returncode = 0  # as it was to be

"""What one user keeps of the front while another takes all that it gives."""

import contextlib
import os
import select
import signal
import socket
import tempfile

import msgpack
import pytest

from fdtest import PATIENCE_S, Client, Daemon, assert_serves, needs_root, request_bytes

pytestmark = needs_root

CONNECTIONS = 500
NEIGHBOUR = 65534


@contextlib.contextmanager
def neighbour(act):
    """Another uid's process, which does act() while the block lasts: it says with a byte that it has begun."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NEIGHBOUR)
            os.setuid(NEIGHBOUR)
            act(lambda: os.write(writer, b"!"))
        finally:
            os._exit(1)
    os.close(writer)
    try:
        assert os.read(reader, 1) == b"!", "the neighbour could not begin"
        yield
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "the neighbour gave up"
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def connect(path):
    one = socket.socket(socket.AF_UNIX)
    one.connect(path)
    return one


def send_without_end(path, message):
    """Messages that nothing answers, on many connections, as fast as they are taken."""
    def act(begun):
        block = message * 8192
        poll, at, ones = select.epoll(), {}, {}
        for _ in range(CONNECTIONS):
            one = connect(path)
            one.setblocking(False)
            ones[one.fileno()], at[one.fileno()] = one, 0
            poll.register(one, select.EPOLLOUT)
        told = False
        while True:
            for descriptor, _ in poll.poll():
                try:
                    at[descriptor] += ones[descriptor].send(block[at[descriptor] % len(block):])
                except BlockingIOError:
                    continue
            if not told:
                begun()
            told = True
    return act


def reconnect_without_end(path, message):
    """Many connections, each for one request."""
    def act(begun):
        poll, ones = select.epoll(), {}

        def begin():
            one = connect(path)
            one.sendall(message)
            ones[one.fileno()] = one
            poll.register(one, select.EPOLLIN)

        for _ in range(CONNECTIONS):
            begin()
        begun()
        while True:
            for descriptor, _ in poll.poll():
                ones.pop(descriptor).close()
                begin()
    return act


@pytest.fixture
def watched():
    """A daemon whose watchdog is due twice a second, and the socket that it tells of it."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"{folder}/notify")
        manager.settimeout(PATIENCE_S)
        with Daemon("--mode", "0666",
                    env={"NOTIFY_SOCKET": f"{folder}/notify", "WATCHDOG_USEC": "1000000"}) as daemon:
            yield daemon, manager


@pytest.mark.parametrize("flood", [
    lambda path: send_without_end(path, msgpack.packb([2, "", []])),
    lambda path: reconnect_without_end(path, request_bytes(1, "ping", {})),
], ids=["notifications", "reconnecting"])
def test_a_flood_holds_neither_the_watchdog_nor_another_user(watched, flood):
    daemon, manager = watched
    with Client(daemon.path) as client, neighbour(flood(daemon.path)):
        for _ in range(200):
            assert client.call("ping") == {}
        assert_serves(client)
        before = client.call("stats")["uptime_s"]
        manager.setblocking(False)
        with contextlib.suppress(BlockingIOError):  # those that came meanwhile
            while manager.recv(4096):
                pass
        manager.settimeout(PATIENCE_S)
        for _ in range(8):
            assert b"WATCHDOG=1" in manager.recv(4096)
        assert client.call("stats")["uptime_s"] - before < 30, "eight messages that were due in four seconds"

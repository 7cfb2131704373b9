"""A user's share of the front while another user takes all that it permits."""

import contextlib
import socket
import tempfile

import msgpack
import pytest

from fdtest import PATIENCE_S, Client, Daemon, assert_serves, needs_root, request_bytes
from flooding import ask_without_end, neighbour, send_without_end

pytestmark = needs_root

CONNECTIONS = 500


@pytest.fixture
def watched():
    """A daemon whose watchdog message is due twice a second, and the socket that receives it."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"{folder}/notify")
        manager.settimeout(PATIENCE_S)
        with Daemon("--mode", "0666",
                    env={"NOTIFY_SOCKET": f"{folder}/notify", "WATCHDOG_USEC": "1000000"}) as daemon:
            yield daemon, manager


@pytest.mark.parametrize("flood", [
    lambda path: send_without_end(path, msgpack.packb([2, "", []]), CONNECTIONS),
    lambda path: ask_without_end(path, request_bytes(1, "ping", {}), CONNECTIONS, reconnects=True),
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

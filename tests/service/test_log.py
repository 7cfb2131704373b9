"""The log: its contents, and that no process waits for its reader."""

import contextlib
import fcntl
import os
import socket

from fdtest import PATIENCE_S, Daemon, assert_serves, eventually, restart_worker


def test_lines_over_the_level_are_not_written():
    """Neither the front nor the worker has one."""
    with Daemon("--log-level", 4) as daemon:
        daemon.assert_serves()
        assert daemon.log() == ""
    with Daemon() as daemon:
        eventually(lambda: "<6>fdserver: " in daemon.log() and "<6>fdworker " in daemon.log(), "lines of both")


@contextlib.contextmanager
def full_pipe():
    """Both ends of a full pipe."""
    out, into = os.pipe()
    fcntl.fcntl(into, fcntl.F_SETFL, os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(into, b"." * 4096)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(into, b".")
    fcntl.fcntl(into, fcntl.F_SETFL, 0)
    yield out, into
    for end in out, into:
        with contextlib.suppress(OSError):
            os.close(end)


def refused(path):
    """A connection that the server closes at once."""
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)
        one.settimeout(PATIENCE_S)
        with contextlib.suppress(ConnectionResetError):
            assert one.recv(1) == b""


def test_a_log_that_nobody_reads_stops_nobody():
    with full_pipe() as (out, into):
        with Daemon("--max-connections", 4, stderr=into) as daemon:
            os.close(into)
            clients = [daemon.client()]
            eventually(lambda: clients[0].call("stats")["connections"] == 1, "no other connection")
            for _ in range(3):
                clients.append(daemon.client())
                clients[-1].call("ping")
            for _ in range(500):
                refused(daemon.path)
            for client in clients:
                assert client.call("ping") == {}
            assert_serves(clients[0])
            restart_worker(clients[0])
            read = bytearray()
            os.set_blocking(out, False)

            def dropped():
                with contextlib.suppress(BlockingIOError):
                    read.extend(os.read(out, 1 << 20))
                return b" lines dropped like the last one of: a connection over the limit" in read
            eventually(dropped, "how many lines were dropped")
            text = bytes(read).lstrip(b".").decode()
            assert "worker" in text and 0 < text.count("a connection over the limit") < 100


def test_a_log_that_is_never_read_delays_no_end():
    with full_pipe() as (_, into):
        with Daemon(stderr=into) as daemon:
            daemon.assert_serves()

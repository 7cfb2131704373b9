"""Of users who hold and owe nothing the server keeps some; the others are forgotten, and nobody else."""

import os
import socket

import pytest

from faults import GO_ON, Faults, needs_preload
from fdtest import (Daemon, MiB, assert_serves, descriptors, eventually, memory_bytes, needs_root, request_bytes,
                    sanitized, wave)

pytestmark = needs_root

CROWD = 3000  # the server keeps 1,024 (USERS_KEPT)


def pass_one(client, file):
    """A descriptor that nobody takes."""
    socket.send_fds(client.socket, [request_bytes(999, "ping", {})], [file.fileno()])
    assert client.error(999).code == "PROTOCOL"


def crowd(daemon, first, passed=None):
    """Users of the uids from that one on, who each do a job, and leave. Every seventh passes that file, too."""
    for uid in range(first, first + CROWD):
        with daemon.client_as(uid) as client:
            assert_serves(client)
            if passed and uid % 7 == 0:
                pass_one(client, passed)


def own(client):
    return client.call("stats")["user"]


def done(daemon, uid):
    """How many jobs the user is known to have done."""
    with daemon.client_as(uid) as client:
        return own(client)["done"]


def forgotten(daemon, first):
    """Are those of the uids from that one on? But for some who owe the loop's time, where the machine was busy."""
    return [done(daemon, uid) for uid in range(first, first + 100)].count(0) > 50


def test_who_holds_nothing_is_forgotten_and_nobody_else():
    with Daemon("--mode", "0666") as daemon, open(os.devnull, "rb") as null:
        with daemon.client_as(40001) as client:
            field = client.put(wave(8))
        with daemon.client_as(40000) as stays:
            for _ in range(3):
                assert_serves(stays)
            own(stays)  # its memory is counted as it is served
            before, total = own(stays), daemon.stats()["totals"]["done"]
            crowd(daemon, 50000, null)
            assert own(stays) == before and before["done"] == 3
            assert daemon.stats()["totals"]["done"] == total + CROWD
        assert forgotten(daemon, 50000)
        with daemon.client_as(40001) as client:
            assert own(client)["done"] == 1, "who has left a field"
            assert (client.get(field) == wave(8)).all()
            client.free(field)
        daemon.assert_serves()


@pytest.mark.skipif(bool(sanitized()), reason="a sanitizer's memory is not the server's")
def test_memory_does_not_grow_with_the_users_who_were_here():
    with Daemon("--mode", "0666") as daemon:
        crowd(daemon, 50000)
        before = memory_bytes(daemon.pid, "RssAnon")
        crowd(daemon, 50000 + CROWD)
        assert memory_bytes(daemon.pid, "RssAnon") - before < 12 * MiB, "36 MB, were all of them kept"


@needs_preload
def test_whose_descriptor_waits_to_be_closed_is_kept(tmp_path):
    """A thread is to count it when it is closed."""
    hang = tmp_path / "hang"
    hang.touch()
    faults = Faults("fdserver", hang=hang)
    with Daemon("--mode", "0666", env=faults.env) as daemon:
        before = descriptors(daemon.pid)
        with open(hang, "rb") as file, daemon.client_as(40000) as client:
            assert_serves(client)
            pass_one(client, file)
        crowd(daemon, 50000)
        assert done(daemon, 40000) == 1
        assert forgotten(daemon, 50000)
        faults[GO_ON] = 1
        eventually(lambda: descriptors(daemon.pid) <= before, "closed")
        daemon.assert_serves()

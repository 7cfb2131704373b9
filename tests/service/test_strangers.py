"""Isolation of users: none is locked out, and none learns of another's activity."""

import pathlib
import time

import numpy
import pytest

from fdtest import Client, Daemon, FdError, MiB, Region, eventually, jobs_under_way, needs_root, sanitized, wave
from flooding import neighbour

A_STRANGER = 65534

pytestmark = needs_root


@pytest.fixture
def daemon():
    with Daemon("--mode", "0666", "--device-memory", 16 * MiB, "--region-memory", 16 * MiB) as running:
        yield running


def fill(call):
    """Repeat it until there is no room; returns the results and the last error."""
    given = []
    while True:
        try:
            given.append(call())
        except FdError as error:
            return given, error


def test_the_last_of_a_devices_memory_is_for_a_new_user(daemon):
    with Client(daemon.path) as client:
        fields, error = fill(lambda: client.put(wave(MiB // 4)))
        assert len(fields) == 14
        assert (error.code, error.retryable, error.limit) == ("OVER_BUDGET", True, 14 * MiB)
        assert client.refused("put", f=wave(15 * MiB // 4)).code == "TOO_LARGE"

        def stranger(other):
            other.call("laplacian", f=wave(64, 64))
            mine, refusal = fill(lambda: other.put(wave(MiB // 16)))
            other.free(*mine)
            return len(mine), refusal.code
        # As much as is left, of two MiB.
        assert daemon.as_user(A_STRANGER, stranger) == (4, "OVER_BUDGET")
        client.free(*fields)


@pytest.mark.skipif(int(pathlib.Path("/proc/sys/vm/max_map_count").read_text()) > 65530,
                    reason="a process may map more than a user may have fields")
def test_the_last_of_the_hosts_mappings_is_for_a_new_user():
    """Neighbouring arrays can share a mapping, but not after some between them have been freed: then each has its
    own."""
    at_once = 1000

    def put(client, count, pages):
        """So many arrays of this size, as far as there is room."""
        fields = []
        for _ in range(0, count, at_once):
            jobs = [client.send("put", f=numpy.zeros(1024 * pages, "f4")) for _ in range(min(at_once, count))]
            outcomes = [client.outcome(job) for job in jobs]
            fields += [result["field"] for error, result in outcomes if not error]
            if any(error for error, _ in outcomes):
                assert {error.code for error, _ in outcomes if error} == {"OVER_BUDGET"}
                break
        return fields

    def free(client, fields):
        for job in [client.send("free", field=field) for field in fields]:
            client.recv(job)

    def stranger(client):
        assert all(client.out("laplacian", f=wave(32, 32, 32 + n)).shape == (32, 32, 32 + n) for n in range(32))
        return len(put(client, 100, 16))
    with Daemon("--mode", "0666") as daemon, Client(daemon.path) as client:
        regions = [Region(4096).registered(client) for _ in range(500)]
        count = 65536
        for pages in range(1, 17):
            fields = put(client, count, pages)
            free(client, fields[::2])
            count = len(fields) // 2
        assert daemon.as_user(A_STRANGER, stranger) == 100
        assert len(regions) == 500


def test_the_last_of_region_memory_is_for_a_new_user(daemon):
    with Client(daemon.path) as client:
        regions, error = fill(lambda: Region(MiB).register(client))
        assert len(regions) == 14 and error.code == "OVER_BUDGET" and error.limit == 14 * MiB

        def stranger(other):
            mine, refusal = fill(lambda: Region(MiB // 4).register(other))
            return len(mine), refusal.code
        assert daemon.as_user(A_STRANGER, stranger) == (4, "OVER_BUDGET")


def test_a_stranger_sees_no_job_of_others(daemon):
    def stranger(other):
        stats = other.call("stats")
        return stats, [device["fields_bytes"] for device in other.call("info")["devices"]]
    with Client(daemon.path) as client:
        field = client.put(wave(512, 512))
        job = client.send("diffusion", f={"field": field}, steps=10**9, cfl=0.5, accuracy=2)
        eventually(lambda: client.call("stats")["queue"]["running"] == 1, "it runs")
        mine = client.call("stats")
        assert mine["totals"]["latency_us"]["count"] > 0 and mine["totals"]["bytes_in"] >= MiB
        stats, bytes_on_devices = daemon.as_user(A_STRANGER, stranger)
        assert bytes_on_devices == [0]
        assert "latency_us" not in stats["totals"] and stats["user"]["latency_us"]["count"] == 0
        assert set(stats["totals"]) == set(mine["totals"]) - {"latency_us"}
        for part in ("totals", "queue"):
            assert set(stats[part].values()) == {0}, part
        assert stats["connections"] == stats["staging"]["upload_bytes"] == stats["staging"]["reply_bytes"] == 0
        client.cancel(job)
        client.free(field)


def test_what_others_ran_does_not_show_in_an_estimate(daemon):
    def stranger(other):
        return other.call("laplacian", f=wave(64, 64), dry_run=True)["seconds"]
    before = daemon.as_user(A_STRANGER, stranger)
    with Client(daemon.path) as client:
        guess = client.call("laplacian", f=wave(64, 64), dry_run=True)["seconds"]
        for _ in range(5):
            client.call("laplacian", f=wave(64, 64))
        eventually(lambda: jobs_under_way(client.call("stats")) == 0, "idle")
        assert client.call("laplacian", f=wave(64, 64), dry_run=True)["seconds"] != guess
    assert daemon.as_user(A_STRANGER, stranger) == before == guess


@pytest.mark.parametrize("chained", [False, True], ids=["jobs", "a chain"])
def test_others_wait_for_one_plan_of_a_user_with_ever_new_coordinates(chained):
    """The worker makes a plan in a second, and does nothing else meanwhile: a user's next one comes after the job of
    another."""
    points = 16383 if sanitized() else 65535
    with Daemon("--mode", "0666", "--threads", 1) as daemon, Client(daemon.path) as client:
        def ask(begun):
            other = Client(daemon.path)
            f = other.put(wave(points))
            ops = [{"op": "derivative", "order": 4, "f": {"field": f}, "spacing": {"x": numpy.arange(points + 1) + shift / 64}}
                   for shift in range(8)]
            if chained:
                other.send("chain", ops=[dict(op, out="last") for op in ops], out={"last": "field"})
            for op in ops if not chained else []:
                other.send(op.pop("op"), out="field", **op)
            begun()
            while True:
                time.sleep(60)

        def done_by_others(stats):
            return stats["totals"]["done"] - stats["user"]["done"]

        def makes_a_plan(stats):
            return done_by_others(stats) >= 1 and stats["queue"]["running"]  # the put is over
        field = client.put(wave(8, 8))
        with neighbour(ask):
            eventually(lambda: makes_a_plan(client.call("stats")), "a plan is being made")
            job = client.send("laplacian", f={"field": field}, out="field")
            looks = [client.call("stats")]
            while job not in client.replies:
                looks.append(client.call("stats"))
            client.recv(job)
            # All looks but the last came before the answer: the one job ends whose plan was being made, and no chain.
            assert all(done_by_others(stats) <= done_by_others(looks[0]) + (not chained) for stats in looks[:-1])
            assert jobs_under_way(looks[-1]) >= 1

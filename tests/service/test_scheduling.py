"""The order of jobs, and their early end: priority, timeout, cancel, detach, limits."""

import numpy
import pytest

from fdtest import (Client, Daemon, ENDLESS, ONE_DEVICE, MiB, as_user, await_bytes, derivative, eventually, needs_root,
                    wave)

OPTIONS = ("--staging-bytes", 16 * MiB, "--mode", "0666")
DEVICE = ONE_DEVICE

LARGE = (24, 512, 512)  # 24 MiB: more than a socket takes

pytestmark = pytest.mark.usefixtures("no_fields_left")


def queue(client):
    return client.call("stats")["queue"]


def endless(client, field=None, **params):
    """A job that runs until it is stopped; returns when it runs. It writes into the field, or into a new one."""
    before = queue(client)["running"]
    f = {"field": field} if field else wave(64, 64)
    out = {"field": field} if field else "inline"
    job = client.send("diffusion", f=f, out=out, **ENDLESS, **params)
    eventually(lambda: queue(client)["running"] > before, "one job more that runs")
    return job


def counted(client, function):
    """The changes of the user's job counters by function()."""
    keys = ("done", "failed", "cancelled", "timed_out", "refused")
    before = client.call("stats")["user"]
    function()
    eventually(lambda: client.call("stats")["user"]["jobs"] == 0, "all jobs over")
    after = client.call("stats")["user"]
    return {key: after[key] - before[key] for key in keys if after[key] != before[key]}


# Turns

def test_the_urgent_one_goes_first(client):
    """A dozen long jobs wait; the one that is sent last is done before them."""
    first = endless(client)
    job = {"steps": 3000, "cfl": 0.5, "accuracy": 2}
    f = wave(128, 128)
    usual = [client.send("diffusion", f=f, **job) for _ in range(12)]
    late = [client.send("diffusion", f=f, priority=-5, **job)]
    urgent = client.send("diffusion", f=f, priority=100, **job)
    waiting = queue(client)["queued"]  # 13, and fewer if some were done meanwhile
    assert client.call("cancel", msgid=first) == {"state": "cancelled"}
    order = []
    for _ in range(15):
        msgid, error, _ = client.recv_any()
        assert (error.code if error else None) == ("CANCELLED" if msgid == first else None)
        order.append(msgid)
    order.remove(first)
    # Two may be with the worker already, and change places there.
    assert order.index(urgent) <= 16 - waiting, order
    assert order.index(late[0]) >= 11, order
    assert sorted(order) == sorted(usual + late + [urgent])


def test_a_short_job_does_not_wait_for_a_long_one_of_the_same_user(client):
    long = endless(client)
    queued = client.send("diffusion", f=wave(64, 64), **ENDLESS)
    numpy.testing.assert_allclose(client.out("derivative", f=wave(64)), derivative(wave(64)), atol=1e-5)
    client.cancel(queued, long)


@needs_root
def test_a_bulk_user_is_not_before_an_interactive_one(daemon, client):
    jobs = [client.send("diffusion", f=wave(256, 256), **ENDLESS) for _ in range(20)]
    eventually(lambda: queue(client)["queued"] == 19, "a deep queue")

    def interactive(other):
        return [other.out("laplacian", f=wave(16, 16)).shape for _ in range(50)]
    assert daemon.as_user(65534, interactive) == [(16, 16)] * 50
    assert queue(client)["queued"] == 19
    client.cancel(*jobs)


@needs_root
def test_who_asks_for_more_does_not_get_more(daemon, client):
    """900 jobs of one user wait when another sends 60 equal ones: neither waits for all jobs of the other."""
    job = {"f": wave(128, 128), "steps": 400, "cfl": 0.5, "accuracy": 2, "out": "field"}

    def work(count):
        with Client(daemon.path) as one:
            jobs = [one.send("diffusion", **job) for _ in range(count)]
            return [one.recv(each)["out"]["field"] for each in jobs]
    mine = [client.send("diffusion", **job) for _ in range(900)]
    eventually(lambda: client.call("stats")["user"]["done"] > 20, "some are done")
    with Client(daemon.path) as mine_too:  # asked as soon as the other's are done
        before = mine_too.call("stats")["user"]["done"]
        fields, after = as_user(65534, lambda: (work(60), mine_too.call("stats")["user"]["done"]))
    between = after - before
    assert len(fields) == 60
    assert between < 700, f"{between} of mine while 60 of the other's were done"
    for each in mine:
        client.recv(each)
    daemon.as_user(65534, lambda other: other.free(*fields))


# Timeout

def test_a_job_that_runs_out_of_time(client):
    def story():
        error = client.refused("diffusion", f=wave(64, 64), timeout=200_000, **ENDLESS)
        assert (error.code, error.retryable) == ("TIMEOUT", False)
    assert counted(client, story) == {"timed_out": 1}
    eventually(lambda: queue(client)["running"] == 0, "the worker has let it go")


def test_a_job_whose_time_is_up_before_its_turn(client):
    running = endless(client)
    queued = client.send("diffusion", f=wave(64, 64), timeout=100_000, **ENDLESS)
    assert client.error(queued).code == "TIMEOUT"
    assert queue(client)["running"] == 1  # the other one goes on
    client.cancel(running)


def test_a_job_whose_time_is_up_while_its_field_is_in_use(client):
    field = client.put(wave(64, 64))
    writer = endless(client, field)
    waiting = client.send("get", field=field, timeout=100_000)
    assert client.error(waiting).code == "TIMEOUT"
    client.cancel(writer)


def test_time_enough(client):
    def story():
        for timeout in (60_000_000, 2**63, 2**64 - 1):
            client.out("derivative", f=wave(64), timeout=timeout)
        client.free(client.call("put", f=wave(64), timeout=60_000_000, priority=3)["field"])
    assert counted(client, story) == {"done": 4}


# Cancel

def test_cancel_a_job_that_runs(client):
    field = client.put(wave(64, 64))
    job = endless(client, field)

    def story():
        assert client.call("cancel", msgid=job) == {"state": "cancelled"}
        error, _ = client.outcome(job)
        assert (error.code, error.retryable) == ("CANCELLED", False)
    assert counted(client, story) == {"cancelled": 1}
    assert client.refused("get", field=field).code == "FIELD_LOST"  # half-written
    client.call("laplacian", f=wave(64, 64), out={"field": field})   # and whole again
    assert client.get(field).shape == (64, 64)


def test_cancel_a_job_that_waits_for_its_turn(client):
    running = endless(client)
    queued = [client.send("diffusion", f=wave(64, 64), **ENDLESS) for _ in range(3)]
    eventually(lambda: queue(client)["queued"] == 3, "three that wait")
    client.cancel(queued[1])
    assert queue(client)["queued"] == 2
    for job in queued[0], queued[2], running:
        client.cancel(job)


def test_cancel_a_job_that_waits_for_a_field(client):
    field = client.put(wave(64, 64))
    writer = endless(client, field)
    reader = client.send("derivative", f={"field": field}, axis="x")
    eventually(lambda: queue(client)["waiting"] == 1, "one that waits")
    client.cancel(reader)
    client.cancel(writer)


def test_cancel_an_answer_that_has_not_begun(daemon, client):
    """Its result is on the device; the one before it fills the socket."""
    f = wave(*LARGE)
    with Client(daemon.path) as watcher:
        begun, behind = (client.send("derivative", f=f, axis="x") for _ in range(2))
        eventually(lambda: queue(watcher)["replying"] == 2, "two results")
        await_bytes(client)  # of one
        both = [client.send("cancel", msgid=job) for job in (begun, behind)]
        replies = [client.recv_any() for _ in range(4)]
    outcomes = {msgid: (error.code if error else None, result) for msgid, error, result in replies}
    # Which of the two went out first is the server's choice.
    states = [outcomes[cancel][1]["state"] for cancel in both]
    assert sorted(states) == ["already_done", "cancelled"]
    for job, state in zip((begun, behind), states):
        code, result = outcomes[job]
        assert code == ("CANCELLED" if state == "cancelled" else None)
        if not code:
            numpy.testing.assert_allclose(result["out"][5], derivative(f[5]), atol=1e-4)


def test_cancel_what_is_over_or_never_was(daemon, client):
    job = client.send("derivative", f=wave(64), axis="x")
    client.recv(job)
    assert client.call("cancel", msgid=job) == {"state": "already_done"}
    assert client.call("cancel", msgid=10**6) == {"state": "not_found"}
    running = endless(client)
    with Client(daemon.path) as other:  # a msgid is the connection's own
        assert other.call("cancel", msgid=running) == {"state": "not_found"}
    client.cancel(running)
    assert client.call("cancel", msgid=running) == {"state": "already_done"}


def test_cancel_hundreds(client):
    jobs = [client.send("diffusion", f=wave(32, 32), **ENDLESS) for _ in range(300)]
    cancels = [client.send("cancel", msgid=job) for job in reversed(jobs)]
    for cancel in cancels:
        assert client.recv(cancel) == {"state": "cancelled"}
    for job in jobs:
        assert client.error(job).code == "CANCELLED"


# Detach

def test_a_job_that_was_detached_outlives_its_connection(daemon, client):
    f = wave(128, 128)
    job = {"steps": 4000, "cfl": 0.5, "accuracy": 2}
    expected = client.out("diffusion", f=f, **job)
    into = client.put(f)
    with Client(daemon.path) as other:
        other.send("diffusion", f={"field": into}, out={"field": into}, detach=True, **job)
        other.send("diffusion", f=f, out="field", detach=True, **job)
        other.call("ping")  # both are accepted
    eventually(lambda: client.call("stats")["user"]["jobs"] == 0, "both are done")
    fields = [entry["field"] for entry in client.call("list")["fields"]]
    assert len(fields) == 2 and into in fields
    for field in fields:
        assert client.get(field).tobytes() == expected.tobytes()


def test_others_end_with_their_connection(daemon, client):
    def story():
        with Client(daemon.path) as other:
            endless(other)
            other.send("diffusion", f=wave(64, 64), out="field", **ENDLESS)
            other.send("diffusion", f=wave(64, 64), out="field", detach=True, timeout=300_000, **ENDLESS)
            other.call("ping")  # all are accepted
        eventually(lambda: client.call("stats")["user"]["jobs"] == 0, "they are over")
    assert counted(client, story) == {"cancelled": 2, "timed_out": 1}
    assert client.call("list")["fields"] == []


# Limits

def test_jobs_of_all_users():
    with Daemon("--max-queue-jobs", 4) as daemon, daemon.client() as client:
        jobs = [client.send("diffusion", f=wave(64, 64), **ENDLESS) for _ in range(4)]
        with daemon.client() as other:
            eventually(lambda: other.call("stats")["totals"]["jobs"] == 4, "four jobs")
            error = other.refused("derivative", f=wave(64), axis="x")
            assert (error.code, error.retryable, error.need, error.limit) == ("QUEUE_FULL", True, 5, 4)
            assert other.call("stats")["user"]["refused"] == 1
            client.cancel(jobs[3])
            other.out("derivative", f=wave(64), axis="x")


@pytest.mark.parametrize("option", ["--user-queue-bytes", "--max-queue-bytes"])
def test_bytes_of_jobs(option):
    """The arrays of jobs count, and resident fields do not."""
    f = wave(512, 512)  # 1 MiB
    with Daemon(option, 4 * MiB) as daemon, daemon.client() as client:
        fields = [client.put(f) for _ in range(6)]
        assert client.call("stats")["queue"]["bytes"] == 0
        job = endless(client, fields[0])  # its scratch: 1 MiB
        assert client.call("stats")["user"]["queue_bytes"] == MiB
        client.out("derivative", f=f, axis="x")
        large = wave(1024, 512)
        error = client.refused("derivative", f=large, axis="x")  # 2 for it, 2 for its result
        assert (error.code, error.retryable, error.need, error.limit) == ("QUEUE_FULL", True, 2 * MiB, 4 * MiB)
        error = client.refused("derivative", f=wave(2048, 1024), axis="x")
        assert (error.code, error.retryable, error.need, error.limit) == ("TOO_LARGE", False, 8 * MiB, 4 * MiB)
        client.cancel(job)
        eventually(lambda: client.call("stats")["queue"]["running"] == 0, "the worker has let it go")
        client.out("derivative", f=large, axis="x")
        eventually(lambda: client.call("stats")["queue"]["bytes"] == 0, "nothing is held")


@pytest.mark.parametrize("option", ["--user-queue-bytes", "--max-queue-bytes"])
def test_numbers_of_jobs_count_while_they_last(option):
    """Coordinates of 256 KiB for an array of 128 KiB, in more jobs than fit at once: answered ones, refused ones,
    and ones that are cancelled while they wait for a field."""
    f, x = wave(32 * 1024), numpy.linspace(0, 1, 32 * 1024)
    params = {"axis": "x", "spacing": {"x": x}, "boundary": "one-sided"}
    with Daemon(option, 2 * MiB) as daemon, daemon.client() as client:
        field = client.put(f)
        for _ in range(20):
            client.out("derivative", f=f, **params)
            error = client.refused("derivative", f=f, out={"field": field + 1}, **params)  # its last check
            assert error.code == "NOT_FOUND"
        writer = endless(client, field)
        before = f.nbytes  # the writer's second array
        eventually(lambda: queue(client)["bytes"] == before, "the arrays of the jobs before let go")
        for _ in range(20):
            waiting = client.send("derivative", f={"field": field}, **params)
            eventually(lambda: queue(client)["waiting"] == 1, "one that waits for the field")
            assert client.call("stats")["queue"]["bytes"] >= before + x.nbytes
            client.cancel(waiting)
            eventually(lambda: queue(client)["bytes"] == before, "as before it")
        client.cancel(writer)
        eventually(lambda: client.call("stats")["queue"]["bytes"] == 0, "nothing is held")


def test_what_can_never_fit_is_not_to_be_retried():
    """Each array fits alone; all arrays of the job together do not."""
    f = wave(3 * MiB // 4)
    with Daemon("--device-memory", 8 * MiB) as daemon, daemon.client() as client:
        field = client.put(f)
        error = client.refused("diffusion", f={"field": field}, cfl=0.5, steps=2)  # it, result, scratch
        assert (error.code, error.retryable, error.need, error.limit) == ("TOO_LARGE", False, 9 * MiB, 7 * MiB)
        client.out("laplacian", f={"field": field})
        other = client.put(f)
        error = client.refused("laplacian", f={"field": field})
        assert (error.code, error.retryable, error.limit) == ("OVER_BUDGET", True, 7 * MiB)
        client.free(other)
        client.out("laplacian", f={"field": field})


def test_every_job_counts_once():
    with Daemon("--user-queue-jobs", 3) as daemon, daemon.client() as client:
        def story():
            client.out("derivative", f=wave(64), axis="x")
            assert client.refused("derivative", f=wave(64), axis="y").code == "INVALID_ARGUMENT"
            assert client.refused("derivative", f=wave(64), accuracy=5).code == "INVALID_ARGUMENT"
            jobs = [endless(client)] + [client.send("diffusion", f=wave(64, 64), **ENDLESS) for _ in range(2)]
            eventually(lambda: client.call("stats")["user"]["jobs"] == 3, "three jobs")
            assert client.refused("get", field=1).code == "QUEUE_FULL"
            client.cancel(*jobs)
            client.refused("diffusion", f=wave(64, 64), timeout=1, **ENDLESS)
        assert counted(client, story) == {"done": 1, "refused": 3, "cancelled": 3, "timed_out": 1}

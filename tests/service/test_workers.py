"""A worker may die at any time; long jobs report progress, and end when their client disconnects."""

import contextlib
import os
import re
import signal
import threading
import time

import numpy
import pytest

from fdtest import (Client, Daemon, ENDLESS, Region, assert_serves, derivative, diffusion, eventually,
                    in_threads, jobs_under_way, laplacian, process_status, request_bytes, settled, stopped, upload_begin, wave)


@pytest.fixture
def daemon():
    """A daemon for each test: workers are killed here."""
    with Daemon() as running:
        yield running


def running_job(client, f, **params):
    """Start a job without end, and wait until the worker runs it."""
    job = client.send("diffusion", f=f, progress=True, **ENDLESS, **params)
    client.await_note()
    return job


def test_a_killed_worker(daemon):
    front_descriptors = settled(daemon)[3][0]
    with Client(daemon.path) as client, Client(daemon.path) as bystander:
        field = bystander.put(wave(64, 64))
        job = running_job(client, wave(256, 256))
        queued = client.send("derivative", f=wave(64), axis="x")
        generation = daemon.kill_worker(wait=False)

        error, _ = client.outcome(job)
        assert error.code == "DEVICE_LOST" and error.retryable
        error, result = client.outcome(queued)  # lost with it, or run by the next
        if error:
            assert error.code == "DEVICE_LOST"
        else:
            numpy.testing.assert_allclose(result["out"], derivative(wave(64)), atol=1e-5)

        # The same connections go on, with the next worker.
        assert_serves(client)
        assert_serves(bystander)
        for method, params in (("get", {"field": field}), ("laplacian", {"f": {"field": field}}),
                               ("laplacian", {"f": wave(64, 64), "out": {"field": field}})):
            error, _ = bystander.outcome(bystander.send(method, **params))
            assert error.code == "FIELD_LOST" and not error.retryable
        bystander.free(field)
        device = bystander.call("info")["devices"][0]
        assert device["generation"] == generation + 1
        eventually(lambda: bystander.call("info")["devices"][0]["fields_bytes"] == 0, "no bytes charged")
        again = bystander.put(wave(64, 64))
        assert bystander.get(again).tobytes() == wave(64, 64).tobytes()
        bystander.free(again)
    eventually(lambda: settled(daemon)[3][0] == front_descriptors, "as many descriptors as before")


def test_a_worker_killed_again_and_again(daemon):
    with Client(daemon.path) as client:
        for _ in range(8):
            daemon.kill_worker()
            assert_serves(client)


@pytest.mark.parametrize("method", ["put", "laplacian"])
def test_a_worker_killed_in_the_middle_of_an_upload(daemon, method):
    shape = (24, 512, 512)
    with Client(daemon.path) as client:
        client.send_bytes(upload_begin(3, method, shape) + bytes(12 << 20))
        generation = daemon.kill_worker()
        client.send_bytes(bytes(12 << 20))
        assert client.error(3).code in ("DEVICE_LOST", "FIELD_LOST")
        assert_serves(client)
        assert daemon.generation() == generation + 1
    assert settled(daemon)[0] == 0


def test_a_worker_killed_while_many_send_and_receive(daemon):
    """Each job is done or lost; a connection ends only if half of a large reply was sent."""
    f, large = wave(64, 64, 64), wave(24, 512, 512)
    expected = laplacian(f)
    ended = threading.Event()

    def work(array):
        while not ended.is_set():
            try:
                with Client(daemon.path) as client:
                    begun = time.monotonic()
                    for job in [client.send("laplacian", f=array) for _ in range(2)]:
                        error, result = client.outcome(job)
                        if error:
                            assert error.code in ("DEVICE_LOST", "FIELD_LOST"), error
                        elif array is f:
                            numpy.testing.assert_allclose(result["out"], expected, atol=1e-4)
            except (EOFError, ConnectionError):
                assert array is not f or time.monotonic() - begun > 1, "it is staged whole, and kept for a second"

    def kill():
        try:
            for _ in range(4):
                daemon.kill_worker()
                done = daemon.stats()["totals"]["bytes_out"]
                eventually(lambda: daemon.stats()["totals"]["bytes_out"] > done + large.nbytes, "more replies")
        finally:
            ended.set()
    in_threads(kill, *(lambda array=array: work(array) for array in (f, f, large, large)))
    daemon.assert_serves()
    assert settled(daemon)[0] == 0


def test_a_worker_killed_with_a_small_reply_outstanding(daemon):
    """A result of up to 8 MiB is staged completely before its header is sent: no connection is closed."""
    client, begun = daemon.client(), time.monotonic()
    jobs = [client.send("derivative", f=wave(64, 64, 64), axis="x") for _ in range(12)]
    generation = daemon.kill_worker(wait=False)
    for job in jobs:
        try:
            error, result = client.outcome(job)
        except EOFError:
            assert time.monotonic() - begun > 1, "unread replies are kept for a second"
            client = daemon.client()
            break
        if error:
            assert error.code == "DEVICE_LOST" and error.retryable
        else:
            numpy.testing.assert_allclose(result["out"], derivative(wave(64, 64, 64)), atol=1e-5)
    daemon.await_worker(generation)
    assert_serves(client)
    # Jobs that had not begun are lost with the rest, and do not trouble the next worker.
    assert daemon.generation() == generation + 1


def stop_worker(daemon):
    """Stop the first device's worker, so that orders wait for it; returns its entry of info."""
    device = daemon.device()
    os.kill(device["pid"], signal.SIGSTOP)
    return device


def end_stopped_worker(daemon, device):
    with contextlib.suppress(ProcessLookupError):
        os.kill(device["pid"], signal.SIGKILL)
    daemon.await_worker(device["generation"])


def test_replies_that_waited_for_a_lost_worker_do_not_reach_the_next(daemon):
    """More gets than fit into staging: some are loading, some wait for room."""
    with Client(daemon.path) as client:
        field = client.put(wave(64, 64, 64))
        device = stop_worker(daemon)
        jobs = [client.send("get", field=field) for _ in range(12)]
        assert client.call("ping") is not None  # the front has read them
        end_stopped_worker(daemon, device)
        for job in jobs:
            assert client.error(job).code in ("DEVICE_LOST", "FIELD_LOST")
        assert_serves(client)
        assert daemon.generation() == device["generation"] + 1


def test_small_jobs_that_waited_for_a_lost_worker_do_not_reach_the_next(daemon):
    """More small jobs than there are slabs: some wait for one."""
    with Client(daemon.path) as client:
        device = stop_worker(daemon)
        jobs = [client.send("derivative", f=wave(64), axis="x") for _ in range(200)]
        assert client.call("ping") is not None  # the front has read them
        end_stopped_worker(daemon, device)
        for job in jobs:
            error, result = client.outcome(job)
            assert result or error.code == "DEVICE_LOST"
        assert_serves(client)
        assert daemon.generation() == device["generation"] + 1


def test_a_staged_reply_outlives_its_worker_or_says_so(daemon):
    """Staged and unread for longer than the front keeps staged bytes: correct bytes or a typed error."""
    with Client(daemon.path) as client:
        field = client.put(wave(64, 64, 64))
        device = daemon.device()
        jobs = [client.send("get", field=field) for _ in range(20)]
        eventually(lambda: daemon.stats()["queue"]["replying"] >= 4, "replies")
        os.kill(device["pid"], signal.SIGKILL)
        daemon.await_worker(device["generation"])
        time.sleep(2.5)  # past the second after which unread staged bytes make room for others
        for job in jobs:
            error, result = client.outcome(job)
            if error:
                assert error.code in ("DEVICE_LOST", "FIELD_LOST")
            else:
                assert result["out"].tobytes() == wave(64, 64, 64).tobytes()
        assert_serves(client)
        assert daemon.generation() == device["generation"] + 1


def test_a_worker_that_hangs_is_replaced(daemon):
    """A stopped worker answers no ping; its fields are lost as if it had ended."""
    with Client(daemon.path) as client, Client(daemon.path) as other:
        field = client.put(wave(64))
        device = stop_worker(daemon)
        job = client.send("derivative", f=wave(64), axis="x")

        def is_stalled():
            now = other.call("info")["devices"][0]
            return now["state"] == "stalled" or now["generation"] > device["generation"]  # which does not last
        eventually(is_stalled, "stalled")
        error, _ = client.outcome(job)
        assert error.code == "DEVICE_LOST" and error.retryable
        daemon.await_worker(device["generation"])
        assert client.refused("get", field=field).code == "FIELD_LOST"
        assert_serves(client)
        assert_serves(other)
        assert daemon.generation() == device["generation"] + 1


def test_a_worker_that_goes_on_in_time_loses_nothing(daemon):
    with Client(daemon.path) as client, Client(daemon.path) as other:
        field = client.put(wave(64))
        device = stop_worker(daemon)
        job = client.send("derivative", f={"field": field}, axis="x")
        eventually(lambda: other.call("info")["devices"][0]["state"] == "stalled", "stalled")
        os.kill(device["pid"], signal.SIGCONT)
        numpy.testing.assert_allclose(client.recv(job)["out"], derivative(wave(64)), atol=1e-5)
        eventually(lambda: other.call("info")["devices"][0]["state"] == "ready", "ready again")
        assert client.get(field).tobytes() == wave(64).tobytes()
        assert daemon.generation() == device["generation"]


def test_a_front_that_was_stopped_holds_nothing_against_its_worker(daemon):
    with Client(daemon.path) as client:
        field = client.put(wave(64))
        device = daemon.device()
        with stopped(daemon.pid):
            time.sleep(7)  # longer than a worker may be silent
        for _ in range(3):  # and some beats after it
            time.sleep(0.5)
            assert_serves(client)
        assert client.get(field).tobytes() == wave(64).tobytes()
        assert daemon.generation() == device["generation"]


def is_stopped(device):
    return process_status(device["pid"], "State") == "T"


def given_up(client, how, method, **params):
    """The error of a job that ends early while its worker is stopped."""
    job = client.send(method, **params, **({"timeout": 100_000} if how == "timeout" else {}))
    if how == "cancel":
        assert client.call("cancel", msgid=job) == {"state": "cancelled"}
    return client.error(job).code


@pytest.mark.parametrize("how, code", [("timeout", "TIMEOUT"), ("cancel", "CANCELLED")])
def test_a_job_is_given_up_at_its_time_though_its_worker_hangs(daemon, how, code):
    """It is answered; its output field is unlocked when the worker has released it."""
    with Client(daemon.path) as client, Client(daemon.path) as other:
        before = client.call("stats")["user"]
        read, written = client.put(wave(64, 64)), client.put(wave(64, 64))
        device = stop_worker(daemon)
        for method, params in (("laplacian", {"f": wave(64, 64)}), ("get", {"field": read}),
                               ("laplacian", {"f": {"field": read}, "out": {"field": written}}),
                               ("chain", {"ops": [{"op": "laplacian", "f": {"field": read}, "out": "g"},
                                                  {"op": "laplacian", "f": "g"}]})):
            assert given_up(client, how, method, **params) == code
        waits = client.send("get", field=written)
        eventually(lambda: other.call("stats")["queue"]["waiting"] == 1, "one that waits for the field")
        assert is_stopped(device)
        os.kill(device["pid"], signal.SIGCONT)
        error, result = client.outcome(waits)
        assert error.code == "FIELD_LOST" if error else result["out"].shape == (64, 64)
        client.free(read, written)
        eventually(lambda: jobs_under_way(other.call("stats")) == 0, "all have been let go")
        assert daemon.generation() == device["generation"]
        after = client.call("stats")["user"]
        key = {"timeout": "timed_out", "cancel": "cancelled"}[how]
        assert after[key] - before[key] == 4
        assert after["failed"] - before["failed"] == bool(error)
        assert after["latency_us"]["count"] - before["latency_us"]["count"] == 7
    eventually(lambda: settled(daemon)[1] == 0, "no bytes")


def test_a_job_is_given_up_while_it_runs_though_its_worker_hangs_for_good(daemon):
    with Client(daemon.path) as client:
        job = running_job(client, wave(64, 64))
        device = stop_worker(daemon)
        client.cancel(job)
        assert is_stopped(device)
        daemon.await_worker(device["generation"])
        assert_serves(client)
        eventually(lambda: jobs_under_way(daemon.stats()) == 0, "no job")
        assert client.call("stats")["user"]["cancelled"] == 1
        assert client.call("stats")["user"]["failed"] == 0


def test_a_region_that_a_job_given_up_may_write_is_held(daemon):
    f = wave(64, 64)
    with Client(daemon.path) as client, Client(daemon.path) as other:
        region = Region(f.nbytes).registered(client)
        device = stop_worker(daemon)
        assert given_up(client, "timeout", "laplacian", f=f, out=region.place()) == "TIMEOUT"
        waits = client.send("laplacian", f=f, out=region.place())
        leaves = client.send("unregister", region=region.id)
        eventually(lambda: other.call("stats")["queue"]["waiting"] == 1, "one that waits for the region")
        assert is_stopped(device)
        os.kill(device["pid"], signal.SIGCONT)
        client.recv(waits)
        numpy.testing.assert_allclose(region.array("<f4", (64, 64)), laplacian(f), atol=1e-4)
        assert client.recv(leaves) == {}


def test_workers_that_die_at_once_are_not_started_at_once(daemon):
    for _ in range(4):
        daemon.kill_worker()

    def said():
        return re.findall(r"next worker in (\d+) ms", daemon.log())
    eventually(lambda: len(said()) == 4, "four waits in the log")
    waits = [int(ms) for ms in said()]
    assert waits == sorted(waits)
    assert waits[-1] == 8 * waits[0]


def test_a_hang_up_cancels_a_long_job(daemon):
    before = settled(daemon)
    client = daemon.client()
    running_job(client, wave(512, 512))
    queued = client.send("diffusion", f=wave(512, 512), **ENDLESS)
    assert queued not in client.replies
    client.close()
    eventually(lambda: settled(daemon) == before, "no job, no bytes")


def test_a_field_left_half_written_says_so(daemon):
    """In place and stopped half-way: the field has neither the old values nor the new ones."""
    f = wave(256, 256)
    with Client(daemon.path) as client:
        field = client.put(f)
        writer = daemon.client()
        running_job(writer, {"field": field}, out={"field": field})
        waiting = client.send("get", field=field)
        writer.close()
        for job in (waiting, client.send("get", field=field), client.send("laplacian", f={"field": field})):
            assert client.error(job).code == "FIELD_LOST"
        assert client.call("list")["fields"][0]["state"] == "lost"
        client.call("derivative", f=f, axis="x", out={"field": field})  # written whole, it is a field again
        numpy.testing.assert_allclose(client.get(field), derivative(f), atol=1e-4)
        client.free(field)


def torn_field(daemon, client, f):
    """A resident field whose writer was stopped half-way."""
    field = client.put(f)
    writer = daemon.client()
    running_job(writer, {"field": field}, out={"field": field})
    writer.close()
    eventually(lambda: client.outcome(client.send("get", field=field))[0], "a field half written")
    return field


def test_many_jobs_that_wait_for_a_field_left_half_written():
    """Each failure starts the next job: the largest number of them, nested on one stack."""
    count = 10000
    with Daemon("--max-jobs", 2 * count) as daemon, Client(daemon.path) as client:
        field = client.put(wave(64, 64))
        writer = daemon.client()
        running_job(writer, {"field": field}, out={"field": field})
        client.send_bytes(b"".join(request_bytes(i, "get", {"field": field}) for i in range(count)))
        eventually(lambda: jobs_under_way(daemon.stats()) == count + 1, "all are accepted")
        writer.close()
        for _ in range(count):
            assert client.recv_any()[1].code == "FIELD_LOST"


def test_a_hang_up_seen_while_one_job_lets_another_go(daemon):
    """The first error that cannot be sent closes the connection of the job that has just ended."""
    f = wave(256, 256)
    with Client(daemon.path) as client:
        torn, whole = torn_field(daemon, client, f), client.put(f)
        before = settled(daemon)
        for method, params in (("divergence", {"f": {"x": {"field": whole}, "y": {"field": torn}}}),
                               ("get", {"field": whole})):
            other = Client(daemon.path)
            device = stop_worker(daemon)
            other.send("diffusion", f={"field": whole}, out={"field": whole}, dt=0.1)
            for _ in range(3):
                other.send(method, **params)
            eventually(lambda: jobs_under_way(daemon.stats()) == 4, "all are accepted")
            with stopped(daemon.pid):
                os.kill(device["pid"], signal.SIGCONT)
                time.sleep(0.5)  # the job ends before its client hangs up, and the front sees both at once
                other.close()
            eventually(lambda: settled(daemon) == before, "no job, no bytes")
        client.free(torn, whole)


def test_a_hang_up_seen_while_a_field_is_found_half_written(daemon):
    """The same if the jobs that wait for the field fail in nested calls."""
    f = wave(256, 256)
    with Client(daemon.path) as client:
        field = client.put(f)
        before = settled(daemon)
        writer, other = Client(daemon.path), Client(daemon.path)
        running_job(writer, {"field": field}, out={"field": field})
        device = stop_worker(daemon)
        for _ in range(3):
            other.send("get", field=field)
        eventually(lambda: jobs_under_way(daemon.stats()) == 4, "all are accepted")
        writer.close()
        eventually(lambda: daemon.stats()["connections"] == 3, "its hang-up was seen")
        with stopped(daemon.pid):
            os.kill(device["pid"], signal.SIGCONT)
            time.sleep(0.5)
            other.close()
        eventually(lambda: settled(daemon) == before, "no job, no bytes")
        client.free(field)


def test_a_hang_up_lets_jobs_go_that_go_with_it(daemon):
    """A job that waits for one field holds another, for which more jobs of the same client wait."""
    f = wave(256, 256)
    with Client(daemon.path) as client:
        busy, held, torn = client.put(f), client.put(f), torn_field(daemon, client, f)
        before = settled(daemon)
        writer = Client(daemon.path)
        running_job(writer, {"field": busy}, out={"field": busy})
        for place in (held, torn):
            other = Client(daemon.path)
            other.send("laplacian", f={"field": busy}, out={"field": place})
            for _ in range(3):
                other.send("get", field=place)
            other.send("gradient", f={"field": place})
            eventually(lambda: jobs_under_way(daemon.stats()) == 6, "all are accepted")
            other.close()
            eventually(lambda: jobs_under_way(daemon.stats()) == 1, "only the writer is left")
        writer.close()
        eventually(lambda: settled(daemon) == before, "no job, no bytes")
        assert daemon.stats()["staging"]["reply_bytes"] == 0
        client.free(busy, held, torn)


def test_a_hang_up_leaves_the_users_other_jobs_alone(daemon):
    f = wave(256, 256, dtype="<f8")
    with Client(daemon.path) as other:
        client = daemon.client()
        running_job(client, wave(512, 512))
        job = other.send("diffusion", f=f, steps=500, dt=0.05)
        client.close()
        numpy.testing.assert_allclose(other.recv(job)["out"], diffusion(f, 500, 0.05), atol=1e-9)


def test_progress(daemon):
    with Client(daemon.path) as client:
        for steps in (1000, 10**4, 10**5, 10**6, 10**7):  # until it takes long enough to be reported
            job = client.send("diffusion", f=wave(128, 128), steps=steps, cfl=0.5, accuracy=2, progress=True)
            assert client.recv(job)["out"].shape == (128, 128)
            notes = [note for name, note in client.notifications if name == "progress"]
            if notes:
                break
        done = [note["done"] for note in notes]
        assert done and done == sorted(done)
        assert all(note["msgid"] == job and 0 < note["done"] <= note["total"] == steps for note in notes)
        client.notifications.clear()
        client.call("diffusion", f=wave(128, 128), steps=steps, cfl=0.5, accuracy=2)
        assert client.notifications == [], "only where the request asked for it"


def test_a_busy_device_does_not_hold_up_the_front(daemon):
    """Requests that need no device are answered while a job runs on it."""
    client = daemon.client()
    running_job(client, wave(256, 256))
    with Client(daemon.path) as other:
        other.call("ping")
        assert jobs_under_way(other.call("stats")) == 1


def test_a_device_that_is_not_there_is_refused_at_the_start():
    daemon = Daemon(device="cuda:99", wait=False)
    assert daemon.wait() == 1
    assert "cuda:99" in daemon.log()


def test_auto_finds_something(daemon):
    with Daemon(device="auto") as auto, Client(auto.path) as client:
        assert client.call("info")["devices"][0]["kind"] in ("host", "cuda")
        assert_serves(client)


def test_a_cancelled_put_leaves_nothing(daemon):
    before = settled(daemon)
    client = daemon.client()
    for _ in range(5):
        client.send("put", f=wave(512, 512))
    client.close()

    def is_clean():
        with Client(daemon.path) as other:  # a put that was complete is acknowledged work: it is listed
            other.free(*(entry["field"] for entry in other.call("list")["fields"]))
        return settled(daemon) == before
    eventually(is_clean, "as before")

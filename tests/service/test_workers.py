"""A worker may die at any time; long jobs report, and end when nobody waits for them."""

import os
import signal

import numpy
import pytest

from fdtest import (Client, Daemon, FdError, assert_serves, derivative, diffusion, eventually,
                    jobs_under_way, sanitized, settled, upload_begin, wave)

FOREVER = {"steps": 10**9, "cfl": 0.5, "accuracy": 2}  # hours, unless it is ended


@pytest.fixture
def daemon():
    """A daemon for each test: workers are killed here."""
    with Daemon() as running:
        yield running


def running_job(daemon, client, f):
    """Start a job without end, and wait until the worker runs it."""
    job = client.send("diffusion", f=f, progress=True, **FOREVER)
    while not client.notifications:
        message = client.receive_message()
        assert message[:2] == [2, "progress"]
        client.notifications.append((message[1], message[2][0]))
    return job


def kill_worker(daemon):
    """Kill the first device's worker; the generation it had."""
    device = daemon.info()["devices"][0]
    os.kill(device["pid"], signal.SIGKILL)
    return device["generation"]


def recovered(daemon, generation):
    device = daemon.info()["devices"][0]
    return device["state"] == "ready" and device["generation"] > generation


def test_a_killed_worker(daemon):
    front_descriptors = settled(daemon)[3][0]
    with Client(daemon.path) as client, Client(daemon.path) as bystander:
        field = bystander.put(wave(64, 64))
        job = running_job(daemon, client, wave(256, 256))
        queued = client.send("derivative", f=wave(64), axis="x")
        generation = kill_worker(daemon)

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
            generation = kill_worker(daemon)
            eventually(lambda: recovered(daemon, generation), "the next worker")
            assert_serves(client)


@pytest.mark.parametrize("method", ["put", "laplacian"])
def test_a_worker_killed_in_the_middle_of_an_upload(daemon, method):
    shape = (24, 512, 512)
    with Client(daemon.path) as client:
        client.send_bytes(upload_begin(3, method, shape) + bytes(12 << 20))
        generation = kill_worker(daemon)
        eventually(lambda: recovered(daemon, generation), "the next worker")
        client.send_bytes(bytes(12 << 20))
        error, _ = client.outcome(3)
        assert error.code in ("DEVICE_LOST", "FIELD_LOST")
        assert_serves(client)
        assert daemon.info()["devices"][0]["generation"] == generation + 1
    assert settled(daemon)[0] == 0


def test_a_worker_killed_with_a_small_reply_outstanding(daemon):
    """A result of up to 8 MiB is staged whole before its header goes out: no connection is dropped."""
    client = daemon.client()
    jobs = [client.send("derivative", f=wave(64, 64, 64), axis="x") for _ in range(12)]
    generation = kill_worker(daemon)
    for job in jobs:
        error, result = client.outcome(job)
        if error:
            assert error.code == "DEVICE_LOST" and error.retryable
        else:
            numpy.testing.assert_allclose(result["out"], derivative(wave(64, 64, 64)), atol=1e-5)
    eventually(lambda: recovered(daemon, generation), "the next worker")
    assert_serves(client)
    # Jobs that had not begun are lost with the rest, and do not trouble the next worker.
    assert daemon.info()["devices"][0]["generation"] == generation + 1


@pytest.mark.skipif(bool(sanitized()), reason="takes a minute; nothing of it depends on the build")
def test_a_worker_that_hangs_is_replaced(daemon):
    """Stopped, it answers no ping; what it held is lost as if it had ended."""
    with Client(daemon.path) as client:
        device = client.call("info")["devices"][0]
        os.kill(device["pid"], signal.SIGSTOP)
        error, _ = client.outcome(client.send("derivative", f=wave(64), axis="x"))
        assert error is None or error.code == "DEVICE_LOST"
        eventually(lambda: recovered(daemon, device["generation"]), "the next worker")
        assert_serves(client)


def test_a_hang_up_cancels_a_long_job(daemon):
    before = settled(daemon)
    client = daemon.client()
    running_job(daemon, client, wave(512, 512))
    queued = client.send("diffusion", f=wave(512, 512), **FOREVER)
    assert queued not in client.replies
    client.close()
    eventually(lambda: settled(daemon) == before, "no job, no bytes")


def test_a_hang_up_leaves_the_users_other_jobs_alone(daemon):
    f = wave(256, 256, dtype="<f8")
    with Client(daemon.path) as other:
        client = daemon.client()
        running_job(daemon, client, wave(512, 512))
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
    """What needs no device is answered while a job runs on it."""
    client = daemon.client()
    running_job(daemon, client, wave(256, 256))
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
    with Client(daemon.path) as other:
        eventually(lambda: jobs_under_way(other.call("stats")) == 0, "idle")
        # A put that was complete is acknowledged work: it may stay, and is listed then.
        other.free(*(entry["field"] for entry in other.call("list")["fields"]))
    eventually(lambda: settled(daemon) == before, "as before")


def test_errors_are_typed(daemon):
    with Client(daemon.path) as client, pytest.raises(FdError) as refused:
        client.call("nothing")
    assert refused.value.code == "UNKNOWN_METHOD"

"""A hanging thread of a host worker whose process answers every ping; and a thread that is only slow."""

import contextlib
import os
import subprocess
import sys
import time

import numpy
import pytest

from faults import GO_ON, HANG, SPIN, Faults, needs_preload
from fdtest import Client, Daemon, assert_serves, eventually, jobs_under_way, sanitized, wave


@needs_preload
@pytest.mark.parametrize("how", [HANG, SPIN], ids=["asleep", "in a loop"])
def test_a_thread_that_hangs_at_a_piece(how):
    """It is detected although the other thread continues with other jobs, and its worker is replaced."""
    faults = Faults("fdworker")
    with Daemon("--threads", 2, env=faults.env) as daemon:
        client, other = daemon.client(), daemon.client()
        field = other.put(wave(64))
        assert_serves(client)
        generation = daemon.generation()
        faults[how] = 1
        begun = time.monotonic()
        job = client.send("derivative", f=wave(64), axis="x")
        eventually(lambda: faults[how] == 0, "a thread that hangs")

        def is_lost():  # and until then it serves others, so it is not for silence that it is given up
            error, result = other.outcome(other.send("derivative", f={"field": field}, axis="x"))
            return error and error.code in ("DEVICE_LOST", "FIELD_LOST")
        eventually(is_lost, "the worker is given up")
        print(f"replaced after {time.monotonic() - begun:.1f} s")
        error, _ = client.outcome(job)
        assert error.code == "DEVICE_LOST" and error.retryable
        eventually(lambda: "ends nothing" in daemon.log(), "the reason in the log")
        assert_serves(client)
        assert daemon.generation() == generation + 1


def computed_s(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rsplit(")", 1)[1].split()[11]) / os.sysconf("SC_CLK_TCK")


@needs_preload
def test_a_piece_that_was_waited_for_and_ended():
    """A thread may take 13 s for this row: that time does not count against the worker after the row is done."""
    faults = Faults("fdworker")
    with Daemon("--threads", 1, env=faults.env) as daemon, Client(daemon.path) as client:
        field = client.put(numpy.zeros(1 << 26, "f4"))
        before = daemon.device()

        def done_but_for_its_end():
            begun_s = computed_s(before["pid"])
            job = client.send("derivative", f={"field": field}, out="field", axis="x")
            eventually(lambda: computed_s(before["pid"]) > begun_s, "the row is under way")
            faults[HANG] = 1
            eventually(lambda: faults[HANG] == 0 or jobs_under_way(client.call("stats")) == 0, "the row's end")
            if faults[HANG] == 0:
                return job
            faults[HANG] = 0  # on a busy machine it was over before this test was there
            client.free(client.recv(job)["out"]["field"])
        job = eventually(done_but_for_its_end, "a row that is done but for its end")
        time.sleep(7)  # longer than a thread may hang at a shorter one
        faults[GO_ON] = 1
        assert client.outcome(job)[0] is None
        end = time.monotonic() + 1.5
        eventually(lambda: client.call("ping") == {} and time.monotonic() > end, "three beats of the front's")
        assert daemon.device()["pid"] == before["pid"]
        assert_serves(client)


@contextlib.contextmanager
def starved(pid, core, hogs):
    """All threads of a worker except the first get almost no time on the core that they share with others."""
    for thread in map(int, os.listdir(f"/proc/{pid}/task")):
        if thread != pid:
            os.sched_setaffinity(thread, {core})
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"],
                             preexec_fn=lambda: os.sched_setaffinity(0, {core})) for _ in range(hogs)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_a_thread_that_a_busy_machine_does_not_run_is_waited_for():
    """A pass over one row is one part: normally some hundredths of a second, here far longer than a permitted hang."""
    with Daemon("--threads", 1) as daemon, Client(daemon.path) as client:
        field = client.put(wave(1 << 24))
        before = daemon.device()
        job = client.send("diffusion", f={"field": field}, out={"field": field}, steps=10**6, cfl=0.5, accuracy=2,
                          progress=True)
        eventually(lambda: client.call("ping") == {} and client.notifications, "progress")
        with starved(before["pid"], min(os.sched_getaffinity(0)), 8):
            time.sleep(9)  # longer than a thread may hang
            assert client.call("stats")["queue"]["running"] == 1
        client.cancel(job)
        after = daemon.device()
        assert (after["pid"], after["generation"]) == (before["pid"], before["generation"])
        assert_serves(client)


@pytest.mark.parametrize("behind", [None, {"op": "diffusion", "steps": 10**5, "cfl": 0.5, "accuracy": 2}],
                         ids=["at once", "behind steps"])
def test_weights_that_take_long_to_make_are_no_hang(behind):
    """Sixteen operators of one chain, each along coordinates of its own: their weights take half a second each, which the
    worker makes one after another. It is not taken for one that hangs: nobody's fields are lost."""
    points = 16384 if sanitized() else 32768  # a tenth of the time in which it would be, on a core of its own
    f = wave(points - 1)
    with Daemon("--threads", 1) as daemon, Client(daemon.path) as client:
        field = client.put(wave(10))
        before = daemon.device()
        ops = [{"op": "derivative", "order": 4, "spacing": {"x": numpy.arange(points) + shift / 64}}
               for shift in range(16)]
        if behind:
            ops[0] = behind
        ops[0]["f"] = f
        for number, op in enumerate(ops[:-1]):
            op["out"], ops[number + 1]["f"] = f"result{number}", f"result{number}"
        assert client.out("chain", ops=ops).shape == f.shape
        after = daemon.device()
        assert (after["pid"], after["generation"]) == (before["pid"], before["generation"])
        numpy.testing.assert_array_equal(client.get(field), wave(10))

"""Each allocation of the front, or of a worker, fails in turn: one request is answered with a retryable
error, and no other client is affected. FDSERVER_TEST_EVERY_ALLOCATION=1 tries all of them, else one in
STRIDE."""

import contextlib
import os
import time

import numpy
import pytest

from faults import FAILED, MEMFDS_FAILED, NO_MEMFDS, Faults, needs_preload
from fdtest import (Client, Daemon, FdError, Region, derivative, eventually, jobs_under_way, laplacian,
                    request_bytes, wave)

STRIDE = 1 if os.environ.get("FDSERVER_TEST_EVERY_ALLOCATION") else 5

pytestmark = needs_preload

F = wave(40, 50)
LINE = wave(2000)
COORDINATES = numpy.linspace(0, 1, 2001) ** 2  # 16,008 bytes of numbers
WEIGHTS = [0.25, 0.5, 0.25]


def connected(path):
    """A connection; without memory for it, or for its first message, the server closes it."""
    for _ in range(2):
        client = Client(path)
        with contextlib.suppress(EOFError, ConnectionError):
            error, _ = client.outcome(client.send("ping"))
            if not error:
                return client
            assert error.code == "OUT_OF_MEMORY"
        client.close()
    pytest.fail("connections are closed although one allocation alone failed")


class Story:
    """Requests, each of which succeeds or fails with a retryable error. The user has one more field, `other`."""

    def __init__(self, client, other):
        self.client = client
        self.other = other
        self.fields = []
        self.refused = self.ended = False

    def attempt(self, call):
        """Its result, or None: the server had no memory."""
        try:
            return call()
        except FdError as error:
            assert error.code == "OUT_OF_MEMORY" and error.retryable, str(error)
            self.refused = True
            return None

    def tried(self, method, **params):
        return self.attempt(lambda: self.client.call(method, **params))

    def out(self, expected, method, **params):
        result = self.tried(method, **params)
        if result:
            numpy.testing.assert_allclose(result["out"], expected, atol=2e-3, rtol=1e-3)

    def held(self, result):
        if result:
            self.fields.append(result["field"])
            return result["field"]
        return None

    def run(self):
        info = self.tried("info")
        assert info is None or info["devices"][0]["state"] == "ready"
        stats = self.tried("stats")
        assert stats is None or stats["user"]["uid"] == os.geteuid()
        self.out(derivative(F), "derivative", f=F, axis="x")
        self.out(laplacian(F), "laplacian", f=F, report=True)
        self.tried("derivative", f=LINE, axis="x", spacing={"x": COORDINATES})
        self.tried("stencil", f=LINE, offsets=[[-1], [0], [1]], weights=WEIGHTS)
        self.tried("diffusion", f=F, steps=4, cfl=0.5, every=2)
        self.tried("diffusion", f=F, steps=2, cfl=0.5, probes=[[i % 40, i % 50] for i in range(700)])
        self.snapshots()
        self.several_at_once()
        field = self.held(self.tried("put", f=F))
        if field:
            self.tried("export", field=field)
            self.out(F, "get", field=field)
            self.tried("laplacian", f={"field": field}, out={"field": field})
            made = self.tried("derivative", f={"field": field}, axis="y", out="field")
            if made:
                self.fields.append(made["out"]["field"])
            made = self.tried("chain", ops=[{"op": "gradient", "f": {"field": field}, "out": "g"},
                                            {"op": "divergence", "f": "g", "out": "d"}], out={"d": "field"})
            if made:
                self.fields.append(made["out"]["d"]["field"])
        region = Region(F.nbytes)
        if self.attempt(lambda: region.register(self.client)):
            region.array("<f4", F.shape)[:] = F
            self.out(derivative(F), "derivative", f=region.place(like=F), axis="x")
            field = self.held(self.tried("put", f=region.place(like=F)))
            if field and self.tried("get", field=field, out=region.place()):
                numpy.testing.assert_array_equal(region.array("<f4", F.shape), F)
            self.tried("unregister", region=region.id)
        self.check_list()
        self.free_all()
        self.ended = True

    def snapshots(self):
        """In the client's own fields, as far as it has received their ids."""
        self.client.notifications.clear()
        self.tried("diffusion", f=F, steps=4, cfl=0.5, every=2, snapshot="field")
        self.fields += [told["out"]["field"] for name, told in self.client.notifications if name == "snapshot"]

    def several_at_once(self):
        """More in one packet than one turn reads."""
        msgids = range(1000, 1060)
        self.client.send_bytes(b"".join(request_bytes(i, "derivative", {"f": F[:4], "axis": "x"}) for i in msgids))
        for msgid in msgids:
            error, result = self.client.outcome(msgid)
            if error:
                assert error.code == "OUT_OF_MEMORY", str(error)
                self.refused = True
            else:
                numpy.testing.assert_allclose(result["out"], derivative(F[:4]), atol=2e-3)

    def check_list(self):
        """Only the answered results exist."""
        listed = self.tried("list")
        if listed:
            assert sorted(field["field"] for field in listed["fields"] if field["field"] != self.other) == \
                sorted(self.fields)

    def free_all(self):
        """A lost answer to free cannot be distinguished from a free that was not executed."""
        for field in self.fields:
            try:
                self.tried("free", field=field)
                self.client.call("free", field=field)
            except FdError as error:
                assert error.code == "NOT_FOUND", str(error)


@pytest.mark.parametrize("program", ["fdserver", "fdworker"])
def test_each_allocation_in_turn(program):
    faults = Faults(program)
    with Daemon(env=faults.env) as daemon:
        other = daemon.client()
        kept = other.put(F)
        Story(daemon.client(), kept).run()
        generation = daemon.generation()
        number, failed = 1, 1
        while failed:
            faults.fail_allocation(number)
            client = connected(daemon.path)
            story = Story(client, kept)
            with contextlib.suppress(EOFError, ConnectionError):
                story.run()
            failed = faults[FAILED]
            faults.fail_allocation(0)
            if not story.ended:
                # Of a message that there is no memory for the end is not known: its connection is closed.
                assert story.refused or 0 in story.client.replies
                story.client = daemon.client()
                story.free_all()
            client.close()
            assert daemon.process.poll() is None
            numpy.testing.assert_array_equal(other.get(kept), F)
            assert daemon.generation() == generation, f"worker ended at {number}"
            number += STRIDE

        def is_clean():
            stats = other.call("stats")
            return not jobs_under_way(stats) and stats["user"]["regions"] == 0 and stats["user"]["fields"] == 1
        eventually(is_clean, "nothing left of the stories")


def test_no_memory_for_a_long_block():
    """The job waits until there is memory, and the server sleeps meanwhile: it tries again twice a second.

    That the worker says nothing, which has not been asked anything, is no reason to end it."""
    faults = Faults("fdserver")
    x = numpy.linspace(0, 1, 8001) ** 2  # 64,008 bytes of numbers, in a memfd of their own
    f = wave(8000)
    with Daemon(env=faults.env) as daemon:
        client = daemon.client()
        expected = client.call("derivative", f=f, axis="x", spacing={"x": x})["out"]
        faults[NO_MEMFDS] = 1
        msgid = client.send("derivative", f=f, axis="x", spacing={"x": x})
        eventually(lambda: faults[MEMFDS_FAILED], "a block that no memfd could be made for")
        first = faults[MEMFDS_FAILED]
        # For longer than a silent worker is waited for. A server that does not sleep tries a million times.
        time.sleep(7)
        assert faults[MEMFDS_FAILED] - first < 1000
        faults[NO_MEMFDS] = 0
        numpy.testing.assert_array_equal(client.recv(msgid)["out"], expected)
        assert daemon.generation() == 1

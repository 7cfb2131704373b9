"""Fields whose memory their owner's process maps, too: written and read there without a copy.

On a GPU (FDSERVER_TEST_DEVICE=cuda:0) by CuPy, torch and JAX, as far as they are installed."""

import array
import contextlib
import ctypes
import fcntl
import gc
import io
import mmap
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

import fdclient
import numpy
import pytest

from fdtest import (BUILD, ENDLESS, ONE_DEVICE, Client, Daemon, FdError, MiB, assert_serves, checked_connection,
                    derivative, descriptors, eventually, needs_root, request_bytes, sanitized, settled, wave)

OPTIONS = ("--max-regions", "20")
DEVICE = ONE_DEVICE
ON_HOST = ONE_DEVICE.startswith("host")
GRAIN = 4096 if ON_HOST else 2 * MiB

on_host = pytest.mark.skipif(not ON_HOST, reason="a GPU's memory is mapped by CUDA")
on_gpu = pytest.mark.skipif(ON_HOST, reason="needs a GPU: FDSERVER_TEST_DEVICE=cuda:0")


class Exporter(Client):
    """A connection that takes the descriptors that come; `passed` are those that nobody has asked for yet."""

    def __init__(self, path):
        super().__init__(path)
        self.passed = []

    def receive(self):
        data, beside, flags, _ = self.socket.recvmsg(MiB, socket.CMSG_SPACE(4 * 8), socket.MSG_CMSG_CLOEXEC)
        assert not flags & socket.MSG_CTRUNC
        for _, _, content in beside:
            self.passed += array.array("i", content)
        return data

    def exported(self, msgid):
        """The answer of an export, with its descriptor."""
        answer = self.recv(msgid)
        return answer, self.passed.pop(0)

    def export(self, field, **params):
        return self.exported(self.send("export", field=field, **params))

    def view(self, field):
        """The memory of a field, as an array."""
        return view(*self.export(field))

    def close(self):
        while self.passed:
            os.close(self.passed.pop())
        super().close()


def view(answer, descriptor):
    if not ON_HOST:
        return OnGpu(answer, descriptor)
    memory = mmap.mmap(descriptor, answer["bytes"])
    os.close(descriptor)
    return numpy.ndarray(answer["shape"], answer["type"], memory, answer["offset"])


class OnGpu:
    """A GPU's memory, mapped by libcuda alone, as tests use an array."""

    def __init__(self, answer, descriptor):
        self.export = fdclient.Export(None, answer, io.FileIO(descriptor, "r+"))
        self.context = ctypes.c_void_p()
        fdclient._cuda("cuDevicePrimaryCtxRetain", ctypes.byref(self.context),
                       ctypes.c_int(self.export._memory.device))

    def _copy(self, call, *places):
        f = next(place for place in places if isinstance(place, numpy.ndarray))
        with fdclient._CudaMemory._current(self.context):
            fdclient._cuda(call, *(f.ctypes.data_as(ctypes.c_void_p) if place is f else ctypes.c_uint64(place)
                                   for place in places), ctypes.c_size_t(f.nbytes))
            fdclient._cuda("cuCtxSynchronize")

    def __array__(self, dtype=None, copy=None):
        f = numpy.empty(self.export.shape, self.export.dtype)
        self._copy("cuMemcpyDtoH_v2", f, self.export._address)
        return f if dtype is None else f.astype(dtype)

    def __getitem__(self, at):
        return numpy.asarray(self)[at]

    def __setitem__(self, at, value):
        f = numpy.array(self)
        f[at] = value
        self._copy("cuMemcpyHtoD_v2", self.export._address, f)

    def tobytes(self):
        return numpy.asarray(self).tobytes()


@pytest.fixture
def client(daemon):
    with checked_connection(daemon, Exporter) as connection:
        yield connection


def held(client):
    """(bytes on devices, exported fields, jobs' bytes) of the user."""
    user = client.call("stats")["user"]
    return user["bytes"], user["exports"], user["queue_bytes"]


def rounded(size):
    return (size + GRAIN - 1) // GRAIN * GRAIN


# --- what the owner sees

@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
def test_the_owner_sees_the_bits_and_the_next_job_what_the_owner_wrote(no_fields_left, client, dtype):
    f = wave(20, 30, 40, dtype=dtype)
    field = client.put(f)
    answer, descriptor = client.export(field)
    kind = {"kind": "memory"} if ON_HOST else {"kind": "cuda", "uuid": answer["uuid"]}
    assert answer == {"field": field, "type": dtype, "shape": [20, 30, 40], "device": DEVICE,
                      "bytes": rounded(f.nbytes), "offset": 0} | kind
    seen = view(answer, descriptor)
    assert seen.tobytes() == f.tobytes()
    seen[...] = f[::-1]
    numpy.testing.assert_array_equal(client.get(field), f[::-1])
    numpy.testing.assert_allclose(client.out("derivative", f={"field": field}, axis="x"), derivative(f[::-1]),
                                  atol=1e-4)


OUT_OF_PLACE = [("derivative", {"axis": "y"}), ("laplacian", {}), ("diffusion", {"steps": 2, "dt": 0.1}),
                ("diffusion", {"steps": 3, "dt": 0.1}), ("diffusion", {"steps": 3, "dt": 0.1, "scheme": "rk4"}),
                ("diffusion", {"steps": 3, "dt": 0.1, "scheme": "adi"}),
                ("stencil", {"offsets": [[0, 0, 1], [0, 1, 0]], "weights": [1, 2], "steps": 5})]


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("method,params", OUT_OF_PLACE)
def test_every_result_comes_to_lie_there(no_fields_left, client, method, params, in_place):
    f = wave(20, 30, 40)
    field, other = client.put(f), client.put(f[::-1])
    seen = client.view(field)
    source = field if in_place else other
    expected = client.out(method, f={"field": source}, **params)
    client.call(method, f={"field": source}, out={"field": field}, **params)
    numpy.testing.assert_array_equal(seen, expected)
    inline = client.out(method, f=f, **params)
    client.call(method, f=f, out={"field": field}, **params)
    numpy.testing.assert_array_equal(seen, inline)


def test_vectors_chains_and_snapshots_come_to_lie_there(no_fields_left, client):
    f = wave(20, 30, 40)
    fields = {axis: client.put(f) for axis in "xyz"}
    seen = {axis: client.view(field) for axis, field in fields.items()}
    out = {axis: {"field": field} for axis, field in fields.items()}
    client.call("gradient", f={"field": fields["x"]}, out=out)
    expected = client.out("gradient", f=f)
    for axis in "xyz":
        numpy.testing.assert_array_equal(seen[axis], expected[axis])
    curl = client.out("curl", f=out)
    client.call("curl", f=out, out=out)
    for axis in "xyz":
        numpy.testing.assert_array_equal(seen[axis], curl[axis])
    u = fields["x"]
    seen["x"][...] = f
    client.call("chain", ops=[{"op": "diffusion", "f": {"field": u}, "out": {"field": u}, "steps": 1, "dt": 0.1},
                              {"op": "laplacian", "f": {"field": u}, "out": "l"},
                              {"op": "diffusion", "f": "l", "out": {"field": u}, "steps": 3, "dt": 0.1}], repeat=3)
    expected = f
    for _ in range(3):
        expected = client.out("diffusion", f=expected, steps=1, dt=0.1)
        expected = client.out("diffusion", f=client.out("laplacian", f=expected), steps=3, dt=0.1)
    numpy.testing.assert_array_equal(seen["x"], expected)
    seen["x"][...] = f
    client.call("diffusion", f={"field": u}, out={"field": u}, steps=7, dt=0.1, every=2, report=True)
    numpy.testing.assert_array_equal(seen["x"], client.out("diffusion", f=f, steps=7, dt=0.1))


def test_an_export_keeps_the_order_of_the_fields_jobs(no_fields_left, client):
    f = wave(100, 100)
    field = client.put(f)
    client.send("diffusion", f={"field": field}, out={"field": field}, steps=501, dt=0.1)
    export = client.send("export", field=field)
    before = client.send("get", field=field)
    client.send("laplacian", f={"field": field}, out={"field": field})
    after = client.send("get", field=field)
    again = client.send("export", field=field)
    diffused = client.out("diffusion", f=f, steps=501, dt=0.1)
    first, second = view(*client.exported(export)), client.recv(before)["out"]
    numpy.testing.assert_array_equal(second, diffused)
    numpy.testing.assert_array_equal(client.recv(after)["out"], client.out("laplacian", f=diffused))
    numpy.testing.assert_array_equal(first, view(*client.exported(again)))


def test_an_export_that_was_sent_before_its_field_was_freed(no_fields_left, client):
    f = wave(100, 100)
    field = client.put(f)
    client.send("diffusion", f={"field": field}, out={"field": field}, steps=501, dt=0.1)
    exports = [client.send("export", field=field) for _ in range(2)]
    client.free(field)
    for export in exports:
        answer, descriptor = client.exported(export)
        assert answer["field"] == field
        numpy.testing.assert_array_equal(view(answer, descriptor), client.out("diffusion", f=f, steps=501, dt=0.1))


def test_exported_again_it_is_the_same_memory(no_fields_left, daemon, client):
    f = wave(3000)
    field = client.put(f)
    with Exporter(daemon.path) as other:
        both = [client.send("export", field=field) for _ in range(3)]
        views = [view(*client.exported(export)) for export in both] + [other.view(field)]
        for i, one in enumerate(views):
            one[i] = 100 + i
        for one in views:
            numpy.testing.assert_array_equal(one[:5], [100, 101, 102, 103, f[4]])
        assert held(client) == (rounded(f.nbytes), 1, 0)
    views[0][0] = 7
    assert client.get(field)[0] == 7


def test_a_large_field_is_exported_beside_other_jobs(no_fields_left, daemon, client):
    large = numpy.arange((4 if sanitized() else 30) * MiB, dtype="f4")  # a sanitized copy takes many times as long
    field = client.put(large)
    export = client.send("export", field=field)
    daemon.assert_serves()
    numpy.testing.assert_array_equal(view(*client.exported(export)), large)


# --- what it costs

def test_its_memory_is_charged_until_it_is_freed_and_the_connection_closed(unchanged, daemon, client):
    f = wave(1000)
    field, other = client.put(f), client.put(f)
    assert held(client) == (2 * f.nbytes, 0, 0)
    with Exporter(daemon.path) as taker:
        taker.export(field)
        taker.export(other)
        listed = {entry["field"]: entry for entry in client.call("list")["fields"]}
        assert (listed[field]["bytes"], listed[field]["exported"]) == (GRAIN, True)
        assert held(client) == (2 * GRAIN, 2, 0)
        client.free(field)
        assert client.refused("export", field=field).what == ("NOT_FOUND", "field")
        assert held(client) == (2 * GRAIN, 2, 0)
    eventually(lambda: held(client) == (GRAIN, 1, 0), "the freed one is given back")
    numpy.testing.assert_array_equal(client.get(other), f)
    client.free(other)
    assert held(client) == (0, 0, 0)


@on_host
def test_memory_that_was_given_back_is_empty(unchanged, daemon, client):
    with Exporter(daemon.path) as taker:
        field = client.put(numpy.ones(5000, "f4"))
        seen = taker.view(field)
        client.free(field)
        numpy.testing.assert_array_equal(seen, 1)
    eventually(lambda: not seen.any(), "no page left")
    seen[...] = 3  # its own now
    with Exporter(daemon.path) as taker:
        field = taker.put(numpy.ones(5000, "f4"))
        numpy.testing.assert_array_equal(taker.view(field), 1)
        taker.free(field)
    numpy.testing.assert_array_equal(seen, 3)


@on_host
def test_memory_that_is_mapped_many_times_is_in_nobodys_way(unchanged, daemon, client):
    def is_served_meanwhile():
        """The last page is gone long after the answer, unless the machine is busy with something else."""
        with Exporter(daemon.path) as taker:
            answer, descriptor = taker.export(taker.put(numpy.ones(32 * MiB, "f4")))
            maps = [mmap.mmap(descriptor, answer["bytes"], flags=mmap.MAP_SHARED | mmap.MAP_POPULATE) for _ in range(200)]
            os.close(descriptor)
            taker.free(answer["field"])
        begun = time.monotonic()
        assert_serves(client)
        served = time.monotonic() - begun
        eventually(lambda: not maps[0][answer["bytes"] - 1], "no page left")
        return served < (time.monotonic() - begun) / 3
    assert any(is_served_meanwhile() for _ in range(5)), "the worker waits for what takes an owner's time"


def test_as_many_as_regions(no_fields_left, daemon, client):
    fields = [client.put(wave(10)) for _ in range(21)]
    for field in fields[:20]:
        client.export(field)
    before = held(client)
    error = client.refused("export", field=fields[20])
    assert (error.code, error.retryable, error.need, error.limit) == ("OVER_BUDGET", True, 21, 20)
    assert held(client) == before
    client.export(fields[3])  # takes none
    numpy.testing.assert_array_equal(client.get(fields[20]), wave(10))


def test_without_room_nothing_is_left():
    f = wave(MiB)
    with Daemon("--user-bytes", 7 * MiB) as daemon, Exporter(daemon.path) as client:
        field = client.put(f)
        error = client.refused("export", field=field)
        assert (error.code, error.limit) == ("OVER_BUDGET", 7 * MiB)
        assert held(client) == (4 * MiB, 0, 0)
        numpy.testing.assert_array_equal(client.get(field), f)
    with Daemon("--user-bytes", 8 * MiB) as daemon, Exporter(daemon.path) as client:
        field = client.put(f)
        client.export(field)
        assert held(client) == (4 * MiB, 1, 0)


def test_a_job_that_writes_the_field_may_take_longer_than_the_export(no_fields_left, client):
    field = client.put(wave(64, 64))
    job = client.send("diffusion", f={"field": field}, out={"field": field}, **ENDLESS)
    assert client.refused("export", field=field, timeout=1000).code == "TIMEOUT"
    export = client.send("export", field=field)
    client.cancel(export)
    assert held(client)[1] == 0
    export = client.send("export", field=field)
    client.cancel(job)
    error = client.error(export)
    assert error.what == ("FIELD_LOST", None)  # left half-written
    assert held(client) == (4 * 64 * 64, 0, 0)
    client.call("laplacian", f=wave(64, 64), out={"field": field})
    client.export(field)


def test_an_export_waits_for_jobs_that_read_the_field(no_fields_left, daemon, client):
    f = wave(64, 64)
    field, generation = client.put(f), daemon.generation()
    job = client.send("diffusion", f={"field": field}, **ENDLESS)
    assert client.refused("export", field=field, timeout=20_000).code == "TIMEOUT"
    export = client.send("export", field=field)
    client.cancel(job)
    numpy.testing.assert_array_equal(view(*client.exported(export)), f)
    assert daemon.generation() == generation


def test_a_client_that_goes_while_its_export_waits(unchanged, daemon):
    with Exporter(daemon.path) as client, Client(daemon.path) as other:
        field = other.put(wave(64, 64))
        job = other.send("diffusion", f={"field": field}, out={"field": field}, **ENDLESS)
        for _ in range(10):
            client.send("export", field=field)
        eventually(lambda: held(other)[1] == 10, "room for each")
        client.close()
        eventually(lambda: held(other)[1] == 0, "none")
        other.cancel(job)
        other.free(field)


def test_a_client_that_goes_lets_its_own_export_go_on(unchanged, daemon):
    """What it has not read keeps its export waiting, and ends first."""
    with Exporter(daemon.path) as other:
        field = other.put(numpy.ones(8 * MiB, "f4"))
        other.export(field)
        with Client(daemon.path) as client:
            for _ in range(3):
                client.send("get", field=field)
                client.send("export", field=field)
            eventually(lambda: held(other)[1] == 1 and other.call("stats")["user"]["jobs"] == 6, "all are accepted")
            time.sleep(0.2)  # until no copy of the field is under way
        eventually(lambda: other.call("stats")["user"]["jobs"] == 0, "none is left")
        numpy.testing.assert_array_equal(other.view(field)[:9], 1)
        other.free(field)


def test_unread_answers_hold_no_descriptor_of_their_own(unchanged, daemon):
    with Client(daemon.path) as client, Client(daemon.path) as other:
        fields = [other.put(wave(10)) for _ in range(5)]
        before = descriptors(daemon.pid)
        for _ in range(300):  # of which nothing is read
            for field in fields:
                with contextlib.suppress(FdError):
                    client.send("export", field=field)
        eventually(lambda: held(other)[1] == 5 and other.call("stats")["user"]["jobs"] == 0, "all are answered")
        eventually(lambda: descriptors(daemon.pid) <= before + 5, "the five fields' alone, once others are closed")
        other.free(*fields)
        assert held(other)[1] == 5


def test_descriptors_do_not_add_up(unchanged, daemon):
    for _ in range(60):
        with Exporter(daemon.path) as client:
            field = client.put(wave(10))
            client.export(field)
            client.free(field)
    with Exporter(daemon.path) as client:
        field = client.put(wave(10))
        before = settled(daemon)[3]
        for _ in range(60):
            _, descriptor = client.export(field)
            os.close(descriptor)
        eventually(lambda: descriptors(daemon.pid) <= before[0] + 1, "one more in the front")
        eventually(lambda: settled(daemon)[3][1] <= before[1], "none more in the worker")
        client.free(field)


# --- whose it is, and what goes wrong

def test_what_is_no_field_to_export(no_fields_left, client):
    assert client.refused("export").what == ("INVALID_ARGUMENT", "field")
    assert client.refused("export", field=5).what == ("NOT_FOUND", "field")
    assert client.refused("export", field=5, placement=DEVICE).what == ("INVALID_ARGUMENT", "placement")
    field = client.put(wave(10))
    message = request_bytes(99, "export", {"field": field})
    socket.send_fds(client.socket, [message], [0])
    assert client.error(99).code == "PROTOCOL"
    assert "export" in client.call("info")["methods"]
    assert held(client)[1] == 0


@needs_root
def test_another_users_field_is_not_found(no_fields_left):
    with Daemon("--mode", "0666") as daemon, Exporter(daemon.path) as client:
        field = client.put(wave(10))
        client.export(field)

        def try_it(stranger):
            return [stranger.refused("export", field=id).what for id in (field, field ^ 1)]
        assert daemon.as_user(65534, try_it) == [("NOT_FOUND", "field")] * 2
        assert daemon.as_user(65534, lambda stranger: stranger.call("stats")["user"]["exports"]) == 0


def test_a_killed_worker_leaves_the_mapping(daemon, unchanged):
    with Exporter(daemon.path) as client:
        f = wave(5000)
        field = client.put(f)
        seen = client.view(field)
        daemon.kill_worker()
        numpy.testing.assert_array_equal(seen, f)
        seen[...] = 1
        assert client.refused("export", field=field).what == ("FIELD_LOST", "field")
        assert held(client) == (0, 0, 0)
        client.free(field)
        field = client.put(f)
        numpy.testing.assert_array_equal(client.view(field), f)
        client.free(field)


def test_a_worker_that_dies_with_exports_waiting(unchanged, daemon):
    with Exporter(daemon.path) as client:
        field = client.put(wave(64, 64))
        client.send("diffusion", f={"field": field}, out={"field": field}, **ENDLESS)
        exports = [client.send("export", field=field) for _ in range(3)]
        eventually(lambda: held(client)[1] == 3, "room for each")
        daemon.kill_worker()
        assert [client.error(export).code for export in exports] == ["DEVICE_LOST"] * 3
        assert held(client) == (0, 0, 0)
        client.free(field)


@on_host
def test_an_owner_who_writes_while_jobs_run_harms_only_the_own_field(no_fields_left, daemon, client):
    f = wave(200, 200)
    field, other = client.put(f), client.put(f)
    answer, descriptor = client.export(field)
    seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    assert seals & fcntl.F_SEAL_SHRINK and seals & fcntl.F_SEAL_GROW and seals & fcntl.F_SEAL_SEAL
    for change in (lambda: os.ftruncate(descriptor, 0), lambda: os.ftruncate(descriptor, 2 * answer["bytes"]),
                   lambda: fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)):
        with pytest.raises(PermissionError):
            change()
    seen = view(answer, os.dup(descriptor))
    stop = threading.Event()

    def disturb():
        libc, holes = ctypes.CDLL(None), 3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
        while not stop.is_set():
            seen[...] = numpy.nan
            libc.fallocate(descriptor, holes, ctypes.c_long(0), ctypes.c_long(answer["bytes"]))
    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(20):
            client.call("diffusion", f={"field": field}, out={"field": field}, steps=11, dt=0.1)
            client.call("derivative", f={"field": field}, axis="x")
            assert_serves(client)
    finally:
        stop.set()
        thread.join()
        os.close(descriptor)
    numpy.testing.assert_array_equal(client.get(other), f)
    client.call("laplacian", f=f, out={"field": field})
    numpy.testing.assert_array_equal(seen, client.out("laplacian", f=f))


def test_a_server_with_few_descriptors(unchanged):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (120, min(120, hard)))
    with Daemon("--max-regions", 1000, preexec_fn=limit) as daemon, Exporter(daemon.path) as client:
        taken, fields = 0, [client.put(wave(10)) for _ in range(70)]
        with pytest.raises(FdError) as error:
            for field in fields:
                _, descriptor = client.export(field)
                os.close(descriptor)
                taken += 1
        assert error.value.what == ("OVER_BUDGET", None) and 30 <= taken <= 60
        assert daemon.generation() == 1
        assert_serves(client)
        client.free(*fields)


@needs_root
def test_unread_descriptors_are_in_nobodys_way():
    """The kernel lets a process's user have no more of them in sockets than the process may have open."""
    def limit():
        for capability in (21, 24):  # CAP_SYS_ADMIN, CAP_SYS_RESOURCE: for them there is no limit
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))

    def look(stranger):  # in a child process, where CUDA, which its parent uses, maps nothing
        field = stranger.put(wave(20))
        os.close(Exporter(daemon.path).export(field)[1])
        return stranger.get(field)

    with Daemon("--mode", "0666", preexec_fn=limit) as daemon, Exporter(daemon.path) as keeper:
        field = keeper.put(wave(10))
        keeper.export(field)
        flooders = [daemon.client() for _ in range(70)]
        for i, flooder in enumerate(flooders):
            for _ in range(60 if i % 10 == 0 else 4):
                flooder.send("export", field=field)
            if i % 10:
                flooder.send_bytes(b"\xc1")  # the server closes, and what it has sent is unread
        numpy.testing.assert_array_equal(daemon.as_user(65534, look), wave(20))
        late = flooders[10]  # who reads late gets all of it
        for flooder in flooders:
            if flooder is not late:
                flooder.close()
        assert all(late.receive_message()[2] is None for _ in range(60))
        eventually(lambda: keeper.call("stats")["user"]["connections"] == 2, "the others are gone")
        assert daemon.generation() == 1
        numpy.testing.assert_array_equal(keeper.get(field), wave(10))


def test_a_server_that_stops_with_exported_fields():
    daemon = Daemon()
    with Exporter(daemon.path) as client:
        kept, freed = client.put(wave(10)), client.put(wave(20))
        client.export(kept)
        client.export(freed)
        client.free(freed)
        daemon.process.send_signal(signal.SIGTERM)
        assert client.closed_by_server() == []
    daemon.stop()


# --- the clients

@on_host
def test_in_python(unchanged, daemon):
    with fdclient.Client(daemon.path) as client:
        f = wave(50, 60)
        u = client.put(f)
        before = u.export().numpy()
        numpy.testing.assert_array_equal(before, f)
        client.run("diffusion", u, out=u, steps=1, dt=0.1)
        other = numpy.from_dlpack(u.export())
        assert numpy.shares_memory(other, other) and not hasattr(u.export(), "__cuda_array_interface__")
        numpy.testing.assert_array_equal(before, u.get())
        numpy.testing.assert_array_equal(other, before)
        with pytest.raises(fdclient.Error, match="NOT_FOUND"):
            fdclient.Field(client, 5, (1,), "f4").export()
        with client.put(f + 1) as v:
            answer, descriptor = client.call("export", field=v.id)
            assert answer["field"] == v.id and os.fstat(descriptor.fileno()).st_size == answer["bytes"]
            numpy.testing.assert_array_equal(u.export().numpy(), before)
        job = client.submit("diffusion", u, out=u, steps=10**9, cfl=0.5)
        with pytest.raises(fdclient.Error, match="TIMEOUT"):
            u.export(timeout=0.01)
        job.cancel()
        gc.collect()
        del before, other


def test_an_export_in_python_without_a_descriptor_left(daemon, unchanged):
    script = f"""
import os, resource, sys
sys.path.insert(0, {str(pathlib.Path(fdclient.__file__).parent)!r})
import fdclient, numpy
client = fdclient.Client({daemon.path!r})
u = client.put(numpy.ones(10, "f4"))
last = os.dup(0)
os.close(last)
resource.setrlimit(resource.RLIMIT_NOFILE, (last, last))
try:
    u.export()
except fdclient.Error as error:
    print(error.code)
resource.setrlimit(resource.RLIMIT_NOFILE, (last, last))
print(u.get().max())
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.stdout.split() == ["OUT_OF_MEMORY", "1.0"], result.stderr


# --- on a GPU

@pytest.fixture
def python(daemon):
    with fdclient.Client(daemon.path) as client:
        yield client


def a_field(client):
    f = wave(64, 96, 128)
    return f, client.put(f)


@on_gpu
@pytest.mark.parametrize("how", ["interface", "dlpack"])
def test_cupy(unchanged, python, how):
    cupy = pytest.importorskip("cupy")
    f, u = a_field(python)
    view = cupy.asarray(u.export()) if how == "interface" else cupy.from_dlpack(u.export())
    numpy.testing.assert_array_equal(view.get(), f)
    view *= 2
    cupy.cuda.Device().synchronize()
    numpy.testing.assert_array_equal(u.get(), 2 * f)
    for steps in (1, 2, 3):
        python.run("diffusion", u, out=u, steps=steps, dt=0.1)
        numpy.testing.assert_array_equal(view.get(), u.get())
    again = cupy.asarray(u.export())
    again[0, 0, 0] = 77
    cupy.cuda.Device().synchronize()
    assert view[0, 0, 0] == 77
    del view, again


@on_gpu
@pytest.mark.parametrize("how", ["interface", "dlpack"])
def test_torch(unchanged, python, how):
    torch = pytest.importorskip("torch")
    f, u = a_field(python)
    view = torch.as_tensor(u.export(), device="cuda") if how == "interface" else torch.from_dlpack(u.export())
    numpy.testing.assert_array_equal(view.cpu().numpy(), f)
    view.mul_(3)
    torch.cuda.synchronize()
    numpy.testing.assert_array_equal(u.get(), 3 * f)
    python.run("laplacian", u, out=u)
    numpy.testing.assert_array_equal(view.cpu().numpy(), u.get())
    pointer = view.data_ptr()
    del view
    gc.collect()
    assert not fdclient._lent
    # What is mapped from here on finds room where that was, and nothing is left of it.
    assert torch.from_dlpack(u.export()).data_ptr() % GRAIN == 0 == pointer % GRAIN


@on_gpu
def test_jax(unchanged, python):
    jax = pytest.importorskip("jax")
    f, u = a_field(python)
    view = jax.dlpack.from_dlpack(u.export())
    numpy.testing.assert_array_equal(numpy.asarray(view), f)
    numpy.testing.assert_array_equal(numpy.asarray(jax.numpy.flip(view)), numpy.flip(f))
    del view


@on_gpu
def test_a_gpus_memory_comes_back(daemon):
    """Of a field's that was mapped by two processes nothing is left once both are done with it."""
    def free_bytes():
        free, all_of_it = ctypes.c_size_t(), ctypes.c_size_t()
        with fdclient._CudaMemory._current(keeper.context):
            fdclient._cuda("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(all_of_it))
        return free.value
    with Exporter(daemon.path) as client:
        keeper = client.view(client.put(wave(10)))
        taken = []
        for _ in range(8):
            with fdclient.Client(daemon.path) as python:
                memory = python.put(numpy.ones(32 * MiB, "f4")).export()
                capsule = memory.__dlpack__()
                assert len(fdclient._lent) == 1
                del capsule
                assert not fdclient._lent
                del memory
            gc.collect()
            client.call("ping")
            eventually(lambda: held(client)[1] == 1, "the other's is gone")
            taken.append(free_bytes())
        assert min(taken[2:]) >= taken[1] - 64 * MiB, taken


class OfTheHost:
    """The same, of a GPU whose memory is the host's, as NumPy takes it."""

    def __init__(self, export):
        self.export = export

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_):
        capsule = self.export.__dlpack__()
        [(tensor, _, _)] = fdclient._lent.values()
        assert (tensor.device_type, tensor.device_id) == self.export.__dlpack_device__() == (2, 0)
        tensor.device_type = 1
        return capsule


@pytest.mark.skipif(BUILD.name != "emulated", reason="of the emulated GPU alone")
def test_what_is_lent_by_dlpack(unchanged, python):
    f, u = a_field(python)
    export = u.export()
    lent = numpy.from_dlpack(OfTheHost(export))
    numpy.testing.assert_array_equal(lent, f)
    assert lent.ctypes.data == export.__cuda_array_interface__["data"][0]
    with pytest.raises(fdclient.Error, match="UNSUPPORTED"):
        export.numpy()
    for refused in ({"copy": True}, {"dl_device": (1, 0)}):
        with pytest.raises(BufferError):
            export.__dlpack__(**refused)
    del export
    python.run("laplacian", u, out=u)
    numpy.testing.assert_array_equal(lent, u.get())
    assert len(fdclient._lent) == 1
    del lent
    gc.collect()
    assert not fdclient._lent


@on_gpu
def test_a_killed_worker_leaves_a_gpus_mapping(daemon, python):
    cupy = pytest.importorskip("cupy")
    f, u = a_field(python)
    view = cupy.asarray(u.export())
    daemon.kill_worker()
    numpy.testing.assert_array_equal(view.get(), f)
    with pytest.raises(fdclient.Error, match="FIELD_LOST"):
        u.export()

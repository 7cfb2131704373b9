"""libfdclient's shared memory, through ctypes, as a program in any language loads the library."""

import ctypes
import json
import mmap
import os
import signal

import numpy
import pytest

from fdtest import BUILD, ONE_DEVICE, Daemon, MiB, descriptors, eventually, on_socket, sanitized, wave

if sanitized():
    pytest.skip("Python does not load a sanitizer's library", allow_module_level=True)

OPTIONS = ("--region-bytes", "512M")

class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_char * 24), ("parameter", ctypes.c_char * 48),
                ("message", ctypes.c_char * 256), ("retryable", ctypes.c_bool), ("has_limit", ctypes.c_bool),
                ("need", ctypes.c_double), ("limit", ctypes.c_double)]


class Array(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("dimensions", ctypes.c_uint32), ("shape", ctypes.c_uint64 * 8),
                ("data", ctypes.c_void_p), ("field", ctypes.c_uint64)]


class Params(ctypes.Structure):
    _fields_ = [("axis", ctypes.c_char_p), ("order", ctypes.c_int), ("stagger", ctypes.c_char_p),
                ("accuracy", ctypes.c_int), ("spacing", ctypes.c_char_p), ("boundary", ctypes.c_char_p),
                ("endpoint", ctypes.c_char_p), ("batch", ctypes.c_uint32), ("coefficient", ctypes.c_char_p),
                ("offsets", ctypes.c_char_p), ("weights", ctypes.c_char_p), ("steps", ctypes.c_uint64),
                ("dt", ctypes.c_double), ("cfl", ctypes.c_double), ("diffusivity", ctypes.c_char_p),
                ("source", ctypes.c_char_p), ("scheme", ctypes.c_char_p), ("probes", ctypes.c_char_p),
                ("allow_unstable", ctypes.c_bool),
                ("progress", ctypes.c_bool), ("every", ctypes.c_uint64), ("snapshot", ctypes.c_char_p),
                ("ops", ctypes.c_char_p), ("repeat", ctypes.c_uint64),
                ("report", ctypes.c_bool), ("dry_run", ctypes.c_bool), ("priority", ctypes.c_int),
                ("placement", ctypes.c_char_p), ("distribute", ctypes.c_bool), ("timeout_us", ctypes.c_uint64), ("detach", ctypes.c_bool), ("out_is_field", ctypes.c_bool),
                ("out_field", ctypes.c_uint64 * 3), ("after", ctypes.c_uint64), ("limit", ctypes.c_uint64)]


class Result(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("capacity", ctypes.c_size_t), ("allocated", ctypes.c_bool),
                ("dtype", ctypes.c_int), ("dimensions", ctypes.c_uint32), ("shape", ctypes.c_uint64 * 8),
                ("bytes", ctypes.c_uint64), ("field", ctypes.c_uint64),
                ("probes", ctypes.c_void_p), ("json", ctypes.c_void_p)]


class Snapshot(ctypes.Structure):
    _fields_ = [("ticket", ctypes.c_uint64), ("step", ctypes.c_uint64), ("time", ctypes.c_double),
                ("array", Array)]


def load():
    path, = BUILD.glob("client/libfdclient.so")
    library = ctypes.CDLL(str(path))
    for name in ("open", "alloc"):
        getattr(library, "fdclient_" + name).restype = ctypes.c_void_p
    for name in ("run", "run_vector", "submit", "wait", "put", "get", "free", "export"):
        getattr(library, "fdclient_" + name).restype = ctypes.c_bool
    return library


class Failed(Exception):
    def __init__(self, error):
        super().__init__(f"{error.code.decode()}: {error.message.decode()}")
        self.code, self.parameter = error.code.decode(), error.parameter.decode()
        self.need, self.limit = error.need, error.limit


class Client:
    def __init__(self, daemon, transport=None):
        self.library = load()
        self.error = Error()
        os.environ.pop("FDCLIENT_TRANSPORT", None)
        if transport:
            os.environ["FDCLIENT_TRANSPORT"] = transport
        self.client = ctypes.c_void_p(self.library.fdclient_open(f"unix:{daemon.path}".encode(),
                                                                 ctypes.byref(self.error)))
        if not self.client:
            raise Failed(self.error)

    def close(self):
        self.library.fdclient_close(self.client)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def check(self, good):
        if not good:
            raise Failed(self.error)

    def alloc(self, shape, dtype="<f4", offset=0):
        size = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize + offset
        address = self.library.fdclient_alloc(self.client, ctypes.c_size_t(size))
        memory = (ctypes.c_uint8 * size).from_address(address)
        return numpy.frombuffer(memory, dtype, offset=offset).reshape(shape)

    def dealloc(self, array):
        self.library.fdclient_dealloc(self.client, ctypes.c_void_p(array.ctypes.data))

    def run(self, method, *inputs, outs, **params):
        """Run an operator on arrays or ids of fields, into the arrays `outs`."""
        f = (Array * len(inputs))(*(array(i) for i in inputs))
        results = (Result * len(outs))(*(Result(data=o.ctypes.data, capacity=o.nbytes) for o in outs))
        self.check(self.library.fdclient_run_vector(
            self.client, method.encode(), f, len(inputs), ctypes.byref(parameters(**params)), results,
            len(outs), ctypes.byref(self.error)))
        return [r.bytes for r in results]

    def get(self, field, out, capacity=None):
        result = Result(data=out.ctypes.data, capacity=out.nbytes if capacity is None else capacity)
        self.check(self.library.fdclient_get(self.client, ctypes.c_uint64(field), ctypes.byref(result),
                                             ctypes.byref(self.error)))
        return result.bytes

    def put(self, f):
        field = ctypes.c_uint64()
        self.check(self.library.fdclient_put(self.client, ctypes.byref(array(f)), ctypes.byref(field),
                                             ctypes.byref(self.error)))
        return field.value

    def free(self, field):
        self.check(self.library.fdclient_free(self.client, ctypes.c_uint64(field), ctypes.byref(self.error)))


def array(f):
    if isinstance(f, int):
        return Array(field=f)
    return Array(dtype=f.dtype == "<f8", dimensions=f.ndim, shape=(ctypes.c_uint64 * 8)(*f.shape),
                 data=f.ctypes.data)


def parameters(**params):
    """Zeroed, as a program without FDCLIENT_PARAMS has them."""
    return Params(**{k: v.encode() if isinstance(v, str) else v for k, v in params.items()})


SHAPE = (64, 64, 80)


@pytest.fixture(scope="module")
def expected(daemon):
    """The same operators over the socket alone."""
    f = [wave(*SHAPE, seed=i) for i in range(3)]
    with Client(daemon, "socket") as client:
        def over_socket(method, *inputs, outs=1, **params):
            results = [numpy.empty_like(f[0]) for _ in range(outs)]
            client.run(method, *inputs, outs=results, **params)
            return results
        before = on_socket(daemon)
        answers = {"derivative": over_socket("derivative", f[0], axis="y"),
                   "gradient": over_socket("gradient", f[0], outs=3), "curl": over_socket("curl", *f, outs=3),
                   "diffusion": over_socket("diffusion", f[0], steps=5, cfl=0.5)}
        assert on_socket(daemon) == (before[0] + 6 * f[0].nbytes, before[1] + 8 * f[0].nbytes)
    return f, answers


CASES = [("derivative", 1, {"axis": "y"}), ("gradient", 1, {}), ("curl", 3, {}),
         ("diffusion", 1, {"steps": 5, "cfl": 0.5})]


@pytest.mark.parametrize("method,inputs,params", CASES)
def test_allocated_arrays_never_pass_the_socket(unchanged, daemon, expected, method, inputs, params):
    f, answers = expected
    with Client(daemon) as client:
        arrays = [client.alloc(SHAPE) for _ in range(inputs)]
        outs = [client.alloc(SHAPE) for _ in answers[method]]
        for to, what in zip(arrays, f):
            to[:] = what
        before = on_socket(daemon)
        client.run(method, *arrays, outs=outs, **params)
        assert on_socket(daemon) == before
        for out, answer in zip(outs, answers[method]):
            assert (out == answer).all()
        for memory in arrays + outs:
            client.dealloc(memory)
        eventually(lambda: daemon.stats()["user"]["regions"] == 0, "none registered")


@pytest.mark.parametrize("transport", [None, "region"])
@pytest.mark.parametrize("method,inputs,params", CASES)
def test_ordinary_arrays_go_through_a_pool(unchanged, daemon, expected, method, inputs, params, transport):
    f, answers = expected
    with Client(daemon, transport) as client:
        outs = [numpy.empty_like(f[0]) for _ in answers[method]]

        def run():
            for out in outs:
                out[:] = 0
            before = on_socket(daemon)
            client.run(method, *f[:inputs], outs=outs, **params)
            for out, answer in zip(outs, answers[method]):
                assert (out == answer).all()
            return on_socket(daemon) == before
        if transport:
            assert run() and run()
        else:
            eventually(run, "a job that nothing of passes the socket")
            assert run()
        regions = daemon.stats()["user"]["regions"]
        for _ in range(5):
            assert run()
        assert daemon.stats()["user"]["regions"] == regions, "the pool is used again"


def test_put_and_get(unchanged, daemon, expected):
    f, _ = expected
    with Client(daemon) as client:
        here, there = client.alloc(SHAPE), client.alloc(SHAPE)
        here[:] = f[0]
        before = on_socket(daemon)
        field = client.put(here)
        assert client.get(field, there) == f[0].nbytes
        client.run("laplacian", field, outs=[here])
        assert on_socket(daemon) == before
        assert (there == f[0]).all()
        # A field that does not fit is an error, and nothing behind the place is written.
        there[:] = 7
        with pytest.raises(Failed) as failure:
            client.get(field, there[:32])
        assert failure.value.code == "TOO_LARGE" and (there[32:] == 7).all()
        small = client.alloc((32, *SHAPE[1:]))
        with pytest.raises(Failed) as failure:
            client.get(field, small)
        assert (failure.value.code, failure.value.parameter) == ("TOO_LARGE", "result")
        client.free(field)


def test_results_over_their_inputs(unchanged, daemon, expected):
    """The server refuses them in a region, so the library sends them through the socket."""
    f, answers = expected
    with Client(daemon) as client:
        memory = client.alloc((2, *SHAPE))
        for _ in range(3):
            memory[0] = f[0]
            client.run("derivative", memory[0], outs=[memory[0]], axis="y")
            assert (memory[0] == answers["derivative"][0]).all()
        memory[0] = f[0]
        client.run("derivative", memory[0], outs=[memory[1]], axis="y")
        assert (memory[1] == answers["derivative"][0]).all() and (memory[0] == f[0]).all()
        odd = client.alloc(SHAPE, offset=4)  # not where the server takes an array
        odd[:] = f[0]
        client.run("derivative", odd, outs=[odd], axis="y")
        assert (odd == answers["derivative"][0]).all()


def test_a_server_that_refuses_regions(expected):
    f, answers = expected
    with Daemon("--region-bytes", "1") as daemon:
        with Client(daemon) as client:
            memory, out = client.alloc(SHAPE), numpy.empty_like(f[0])
            memory[:] = f[0]
            for given in (memory, f[0]):
                for _ in range(3):
                    client.run("derivative", given, outs=[out], axis="y")
                    assert (out == answers["derivative"][0]).all()
            client.dealloc(memory)
        with Client(daemon, "region") as client:
            with pytest.raises(Failed, match="^OVER_BUDGET: "):
                client.run("derivative", f[0], outs=[out], axis="y")
        with pytest.raises(Failed, match="pigeon"):
            Client(daemon, "pigeon")


def test_many_jobs_at_once_and_of_many_sizes(unchanged, daemon):
    """The pool stays below its bound, and frees idle memory for other sizes."""
    with Client(daemon, "region") as client:
        for size in (1, 2, 3, 5, 8, 13, 21, 34, 55):
            f = wave(size, MiB // 4)
            out = numpy.empty_like(f)
            client.run("derivative", f, outs=[out], axis="x")
            assert daemon.stats()["user"]["region_bytes"] <= 512 * MiB
    with Client(daemon) as client:
        jobs = []
        for i in range(24):
            f = wave(64, 64, 64, seed=i)
            out = numpy.empty_like(f)
            result, ticket = Result(data=out.ctypes.data, capacity=out.nbytes), ctypes.c_uint64()
            client.check(client.library.fdclient_submit(
                client.client, b"laplacian", ctypes.byref(array(f)), None, ctypes.byref(result),
                ctypes.byref(ticket), ctypes.byref(client.error)))
            jobs.append((f, out, result, ticket))
        for f, out, result, ticket in jobs:
            client.check(client.library.fdclient_wait(client.client, ticket, ctypes.byref(client.error)))
            check = numpy.empty_like(f)
            client.run("laplacian", f, outs=[check])
            assert (out == check).all()


def test_a_worker_that_ends(unchanged, daemon, expected):
    f, answers = expected
    with Client(daemon) as client:
        memory, out = client.alloc(SHAPE), client.alloc(SHAPE)
        memory[:] = f[0]
        os.kill(daemon.worker_pids()[0], signal.SIGKILL)

        def run():
            try:
                client.run("derivative", memory, outs=[out], axis="y")
                return True
            except Failed as failure:
                assert failure.code == "DEVICE_LOST"
        before = on_socket(daemon)
        eventually(run, "an answer from the next worker")
        assert (out == answers["derivative"][0]).all() and on_socket(daemon) == before


def test_nothing_is_left_in_the_client(daemon):
    def run():
        with Client(daemon, "region") as client:
            f = client.alloc(SHAPE)
            client.run("laplacian", numpy.ones(SHAPE, "<f4"), outs=[f])
            client.alloc(SHAPE)
    run()
    before = descriptors(os.getpid())
    for _ in range(5):
        run()
    assert descriptors(os.getpid()) == before


@pytest.mark.parametrize("side", [8, 90])  # in the message itself, and beside it
@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
def test_snapshots(unchanged, daemon, side, dtype):
    f, out = wave(side, side, dtype=dtype), numpy.empty((side, side), dtype)
    taken = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Snapshot))
    def call(_, snapshot):
        a = snapshot.contents.array
        shape = tuple(a.shape[:a.dimensions])
        if a.data:
            data = ctypes.string_at(a.data, int(numpy.prod(shape)) * f.itemsize)
            taken.append((snapshot.contents.step, snapshot.contents.time, shape, data))
        else:
            taken.append((snapshot.contents.step, snapshot.contents.time, shape, a.field))

    with Client(daemon) as client:
        client.library.fdclient_on_snapshot(client.client, call, None)
        client.run("diffusion", f, outs=[out], steps=7, every=3, dt=0.125, accuracy=2)
        after = [numpy.empty_like(f) for _ in range(3)]
        for array, steps in zip(after, (3, 6, 7)):
            client.run("diffusion", f, outs=[array], steps=steps, dt=0.125, accuracy=2)
        assert taken == [(3, 3 * 0.125, f.shape, after[0].tobytes()), (6, 6 * 0.125, f.shape, after[1].tobytes())]
        assert numpy.array_equal(out, after[2])
        taken.clear()
        client.run("diffusion", f, outs=[out], steps=7, every=3, dt=0.125, accuracy=2, snapshot="field")
        assert [step for step, _, _, _ in taken] == [3, 6]
        for (_, _, shape, field), array in zip(taken, after):
            assert shape == f.shape
            client.get(field, out)
            assert numpy.array_equal(out, array)
            client.free(field)
    with Client(daemon) as client:  # nobody wants them
        client.run("diffusion", f, outs=[out], steps=7, every=3, dt=0.125, accuracy=2)
        assert numpy.array_equal(out, after[2])


def test_a_capacity_may_be_any_number(unchanged, daemon):
    f, out = wave(64, 64), numpy.empty((64, 64), "<f4")
    with Client(daemon) as client:
        field = client.put(f)
        for capacity in (2**64 - 1, 2**63 + 1, 2**40, out.nbytes) * 2:
            out.fill(7)
            assert client.get(field, out, capacity) == f.nbytes
            assert numpy.array_equal(out, f)
        client.free(field)


def test_a_report(unchanged, daemon):
    f, out = wave(64, 64), numpy.empty((64, 64), "<f4")
    with Client(daemon) as client:
        result = Result(data=out.ctypes.data, capacity=out.nbytes)
        client.check(client.library.fdclient_run(client.client, b"laplacian", ctypes.byref(array(f)),
                                                 ctypes.byref(parameters(report=True, accuracy=2)),
                                                 ctypes.byref(result), ctypes.byref(client.error)))
        report = json.loads(ctypes.string_at(result.json))
        ctypes.CDLL(None).free(ctypes.c_void_p(result.json))
    assert (report["min"], report["max"], report["nan"]) == (out.min(), out.max(), 0)
    assert report["error"]["max"] > 0


class Export(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_char * 8), ("device", ctypes.c_char * 24), ("uuid", ctypes.c_char * 37),
                ("descriptor", ctypes.c_int), ("bytes", ctypes.c_uint64), ("offset", ctypes.c_uint64),
                ("dtype", ctypes.c_int), ("dimensions", ctypes.c_uint32), ("shape", ctypes.c_uint64 * 8)]


@pytest.mark.skipif(not ONE_DEVICE.startswith("host"), reason="a GPU's memory is mapped by CUDA")
def test_an_exported_field(unchanged, daemon):
    f = wave(200, 300, dtype="<f8")
    with Client(daemon, "socket") as client:
        field, exported, before = client.put(f), Export(descriptor=77), descriptors(os.getpid())

        def export(number):
            client.check(client.library.fdclient_export(client.client, ctypes.c_uint64(number), ctypes.byref(exported),
                                                        ctypes.byref(client.error)))
        for number, code in ((5, "NOT_FOUND"), (field, None), (6, "NOT_FOUND")):
            if code:
                with pytest.raises(Failed, match=code):
                    export(number)
                assert exported.descriptor == -1
                continue
            export(number)
            assert (exported.kind, exported.device, exported.uuid) == (b"memory", ONE_DEVICE.encode(), b"")
            assert (exported.dtype, tuple(exported.shape[:exported.dimensions])) == (1, f.shape)
            memory = mmap.mmap(exported.descriptor, exported.bytes)
            os.close(exported.descriptor)
            seen = numpy.ndarray(f.shape, "<f8", memory, exported.offset)
            assert numpy.array_equal(seen, f)
        seen[0] = 3
        out = numpy.empty_like(f)
        client.get(field, out)
        assert numpy.array_equal(out, seen)
        client.free(field)
        del seen, memory
        assert descriptors(os.getpid()) == before

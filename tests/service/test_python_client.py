"""client/python/fdclient.py: NumPy arrays in memory that the server maps."""

import gc
import os
import resource
import signal

import fdclient
import numpy
import pytest

from fdtest import Daemon, MiB, PATIENCE_S, derivative, descriptors, eventually, in_threads, on_socket, wave

OPTIONS = ("--region-bytes", "256M")
SHAPE = (32, 48, 64)


def shared(f):
    memory = fdclient.empty(f.shape, f.dtype)
    memory[:] = f
    return memory


@pytest.fixture
def numpy_client(daemon):
    with fdclient.Client(f"unix:{daemon.path}") as client:
        yield client


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_every_operator_and_kind_of_array(unchanged, daemon, numpy_client, dtype):
    client = numpy_client
    f = wave(*SHAPE, dtype=dtype)
    vector = {axis: wave(*SHAPE, dtype=dtype, seed=i) for i, axis in enumerate("xyz")}
    here, there = shared(f), {axis: shared(component) for axis, component in vector.items()}
    before = on_socket(daemon)
    for method, inline, place, params in (
            ("derivative", f, here, {"axis": "x", "spacing": numpy.float64(0.1)}), ("gradient", f, here, {}),
            ("laplacian", f, here, {"boundary": "one-sided", "spacing": [1, 2, 3]}),
            ("diffusion", f, here, {"steps": 3, "cfl": 0.5}),
            ("divergence", vector, there, {}), ("curl", vector, there, {})):
        expected = client.run(method, inline, **params)
        is_vector = isinstance(expected, dict)
        empty = fdclient.empty(SHAPE, dtype)
        out = {axis: fdclient.empty(SHAPE, dtype) for axis in "xyz"} if is_vector else empty
        between = on_socket(daemon)
        given = client.run(method, place, out=out, **params)
        assert on_socket(daemon) == between > before
        for axis in "xyz" if is_vector else [None]:
            a, b, c = (v[axis] if axis else v for v in (expected, out, given))
            assert c is b and (a == b).all() and a.dtype == dtype
        # Over the socket into an array of one's own, and from memory that cannot be named.
        ordinary = {axis: numpy.empty(SHAPE, dtype) for axis in "xyz"} if is_vector else numpy.empty(SHAPE, dtype)
        assert client.run(method, place, out=ordinary, **params) is not None
        for axis in "xyz" if is_vector else [None]:
            assert ((ordinary[axis] if axis else ordinary) == (expected[axis] if axis else expected)).all()


def test_views_are_named_where_they_can_be(unchanged, daemon, numpy_client):
    client = numpy_client
    memory = shared(wave(4, *SHAPE))
    out = fdclient.empty((2, *SHAPE))
    before = on_socket(daemon)
    client.run("derivative", memory[2], axis="x", out=out[1])
    assert on_socket(daemon) == before and not out[0].any()
    assert (out[1] == client.run("derivative", numpy.array(memory[2]), axis="x")).all()
    strange = memory[1].transpose(2, 1, 0)
    assert (client.run("laplacian", strange) == client.run("laplacian", numpy.array(strange))).all()
    odd = fdclient.empty(100)[1:]  # at 4 bytes
    odd[:] = numpy.arange(99)
    assert client.run("derivative", odd, axis="x", out=odd) is odd


def test_large_results_without_a_place(unchanged, daemon, numpy_client):
    """After the first ones, results use the server's memory, and they belong to the caller."""
    client = numpy_client
    f, kept = shared(wave(*SHAPE, dtype="f8")), []
    vector = {axis: shared(wave(*SHAPE, seed=i)) for i, axis in enumerate("xyz")}

    def by_no_socket(method, given, **params):
        before = on_socket(daemon)
        kept.append((method, given, params, client.run(method, given, **params)))
        return on_socket(daemon) == before

    for method, given, params in (("derivative", f, {"axis": "x"}), ("gradient", f, {}), ("gradient", f, {"batch": 1}),
                                  ("diffusion", f, {"steps": 2, "cfl": 0.5}), ("divergence", vector, {}),
                                  ("curl", vector, {})):
        eventually(lambda: by_no_socket(method, given, **params), f"{method} by no socket")
    for method, given, params, result in kept:
        out = {axis: fdclient.empty(SHAPE, each.dtype) for axis, each in result.items()} \
            if isinstance(result, dict) else fdclient.empty(SHAPE, result.dtype)
        expected = client.run(method, given, out=out, **params)
        for axis in expected if isinstance(expected, dict) else [None]:
            a, b = (v[axis] if axis else v for v in (result, expected))
            assert a.dtype == b.dtype and (a == b).all()
    # More at once than it has: the others go over the socket.
    jobs = [client.submit("diffusion", f, steps=i + 1, cfl=0.5) for i in range(20)]
    results = [job.result() for job in reversed(jobs)]
    assert all((results[-1 - i] == client.run("diffusion", f, steps=i + 1, cfl=0.5)).all() for i in range(20))
    with pytest.raises(fdclient.Error) as failure:
        client.run("laplacian", f, accuracy=5)
    assert failure.value.parameter == "accuracy"


def test_the_pool_makes_room_of_other_sizes(monkeypatch):
    """The server registers no more than the pool's bound: replaced memory is unregistered first."""
    small, large, many = wave(32, 32, 64), wave(64, 64, 64), wave(32, 64, 64)
    monkeypatch.setattr(fdclient, "_POOL_BYTES", MiB)
    with Daemon("--region-bytes", "1M") as daemon, fdclient.Client(daemon.path) as client:
        def kept(method, f):
            """Bytes of the pool's memory, once no more of it is made."""
            for _ in range(6):
                client.run(method, f, axis="x") if method == "derivative" else client.run(method, f)
                yield daemon.stats()["user"]["region_bytes"]

        def settles(method, f, expected):
            eventually(lambda: list(kept(method, f))[-1] == expected, "the pool as it stays")

        assert max(kept("derivative", small)) == small.nbytes
        assert list(kept("gradient", many))[-1] == small.nbytes, "three of 512 KiB are too much, and nothing gives way"
        settles("derivative", many, small.nbytes + many.nbytes)
        for job in [client.submit("derivative", f, axis="x") for f in (many, large)]:
            job.result()
        assert daemon.stats()["user"]["region_bytes"] == small.nbytes + many.nbytes, "a job has what would be needed"
        settles("derivative", large, large.nbytes)
        settles("gradient", small, 3 * small.nbytes)


def test_a_client_that_nobody_has_is_closed(daemon):
    regions = lambda: daemon.stats()["user"]["regions"]  # noqa: E731
    gc.collect()
    eventually(lambda: regions() == 0, "no region")
    client, f = fdclient.Client(daemon.path), wave(*SHAPE)

    def has_pool():
        client.run("laplacian", f)
        return regions() > 0
    eventually(has_pool, "a pool")
    gc.disable()
    try:
        del client, has_pool
        eventually(lambda: regions() == 0, "no region")
    finally:
        gc.enable()


def test_fields(unchanged, daemon, numpy_client):
    client = numpy_client
    f = shared(wave(*SHAPE))
    before = on_socket(daemon)
    field = client.put(f)
    made = client.run("laplacian", field, out="field")
    assert isinstance(made, fdclient.Field) and made.shape == SHAPE and made.dtype == "f4"
    assert client.run("diffusion", field, out=made, steps=2, cfl=0.5) is made
    out = fdclient.empty(SHAPE)
    assert made.get(out) is out
    assert on_socket(daemon) == before
    assert (made.get() == client.run("diffusion", numpy.array(f), steps=2, cfl=0.5)).all()
    parts = client.run("gradient", field, out="field")
    assert (parts["y"].get() == client.run("derivative", f, axis="y")).all()
    for each in (field, made, *parts.values()):
        each.free()
    assert client.call("list")["fields"] == []


def test_a_dry_run(unchanged, daemon, numpy_client):
    f = numpy.empty((32, 32, 32), "f4")
    assert numpy_client.dry_run("gradient", f)["bytes"] == 4 * f.nbytes
    field = numpy_client.put(wave(32, 32, 32))
    assert numpy_client.dry_run("laplacian", field, out=field)["bytes"] == f.nbytes
    assert numpy_client.dry_run("curl", {"x": f, "y": f, "z": f})["bytes"] == 6 * f.nbytes
    assert numpy_client.dry_run("laplacian", f, out=numpy.empty_like(f))["bytes"] == 2 * f.nbytes
    assert numpy_client.dry_run("laplacian", f, out=fdclient.empty(f.shape, f.dtype))["bytes"] > 0
    ops = fdclient.op("gradient", f, out="g"), fdclient.op("divergence", "g", out=field)
    answer = numpy_client.chain(*ops, dry_run=True)
    assert answer["bytes"] == 4 * f.nbytes and len(answer["ops"]) == 2
    numbers = fdclient.op("stencil", f, offsets=numpy.array([[0, 0, 1], [1, 0, 0]]), weights=numpy.array([1.0, -1.0]),
                          boundary={"value": numpy.empty((32, 32), "f4")})
    assert numpy_client.chain(numbers, dry_run=True)["bytes"] == 2 * f.nbytes + 32 * 32 * 4
    assert numpy_client.chain(fdclient.op("laplacian", f, out=fdclient.empty(f.shape, f.dtype)), dry_run=True)["bytes"] > 0
    field.free()


def test_arrays_inside_parameters(unchanged, daemon, numpy_client):
    """In memory that the server maps, in other memory, as Fields and as lists, they give the same result."""
    client = numpy_client
    f, face = wave(20, 70, 80), wave(70, 80, seed=3)
    there, edge = shared(face), client.put(face)

    def laplacian(face, **params):
        boundary = {"z-": {"value": face}, "z+": {"mixed": 2, "const": face}, "*": "one-sided"}
        return client.run("laplacian", f, accuracy=2, boundary=boundary, **params)

    expected = laplacian(face)
    for form in (there, edge, numpy.asfortranarray(face)):
        assert laplacian(form).tobytes() == expected.tobytes()
    one = numpy.array(0.5, "f4")
    assert laplacian(one[()]).tobytes() == laplacian(0.5).tobytes() == laplacian(one).tobytes()
    arrays = 2 * f.nbytes
    for form, nbytes in ((face, 2 * face.nbytes), (there, 2 * face.nbytes), (edge, 0), (0.5, 0)):
        boundary = {"z-": {"value": form}, "z+": {"mixed": 2, "const": form}, "*": "one-sided"}
        answer = client.dry_run("laplacian", f, accuracy=2, boundary=boundary)
        assert answer["bytes"] == arrays + nbytes
    with pytest.raises(fdclient.Error, match="convert") as caught:
        laplacian(face.astype("f8"))
    assert caught.value.parameter == "boundary z-"
    edge.free()


def test_jobs_under_way(unchanged, daemon, numpy_client):
    client = numpy_client
    f = shared(wave(64, 64))
    outs = [fdclient.empty((64, 64)) for _ in range(50)]
    jobs = [client.submit("diffusion", f, out=out, steps=i + 1, cfl=0.9) for i, out in enumerate(outs)]
    for i, job in reversed(list(enumerate(jobs))):
        assert job.result() is outs[i] and job.done()
        assert (outs[i] == client.run("diffusion", numpy.array(f), steps=i + 1, cfl=0.9)).all()
    seen = []
    long = client.submit("diffusion", shared(wave(256, 256)), out=fdclient.empty((256, 256)), steps=10**8, cfl=0.9,
                         progress=lambda done, total: seen.append((done, total)))
    assert not long.done()
    eventually(lambda: client.call("ping") == {} and seen, "some progress")
    assert long.cancel() == "cancelled"
    with pytest.raises(fdclient.Error) as failure:
        long.result()
    assert failure.value.code == "CANCELLED" and seen[0][1] == 10**8
    # Large arrays both ways at once: who sends also takes.
    large = [client.submit("derivative", numpy.ones((1024, 1024)), axis="y") for _ in range(20)]
    assert all(not job.result().any() for job in large)


def test_errors(unchanged, daemon, numpy_client):
    client = numpy_client
    f = shared(wave(*SHAPE))
    for parameters, parameter in (({"accuracy": 5}, "accuracy"), ({"out": f}, "out"),
                                  ({"out": fdclient.empty((3, 3))}, "out")):
        with pytest.raises(fdclient.Error) as failure:
            client.run("laplacian", f, **parameters)
        assert (failure.value.code, failure.value.parameter) == ("INVALID_ARGUMENT", parameter)
    with pytest.raises(fdclient.Error, match="shape"):
        client.run("laplacian", f, out=numpy.empty((3, 3)))
    assert client.run("laplacian", f).shape == SHAPE
    with pytest.raises(fdclient.Error, match="CONNECTION"):
        fdclient.Client("/nowhere")


def test_memory_goes_where_it_is_used_no_more(unchanged, daemon, numpy_client):
    client = numpy_client
    regions = lambda: daemon.stats()["user"]["regions"]  # noqa: E731
    gc.collect()
    before = descriptors(os.getpid())
    f = shared(wave(*SHAPE))
    part = f[3]
    client.run("laplacian", f)
    assert regions() == 1
    del f
    gc.collect()
    client.run("laplacian", part)
    assert regions() == 1, "a view keeps the memory"
    with fdclient.Client(daemon.path) as other:
        other.run("laplacian", part, out=fdclient.empty(part.shape))
    del part
    gc.collect()
    client.run("laplacian", wave(8, 8))
    eventually(lambda: regions() == 0, "no region")
    assert descriptors(os.getpid()) == before


def test_in_a_process_with_many_descriptors(daemon):
    """More than select() can tell apart."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2048)), hard))
    others = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with fdclient.Client(daemon.path) as client:
            f = wave(512, 512)
            jobs = [client.submit("laplacian", f) for _ in range(8)]
            assert all((job.result() == jobs[0].result()).all() for job in jobs)
    finally:
        for descriptor in others:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_server_that_takes_no_region():
    with Daemon("--region-bytes", "1") as daemon, fdclient.Client(daemon.path) as client:
        f, out = shared(wave(*SHAPE)), fdclient.empty(SHAPE)
        for _ in range(2):
            assert client.run("laplacian", f, out=out) is out
            assert (out == client.run("laplacian", numpy.array(f))).all()


def test_a_server_that_goes(daemon):
    f = shared(wave(256, 256))
    with Daemon() as own:
        client = fdclient.Client(own.path)
        client.run("laplacian", f)
        job = client.submit("diffusion", f, steps=10**9, cfl=1)
        os.kill(own.pid, signal.SIGKILL)
        with pytest.raises(fdclient.Error, match="CONNECTION"):
            job.result()
        with pytest.raises(fdclient.Error, match="CONNECTION"):
            client.run("laplacian", f)
        client.close()
        own.process.wait()
        own.process.returncode = 0  # it was us
    with fdclient.Client(daemon.path) as again:
        assert again.run("laplacian", f).shape == (256, 256)


def test_snapshots_and_a_report(unchanged, numpy_client):
    f = wave(*SHAPE)
    params = {"dt": 0.125, "accuracy": 2}
    after = {steps: numpy_client.run("diffusion", f, steps=steps, **params) for steps in (3, 6, 7)}
    job = numpy_client.submit("diffusion", f, steps=7, every=3, report=True, **params)
    steps = []
    for step, time, array in job.snapshots():
        steps.append(step)
        assert time == step * 0.125
        assert numpy.array_equal(array, after[step])
    assert steps == [3, 6]
    assert numpy.array_equal(job.result(), after[7])
    assert job.dt == 0.125
    assert (job.report["min"], job.report["max"]) == (after[7].min(), after[7].max())
    # Whoever waits for the result alone finds them later.
    job = numpy_client.submit("diffusion", f, steps=7, every=3, snapshot="field", **params)
    assert numpy.array_equal(job.result(), after[7])
    for step, _, field in job.snapshots():
        assert numpy.array_equal(field.get(), after[step])
        field.free()
    assert numpy_client.submit("laplacian", f).report is None


def test_probes(numpy_client):
    f = wave(12, 13)
    job = numpy_client.submit("diffusion", f, steps=3, cfl=0.5, probes=[[2, 3], [-1, 0]])
    out = job.result()
    assert job.probes.shape == (4, 2)
    assert job.probes[0].tolist() == [f[2, 3], f[-1, 0]]
    assert job.probes[3].tolist() == [out[2, 3], out[-1, 0]]
    assert numpy_client.submit("laplacian", f).probes is None


def test_a_chain(unchanged, numpy_client):
    f = wave(*SHAPE)
    g = numpy_client.run("gradient", f)
    expected = numpy_client.run("divergence", g)
    ops = fdclient.op("gradient", f, out="g"), fdclient.op("divergence", "g", out="d")
    assert numpy.array_equal(numpy_client.chain(*ops), expected)
    named = numpy_client.chain(*ops, out={"g": "inline", "d": "field"})
    assert numpy.array_equal(named["d"].get(), expected)
    assert all(numpy.array_equal(named["g"][axis], g[axis]) for axis in "xyz")
    # In place, again and again; inputs in shared memory.
    step = {"dt": 0.125, "accuracy": 2}
    field = named["d"]
    out = numpy_client.chain(fdclient.op("diffusion", field, field, source=shared(f), **step), repeat=3)
    assert out.id == field.id
    assert numpy.array_equal(field.get(), numpy_client.run("diffusion", expected, steps=3, source=f, **step))
    field.free()


def test_threads_share_a_client(unchanged, daemon, numpy_client):
    """Small, pooled and large jobs, fields and memory that is created and freed: every thread gets its own results."""
    large = numpy.arange(1 << 20, dtype="f8")

    def work(number):
        f = wave(40, 64, seed=number)
        expected = derivative(f)
        for i in range(12):
            jobs = [numpy_client.submit("derivative", f, axis="x") for _ in range(3)]
            there = shared(wave(64, 128, 16, seed=number + i))
            assert (numpy_client.run("laplacian", there) == numpy_client.run("laplacian", numpy.array(there))).all()
            with numpy_client.put(f + i) as field:
                assert (field.get() == f + i).all()
            if i % 4 == number % 4:
                assert (numpy_client.put(large + number).get() == large + number).all()
            for job in jobs:
                assert abs(job.result(PATIENCE_S) - expected).max() < 1e-5
    in_threads(*(lambda number=number: work(number) for number in range(6)))
    numpy_client.call("ping")  # and with it what was collected since
    assert numpy_client.call("list")["fields"] == []


def test_strided_parameters(numpy_client):
    f = wave(6, 40, dtype="f8")
    x = numpy.cumsum(numpy.linspace(1, 2, 41))
    pairs = numpy.stack([x, x], axis=1)
    expected = numpy_client.run("derivative", f, axis="x", spacing={"x": x})
    assert (numpy_client.run("derivative", f, axis="x", spacing={"x": pairs[:, 0]}) == expected).all()
    assert (numpy_client.run("derivative", f, axis="x", spacing={"x": x[::-1][::-1]}) == expected).all()
    falling = -x[::-1]
    assert numpy_client.run("derivative", f, axis="x", spacing={"x": -falling[::-1]}).tobytes() == expected.tobytes()
    with pytest.raises(fdclient.Error, match=r"decrease.*\[\.\.\., ::-1\]") as caught:
        numpy_client.run("derivative", f, axis="x", spacing={"x": x[::-1]})
    assert caught.value.parameter == "spacing x"


def test_what_would_lose_something_is_refused(unchanged, numpy_client):
    f = wave(8, 8)
    masked = numpy.ma.masked_greater(f, 0.5)
    readonly = numpy.empty_like(f)
    readonly.flags.writeable = False
    field = numpy_client.put(f)
    for call, parameter, says in (
            (lambda: numpy_client.run("laplacian", masked), "f", "filled"),
            (lambda: numpy_client.put(masked), "f", "filled"),
            (lambda: numpy_client.run("diffusion", f, source=masked, cfl=0.5), "source", "filled"),
            (lambda: numpy_client.run("laplacian", f, boundary={"x": {"value": masked[:, 0]}}), "boundary", "filled"),
            (lambda: numpy_client.run("laplacian", f, out=numpy.empty((8, 8), int)), "out", "ndarray of int64"),
            (lambda: numpy_client.run("laplacian", f, out=numpy.ma.zeros((8, 8), "f4")), "out", "MaskedArray"),
            (lambda: numpy_client.run("laplacian", f, out=readonly), "out", "written"),
            (lambda: numpy_client.run("laplacian", f, out=[f]), "out", "got list"),
            (lambda: numpy_client.run("gradient", f, out={"x": field, "y": f.copy()}), "out", "with a Field"),
            (lambda: numpy_client.run("laplacian", "field.bin"), "f", "got str"),
            (lambda: numpy_client.run("laplacian", {"a": f}), "f", "got dict"),
            (lambda: numpy_client.run("laplacian", [[1.0], [2.0, 3.0]]), "f", "got list"),
            (lambda: numpy_client.run("laplacian", numpy.array(["a"])), "f", "ndarray of <U1"),
            (lambda: numpy_client.dry_run("laplacian", object()), "f", "got object"),
            (lambda: numpy_client.chain("gradient"), "ops", "got str"),
            (lambda: numpy_client.call("ping", what={1}), None, "cannot be sent.*set"),
            (lambda: numpy_client.run("laplacian", f, out=fdclient.empty((3, 3))), "out", r"\[3, 3\].*\[8, 8\]"),
            (lambda: numpy_client.run("laplacian", f, out=numpy.empty((8, 9), "f4")), "out", r"\(8, 8\).*\(8, 9\)")):
        with pytest.raises(fdclient.Error, match=says) as caught:
            call()
        assert (caught.value.code, caught.value.parameter) == ("INVALID_ARGUMENT", parameter)
    field.free()


def test_fields_by_their_ids_and_operators_in_a_list(unchanged, numpy_client):
    f = wave(*SHAPE)
    with numpy_client.put(f) as field:
        entry, = numpy_client.call("list")["fields"]
        expected = numpy_client.run("laplacian", f)
        assert (numpy_client.run("laplacian", {"field": field.id}) == expected).all()
        assert (numpy_client.run("laplacian", entry) == expected).all()
        ops = [fdclient.op("gradient", field, out="g"), fdclient.op("divergence", "g")]
        assert (numpy_client.chain(ops) == numpy_client.chain(*ops)).all()
        assert (numpy.asarray(field) == f).all() and numpy.array(field, "f8").dtype == "f8"
        assert (numpy.add(field, f) == 2 * f).all()
        same = numpy_client.chain(fdclient.op("diffusion", field, out=field, cfl=0.5))
        assert same is field
        numpy_client.run("laplacian", field, out={"field": field.id})
    assert numpy_client.call("list")["fields"] == []

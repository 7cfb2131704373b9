"""One user's jobs on two devices: where they run, what is copied between the devices, and that neither shows in a bit."""

import os
import signal

import numpy
import pytest

from fdtest import ENDLESS, Daemon, MiB, Region, assert_serves, emptied_client, eventually, needs_root, stopped, wave

HERE, THERE = "host", "host:1"


# Inputs go from one device to another through the staging arena: test_distributed.py has mailboxes.
OPTIONS, DEVICE = ("--mode", "0666", "--staging-bytes", 16 * MiB, "--mailbox-bytes", 0), "host,host"


@pytest.fixture
def client(daemon):
    """Each test ends without a byte on either device."""
    with emptied_client(daemon) as one:
        yield one


def put(client, array, where):
    return client.call("put", f=array, placement=where)["field"]


def places(client):
    return {f["field"]: f["device"] for f in client.call("list")["fields"]}


def pids(client):
    return {d["name"]: d["pid"] for d in client.call("info")["devices"]}


def new(client, method, **params):
    return client.out(method, out="field", **params)["field"]


def test_a_connections_arrays_lie_together_and_connections_are_spread(daemon, client):
    with daemon.client() as other:
        mine, theirs = [[one.put(wave(64, seed=i)) for i in range(3)] for one in (client, other)]
        where = places(client)
        assert len({where[field] for field in mine}) == len({where[field] for field in theirs}) == 1
        assert where[mine[0]] != where[theirs[0]]


def test_put_goes_where_it_is_told(client):
    f = wave(300, 1000)
    for where in (HERE, THERE):
        field = put(client, f, where)
        assert places(client)[field] == where
        assert client.get(field).tobytes() == f.tobytes()
    small = put(client, wave(2), THERE)
    region = Region.holding(client, f)
    for array in (region.place(like=f), f, f):
        client.call("put", f=array, placement="spread")
    assert places(client)[small] == THERE
    assert list(places(client).values()).count(HERE) == 3


@pytest.mark.parametrize("where", [HERE, THERE])
def test_inputs_on_two_devices_give_the_same_bits(client, where):
    """Operands, components of a vector, links of a chain."""
    shape = 60, 130, 140
    f, k, s = wave(*shape), 2 + numpy.abs(wave(*shape, seed=1)), wave(*shape, seed=2)
    at = {name: {"field": put(client, array, place)}
          for name, array, place in (("f", f, HERE), ("k", k, THERE), ("s", s, THERE))}
    euler = {"steps": 5, "cfl": 0.4, "accuracy": 2}

    def run(f, k, s, **placement):
        vector = {"x": f, "y": k, "z": s}
        return [client.out("laplacian", f=f, coefficient=k, accuracy=2, **placement),
                client.out("diffusion", f=f, diffusivity=k, source=s, **euler, **placement),
                client.out("divergence", f=vector, **placement),
                *client.out("curl", f=vector, **placement).values(),
                client.out("chain", ops=[{"op": "laplacian", "f": k, "out": "l"}, {"op": "gradient", "f": "l", "out": "g"},
                                         {"op": "divergence", "f": "g"}], **placement)]
    alone = run(f, k, s)
    mixed = run(at["f"], k, at["s"], placement=where)
    for expected, *got in zip(alone, run(**at, placement=where), run(**at), mixed):
        assert all(expected.tobytes() == one.tobytes() for one in got)


def test_results_stay_where_they_are_computed_and_outputs_decide(client):
    f = {"field": put(client, wave(50, 60), HERE)}
    result = new(client, "laplacian", f=f, placement=THERE)
    assert places(client)[result] == THERE
    expected = client.out("laplacian", f=wave(50, 60))
    assert client.get(result).tobytes() == expected.tobytes()
    # What is overwritten decides where the job runs; f is copied there.
    client.call("laplacian", f=f, out={"field": result}, boundary="mirror")
    assert places(client)[result] == THERE
    assert client.get(result).tobytes() == client.out("laplacian", f=f, boundary="mirror").tobytes()
    here = put(client, wave(50, 60), HERE)
    vector = {"x": {"field": result}, "y": {"field": here}}
    error = client.refused("gradient", f=f, out=vector)
    assert (error.code, error.parameter) == ("INVALID_ARGUMENT", "out") and HERE in str(error) and THERE in str(error)
    assert client.refused("laplacian", f=f, out={"field": here}, placement=THERE).what == ("INVALID_ARGUMENT", "placement")


def test_a_device_that_is_not_there(client):
    for dry_run in (False, True):
        error = client.refused("laplacian", f=wave(8, 8), placement="cuda:7", dry_run=dry_run)
        assert (error.code, error.parameter) == ("INVALID_ARGUMENT", "placement")
        assert "cuda:7" in str(error)
    assert client.refused("get", field=client.put(wave(8)), placement=HERE).parameter == "placement"


def test_a_dry_run_tells_the_device(client):
    f = {"field": put(client, wave(64, 64), THERE)}
    assert client.call("laplacian", f=f, dry_run=True)["device"] == THERE
    there = client.call("laplacian", f=f, dry_run=True)
    here = client.call("laplacian", f=f, dry_run=True, placement=HERE)
    assert here["device"] == HERE and here["bytes"] == there["bytes"] + wave(64, 64).nbytes  # f is copied


def test_jobs_of_one_field_keep_their_order_on_two_devices(client):
    """Readers there, writers here, all sent at once: each reader has what the writer before it left."""
    f = wave(200, 300)
    field = put(client, f, HERE)
    ref, jobs = {"field": field}, []
    for i in range(12):
        jobs.append(client.send("laplacian", f=ref, accuracy=2, placement=THERE))
        client.send("diffusion", f=ref, out=ref, accuracy=2, steps=1 + i, cfl=0.9)
    for i, job in enumerate(jobs):
        assert client.recv(job)["out"].tobytes() == client.out("laplacian", f=f, accuracy=2).tobytes()
        f = client.out("diffusion", f=f, accuracy=2, steps=1 + i, cfl=0.9)
    assert client.get(field).tobytes() == f.tobytes()


@pytest.mark.parametrize("placement", [{}, {"placement": "spread"}], ids=["by itself", "spread"])
def test_jobs_in_regions_run_on_both_devices(client, placement):
    """One user's jobs, sent at once: results that stay tell where they were computed."""
    f = wave(64, 128, 128)
    given, results = Region.holding(client, f), Region(8 * f.nbytes).registered(client)
    job = {"f": given.place(like=f), "steps": 20, "cfl": 0.5} | placement
    jobs = [client.send("diffusion", out=results.place(i * f.nbytes), **job) for i in range(8)]
    kept = [client.send("diffusion", out="field", **job) for _ in range(8)]
    for one in jobs + kept:
        client.recv(one)
    assert set(places(client).values()) == {HERE, THERE}
    expected = client.out("diffusion", f=f, steps=20, cfl=0.5)
    for i in range(8):
        assert results.array("f4", f.shape, i * f.nbytes).tobytes() == expected.tobytes()


def test_a_full_device_is_avoided():
    with Daemon("--device-memory", 8 * MiB, device="host,host") as small, small.client() as client:
        fields = [client.put(numpy.zeros(3 * MiB // 4, "f4")) for _ in range(4)]  # 3 MiB each, two fit on a device
        assert sorted(places(client).values()) == [HERE, HERE, THERE, THERE]
        assert client.refused("put", f=numpy.zeros(MiB, "f4")).code == "OVER_BUDGET"
        client.free(fields[0])
        assert client.call("put", f=numpy.zeros(MiB // 2, "f4"))["field"]


def test_copies_are_charged(daemon):
    with Daemon("--user-bytes", 5 * MiB + 4096, device="host,host") as small, small.client() as client:
        f = {"field": put(client, numpy.zeros(MiB // 2, "f4"), HERE)}
        assert client.out("derivative", f=f, placement=HERE).nbytes == 2 * MiB
        client.put(numpy.zeros(MiB // 4, "f4"))
        error = client.refused("derivative", f=f, placement=THERE)  # f, the copy, and the result: 6 MiB
        assert (error.code, error.need) == ("TOO_LARGE", 6 * MiB)
        assert client.out("derivative", f=f, placement=HERE).nbytes == 2 * MiB
        job = client.send("diffusion", f=wave(8, 8), placement=HERE, **ENDLESS)
        assert client.out("derivative", f=f).nbytes == 2 * MiB  # here, where it need not be copied, whatever waits
        client.cancel(job)
        eventually(lambda: client.call("stats")["user"]["bytes"] == 3 * MiB, "only the fields are charged")
    with Daemon("--user-queue-bytes", 5 * MiB, device="host,host") as small, small.client() as client:
        put(client, wave(8), HERE)
        error = client.refused("put", f=numpy.zeros(3 * MiB // 4, "f4"), placement=THERE)
        assert (error.code, error.need) == ("TOO_LARGE", 6 * MiB)  # as it arrived, and the copy


def test_a_job_that_is_cancelled_while_its_input_is_copied(daemon, client):
    f = put(client, wave(1 << 20), HERE)
    with stopped(pids(client)[HERE]):
        job = client.send("derivative", f={"field": f}, placement=THERE)
        assert_serves(client, placement=THERE)
        client.cancel(job)
        assert_serves(client, placement=THERE)
    assert client.out("derivative", f={"field": f}, placement=THERE).size == 1 << 20


@pytest.mark.parametrize("dies", [HERE, THERE])
def test_a_worker_that_ends_while_an_input_is_copied(daemon, client, dies):
    """The job fails with the worker that it needs; the other worker and its fields stay."""
    f, kept = put(client, wave(1 << 20), HERE), put(client, wave(32), THERE if dies == HERE else HERE)
    before = pids(client)
    os.kill(before[HERE], signal.SIGSTOP)
    job = client.send("derivative", f={"field": f}, placement=THERE)
    client.call("ping")
    os.kill(before[dies], signal.SIGKILL)
    if dies != HERE:
        os.kill(before[HERE], signal.SIGCONT)
    error = client.error(job)
    assert error.code == ("FIELD_LOST" if dies == HERE else "DEVICE_LOST")
    assert client.get(kept).tobytes() == wave(32).tobytes()
    eventually(lambda: all(d["state"] == "ready" for d in client.call("info")["devices"]), "both ready again")
    assert {name for name, pid in pids(client).items() if pid != before[name]} == {dies}
    assert_serves(client)


def test_a_worker_ends_while_copies_wait_for_slabs(daemon, client):
    """Two inputs of one job, while the user's slabs are full: one of them fails the job, once."""
    big = put(client, numpy.zeros(60 * 65536 // 4, "f4"), HERE)
    x, y = ({"field": put(client, numpy.zeros((1024, 1024), "f4"), HERE)} for _ in range(2))
    before = pids(client)
    with stopped(before[THERE]):
        first = client.send("derivative", f={"field": big}, placement=THERE)
        eventually(lambda: client.call("stats")["staging"]["upload_bytes"] >= 60 * 65536, "slabs on their way")
        client.get(x["field"])  # Downloads are done in order: all of `big` lies in slabs.
        os.kill(before[HERE], signal.SIGSTOP)
        second = client.send("divergence", f={"x": x, "y": y}, placement=THERE)
        client.call("ping")
        os.kill(before[HERE], signal.SIGKILL)
        assert client.error(second).code == "FIELD_LOST"
    assert client.recv(first)["out"].size == 60 * 65536 // 4
    eventually(lambda: all(d["state"] == "ready" for d in client.call("info")["devices"]), "both ready again")


def test_the_server_ends_while_a_job_reads_a_field_of_another_device():
    """The job is with a worker that hangs, and its input's device ends first."""
    with Daemon("--drain-timeout-s", 0, device="host,host") as daemon:
        client = daemon.client()
        f = put(client, wave(64, 64), HERE)
        client.send("diffusion", f={"field": f}, placement=THERE, **ENDLESS)
        eventually(lambda: client.call("stats")["queue"]["running"], "it runs")
        os.kill(pids(client)[THERE], signal.SIGSTOP)
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.wait() == 0


def test_an_upload_is_copied_on_to_the_device_that_is_named_after_it(client):
    """The bytes of f come first, and the placement after them."""
    f = wave(700, 1000)
    for where in (HERE, THERE):
        assert client.call("laplacian", f=f, dry_run=True, placement=where)["device"] == where
        got = client.out("laplacian", f=f, accuracy=2, placement=where)
        field = client.call("put", f=f, placement=where)["field"]
        assert places(client)[field] == where and client.get(field).tobytes() == f.tobytes()
        assert got.tobytes() == client.out("laplacian", f={"field": field}, accuracy=2).tobytes()


@pytest.mark.parametrize("how", ["hang up", "time out", "detached"])
def test_a_client_that_does_not_wait_while_an_input_is_copied(daemon, client, how):
    """Nothing remains; or, of a detached job, its result."""
    f = put(client, wave(1 << 20), HERE)
    params = {"time out": {"timeout": 1000}, "detached": {"detach": True, "out": "field"}}.get(how, {})
    with stopped(pids(client)[HERE]):
        with daemon.client() as other:
            job = other.send("derivative", f={"field": f}, placement=THERE, **params)
            if how == "time out":
                assert other.error(job).code == "TIMEOUT"
            other.call("ping")
        assert_serves(client, placement=THERE)
    eventually(lambda: not client.call("stats")["user"]["queue_bytes"], "nothing of a job remains")
    assert len(places(client)) == (2 if how == "detached" else 1)
    assert places(client)[f] == HERE


def test_a_half_written_field_is_not_copied(client):
    f = put(client, wave(512, 512), HERE)
    job = client.send("diffusion", f={"field": f}, out={"field": f}, progress=True, **ENDLESS)
    client.await_note()  # it has written
    reader = client.send("laplacian", f={"field": f}, placement=THERE)
    client.cancel(job)
    assert client.error(reader).code == "FIELD_LOST"


@needs_root
def test_two_users_share_both_devices(daemon, client):
    """Each has the bits of its own arrays, wherever they are copied."""
    def visit(other):
        f = {"field": put(other, wave(300, 300, seed=3), THERE)}
        jobs = [other.send("laplacian", f=f, placement=(HERE, THERE)[i % 2]) for i in range(40)]
        found = {other.recv(job)["out"].tobytes() for job in jobs}
        other.free(f["field"])
        return len(found), found == {other.out("laplacian", f=wave(300, 300, seed=3)).tobytes()}
    f = {"field": put(client, wave(300, 300), HERE)}
    jobs = [client.send("laplacian", f=f, placement=(THERE, HERE)[i % 2]) for i in range(40)]
    assert daemon.as_user(60001, visit) == (1, True)
    expected = client.out("laplacian", f=wave(300, 300)).tobytes()
    assert {client.recv(job)["out"].tobytes() for job in jobs} == {expected}


@needs_root
def test_another_users_field_is_not_found_on_either_device(daemon, client):
    field = put(client, wave(64), THERE)

    def visit(other):
        return other.refused("derivative", f={"field": field}, placement=HERE).code
    assert daemon.as_user(60001, visit) == "NOT_FOUND"


def test_twenty_connections_at_once(daemon, client):
    """Of one user: fields on both devices, jobs with inputs from both, results compared."""
    others = [daemon.client() for _ in range(20)]
    fields = [other.put(wave(40, 50, seed=i)) for i, other in enumerate(others)]
    jobs = [(i, other, other.send("divergence", f={"x": {"field": fields[i]}, "y": {"field": fields[i - 1]}}))
            for i, other in enumerate(others) for _ in range(5)]
    for i, other, job in jobs:
        expected = client.out("divergence", f={"x": wave(40, 50, seed=i), "y": wave(40, 50, seed=(i - 1) % 20)})
        assert other.recv(job)["out"].tobytes() == expected.tobytes()

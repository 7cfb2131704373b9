"""Fields that lie in subdomains on several devices, and their jobs, whose results have the bits of one device."""

import contextlib
import os
import signal
import subprocess
import threading
import time

import numpy
import pytest

from fdtest import ENDLESS, ONE_DEVICE, Client, Daemon, FdError, MiB, Region, assert_serves, binary, bits, emptied_client, eventually, sanitized, stopped, wave

GROUP = "distributed"
FIRST, SECOND = ("host", "host:1") if ONE_DEVICE == "host" else ("cuda:0", "cuda:1")
TWO = "host,host" if ONE_DEVICE == "host" else "cuda:0,cuda:1"
THREE = "host,host,host" if ONE_DEVICE == "host" else "cuda:0,cuda:1,cuda:2"
NODES = "host,n1/host,n2/host" if ONE_DEVICE == "host" else "cuda:0,n1/cuda:1,n2/cuda:2"
DTYPES = ["f4"] if sanitized() else ["f4", "f8"]  # of all sides: numerics, which are no business of the sanitizers
RANDOM = numpy.random.default_rng()
ENDLESS_ADI = {"dt": 0.3, "scheme": "adi", "steps": 10**8}


def new_random(shape, dtype="f4"):
    return RANDOM.standard_normal(shape).astype(dtype)


@pytest.fixture(scope="module", params=[(TWO, "64M"), (THREE, "0"), (NODES, "64M")], ids=["mailboxes", "arena", "nodes"])
def daemon(request):
    """Planes are exchanged from device to device, through the host, or from node to node."""
    devices, mailbox = request.param
    with Daemon("--mode", "0666", "--staging-bytes", 16 * MiB, "--mailbox-bytes", mailbox, device=devices) as running:
        yield running


@pytest.fixture
def client(daemon):
    """Each test ends without a byte on any device."""
    with emptied_client(daemon) as one:
        yield one


def distribute(client, array):
    """A distributed field of the array, as a job takes it."""
    return {"field": client.call("put", f=array, distribute=True)["field"]}


def same(client, method, f, **params):
    """A job on distributed fields, whose result goes to the client or into a new field, has the bits of one device."""
    def distributed(value):
        return distribute(client, value) if isinstance(value, numpy.ndarray) else value

    expected = client.out(method, f=f, placement=FIRST, **params)
    there = {name: distributed(value) for name, value in params.items()}
    there["f"] = {axis: distributed(a) for axis, a in f.items()} if isinstance(f, dict) else distributed(f)
    assert bits(client.out(method, **there)) == bits(expected)
    kept = client.out(method, out="field", **there)
    fields = {f["field"]: f for f in client.call("list")["fields"]}
    for one, value in zip(kept.values() if "field" not in kept else [kept], bits(expected)):
        assert fields[one["field"]]["device"] == GROUP
        assert client.get(one["field"]).tobytes() == value


def test_what_is_put_comes_back(client):
    for shape in [(51,), (60, 7), (100, 300, 301), (64, 3, 4, 5)]:
        array = new_random(shape)
        field = distribute(client, array)
        assert client.get(field["field"]).tobytes() == array.tobytes()
        (entry,) = [f for f in client.call("list")["fields"] if f["field"] == field["field"]]
        assert (entry["device"], tuple(entry["shape"]), entry["state"]) == (GROUP, shape, "resident")


SIDES = ["periodic", {"value": 0.5}, {"derivative": 0}, {"derivative": 1.5}, "mirror",
         {"z-": {"value": 1}, "z+": {"derivative": 0}}, {"halo": 0.5}, {"value": 0.25, "at": "face"}]


def of_z(boundary):
    return boundary if "z-" in boundary else {"z": boundary}


@pytest.mark.parametrize("boundary", SIDES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_operators_have_the_same_bits(client, boundary, dtype):
    f = new_random((90, 9, 11), dtype)
    for accuracy in (2, 8) if boundary in ("periodic", "mirror") else (2,):
        same(client, "laplacian", f, boundary=of_z(boundary), accuracy=accuracy)
    same(client, "diffusion", f, boundary=of_z(boundary), cfl=0.4, steps=13, accuracy=2)
    same(client, "gradient", f, boundary=of_z("periodic" if "halo" in boundary else boundary), accuracy=2)
    same(client, "stencil", f, offsets=[[0, 0, 0], [2, 0, 1], [-3, 1, 0]], weights=[0.5, 0.25, -1], steps=5,
         boundary=of_z(boundary), accuracy=2)


def test_every_operator_has_the_same_bits(client):
    f, k = new_random((99, 9, 10)), numpy.exp(new_random((99, 9, 10)))
    vector = {axis: new_random((99, 9, 10)) for axis in "xyz"}
    for axis in "xyz":
        same(client, "derivative", f, axis=axis, order=3, accuracy=6)
    same(client, "derivative", f, axis="z", stagger="forward", order=0)
    same(client, "derivative", f, axis="z", endpoint={"z": True})
    same(client, "divergence", vector)
    same(client, "curl", vector, accuracy=4)
    same(client, "biharmonic", f, accuracy=2)
    same(client, "laplacian", f, coefficient=k, accuracy=4)
    same(client, "diffusion", f, diffusivity=k, source=k, cfl=0.4, steps=40, accuracy=2, boundary={"z": {"value": 0}})
    same(client, "diffusion", f, cfl=0.4, steps=5, scheme="rk4", accuracy=8)
    same(client, "diffusion", f, cfl=0.4, steps=7, endpoint={"z": True})
    same(client, "derivative", f, axis="z", spacing={"z": numpy.cumsum(1 + numpy.arange(99) % 3).tolist()},
         boundary={"z": "one-sided"})
    same(client, "laplacian", new_random((70, 5, 6)), batch=1)
    same(client, "diffusion", new_random((70, 5, 6)), batch=1, cfl=0.4, steps=30)


def test_periodic_coordinates_have_the_same_bits(client):
    """Distances across the ends are those of the whole axis, far from 0 and near it."""
    f = new_random((99, 9, 10), "f8")
    for first in (-0.125, 1e9 / 3):
        x = (first + numpy.cumsum(RANDOM.uniform(0.5, 1.5, 100))).tolist()
        for axis in ({"spacing": {"z": x}}, {"spacing": {"z": x[:99]}, "endpoint": {"z": True}}):
            same(client, "derivative", f, axis="z", order=2, accuracy=4, **axis)
            same(client, "derivative", f, axis="z", stagger="backward", **axis)
            same(client, "diffusion", f, cfl=0.4, steps=20, accuracy=2, diffusivity=numpy.exp(f), **axis)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_end_point_of_the_axis_that_is_cut(client, dtype):
    """The last plane repeats the first, as numpy.linspace has it, or holds other numbers, which evolve on their own."""
    f = new_random((61, 9, 11), dtype)
    closed = numpy.concatenate([f[:-1], f[:1]])
    for given in (f, closed):
        kappa = numpy.exp(given)
        params = {"endpoint": {"z": True}, "steps": 4, "boundary": {"x": {"value": 1}}}
        for accuracy in (2, 8):
            same(client, "diffusion", given, scheme="rk4", cfl=0.4, accuracy=accuracy, **params)
        same(client, "diffusion", given, scheme="rk4", cfl=0.4, accuracy=2, diffusivity=kappa, source=given, **params)
        same(client, "diffusion", given, scheme="adi", dt=0.7, diffusivity=kappa, source=given, **params)
    same_report(client, "diffusion", new_random((61, 20, 22), dtype), scheme="rk4", cfl=0.4, steps=3, accuracy=4, endpoint={"z": True})
    same_probes(client, f, 20, scheme="rk4", cfl=0.4, steps=5, accuracy=2, endpoint={"z": True})


def test_steps_and_closures_that_reach_over_all_ghost_planes(client):
    """A step of RK4 that reaches further goes stage by stage; closures of more points than a thin subdomain has find them."""
    f = new_random((52, 9, 11), "f8")
    z = numpy.cumsum(RANDOM.uniform(0.95, 1.05, 52)).tolist()
    same(client, "diffusion", f, scheme="rk4", cfl=0.4, steps=5, accuracy=8, boundary={"z": "mirror"}, spacing={"z": z})
    same(client, "diffusion", f, cfl=0.1, steps=5, accuracy=8, boundary={"z": {"curvature": 0.5, "at": "face"}})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("boundary", ["periodic", {"value": 0.5}, {"derivative": -1, "at": "face"},
                                      {"z-": {"halo": 1}, "z+": {"mixed": 0.5, "const": 1}}], ids=str)
def test_lines_of_adi_go_through_all_subdomains(client, boundary, dtype):
    """With few points in a plane they are solved at once, with many in chunks."""
    sides, params = of_z(boundary), {"scheme": "adi", "dt": 3, "steps": 3}
    same(client, "diffusion", new_random((90, 9, 11), dtype), boundary=sides, **params)
    f = new_random((61, 130, 100), dtype)
    same(client, "diffusion", f, boundary=sides, source=f, **params)
    if "at" not in boundary:
        same(client, "diffusion", f, boundary=sides, diffusivity=numpy.exp(f), **params)


def test_adi_in_every_number_of_axes(client):
    params = {"scheme": "adi", "dt": 0.7, "steps": 4}
    for shape in [(300,), (100, 37), (64, 9, 10), (52, 10000)]:
        f = new_random(shape, "f8")
        same(client, "diffusion", f, boundary={"x": {"value": 1}}, **params)
        same(client, "diffusion", f, diffusivity=numpy.exp(f), source=f, **params)
        same(client, "diffusion", f, endpoint={"xyz"[f.ndim - 1]: True}, **params)
        same(client, "diffusion", f, endpoint={"xyz"[f.ndim - 1]: True}, diffusivity=numpy.exp(f), **params)
    f = new_random((80, 12, 16))
    field = distribute(client, f)
    client.call("diffusion", f=field, out=field, **params)
    client.call("diffusion", f=field, out=field, **params)
    assert client.get(field["field"]).tobytes() == client.out("diffusion", f=f, **params | {"steps": 8}).tobytes()


def test_a_field_is_overwritten_in_place_again_and_again(client):
    f = new_random((80, 12, 16), "f8")
    field = distribute(client, f)
    client.call("diffusion", f=field, cfl=0.4, steps=100, out=field)
    client.call("diffusion", f=field, cfl=0.4, steps=3, out=field)
    expected = client.out("diffusion", f=client.out("diffusion", f=f, cfl=0.4, steps=100), cfl=0.4, steps=3)
    assert client.get(field["field"]).tobytes() == expected.tobytes()


def test_chains_and_mixed_derivatives_run_in_subdomains(client):
    f = new_random((64, 12, 13))
    ops = [{"op": "laplacian", "accuracy": 2, "out": "l"}, {"op": "gradient", "f": "l", "out": "g"},
           {"op": "divergence", "f": "g"}]

    def chain(f):
        return client.out("chain", ops=[dict(ops[0], f=f), *ops[1:]], repeat=3)

    field = distribute(client, f)
    assert bits(chain(field)) == bits(chain(f))
    assert bits(client.out("derivative", f=field, axis=["z", "x"])) == bits(client.out("derivative", f=f, axis=["z", "x"]))
    assert bits(client.out("hessian", f=field)) == bits(client.out("hessian", f=f))


def test_snapshots_of_a_distributed_field(client):
    f = new_random((66, 10, 10))
    field = distribute(client, f)
    result = client.out("diffusion", f=field, cfl=0.4, steps=50, every=20)
    taken = [(about["step"], about["out"].tobytes()) for what, about in client.notifications if what == "snapshot"]
    assert taken == [(n, client.out("diffusion", f=f, cfl=0.4, steps=n).tobytes()) for n in (20, 40)]
    assert result.tobytes() == client.out("diffusion", f=f, cfl=0.4, steps=50).tobytes()


def same_report(client, method, f, **params):
    """A job whose report of a distributed result has the numbers, to the bit, of one on one device."""
    params["report"] = True
    expected = client.call(method, f=f, placement=FIRST, **params)
    got = client.call(method, f=f, distribute=True, **params)
    assert bits(got["out"]) == bits(expected["out"])
    assert repr(got["report"]) == repr(expected["report"])
    return got["report"]


# Blocks of a measure, of 4,096 elements, lie on both sides of the cuts; or all of them lie on one. The last one is of more
# blocks than a block holds results.
@pytest.mark.parametrize("shape", [(52, 16, 17), (67, 33, 41), (90, 300), (96, 64, 64), (77, 5, 9, 11), (52, 583, 587)], ids=str)
def test_reports_have_the_same_bits(client, shape):
    f = new_random(shape)
    f[tuple(RANDOM.integers(0, n) for n in shape)] = numpy.nan
    params = {"accuracy": 2, "batch": max(len(shape) - 3, 0)}
    report = same_report(client, "laplacian", f, **params)
    assert report["nan"] > 1 and report["error"]
    if f.size < 1e6:
        same_report(client, "diffusion", f, cfl=0.4, steps=13, **params)
        same_report(client, "derivative", f.astype("f8"), axis=params["batch"], boundary="one-sided", **params)


def test_reports_of_every_kind_of_job(client):
    f, k = new_random((70, 18, 20), "f8"), numpy.exp(new_random((70, 18, 20), "f8"))
    vector = {axis: new_random((70, 18, 20)) for axis in "xyz"}
    assert sorted(same_report(client, "gradient", f)) == ["x", "y", "z"]
    same_report(client, "curl", vector, accuracy=6)
    same_report(client, "divergence", vector)
    same_report(client, "diffusion", f, cfl=0.4, steps=5)
    same_report(client, "diffusion", f, cfl=0.4, steps=40, accuracy=2, boundary={"z": {"value": 0}}, diffusivity=k, source=k)
    same_report(client, "diffusion", f, cfl=0.4, steps=5, accuracy=4, scheme="rk4")
    same_report(client, "diffusion", f, dt=0.4, steps=5, scheme="adi", batch=1)
    same_report(client, "diffusion", f, dt=0.4, steps=5, scheme="adi")
    assert same_report(client, "stencil", f, offsets=[[0, 0, 0], [2, 0, 1]], weights=[1, 2], steps=3)["error"] is None
    place, taken = Region.holding(client, f).place(like=f), Region(f.nbytes).registered(client)
    there = client.call("laplacian", f=place, out=taken.place(), distribute=True, report=True)
    assert there["report"] == client.call("laplacian", f=f, report=True)["report"]
    field = distribute(client, f)
    jobs = [(dict(accuracy=accuracy, boundary=boundary, report=True), given)
            for accuracy in (2, 8) for boundary in ("periodic", "mirror") for given in (field, f)]
    sent = [client.send("laplacian", f=given, distribute=True, **params) for params, given in jobs]
    for job, (params, _) in zip(sent, jobs):
        assert client.recv(job)["report"] == client.call("laplacian", f=f, placement=FIRST, **params)["report"]


def test_a_report_whose_blocks_reach_far(client):
    """Beyond a cut they reach over the ghost planes, over all of the next subdomain, and to the end of the last one."""
    k = numpy.exp(new_random((64, 8, 5)))
    same_report(client, "laplacian", new_random((64, 50)))
    same_report(client, "diffusion", k, diffusivity=k, cfl=0.4, steps=20, accuracy=2, boundary={"x": {"value": k[:, :, 0]}, "z": "mirror"})
    same_report(client, "diffusion", new_random((900, 7), "f8"), dt=0.4, steps=5, scheme="adi", boundary={"y": "mirror"})
    same_report(client, "derivative", new_random((300, 40)), axis="x", batch=1)
    same_report(client, "diffusion", new_random((64, 500)), scheme="rk4", cfl=0.5, steps=2)  # estimated at accuracy 10
    for points in (60, 5000, 6 * 4096 * 5, 6 * 4096 * 5 + 77):
        same_report(client, "laplacian", new_random(points))


def same_probes(client, f, count, **params):
    """Values at random points, the corners among them."""
    axes = f.ndim - params.get("batch", 0)
    shape = numpy.array([f[..., *[0] * axes].size, *f.shape[f.ndim - axes:]] if axes < f.ndim else f.shape)
    probes = RANDOM.integers(-shape, shape, (count + 2, len(shape)))
    probes[-2:] = 0 * shape, shape - 1
    expected = client.call("diffusion", f=f, placement=FIRST, probes=probes, **params)
    got = client.call("diffusion", f=f, distribute=True, probes=probes, **params)
    assert bits(got["out"]) == bits(expected["out"])
    assert got["probes"].shape == expected["probes"].shape == (params["steps"] + 1, count + 2)
    assert got["probes"].tobytes() == expected["probes"].tobytes()


@pytest.mark.parametrize("count", [0, 1, 30, 1000])
def test_probes_have_the_same_values(client, count):
    """They are gathered many rows at a time, from members that have none as well."""
    f = new_random((67, 9, 70))
    same_probes(client, f, count, steps=1, cfl=0.4)
    same_probes(client, f, count, steps=70, cfl=0.4, accuracy=2, boundary={"z": {"value": 0.5}})
    same_probes(client, f.astype("f8"), count, steps=9, cfl=0.4, scheme="rk4", boundary="mirror")
    same_probes(client, f, count, steps=20, cfl=0.4, accuracy=2, diffusivity=numpy.exp(f), source=f, report=True,
                boundary={"z": {"halo": 0.5}})
    same_probes(client, new_random((70, 2, 5, 6)), count, steps=20, dt=0.4, scheme="adi", batch=2)
    same_probes(client, f, count, steps=9, dt=0.4, scheme="adi", boundary={"z": {"value": 0.5}})
    same_probes(client, new_random(80), count, steps=2000, cfl=0.4)
    low = numpy.array([[k % 20, k % 9, 5] for k in range(count + 1)])  # of the first member
    values = [client.call("diffusion", f=f, probes=low, steps=20, cfl=0.4, **where)["probes"].tobytes()
              for where in ({"distribute": True}, {"placement": FIRST})]
    assert values[0] == values[1]


def test_probes_of_several_jobs_at_once(client):
    """They take slabs from each other, and some are cancelled meanwhile."""
    f = new_random((64, 9, 11))
    params = {"f": f, "probes": numpy.array([[k % 64, k % 9, k % 11] for k in range(1000)]), "steps": 500, "cfl": 0.4, "accuracy": 2}
    expected = client.call("diffusion", placement=FIRST, **params)["probes"].tobytes()
    sent = [client.send("diffusion", distribute=True, **params) for _ in range(6)]
    for job in sent[::2]:
        client.call("cancel", msgid=job)
    for job in sent:
        error, result = client.outcome(job)
        assert error.code == "CANCELLED" and job in sent[::2] if error else result["probes"].tobytes() == expected


def test_one_device_reads_what_is_distributed_for_a_thin_field(client):
    """A face's numbers, or the field of another op."""
    thin, face = new_random((6, 60, 8)), new_random((60, 8))
    expected = client.out("laplacian", f=thin, accuracy=2, boundary={"z": {"value": face}})
    assert bits(client.out("laplacian", f=thin, accuracy=2, boundary={"z": {"value": distribute(client, face)}})) == bits(expected)
    ops = [{"op": "laplacian", "f": distribute(client, face), "out": "a"}, {"op": "laplacian", "f": thin, "out": "b"}]
    got = client.out("chain", ops=ops, out={"a": "inline", "b": "inline"})
    assert bits(got) == bits({"a": client.out("laplacian", f=face), "b": client.out("laplacian", f=thin)})


def test_one_device_reads_a_distributed_field_where_it_is_named(client):
    f = new_random((64, 6, 10))
    field = distribute(client, f)
    assert bits(client.out("laplacian", f=field, placement=FIRST)) == bits(client.out("laplacian", f=f))
    assert client.refused("laplacian", f=field, distribute=True, placement=FIRST).parameter == "distribute"


@pytest.mark.parametrize("shape", [(30, 40), (3, 5), (1, 5000), (2, 3, 4)])
def test_a_thin_field_is_not_split(client, shape):
    field = distribute(client, wave(*shape))
    client.call("put", f=wave(*shape), placement=GROUP)
    assert GROUP not in [f["device"] for f in client.call("list")["fields"]]
    assert client.out("laplacian", f=field, distribute=True, accuracy=2, boundary="periodic").shape == shape


def test_a_small_kappa_is_cut_as_its_field_is(client):
    """It comes inside of the message, without a payload of its own."""
    f = new_random((52, 2), "f8")
    same(client, "diffusion", f, diffusivity=numpy.exp(f), source=f, accuracy=2, cfl=0.3, steps=5)
    k = numpy.exp(f)
    assert client.out("diffusion", f=f, diffusivity=k, accuracy=2, cfl=0.3, steps=5, distribute=True).tobytes() == \
        client.out("diffusion", f=f, diffusivity=k, accuracy=2, cfl=0.3, steps=5).tobytes()


def test_readers_of_a_field_do_not_wait_for_each_other(client):
    f, k = new_random((64, 8)), distribute(client, numpy.exp(new_random((64, 8))))
    job = client.send("diffusion", f=f, diffusivity=k, distribute=True, **ENDLESS)
    for accuracy in (2, 8):
        assert client.out("laplacian", f=k, accuracy=accuracy).shape == (64, 8)
    client.cancel(job)


def test_fields_of_one_device_and_of_the_group_go_together(client):
    f, k = new_random((64, 9, 9)), numpy.exp(new_random((64, 9, 9)))
    expected = client.out("laplacian", f=f, coefficient=k, accuracy=2).tobytes()
    here = {"field": client.call("put", f=k, placement=FIRST)["field"]}
    there = distribute(client, f)
    assert client.out("laplacian", f=there, coefficient=here, accuracy=2).tobytes() == expected
    assert client.out("laplacian", f=f, coefficient=here, accuracy=2, distribute=True).tobytes() == expected
    second = client.call("info")["devices"][1]["name"]
    assert client.out("laplacian", f=there, coefficient=k, accuracy=2, placement=second).tobytes() == expected


def test_dry_run_names_the_group(client):
    f = wave(64, 30, 30)
    dry = client.call("diffusion", f=f, distribute=True, dry_run=True, cfl=0.4, steps=10)
    assert dry["device"] == GROUP and dry["bytes"] >= 2 * f.nbytes


def test_the_command_distributes(daemon, tmp_path):
    f = new_random((64, 12, 14))
    numpy.save(tmp_path / "f.npy", f)
    for name, options in (("one", ["--placement", FIRST]), ("all", ["--distribute"])):
        subprocess.run([binary("fdclient"), "--connect", daemon.path, "submit", str(tmp_path / "f.npy"), "--op", "laplacian",
                        "-o", str(tmp_path / f"{name}.npy"), *options], check=True, timeout=60)
    assert numpy.load(tmp_path / "all.npy").tobytes() == numpy.load(tmp_path / "one.npy").tobytes()
    put = subprocess.run([binary("fdclient"), "--connect", daemon.path, "put", str(tmp_path / "f.npy"), "--distribute"],
                         check=True, timeout=60, capture_output=True)
    with daemon.client() as client:
        [field] = client.call("list")["fields"]
        assert (field["field"], field["device"]) == (int(put.stdout), GROUP)
        client.free(field["field"])


def test_arrays_come_from_regions_and_go_there(client):
    """Subdomains begin at any byte of them."""
    f = new_random((67, 9, 11))
    place, taken = Region.holding(client, f).place(like=f), Region(2 * f.nbytes).registered(client)

    def result(method, **params):
        client.call(method, out=taken.place(16), **params)
        return taken.array(f.dtype, f.shape, 16).tobytes()

    field = {"field": client.call("put", f=place, distribute=True)["field"]}
    assert [f["device"] for f in client.call("list")["fields"]] == [GROUP]
    assert result("get", field=field["field"]) == f.tobytes()
    for params in ({"accuracy": 2}, {"accuracy": 8}):
        expected = client.out("laplacian", f=f, **params).tobytes()
        assert result("laplacian", f=place, distribute=True, **params) == expected
        assert result("laplacian", f=field, **params) == expected
    steps = {"steps": 30, "cfl": 0.4}
    assert result("diffusion", f=place, distribute=True, **steps) == client.out("diffusion", f=f, **steps).tobytes()
    chain = [{"op": "laplacian", "f": place, "out": "l"}, {"op": "derivative", "axis": "z", "f": "l"}]
    assert client.out("chain", ops=chain, distribute=True).tobytes() == client.out("chain", ops=chain).tobytes()
    kappa = numpy.exp(f)
    k = distribute(client, kappa)
    for dt in ({"dt": 1e-4}, {"cfl": 0.4}):
        expected = client.out("diffusion", f=f, diffusivity=kappa, steps=5, accuracy=2, **dt).tobytes()
        assert client.out("diffusion", f=place, diffusivity=k, steps=5, accuracy=2, distribute=True, **dt).tobytes() == expected
    assert client.get(k["field"]).tobytes() == kappa.tobytes()
    vector = {axis: place for axis in "xyz"}
    assert bits(client.out("curl", f=vector, distribute=True)) == bits(client.out("curl", f=vector))


def in_one_region(client, *arrays):
    """Places of arrays in a region, each at a multiple of 16 bytes that follows the one before."""
    ends = numpy.cumsum([16, *(-(-a.nbytes // 16) * 16 for a in arrays)]).tolist()
    region = Region(ends[-1]).registered(client, writable=True)
    for a, at in zip(arrays, ends):
        region.array(a.dtype, a.shape, at)[...] = a
    return [region.place(at, like=a) for a, at in zip(arrays, ends)]


def test_operands_come_from_regions(daemon, client):
    """Arrays that a user keeps in a region, and a field that they change from job to job."""
    f, source = new_random((67, 9, 11)), new_random((67, 9, 11))
    kappa = numpy.exp(f)
    at_f, at_k, at_s = in_one_region(client, f, kappa, source)
    for params in ({"dt": 1e-4, "steps": 30}, {"cfl": 0.4, "steps": 3}, {"cfl": 0.4, "steps": 9, "boundary": "mirror"}):
        expected = client.out("diffusion", f=f, diffusivity=kappa, source=source, accuracy=2, placement=FIRST, **params)
        for given in (f, at_f, distribute(client, f)):
            assert client.out("diffusion", f=given, diffusivity=at_k, source=at_s, accuracy=2, distribute=True,
                              **params).tobytes() == expected.tobytes()
    field = distribute(client, f)
    client.call("chain", ops=[{"op": "laplacian", "f": field, "coefficient": at_k, "accuracy": 2, "out": field}], repeat=3)
    for _ in range(3):
        f = client.out("laplacian", f=f, coefficient=kappa, accuracy=2, placement=FIRST)
    assert client.get(field["field"]).tobytes() == f.tobytes()
    stopped = [client.send("diffusion", f=field, diffusivity=at_k, source=at_s, **ENDLESS) for _ in range(4)]
    for job in stopped:
        client.cancel(job)
    eventually(lambda: daemon.stats()["queue"]["bytes"] == 0, "no bytes of jobs")


def test_boundary_numbers_are_arrays_over_faces(client):
    """Those of the axes that are not cut are cut with the field; those of z belong to its ends. They come inline, from
    regions and as fields of any device, whose own cuts may be others."""
    f = new_random((70, 64, 66), "f8")
    xs, ys, zs = (new_random(shape, "f8") for shape in [(70, 64), (70, 66), (64, 66)])
    params = {"cfl": 0.4, "steps": 21, "accuracy": 2}

    def sides(x, y, z):
        return {"x": {"value": x}, "y-": {"derivative": y}, "y+": {"value": y, "at": "face"}, "z-": {"value": z},
                "z+": {"mixed": 0.5, "const": z}}

    expected = client.out("diffusion", f=f, boundary=sides(xs, ys, zs), placement=FIRST, **params).tobytes()
    places = in_one_region(client, xs, ys, zs)
    here = [{"field": client.call("put", f=a, placement=client.call("info")["devices"][1]["name"])["field"]} for a in (xs, ys, zs)]
    there = [distribute(client, a) for a in (xs, ys, zs)]
    for faces in ((xs, ys, zs), places, here, there):
        for given in (f, distribute(client, f)):
            assert client.out("diffusion", f=given, boundary=sides(*faces), distribute=True, **params).tobytes() == expected
    square = new_random((66, 66), "f8")  # one array over faces of several axes, which are not cut alike
    cube = new_random((66, 66, 66), "f8")
    field = distribute(client, square)
    for boundary in ({"value": square}, {"x": {"value": square}, "y": "periodic", "z": {"value": square}}):
        expected = client.out("laplacian", f=cube, boundary=boundary, accuracy=4, placement=FIRST).tobytes()
        there = {"value": field} if "value" in boundary else boundary | {axis: {"value": field} for axis in "xz"}
        for one in (boundary, there):
            assert client.out("laplacian", f=cube, boundary=one, accuracy=4, distribute=True).tobytes() == expected


def test_arrays_over_faces_of_a_batch(client):
    """With the fields of the batch, which is cut, or the same for all."""
    f = new_random((70, 9, 11))
    for scheme in ("forward-euler", "adi"):
        for x, y in ((new_random((70, 9)), new_random(11)), (new_random(9), new_random((70, 11)))):
            params = {"boundary": {"x": {"value": x}, "y": {"derivative": y}}, "dt": 0.05, "steps": 3, "batch": 1, "accuracy": 2,
                      "scheme": scheme}
            expected = client.out("diffusion", f=f, placement=FIRST, **params).tobytes()
            assert client.out("diffusion", f=f, distribute=True, **params).tobytes() == expected


def test_a_distributed_field_is_not_exported(client):
    assert client.refused("export", field=distribute(client, wave(64, 8))["field"]).code == "UNSUPPORTED"


def test_jobs_of_one_field_at_once(client):
    """Each needs other ghost planes, and inputs arrive meanwhile."""
    f = new_random((64, 24, 30))
    field = distribute(client, f)
    jobs = [(dict(accuracy=accuracy, boundary=boundary, cfl=0.3, steps=steps), given)
            for accuracy in (2, 4, 8) for steps in (1, 5, 9) for boundary in ("periodic", "mirror") for given in (f, field)]
    sent = [client.send("diffusion", f=given, distribute=True, **params) for params, given in jobs]
    for job, (params, _) in zip(sent, jobs):
        assert client.recv(job)["out"].tobytes() == client.out("diffusion", f=f, placement=FIRST, **params).tobytes()


def test_rounds_that_a_device_refuses_wait_for_readers(daemon, client):
    """A diffusion whose steps no device does at once, of short rows, begins again without overlap, and needs more ghost planes
    of f than are there, while others read f."""
    f = new_random((800, 90, 15))
    params = dict(boundary="periodic", accuracy=2, cfl=0.3, steps=9)
    laplacian = client.out("laplacian", f=f, accuracy=8, placement=FIRST).tobytes()
    diffusion = client.out("diffusion", f=f, placement=FIRST, **params).tobytes()
    before = daemon.worker_pids()
    for _ in range(4):
        field = distribute(client, f)
        assert client.out("laplacian", f=field, accuracy=8).tobytes() == laplacian
        readers = [client.send("laplacian", f=field, accuracy=8) for _ in range(4)]
        job = client.send("diffusion", f=field, **params)
        readers += [client.send("laplacian", f=field, accuracy=8) for _ in range(4)]
        assert client.recv(job)["out"].tobytes() == diffusion
        assert all(client.recv(reader)["out"].tobytes() == laplacian for reader in readers)
        client.free(field["field"])
    assert daemon.worker_pids() == before


def test_a_field_that_is_overwritten_is_no_array_of_the_queue(daemon, client):
    f = wave(64, 24, 30)
    u, v = distribute(client, f), distribute(client, f)
    for steps in (1, 3, 4, 5, 8, 9, 12):
        client.call("diffusion", f=u, out=u, accuracy=2, cfl=0.3, steps=steps)
        client.call("diffusion", f=f, out=v, accuracy=2, cfl=0.3, steps=steps)
        eventually(lambda: daemon.stats()["queue"]["bytes"] == 0, "no bytes of jobs")


def test_jobs_of_one_kappa_at_once(client):
    """Some read f from a region before they exchange ghost planes of κ, which others read already."""
    f, kappa = new_random((64, 24, 30)), numpy.exp(new_random((64, 24, 30)))
    place, k = Region.holding(client, f).place(like=f), distribute(client, kappa)
    jobs = [dict(accuracy=2, boundary=boundary, diffusivity=k, steps=steps, **dt)
            for boundary in ("mirror", "periodic") for steps in (1, 7) for dt in ({"cfl": 0.3}, {"dt": 1e-4})]
    sent = [[client.send("diffusion", f=given, distribute=True, **job) for job in jobs for given in (place, f)]
            for _ in range(4)]
    laplacians = [client.send("laplacian", f=k, accuracy=2) for _ in range(8)]
    expected = [client.out("diffusion", f=f, placement=FIRST, **dict(job, diffusivity=kappa)).tobytes() for job in jobs]
    for one in sent:
        assert [client.recv(job)["out"].tobytes() for job in one] == [e for e in expected for _ in range(2)]
    for job in laplacians:
        assert client.recv(job)["out"].tobytes() == client.out("laplacian", f=kappa, accuracy=2).tobytes()


@pytest.mark.parametrize("endless", [ENDLESS, ENDLESS_ADI], ids=["euler", "adi"])
def test_cancel_and_hang_up(daemon, client, endless):
    field = distribute(client, wave(64, 64, 64))
    job = client.send("diffusion", f=field, out=field, progress=True, **endless)
    client.await_note()
    client.cancel(job)
    with daemon.client() as other:
        other.send("diffusion", f=wave(64, 64, 64), distribute=True, **endless)
        assert_serves(client)
    assert_serves(client, distribute=True)


def test_the_urgent_one_goes_first(client):
    """On each member a distributed job has its turn by its priority, like a job of that device alone."""
    running = client.send("diffusion", f=wave(64, 64), placement=FIRST, **ENDLESS)
    eventually(lambda: client.call("stats")["queue"]["running"] > 0, "a job that runs")
    work = 10 if sanitized() else 1  # so many times as long: a job that takes less than 20 ms would go beside others
    long = dict(steps=2000 // work, cfl=0.5, accuracy=2)
    f = distribute(client, wave(256 // work + 64, 96, 96))

    def comes_first():
        usual = {client.send("diffusion", f=wave(128, 128), placement=FIRST, **long) for _ in range(16)}
        urgent = client.send("diffusion", f=f, steps=14, cfl=0.3, accuracy=2, priority=100, out="field")
        ended = []
        for _ in range(17):
            msgid, error, result = client.recv_any()
            assert error is None
            ended.append(msgid)
            if msgid == urgent:
                client.free(result["out"]["field"])
        assert set(ended) == usual | {urgent}
        return ended.index(urgent) < 10  # some of the others may be with the worker each time that it needs a turn
    assert any(comes_first() for _ in range(3)), "the others may be done where one process is not run for a while"
    client.cancel(running)


def test_a_field_larger_than_a_device_lies_in_subdomains():
    with Daemon("--device-memory", 4 * MiB, device=TWO) as daemon, daemon.client() as client:
        f = new_random((288, 32, 128))  # 4.5 MiB; 2.75 MiB on each device, half a MiB of ghost planes
        field = {"field": client.call("put", f=f)["field"]}
        assert [f["device"] for f in client.call("list")["fields"]] == [GROUP]
        assert client.get(field["field"]).tobytes() == f.tobytes()
        assert client.call("list")["fields"][0]["bytes"] == (288 + 4 * 16) * 32 * 128 * 4
        small = client.put(wave(100, 100))
        assert {f["field"]: f["device"] for f in client.call("list")["fields"]}[small] != GROUP


@pytest.mark.parametrize("endless", [ENDLESS, ENDLESS_ADI], ids=["euler", "adi"])
@pytest.mark.parametrize("mailbox", ["0", "32M"])
@pytest.mark.parametrize("member", [0, 1])
def test_the_group_survives_its_members(member, mailbox, endless):
    with Daemon("--mailbox-bytes", mailbox, device=TWO) as daemon, daemon.client() as client:
        f = new_random((64, 64, 64))
        for _ in range(5):
            field, place = distribute(client, f), Region.holding(client, f).place(like=f)
            here = client.call("put", f=f, placement=FIRST if member else SECOND)["field"]
            job = client.send("diffusion", f=field, **endless)
            big = client.send("get", field=field["field"])
            read = client.send("laplacian", f=place, coefficient=place, boundary={"x": {"value": f[:, :, 0]}}, accuracy=2,
                               distribute=True)
            os.kill([d for d in daemon.info()["devices"] if d["name"] != GROUP][member]["pid"], signal.SIGKILL)
            assert client.error(job).code == "DEVICE_LOST"
            client.outcome(big)
            client.outcome(read)
            assert client.refused("get", field=field["field"]).code == "FIELD_LOST"
            assert client.get(here).tobytes() == f.tobytes()
            eventually(lambda: all(d["state"] == "ready" for d in daemon.info()["devices"]), "all workers")
            assert client.out("laplacian", f=f, distribute=True).tobytes() == client.out("laplacian", f=f).tobytes()
            client.free(field["field"], here)


def test_a_member_survives_the_other_in_the_first_round():
    """A member's worker ends when the edges of the first round are there; the other one still reads f."""
    with Daemon(device=TWO) as daemon, daemon.client() as client:
        f = new_random((100, 64, 64) if sanitized() else (400, 160, 160))  # no launch takes seconds
        for _ in range(3):
            field = distribute(client, f)
            first, second = daemon.worker_pids()
            job = client.send("diffusion", f=field, progress=True, boundary="periodic", **ENDLESS | {"steps": 10**7})
            client.await_note()
            client.notifications.clear()
            begun = time.monotonic()
            with stopped(second):  # it has yet to hear of what follows
                os.kill(first, signal.SIGKILL)
                assert client.error(job).code == "DEVICE_LOST"
            too_long = time.monotonic() - begun > 4  # it is taken for one that hangs
            eventually(lambda: all(d["state"] == "ready" for d in daemon.info()["devices"]), "all workers")
            client.free(field["field"])
            assert client.out("laplacian", f=f, distribute=True).tobytes() == client.out("laplacian", f=f).tobytes()
            assert too_long or daemon.worker_pids()[1] == second


def test_arrays_come_to_a_device_whose_worker_is_new():
    """They may have arrived on another device, and go through the mailbox that the worker has just opened."""
    f = new_random((160, 64, 64))
    kills, other = threading.Event(), []

    def puts(daemon):
        while not kills.is_set():
            with contextlib.suppress(FdError, ConnectionError, EOFError), Client(daemon.path) as client:
                for _ in range(8):
                    field = client.call("put", f=f, placement=FIRST)["field"]
                    if client.get(field).tobytes() != f.tobytes():
                        other.append(field)
                    client.free(field)

    with Daemon("--staging-bytes", 16 * MiB, "--mailbox-bytes", "32M", device=TWO) as daemon:
        threads = [threading.Thread(target=puts, args=[daemon]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(10):
            daemon.kill_worker()
            eventually(lambda: all(d["state"] == "ready" for d in daemon.info()["devices"]), "all workers")
            time.sleep(0.2)
        kills.set()
        for thread in threads:
            thread.join()
    assert not other

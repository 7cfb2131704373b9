"""Dry runs report the cost of a job; nothing is run or reserved."""

import numpy
import pytest

from fdtest import Daemon, MiB, Region, SYMBOL, assert_charged, eventually, wave


def described(*shape, dtype="<f4"):
    return {"nd": True, "type": dtype, "shape": list(shape)}


def dry_run(client, method, f, **params):
    return client.call(method, f=f, dry_run=True, **params)


def test_what_it_would_hold(no_fields_left, client):
    """The bytes are those charged to the job itself, for every form of arrays."""
    array = 64**3 * 4
    assert dry_run(client, "derivative", described(64, 64, 64), axis="x")["bytes"] == 2 * array
    assert dry_run(client, "derivative", wave(64, 64, 64), axis="x")["bytes"] == 2 * array
    assert dry_run(client, "gradient", described(64, 64, 64))["bytes"] == 4 * array
    assert dry_run(client, "derivative", described(64, 64, 64, dtype="<f8"), axis="x")["bytes"] == 4 * array
    # Several steps go to and fro; the job's own input serves for it.
    assert dry_run(client, "diffusion", described(64, 64, 64), steps=9, cfl=1)["bytes"] == 2 * array
    resident = {"field": client.put(wave(64, 64, 64))}
    assert dry_run(client, "derivative", resident, axis="x")["bytes"] == array
    assert dry_run(client, "laplacian", resident, out="field")["bytes"] == array
    assert dry_run(client, "laplacian", resident, out=resident)["bytes"] == array  # beside it, meanwhile
    assert dry_run(client, "diffusion", resident, steps=9, cfl=1)["bytes"] == 2 * array


@pytest.mark.parametrize("accuracy", [2, 4, 6, 8])
def test_the_largest_stable_step(unchanged, client, accuracy):
    answer = dry_run(client, "diffusion", described(40, 50), accuracy=accuracy, cfl=0.5,
                     spacing={"x": 0.1, "y": 0.2}, diffusivity=3)
    limit = 2 / (3 * SYMBOL[accuracy] * (1 / 0.1**2 + 1 / 0.2**2))
    assert answer["dt_max"] == pytest.approx(limit, rel=1e-14)
    assert answer["dt"] == pytest.approx(limit / 2, rel=1e-14)
    assert dry_run(client, "diffusion", described(40), dt=1, diffusivity=0)["dt_max"] is None
    assert "dt" not in dry_run(client, "laplacian", described(40))
    for step in {"dt": 0.25}, {"cfl": 0.5}:  # nobody has looked at κ
        answer = dry_run(client, "diffusion", described(40, 50), accuracy=accuracy, diffusivity=described(40, 50), **step)
        assert (answer["dt"], answer["dt_max"]) == (step.get("dt"), None)


@pytest.mark.parametrize("n", [16, 64])
def test_one_face_array_for_all_sides(client, n):
    f, face = wave(n, n, n), wave(n, n)
    need, *_ = assert_charged("laplacian", f=f, boundary={"value": face})
    assert dry_run(client, "laplacian", described(n, n, n), boundary={"value": described(n, n)})["bytes"] == need


def test_the_time_follows_what_jobs_have_taken(unchanged, client):
    """The first estimate is a guess; later ones follow the times of jobs."""
    f = wave(128, 128)
    for _ in range(20):
        client.call("diffusion", f=f, steps=200, cfl=0.5, accuracy=4)
    one = dry_run(client, "diffusion", f, steps=200, cfl=0.5, accuracy=4)
    assert one["device"] == client.call("info")["devices"][0]["name"]
    assert 0 < one["seconds"] < 60
    ten = dry_run(client, "diffusion", f, steps=2000, cfl=0.5, accuracy=4)
    assert ten["seconds"] == pytest.approx(10 * one["seconds"], rel=0.2)


def test_a_chain(no_fields_left, client):
    """All arrays of its ops at once, each of them once; the time of all rounds, the time of each op in one
    round and, for a diffusion, its step."""
    array = 64**3 * 4
    step = {"accuracy": 2, "steps": 9}
    ops = [{"op": "gradient", "f": described(64, 64, 64), "out": "g"},
           {"op": "divergence", "f": "g", "out": "l"},
           {"op": "diffusion", "f": "l", "cfl": 0.5} | step]
    answer = client.call("chain", ops=ops, dry_run=True)
    assert sorted(answer) == ["bytes", "device", "ops", "seconds"]
    assert answer["bytes"] == (1 + 3) * array + array + 2 * array  # steps go to and fro
    assert [sorted(op) for op in answer["ops"]] == [["seconds"], ["seconds"], ["dt", "dt_max", "seconds"]]
    assert answer["ops"][2]["dt"] == answer["ops"][2]["dt_max"] / 2 == pytest.approx(1 / 12)
    thousand = client.call("chain", ops=ops, dry_run=True, repeat=1000)
    each = sum(op["seconds"] for op in answer["ops"])
    assert thousand["bytes"] == answer["bytes"] and 0 < each < answer["seconds"]
    assert thousand["seconds"] - answer["seconds"] == pytest.approx(999 * each)
    resident = {"field": client.put(wave(64, 64, 64))}
    ops = [{"op": "laplacian", "f": resident, "out": "l"}, {"op": "diffusion", "f": "l", "dt": 0.1, "out": resident} | step]
    assert client.call("chain", ops=ops, dry_run=True)["bytes"] == 2 * array


def test_a_chain_has_room_in_what_it_would_hold():
    f = wave(64, 64, 64)
    ops = [{"op": "curl", "f": {"x": f, "y": f, "z": f}, "out": "c"},
           {"op": "diffusion", "f": "c.y", "cfl": 0.5, "steps": 2, "accuracy": 2, "source": f, "boundary": {"value": 2.0},
            "diffusivity": f * f}]
    _, answer, _ = assert_charged("chain", ops=ops)
    assert answer["out"].shape == f.shape


def test_nothing_is_run_or_held():
    with Daemon("--device-memory", 16 * MiB) as daemon, daemon.client() as client:
        before = client.call("stats")["totals"]
        assert dry_run(client, "laplacian", described(1024, 1024, 1024))["bytes"] == 2 * 4 * 1024**3
        assert dry_run(client, "laplacian", wave(64, 64))["bytes"] == 2 * 4 * 64 * 64
        ops = [{"op": "laplacian", "f": described(1024, 1024, 1024), "out": "l"}, {"op": "gradient", "f": "l"}]
        assert client.call("chain", ops=ops, dry_run=True)["bytes"] == 5 * 4 * 1024**3
        ops[0]["f"] = wave(64, 64)
        assert client.call("chain", ops=ops, dry_run=True, out="field")["bytes"] == 4 * 4 * 64 * 64
        after = client.call("stats")["totals"]
        assert after["done"] == before["done"]
        eventually(lambda: client.call("stats")["user"]["bytes"] == 0, "nothing on the device")


def test_it_is_refused_for_what_the_job_would_be(unchanged, client):
    """What needs a field or a region; test_refusals.py has the other refusals."""
    def refused(method, f, **params):
        return client.refused(method, f=f, dry_run=True, **params).what

    assert refused("laplacian", described(8), out={"field": 1}) == ("NOT_FOUND", "out")
    field = client.put(wave(8, 8))
    assert refused("gradient", described(8, 8), out={"x": {"field": field}, "y": {"field": field}}) == (
        "INVALID_ARGUMENT", "out y")
    step = {"dt": 0.1, "steps": 9}
    resident = {"field": field}
    assert refused("diffusion", described(8, 8), source=resident, out=resident, **step) == ("INVALID_ARGUMENT", "out")
    assert refused("diffusion", described(8, 8), probes=[[0, 0]], every=2, **step) == ("UNSUPPORTED", "probes")
    client.free(field)
    region, f = Region(MiB).registered(client), numpy.empty((256, 512), "f4")
    assert refused("laplacian", region.place(like=f), out=region.place(MiB // 4)) == ("INVALID_ARGUMENT", "out")
    assert dry_run(client, "laplacian", region.place(like=f), out=region.place(MiB // 2))["seconds"] > 0
    assert refused("gradient", f, out={"x": region.place(), "y": region.place()}) == ("INVALID_ARGUMENT", "out y")
    assert client.call("unregister", region=region.id) == {}
    assert client.refused("laplacian", f=described(8, 8)).what == ("INVALID_ARGUMENT", "f")


def test_a_freed_field_is_none(unchanged, client):
    field = client.call("put", f=numpy.zeros(8, "f4"))["field"]
    client.free(field)
    assert client.refused("laplacian", f={"field": field}, dry_run=True).code == "NOT_FOUND"

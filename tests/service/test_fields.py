"""Resident fields: ownership, charges and lifetime."""

import numpy
import pytest

from fdtest import (Client, Daemon, MiB, derivative, diffusion, eventually, laplacian, needs_root, settled, wave)

pytestmark = pytest.mark.usefixtures("unchanged")


def test_put_get_list_free(client):
    assert client.call("list") == {"fields": []}
    f = wave(8, 16)
    field = client.put(f)
    [entry] = client.call("list")["fields"]
    assert entry["field"] == field and entry["bytes"] == f.nbytes
    assert entry["type"] == "<f4" and entry["shape"] == [8, 16]
    assert client.get(field).tobytes() == f.tobytes()
    client.free(field)
    assert client.call("list") == {"fields": []}
    assert client.refused("get", field=field).what == ("NOT_FOUND", "field")


def test_all_connections_of_a_user_see_a_field(daemon, client):
    field = client.put(wave(64))
    with Client(daemon.path) as other:
        assert other.get(field).tobytes() == wave(64).tobytes()
    with Client(daemon.path) as other:
        other.free(field)
    assert client.call("list") == {"fields": []}


def test_operators_take_and_make_fields(client):
    f = wave(20, 24, 28, dtype="<f8")
    source = client.put(f)
    made = client.out("laplacian", f={"field": source}, out="field")
    assert made["shape"] == [20, 24, 28] and made["type"] == "<f8"
    numpy.testing.assert_allclose(client.get(made["field"]), laplacian(f), atol=1e-11)
    assert client.out("laplacian", f={"field": source}).tobytes() == client.get(made["field"]).tobytes()
    client.free(source, made["field"])


def test_overwriting_another_field(client):
    f = wave(64, 64)
    source, target = client.put(f), client.put(numpy.zeros_like(f))
    out = client.out("derivative", f={"field": source}, axis="y", out={"field": target})
    assert out["field"] == target
    numpy.testing.assert_allclose(client.get(target), derivative(f, 0), atol=1e-5)
    assert client.get(source).tobytes() == f.tobytes()
    client.free(source, target)


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_overwriting_the_input_itself(client, steps):
    f = wave(33, 65, dtype="<f8")
    field = client.put(f)
    in_place = {"f": {"field": field}, "out": {"field": field}}
    dt = client.call("diffusion", steps=steps, cfl=0.5, **in_place)["dt"]
    numpy.testing.assert_allclose(client.get(field), diffusion(f, steps, dt), atol=1e-12)
    client.call("derivative", axis="x", **in_place)
    numpy.testing.assert_allclose(client.get(field), derivative(diffusion(f, steps, dt)), atol=1e-12)
    client.free(field)


def test_jobs_on_one_field_keep_their_order(client):
    """Sent without waiting: each diffusion reads the result of the previous one."""
    f = wave(64, 64, dtype="<f8")
    field = client.put(f)
    jobs = [client.send("diffusion", f={"field": field}, out={"field": field}, steps=1, dt=0.05)
            for _ in range(50)]
    get = client.send("get", field=field)
    free = client.send("free", field=field)
    for job in jobs:
        client.recv(job)
    numpy.testing.assert_allclose(client.recv(get)["out"], diffusion(f, 50, 0.05), atol=1e-11)
    assert client.recv(free) == {}


def test_an_output_must_fit(client):
    target = client.put(wave(8, 8))
    for f in (wave(8, 9), wave(64), wave(8, 8, dtype="<f8")):
        refused = client.refused("laplacian", f=f, out={"field": target})
        assert refused.code == "INVALID_ARGUMENT" and refused.parameter == "out"
    assert client.get(target).tobytes() == wave(8, 8).tobytes()
    client.free(target)


def test_an_id_that_is_nobodys(client):
    for request in ({"method": "get", "field": 12345}, {"method": "free", "field": 2**64 - 1},
                    {"method": "laplacian", "f": {"field": 1}},
                    {"method": "laplacian", "f": wave(8), "out": {"field": 0}}):
        method = request.pop("method")
        refused = client.refused(method, **request)
        assert refused.code == "NOT_FOUND" and not refused.retryable


def test_ids_do_not_follow_each_other(client):
    fields = [client.put(wave(8)) for _ in range(64)]
    assert len(set(fields)) == 64
    gaps = [abs(b - a) for a, b in zip(fields, fields[1:])]
    assert min(gaps) > 2**20
    client.free(*fields)


def test_fields_outlive_their_connection(daemon):
    with Client(daemon.path) as first:
        field = first.put(wave(32))
    with Client(daemon.path) as second:
        assert second.get(field).tobytes() == wave(32).tobytes()
        second.free(field)


def test_list_and_stats_count_the_bytes(daemon, client):
    before = client.call("stats")["user"]
    fields = [client.put(wave(256, 256)) for _ in range(3)]
    user = client.call("stats")["user"]
    assert user["fields"] - before["fields"] == 3
    assert user["bytes"] - before["bytes"] == 3 * 256 * 256 * 4
    assert client.call("info")["devices"][0]["fields_bytes"] >= user["bytes"]
    assert len(client.call("list")["fields"]) == 3
    client.free(*fields)


def quota_story(client, quota, room):
    """Use the whole budget; one byte more is refused with `need` and `limit`."""
    fields = [client.put(wave(MiB // 4)) for _ in range(room)]
    for method, params in (("put", {"f": wave(MiB // 4)}), ("laplacian", {"f": {"field": fields[0]}, "out": "field"}),
                           ("laplacian", {"f": wave(MiB // 4)})):
        refused = client.refused(method, **params)
        assert refused.code == "OVER_BUDGET" and refused.retryable
        assert refused.need >= MiB and refused.limit <= quota
    # The stream went on behind the array that was dropped; and what is freed can be had again.
    client.free(fields.pop())
    fields.append(client.put(wave(MiB // 4)))
    client.free(*fields)
    numpy.testing.assert_allclose(client.out("derivative", f=wave(64)), derivative(wave(64)), atol=1e-5)


def test_a_users_quota():
    with Daemon("--user-bytes", 8 * MiB) as daemon:
        before = settled(daemon)
        with Client(daemon.path) as client:
            assert client.call("stats")["user"]["quota_bytes"] == 8 * MiB
            quota_story(client, 8 * MiB, 8)
        eventually(lambda: settled(daemon) == before, "as before")


def test_a_devices_memory():
    with Daemon("--device-memory", 8 * MiB) as daemon:
        before = settled(daemon)
        with Client(daemon.path) as client:
            quota_story(client, 7 * MiB, 7)  # the last eighth is for users who hold little
        eventually(lambda: settled(daemon) == before, "as before")


def test_an_array_that_never_fits_is_refused_at_its_header():
    with Daemon("--device-memory", 8 * MiB) as daemon, Client(daemon.path) as client:
        refused = client.refused("laplacian", f=numpy.zeros((64, 1024, 256), "<f4"))
        assert refused.code == "TOO_LARGE" and not refused.retryable
        assert refused.need >= 64 * MiB and refused.limit == 7 * MiB
        assert client.call("ping") == {}


@needs_root
def test_users_do_not_see_each_other():
    with Daemon("--mode", "0666", "--user-bytes", 4 * MiB) as daemon, Client(daemon.path) as client:
        mine = client.put(wave(3 * MiB // 4))

        def foreigner(other):
            before, stats = other.call("list")["fields"], other.call("stats")["user"]
            errors = [other.refused(method, **params) for method, params in (
                ("get", {"field": mine}), ("free", {"field": mine}), ("laplacian", {"f": {"field": mine}}),
                ("laplacian", {"f": wave(8), "out": {"field": mine}}), ("get", {"field": 1}))]
            theirs = other.put(wave(3 * MiB // 4))  # a quota of its own
            return (before, stats["fields"], stats["bytes"], len(other.call("list")["fields"]),
                    [(error.code, error.message.replace(str(mine), "1")) for error in errors], theirs)

        *counts, refusals, theirs = daemon.as_user(65534, foreigner)
        assert counts == [[], 0, 0, 1]
        assert {code for code, _ in refusals} == {"NOT_FOUND"}
        assert refusals[0] == refusals[-1], "a foreign id and an absent one must answer alike"
        assert client.refused("get", field=theirs).code == "NOT_FOUND"
        assert client.get(mine).tobytes() == wave(3 * MiB // 4).tobytes()


@needs_root
def test_one_user_leaves_connections_for_the_others():
    with Daemon("--max-connections", "16", "--mode", "0666") as daemon:
        mine = [daemon.client() for _ in range(40)]
        assert daemon.as_user(12345, lambda other: other.call("ping")) == {}
        for client in mine:
            client.close()

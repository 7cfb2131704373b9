"""Gradient, divergence and curl: vector fields are maps by axis, in and out, inline and resident."""

import numpy
import pytest

from fdtest import Client, Daemon, MiB, derivative, eventually, request_bytes, wave

def vector(*shape, dtype="<f4", axes="xyz"):
    return {axis: wave(*shape, dtype=dtype, seed=i) for i, axis in enumerate(axes)}


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
@pytest.mark.parametrize("shape", [(64,), (5, 64), (17, 18, 19), (3, 17, 18, 19), (40, 41, 42)])
def test_components_are_single_derivatives_to_the_bit(client, shape, dtype):
    """From a few bytes in the control message to several slabs."""
    axes = "xyz"[:min(len(shape), 3)]
    f = vector(*shape, dtype=dtype, axes=axes)
    d = {component: {axis: client.out("derivative", f=f[component], axis=axis, spacing=0.3, accuracy=6)
                     for axis in axes} for component in axes}
    common = {"spacing": 0.3, "accuracy": 6}
    out = client.out("gradient", f=f["x"], **common)
    assert list(out) == list(axes)
    for axis in axes:
        assert out[axis].tobytes() == d["x"][axis].tobytes()
    out = client.out("divergence", f=f, **common)
    expected = d["x"]["x"]
    for axis in axes[1:]:
        expected = expected + d[axis][axis]
    assert out.dtype == f["x"].dtype and out.tobytes() == expected.tobytes()
    if len(axes) == 2:
        out = client.out("curl", f=f, **common)
        assert out.tobytes() == (d["y"]["x"] - d["x"]["y"]).tobytes()
    if len(axes) == 3:
        out = client.out("curl", f=f, **common)
        for axis, b, c in ("xyz", "yzx", "zxy"):
            assert out[axis].tobytes() == (d[c][b] - d[b][c]).tobytes()


def test_a_batch_of_planes(client):
    f = vector(5, 32, 33, axes="xy")
    out = client.out("curl", f=f, batch=1)
    slopes = client.out("gradient", f=f["x"], batch=1)
    for i in range(5):
        plane = {axis: component[i] for axis, component in f.items()}
        assert client.out("curl", f=plane).tobytes() == out[i].tobytes()
        assert client.out("gradient", f=plane["x"])["y"].tobytes() == slopes["y"][i].tobytes()


def test_the_order_of_the_map_means_nothing(client):
    f = vector(12, 13, 14)
    expected = client.out("curl", f=f)
    out = client.out("curl", f={axis: f[axis] for axis in "zxy"})
    for axis in "xyz":
        assert out[axis].tobytes() == expected[axis].tobytes()


def test_components_come_each_in_its_way(client):
    """Resident, in the control message, in slabs, as a list of bins; one field as two components."""
    large, small = wave(48, 64, dtype="<f8"), wave(9, 10, dtype="<f8")
    for f in (large, small):
        field = {"field": client.put(f)}
        half = f.nbytes // 2
        bins = {b"nd": True, b"type": "<f8", b"kind": b"", b"shape": list(f.shape),
                b"data": [f.tobytes()[:half], f.tobytes()[half:]]}
        expected = client.out("divergence", f={"x": f, "y": f}).tobytes()
        for x in (f, field, bins):
            for y in (f, field, bins):
                assert client.out("divergence", f={"x": x, "y": y}).tobytes() == expected
        client.free(field["field"])


def test_resident_results_in_new_fields_and_in_place(client, unchanged):
    f = vector(20, 21, 22)
    expected = client.out("curl", f=f)
    ids = {axis: {"field": client.put(component)} for axis, component in f.items()}
    other = {axis: {"field": client.put(numpy.zeros_like(component))} for axis, component in f.items()}
    made = client.out("curl", f=ids, out="field")
    given = client.out("curl", f=ids, out=other)
    assert {axis: field["field"] for axis, field in given.items()} == {a: v["field"] for a, v in other.items()}
    assert made["y"]["shape"] == [20, 21, 22] and made["y"]["type"] == "<f4"
    # A component may overwrite what any component reads.
    turned = {"x": ids["y"], "y": ids["z"], "z": ids["x"]}
    client.out("curl", f=ids, out=turned)
    for axis in "xyz":
        for field in (made[axis], other[axis], turned[axis]):
            assert client.get(field["field"]).tobytes() == expected[axis].tobytes()
    # And a gradient its own input.
    slope = client.out("gradient", f=f["x"])
    place = {"x": other["x"], "y": {"field": client.put(f["x"])}, "z": other["z"]}
    client.out("gradient", f=place["y"], out=place)
    for axis in "xyz":
        assert client.get(place[axis]["field"]).tobytes() == slope[axis].tobytes()
    # A divergence into its own component.
    total = client.out("divergence", f=f)
    into = {axis: {"field": client.put(component)} for axis, component in f.items()}
    client.out("divergence", f=into, out=into["z"])
    assert client.get(into["z"]["field"]).tobytes() == total.tobytes()
    client.free(*(v[a]["field"] for v in (ids, other, made, into) for a in "xyz"), place["y"]["field"])


def test_requests_on_the_same_fields_keep_their_order(client):
    """A sequence of curls in place, all sent at once, compared with one after another."""
    f = vector(16, 17, 18, dtype="<f8")
    ids = {axis: {"field": client.put(component)} for axis, component in f.items()}
    sent = []
    for turn in range(6):
        sent.append(client.send("curl", f=ids, out=ids, accuracy=2))
        sent.append(client.send("gradient", f=ids["x"], accuracy=2))
    for turn in range(6):
        f = client.out("curl", f=f, accuracy=2)
        client.recv(sent[2 * turn])
        assert client.recv(sent[2 * turn + 1])["out"]["y"].tobytes() == client.out(
            "gradient", f=f["x"], accuracy=2)["y"].tobytes()
    for axis in "xyz":
        assert client.get(ids[axis]["field"]).tobytes() == f[axis].tobytes()
        client.free(ids[axis]["field"])


def test_results_larger_than_the_window_are_streamed(client, unchanged):
    """Three components over all slabs that a reply may hold, none of which begins at a slab's beginning."""
    n = 3 * 5 * MiB // 4 + 77
    f = numpy.stack([wave(n), wave(n, seed=3)])
    out = client.out("gradient", f=f)
    for axis, k in (("x", 1), ("y", 0)):
        numpy.testing.assert_allclose(out[axis], derivative(f, k), atol=1e-5)


F = wave(8, 9, 10)


def test_fields_that_do_not_fit_are_named(client, unchanged):
    field, other, gone = client.put(F), client.put(F[1:]), client.put(F)
    client.free(gone)
    place = {axis: {"field": client.put(F)} for axis in "xyz"}
    f = {"field": field}
    for code, parameter, method, params in [
            ("NOT_FOUND", "f y", "divergence", {"f": {"x": f, "y": {"field": gone}, "z": f}}),
            ("INVALID_ARGUMENT", "f z", "divergence", {"f": {"x": f, "y": f, "z": {"field": other}}}),
            ("NOT_FOUND", "out z", "gradient", {"f": f, "out": {**place, "z": {"field": gone}}}),
            ("INVALID_ARGUMENT", "out y", "gradient", {"f": f, "out": {**place, "y": {"field": other}}}),
            ("INVALID_ARGUMENT", "out z", "gradient", {"f": f, "out": {**place, "z": place["x"]}})]:
        assert client.refused(method, **params).what == (code, parameter)
    client.free(field, other, *(place[axis]["field"] for axis in "xyz"))


def test_a_hang_up_half_way_through_the_second_component(daemon, client, unchanged):
    f = wave(64, 128, 128)
    message = request_bytes(1, "curl", {"f": {"x": f, "y": f, "z": f}})
    for part in (len(message) // 2, len(message) - 10):
        with Client(daemon.path) as other:
            other.send_bytes(message[:part])


def test_a_lost_worker_takes_every_component(client, daemon):
    f = vector(20, 21, 22)
    ids = {axis: {"field": client.put(component)} for axis, component in f.items()}
    daemon.kill_worker()
    assert client.refused("curl", f=ids).what == ("FIELD_LOST", "f x")
    client.free(*(ids[axis]["field"] for axis in "xyz"))


def test_quotas_count_every_component():
    f = wave(64, 64, 64)
    with Daemon("--user-bytes", 5 * f.nbytes) as small, small.client() as client:
        assert sorted(client.out("gradient", f=f)) == ["x", "y", "z"]  # four arrays
        error = client.refused("curl", f={"x": f, "y": f, "z": f})  # six
        assert (error.code, error.retryable) == ("TOO_LARGE", False)  # however long one waits
        assert (error.need, error.limit) == (6 * f.nbytes, 5 * f.nbytes)
        eventually(lambda: client.call("stats")["user"]["bytes"] == 0, "nothing is held")
    # No id for some where there is not one for all.
    with Daemon("--max-fields", 2) as small, small.client() as client:
        assert client.refused("gradient", f=f, out="field").code == "OVER_BUDGET"
        assert client.call("list")["fields"] == []
        eventually(lambda: client.call("stats")["user"]["bytes"] == 0, "nothing is held")

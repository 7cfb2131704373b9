"""Reports: the statistics of a result, the ratio of its step to the limit, and the estimate of its error."""

import numpy
import pytest

from fdtest import MiB, Region, assert_charged, wave


def smooth(*shape, dtype="<f8"):
    """Periodic along every axis."""
    grids = numpy.meshgrid(*(2 * numpy.pi * numpy.arange(n) / n for n in shape), indexing="ij")
    return sum(numpy.exp(numpy.sin(grid + k)) for k, grid in enumerate(grids)).astype(dtype)


def spacing(n):
    return 2 * numpy.pi / n


def reported(client, method, f, **params):
    answer = client.call(method, f=f, report=True, **params)
    return answer["report"], answer["out"]


def assert_about(report, out, rel=1e-12):
    """The report's statistics of the values."""
    out = out.astype("f8")
    assert report["nan"] == numpy.isnan(out).sum()
    assert (report["min"], report["max"]) == (numpy.nanmin(out), numpy.nanmax(out))
    assert report["mean"] == pytest.approx(numpy.nanmean(out), rel=rel, abs=1e-12)


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
def test_the_values(unchanged, client, dtype):
    f = wave(3, 70, 90, dtype=dtype)
    plain = client.out("laplacian", f=f, accuracy=4)
    report, out = reported(client, "laplacian", f, accuracy=4)
    assert numpy.array_equal(out, plain)
    assert_about(report, out)
    assert report["stability"] is None
    f[1, 2, 3] = numpy.nan
    f[2, 60, 80] = numpy.inf
    report, out = reported(client, "laplacian", f, accuracy=2)
    assert report["nan"] == numpy.isnan(out).sum() > 5
    assert (report["min"], report["max"]) == (numpy.nanmin(out), numpy.nanmax(out))


def test_nothing_but_nan(unchanged, client):
    report, _ = reported(client, "laplacian", numpy.full((5, 4), numpy.nan), accuracy=2)
    assert report == {"min": None, "max": None, "mean": None, "nan": 20, "stability": None, "error": None}


def test_the_error_is_one_of_space(unchanged, client):
    """It excludes the error of forward Euler's steps, which two runs with different steps show."""
    u = smooth(64)
    params = {"accuracy": 8, "spacing": spacing(64)}
    report, coarse = reported(client, "diffusion", u, dt=1e-3, steps=100, **params)
    fine = client.out("diffusion", f=u, dt=5e-4, steps=200, **params)
    in_time = 2 * numpy.abs(coarse - fine).max()
    assert 0 < report["error"]["max"] < in_time / 100


@pytest.mark.parametrize("method", ["derivative", "laplacian"])
@pytest.mark.parametrize("accuracy", [2, 4, 6])
def test_the_error_is_that_of_the_next_accuracy(unchanged, client, method, accuracy):
    f = smooth(40, 50)
    params = {"accuracy": accuracy, "spacing": {"x": spacing(50), "y": spacing(40)}}
    if method == "derivative":
        params["axis"] = "x"
    report, out = reported(client, method, f, **params)
    better = client.out(method, f=f, **params | {"accuracy": accuracy + 2})
    distance = numpy.abs(out - better)
    assert report["error"]["max"] == distance.max() > 0
    assert report["error"]["rms"] == pytest.approx(numpy.sqrt((distance**2).mean()), rel=1e-12)


def test_beyond_what_is_offered(unchanged, client):
    """Accuracy 8 is compared with 10, which exists only for this purpose."""
    f = wave(60, 70, dtype="<f8")
    report, out = reported(client, "derivative", f, axis="x", accuracy=8)
    weights = [5 / 6, -5 / 21, 5 / 84, -5 / 504, 1 / 1260]
    better = sum(w * (numpy.roll(f, -m, 1) - numpy.roll(f, m, 1)) for m, w in enumerate(weights, 1))
    assert report["error"]["max"] == pytest.approx(numpy.abs(out - better).max(), rel=1e-3)
    assert client.refused("derivative", f=f, axis="x", accuracy=10).what == ("INVALID_ARGUMENT", "accuracy")


def test_div_k_grad_beyond_what_is_offered(unchanged, client):
    f, k = smooth(60), numpy.exp(numpy.sin(2 * smooth(60)))
    table = ((150, 2750, 15500, 61500, 46100, 46100, 61500, 15500, 2750, 150),
             (-400, -4500, -22000, -27100, 72000, -27100, -22000, -4500, -400),
             (600, 5250, 10650, -13500, -13500, 10650, 5250, 600),
             (-600, -2525, 2000, 1500, 2000, -2525, -600), (274, -150, -100, -100, -150, 274))
    better = sum(
        c / 151200 * (numpy.roll(k, -s * l) * (numpy.roll(f, -s * m) - f))
        for m, row in enumerate(table, 1) for l, c in enumerate(row, m - 5) for s in (1, -1))
    report, out = reported(client, "laplacian", f, coefficient=k)
    assert report["error"]["max"] == pytest.approx(numpy.abs(out - better).max(), rel=1e-3)
    report, _ = reported(client, "diffusion", f, diffusivity=k, steps=3, cfl=0.5)
    assert 0 < report["error"]["max"] < 1e-2
    assert client.refused("laplacian", f=f, coefficient=k, accuracy=10).what == ("INVALID_ARGUMENT", "accuracy")


def test_with_probes(unchanged, client):
    f = wave(30, 40)
    params = {"steps": 4, "cfl": 0.5, "accuracy": 2}
    both = client.call("diffusion", f=f, probes=[[3, 4]], report=True, **params)
    assert both["report"] == client.call("diffusion", f=f, report=True, **params)["report"]
    assert numpy.array_equal(both["probes"], client.call("diffusion", f=f, probes=[[3, 4]], **params)["probes"])


def test_it_tells_the_order_of_the_true_error(unchanged, client):
    """On a grid twice as fine it decreases like the true error."""
    errors = []
    for n in (24, 48):
        x = 2 * numpy.pi * numpy.arange(n) / n
        report, out = reported(client, "derivative", numpy.exp(numpy.sin(x)), accuracy=4, spacing=spacing(n))
        true = numpy.abs(out - numpy.cos(x) * numpy.exp(numpy.sin(x))).max()
        errors.append(report["error"]["max"])
        assert 0.5 < report["error"]["max"] / true < 2
    assert 3.5 < numpy.log2(errors[0] / errors[1]) < 4.5


@pytest.mark.parametrize("out", ["inline", "field"])
def test_a_vector_has_one_for_each_component(unchanged, client, out):
    f = smooth(20, 30, 40)
    answer = client.call("gradient", f=f, accuracy=2, out=out, report=True)
    assert list(answer["report"]) == ["x", "y", "z"]
    better = client.out("gradient", f=f, accuracy=4)
    for axis, report in answer["report"].items():
        component = answer["out"][axis]
        if out == "field":
            field = component["field"]
            component = client.get(field)
            client.free(field)
        assert_about(report, component)
        assert report["error"]["max"] == numpy.abs(component - better[axis]).max() > 0


@pytest.mark.parametrize("accuracy", [2, 4, 6])
def test_diffusion(unchanged, client, accuracy):
    """The stability number, and the error of the rate at the end, times the duration."""
    f = smooth(48, 40)
    params = {"steps": 20, "cfl": 0.5, "spacing": spacing(40), "accuracy": accuracy}
    answer = client.call("diffusion", f=f, report=True, **params)
    out, report = answer["out"], answer["report"]
    assert numpy.array_equal(out, client.out("diffusion", f=f, **params))
    assert_about(report, out)
    assert report["stability"] == pytest.approx(0.5, rel=1e-12)
    one = {"steps": 1, "dt": answer["dt"], "spacing": spacing(40), "allow_unstable": True}
    rates = [client.out("diffusion", f=out, accuracy=p, **one) for p in (accuracy, accuracy + 2)]
    distance = numpy.abs(rates[0] - rates[1])
    assert report["error"]["max"] == pytest.approx(20 * distance.max(), rel=1e-12)
    assert report["error"]["max"] > 0
    assert report["error"]["rms"] == pytest.approx(20 * numpy.sqrt((distance**2).mean()), rel=1e-12)


@pytest.mark.parametrize("boundary", ["periodic", {"value": 0}, {"derivative": 0}, {"halo": 1}])
def test_diffusion_with_every_boundary(unchanged, client, boundary):
    f = wave(40, 41)
    params = {"steps": 5, "cfl": 0.9, "accuracy": 4, "boundary": boundary}
    report, out = reported(client, "diffusion", f, **params)
    assert numpy.array_equal(out, client.out("diffusion", f=f, **params))
    assert_about(report, out)
    assert report["error"]["max"] > 0


def test_no_room_for_the_next_accuracy(unchanged, client):
    """One-sided rows of the next accuracy need more points than the axis has: there is no estimate."""
    report, out = reported(client, "derivative", wave(6), accuracy=4, boundary="one-sided")
    assert_about(report, out)
    assert report["error"] is None


def test_every_way_out(no_fields_left, client):
    f = wave(30, 40)
    expected, plain = reported(client, "laplacian", f, accuracy=4)
    region = Region.holding(client, f, 2 * MiB)
    report, _ = reported(client, "laplacian", region.place(like=f), accuracy=4, out=region.place(MiB))
    assert report == expected
    assert numpy.array_equal(region.array("<f4", f.shape, MiB), plain)
    field = client.put(f)
    for out in ({"field": field}, "field"):
        report, place = reported(client, "laplacian", f, accuracy=4, out=out)
        assert report == expected
        assert numpy.array_equal(client.get(place["field"]), plain)
    overwritten, _ = reported(client, "laplacian", {"field": client.put(f)}, accuracy=4, out={"field": field})
    assert overwritten == expected
    client.call("unregister", region=region.id)


def test_in_place(unchanged, client):
    f = wave(30, 40)
    field = client.put(f)
    for method, params in (("laplacian", {}), ("diffusion", {"steps": 4, "cfl": 0.5})):
        expected, plain = reported(client, method, client.get(field), accuracy=4, **params)
        report, _ = reported(client, method, {"field": field}, accuracy=4, out={"field": field}, **params)
        assert report == expected
        assert numpy.array_equal(client.get(field), plain)
    client.free(field)


def test_its_arrays_are_charged(client):
    """And a dry run says so."""
    f = wave(256, 256)
    for method, params in (("laplacian", {"accuracy": 4}), ("diffusion", {"accuracy": 4, "steps": 4, "cfl": 0.5})):
        need, answer, _ = assert_charged(method, f=f, report=True, **params)
        assert need > client.call(method, f=f, dry_run=True, **params)["bytes"]
        assert answer["report"]["nan"] == 0


def test_a_large_one(unchanged, client):
    """An array of more blocks than a block has elements."""
    f = wave(260, 260, 260)
    report, out = reported(client, "derivative", f, axis="z", accuracy=2)
    assert_about(report, out, rel=1e-9)
    assert report["error"]["max"] > 0

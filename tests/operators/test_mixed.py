"""Mixed derivatives and the Hessian: axis ["x", "y"] is ∂x of the rounded ∂y f, whose sides state the tangential
derivatives of the data that f's sides state."""

import itertools

import numpy as np
import pytest

import fdtest
import sides
from offered import ACCURACIES, DTYPES

PAIRS = list(itertools.permutations("xyz", 2))
SPACING = {"x": 0.75, "y": 1.25, "z": 0.5}
V = 0.75  # of mixed sides
KINDS = ["one-sided", *sides.MAPS, *(kind + at for kind in ("value", "derivative", "mixed", "curvature")
                                     for at in ("", " face"))]


def field(dtype, shape=(19, 21, 23), seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


def one_by_one(client, f, pair, inner, outer, **params):
    """The same by two requests."""
    slope = client.out("derivative", f=f, axis=pair[1], boundary=inner, **params)
    return client.out("derivative", f=slope, axis=pair[0], boundary=outer, **params)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_one_derivative_of_the_other(client, kind, dtype):
    f = field(dtype)
    for i, pair in enumerate(PAIRS):
        accuracy = ACCURACIES[i % len(ACCURACIES)]
        stated, tangential = ({a: sides.word(kind, number, V) for a in "xyz"} for number in (0.5, 0.0))
        inner = stated
        outer = {pair[0]: tangential[pair[0]]}
        both = client.out("derivative", f=f, axis=list(pair), boundary=stated, spacing=SPACING, accuracy=accuracy)
        assert both.tobytes() == one_by_one(client, f, pair, inner, outer, spacing=SPACING,
                                            accuracy=accuracy).tobytes(), (pair, accuracy)


@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_polynomials_are_exact(client, accuracy):
    """x^a y^b with a and b up to the accuracy, from the edges on, on uniform axes and by coordinates."""
    n = 15
    rng = np.random.default_rng(accuracy)
    for spacing in ({"x": 1 / n, "y": 1 / n}, {a: np.cumsum(rng.uniform(0.5, 1.5, n)) / n for a in "xy"}):
        x, y = (np.asarray(s) if np.ndim(s) else s * np.arange(n) for s in (spacing["x"], spacing["y"]))
        f = np.outer(y ** (accuracy - 1), x**accuracy)
        expected = np.outer((accuracy - 1) * y ** (accuracy - 2), accuracy * x ** (accuracy - 1))
        found = client.out("derivative", f=f, axis=["x", "y"], accuracy=accuracy, boundary="one-sided", spacing=spacing)
        assert np.abs(found - expected).max() <= 1e-7 * np.abs(expected).max()


def test_the_order_that_is_asked_for_is_seen(client):
    for accuracy in ACCURACIES:
        errors = []
        for n in (24, 48):
            x = 2 * np.pi * np.arange(n) / n
            f = np.exp(np.sin(x)[:, None] + np.cos(x)[None, :])
            expected = -f * np.cos(x)[:, None] * np.sin(x)[None, :]
            found = client.out("derivative", f=f, axis=["y", "x"], accuracy=accuracy, spacing=2 * np.pi / n)
            errors.append(np.abs(found - expected).max())
        assert np.log2(errors[0] / errors[1]) == pytest.approx(accuracy, abs=0.9)


def test_resident_fields_batches_and_endpoints(client):
    f = field("f8", (2, 3, 12, 13, 14))
    params = dict(spacing=SPACING, endpoint={"z": True}, accuracy=4)
    expected = np.stack([client.out("derivative", f=g, axis=["z", "x"], **params) for g in f.reshape(6, 12, 13, 14)])
    assert client.out("derivative", f=f, axis=["z", "x"], batch=2, **params).tobytes() == expected.tobytes()
    source = client.put(f)
    place = client.call("derivative", f={"field": source}, axis=["z", "x"], batch=2, out="field", **params)["out"]
    assert client.call("get", field=place["field"])["out"].tobytes() == expected.tobytes()
    client.call("derivative", f={"field": source}, axis=["z", "x"], batch=2, out={"field": source}, **params)
    assert client.call("get", field=source)["out"].tobytes() == expected.tobytes()


def test_a_dry_run_says_what_it_takes(client):
    f = field("f4", (32, 32))
    told = client.call("derivative", f=f, axis=["x", "y"], dry_run=True)
    assert told["bytes"] >= 3 * f.nbytes and len(told["ops"]) == 2
    given = client.put(f)  # no operator reads its own output
    told = client.call("derivative", f=f, axis=["x", "y"], dry_run=True, out={"field": given})
    assert told["bytes"] == 2 * f.nbytes


def test_the_result_may_take_the_place_of_f(client):
    f = field("f4", (130, 131))
    given = client.put(f)
    client.call("derivative", f={"field": given}, axis=["x", "y"], out={"field": given})
    expected = client.out("derivative", f=f, axis=["x", "y"])
    assert client.call("get", field=given)["out"].tobytes() == expected.tobytes()


def test_in_a_chain_it_is_two_derivatives(client):
    ops = [{"op": "derivative", "f": np.zeros((9, 9)), "axis": ["x", "y"]}]
    assert client.refused("chain", ops=ops).what == ("UNSUPPORTED", "ops 0 axis")


def second_derivatives(client, f, boundary, axes, **params):
    """The same one by one."""
    made = {}
    for a, b in itertools.combinations_with_replacement(axes, 2):
        order = dict(axis=a, order=2) if a == b else dict(axis=[a, b])
        made[a + b] = client.out("derivative", f=f, boundary=boundary, **order, **params)
    return made


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(31,), (17, 19), (13, 14, 15), (2, 13, 14, 15)])
def test_the_hessian_is_all_second_derivatives(client, shape, dtype):
    f = field(dtype, shape)
    axes = "xyz"[:len(shape)]
    for kind, accuracy in zip(["mirror", "one-sided", "value", "mixed face"], ACCURACIES):
        boundary = sides.word(kind, 0.5, V)
        params = dict(accuracy=accuracy, spacing={a: SPACING[a] for a in axes})
        expected = second_derivatives(client, f, boundary, axes, **params)
        found = client.out("hessian", f=f, boundary=boundary, **params)
        assert list(found) == list(expected)
        assert all(found[name].tobytes() == expected[name].tobytes() for name in expected), kind


def test_a_hessian_of_a_resident_field_in_a_batch_stays_resident(client):
    f = field("f4", (4, 20, 21))
    expected = second_derivatives(client, f, "periodic", "xy", batch=1)
    told = client.call("hessian", f={"field": client.put(f)}, batch=1, out="field")["out"]
    assert list(told) == ["xx", "xy", "yy"]
    for name, place in told.items():
        assert client.call("get", field=place["field"])["out"].tobytes() == expected[name].tobytes()


def test_a_hessian_of_coordinates(client):
    f = field("f8", (24, 25))
    rng = np.random.default_rng(5)
    params = dict(spacing={"x": np.cumsum(rng.uniform(0.5, 1.5, 25)), "y": np.cumsum(rng.uniform(0.5, 1.5, 24))},
                  accuracy=4)
    expected = second_derivatives(client, f, "one-sided", "xy", **params)
    found = client.out("hessian", f=f, boundary="one-sided", **params)
    assert all(found[name].tobytes() == expected[name].tobytes() for name in expected)


def test_a_dry_run_of_a_hessian(client):
    f = field("f4", (16, 17, 18))
    told = client.call("hessian", f=f, dry_run=True)
    assert told["bytes"] >= 9 * f.nbytes and len(told["ops"]) == 8


@pytest.mark.parametrize("method, params", [("hessian", {}), ("derivative", {"axis": ["z", "x"]})])
def test_f_in_a_region(client, method, params):
    f = field("f4", (33, 34, 35))
    region = fdtest.Region.holding(client, f)
    expected, found = (client.out(method, f=g, **params) for g in (f, region.place(like=f)))
    for name in expected if method == "hessian" else [...]:
        assert found[name].tobytes() == expected[name].tobytes()
    assert client.call("unregister", region=region.id) == {}

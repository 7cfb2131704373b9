"""A field diffusivity is measured on the device before the job is admitted, whatever its form."""

import numpy
import pytest

from fdtest import assert_charged, wave

SHAPE = (90, 100)  # beside the message
STEP = {"steps": 5, "dt": 3, "accuracy": 2, "scheme": "adi"}


def positive(*shape, dtype="<f8", seed=3):
    k = wave(*shape, dtype=dtype, seed=seed)
    return k - k.min() + k.dtype.type(0.1)


@pytest.mark.parametrize("shape", [(5, 6), SHAPE])
@pytest.mark.parametrize("bad", [-1, -1e-30, numpy.nan, numpy.inf])
def test_one_wrong_number(unchanged, client, shape, bad):
    f, k = wave(*shape, dtype="<f8"), positive(*shape)
    k[-1, -2] = bad
    assert client.refused("diffusion", f=f, diffusivity=k, **STEP).what == ("INVALID_ARGUMENT", "diffusivity")
    field, u = client.put(k), client.put(f)
    place = {"field": u}
    assert client.refused("diffusion", f=place, out=place, diffusivity={"field": field}, **STEP).what == (
        "INVALID_ARGUMENT", "diffusivity")
    assert numpy.array_equal(client.get(u), f)  # nothing was begun
    client.free(field, u)


def test_what_the_field_holds_by_then(unchanged, client):
    """A job before it in the queue may change it."""
    f, k = wave(*SHAPE, dtype="<f8"), positive(*SHAPE)
    field = client.put(-k)
    assert client.refused("diffusion", f=f, diffusivity={"field": field}, **STEP).what == ("INVALID_ARGUMENT", "diffusivity")
    msgid = client.send("stencil", f=k, offsets=[[0, 0]], weights=[1], out={"field": field})
    out = client.out("diffusion", f=f, diffusivity={"field": field}, **STEP)
    client.recv(msgid)
    assert numpy.array_equal(out, client.out("diffusion", f=f, diffusivity=k, **STEP))
    client.free(field)


def test_with_snapshots_and_a_report(unchanged, client):
    f, k = wave(*SHAPE, dtype="<f8"), positive(*SHAPE)
    client.notifications = []
    both = client.call("diffusion", f=f, diffusivity=k, every=2, report=True, **STEP)
    assert numpy.array_equal(both["out"], client.out("diffusion", f=f, diffusivity=k, **STEP))
    assert [about["step"] for _, about in client.notifications] == [2, 4]
    assert both["report"]["max"] == both["out"].max()


def test_its_arrays_are_charged():
    assert_charged("diffusion", f=wave(200, 200, dtype="<f8"), diffusivity=positive(200, 200), **STEP)

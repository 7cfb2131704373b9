"""A diffusion resumed from its resident field is bit-identical to an uninterrupted one."""

import itertools

import numpy
import pytest

from fdtest import wave

STEPS = 23
BOUNDARIES = {
    "periodic": "periodic",
    "value": {"value": 0.25},
    "no flux": {"derivative": 0},
    "halo": {"halo": 0.75},
    "mixed": {"x-": {"value": -1.5}, "x+": {"derivative": 0}, "*": {"halo": 1.0}},
}


def runs(client, u, pieces, **params):
    """The field after each piece, all computed in place."""
    field = client.call("put", f=u)["field"]
    try:
        for steps in pieces:
            client.call("diffusion", f={"field": field}, out={"field": field}, steps=steps, **params)
        return client.call("get", field=field)["out"]
    finally:
        client.free(field)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("accuracy", [2, 4, 6, 8])
def test_pieces_have_the_bits_of_the_whole(client, accuracy, boundary):
    random = numpy.random.default_rng(accuracy)
    for shape, dtype in itertools.product([(97,), (31, 45), (19, 23, 37)], ["f4", "f8"]):
        u = random.standard_normal(shape).astype(dtype)
        params = {"accuracy": accuracy, "boundary": BOUNDARIES[boundary], "cfl": 0.9, "diffusivity": 0.3}
        whole = client.out("diffusion", f=u, steps=STEPS, **params)
        for pieces in ([1] * STEPS, [8, 15], [15, 7, 1], [2, 3, 5, 13]):
            assert sum(pieces) == STEPS
            assert runs(client, u, pieces, **params).tobytes() == whole.tobytes(), (shape, dtype, pieces)
        assert numpy.isfinite(whole).all() and (whole != u).any()


def test_from_one_field_into_another(client):
    """A run that leaves its input unchanged, so that it can be repeated."""
    u = wave(40, 40)
    params = {"accuracy": 4, "cfl": 1.0}
    whole = client.out("diffusion", f=u, steps=9, **params)
    first = client.call("diffusion", f=u, out="field", steps=4, **params)["out"]["field"]
    try:
        for _ in range(2):
            second = client.out("diffusion", f={"field": first}, steps=5, **params)
            assert second.tobytes() == whole.tobytes()
    finally:
        client.free(first)

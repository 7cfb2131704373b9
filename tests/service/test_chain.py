"""Several operators in one request: the bits of single operators, and no intermediate result remains."""

import numpy
import pytest

from fdtest import Daemon, MiB, Region, eventually, wave

OPTIONS = ("--staging-bytes", 16 * MiB)

pytestmark = pytest.mark.usefixtures("no_fields_left")


def chain(client, *ops, **params):
    return client.call("chain", ops=list(ops), **params)["out"]


def refused(client, *ops, **params):
    """The error's code and parameter; a dry run is refused with the same."""
    error = client.refused("chain", ops=list(ops), **params)
    assert client.refused("chain", ops=list(ops), dry_run=True, **params).what == error.what
    return error.what


def op(name, f, out=None, **params):
    return {"op": name, "f": f} | ({} if out is None else {"out": out}) | params


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
def test_one_after_another(unchanged, client, dtype):
    f = wave(30, 40, 50, dtype=dtype)
    out = chain(client, op("gradient", f, "g", accuracy=4), op("divergence", "g", "l", accuracy=4),
                op("diffusion", "l", steps=7, cfl=0.5, accuracy=2))
    g = client.out("gradient", f=f, accuracy=4)
    expected = client.out("diffusion", f=client.out("divergence", f=g, accuracy=4), steps=7, cfl=0.5, accuracy=2)
    assert numpy.array_equal(out, expected)


def test_one_alone(unchanged, client):
    f = wave(30, 40)
    assert numpy.array_equal(chain(client, op("laplacian", f)), client.out("laplacian", f=f))
    vector = chain(client, op("gradient", f))
    for axis, component in client.out("gradient", f=f).items():
        assert numpy.array_equal(vector[axis], component)


def test_sixteen(unchanged, client):
    """A name may be given again: the latest holds."""
    f = wave(200)
    ops = [op("derivative", f, "u", accuracy=2)] + [op("derivative", "u", "u", accuracy=2) for _ in range(15)]
    out = chain(client, *ops)
    for _ in range(16):
        f = client.out("derivative", f=f, accuracy=2)
    assert numpy.array_equal(out, f)
    assert refused(client, *ops, op("derivative", "u")) == ("INVALID_ARGUMENT", "ops")


def test_components(unchanged, client):
    """Of a vector field by name, and a vector field of names and arrays."""
    f = wave(20, 30)
    g = client.out("gradient", f=f)
    out = chain(client, op("gradient", f, "g"), op("derivative", "g.y", "a", axis="x"),
                op("divergence", {"x": "g.x", "y": f}, "b"), op("curl", {"x": "a", "y": "b"}))
    a = client.out("derivative", f=g["y"], axis="x")
    b = client.out("divergence", f={"x": g["x"], "y": f})
    assert numpy.array_equal(out, client.out("curl", f={"x": a, "y": b}))


def test_the_answer_by_name(unchanged, client):
    f = wave(20, 30)
    out = chain(client, op("gradient", f, "g"), op("laplacian", f, "l"), op("divergence", "g", "d"),
                out={"g": "inline", "l": "field", "d": "inline"})
    assert sorted(out) == ["d", "g", "l"]
    g = client.out("gradient", f=f)
    assert all(numpy.array_equal(out["g"][axis], g[axis]) for axis in "xy")
    assert numpy.array_equal(out["d"], client.out("divergence", f=g))
    assert numpy.array_equal(client.get(out["l"]["field"]), client.out("laplacian", f=f))
    fields = chain(client, op("gradient", f, "g"), out="field")
    for axis in "xy":
        assert numpy.array_equal(client.get(fields[axis]["field"]), g[axis])
    assert client.call("stats")["user"]["bytes"] == 3 * f.nbytes


def test_an_answer_has_at_most_twelve_arrays(unchanged, client):
    f = wave(6, 7, 8)
    names = [f"g{i}" for i in range(5)]
    ops = [op("gradient", f, name) for name in names]
    assert len(chain(client, *ops, out=dict.fromkeys(names[:4], "inline"))) == 4
    assert refused(client, *ops, out=dict.fromkeys(names, "inline")) == ("INVALID_ARGUMENT", "out")


def test_fields(unchanged, client):
    """An op reads the result of an earlier one, and no other job runs in between."""
    f, h = wave(20, 30), wave(20, 30, seed=1)
    a, b = client.put(f), client.put(h)
    out = chain(client, op("laplacian", {"field": a}, {"field": b}), op("derivative", {"field": b}, {"field": a}, axis="y"),
                op("laplacian", {"field": a}))
    first = client.out("laplacian", f=f)
    second = client.out("derivative", f=first, axis="y")
    assert numpy.array_equal(client.get(b), first)
    assert numpy.array_equal(client.get(a), second)
    assert numpy.array_equal(out, client.out("laplacian", f=second))
    place = chain(client, op("laplacian", {"field": a}, {"field": a}))
    assert place["field"] == a
    assert numpy.array_equal(client.get(a), client.out("laplacian", f=second))


def test_regions(unchanged, client):
    f = wave(20, 30)
    region = Region.holding(client, f, MiB)
    out = chain(client, op("gradient", region.place(like=f), "g"),
                op("divergence", "g", region.place(512 << 10)))
    assert out["region"] == region.id and out["offset"] == 512 << 10
    g = client.out("gradient", f=f)
    assert numpy.array_equal(region.array("<f4", f.shape, 512 << 10), client.out("divergence", f=g))
    assert numpy.array_equal(region.array("<f4", f.shape), f)
    client.call("unregister", region=region.id)


@pytest.mark.parametrize("count", [1, 2, 3, 500])
def test_again_and_again(unchanged, client, count):
    """Fields keep the results of the previous round; inline arrays are unchanged in each round."""
    f = wave(20, 30)
    u = client.put(f)
    step = {"steps": 2, "dt": 0.05, "accuracy": 2}
    out = chain(client, op("diffusion", {"field": u}, {"field": u}, **step), op("laplacian", {"field": u}, "l"),
                op("diffusion", f, "same", **step), repeat=count, out={"l": "inline", "same": "inline"})
    expected = client.out("diffusion", f=f, **step | {"steps": 2 * count})
    assert numpy.array_equal(client.get(u), expected)
    assert numpy.array_equal(out["l"], client.out("laplacian", f=expected))
    assert numpy.array_equal(out["same"], client.out("diffusion", f=f, **step))


@pytest.mark.parametrize("length", [1, 2, 3, 5, 16])
@pytest.mark.parametrize("count", [1, 5, 63, 130])
def test_many_rounds_are_ahead(unchanged, client, length, count):
    """Of chains of every length, including incomplete last batches of rounds, with results in swapped memory."""
    f, g = wave(20, 30), wave(20, 30, seed=1)
    u, v = client.put(f), client.put(g)
    ops = [op("diffusion", {"field": field}, {"field": field}, steps=1 + i % 3, dt=0.01, accuracy=2)
           for i, field in zip(range(length), [u, u, v] * length)]
    chain(client, *ops, repeat=count)
    for field, given in (u, f), (v, g):
        steps = count * sum(link["steps"] for link in ops if link["f"] == {"field": field})
        expected = client.out("diffusion", f=given, steps=steps, dt=0.01, accuracy=2) if steps else given
        assert numpy.array_equal(client.get(field), expected)


@pytest.mark.parametrize("shape, count", [((12, 10, 14), 250), ((70, 80, 90), 20)])
def test_many_rounds_are_as_many_requests(unchanged, client, shape, count):
    """Four operators, one of them by tables and with an operand, and a field that is updated in each round."""
    f, s = wave(*shape), wave(*shape, seed=1)
    sides = {"x-": {"derivative": 0.5}, "x+": "symmetric"}
    u = {"field": client.put(f)}
    first = {"accuracy": 2, "spacing": 0.5}
    table = {"steps": 2, "dt": 0.01, "source": s, "boundary": sides, "accuracy": 2}
    step = {"dt": 1e-3, "accuracy": 4}
    out = chain(client, op("gradient", u, "g", **first), op("divergence", "g", "l", **first),
                op("diffusion", "l", "m", **table), op("diffusion", u, u, steps=1, **step),
                repeat=count, out={"m": "inline"})["m"]
    for _ in range(count):
        m = client.out("divergence", f=client.out("gradient", f=f, **first), **first)
        m = client.out("diffusion", f=m, **table)
        f = client.out("diffusion", f=f, steps=1, **step)
    assert numpy.array_equal(client.get(u["field"]), f)
    assert numpy.array_equal(out, m)


def test_lists_and_operands(unchanged, client):
    """Of an op as of an operator, sent with the message and beside it."""
    f, s = wave(100, 100), wave(100, 100, seed=2)
    stencil = {"offsets": [[0, 1], [0, -1], [1, 0]], "weights": [0.25, 0.25, 0.5], "steps": 3}
    step = {"steps": 3, "dt": 0.05, "source": s, "accuracy": 2}
    out = chain(client, op("stencil", f, "a", **stencil), op("diffusion", "a", **step))
    assert numpy.array_equal(out, client.out("diffusion", f=client.out("stencil", f=f, **stencil), **step))


def test_large_ones(unchanged, client):
    """Through the arena and the socket piece by piece, several arrays in one answer."""
    f = wave(6, 512, 512)
    out = chain(client, op("gradient", f, "g", accuracy=2), op("laplacian", f, "l", accuracy=2),
                out={"g": "inline", "l": "inline"})
    g = client.out("gradient", f=f, accuracy=2)
    assert all(numpy.array_equal(out["g"][axis], g[axis]) for axis in "xyz")
    assert numpy.array_equal(out["l"], client.out("laplacian", f=f, accuracy=2))


@pytest.mark.parametrize("scheme", ["forward-euler", "rk4", "adi"])
def test_a_diffusivity_that_is_a_field(unchanged, client, scheme):
    """Two of them, measured before the first round: the bits of the steps one by one."""
    f, k = wave(40, 30), 1 + wave(40, 30)**2
    resident = {"field": client.put(k)}
    u = client.put(f)
    accuracy = {"accuracy": 2, "scheme": scheme}
    step = {"dt": 2.0} if scheme == "adi" else {"cfl": 0.5}
    for _ in range(7):
        f = client.out("diffusion", f=f, diffusivity=k, **accuracy, **step)
        f = client.out("laplacian", f=f, accuracy=2)
        f = client.out("diffusion", f=f, diffusivity=2 * k, steps=3, **accuracy, **step)
    out = chain(client, op("diffusion", {"field": u}, "a", diffusivity=resident, **accuracy, **step),
                op("laplacian", "a", "b", accuracy=2),
                op("diffusion", "b", {"field": u}, diffusivity=2 * k, steps=3, **accuracy, **step), repeat=7)
    assert numpy.array_equal(client.get(u), f)
    assert out["field"] == u


def test_a_diffusivity_that_will_not_do(unchanged, client):
    """The refusal follows the measure; no operator has run then, and fields are unchanged."""
    f, k = wave(20, 30), numpy.full((20, 30), 2, "f4")
    u, written = client.put(f), client.put(k)
    first = op("diffusion", {"field": u}, {"field": u}, dt=0.1, accuracy=2)

    def answer(k, **step):
        ops = [first, op("diffusion", {"field": u}, diffusivity=k, accuracy=2, **step)]
        return client.refused("chain", ops=ops, repeat=3).what

    assert answer(k, dt=0.2) == ("UNSTABLE", "ops 1 dt")
    assert answer(k - 3, dt=0.1) == ("INVALID_ARGUMENT", "ops 1 diffusivity")
    k[7, 7] = numpy.nan
    assert answer(k, cfl=0.5) == ("INVALID_ARGUMENT", "ops 1 diffusivity")
    assert numpy.array_equal(client.get(u), f)
    for ops in ([op("diffusion", f, "a", diffusivity={"field": written}, cfl=0.5), op("laplacian", "a", {"field": written})],
                [op("diffusion", f, {"field": written}, diffusivity={"field": written}, cfl=0.5)]):
        assert refused(client, *ops) == ("INVALID_ARGUMENT", "ops 0 diffusivity")
    out = chain(client, op("laplacian", {"field": u}, {"field": written}), op("laplacian", {"field": u}, coefficient={"field": written}))
    assert numpy.array_equal(out, client.out("laplacian", f=f, coefficient=client.out("laplacian", f=f)))


def test_refusals_name_the_op(unchanged, client):
    f = wave(20, 30)
    good = op("laplacian", f, "l")
    for ops, code, parameter in [
            ([op("laplacian", "l")], "INVALID_ARGUMENT", "ops 0 f"),
            ([good, op("laplacian", "m")], "INVALID_ARGUMENT", "ops 1 f"),
            ([good, op("laplacian", "l.x")], "INVALID_ARGUMENT", "ops 1 f"),
            ([good, op("divergence", "l")], "INVALID_ARGUMENT", "ops 1 f"),
            ([op("gradient", f, "g"), op("laplacian", "g")], "INVALID_ARGUMENT", "ops 1 f"),
            ([op("gradient", f, "g"), op("laplacian", "g.z")], "INVALID_ARGUMENT", "ops 1 f"),
            ([good, op("laplacian", "l", accuracy=3)], "INVALID_ARGUMENT", "ops 1 accuracy"),
            ([good, op("laplacian", "l", order=2)], "INVALID_ARGUMENT", "ops 1 order"),
            ([good, op("derivative", "l", axis=["x", "y"])], "UNSUPPORTED", "ops 1 axis"),
            ([good, op("diffusion", "l", dt=1e9)], "UNSTABLE", "ops 1 dt"),
            ([good, op("laplacian", "l", report=True)], "INVALID_ARGUMENT", "ops 1 report"),
            ([good, op("diffusion", "l", cfl=0.5, every=2)], "INVALID_ARGUMENT", "ops 1 every"),
            ([good, {"op": "laplacian"}], "INVALID_ARGUMENT", "ops 1 f"),
            ([good, {"f": f}], "INVALID_ARGUMENT", "ops 1 op"),
            ([good, op("put", f)], "INVALID_ARGUMENT", "ops 1 op"),
            ([good, op("chain", f)], "INVALID_ARGUMENT", "ops 1 op"),
            ([op("laplacian", f, "field")], "INVALID_ARGUMENT", "ops 0 out"),
            ([op("laplacian", f, "a.b")], "INVALID_ARGUMENT", "ops 0 out"),
            ([op("laplacian", {"field": 12345})], "NOT_FOUND", "ops 0 f"),
            ([good, 7], "INVALID_ARGUMENT", "ops 1"),
            ([], "INVALID_ARGUMENT", "ops")]:
        assert refused(client, *ops) == (code, parameter), ops
    assert refused(client, op("frobnicate", f))[0] == "UNKNOWN_METHOD"
    assert refused(client, good, out="somewhere") == ("INVALID_ARGUMENT", "out")
    assert refused(client, good, out={"m": "inline"}) == ("INVALID_ARGUMENT", "out")
    assert refused(client, good, out={"l": "there"}) == ("INVALID_ARGUMENT", "out")
    assert refused(client, good, repeat=0) == ("INVALID_ARGUMENT", "repeat")
    assert refused(client, good, detach=True) == ("INVALID_ARGUMENT", "detach")
    assert refused(client, good, progress=True) == ("INVALID_ARGUMENT", "progress")


def test_an_f_of_names_and_arrays_has_all_of_each(unchanged, client):
    """Parameters beside a name are checked as everywhere else."""
    f = wave(20, 30)
    described = {"nd": True, "type": "<f4", "shape": [20, 30]}
    region = Region(MiB).registered(client)
    for axis, other in (("x", "y"), ("y", "x")):
        def ops(array):
            return [op("gradient", f, "g"), op("divergence", {axis: array, other: "g.y"})]
        assert refused(client, *ops(region.place())) == ("INVALID_ARGUMENT", f"ops 1 f {axis}")
        assert client.refused("chain", ops=ops(described)).what == ("INVALID_ARGUMENT", f"ops 1 f {axis}")
        assert client.call("chain", ops=ops(described), dry_run=True)["bytes"] == 5 * f.nbytes
    client.call("unregister", region=region.id)


def test_out_is_given_once(unchanged, client):
    """A field with an id gets no second id."""
    f = wave(20, 30)
    field = client.put(f)
    for first, second in (("l", {"field": field}), ({"field": field}, "l"), ("l", "m")):
        link = {"op": "laplacian", "f": f, "out": first, b"out": second}  # two keys in Python, one on the wire
        assert refused(client, link, out={"l": "field"}) == ("INVALID_ARGUMENT", "ops 0 out")
    assert refused(client, op("laplacian", f, "l"), out={"l": "field", b"l": "inline"}) == ("INVALID_ARGUMENT", "out")
    assert [entry["field"] for entry in client.call("list")["fields"]] == [field]


def test_f_is_given_once(unchanged, client):
    f = wave(20, 30)
    for first, second in (("l", f), (f, "l"), ("l", "l"), ({"x": "l", "y": f}, f)):
        link = {"op": "laplacian", "f": first, b"f": second}  # two keys in Python, one on the wire
        assert refused(client, op("laplacian", f, "l"), link) == ("INVALID_ARGUMENT", "ops 1 f")


def test_the_work_of_all_rounds_is_bounded():
    f = wave(20, 30)
    with Daemon("--max-work", 6000) as daemon, daemon.client() as client:
        for ops, repeat in ([op("laplacian", f, "l")], 10), ([op("laplacian", f, "l"), op("laplacian", "l")], 5):
            chain(client, *ops, repeat=repeat)
            for more in (repeat + 1, 2**64 - 1):
                assert refused(client, *ops, repeat=more) == ("TOO_LARGE", "repeat")
        step = {"steps": 5, "cfl": 0.5, "accuracy": 2}
        chain(client, op("diffusion", f, "u", **step), op("diffusion", "u", **step))
        assert refused(client, op("diffusion", f, "u", **step), op("diffusion", "u", **step | {"steps": 6})) == (
            "TOO_LARGE", "ops")


def test_nothing_runs_where_a_later_op_is_refused(unchanged, client):
    u = client.put(wave(20, 30))
    before = client.get(u)
    assert refused(client, op("laplacian", {"field": u}, {"field": u}), op("laplacian", "x")) == (
        "INVALID_ARGUMENT", "ops 1 f")
    assert numpy.array_equal(client.get(u), before)


def test_no_room():
    f = wave(256, 256)
    ops = [op("gradient", f, "g"), op("divergence", "g")]
    with Daemon("--user-bytes", 4 * f.nbytes) as daemon, daemon.client() as client:
        assert chain(client, *ops).shape == f.shape
    with Daemon("--user-bytes", 4 * f.nbytes - 1) as daemon, daemon.client() as client:
        assert client.refused("chain", ops=ops).what == ("TOO_LARGE", "ops 1")  # never any room for all of it
        eventually(lambda: client.call("stats")["user"]["bytes"] == 0, "nothing held")


def forever(field=None):
    f = {"field": field} if field else wave(64, 64)
    return op("diffusion", f, {"field": field} if field else "u", steps=1000, cfl=0.5, accuracy=2)


def running(client):
    return client.call("stats")["queue"]["running"]


@pytest.mark.parametrize("repeat", [1, 10**8, 10**9])
def test_cancel(unchanged, client, repeat):
    ops = [forever(), op("diffusion", "u", "v", steps=10**9, cfl=0.5, accuracy=2), op("laplacian", "v")]
    if repeat > 1:
        ops = [forever(), op("laplacian", "u")]
    if repeat > 10**8:
        ops = [op("laplacian", wave(20, 30), "u"), op("laplacian", "u")]  # many rounds ahead
    msgid = client.send("chain", ops=ops, repeat=repeat)
    eventually(lambda: running(client) == 1, "a job that runs")
    client.cancel(msgid)
    eventually(lambda: client.call("stats")["user"]["bytes"] == 0, "nothing held")


def left_half_written(client, u, steps=1):
    """A chain that was cancelled while it overwrote the field."""
    msgid = client.send("chain", ops=[op("diffusion", {"field": u}, {"field": u}, cfl=0.5, accuracy=2, steps=steps)],
                        repeat=10**8)
    eventually(lambda: running(client) == 1, "a job that runs")
    client.cancel(msgid)


@pytest.mark.parametrize("steps", [1000, 1])
def test_a_field_that_was_written_half_way_is_lost(unchanged, client, steps):
    u = client.put(wave(64, 64))
    left_half_written(client, u, steps)
    assert client.refused("laplacian", f={"field": u}).code == "FIELD_LOST"


def test_a_field_left_half_written_may_be_written_and_read_in_a_chain(unchanged, client):
    f = wave(64, 64)
    u, w = client.put(f), client.put(f)
    left_half_written(client, u)
    out = chain(client, op("derivative", f, {"field": u}, axis="x"), op("laplacian", {"field": u}))
    assert (out == client.out("laplacian", f=client.out("derivative", f=f, axis="x"))).all()
    left_half_written(client, u)
    for first in (op("laplacian", {"field": u}, "v"),  # read before it is written
                  op("diffusion", f, "v", cfl=0.5, source={"field": u}),
                  op("divergence", {"x": f, "y": {"field": u}}, "v")):
        ops = [first, op("derivative", f, {"field": u}, axis="x"), op("laplacian", {"field": w})]
        assert client.refused("chain", ops=ops).code == "FIELD_LOST"
    assert client.refused("get", field=u).code == "FIELD_LOST"
    client.free(u, w)


def test_an_answer_that_tells_of_a_field_is_not_withdrawn(unchanged, daemon, client):
    """Otherwise there would be a field whose id no client knows."""
    f = wave(24, 512, 512)
    large = {"field": client.put(f)}
    first = client.send("get", **large)  # not read until all has been sent: nothing goes out behind it
    msgid = client.send("chain", ops=[op("laplacian", large, "l", accuracy=2), op("laplacian", wave(8, 9), "s")],
                        out={"l": "inline", "s": "field"})
    eventually(lambda: daemon.stats()["queue"]["replying"] == 2, "an answer that waits")
    cancel = client.send("cancel", msgid=msgid)
    client.recv(first)
    out = client.recv(msgid)["out"]
    assert client.recv(cancel) == {"state": "already_done"}
    assert client.get(out["s"]["field"]).shape == (8, 9)


def test_hang_up(unchanged, daemon, client):
    client.send("chain", ops=[forever(), op("laplacian", "u")], repeat=10**8)
    with daemon.client() as other:
        eventually(lambda: running(other) == 1, "a job that runs")
        client.close()
        eventually(lambda: other.call("stats")["totals"]["jobs"] == 0, "no job left")
        assert other.call("stats")["totals"]["bytes"] == 0


def test_detach(unchanged, daemon, client):
    u = client.put(wave(64, 64))
    ops = [op("diffusion", {"field": u}, {"field": u}, steps=10, cfl=0.5, accuracy=2)]
    client.send("chain", ops=ops, repeat=100, detach=True)
    with daemon.client() as other:
        client.close()
        eventually(lambda: other.call("stats")["totals"]["jobs"] == 0, "no job left")
        expected = other.out("diffusion", f=wave(64, 64), steps=1000, cfl=0.5, accuracy=2)
        assert numpy.array_equal(other.get(u), expected)


@pytest.mark.parametrize("ops", [[forever(), op("laplacian", "u")],
                                 [op("laplacian", wave(20, 30), "u"), op("laplacian", "u")]])
def test_the_worker_ends(ops):
    with Daemon() as daemon, daemon.client() as client:
        msgid = client.send("chain", ops=ops, repeat=10**8)
        eventually(lambda: running(client) == 1, "a job that runs")
        daemon.kill_worker(wait=False)
        assert client.error(msgid).code == "DEVICE_LOST"
        eventually(daemon.answers, "another worker")
        eventually(lambda: client.call("stats")["user"]["bytes"] == 0, "nothing held")


def test_many_at_once(unchanged, daemon, client):
    """Chains of several connections on one field keep their order."""
    u = client.put(numpy.zeros((32, 32), "<f4"))
    client.out("laplacian", f={"field": u}, out={"field": u})
    step = op("diffusion", {"field": u}, {"field": u}, steps=1, dt=0.1, accuracy=2)
    msgids = [client.send("chain", ops=[step] * 4, repeat=5) for _ in range(20)]
    for msgid in msgids:
        client.recv(msgid)
    assert not client.get(u).any()

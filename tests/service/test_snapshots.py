"""Long jobs in segments: snapshots, the bits of an uninterrupted run, and every early end."""

import signal
import time

import numpy
import pytest

from fdtest import Client, Daemon, MiB, Region, assert_charged, await_bytes, eventually, wave

OPTIONS = ("--staging-bytes", 16 * MiB)

STEADY = {"cfl": 0.5, "accuracy": 4, "boundary": {"x": {"value": 1}, "y": {"derivative": 0}}}

LARGE = (24, 512, 512)  # 24 MiB: more than a socket takes, and more than is staged at once

pytestmark = pytest.mark.usefixtures("no_fields_left")


def snapshots(client, msgid):
    """The job's snapshots so far: [(step, time, out)]."""
    mine = [about for what, about in client.notifications if what == "snapshot" and about["msgid"] == msgid]
    client.notifications = []
    return [(about["step"], about["time"], about["out"]) for about in mine]


def run(client, **params):
    """A job's result, and its snapshots."""
    msgid = client.send("diffusion", **params)
    result = client.recv(msgid)
    return result, snapshots(client, msgid)


@pytest.mark.parametrize("every", [1, 3, 10, 19])
@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
def test_the_same_bits(unchanged, client, every, dtype):
    """Each equals a job of that many steps; the result is not a snapshot."""
    f = wave(50, 60, dtype=dtype)
    result, taken = run(client, f=f, steps=20, every=every, **STEADY)
    assert [step for step, _, _ in taken] == list(range(every, 20, every))
    rest = {k: v for k, v in STEADY.items() if k != "cfl"} | {"dt": result["dt"]}
    for step, time, out in taken:
        assert time == step * result["dt"]
        assert numpy.array_equal(out, client.out("diffusion", f=f, steps=step, **rest)), step
    assert numpy.array_equal(result["out"], client.out("diffusion", f=f, steps=20, **rest))


@pytest.mark.parametrize("every", [20, 21, 10**18])
def test_none_where_there_is_no_between(unchanged, client, every):
    f = wave(30, 30)
    result, taken = run(client, f=f, steps=20, every=every, **STEADY)
    assert taken == []
    assert numpy.array_equal(result["out"], client.out("diffusion", f=f, steps=20, **STEADY))


def test_in_place_and_from_a_field(unchanged, client):
    f = wave(30, 40)
    expected, usual = run(client, f=f, steps=9, every=2, **STEADY)
    field = client.put(f)
    result, taken = run(client, f={"field": field}, out={"field": field}, steps=9, every=2, **STEADY)
    assert result["out"]["field"] == field
    assert numpy.array_equal(client.get(field), expected["out"])
    assert [step for step, _, _ in taken] == [2, 4, 6, 8]
    for mine, other in zip(taken, usual):
        assert numpy.array_equal(mine[2], other[2])
    # The field is unchanged where it is the input alone.
    client.free(field)
    field = client.put(f)
    result, _ = run(client, f={"field": field}, out="field", steps=9, every=2, **STEADY)
    assert numpy.array_equal(client.get(result["out"]["field"]), expected["out"])
    assert numpy.array_equal(client.get(field), f)


def test_in_regions(unchanged, client):
    f = wave(30, 40)
    expected = client.out("diffusion", f=f, steps=9, **STEADY)
    region = Region.holding(client, f, MiB)
    result, taken = run(client, f=region.place(like=f), out=region.place(512 << 10), steps=9, every=4, **STEADY)
    assert [step for step, _, _ in taken] == [4, 8]
    assert numpy.array_equal(region.array("<f4", f.shape, 512 << 10), expected)
    assert numpy.array_equal(region.array("<f4", f.shape), f)
    client.call("unregister", region=region.id)


def test_with_a_report_and_progress(unchanged, client):
    f = wave(30, 40, dtype="<f8")
    plain = client.call("diffusion", f=f, steps=9, report=True, **STEADY)
    both = client.call("diffusion", f=f, steps=9, every=2, report=True, progress=True, **STEADY)
    assert both["report"] == plain["report"]
    assert numpy.array_equal(both["out"], plain["out"])


def test_large_ones(unchanged, client):
    """Streamed, because they exceed the staged bytes; the next segment waits for each."""
    f = wave(*LARGE)
    result, taken = run(client, f=f, steps=6, every=2, **STEADY)
    rest = {k: v for k, v in STEADY.items() if k != "cfl"} | {"dt": result["dt"]}
    for step, _, out in taken:
        f = client.out("diffusion", f=f, steps=2, **rest)
        assert numpy.array_equal(out, f), step
    assert numpy.array_equal(result["out"], client.out("diffusion", f=f, steps=2, **rest))


def test_fields(unchanged, client):
    f = wave(30, 40)
    _, usual = run(client, f=f, steps=9, every=2, **STEADY)
    for out in ("inline", "field"):
        result, taken = run(client, f=f, out=out, steps=9, every=2, snapshot="field", **STEADY)
        assert [step for step, _, _ in taken] == [2, 4, 6, 8]
        assert len({out["field"] for _, _, out in taken}) == 4
        for (_, time, place), (_, same, array) in zip(taken, usual):
            assert time == same
            assert place["shape"] == [30, 40] and place["type"] == "<f4"
            assert numpy.array_equal(client.get(place["field"]), array)
        array = result["out"] if out == "inline" else client.get(result["out"]["field"])
        assert numpy.array_equal(array, client.out("diffusion", f=f, steps=9, **STEADY))
        assert client.call("stats")["user"]["bytes"] == (4 + (out == "field")) * 30 * 40 * 4
        client.free(*(entry["field"] for entry in client.call("list")["fields"]))


def test_a_field_may_be_taken_at_once(unchanged, client):
    """Freed, or overwritten, as soon as it is named: the job continues from its original values."""
    f = wave(400, 400)
    expected = client.out("diffusion", f=f, steps=40, **STEADY)
    msgid = client.send("diffusion", f=f, steps=40, every=2, snapshot="field", **STEADY)
    with Client(client.socket.getpeername()) as other:
        for i in range(19):
            client.await_note()
            _, about = client.notifications.pop()
            field = about["out"]
            if i % 2:
                other.call("laplacian", f=field, out={"field": field["field"]})
            other.free(field["field"])
        assert numpy.array_equal(client.recv(msgid)["out"], expected)


def test_no_room_for_the_next_field():
    f = wave(256, 256)
    with Daemon("--user-bytes", 5 * f.nbytes) as daemon, daemon.client() as client:
        msgid = client.send("diffusion", f=f, steps=20, every=2, snapshot="field", **STEADY)
        error, _ = client.outcome(msgid)
        assert (error.code, error.parameter) == ("OVER_BUDGET", "snapshot")
        assert error.need and error.limit == 5 * f.nbytes
        taken = snapshots(client, msgid)
        assert [step for step, _, _ in taken] == list(range(2, 2 * len(taken) + 1, 2)) != []
        rest = {k: v for k, v in STEADY.items() if k != "cfl"} | {"dt": taken[0][1] / 2}
        # What there is can be gone on from.
        last = taken[-1]
        client.free(*(place["field"] for _, _, place in taken[:-1]))
        resumed = client.out("diffusion", f=last[2], steps=20 - last[0], **rest)
        client.free(last[2]["field"])
        assert numpy.array_equal(resumed, client.out("diffusion", f=f, steps=20, **rest))
    with Daemon("--max-fields", 2) as daemon, daemon.client() as client:
        msgid = client.send("diffusion", f=f, steps=20, every=2, snapshot="field", **STEADY)
        error, _ = client.outcome(msgid)
        assert (error.code, error.parameter, error.limit) == ("OVER_BUDGET", "snapshot", 2)
        assert len(snapshots(client, msgid)) == 2


def begun(client, shape=LARGE, **params):
    """A job whose client does not read: it waits with a snapshot half sent, or in its slabs."""
    msgid = client.send("diffusion", f=wave(*shape), steps=10**6, every=1, accuracy=2, cfl=0.5, **params)
    await_bytes(client)
    return msgid


@pytest.mark.parametrize("shape", [(1024, 1024), LARGE])
def test_who_does_not_read_costs_itself(unchanged, daemon, client, shape):
    """The job waits; other users' jobs continue, and it continues when its client reads."""
    msgid = begun(client, shape)
    with daemon.client() as other:
        for _ in range(5):
            other.out("laplacian", f=wave(100, 100))
    for step in (1, 2, 3):
        client.await_note()
        assert [taken[0] for taken in snapshots(client, msgid)] == [step]
    client.cancel(msgid)


@pytest.mark.parametrize("shape", [(1024, 1024), LARGE])
def test_cancel_between_segments(unchanged, daemon, client, shape):
    msgid = begun(client, shape)
    client.cancel(msgid)
    taken = snapshots(client, msgid)
    assert [step for step, _, _ in taken] == list(range(1, len(taken) + 1))
    assert client.out("laplacian", f=wave(10, 10)).shape == (10, 10)  # the stream is whole


def test_no_field_is_left_that_nobody_was_told_of(unchanged, daemon, client):
    """The snapshot that waits behind another answer is already a field; it is freed with the job."""
    large = client.put(wave(*LARGE))
    first = client.send("get", field=large)  # not read until all has been sent
    await_bytes(client)
    msgid = client.send("diffusion", f=wave(64, 64), steps=100, every=1, snapshot="field", accuracy=2, cfl=0.5)
    with daemon.client() as other:
        eventually(lambda: other.call("stats")["user"]["fields"] == 2, "a snapshot")
        cancel = client.send("cancel", msgid=msgid)
        client.recv(first)
        assert client.error(msgid).code == "CANCELLED"
        assert client.recv(cancel) == {"state": "cancelled"}
        told = [out["field"] for _, _, out in snapshots(client, msgid)]
        assert sorted(entry["field"] for entry in other.call("list")["fields"]) == sorted([large, *told])


def test_time_runs_out_between_segments(unchanged, daemon, client):
    msgid = begun(client, timeout=2 * 10**6)
    assert client.error(msgid).code == "TIMEOUT"


@pytest.mark.parametrize("shape", [(1024, 1024), LARGE])
def test_hang_up_between_segments(unchanged, daemon, client, shape):
    begun(client, shape)
    client.close()
    eventually(lambda: daemon.stats()["totals"]["jobs"] == 0, "no job left")
    eventually(lambda: daemon.stats()["totals"]["bytes"] == 0, "the copy of the snapshot to end")


@pytest.mark.parametrize("shape", [(1024, 1024), LARGE])
def test_the_worker_ends_between_segments(shape):
    with Daemon() as daemon:
        client, since = daemon.client(), time.monotonic()
        msgid = begun(client, shape)
        daemon.kill_worker(wait=False)
        try:
            error, _ = client.outcome(msgid)
            assert error.code == "DEVICE_LOST" and error.retryable
            assert client.out("laplacian", f=wave(10, 10)).shape == (10, 10)
        except EOFError:  # a snapshot was half out: nothing can follow
            assert shape == LARGE or time.monotonic() - since > 1, "a small one is staged whole, and kept for a second"
        eventually(lambda: daemon.stats()["totals"]["jobs"] == 0, "no job left")
        eventually(daemon.answers, "another worker")
        assert daemon.stats()["totals"]["bytes"] == 0


def test_a_detached_one_goes_on_without_snapshots(unchanged, daemon, client):
    f = wave(1024, 1024)
    field = client.put(f)
    with daemon.client() as reader:
        expected = reader.out("diffusion", f=f, steps=50, accuracy=2, cfl=0.5)
    client.send("diffusion", f={"field": field}, out={"field": field}, steps=50, every=1, accuracy=2, cfl=0.5,
                detach=True)
    await_bytes(client)
    client.close()
    with daemon.client() as other:
        assert numpy.array_equal(other.get(field), expected)


def test_a_field_that_was_written_half_way_is_lost(unchanged, daemon, client):
    field = client.put(wave(1024, 1024))
    place = {"field": field}
    msgid = client.send("diffusion", f=place, out=place, steps=10**6, every=1, accuracy=2, cfl=0.5)
    await_bytes(client)
    client.cancel(msgid)
    assert client.refused("laplacian", f=place).code == "FIELD_LOST"


def test_drain_between_segments():
    with Daemon("--drain-timeout-s", 1) as daemon:
        client = daemon.client()
        msgid = begun(client)
        daemon.process.send_signal(signal.SIGTERM)
        messages = client.closed_by_server()
        assert daemon.wait() == 0
        answers = [m for m in messages if m[0] == 1 and m[1] == msgid]
        assert not answers or answers[0][2]["code"] in ("TIMEOUT", "SHUTTING_DOWN")


def test_drain_where_another_waits_for_its_field():
    """The job ends when it is stopped, because its snapshot has not been sent; a get of its field ends with it."""
    with Daemon("--drain-timeout-s", 1) as daemon:
        client, other = daemon.client(), daemon.client()
        large, field = client.put(wave(*LARGE)), client.put(wave(64, 64))
        place = {"field": field}
        client.send("get", field=large)  # not read: nothing else goes out behind it
        await_bytes(client)
        client.send("diffusion", f=place, out=place, steps=100, every=1, accuracy=2, cfl=0.5)
        eventually(lambda: daemon.stats()["queue"]["running"] == 1, "a job that has begun")
        got = other.send("get", field=field)
        eventually(lambda: daemon.stats()["totals"]["jobs"] == 3, "one that waits for it")
        daemon.process.send_signal(signal.SIGTERM)
        assert other.error(got).code == "FIELD_LOST"
        client.closed_by_server()
        assert daemon.wait() == 0


@pytest.mark.parametrize("snapshot", ["notify", "field"])
def test_its_arrays_are_charged(snapshot):
    *_, taken = assert_charged("diffusion", f=wave(256, 256), steps=4, every=2, snapshot=snapshot, accuracy=4, cfl=0.5)
    assert len(taken) == 1

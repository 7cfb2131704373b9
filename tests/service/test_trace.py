"""--trace FILE: each job's spans, in Chrome's trace event format."""

import json
import os
import stat

import numpy

from fdtest import Daemon, eventually, wave

PARTS = ["read", "queue", "kernel", "write"]  # of a job on its own track, in this order
COPIES = ["copy-in", "copy-out"]
ROUNDING_US = 0.002  # of ts and dur


def end(event):
    return event["ts"] + event["dur"]


def slices(events):
    return [event for event in events if event["ph"] == "X"]


def jobs(events):
    """The slices of jobs, and the parts of each by name."""
    parts = {}
    for event in slices(events):
        if "msgid" not in event["args"]:
            parts.setdefault(event["args"]["job"], {})[event["name"]] = event
    return [(event, parts.get(event["args"]["job"], {})) for event in slices(events) if "msgid" in event["args"]]


def assert_tracks_nest(events):
    """On each track a slice begins after the previous one has ended, or is nested in it."""
    tracks = {}
    for event in slices(events):
        tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    names = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert set(tracks) <= names
    for track in tracks.values():
        track.sort(key=lambda event: (event["ts"], -event["dur"]))
        open_ends = []
        for event in track:
            while open_ends and open_ends[-1] <= event["ts"] + ROUNDING_US:
                open_ends.pop()
            assert not open_ends or end(event) <= open_ends[-1] + ROUNDING_US
            open_ends.append(end(event))


def assert_in_order(job, parts):
    for before, after in zip(PARTS, PARTS[1:]):
        if before in parts and after in parts:
            assert end(parts[before]) <= parts[after]["ts"] + ROUNDING_US, (before, after)
    for part in parts.values():
        assert part["ts"] >= job["ts"] - ROUNDING_US and end(part) <= end(job) + ROUNDING_US
    for name in COPIES:
        if name in parts:
            assert parts[name]["tid"] != job["tid"]
    # That a copy has ended, the front learns a moment after the worker: its begin is what can be compared.
    if "copy-in" in parts and "kernel" in parts:
        assert parts["copy-in"]["ts"] <= end(parts["kernel"])
    if "kernel" in parts and "copy-out" in parts:
        assert parts["kernel"]["ts"] <= end(parts["copy-out"])


def test_every_job_has_its_spans(tmp_path):
    path = tmp_path / "trace.json"
    f = wave(40, 50, 60)
    with Daemon("--trace", path) as daemon:
        client = daemon.client()
        field = client.put(f)
        sent = {client.send("derivative", f=f, axis="x"): ("derivative", "OK", PARTS + COPIES) for _ in range(8)}
        resident = client.send("diffusion", f={"field": field}, out="field", steps=20, dt=0.01)
        sent[resident] = ("diffusion", "OK", PARTS)
        sent[client.send("get", field=field)] = ("get", "OK", ["read", "queue", "copy-out", "write"])
        sent[client.send("export", field=field)] = ("export", "OK", ["read", "queue", "write"])
        sent[client.send("export", field=field)] = ("export", "OK", ["read", "queue", "write"])  # once more
        for msgid in list(sent):
            client.recv(msgid)
        assert client.refused("diffusion", f={"field": field}, dt=1e9).code == "UNSTABLE"
        client.call("ping")
    events = json.loads(path.read_text())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert_tracks_nest(events)
    found = jobs(events)
    assert [job["name"] for job, _ in found].count("put") == 1
    assert [job["args"]["status"] for job, _ in found].count("UNSTABLE") == 1
    assert len(found) == len(sent) + 2, "a job is missing, or what is no job is there"
    for job, parts in found:
        assert_in_order(job, parts)
        if job["name"] == "put":
            assert set(parts) == {"read", "queue", "copy-in", "write"}
        if job["args"]["msgid"] in sent:
            name, status, expected = sent[job["args"]["msgid"]]
            assert (job["name"], job["args"]["status"]) == (name, status)
            assert set(parts) == set(expected)
            assert job["args"]["bytes"] == f.nbytes
    users = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert users == {f"user {os.getuid()}"}


def test_a_trace_can_be_read_while_it_is_written(tmp_path):
    path = tmp_path / "trace.json"
    with Daemon("--trace", path) as daemon:
        daemon.client().put(numpy.ones(10, "f4"))

        def begun():
            text = path.read_text()
            return "put" in text and text
        text = eventually(begun, "a job in the trace of a running server")
        assert len(jobs(json.loads(text + "]"))) == 1


def test_a_full_trace_makes_room(tmp_path):
    path, before = tmp_path / "trace.json", tmp_path / "trace.json.1"
    with Daemon("--trace", path, "--trace-bytes", "1M") as daemon:
        client = daemon.client()
        field = client.put(numpy.ones(10, "f4"))

        def some():
            for msgid in [client.send("derivative", f={"field": field}, out={"field": field}) for _ in range(500)]:
                client.recv(msgid)
            return before.exists()
        eventually(some, "an old trace beside the present one")
    for file in (path, before):
        events = json.loads(file.read_text())
        assert_tracks_nest(events)
    assert before.stat().st_size < 4 << 20


def test_a_trace_that_cannot_be_written(tmp_path):
    daemon = Daemon("--trace", tmp_path / "missing" / "trace.json", wait=False)
    assert daemon.wait() == 1
    assert "missing/trace.json" in daemon.log()

"""A client's own memory, registered once and named by jobs: no byte of it is sent through the socket."""

import contextlib
import fcntl
import os
import resource
import signal
import socket
import tempfile
import threading

import msgpack
import numpy
import pytest

from faults import GO_ON, Faults, needs_preload
from fdtest import (ENDLESS, ONE_DEVICE, Client, Daemon, MiB, Region, descriptors, eventually, lingering_socket,
                    needs_root, on_socket, one_table, request_bytes, sanitized, settled, wave)
from test_bounds import LINKS, ask

OPTIONS = ("--region-bytes", "256M", "--region-memory", "384M", "--max-regions", "20", "--mode", "0666")

SHAPE = (20, 30, 40)
SIZE = 20 * 30 * 40 * 8  # float64


def refused(client, msgid, code, parameter=None):
    error = client.error(msgid)
    assert error.what == (code, parameter), error
    return error


def refused_call(client, method, code, parameter=None, **params):
    return refused(client, client.send(method, **params), code, parameter)


OPERATORS = [
    ("derivative", {"axis": "x", "spacing": 0.1}),
    ("derivative", {"axis": "y", "order": 2, "boundary": "one-sided"}),
    ("derivative", {"axis": "z", "accuracy": 4}),
    ("laplacian", {"accuracy": 6}),
    ("gradient", {}),
    ("divergence", {}),
    ("curl", {"boundary": "one-sided"}),
    ("diffusion", {"cfl": 0.9, "steps": 1}),
    ("diffusion", {"cfl": 0.5, "steps": 6, "boundary": {"x": {"value": 0.5}}}),
    ("diffusion", {"cfl": 0.5, "steps": 7, "boundary": {"*": {"halo": 1}}}),
]


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
@pytest.mark.parametrize("method,params", OPERATORS)
def test_region_to_region_is_what_inline_is(unchanged, client, method, params, dtype):
    region = Region(8 * SIZE).registered(client)
    takes_vector, gives_vector = method in ("divergence", "curl"), method in ("gradient", "curl")
    f = {axis: wave(*SHAPE, dtype=dtype, seed=i) for i, axis in enumerate("xyz")}
    places, out = {}, {}
    for i, axis in enumerate("xyz"):
        region.array(dtype, SHAPE, i * SIZE)[:] = f[axis]
        places[axis] = region.place(i * SIZE, like=f[axis])
        out[axis] = region.place((3 + i) * SIZE)
    inline = client.out(method, f=f if takes_vector else f["x"], **params)
    reply = client.out(method, f=places if takes_vector else places["x"],
                       out=out if gives_vector else out["x"], **params)
    for i, axis in enumerate("xyz" if gives_vector else "x"):
        given = reply[axis] if gives_vector else reply
        assert given == {"region": region.id, "offset": (3 + i) * SIZE, "type": dtype,
                         "shape": list(SHAPE)}
        expected = inline[axis] if gives_vector else inline
        assert region.array(dtype, SHAPE, (3 + i) * SIZE).tobytes() == expected.tobytes()
    for i, axis in enumerate("xyz"):
        assert (region.array(dtype, SHAPE, i * SIZE) == f[axis]).all(), "an input was written"
    assert not region.bytes[6 * SIZE:].any(), "bytes beside the output were written"
    assert client.call("unregister", region=region.id) == {}


def test_inputs_and_outputs_of_every_kind_go_together(unchanged, client):
    f = wave(*SHAPE)
    region = Region.holding(client, f, 4 * SIZE, 16)
    field = client.put(f)
    here = region.place(16, like=f)
    expected = client.out("laplacian", f=f)
    assert (client.out("laplacian", f=here) == expected).all()
    for given in (f, {"field": field}):
        client.out("laplacian", f=given, out=region.place(2 * SIZE))
        assert (region.array("<f4", SHAPE, 2 * SIZE) == expected).all()
        region.array("<f4", SHAPE, 2 * SIZE)[:] = 0
    made = client.out("laplacian", f=here, out="field")["field"]
    client.out("laplacian", f=here, out={"field": field})
    assert (client.get(made) == expected).all() and (client.get(field) == expected).all()
    mixed = {"x": f, "y": here, "z": {"field": made}}
    assert (client.out("divergence", f=mixed) ==
            client.out("divergence", f={"x": f, "y": f, "z": expected})).all()
    client.free(field, made)


@pytest.mark.parametrize("steps", [1, 2, 3, 6])
def test_steps_from_an_inline_array_to_a_region(unchanged, client, steps):
    region = Region(SIZE).registered(client)
    f = wave(*SHAPE, dtype="<f8")
    expected = client.out("diffusion", f=f, cfl=0.5, steps=steps)
    client.out("diffusion", f=f, out=region.place(0), cfl=0.5, steps=steps)
    assert (region.array("<f8", SHAPE) == expected).all()


def test_put_and_get_by_region(unchanged, client):
    f = wave(*SHAPE, dtype="<f8")
    region = Region.holding(client, f, 4 * SIZE, SIZE)
    field = client.call("put", f=region.place(SIZE, like=f))["field"]
    assert (client.get(field) == f).all()
    out = client.out("get", field=field, out=region.place(3 * SIZE))
    assert out == region.place(3 * SIZE, like=f)
    assert (region.array("<f8", SHAPE, 3 * SIZE) == f).all()
    assert refused_call(client, "get", "INVALID_ARGUMENT", "out", field=field, out=region.place(3 * SIZE + 16))
    client.free(field)


def test_put_and_get_in_slabs(unchanged, client):
    """More than one slab, and not a whole number of them; if it is stopped, nothing remains."""
    shape = (3, 1000, 1001)
    region = Region(32 * MiB).registered(client)
    f = region.array("<f4", shape)
    f[:] = wave(*shape)
    field = client.call("put", f=region.place(like=f))["field"]
    client.out("get", field=field, out=region.place(16 * MiB))
    assert (region.array("<f4", shape, 16 * MiB) == f).all() and (client.get(field) == f).all()
    for _ in range(10):
        jobs = [client.send("put", f=region.place(like=f)), client.send("get", field=field, out=region.place(16 * MiB))]
        stops = [client.send("cancel", msgid=job) for job in jobs]
        states = [client.recv(stop)["state"] for stop in stops]
        for job, state in zip(jobs, states):
            error, result = client.outcome(job)
            assert (error and error.code) == ("CANCELLED" if state == "cancelled" else None)
            if result and "field" in result:
                client.free(result["field"])
    client.free(field)


def test_a_large_array_passes_without_the_arena(unchanged, daemon, client):
    """Twice the memory of a slab and more; its bytes are never counted on the socket."""
    shape = (8, 1024, 1024)
    region = Region(64 * MiB).registered(client)
    f = region.array("<f4", shape)
    f[:] = wave(*shape)
    before = on_socket(daemon)
    client.out("derivative", f=region.place(like=f), axis="y", out=region.place(32 * MiB))
    assert on_socket(daemon) == before
    assert (region.array("<f4", shape, 32 * MiB) == client.out("derivative", f=f, axis="y")).all()


@pytest.mark.parametrize("how", ["parameter", "seal", "descriptor"])
def test_read_only_regions_are_read_and_not_written(unchanged, client, how):
    f = wave(*SHAPE)
    region = Region(SIZE)
    region.array("<f4", SHAPE)[:] = f
    sent, params = region.descriptor, {}
    if how == "parameter":
        params = {"writable": False}
    elif how == "seal":
        fcntl.fcntl(region.descriptor, fcntl.F_ADD_SEALS, 0x10)  # F_SEAL_FUTURE_WRITE
    else:
        os.posix_fallocate(region.descriptor, 0, SIZE)
        sent = os.open(f"/proc/self/fd/{region.descriptor}", os.O_RDONLY)
    result = client.recv(region.send_register(client, descriptors=[sent], **params))
    assert result["writable"] is False
    region.id = result["region"]
    assert (client.out("laplacian", f=region.place(like=f)) == client.out("laplacian", f=f)).all()
    error = refused_call(client, "laplacian", "INVALID_ARGUMENT", "out", f=f, out=region.place())
    assert "read-only" in error.message
    if how == "descriptor":
        os.close(sent)


def test_places_are_checked(unchanged, client):
    f = wave(*SHAPE)
    size = f.nbytes
    region = Region(4 * size).registered(client)
    here = region.place(0, like=f)

    def bad(parameter, code="INVALID_ARGUMENT", method="laplacian", **params):
        return refused_call(client, method, code, parameter, **({"f": here} | params))

    for offset in (4, 8, -16, 1.5, "0"):
        bad("f", f=here | {"offset": offset})
    error = bad("f", f=here | {"offset": 3 * size + 16})
    assert (error.need, error.limit) == (4 * size + 16, 4 * size)
    for offset in (4 * size, 2**63, 2**64 - 16):
        bad("f", f=here | {"offset": offset})
        bad("out", out={"region": region.id, "offset": offset})
    bad("f", f={"region": region.id, "offset": 0})
    bad("f", code="NOT_FOUND", f=here | {"region": region.id ^ 1})
    bad("out", code="NOT_FOUND", out={"region": 0})
    bad("f", f=here | {"shape": [2**20, 2**20, 2**9]})
    bad("f", code="TOO_LARGE", f=here | {"shape": [2**32, 2**32]})
    bad("f", code="UNSUPPORTED", f=here | {"type": "<i4"})
    bad("f", f=here | {"strides": [1]})
    for offset in (0, 16, size - 16):
        bad("out", out=region.place(offset))
    bad("out", out=region.place(size) | {"shape": [40, 30, 20], "type": "<f4"})
    bad("out y", method="gradient", out={"x": region.place(size), "y": region.place(2 * size - 16),
                                         "z": region.place(3 * size)})
    bad("out", method="gradient", out={"x": region.place(size), "y": {"field": 1}, "z": region.place(0)})
    assert client.out("laplacian", f=here, out=region.place(size, like=f)) == region.place(size, like=f)


def test_two_regions_of_the_same_memory_overlap(unchanged, client):
    f = wave(*SHAPE)
    region = Region(SIZE).registered(client)
    other = client.recv(region.send_register(client))["region"]
    assert other != region.id
    refused_call(client, "laplacian", "INVALID_ARGUMENT", "out", f=region.place(like=f), out={"region": other})


def test_memory_that_is_no_region(unchanged, client):
    good = Region(MiB)
    F = fcntl
    for seals in (0, F.F_SEAL_SHRINK, F.F_SEAL_GROW, F.F_SEAL_SEAL):
        refused(client, Region(MiB, seals).send_register(client), "INVALID_ARGUMENT")
    for size in (MiB - 1, MiB + 1, 2**62, 2**64 - 1):
        error = refused(client, good.send_register(client, bytes=size), "INVALID_ARGUMENT", "bytes")
        assert error.limit == MiB
    for params in ({"bytes": 0}, {"bytes": -1}, {"bytes": "1"}):
        refused(client, good.send_register(client, **params), "INVALID_ARGUMENT", "bytes")
    refused(client, good.send_register(client, writable=1), "INVALID_ARGUMENT", "writable")
    refused(client, good.send_register(client, name="a"), "INVALID_ARGUMENT", "name")

    with tempfile.TemporaryFile() as file, tempfile.TemporaryFile(dir="/dev/shm") as shared, \
            open("/dev/zero", "rb") as zero, socket.socket() as sock:
        for other in (file, shared):
            other.truncate(MiB)
        for other, code in ((file, "UNSUPPORTED"), (zero, "UNSUPPORTED"), (sock, "UNSUPPORTED"),
                            (shared, "INVALID_ARGUMENT")):
            msgid = good.send_register(client, descriptors=[other.fileno()])
            assert client.error(msgid).code == code
    write_only = os.open(f"/proc/self/fd/{good.descriptor}", os.O_WRONLY)
    assert "cannot be read" in refused(client, good.send_register(client, descriptors=[write_only]),
                                       "INVALID_ARGUMENT").message
    os.close(write_only)
    folder = os.open("/", os.O_RDONLY)
    path = os.open("/", os.O_PATH)
    for other in (folder, path):
        assert client.error(good.send_register(client, descriptors=[other])).code == "UNSUPPORTED"
        os.close(other)


def test_read_only_memory_with_holes(unchanged, client):
    region = Region(MiB)  # nothing in it was touched
    sent = os.open(f"/proc/self/fd/{region.descriptor}", os.O_RDONLY)
    error = refused(client, region.send_register(client, descriptors=[sent]), "INVALID_ARGUMENT")
    assert "holes" in error.message
    os.close(sent)


def test_its_blocks_are_allocated(unchanged, client):
    region = Region(8 * MiB)
    assert os.fstat(region.descriptor).st_blocks == 0
    region.register(client)
    assert os.fstat(region.descriptor).st_blocks * 512 >= 8 * MiB


def test_a_descriptor_belongs_to_its_message(unchanged, client):
    region = Region(MiB)
    message = request_bytes(1, "register", {"bytes": MiB})
    ping = request_bytes(0, "ping", {})
    # Whole messages before and behind it.
    socket.send_fds(client.socket, [ping + message + request_bytes(2, "ping", {})], [region.descriptor])
    assert client.recv(1)["writable"] is True and client.recv(0) == {} and client.recv(2) == {}
    # In the middle of a message, and before the last of its bytes.
    for cut in (1, len(message) // 2, len(message) - 1):
        client.send_bytes(ping + message[:cut])
        socket.send_fds(client.socket, [message[cut:]], [region.descriptor])
        assert client.recv(0) == {} and client.recv(1)["writable"] is True
        socket.send_fds(client.socket, [message[:cut]], [region.descriptor])
        client.send_bytes(message[cut:] + ping)
        assert client.recv(1)["writable"] is True and client.recv(0) == {}
    # Two in a row: each has its own.
    for msgid in (1, 2):
        region.send_register(client, msgid=msgid)
    assert client.recv(1)["region"] != client.recv(2)["region"]
    # One that is refused takes its descriptor with it, not the next message.
    socket.send_fds(client.socket, [request_bytes(1, "register", {"size": MiB}) + ping], [region.descriptor])
    refused(client, 1, "INVALID_ARGUMENT", "size")
    assert client.recv(0) == {}
    # None, and too many.
    client.send_bytes(message)
    assert "SCM_RIGHTS" in refused(client, 1, "INVALID_ARGUMENT").message
    for count in (2, 253):
        socket.send_fds(client.socket, [message], [region.descriptor] * count)
        assert "more came" in refused(client, 1, "INVALID_ARGUMENT").message
    socket.send_fds(client.socket, [message[:5]], [region.descriptor])
    socket.send_fds(client.socket, [message[5:]], [region.descriptor])
    assert "more came" in refused(client, 1, "INVALID_ARGUMENT").message
    client.send_bytes(message)
    assert "SCM_RIGHTS" in refused(client, 1, "INVALID_ARGUMENT").message


def test_descriptors_with_anything_else(unchanged, client):
    region = Region(MiB)
    f = wave(64, 64)
    for message in (request_bytes(0, "ping", {}), request_bytes(0, "laplacian", {"f": f}),
                    request_bytes(0, "unregister", {"region": 1}), request_bytes(0, "elsewhere", {})):
        for cut in (0, len(message) // 2, len(message) - 1):
            if cut:
                client.send_bytes(message[:cut])
            socket.send_fds(client.socket, [message[cut:]], [region.descriptor])
            assert client.error(0).code in ("PROTOCOL", "UNKNOWN_METHOD")
    # A notification is let pass, and what came with it is closed.
    socket.send_fds(client.socket, [msgpack.packb([2, "register", [{"bytes": MiB}]])], [region.descriptor])
    client.send_bytes(request_bytes(1, "register", {"bytes": MiB}))
    assert "SCM_RIGHTS" in refused(client, 1, "INVALID_ARGUMENT").message


@one_table
def test_a_flood_of_descriptors(daemon, unchanged):
    """None is kept, whatever message they come with: incomplete ones, none at all, garbage. A user who passes them
    faster than they can be closed is disconnected."""
    region = Region(MiB)
    before = descriptors(daemon.pid)
    clients = [daemon.client() for _ in range(8)]
    messages = 15  # of 100: fewer at a time than the process may have, even if none is closed meanwhile
    message = request_bytes(0, "register", {"bytes": MiB, "name": "no"})
    for client in clients:
        with contextlib.suppress(ConnectionError):
            for _ in range(messages):
                socket.send_fds(client.socket, [message], [region.descriptor] * 100)
            socket.send_fds(client.socket, [message[:3]], [region.descriptor])
    with Client(daemon.path) as other:
        assert other.call("ping") == {}
    eventually(lambda: descriptors(daemon.pid) <= before + 2 * len(clients), "one held by each at most")
    for client in clients:
        with contextlib.suppress(OSError):
            client.socket.shutdown(socket.SHUT_WR)
        codes = [answer[2]["code"] for answer in client.closed_by_server()]
        assert set(codes) <= {"INVALID_ARGUMENT"}
        eventually(lambda: len(codes) == messages or "descriptors faster than they can be closed" in daemon.log(), "the reason")


def test_operands_from_a_region_beside_many_fields():
    """A user with nearly as many fields as there may be, whose jobs read many operands from a region. (Were all fields
    looked through for each operand, the loop would serve nobody else for minutes.)"""
    fields, at_once = 16000 if sanitized() else 40000, 50
    with Daemon() as daemon, daemon.client() as client:
        for _ in range(fields // 1000):
            puts = [client.send("put", f=wave(1)) for _ in range(1000)]
            for put in puts:
                client.recv(put)
        region = Region(4096).registered(client)
        f = region.place(like=numpy.zeros((4, 4, 4), "f4"))
        face = {"value": region.place(1024, like=numpy.zeros((4, 4), "f4"))}
        sides = {axis + side: face for axis in "xyz" for side in "-+"}
        op = {"op": "laplacian", "f": f, "accuracy": 2, "boundary": sides, "out": region.place(2048)}
        answers = []

        def run():
            for _ in range(1000 // at_once):
                chains = [client.send("chain", ops=[op] * 16) for _ in range(at_once)]
                answers.extend(client.recv(chain) for chain in chains)
        threading.Thread(target=run, daemon=True).start()
        eventually(lambda: len(answers) == 1000, "an answer to every chain")


def test_unregister_waits_for_the_jobs(unchanged, daemon, client):
    f = wave(256, 256)
    region = Region.holding(client, f, 4 * f.nbytes)
    job = client.send("diffusion", f=region.place(like=f), out=region.place(2 * f.nbytes), **ENDLESS)
    gone = client.send("unregister", region=region.id)
    late = client.send("laplacian", f=region.place(like=f))
    again = client.send("unregister", region=region.id)
    assert {client.recv_any()[0] for _ in range(2)} == {late, again}
    cancel = client.send("cancel", msgid=job)
    assert [msgid for msgid in (client.recv_any()[0] for _ in range(3)) if msgid != cancel] == [job, gone]
    assert client.call("stats")["user"]["regions"] == 0
    refused_call(client, "unregister", "NOT_FOUND", "region", region=region.id)


def test_a_region_goes_with_its_connection(daemon, unchanged):
    """At every stage: while it is created, idle, used by a running job, while an unregister waits for that job, or
    for one that has not begun."""
    f = wave(256, 256)
    for stage in ("making", "idle", "running", "unregistering", "queued"):
        client = Client(daemon.path)
        region = Region(64 * MiB if stage == "making" else 4 * f.nbytes)
        if stage == "making":
            region.send_register(client)
        else:
            region.register(client)
            region.array("<f4", f.shape)[:] = f
        if stage in ("running", "unregistering"):
            client.send("diffusion", f=region.place(like=f), out=region.place(2 * f.nbytes), steps=10**7, cfl=1)
            eventually(lambda: daemon.stats()["queue"]["running"], "the job running")
        if stage == "queued":
            client.send("diffusion", f=f, steps=10**7, cfl=1, placement=ONE_DEVICE)
            client.send("diffusion", f=region.place(like=f), steps=10**7, cfl=1, placement=ONE_DEVICE)
            eventually(lambda: daemon.stats()["queue"]["queued"], "the second job queued")
        if stage in ("unregistering", "queued"):
            client.send("unregister", region=region.id)
            client.call("ping")
        client.close()
        eventually(lambda: daemon.stats()["user"]["regions"] == 0, "no region")
        assert daemon.stats()["totals"]["region_bytes"] == 0
    settled(daemon)


def test_memory_is_let_go_beside_a_descriptor_whose_close_waits(daemon, unchanged):
    """Another user passed a lingering socket: regions do not wait for it."""
    with lingering_socket(600) as lingering:
        stranger, client = daemon.client(), daemon.client()
        for either in (stranger, client):
            either.call("ping")  # it was accepted
        before = descriptors(daemon.pid)
        message = request_bytes(0, "ping", {})
        socket.send_fds(stranger.socket, [message[:1]], [lingering.fileno()])
        lingering.close()  # the server's is the last
        stranger.send_bytes(message[1:])
        refused(stranger, 0, "PROTOCOL")
        for _ in range(20):
            region = Region(MiB).registered(client)
            client.call("unregister", region=region.id)
        eventually(lambda: descriptors(daemon.pid) <= before, "none of them kept")


def test_a_half_closed_connection_is_answered(daemon, unchanged):
    client = daemon.client()
    region = Region(64 * MiB)
    msgid = region.send_register(client)
    client.socket.shutdown(socket.SHUT_WR)
    assert client.recv(msgid)["writable"] is True
    assert client.closed_by_server() == []


def test_regions_are_their_users_and_unregistered_where_they_were_registered(unchanged, daemon, client):
    f = wave(*SHAPE)
    region = Region(2 * SIZE).registered(client)
    with Client(daemon.path) as sibling:
        sibling.out("laplacian", f=region.place(like=f), out=region.place(SIZE))
        refused_call(sibling, "unregister", "NOT_FOUND", "region", region=region.id)


@needs_root
def test_a_foreign_region_and_an_absent_one_answer_alike(unchanged, daemon, client):
    f = wave(*SHAPE)
    region = Region(SIZE).registered(client)

    def foreign(stranger):
        errors = [stranger.outcome(stranger.send("laplacian", f=region.place(like=f) | {"region": i}))[0]
                  for i in (region.id, region.id ^ 1)]
        return [(e.code, e.parameter, e.message.replace(str(i), "N"))
                for e, i in zip(errors, (region.id, region.id ^ 1))]
    first, second = daemon.as_user(4321, foreign)
    assert first == second and first[0] == "NOT_FOUND"


def test_quotas(unchanged, daemon, client):
    regions = [Region(MiB).registered(client) for _ in range(20)]
    error = refused(client, Region(MiB).send_register(client), "OVER_BUDGET")
    assert (error.need, error.limit, error.retryable) == (21, 20, True)
    for region in regions[1:]:
        client.call("unregister", region=region.id)
    large = Region(256 * MiB)
    error = refused(client, large.send_register(client), "OVER_BUDGET", "bytes")
    assert (error.need, error.limit) == (256 * MiB, 256 * MiB)
    assert os.fstat(large.descriptor).st_blocks == 0, "it is charged before anything is done"
    assert client.call("stats")["user"]["region_bytes"] == MiB


@needs_root
def test_the_quota_of_all_users(unchanged, daemon, client):
    almost = Region(250 * MiB).registered(client)

    def other(stranger):
        return refused(stranger, Region(200 * MiB).send_register(stranger), "OVER_BUDGET", "bytes").limit
    assert daemon.as_user(4321, other) == 336 * MiB


def test_a_killed_worker_costs_no_region(unchanged, daemon, client):
    f = wave(256, 256)
    size = f.nbytes
    region, kept = Region.holding(client, f, 4 * size), Region(size)
    kept.array("<f4", f.shape)[:] = f
    kept.register(client, writable=False)
    expected = client.out("laplacian", f=f)
    for _ in range(3):
        job = client.send("diffusion", f=region.place(like=f), out=region.place(2 * size), steps=10**7, cfl=1,
                          placement=ONE_DEVICE)
        eventually(lambda: daemon.stats()["queue"]["running"], "the job running")
        os.kill(daemon.worker_pids()[0], signal.SIGKILL)
        assert refused(client, job, "DEVICE_LOST").retryable
        # At once: it waits for the next worker to map the region.
        out = client.out("laplacian", f=kept.place(like=f), out=region.place(size), placement=ONE_DEVICE)
        assert out["region"] == region.id
        assert (region.array("<f4", f.shape, size) == expected).all()
    again = Region(size)
    os.kill(daemon.worker_pids()[0], signal.SIGKILL)
    again.register(client)
    assert client.call("unregister", region=region.id) == {}


def test_a_successor_that_cannot_map_a_region(unchanged, daemon, client):
    """Sealed against writing meanwhile, it can no longer be mapped writable: its jobs get an error."""
    f = wave(*SHAPE)
    region, other = (Region(SIZE).registered(client) for _ in range(2))
    fcntl.fcntl(region.descriptor, fcntl.F_ADD_SEALS, 0x10)  # F_SEAL_FUTURE_WRITE
    os.kill(daemon.worker_pids()[0], signal.SIGKILL)

    def told():
        error, _ = client.outcome(client.send("laplacian", f=region.place(like=f)))
        return error and error.code in ("INTERNAL", "OUT_OF_MEMORY")
    eventually(told, "an error of its own, once the worker's end was seen")
    assert told(), "and ever after"
    assert client.out("laplacian", f=other.place(like=f)).shape == SHAPE
    assert client.call("unregister", region=region.id) == {}


def test_without_memory_for_it_nothing_is_left(daemon, unchanged):
    """A worker that restarts while a region is being created."""
    client = daemon.client()
    for _ in range(3):
        regions = [Region(16 * MiB) for _ in range(4)]
        ids = [region.send_register(client) for region in regions]
        with contextlib.suppress(ProcessLookupError):  # the last round's, whose end is not known yet
            os.kill(daemon.worker_pids()[0], signal.SIGKILL)
        for region, msgid in zip(regions, ids):
            region.id = client.recv(msgid)["region"]
            assert client.call("unregister", region=region.id) == {}


def test_regions_are_in_info_and_stats(client):
    info = client.call("info")
    assert {"register", "unregister"} <= set(info["methods"])
    limits = info["limits"]
    assert (limits["region_bytes"], limits["region_memory"], limits["max_regions"]) == (256 * MiB, 384 * MiB, 20)
    region = Region(5000).registered(client)
    user = client.call("stats")["user"]
    assert (user["regions"], user["region_bytes"]) == (1, 8192)


def test_a_draining_server_takes_no_region():
    with Daemon("--drain-timeout-s", 8) as daemon:
        client = daemon.client()
        f = wave(256, 256)
        job = client.send("diffusion", f=f, steps=10**7, cfl=1)
        region = Region(MiB).registered(client)
        eventually(lambda: daemon.stats()["queue"]["running"], "the job running")
        daemon.process.send_signal(signal.SIGTERM)
        eventually(lambda: "draining" in daemon.log(), "it to drain")
        refused(client, region.send_register(client), "SHUTTING_DOWN")
        assert client.call("unregister", region=region.id) == {}
        refused(client, job, "TIMEOUT")


def test_a_server_with_few_descriptors():
    """Regions leave half of the descriptors to connections; the last ones are reserved for users who hold none."""
    most = 128
    with Daemon(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))) as daemon:
        client = daemon.client()
        regions = [Region(1) for _ in range(most // 2)]
        ids = [region.register(client) for region in regions]
        held = descriptors(daemon.pid)
        error = refused(client, regions[0].send_register(client), "OVER_BUDGET")
        assert (error.need, error.limit) == (most // 2 + 1, most // 2)
        client.call("unregister", region=ids[0])
        eventually(lambda: descriptors(daemon.pid) < held, "its descriptor closed")  # by another thread
        others = daemon.connect_all()
        assert descriptors(daemon.pid) < most * 7 // 8
        error = refused(client, regions[0].send_register(client), "OVER_BUDGET")
        assert "descriptors" in error.message
        for other in others:
            other.close()
        eventually(lambda: client.call("stats")["connections"] == 1, "them gone")
        regions[0].register(client)


@needs_root
@needs_preload
def test_users_whose_memory_is_slow_to_allocate():
    """However many they are, others register regions and have bounds computed meanwhile."""
    faults = Faults("fdserver", hang="/memfd:slow (deleted)")
    with Daemon("--mode", "0666", env=faults.env) as daemon:
        slow = [(daemon.client_as(60001 + i), Region(MiB, name="slow")) for i in range(6)]
        for client, region in slow:
            region.send_register(client)
        eventually(lambda: daemon.stats()["totals"]["region_bytes"] == len(slow) * MiB, "all of them begun")
        with daemon.client() as client:
            assert len(client.recv(ask(client))["ops"]) == LINKS
            region = Region.holding(client, wave(16, 16))
            client.call("unregister", region=region.id)
        faults[GO_ON] = 1
        for client, region in slow:
            assert client.recv(0)["region"]
            client.close()


def test_a_daemon_that_stops_with_regions():
    with Daemon() as daemon:
        client = daemon.client()
        for _ in range(3):
            Region(MiB).register(client)
        Region(512 * MiB).send_register(client)

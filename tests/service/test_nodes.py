"""Devices of other nodes: a head with the one address, and nodes that join it and lend it their devices."""

import contextlib
import itertools
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import threading
import time

import numpy
import pytest

from fdtest import ENDLESS, PATIENCE_S, MiB, Daemon, Node, Region, binary, bits, clean_environment, eventually, sanitized, starved, stopped, wave

LENT = "n1/host"
LOST = {"DEVICE_LOST", "FIELD_LOST"}
RANDOM = numpy.random.default_rng()


def new_random(*shape):
    return RANDOM.standard_normal(shape).astype("f4")


def states(daemon):
    return {device["name"]: device["state"] for device in daemon.info()["devices"]}


def entry(daemon, name=LENT):
    return next(device for device in daemon.info()["devices"] if device["name"] == name)


def joined(daemon, name=LENT, after=0):
    """Wait until the device has joined, after that generation."""
    def is_ready():
        device = entry(daemon, name)
        return device["state"] == "ready" and device["generation"] > after
    eventually(is_ready, f"{name} has joined")


def lose(daemon):
    """The node ends, for good."""
    daemon.nodes.pop("n1").kill()
    eventually(lambda: entry(daemon)["state"] == "down", "the node is missed")


@pytest.fixture(scope="module")
def head():
    with Daemon("--staging-bytes", 16 * MiB, device="host,n1/host,n1/host:1") as daemon:
        yield daemon


@pytest.fixture
def client(head):
    with head.client() as one:
        yield one


def test_jobs_on_a_node_have_the_same_bits(client):
    f, kappa = new_random(40, 48, 50), numpy.abs(new_random(40, 48, 50)) + 0.1
    jobs = [("laplacian", {}), ("derivative", {"axis": "y", "boundary": {"y": {"value": 0.5}}}),
            ("gradient", {"accuracy": 4}), ("diffusion", {"steps": 7, "cfl": 0.3, "diffusivity": kappa}),
            ("diffusion", {"steps": 3, "dt": 0.5, "scheme": "adi", "boundary": {"derivative": 0}}),
            ("stencil", {"offsets": [[0, 0, 0], [1, 2, 3]], "weights": [0.5, 0.25]}),
            ("derivative", {"axis": "x", "boundary": "one-sided",
                            "spacing": {"x": numpy.sort(RANDOM.random(50)).tolist()}})]
    for method, params in jobs:
        here = client.out(method, f=f, placement="host", **params)
        there = client.out(method, f=f, placement=LENT, **params)
        assert bits(here) == bits(there), method


def test_fields_stay_on_a_node(client):
    f = new_random(64, 64, 64)
    field = client.call("put", f=f, placement=LENT)["field"]
    assert client.call("list")["fields"][0]["device"] == LENT
    assert client.get(field).tobytes() == f.tobytes()
    expected = client.out("laplacian", f=f, placement="host").tobytes()
    # A job runs where its input lies, or else the input comes to the job.
    assert client.call("laplacian", f={"field": field}, dry_run=True)["device"] == LENT
    for placement in LENT, "n1/host:1", "host":
        assert client.out("laplacian", f={"field": field}, placement=placement).tobytes() == expected
    client.free(field)


def test_arrays_pass_from_node_to_node():
    """Not through the head: each node has connections to the others."""
    def sockets(node):
        [bridge] = processes(node, "fdbridge")
        return sum(link.startswith("socket:") for link in links(bridge).values())

    with Daemon("--staging-bytes", 16 * MiB, device="n1/host,n2/host,n3/host") as daemon, daemon.client() as client:
        # Its channel, the head, its listener, and from and to two other nodes.
        eventually(lambda: {sockets(node) for node in daemon.nodes.values()} == {7}, "all nodes are connected")
        f = new_random(130, 256, 256)
        expected = client.out("laplacian", f=f).tobytes()
        fields = [client.call("put", f=f, placement=f"n{i}/host")["field"] for i in (1, 2, 3)]
        jobs = [client.send("laplacian", f={"field": field}, placement=f"n{i}/host") for field in fields for i in (1, 2, 3)]
        assert {client.recv(job)["out"].tobytes() for job in jobs} == {expected}
        both = client.call("put", f=f, distribute=True)["field"]
        steps = client.out("diffusion", f={"field": both}, steps=40, cfl=0.5).tobytes()
        assert steps == client.out("diffusion", f=f, steps=40, cfl=0.5, placement="n1/host").tobytes()


def test_nodes_survive_each_other():
    """One of three ends again and again, in the middle of copies between them: right bits, or what is lost."""
    with Daemon(device="n1/host,n2/host,n3/host") as daemon, daemon.client() as client:
        f = new_random(96, 128, 128)
        params = {"steps": 200, "accuracy": 2, "cfl": 0.5}
        expected = client.out("diffusion", f=f, placement="n1/host", **params).tobytes()
        laplacian = client.out("laplacian", f=f, placement="n1/host").tobytes()
        for i in range(6):
            name = f"n{1 + i % 3}"
            victim, known = daemon.nodes[name], entry(daemon, f"{name}/host")["generation"]
            here = client.call("put", f=f, placement=f"n{1 + (i + 1) % 3}/host")["field"]
            field = client.call("put", f=f, distribute=True)["field"]
            jobs = [client.send("diffusion", f={"field": field}, **params) for _ in range(3)]
            copies = [client.send("laplacian", f={"field": here}, placement=f"n{1 + (i + 2) % 3}/host") for _ in range(6)]
            time.sleep(RANDOM.random() * 0.5)
            os.kill(processes(victim, "fdworker" if i % 2 else "fdbridge")[0], signal.SIGKILL)
            for job in jobs:
                error, result = client.outcome(job)
                assert error.code in LOST if error else result["out"].tobytes() == expected
            for copy in copies:  # between the other two
                assert client.recv(copy)["out"].tobytes() == laplacian
            joined(daemon, f"{name}/host", after=known)
            eventually(lambda: set(states(daemon).values()) == {"ready"}, "all nodes are back")
            assert client.out("diffusion", f=f, distribute=True, **params).tobytes() == expected
            client.free(here, field)


def test_large_and_many_arrays(client):
    """Larger than the arena of 16 MiB, and many at once."""
    f = new_random(160, 256, 256)
    field = client.call("put", f=f, placement=LENT)["field"]
    jobs = [client.send("laplacian", f={"field": field}, placement=LENT) for _ in range(4)]
    small = [client.send("laplacian", f=f[i], placement=LENT) for i in range(40)]
    results = [client.recv(job)["out"].tobytes() for job in jobs + small]
    assert set(results[:4]) == {client.out("laplacian", f=f, placement="host").tobytes()}
    assert results[4:] == [client.out("laplacian", f=f[i], placement="host").tobytes() for i in range(40)]
    client.free(field)


def test_regions_are_mirrored(client):
    """A job on a node reads arrays in shared memory, and writes results there, by copies of its own."""
    f = new_random(48, 64, 64)
    region = Region.holding(client, f, size=4 * f.nbytes)
    expected = client.out("laplacian", f=f, placement="host").tobytes()
    for i in range(3):
        out = region.place(f.nbytes * (1 + i), like=f)
        client.call("laplacian", f=region.place(like=f), out=out, placement=[LENT, "n1/host:1", LENT][i])
        assert region.array("f4", f.shape, f.nbytes * (1 + i)).tobytes() == expected
    # What changes in between is seen.
    region.array("f4", f.shape)[:] = 2 * f
    client.call("put", f=region.place(like=f), placement=LENT)
    (field,) = client.call("list")["fields"]
    assert client.get(field["field"]).tobytes() == (2 * f).tobytes()
    client.call("get", field=field["field"], out=region.place(f.nbytes))
    assert region.array("f4", f.shape, f.nbytes).tobytes() == (2 * f).tobytes()
    client.free(field["field"])
    client.call("unregister", region=region.id)


def test_a_node_has_less_memory_than_its_head():
    """A region that is too large for it cannot be used there, and can be used here."""
    with Daemon(device="host,n1/host", wait=False) as daemon:
        daemon.nodes["n1"] = Node("n1", "host", daemon.port(), daemon.key, daemon.folder, "--region-memory", "3M")
        eventually(daemon.answers, "the node joins")
        with daemon.client() as client:
            f = new_random(64, 64, 64)  # 1 MiB
            small, large = Region.holding(client, f, size=2 * f.nbytes), Region.holding(client, f, size=4 * f.nbytes)
            expected = client.out("laplacian", f=f, placement="host").tobytes()
            assert client.out("laplacian", f=small.place(like=f), placement=LENT).tobytes() == expected
            assert client.refused("laplacian", f=large.place(like=f), placement=LENT).code == "OUT_OF_MEMORY"
            assert client.out("laplacian", f=large.place(like=f), placement="host").tobytes() == expected
            client.call("unregister", region=small.id)  # then there is room for another one
            other = Region.holding(client, f, size=3 * f.nbytes)
            assert client.out("laplacian", f=other.place(like=f), placement=LENT).tobytes() == expected


def test_a_connection_has_its_home_at_the_head(head):
    for _ in range(3):
        with head.client() as client:
            field = client.call("put", f=wave(8, 8, 8))["field"]
            assert [f["device"] for f in client.call("list")["fields"]] == ["host"]
            client.free(field)


def test_what_no_node_can_do(client):
    field = client.call("put", f=wave(8, 8, 8), placement=LENT)["field"]
    assert client.refused("export", field=field).code == "UNSUPPORTED"
    assert client.get(field).tobytes() == wave(8, 8, 8).tobytes()
    client.free(field)
    assert client.refused("laplacian", f=wave(8, 8, 8), placement="n2/host").code == "INVALID_ARGUMENT"


def test_a_job_on_a_node_is_cancelled_and_times_out(client):
    job = client.send("diffusion", f=wave(64, 64, 64), placement=LENT, **ENDLESS)
    client.cancel(job)
    assert client.refused("diffusion", f=wave(64, 64, 64), placement=LENT, timeout=200_000, **ENDLESS).code == "TIMEOUT"


@pytest.mark.parametrize("killed", ["worker", "bridge of the node", "bridge of the head", "node"])
def test_a_node_that_fails(killed):
    """Its jobs and fields are lost, and say so; all else goes on; it joins again by itself, if it is still there."""
    with Daemon(device="host,n1/host") as daemon, daemon.client() as client:
        f = new_random(64, 64, 64)
        expected = client.out("laplacian", f=f, placement="host").tobytes()
        for _ in range(3):
            node = daemon.nodes["n1"]
            known = entry(daemon)
            here = client.call("put", f=f, placement="host")["field"]
            there = client.call("put", f=f, placement=LENT)["field"]
            both = client.call("put", f=f, distribute=True)["field"]
            job = client.send("diffusion", f={"field": there}, **ENDLESS)
            elsewhere = client.send("diffusion", f={"field": here}, out="field", steps=200, cfl=0.5)
            if killed == "node":
                node.kill()
            elif killed == "bridge of the head":
                os.kill(known["pid"], signal.SIGKILL)
            else:
                (pid,) = [pid for pid, name in children(node.process.pid) if (name == "fdworker") == (killed == "worker")]
                os.kill(pid, signal.SIGKILL)
            assert client.error(job).code in LOST  # of one that has not begun
            kept = client.recv(elsewhere)["out"]["field"]
            assert client.refused("get", field=there).code == "FIELD_LOST"
            assert client.refused("get", field=both).code == "FIELD_LOST"
            assert client.get(here).tobytes() == f.tobytes()
            if killed == "node":
                eventually(lambda: states(daemon)[LENT] == "down", "the node is missed")
                daemon.join("n1", "host")
            joined(daemon, after=known["generation"])
            eventually(lambda: states(daemon)["distributed"] == "ready", "the group is whole")
            assert client.out("laplacian", f=f, placement=LENT).tobytes() == expected
            assert client.out("laplacian", f=f, distribute=True).tobytes() == expected
            client.free(here, kept, there, both)


def links(pid):
    """What the descriptors of a process lead to."""
    found = {}
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it has been closed meanwhile
            found[int(descriptor)] = os.readlink(f"/proc/{pid}/fd/{descriptor}")
    return found


def children(pid):
    """Processes that this one has started: pairs of a pid and a name."""
    tasks = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    pids = [pid for task in tasks for pid in task.read_text().split()]
    found = []
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            found.append((int(pid), pathlib.Path(f"/proc/{pid}/comm").read_text().strip()))
    return found


def processes(node, program=None):
    """The pids of the node's processes of that program, or of all."""
    return [pid for pid, name in children(node.process.pid) if program in (name, None)]


@pytest.mark.parametrize("placement", [LENT, "distributed"])
def test_a_node_that_leaves(placement):
    """What runs there finishes, what has not begun is answered, and new jobs go elsewhere; then the node ends."""
    with Daemon(device="host,n1/host", node_options=("--drain-timeout-s", "100000")) as daemon, \
            daemon.client() as client, daemon.client() as other:
        f = new_random(96, 96, 96)
        long = {"steps": 300 if sanitized() else 3000, "cfl": 0.5, "accuracy": 2}
        expected = client.out("diffusion", f=f, placement="host", **long).tobytes()
        for _ in range(2):
            field = client.call("put", f=f, placement=placement)["field"]
            node = daemon.nodes.pop("n1")
            [worker] = processes(node, "fdworker")
            runs = client.send("diffusion", f={"field": field}, out={"field": field}, progress=True, **long)
            client.await_note()
            with starved(worker):  # so that it is not over before what follows
                waits = [client.send("laplacian", f={"field": field}, placement=placement) for _ in range(3)]
                result = client.send("get", field=field)
                node.process.send_signal(signal.SIGTERM)
                eventually(lambda: states(daemon)[LENT] == "leaving", "the head knows")
                assert {client.error(job).code for job in waits} == {"DEVICE_LOST"}
                for where in {"placement": LENT}, {"distribute": True}:
                    for method in "laplacian", "put":
                        error = other.refused(method, f=f, **where)
                        assert (error.code, error.retryable) == ("DEVICE_LOST", True)
                assert other.call("laplacian", f=f, dry_run=True, placement="spread")["device"] == "host"
                assert node.process.poll() is None
            client.recv(runs)
            assert client.recv(result)["out"].tobytes() == expected
            assert node.process.wait(PATIENCE_S) == 0
            eventually(lambda: states(daemon)[LENT] == "down", "the head knows")
            assert client.refused("get", field=field).code == "FIELD_LOST"
            client.free(field)
            client.notifications.clear()
            daemon.join("n1", "host")
            joined(daemon)
            eventually(lambda: states(daemon)["distributed"] == "ready", "the group is whole")


def test_a_node_leaves_once_what_is_copied_from_it_has_gone():
    """The copy waits for a device that takes nothing for a while: nothing of it is with the node meanwhile."""
    with Daemon("--staging-bytes", "16M", device="host,n1/host") as daemon, daemon.client() as client:
        f = new_random(256, 256, 256)
        expected = client.out("laplacian", f=f, placement="host").tobytes()
        field = client.call("put", f=f, placement=LENT)["field"]
        with stopped(entry(daemon, "host")["pid"]):
            job = client.send("laplacian", f={"field": field}, placement="host")
            client.call("ping")  # it has been read
            node = daemon.nodes.pop("n1")
            node.process.send_signal(signal.SIGTERM)
            eventually(lambda: states(daemon)[LENT] == "leaving", "the head knows")
            time.sleep(1.2)  # two beats
            assert states(daemon)[LENT] == "leaving"
        assert client.recv(job)["out"].tobytes() == expected
        assert node.process.wait(PATIENCE_S) == 0
        client.free(field)


def test_a_node_leaves_in_time():
    """At the end of --drain-timeout-s, whatever runs there; and at once, while it has not joined."""
    with Daemon(device="host,n1/host", wait=False) as daemon:
        node = daemon.nodes["n1"] = Node("n1", "host", daemon.port(), daemon.key, daemon.folder, "--drain-timeout-s", "2")
        eventually(daemon.answers, "the node joins")
        with daemon.client() as client:
            job = client.send("diffusion", f=wave(64, 64, 64), placement=LENT, progress=True, **ENDLESS)
            client.await_note()
            node.process.send_signal(signal.SIGTERM)
            assert client.error(job).code == "DEVICE_LOST"
            assert node.process.wait(PATIENCE_S) == 0
        alone = Node("n1", "host", 1, daemon.key, daemon.folder, "--drain-timeout-s", "100000")
        eventually(lambda: "cannot join" in alone.log(), "an attempt")
        alone.stop()


def test_nothing_waits_for_a_node_that_is_not_there():
    with Daemon(device="host,n1/host", wait=False) as daemon:
        daemon.await_socket()
        with daemon.client() as client:
            eventually(lambda: states(daemon) == {"host": "ready", "n1/host": "down", "distributed": "starting"}, "no node")
            for params in {"placement": LENT}, {"distribute": True}, {"placement": "distributed"}:
                error = client.refused("laplacian", f=new_random(64, 64, 64), **params)
                assert (error.code, error.retryable) == ("DEVICE_LOST", True)
                assert client.refused("put", f=new_random(64, 64, 64), **params).code == "DEVICE_LOST"
            for placement in {}, {"placement": "spread"}:
                assert client.out("laplacian", f=wave(8, 8, 8), **placement).shape == (8, 8, 8)
            daemon.join("n1", "host")
            joined(daemon)
            assert client.out("laplacian", f=wave(8, 8, 8), placement=LENT).shape == (8, 8, 8)


def test_a_head_without_devices_of_its_own():
    with Daemon(device="n1/host,n2/host") as daemon, daemon.client() as client:
        f = new_random(64, 64, 64)
        placed = [client.out("laplacian", f=f, placement=name).tobytes() for name in ("n1/host", "n2/host")]
        assert {client.out("laplacian", f=f).tobytes(), client.out("laplacian", f=f, distribute=True).tobytes(),
                *placed} == {placed[0]}
        # A region is registered at a node, too.
        region = Region.holding(client, f, size=2 * f.nbytes)
        client.call("laplacian", f=region.place(like=f), out=region.place(f.nbytes, like=f))
        assert region.array("f4", f.shape, f.nbytes).tobytes() == placed[0]


def has_ipv6():
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here")
def test_nodes_join_by_ipv6():
    with Daemon(device="n1/host,n2/host", address="[::1]") as daemon, daemon.client() as client:
        f = wave(8, 8, 8)
        field = client.call("put", f=f, placement="n1/host")["field"]
        there = client.out("laplacian", f={"field": field}, placement="n2/host")
        assert there.tobytes() == client.out("laplacian", f=f, placement="n1/host").tobytes()


def test_a_head_that_restarts_finds_its_nodes():
    with Daemon(device="host,n1/host") as daemon:
        port, log = daemon.port(), daemon.log_path
        daemon.process.kill()
        daemon.process.wait()
        os.unlink(daemon.path)
        with open(log, "ab") as out:
            daemon.process = subprocess.Popen(
                [binary("fdserver"), "--listen", f"unix:{daemon.path}", "--device", "host,n1/host", "--nodes",
                 f"127.0.0.1:{port}", "--cluster-key", daemon.key], env=clean_environment(), stderr=out)
        eventually(daemon.answers, "the node joins the next head")
        with daemon.client() as client:
            assert client.out("laplacian", f=wave(8, 8, 8), placement=LENT).shape == (8, 8, 8)


def test_a_node_that_is_cut_off_fences_itself():
    """Its head is stopped, as by a partition: the node ends its worker when the lease is over, and joins later."""
    with Daemon(device="host,n1/host") as daemon:
        node, there = daemon.nodes["n1"], entry(daemon)
        [worker] = processes(node, "fdworker")
        with stopped(there["pid"], daemon.pid):
            eventually(lambda: worker not in processes(node), "the worker is ended")
            eventually(lambda: "its lease is over" in node.log(), "the reason in the log")
        joined(daemon, after=there["generation"])


def test_a_node_that_stops_is_given_up():
    with Daemon(device="host,n1/host") as daemon, daemon.client() as client:
        field = client.call("put", f=wave(8, 8, 8), placement=LENT)["field"]
        generation = entry(daemon)["generation"]
        with stopped(*processes(daemon.nodes["n1"])):
            assert client.refused("laplacian", f={"field": field}, placement=LENT).code == "DEVICE_LOST"
        joined(daemon, after=generation)


# --- strangers ---


def test_a_node_with_another_key_stays_outside(head, tmp_path):
    key = tmp_path / "key"
    key.write_text("another key of the cluster")
    key.chmod(0o600)
    before = entry(head)["generation"]
    node = Node("n1", "host", head.port(), str(key), str(tmp_path))
    eventually(lambda: "another cluster key" in node.log(), "the refusal")
    eventually(lambda: states(head)[LENT] == "ready", "the other one")
    assert entry(head)["generation"] == before
    node.kill()


def test_a_node_that_nobody_named_stays_outside(head, tmp_path):
    before = entry(head)["generation"]
    node = Node("n9", "host", head.port(), head.key, str(tmp_path))
    eventually(lambda: "does not name it" in node.log(), "the refusal")
    node.kill()
    twin = Node("n1", "host", head.port(), head.key, str(tmp_path))
    eventually(lambda: "has joined already" in twin.log(), "the refusal")
    twin.kill()
    ready = dict.fromkeys(["host", "n1/host", "n1/host:1", "distributed"], "ready")
    eventually(lambda: states(head) == ready, "the others, and no more")
    assert entry(head)["generation"] == before


def test_strangers_at_the_port(head, client):
    """Garbage, TLS without the key, silence: the head serves, and forgets them."""
    def connections():
        return [name for _, name in children(head.pid)].count("fdbridge")

    lent = [name for name in states(head) if "/" in name]
    eventually(lambda: connections() == len(lent), "those of the tests before are gone")
    open_ones = [socket.create_connection(("127.0.0.1", head.port())) for _ in range(40)]
    for i, one in enumerate(open_ones):
        with contextlib.suppress(OSError):
            one.sendall(os.urandom(1 + i * 100) if i % 2 else b"")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", head.port()), timeout=10) as one:
        with pytest.raises((ssl.SSLError, OSError)):
            context.wrap_socket(one).recv(1)
    assert connections() <= len(lent) + 2 * 16  # with those that have been ended and are not reaped yet
    assert client.out("laplacian", f=wave(8, 8, 8), placement=LENT).shape == (8, 8, 8)
    eventually(lambda: connections() == len(lent), "the last of them is gone")  # also of those that are silent
    for one in open_ones:
        one.close()


@contextlib.contextmanager
def silent_strangers(port, *addresses, pause=0):
    """From each address 32 connections that say nothing, made anew as soon as they are closed, or after a pause."""
    ends = threading.Event()

    def hold(address):
        while not ends.is_set():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5, (address, 0)) as one:
                while not ends.is_set() and one.recv(1):
                    pass
            ends.wait(pause)
    threads = [threading.Thread(target=hold, args=(address,)) for address in addresses for _ in range(32)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ends.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("addresses, pause", [(["127.0.0.2"], 0), (["127.0.0.2", "127.0.0.3", "127.0.0.4"], 0), (["127.0.0.1"], 2)],
                         ids=["one", "three", "the node's own"])
def test_a_node_joins_in_spite_of_strangers(addresses, pause):
    with Daemon(device="host,n1/host", wait=False) as daemon:
        daemon.await_socket()
        with daemon.client() as client, silent_strangers(daemon.port(), *addresses, pause=pause):
            eventually(lambda: len(children(daemon.pid)) >= 17, "the strangers' handshakes")
            for _ in range(3):
                daemon.join("n1", "host")
                joined(daemon)
                assert client.out("laplacian", f=wave(8, 8, 8), placement=LENT).shape == (8, 8, 8)
                assert len(children(daemon.pid)) <= 40
                lose(daemon)


def test_options_that_do_not_go_together(tmp_path):
    key = tmp_path / "key"
    key.write_text("sixteen bytes or more")
    key.chmod(0o600)
    for options, text in [(["--device", "n1/host"], "--nodes"), (["--nodes", ":0"], "--cluster-key"),
                          (["--join", "a:1"], "--cluster-key"), (["--device", "n1/gpu"], "must be auto"),
                          (["--device", "n/1/host"], "must be auto"), (["--device", "n1/host,n1/host"], "twice"),
                          (["--nodes", ":0", "--join", "a:1", "--cluster-key", key], "do not go together"),
                          (["--join", "a:1", "--cluster-key", key, "--node", "a b"], "--node"),
                          (["--nodes", ":0", "--cluster-key", key], "names no other node")]:
        ended = subprocess.run([binary("fdserver"), *map(str, options)], env=clean_environment(), capture_output=True,
                               text=True, timeout=60)
        assert ended.returncode == 2 and text in ended.stderr, ended.stderr


@pytest.mark.parametrize("text, mode, why", [("short", 0o600, "16 to 4095 bytes"), ("long enough a key", 0o644, "access to it")])
def test_a_key_that_is_none(tmp_path, text, mode, why):
    key = tmp_path / "key"
    key.write_text(text)
    key.chmod(mode)
    node = Node("n1", "host", 1, str(key), str(tmp_path))
    eventually(lambda: why in node.log(), "the refusal")
    node.kill()


def test_a_node_whose_device_cannot_be_used_does_not_start(tmp_path):
    """As a server with such a device; the head need not be there."""
    (tmp_path / "key").write_text("0" * 64)
    (tmp_path / "key").chmod(0o600)
    ended = subprocess.run([binary("fdserver"), "--join", "127.0.0.1:1", "--device", "host,cuda:99", "--cluster-key",
                            str(tmp_path / "key")], env=clean_environment(), capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1 and "cuda:99 cannot be used" in ended.stderr, ended.stderr


def test_neighbours_are_not_held_up_by_a_node():
    """While one user's node stands still, jobs of others on the head go on."""
    with Daemon(device="host,n1/host") as daemon, daemon.client() as client, daemon.client() as other:
        field = client.call("put", f=wave(64, 64, 64), placement=LENT)["field"]
        with stopped(*processes(daemon.nodes["n1"])):
            jobs = [client.send("laplacian", f={"field": field}, placement=LENT) for _ in range(50)]
            for _ in range(20):
                assert other.out("laplacian", f=wave(16, 16, 16), placement="host").shape == (16, 16, 16)
            assert {client.error(job).code for job in jobs} <= LOST


# --- networks ---


NETWORKS = itertools.count(1)


@contextlib.contextmanager
def other_network(*traits):
    """A network namespace, linked to this one by a cable with these traits (tc-tbf); yields the command that runs programs
    there, and the address of this end."""
    number = next(NETWORKS)  # what is removed goes a while later
    name, net = f"fd{os.getpid()}n{number}", f"10.{os.getpid() % 200}.{number}"

    def run(*command):
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    inside = ["ip", "netns", "exec", name]
    try:
        run("ip", "netns", "add", name)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs root, and ip of iproute2")
    try:
        try:
            run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "addr", "add", f"{net}.1/24", "dev", name)
            run(*inside, "ip", "addr", "add", f"{net}.2/24", "dev", "eth0")
            for command in [["ip"], [*inside, "ip"]]:
                run(*command, "link", "set", name if command == ["ip"] else "eth0", "up")
            run("tc", "qdisc", "add", "dev", name, "root", "tbf", *traits)
            run(*inside, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *traits)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network like that here: {error}")
        yield inside, f"{net}.1"
    finally:
        run("ip", "netns", "del", name)


def test_a_network_that_loses_packets():
    """What finds more than four packets waiting is lost: the same bits, from distributed fields, too."""
    with other_network("rate", "200mbit", "burst", "4kb", "limit", "6kb") as (inside, address):
        with Daemon(device="host,n1/host", address=address, inside=inside) as daemon, daemon.client() as client:
            f = new_random(64, 64, 64)
            expected = client.out("diffusion", f=f, steps=40, cfl=0.5, placement="host").tobytes()
            for _ in range(3):
                assert client.out("diffusion", f=f, steps=40, cfl=0.5, placement=LENT).tobytes() == expected
                assert client.out("diffusion", f=f, steps=40, cfl=0.5, distribute=True).tobytes() == expected


def test_a_network_that_is_slow():
    """Arrays take longer than a silence is allowed to last, and no worker is taken for one that hangs."""
    with other_network("rate", "20mbit", "burst", "4kb", "latency", "400ms") as (inside, address):
        with Daemon(device="host,n1/host", address=address, inside=inside) as daemon, daemon.client() as client:
            f = new_random(96, 256, 200)  # 20 MB: eight seconds each way
            field = client.call("put", f=f, placement=LENT)["field"]
            assert client.get(field).tobytes() == f.tobytes()
            assert entry(daemon)["generation"] == 1
            # It is now known to be slow: what can be done here is done here.
            assert client.call("laplacian", f=f, dry_run=True)["device"] == "host"

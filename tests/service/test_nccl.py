"""Copies between GPUs of different nodes by NCCL: on emulated GPUs, with an emulated NCCL that can be made to fail."""

import os
import signal

import numpy
import pytest

from fdtest import ON_HOST_NCCL, Daemon, eventually
from test_nodes import LOST, processes, states

if not ON_HOST_NCCL.exists():
    pytest.skip("needs emulated GPUs", allow_module_level=True)

STEPS = {"steps": 40, "accuracy": 8, "cfl": 0.5}
ONE, OTHER = "n1/cuda:0", "n2/cuda:1"


@pytest.fixture
def fail(tmp_path, monkeypatch):
    """Let the emulated NCCL of all workers that start from now on fail as told."""
    path = tmp_path / "fault"
    path.write_text("")
    monkeypatch.setenv("NCCL_ON_HOST", str(path))
    return path.write_text


@pytest.fixture
def exchanges(tmp_path):
    """How many of either rank are done."""
    path = tmp_path / "fault.done"
    return lambda: path.stat().st_size if path.exists() else 0


def cluster(device=f"{ONE},{OTHER}", drain_s=30):
    return Daemon("--nccl", ON_HOST_NCCL, device=device,
                  node_options=("--nccl", str(ON_HOST_NCCL), "--drain-timeout-s", str(drain_s)))


def new_array():
    return numpy.random.default_rng().standard_normal((96, 64, 80)).astype("f4")


def cross(client, field):
    """A job whose input, the node's n1, is copied to the other."""
    out = client.out("laplacian", f={"field": field}, placement=OTHER)
    assert out.tobytes() == client.out("laplacian", f={"field": field}).tobytes()


def generations(daemon):
    return [d["generation"] for d in daemon.info()["devices"][:2]]


def connected(daemon, times=1):
    eventually(lambda: daemon.log().count("exchange arrays by NCCL") >= times, "the devices are connected")


def connect_by_a_copy(daemon, client):
    """An array and its field, whose first copy, which goes another way, has the two nodes connected."""
    f = new_array()
    field = client.call("put", f=f, placement=ONE)["field"]
    cross(client, field)
    connected(daemon)
    return f, field


def test_the_same_bits_by_nccl(fail, exchanges):
    with cluster() as daemon, daemon.client() as client:
        f = new_array()
        field = client.call("put", f=f, placement=ONE)["field"]
        cross(client, field)  # another way, as long as there is none
        connected(daemon)
        before = exchanges()
        cross(client, field)
        assert exchanges() > before
        both = client.call("put", f=f, distribute=True)["field"]
        for params in STEPS, {"steps": 3, "dt": 0.5, "scheme": "adi", "boundary": {"derivative": 0}}:
            expected = client.out("diffusion", f=f, placement=ONE, **params).tobytes()
            jobs = [client.send("diffusion", f={"field": both}, **params) for _ in range(3)]
            assert {client.recv(job)["out"].tobytes() for job in jobs} == {expected}
        client.free(field, both)


def test_head_and_nodes(fail, exchanges):
    """A node's GPUs, and the head's own: every two of different nodes, and of one node that is not the head's."""
    with cluster("cuda:0,n1/cuda:1,n1/cuda:2") as daemon, daemon.client() as client:
        f = new_array()
        field = client.call("put", f=f, distribute=True)["field"]
        expected = client.out("diffusion", f=f, placement="cuda:0", **STEPS).tobytes()
        assert client.out("diffusion", f={"field": field}, **STEPS).tobytes() == expected
        connected(daemon, 3)
        before = exchanges()
        assert client.out("diffusion", f={"field": field}, **STEPS).tobytes() == expected
        assert exchanges() > before
        client.free(field)


def test_workers_that_end_while_they_exchange(fail, exchanges):
    """Right bits, or what is lost; and a new communicator with the next worker."""
    with cluster() as daemon, daemon.client() as client:
        f = new_array()
        params = STEPS | {"steps": 400}
        expected = client.out("diffusion", f=f, placement=ONE, **params).tobytes()
        for i in range(6):
            field = client.call("put", f=f, distribute=True)["field"]
            kept = client.call("put", f=f, placement=[OTHER, ONE][i % 2])["field"]
            client.call("diffusion", f={"field": field}, out="field", **STEPS)
            connected(daemon, 1 + i)
            before = exchanges()
            jobs = [client.send("diffusion", f={"field": field}, **params) for _ in range(3)]
            eventually(lambda: exchanges() > before, "they exchange")
            known = sum(generations(daemon))
            os.kill(processes(daemon.nodes[f"n{1 + i % 2}"], "fdworker")[0], signal.SIGKILL)
            for job in jobs:
                error, result = client.outcome(job)
                assert error.code in LOST if error else result["out"].tobytes() == expected
            assert client.get(kept).tobytes() == f.tobytes()  # the other one's
            eventually(lambda: sum(generations(daemon)) > known, "another worker")
            eventually(lambda: set(states(daemon).values()) == {"ready"}, "all are back")
            client.free(field, kept)
        assert sum(generations(daemon)) == 2 + 6


def test_devices_that_cannot_connect(fail, exchanges):
    """All goes another way, and is tried again."""
    fail("never")
    with cluster() as daemon, daemon.client() as client:
        f = new_array()
        field = client.call("put", f=f, placement=ONE)["field"]
        both = client.call("put", f=f, distribute=True)["field"]
        expected = client.out("diffusion", f=f, placement=ONE, **STEPS).tobytes()

        def go_on():
            cross(client, field)
            assert client.out("diffusion", f={"field": both}, **STEPS).tobytes() == expected
            return "exchange nothing by NCCL: no answer" in daemon.log()
        eventually(go_on, "they give up")
        assert exchanges() == 0
        fail("")
        eventually(lambda: not go_on() or exchanges(), "they connect")
        assert generations(daemon) == [1, 1]
        client.free(field, both)


@pytest.mark.parametrize("how", ["hang", "error"])
def test_exchanges_that_fail(fail, exchanges, how):
    """The copies that were under way go another way, as do later ones, and no worker is taken for one that hangs."""
    with cluster() as daemon, daemon.client() as client:
        f, field = connect_by_a_copy(daemon, client)
        params = STEPS | {"steps": 400}
        both = client.call("put", f=f, distribute=True)["field"]
        expected = client.out("diffusion", f=f, placement=ONE, **params).tobytes()
        before = exchanges()
        job = client.send("diffusion", f={"field": both}, **params)
        eventually(lambda: exchanges() > before, "they exchange")
        fail(how)
        cross(client, field)
        eventually(lambda: "exchange nothing by NCCL" in daemon.log(), "it is noticed")
        assert client.recv(job)["out"].tobytes() == expected
        before = exchanges()
        fail("never")  # however long the rest takes
        for _ in range(5):
            cross(client, field)
        assert client.out("diffusion", f={"field": both}, **params).tobytes() == expected
        assert exchanges() == before
        fail("")

        def exchange():
            cross(client, field)
            return exchanges() > before
        eventually(exchange, "they exchange again")
        assert generations(daemon) == [1, 1]
        client.free(field, both)


def test_a_worker_that_hangs_keeps_no_other(fail):
    """The one that waits for it gives up, and lives; the job can be sent again."""
    with cluster() as daemon, daemon.client() as client:
        f, kept = connect_by_a_copy(daemon, client)
        [pid] = processes(daemon.nodes["n2"], "fdworker")
        job = client.send("laplacian", f={"field": kept}, placement=OTHER)
        os.kill(pid, signal.SIGSTOP)
        again = client.send("laplacian", f={"field": kept}, placement=OTHER)
        for one in job, again:
            error, result = client.outcome(one)
            assert not error or error.code in LOST
        assert client.get(kept).tobytes() == f.tobytes()
        eventually(lambda: set(states(daemon).values()) == {"ready"}, "another worker")
        assert generations(daemon) == [1, 2]
        cross(client, kept)
        client.free(kept)


def test_nothing_waits_for_an_exchange_that_hangs(fail):
    """Head and nodes end, whatever is under way."""
    with cluster(drain_s=10**5) as daemon, daemon.client() as client:
        f, field = connect_by_a_copy(daemon, client)
        fail("hang")
        client.send("laplacian", f={"field": field}, placement=OTHER)
        client.call("ping")
        daemon.nodes.pop("n1").stop()


@pytest.mark.parametrize("head, node", [(ON_HOST_NCCL, "/nowhere.so"), ("/nowhere.so", ON_HOST_NCCL), (ON_HOST_NCCL, None),
                                        (None, ON_HOST_NCCL)])
def test_an_option_of_both(fail, exchanges, head, node):
    """Where one end was given no NCCL, or cannot load it, copies go another way."""
    mine, theirs = [["--nccl", str(library)] if library else [] for library in (head, node)]
    with Daemon(*mine, device=f"cuda:0,{OTHER}", node_options=theirs) as daemon, daemon.client() as client:
        f = new_array()
        field = client.call("put", f=f, placement="cuda:0")["field"]
        for _ in range(3):
            cross(client, field)
        assert "by NCCL" not in daemon.log() and exchanges() == 0
        if "/nowhere.so" in (head, node):
            eventually(lambda: "NCCL cannot be used" in daemon.log() + daemon.nodes["n2"].log(), "the reason in the log")
        else:
            assert "NCCL cannot be used" not in daemon.log() + daemon.nodes["n2"].log()
        client.free(field)


def test_nodes_of_a_head_without_it(fail, exchanges):
    with Daemon(device=f"{ONE},{OTHER}", node_options=("--nccl", str(ON_HOST_NCCL))) as daemon, daemon.client() as client:
        field = client.call("put", f=new_array(), placement=ONE)["field"]
        for _ in range(3):
            cross(client, field)
        assert exchanges() == 0
        client.free(field)

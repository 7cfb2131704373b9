"""What other parts of the service do while a node is away, and nodes and links that are at their limits."""

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import numpy
import pytest

from faults import NO_THREADS, Faults, needs_preload
from fdtest import Daemon, Node, Region, eventually, starved, stopped, wave
from test_nodes import LENT, entry, links, lose, processes


def test_a_region_is_not_registered_at_a_node_that_has_gone():
    """The answer does not wait for the node, which may never join again."""
    with Daemon(device="n1/host") as daemon, daemon.client() as client:
        with stopped(*processes(daemon.nodes["n1"], "fdworker")):
            region = Region(4096)
            registers = region.send_register(client)
            client.call("info")  # it has been read

            def is_charged():  # or refused, where the worker has stood still for too long
                return client.call("stats")["user"]["regions"] == 1 or registers in client.replies
            eventually(is_charged, "the region's charge")
            lose(daemon)
        error = client.error(registers)
        assert (error.code, error.retryable) == ("DEVICE_LOST", True)
        eventually(lambda: client.call("stats")["user"]["regions"] == 0, "nothing charged")


@pytest.mark.parametrize("method", ["laplacian", "put"])
def test_a_worker_that_is_back_soon_is_waited_for(method):
    """A job that may go anywhere goes to a device whose worker starts anew, and not to one whose node is away."""
    with Daemon(device="host,n1/host") as daemon, daemon.client() as client:
        client.call("put", f=wave(8, 8, 8), placement="host")  # so that the node has fewer bytes
        lose(daemon)
        os.kill(entry(daemon, "host")["pid"], signal.SIGKILL)
        jobs = []

        def is_missed():
            jobs.append(client.send(method, f=wave(8, 8, 8), placement="spread"))
            return entry(daemon, "host")["generation"] > 1
        eventually(is_missed, "the next worker is started")
        later = len(jobs)
        for _ in range(60):
            jobs.append(client.send(method, f=wave(8, 8, 8), placement="spread"))
            time.sleep(0.003)
        errors = [client.outcome(job)[0] for job in jobs]
        assert not [error for error in errors if error and "has not joined" in error.message]
        assert errors[later:] == [None] * 60


@pytest.mark.parametrize("way", ["put", "get"])
def test_an_end_that_is_slower_than_the_other_has_its_beats(way):
    """Without an end there is more for it to take; it is not mistaken for one that hangs."""
    with Daemon(device="host,n1/host") as daemon, daemon.client() as client:
        f = numpy.arange(24 << 20, dtype="f4").reshape(96, 512, 512)
        region = Region.holding(client, f, size=2 * f.nbytes)
        field = client.call("put", f=region.place(like=f), placement=LENT)["field"]
        [node_end] = processes(daemon.nodes["n1"], "fdbridge")
        with starved(entry(daemon)["pid"] if way == "get" else node_end):
            if way == "put":
                client.free(field)
                field = client.call("put", f=region.place(like=f), placement=LENT)["field"]
            client.call("get", field=field, out=region.place(f.nbytes))
        assert region.array("f4", f.shape, f.nbytes).tobytes() == f.tobytes()
        assert entry(daemon)["generation"] == 1
        client.free(field)


F_SEAL_FUTURE_WRITE = 0x10


def test_a_region_that_no_bridge_can_map():
    """Its jobs on a node get an error of their own; the node's device stays."""
    with Daemon(device="host,n1/host") as daemon, daemon.client() as client:
        f = wave(16, 16, 16)
        region, other = Region.holding(client, f), Region.holding(client, f)
        fcntl.fcntl(region.descriptor, fcntl.F_ADD_SEALS, F_SEAL_FUTURE_WRITE)
        field = client.call("put", f=f, placement=LENT)["field"]
        for _ in range(3):
            assert client.refused("laplacian", f=region.place(like=f), placement=LENT).code == "INTERNAL"
        assert client.out("laplacian", f=other.place(like=f), placement=LENT).shape == f.shape
        assert client.get(field).tobytes() == f.tobytes()
        client.free(field)
        for each in region, other:
            client.call("unregister", region=each.id)
        assert entry(daemon)["generation"] == 1


class Cable:
    """What lies between a node and its head: it passes nothing before it is plugged in, nor after it is cut, and neither end
    hears of that."""

    def __init__(self, port):
        self.plugged, self.is_cut = threading.Event(), False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.ends = self.listener.getsockname()[1], [self.listener]
        threading.Thread(target=self.lay, args=(port,), daemon=True).start()

    def lay(self, port):
        with contextlib.suppress(OSError):  # it is closed
            while True:
                ends = [self.listener.accept()[0], socket.create_connection(("127.0.0.1", port))]
                self.ends += ends
                for pair in ends, ends[::-1]:
                    threading.Thread(target=self.carry, args=pair, daemon=True).start()

    def carry(self, one, other):
        self.plugged.wait()
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                if not self.is_cut:
                    other.sendall(data)
            if not self.is_cut:
                other.shutdown(socket.SHUT_WR)

    def close(self):
        for end in self.ends:
            end.close()


def test_a_node_that_is_lost_while_its_worker_starts():
    """A worker may take a minute to start, and is waited for; a node that is lost meanwhile is missed within seconds."""
    with Daemon(device="host,n1/host", wait=False) as daemon:
        daemon.await_socket()
        cable = Cable(daemon.port())
        node = Node("n1", "host", cable.port, daemon.key, daemon.folder)
        [worker] = eventually(lambda: processes(node, "fdworker"), "its worker")
        os.kill(worker, signal.SIGSTOP)
        cable.plugged.set()
        eventually(lambda: entry(daemon)["state"] == "starting", "the node joins")
        time.sleep(7)
        assert (entry(daemon)["state"], entry(daemon)["generation"]) == ("starting", 1)
        cable.is_cut = True
        eventually(lambda: entry(daemon)["state"] == "down", "the node is missed")
        eventually(lambda: "the node is silent" in daemon.log(), "the reason")
        daemon.join("n1", "host")
        eventually(lambda: entry(daemon)["state"] == "ready", "another one has joined")
        node.kill()  # and its worker with it
        cable.close()


@needs_preload
def test_why_a_device_cannot_be_used_is_told_to_the_head():
    """A worker that refuses says so, and ends: its last words pass the bridge."""
    faults = Faults("fdworker")
    with Daemon(device="host,n1/host", wait=False) as daemon:
        daemon.await_socket()
        cable = Cable(daemon.port())
        node = Node("n1", "host", cable.port, daemon.key, daemon.folder,
                    inside=["env", *(f"{name}={value}" for name, value in faults.env.items())])
        [worker] = eventually(lambda: processes(node, "fdworker"), "its worker")
        eventually(lambda: len(os.listdir(f"/proc/{worker}/task")) == 2, "the thread of its log")
        faults[NO_THREADS] = 1
        cable.plugged.set()
        eventually(lambda: "n1/host cannot be used: " in daemon.log(), "the reason")
        assert entry(daemon)["state"] in {"starting", "down"}
        node.kill()
        cable.close()


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_a_false_head_with_a_certificate(tmp_path):
    """TLS would be content with it: a node is not."""
    key, pair = tmp_path / "key", tmp_path / "pair.pem"
    key.write_text("sixteen bytes or more")
    key.chmod(0o600)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", pair, "-out", tmp_path / "own.pem",
                    "-subj", "/CN=head"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "own.pem", pair)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        node = Node("n1", "host", listener.getsockname()[1], str(key), str(tmp_path))
        try:
            connection, _ = listener.accept()
            with context.wrap_socket(connection, server_side=True) as stream:
                assert stream.version() == "TLSv1.3"
                with contextlib.suppress(OSError):
                    assert stream.recv(1) == b""  # it does not say its name
            eventually(lambda: "another cluster key" in node.log(), "the refusal")
        finally:
            node.kill()


def sockets_to_nodes(bridge, head_port):
    """The descriptors of a node's bridge that lead to other nodes: its listener, then what it accepted or made."""
    listens = "0A"
    tables = [line.split() for line in open(f"/proc/{bridge}/net/tcp").readlines()[1:]]
    known = {f"socket:[{line[9]}]": (line[3], [int(end.split(":")[1], 16) for end in line[1:3]]) for line in tables}
    there = links(bridge)
    found = [fd for fd, link in there.items() if link in known and head_port not in known[link][1]]
    return sorted(found, key=lambda fd: known[there[fd]][0] != listens)


def of_process(pid, descriptor):
    """A socket of another process, as our own."""
    system = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    own = system.syscall(438, process, descriptor, 0)  # pidfd_getfd
    os.close(process)
    if own < 0 and (why := ctypes.get_errno()) not in (errno.ENOSYS, errno.EPERM):
        raise OSError(why, os.strerror(why))
    if own < 0:
        pytest.skip(f"pidfd_getfd: {os.strerror(why)}")
    return socket.socket(fileno=own)


def shut(pid, descriptor):
    """End a connection, or a listener, of another process; returns the address that it had, which is free as soon as the
    process closes it."""
    with of_process(pid, descriptor) as one:
        address = one.getsockname()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.shutdown(socket.SHUT_RDWR)
        return address


def received(pid, descriptor):
    """Bytes that have come by a connection."""
    with of_process(pid, descriptor) as one:
        return struct.unpack_from("Q", one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136), 128)[0]


def listen_again(pid, descriptor, address):
    """What shut() has ended."""
    with of_process(pid, descriptor) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(address)
        one.listen()


def test_a_connection_of_nodes_that_breaks_is_made_again():
    with Daemon(device="n1/host,n2/host") as daemon, daemon.client() as client:
        f = numpy.random.default_rng().standard_normal((64, 128, 128)).astype("f4")
        expected = client.out("laplacian", f=f, placement=LENT).tobytes()
        field = client.call("put", f=f, placement=LENT)["field"]
        (bridge,) = processes(daemon.nodes["n1"], "fdbridge")
        eventually(lambda: len(sockets_to_nodes(bridge, daemon.port())) == 3, "its listener, and one way and the other")
        for _ in range(5):
            jobs = [client.send("laplacian", f={"field": field}, placement="n2/host") for _ in range(3)]
            listener, *connections = sockets_to_nodes(bridge, daemon.port())
            for connection in connections:
                with contextlib.suppress(OSError):  # it has been closed meanwhile
                    shut(bridge, connection)
            assert {client.recv(job)["out"].tobytes() for job in jobs} == {expected}
        assert "no longer reaches" not in daemon.log()
        client.free(field)


def test_nodes_that_do_not_reach_each_other_any_more():
    """Copies go through the head, which both reach, those under way among them, until the nodes reach each other again."""
    with Daemon(device="n1/host,n2/host") as daemon, daemon.client() as client:
        f = numpy.random.default_rng().standard_normal((64, 128, 128)).astype("f4")
        expected = client.out("laplacian", f=f, placement=LENT).tobytes()
        here, there = [client.call("put", f=f, placement=name)["field"] for name in (LENT, "n2/host")]

        def crossing(count):
            return [client.send("laplacian", f={"field": field}, placement=name)
                    for _ in range(count) for field, name in [(here, "n2/host"), (there, LENT)]]

        for job in crossing(2):
            assert client.recv(job)["out"].tobytes() == expected
        (bridge,) = processes(daemon.nodes["n2"], "fdbridge")

        def cut_off(times):
            """A pair that has reached each other since rests as shortly as the first time."""
            addresses = {descriptor: shut(bridge, descriptor) for descriptor in sockets_to_nodes(bridge, daemon.port())}
            for job in crossing(4):
                assert client.recv(job)["out"].tobytes() == expected
            line = "n1/host no longer reaches n2/host; copies go through the host for 5 s"
            eventually(lambda: daemon.log().count(line) == times, "the reason in the log")
            return next(iter(addresses.items()))

        listener, address = cut_off(1)
        for job in [*crossing(4), client.send("laplacian", f=f, distribute=True)]:
            assert client.recv(job)["out"].tobytes() == expected
        # No job fails for what the nodes try meanwhile.
        eventually(lambda: "n1/host cannot reach memory of n2/host" in daemon.log(), "the first attempt")
        listen_again(bridge, listener, address)

        def reach_again():
            assert {client.recv(job)["out"].tobytes() for job in crossing(1)} == {expected}
            return "n1/host reaches n2/host again" in daemon.log()
        eventually(reach_again, "the next attempt")

        def received_of_nodes():
            return sum(received(bridge, one) for one in sockets_to_nodes(bridge, daemon.port()) if one != listener)
        before = received_of_nodes()
        for job in crossing(4):
            assert client.recv(job)["out"].tobytes() == expected
        assert received_of_nodes() >= before + 4 * f.nbytes
        cut_off(2)
        assert [entry(daemon, name)["generation"] for name in (LENT, "n2/host")] == [1, 1]
        client.free(here, there)

"""A real daemon, and a client made of msgpack and msgpack_numpy alone, for tests of the service.

FDSERVER_BUILD names the build folder, FDSERVER_TEST_DEVICE the device (default: host).
"""

import atexit
import contextlib
import fcntl
import functools
import mmap
import operator
import os
import pathlib
import pickle
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import msgpack
import msgpack_numpy
import numpy
import pytest

BUILD = pathlib.Path(os.environ.get("FDSERVER_BUILD", "build/release")).resolve()
DEVICE = os.environ.get("FDSERVER_TEST_DEVICE", "host")  # or several, as --device has them
ONE_DEVICE = DEVICE.split(",")[0]  # of daemons that a test starts by itself, where it does not say
ON_HOST_NCCL = BUILD / "lib/libnccl.so.2"  # of emulated GPUs; else it is not there
# The time after which an expected event counts as missing; no test measures time.
PATIENCE_S = float(os.environ.get("FDSERVER_TEST_PATIENCE_S", 120))

MiB = 1 << 20

# The beginning of a sanitizer's report.
SANITIZER = re.compile(r"(Address|Leak|Thread|Memory|UndefinedBehavior)Sanitizer|runtime error:")


def binary(name):
    """The path of a built program."""
    for folder in ("", "bin", "server", "gpu", "client"):
        path = BUILD / folder / name
        if path.is_file():
            return str(path)
    pytest.fail(f"no {name} in {BUILD}: set FDSERVER_BUILD to the build folder")


@functools.cache
def sanitized():
    """The sanitizers of the build: "address,undefined", "thread" or ""."""
    cache = (BUILD / "CMakeCache.txt").read_text()
    return re.search(r"^FDSERVER_SANITIZE:\w+=(.*)$", cache, re.M).group(1)


# A diffusion of hours, unless it is ended.
ENDLESS = {"steps": 10**9, "cfl": 0.5, "accuracy": 2}

# Marks tests that also act as another user (tests/lib/pytest.sh).
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a second uid")
# Of sockets that are closed with descriptors in them.
one_table = pytest.mark.skipif("thread" in sanitized(), reason="TSan takes the tables of two threads for one")


def eventually(condition, what):
    """Wait until condition() is true; `what` describes it in the failure's message."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"never came to be: {what}")
        time.sleep(0.01)


class FdError(Exception):
    """A request that was answered with an error."""

    def __init__(self, error):
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.code = error["code"]
        self.message = error["message"]
        self.retryable = error["retryable"]
        self.parameter = error.get("parameter")
        self.need = error.get("need")
        self.limit = error.get("limit")
        self.what = self.code, self.parameter


class Client:
    """One connection. call() waits for its reply; with send() and recv() any number are in flight."""

    def __init__(self, path, timeout=PATIENCE_S):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(path)
        self.unpacker = msgpack.Unpacker(max_buffer_size=0, object_hook=msgpack_numpy.decode,
                                         strict_map_key=False)
        self.next_msgid = 0
        self.replies = {}  # by msgid: replies that arrived while another one was awaited
        self.notifications = []

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send_bytes(self, data):
        self.socket.sendall(data)

    def send(self, method, **params):
        """Send a request; returns its msgid."""
        msgid = self.next_msgid
        self.next_msgid += 1
        self.send_bytes(request_bytes(msgid, method, params))
        return msgid

    def receive(self):
        """Bytes; none at the end of the stream."""
        return self.socket.recv(MiB)

    def receive_message(self):
        """The next message, unchanged; EOFError if the server has closed the connection."""
        while True:
            try:
                return next(self.unpacker)
            except StopIteration:
                pass
            data = self.receive()
            if not data:
                raise EOFError
            self.unpacker.feed(data)

    def recv_any(self):
        """The next reply of any request: (msgid, error or None, result)."""
        if self.replies:
            return self.replies.pop(next(iter(self.replies)))
        while True:
            message = self.receive_message()
            if message[0] == 2:
                self.note(message)
                continue
            kind, msgid, error, result = message
            assert kind == 1
            return msgid, FdError(error) if error is not None else None, result

    def note(self, message):
        assert message[0] == 2, message
        self.notifications.append((message[1], message[2][0]))

    def await_note(self):
        """Until there is a notification."""
        while not self.notifications:
            self.note(self.receive_message())

    def outcome(self, msgid):
        """(error or None, result) of one request."""
        while msgid not in self.replies:
            pending, self.replies = self.replies, {}
            try:
                reply = self.recv_any()
            finally:
                self.replies = pending
            assert reply[0] not in self.replies, "two replies to one request"
            self.replies[reply[0]] = reply
        return self.replies.pop(msgid)[1:]

    def recv(self, msgid):
        """The result of one request; raises its FdError."""
        error, result = self.outcome(msgid)
        if error:
            raise error
        return result

    def call(self, method, **params):
        return self.recv(self.send(method, **params))

    def error(self, msgid):
        """The error of a request that must fail."""
        error, result = self.outcome(msgid)
        assert error, result
        return error

    def refused(self, method, **params):
        return self.error(self.send(method, **params))

    def cancel(self, *jobs):
        """Cancel jobs that have not ended; each is answered with that."""
        for job in jobs:
            assert self.call("cancel", msgid=job) == {"state": "cancelled"}
        for job in jobs:
            assert self.error(job).code == "CANCELLED"

    def out(self, method, **params):
        """The array, or the description of the field, that an operator or get returns."""
        return self.call(method, **params)["out"]

    def put(self, array):
        return self.call("put", f=array)["field"]

    def get(self, field):
        return self.out("get", field=field)

    def free(self, *fields):
        for field in fields:
            assert self.call("free", field=field) == {}

    def closed_by_server(self):
        """Read to the end of the stream; returns the messages before it."""
        messages = []
        with contextlib.suppress(EOFError, ConnectionResetError):
            while True:
                messages.append(self.receive_message())
        return messages


class Region:
    """Memory as a client registers it: a sealed memfd and a NumPy array over it."""

    SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW

    def __init__(self, size, seals=SEALS, name="region"):
        self.descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, size)
        self.size = size
        self.memory = mmap.mmap(self.descriptor, size)
        self.bytes = numpy.frombuffer(self.memory, "u1")
        if seals:
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, seals)

    def array(self, dtype, shape, offset=0):
        """A view of the memory."""
        count = int(numpy.prod(shape))
        return numpy.frombuffer(self.memory, dtype, count, offset).reshape(shape)

    def send_register(self, client, msgid=None, descriptors=None, **params):
        """Send the request with the descriptor; returns its msgid."""
        if msgid is None:
            msgid = client.next_msgid
            client.next_msgid += 1
        message = request_bytes(msgid, "register", {"bytes": self.size} | params)
        socket.send_fds(client.socket, [message],
                        [self.descriptor] if descriptors is None else descriptors)
        return msgid

    def register(self, client, **params):
        """Register it; returns its id, which is also stored."""
        self.id = client.recv(self.send_register(client, **params))["region"]
        return self.id

    def registered(self, client, **params):
        self.register(client, **params)
        return self

    @classmethod
    def holding(cls, client, array, size=None, offset=0):
        """A registered one with the array in it."""
        region = cls(size or offset + array.nbytes).registered(client)
        region.array(array.dtype, array.shape, offset)[...] = array
        return region

    def place(self, offset=0, like=None):
        """The region as an output; with an array, as the input that has its shape and type."""
        place = {"region": self.id, "offset": offset}
        return place if like is None else place | {"shape": list(like.shape), "type": like.dtype.str}

    def __del__(self):
        os.close(self.descriptor)


def request_bytes(msgid, method, params):
    """A request as any Python process with msgpack and msgpack_numpy writes it."""
    return msgpack.packb([0, msgid, method, [params]], default=msgpack_numpy.encode)


def array_header(dtype, shape, data_header):
    """The encoding of an ARRAY before its bytes, for uploads made by hand."""
    packer = msgpack.Packer()
    return b"".join([
        packer.pack_map_header(5), packer.pack(b"nd"), packer.pack(True),
        packer.pack(b"type"), packer.pack(dtype), packer.pack(b"kind"), packer.pack(b""),
        packer.pack(b"shape"), packer.pack(list(shape)), packer.pack(b"data"), data_header])


def bin_header(size):
    return b"\xc6" + size.to_bytes(4, "big")


def upload_begin(msgid, method, shape, dtype="<f4", **params):
    """A request whose last parameter is an inline array f, up to the array's first byte."""
    packer = msgpack.Packer()
    size = numpy.dtype(dtype).itemsize
    for n in shape:
        size *= n
    parts = [packer.pack_array_header(4), packer.pack(0), packer.pack(msgid), packer.pack(method),
             packer.pack_array_header(1), packer.pack_map_header(len(params) + 1)]
    for name, value in params.items():
        parts += [packer.pack(name), packer.pack(value)]
    return b"".join(parts + [packer.pack("f"), array_header(dtype, shape, bin_header(size))])


def clean_environment(env=None):
    """Without what would be an option of the server."""
    return {k: v for k, v in os.environ.items() if not k.startswith("FDSERVER_")} | (env or {})


class Node:
    """An fdserver that lends the devices to a head at that port; its log is a file in the folder."""

    def __init__(self, name, device, port, key, folder, *options, address="127.0.0.1", inside=()):
        self.device, self.log_path = device, os.path.join(folder, f"log-{name}")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [*inside, binary("fdserver"), "--join", f"{address}:{port}", "--node", name, "--device", device, "--cluster-key",
                 key, *options], stdin=subprocess.DEVNULL, env=clean_environment(), stderr=log)

    def log(self):
        return pathlib.Path(self.log_path).read_text(errors="replace")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE_S) == 0, self.log()
        assert not SANITIZER.search(self.log()), self.log()

    def kill(self):
        self.process.kill()
        self.process.wait()


class Daemon:
    """fdserver on its own socket, with its log in a file or in `stderr`. Devices of other nodes ("n1/host") bring
    these nodes with them."""

    def __init__(self, *options, device=ONE_DEVICE, env=None, listen=True, wait=True, stderr=None, program=None,
                 address="127.0.0.1", inside=(), node_options=(), **popen):
        self.folder = tempfile.mkdtemp(prefix="fdserver-")
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)  # for daemons that are never stopped
        os.chmod(self.folder, 0o755)
        self.path = os.path.join(self.folder, "fdserver.sock")
        self.log_path = os.path.join(self.folder, "log")
        self.clients = []
        command = [program or binary("fdserver")]
        if listen:
            command += ["--listen", f"unix:{self.path}"]
        if device:
            command += ["--device", device]
        self.nodes, self.network, self.node_options = {}, {"address": address, "inside": inside}, node_options
        lent = [one.split("/") for one in (device or "").split(",") if "/" in one]
        if lent:
            self.key = os.path.join(self.folder, "key")
            with open(os.open(self.key, os.O_WRONLY | os.O_CREAT, 0o600), "w") as key:
                key.write(os.urandom(16).hex())
            command += ["--nodes", f"{address}:0", "--cluster-key", self.key]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command + [str(option) for option in options],
                                            stdin=subprocess.DEVNULL, env=clean_environment(env),
                                            stderr=log if stderr is None else stderr, **popen)
        if wait:
            try:
                for name in dict.fromkeys(name for name, _ in lent):
                    self.join(name, ",".join(d.split(":")[0] if d[0] == "h" else d for n, d in lent if n == name))
                eventually(self.answers, "an answer to ping")
            except BaseException:
                self.process.kill()
                self.process.wait()
                raise

    def await_socket(self):
        """Before its nodes have joined. The path is there a moment before anything listens."""
        def listens():
            with contextlib.suppress(OSError), Client(self.path):
                return True
        eventually(lambda: self.process.poll() is not None or listens(), "the socket")

    def port(self):
        """Where nodes join."""
        return int(eventually(lambda: re.search(r"nodes join at .*:(\d+)$", self.log(), re.M), "the nodes' port")[1])

    def join(self, name, device):
        self.nodes[name] = Node(name, device, self.port(), self.key, self.folder, *self.node_options, **self.network)
        return self.nodes[name]

    def answers(self):
        if self.process.poll() is not None:
            pytest.fail(f"fdserver ended with {self.process.returncode}:\n{self.log()}")
        with contextlib.suppress(OSError):
            with Client(self.path) as client:
                client.call("ping")
                # A device that is not ready yet queues jobs, but has no pid and no memory to show.
                return all(d["state"] == "ready" for d in client.call("info")["devices"])
        return False

    def client(self, **options):
        client = Client(self.path, **options)
        self.clients.append(client)
        return client

    def connect_all(self):
        """As many connections as the server accepts."""
        clients = []
        with contextlib.suppress(OSError, EOFError):
            while True:
                client = Client(self.path)
                client.call("ping")
                clients.append(client)
        return clients

    def admits(self):
        """Whether a new connection is answered."""
        with contextlib.suppress(OSError, EOFError, FdError), Client(self.path) as client:
            return client.call("ping") == {}

    def assert_serves(self):
        """A new connection, too."""
        with Client(self.path) as client:
            assert_serves(client)

    def log(self):
        return pathlib.Path(self.log_path).read_text(errors="replace")

    def info(self):
        with Client(self.path) as client:
            return client.call("info")

    def stats(self):
        with Client(self.path) as client:
            return client.call("stats")

    @property
    def pid(self):
        return self.process.pid

    def device(self):
        """The first device's entry of info."""
        return self.info()["devices"][0]

    def generation(self):
        return self.device()["generation"]

    def worker_pids(self):
        """Once every device has a worker: a pid of 0 would stand for the tests themselves."""
        def pids():
            found = [device["pid"] for device in self.info()["devices"] if device["name"] != "distributed"]
            return all(found) and found
        return eventually(pids, "a worker of every device")

    def kill_worker(self, wait=True):
        """Kill the first device's worker, and wait for the next one; returns the generation of the killed one."""
        pid, generation = self.worker_pids()[0], self.generation()
        os.kill(pid, signal.SIGKILL)
        if wait:
            self.await_worker(generation)
        return generation

    def await_worker(self, after):
        """Wait for a worker of a later generation."""
        def is_ready():
            device = self.device()
            return device["state"] == "ready" and device["generation"] > after
        eventually(is_ready, "the next worker")

    def as_user(self, uid, act):
        """The result of act(client) for a client of that uid. Needs root, and a socket for all."""
        def visit():
            with Client(self.path) as client:
                return act(client)
        return as_user(uid, visit)

    def client_as(self, uid):
        """A client of that uid that has connected, though nobody may have accepted it yet. Needs root."""
        os.seteuid(uid)
        try:
            return Client(self.path)
        finally:
            os.seteuid(0)

    def close_clients(self):
        for client in self.clients:
            client.close()
        self.clients = []

    def wait(self):
        """The exit status of a daemon that has been asked to stop."""
        return self.process.wait(PATIENCE_S)

    def stop(self):
        """SIGTERM; the daemon must exit with 0 and without a sanitizer's report."""
        self.close_clients()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            pytest.fail(f"fdserver did not end on SIGTERM:\n{self.log()}")
        log = self.log()
        for node in self.nodes.values():
            node.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        assert status == 0, f"fdserver ended with {status}:\n{log}"
        assert not SANITIZER.search(log), log
        assert " came while it was " not in log, log  # an event that a task's state does not take

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.stop()
            return
        # The test has failed already: the daemon's log may show why.
        print(f"--- fdserver's log\n{self.log()}")
        for name, node in self.nodes.items():
            print(f"--- {name}'s log\n{node.log()}")
            node.kill()
        self.process.kill()
        self.process.wait()
        self.close_clients()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def daemon(request):
    """One daemon for all tests of a file; its options are the file's OPTIONS, its devices the file's DEVICE."""
    with Daemon(*getattr(request.module, "OPTIONS", ()), device=getattr(request.module, "DEVICE", DEVICE)) as running:
        yield running


@contextlib.contextmanager
def checked_connection(daemon, kind=Client):
    """A new connection. After it the daemon must be the same process, and serve."""
    with kind(daemon.path) as connection:
        yield connection
    with Client(daemon.path) as after:
        assert after.call("info")["pid"] == daemon.pid
        assert_serves(after)


def bits(result):
    """The bytes of each array of a result."""
    return [a.tobytes() for a in (result.values() if isinstance(result, dict) else [result])]


@contextlib.contextmanager
def emptied_client(daemon):
    """A client whose fields are freed at the end; then no byte lies on any device."""
    with daemon.client() as one:
        yield one
        one.free(*(f["field"] for f in one.call("list")["fields"]))
    eventually(lambda: not any(d["fields_bytes"] for d in daemon.info()["devices"]), "devices without arrays")


@pytest.fixture
def client(daemon):
    with checked_connection(daemon) as connection:
        yield connection


@pytest.fixture
def unchanged(daemon):
    """The test must leave no job, field, byte or descriptor behind."""
    before = settled(daemon)

    def is_left():  # less than before is right: an earlier test's were still being given back
        now = settled(daemon)
        return now[0] > before[0] or now[1] > before[1] or any(
            any(map(operator.gt, now[i], before[i])) for i in (2, 3))
    yield
    daemon.close_clients()
    eventually(lambda: not is_left(), f"as before: {before}; now {settled(daemon)}")


@pytest.fixture
def no_fields_left(daemon, unchanged):
    """The test may leave fields, which are freed before `unchanged` looks."""
    yield
    with Client(daemon.path) as client:
        client.free(*(entry["field"] for entry in client.call("list")["fields"]))


def assert_charged(method, **params):
    """A job runs with as many bytes as its dry run says, and is refused one byte less. Returns these bytes, the
    answer and the notifications before it."""
    with Daemon() as daemon, daemon.client() as client:
        need = client.call(method, dry_run=True, **params)["bytes"]
    with Daemon("--user-bytes", need) as daemon, daemon.client() as client:
        answer = need, client.call(method, **params), client.notifications
    with Daemon("--user-bytes", need - 1) as daemon, daemon.client() as client:
        assert client.refused(method, **params).code == "TOO_LARGE"
        eventually(lambda: client.call("stats")["user"]["bytes"] == 0, "nothing held")
    return answer


def in_threads(*functions):
    """Run them at once; the first failure is raised."""
    failures = []

    def guarded(function):
        try:
            function()
        except BaseException as failure:
            failures.append(failure)
    threads = [threading.Thread(target=guarded, args=(f,)) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def assert_serves(client, **params):
    """One small derivative, checked."""
    f = wave(64)
    numpy.testing.assert_allclose(client.out("derivative", f=f, axis="x", **params), derivative(f), atol=1e-5)


def restart_worker(client):
    """Kill the worker and wait for the next one."""
    [device] = client.call("info")["devices"]
    os.kill(device["pid"], signal.SIGKILL)
    eventually(lambda: [d["state"] == "ready" and d["generation"] > device["generation"]
                        for d in client.call("info")["devices"]] == [True], "the next worker")
    assert_serves(client)


def settled(daemon):
    """Wait until no job is in flight: (fields, bytes of fields, descriptors of front and workers)."""
    with Client(daemon.path) as client:
        def idle():
            stats = client.call("stats")
            return stats if jobs_under_way(stats) == 0 else None
        stats = eventually(idle, "no job under way")
        return (stats["totals"]["fields"], stats["totals"]["bytes"],
                [device["fields_bytes"] for device in client.call("info")["devices"]],
                [descriptors(pid) for pid in [daemon.pid] + daemon.worker_pids()])


def jobs_under_way(stats):
    return stats["totals"]["jobs"]


def on_socket(daemon):
    """Bytes of arrays in and out of the user's; those of a result are counted when its job ends, possibly after its
    client has it."""
    eventually(lambda: daemon.stats()["user"]["jobs"] == 0, "no job")
    user = daemon.stats()["user"]
    return user["bytes_in"], user["bytes_out"]


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def await_bytes(client):
    """The first bytes of an answer, which are not read."""
    assert select.select([client.socket], [], [], PATIENCE_S)[0], "an answer"


@contextlib.contextmanager
def starved(pid):
    """A process that computes for 2 ms, however long it takes to be given them, and is stopped for 98 ms; for 20 where a
    sanitizer makes all of it as much slower."""
    ends, computes = threading.Event(), 0.02 if sanitized() else 0.002
    clock = ~pid << 3 | 2  # as of clock_getcpuclockid(3)

    def hold():
        until = time.clock_gettime(clock)
        while not ends.wait(0.002):
            if time.clock_gettime(clock) < until:
                continue
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.098)
            until = time.clock_gettime(clock) + computes
            os.kill(pid, signal.SIGCONT)
    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


@contextlib.contextmanager
def stopped(*pids):
    """These processes stand still during the block, or until the server has ended them."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def lingering_socket(seconds):
    """A lingering TCP socket with unsent bytes: its last close waits for that time, or for the block's end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        lingering = socket.create_connection(listener.getsockname())
        peer, _ = listener.accept()
        lingering.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                lingering.send(bytes(MiB))
        lingering.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
        try:
            yield lingering
        finally:
            peer.close()  # resets it, and ends the wait


def process_status(pid, which):
    """The value of a line of /proc/PID/status, of a process or a thread."""
    return re.search(rf"^{which}:\s+(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1]


def memory_bytes(pid, which):
    """"VmRSS", "VmHWM" (peak), "RssAnon", "RssShmem" … of a process."""
    return int(process_status(pid, which)) * 1024


def reset_peak_memory(pid):
    with open(f"/proc/{pid}/clear_refs", "w") as file:
        file.write("5")


def as_user(uid, function, gid=None):
    """Call function() in a child process of that uid, and of the group of that number or of gid, and return its
    result. Needs root."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            os.setgroups([])
            os.setgid(uid if gid is None else gid)
            os.setuid(uid)
            answer = True, function()
        except BaseException as error:
            answer = False, repr(error)
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        good, value = pickle.load(pipe)
    os.waitpid(child, 0)
    assert good, value
    return value


# An independent reference of the operators, in float64 and NumPy.

FIRST = {2: [1 / 2], 4: [2 / 3, -1 / 12], 6: [3 / 4, -3 / 20, 1 / 60],
         8: [4 / 5, -1 / 5, 4 / 105, -1 / 280]}
SECOND = {2: [-2, 1], 4: [-5 / 2, 4 / 3, -1 / 12], 6: [-49 / 18, 3 / 2, -3 / 20, 1 / 90],
          8: [-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560]}
# −h² times the symbol of the second derivative at the grid's highest frequency.
SYMBOL = {2: 4, 4: 16 / 3, 6: 272 / 45, 8: 2048 / 315}


def wave(*shape, dtype="<f4", seed=0):
    """A smooth field without symmetries, which could hide an exchange of axes."""
    f = numpy.zeros(shape)
    for i, n in enumerate(shape):
        x = numpy.arange(n).reshape([-1 if j == i else 1 for j in range(len(shape))])
        f = f + (i + 1) * numpy.sin(2 * numpy.pi * x / n + i + seed)
    return f.astype(dtype)


def derivative(f, axis=-1, order=1, accuracy=8, spacing=1.0):
    """A periodic derivative along a NumPy axis."""
    f = f.astype("f8")
    if order == 1:
        return sum(c * (numpy.roll(f, -m, axis) - numpy.roll(f, m, axis))
                   for m, c in enumerate(FIRST[accuracy], 1)) / spacing
    weights = SECOND[accuracy]
    return (weights[0] * f + sum(c * (numpy.roll(f, -m, axis) + numpy.roll(f, m, axis))
                                 for m, c in enumerate(weights[1:], 1))) / spacing**2


def laplacian(f, accuracy=8, spacing=1.0, axes=None):
    return sum(derivative(f, axis, 2, accuracy, spacing) for axis in axes or range(f.ndim))


def diffusion(f, steps, dt, accuracy=8, spacing=1.0):
    f = f.astype("f8")
    for _ in range(steps):
        f = f + dt * laplacian(f, accuracy, spacing)
    return f

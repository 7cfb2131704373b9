#!/usr/bin/env python3
"""Random jobs of several clients while workers, bridges and nodes are killed, stopped and started at random.

    tests/soak.py --build build/release --device host,n1/host,n2/host --seconds 300

Every answer must have the bits of an undisturbed server on the host, or say that a device or a field was lost, or
that the job was cancelled. Afterwards every device must serve, and no job and no byte of a field may be left. It ends
with 1, and what it found, where that does not hold. On emulated GPUs and with an emulated NCCL:

    LD_LIBRARY_PATH=build/release/emulated/lib tests/soak.py --build build/release/emulated \\
        --device n1/cuda:0,n2/cuda:1 --nccl build/release/emulated/lib/libnccl.so.2
"""

import argparse
import collections
import os
import pathlib
import random
import re
import signal
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "lib"), str(HERE / "service")]
CASES = 40
TRACED = 200  # events that are shown with a fault


def parsed():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", default="build/release")
    options.add_argument("--device", default="host,n1/host,n2/host")
    options.add_argument("--nccl", metavar="FILE", help="for the front and the nodes")
    options.add_argument("--seconds", type=float, default=300)
    options.add_argument("--clients", type=int, default=4)
    options.add_argument("--pause", type=float, default=2, help="seconds between two kills, on average")
    options.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    return options.parse_args()


OPTIONS = parsed()
os.environ["FDSERVER_BUILD"] = OPTIONS.build
import numpy  # noqa: E402
import pytest  # noqa: E402
from fdtest import Client, Daemon, FdError, Region, bits, emptied_client, eventually, jobs_under_way  # noqa: E402
from test_nodes import LOST, children  # noqa: E402


class Case:
    """A job, its arrays and the bits of its result."""

    def __init__(self, reference, rng):
        shape = (rng.randrange(52, 130), rng.randrange(8, 60), rng.randrange(8, 70))
        random_array = numpy.random.default_rng(rng.randrange(1 << 32)).standard_normal(shape)
        self.f = random_array.astype(rng.choice(["f4", "f8"]))
        sides = rng.choice(["periodic", {"z": {"value": 0.5}}, {"z": "mirror"}, {"z": {"derivative": 1}}])
        steps = rng.choice([3, 20, 100])
        given = {"boundary": sides, "accuracy": rng.choice([2, 4, 8])}
        stepped = given | {"cfl": 0.4, "steps": steps}
        self.method, self.params, arrays = rng.choice([
            ("laplacian", given, []),
            ("gradient", given, []),
            ("derivative", given | {"axis": rng.choice("xyz"), "order": rng.choice([1, 2])}, []),
            ("diffusion", stepped, []),
            ("diffusion", stepped | {"scheme": "rk4"}, []),
            ("diffusion", stepped | {"accuracy": 2}, ["diffusivity"]),
            ("diffusion", {"boundary": sides, "dt": 1.5, "steps": 1 + steps // 10, "scheme": "adi"}, []),
            ("stencil", {"boundary": sides, "accuracy": 2, "steps": 5, "weights": [0.5, 0.25, -1],
                         "offsets": [[0, 0, 0], [2, 0, 1], [-3, 1, 0]]}, []),
            ("chain", {"repeat": 3, "ops": [{"op": "laplacian", "accuracy": 2, "out": "l"},
                                            {"op": "gradient", "f": "l", "out": "g"},
                                            {"op": "divergence", "f": "g"}]}, [])])
        self.arrays = {name: numpy.exp(self.f) for name in arrays}
        self.expected = bits(reference.out(self.method, **self.given(self.f, self.arrays)))

    def given(self, f, arrays):
        """Parameters with these inputs."""
        if self.method == "chain":
            first, *others = self.params["ops"]
            return self.params | {"ops": [dict(first, f=f), *others]}
        return self.params | {"f": f} | arrays


class Connection(Client):
    """One that tells whether it ended within an answer, as it does when the worker ends that has the rest of it."""

    received = 0

    def receive(self):
        data = super().receive()
        self.received += len(data)
        return data

    def is_within_an_answer(self):
        return self.received > self.unpacker.tell()


class Trace:
    """What happened last, and what was found."""

    def __init__(self):
        self.begin, self.lock = time.monotonic(), threading.Lock()
        self.events, self.counts, self.faults = collections.deque(maxlen=TRACED), collections.Counter(), []
        self.is_over = threading.Event()

    def note(self, text):
        with self.lock:
            self.events.append(f"{time.monotonic() - self.begin:8.2f} {text}")

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def fault(self, text):
        self.note(f"FAULT {text}")
        with self.lock:
            self.faults.append(text)
        self.is_over.set()


class Player(threading.Thread):
    """A client: connection after connection, with jobs, fields and regions."""

    def __init__(self, name, path, cases, devices, trace, seed):
        super().__init__(daemon=True, name=name)
        self.path, self.cases, self.devices, self.trace, self.random = path, cases, devices, trace, random.Random(seed)

    def run(self):
        try:
            self.fields = []
            while not self.trace.is_over.is_set():
                with Connection(self.path) as self.client:
                    self.client.free(*(field for field, _ in self.fields))
                    self.fields, self.regions = [], []
                    self.play()
        except BaseException as error:  # whatever it is, it is no answer that a client may get
            self.trace.fault(f"{self.name}: {error!r}")

    def play(self):
        """Some bursts of jobs, until the connection is left or closed."""
        try:
            for _ in range(self.random.randrange(1, 30)):
                if self.trace.is_over.is_set() or not self.burst():
                    return
        except (EOFError, ConnectionError):
            if not self.client.is_within_an_answer():
                raise
            self.trace.count("connections closed within an answer")

    def place(self):
        return self.random.choice([{}, {"distribute": True}] + [{"placement": name} for name in self.devices])

    def operand(self, array):
        """The array itself, a region that holds it, or a field of it, which may be lost already."""
        way = self.random.random()
        if way < 0.3:
            return array
        if way < 0.5:
            region = self.region(array)
            return region.place(like=array) if region else array
        try:
            field = self.client.call("put", f=array, **self.place())["field"]
        except FdError as error:
            self.answered("put", error)
            return array
        self.fields.append((field, array))
        return {"field": field}

    def region(self, array):
        """A region that holds the array; None: there is no device now. Earlier ones are unregistered, also while jobs use them."""
        while len(self.regions) > 8:
            self.client.call("unregister", region=self.regions.pop(0).id)
        try:
            self.regions.append(Region.holding(self.client, array))
        except FdError as error:
            return self.answered("register", error)
        return self.regions[-1]

    def send(self):
        case = self.random.choice(self.cases)
        known = [field for field, array in self.fields if array is case.f]
        f = {"field": self.random.choice(known)} if known and self.random.random() < 0.5 else self.operand(case.f)
        given = case.given(f, {name: self.operand(array) for name, array in case.arrays.items()})
        if isinstance(f, dict) and "field" in f:
            out = self.random.choice([{}, {}, {"out": "field"}])
        else:
            out = self.random.choice([{}, {"placement": self.random.choice(self.devices)}])
        written = None
        if not out and case.method not in ("gradient", "chain") and self.random.random() < 0.3:
            written = self.region(numpy.full_like(case.f, numpy.nan))
            out = {"out": written.place()} if written else {}
        job = self.client.send(case.method, **given, **out)
        self.trace.note(f"{self.name} {job} {case.method} {case.f.shape} of {f if isinstance(f, dict) else 'inline'}")
        return job, case, written

    def burst(self):
        """False: the jobs are left behind."""
        jobs = [self.send() for _ in range(self.random.randrange(1, 5))]
        if self.random.random() < 0.1:
            self.client.call("cancel", msgid=self.random.choice(jobs)[0])
        if self.random.random() < 0.02:
            self.trace.count("connections left with jobs under way")
            return False
        for job, case, written in jobs:
            error, result = self.client.outcome(job)
            if error:
                self.answered(job, error)
                continue
            self.check(job, case, result["out"] if written is None else written.bytes)
        while len(self.fields) > 6:
            self.client.free(self.fields.pop(0)[0])
        return True

    def check(self, job, case, out):
        ones = [out] if isinstance(out, numpy.ndarray) or "field" in out else list(out.values())
        if isinstance(ones[0], dict):
            found = []
            for one in ones:
                try:
                    found.append(self.client.get(one["field"]).tobytes())
                except FdError as error:
                    self.answered(f"{job}'s field", error)
                self.client.free(one["field"])
            if len(found) < len(ones):
                return
        else:
            found = [one.tobytes() for one in ones]
        if found != case.expected:
            self.trace.fault(f"{self.name}: {job}, {case.method} {case.params} of {case.f.shape}: wrong bits")
        self.trace.count("right bits")

    def answered(self, job, error):
        self.trace.note(f"{self.name} {job} {error}")
        self.trace.count(error.code)
        if error.code not in LOST | {"CANCELLED"}:
            self.trace.fault(f"{self.name}: {job} ended with {error}")


class Killer(threading.Thread):
    """Ends and stops processes of the server, and brings nodes back."""

    def __init__(self, daemon, trace, pause, seed):
        super().__init__(daemon=True)
        self.server, self.trace, self.pause, self.random = daemon, trace, pause, random.Random(seed)

    def run(self):
        try:
            while not self.trace.is_over.wait(self.random.expovariate(1 / self.pause)):
                self.act()
        except BaseException as error:
            self.trace.fault(f"killer: {error!r}")

    def processes(self):
        """Workers, bridges, and the servers of nodes."""
        nodes = [(node.process.pid, "fdserver") for node in self.server.nodes.values()]
        found = [one for front in [self.server.pid, *(pid for pid, _ in nodes)] for one in children(front)]
        return nodes + [one for one in found if one[1].startswith(("fdworker", "fdbridge"))]

    def act(self):
        nodes = list(self.server.nodes)
        if nodes and self.random.random() < 0.15:
            return self.end_node(self.random.choice(nodes))
        found = self.processes()
        if not found:
            return
        pid, name = self.random.choice(found)
        try:
            if name != "fdserver" and self.random.random() < 0.5:
                self.done(f"{name} {pid} killed", f"{name} killed")
                os.kill(pid, signal.SIGKILL)
            else:
                seconds = self.random.choice([0.05, 0.5, 3, 8])
                self.done(f"{name} {pid} stopped for {seconds} s", f"{name} stopped")
                os.kill(pid, signal.SIGSTOP)
                time.sleep(seconds)
                os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass  # it has ended by itself, or the front has ended it

    def end_node(self, name):
        """Another server joins in its place soon."""
        node, how = self.server.nodes[name], self.random.choice([signal.SIGKILL, signal.SIGTERM])
        self.done(f"{name} ended by signal {int(how)}", "nodes ended")
        node.process.send_signal(how)
        node.process.wait()
        time.sleep(self.random.random())
        self.server.join(name, node.device)

    def done(self, what, kind):
        self.trace.note(what)
        self.trace.count(kind)


def descriptors(pid):
    """How many there are of every kind, but for the socket to the compiler, which starts with the first stencil that needs it."""
    names = (os.readlink(each) for each in pathlib.Path(f"/proc/{pid}/fd").iterdir())
    compilers = sum(name.startswith("fdcompile") for _, name in children(pid))
    return collections.Counter(re.sub(r"\d+", "N", name) for name in names) - collections.Counter({"socket:[N]": compilers})


def descriptors_at_rest(pid):
    """Once the mailboxes are open, which takes a moment after the devices are ready."""
    before = None
    while before != (before := descriptors(pid)):
        time.sleep(1)
    return before


def settle(daemon, cases, devices, descriptors_before):
    """All devices serve again, and the server holds what it held before."""
    eventually(daemon.answers, "all devices are ready")
    with emptied_client(daemon) as client:
        for name in devices:
            case = cases[0]
            if bits(client.out(case.method, placement=name, **case.given(case.f, case.arrays))) != case.expected:
                raise ValueError(f"{name}: wrong bits at the end")
        eventually(lambda: jobs_under_way(client.call("stats")) == 0, "no job")
    try:
        eventually(lambda: not descriptors(daemon.pid) - descriptors_before, "the front's descriptors as before")
    except pytest.fail.Exception as error:
        raise ValueError(f"further descriptors: {descriptors(daemon.pid) - descriptors_before}") from error


def main():
    print(f"--seed {OPTIONS.seed}", flush=True)
    rng, trace = random.Random(OPTIONS.seed), Trace()
    with Daemon(device="host") as undisturbed, undisturbed.client() as reference:
        cases = [Case(reference, rng) for _ in range(CASES)]
    nccl = ["--nccl", OPTIONS.nccl] if OPTIONS.nccl else []
    daemon = Daemon(*nccl, device=OPTIONS.device, node_options=nccl)
    devices = [d["name"] for d in daemon.info()["devices"] if d["name"] != "distributed"]
    players = [Player(f"client {i}", daemon.path, cases, devices, trace, rng.random()) for i in range(OPTIONS.clients)]
    descriptors_before = descriptors_at_rest(daemon.pid)
    killer = Killer(daemon, trace, OPTIONS.pause, rng.random())
    try:
        for thread in [*players, killer]:
            thread.start()
        trace.is_over.wait(OPTIONS.seconds)
        trace.is_over.set()
        for thread in [killer, *players]:
            thread.join()
        if not trace.faults:
            settle(daemon, cases, devices, descriptors_before)
            daemon.stop()
    except BaseException as error:
        trace.fault(repr(error))
    for what, count in sorted(trace.counts.items()):
        print(f"{count:8} {what}")
    if not trace.faults:
        return 0
    print("\n".join([*trace.events, "faults:", *trace.faults]))
    if daemon.process.poll() is None:
        print(f"--- the log, of {daemon.folder}", daemon.log()[-20000:], sep="\n")
    daemon.process.kill()
    for node in daemon.nodes.values():
        node.kill()
    return 1


if __name__ == "__main__":
    sys.exit(main())

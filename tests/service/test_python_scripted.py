"""client/python/fdclient.py against a server that is a thread of the test and sends exactly the test's bytes."""

import contextlib
import gc
import os
import pickle
import select
import signal
import socket
import tempfile
import threading
import types
import weakref

import fdclient
import msgpack
import numpy
import pytest

from fdtest import PATIENCE_S, eventually, wave

LARGE = 4 << 20  # float32; more than a socket takes


class Server:
    """Runs script(server) for the one client that connects; its failures fail the test."""

    def __init__(self, script):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "socket")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.script, self.failure, self.over = script, None, threading.Event()
        self.thread = threading.Thread(target=self.serve)

    def serve(self):
        try:
            self.peer, _ = self.listener.accept()
            with self.peer:
                self.peer.settimeout(PATIENCE_S)
                self.unpacker = msgpack.Unpacker(max_buffer_size=0, strict_map_key=False)
                self.script(self)
                self.over.wait(PATIENCE_S)
        except BaseException as failure:
            self.failure = failure

    def hear(self):
        """The next request's msgid, method and parameters."""
        while True:
            for kind, msgid, method, (params,) in self.unpacker:
                assert kind == 0
                return msgid, method, params
            received = self.peer.recv(1 << 20)
            assert received, "the client has closed the connection"
            self.unpacker.feed(received)

    def say(self, msgid, result=None, error=None):
        self.peer.sendall(msgpack.packb([1, msgid, error, result]))

    def answer(self, result=None, error=None):
        """Answer the next request and return it."""
        msgid, method, params = self.hear()
        self.say(msgid, result, error)
        return method, params

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.over.set()
        self.thread.join(PATIENCE_S)
        self.listener.close()
        self.folder.cleanup()
        assert self.failure is None or kind, repr(self.failure)


@contextlib.contextmanager
def connected(script, **options):
    with Server(script) as server, fdclient.Client(server.path, **options) as client:
        yield client


def inline(array, **changes):
    keys = {b"nd": True, b"type": array.dtype.str, b"kind": b"", b"shape": list(array.shape), b"data": array.tobytes()}
    return keys | {name.encode(): value for name, value in changes.items()}


def field(number, shape=(3,)):
    return {"field": number, "shape": list(shape), "type": "<f4"}


def test_what_comes_is_taken_while_something_is_sent():
    """Two sides that only write would deadlock."""
    large = numpy.arange(LARGE, dtype="f4")

    def script(server):
        msgid, _, _ = server.hear()
        server.say(msgid, {"out": inline(large)})  # all of it goes before any of the next request is read
        server.answer({"field": 7})
    with connected(script) as client:
        job = client.submit("get", field=1)
        client.put(large).keep()
        assert (job.result() == large).all()


def test_who_sends_reads_where_another_thread_has_stopped():
    large = numpy.arange(LARGE, dtype="f4")

    def script(server):
        first, second = server.hear()[0], server.hear()[0]
        eventually(lambda: client._reading, "the thread that waits")
        begin.set()
        server.peer.recv(1, socket.MSG_PEEK)
        server.say(first, {"out": inline(large)})
        waiting.join()
        server.say(second, {"out": inline(large)})
        server.answer({"field": 7})
    begin = threading.Event()
    with connected(script) as client:
        jobs = [client.submit("get", field=1) for _ in range(2)]
        waiting = threading.Thread(target=jobs[0].result)
        waiting.start()
        begin.wait(PATIENCE_S)
        client.put(large).keep()
        assert (jobs[0].result() == large).all() and (jobs[1].result() == large).all()


def test_errors():
    full = {"code": "TOO_LARGE", "message": "too many", "parameter": "f y", "retryable": False, "need": 5.0, "limit": 0.1}

    def script(server):
        server.answer(error=full | {"since": "a later version", "self": 1})
        server.answer(error={"code": "QUEUE_FULL", "retryable": True})
        server.answer(error="oops")
    with connected(script) as client:
        errors = []
        for _ in range(3):
            with pytest.raises(fdclient.Error) as caught:
                client.call("ping")
            errors.append(caught.value)
    assert str(errors[0]) == "TOO_LARGE: f y: too many (need 5, limit 0.1)"
    assert (errors[1].code, errors[1].retryable, errors[1].parameter) == ("QUEUE_FULL", True, None)
    assert str(errors[2]) == "INTERNAL: oops"
    again = pickle.loads(pickle.dumps(errors[0]))
    assert str(again) == str(errors[0]) and again.need == 5


F = wave(4, 8)


@pytest.mark.parametrize("result", [
    7, [], {"out": 7}, {"out": {}}, {"out": []}, {"out": {"field": 1}}, {"out": inline(F, shape=[4, 9])},
    {"out": inline(F, type="O")}, {"out": inline(F, type="<i4")},
    {"out": inline(F, type=7)}, {"out": inline(F, data=[b"", 5])}, {"out": inline(F, data=None)},
    {"out": inline(F), "probes": 3}])
def test_replies_that_make_no_sense(result):
    def script(server):
        server.answer(result)
        server.answer({})
    with connected(script) as client:
        with pytest.raises(fdclient.Error, match="CONNECTION: the server's reply makes no sense"):
            client.run("laplacian", F)
        assert client.call("ping") == {}


@pytest.mark.parametrize("lie", [{"region": 2}, {"offset": 16}, {"shape": [1 << 20]}, {"type": "O"}])
def test_a_place_in_the_pool_that_was_not_asked_for(lie):
    f = wave(128, 256)

    def script(server):
        for answer in ({"out": inline(f)}, {"region": 1}, {"out": inline(f)}):  # the second asks for memory, too
            server.answer(answer)
        for reply in ({}, lie):
            msgid, _, params = server.hear()
            place = params["out"] | {"offset": 0, "shape": [128, 256], "type": "<f4"} | reply
            server.say(msgid, {"out": place})
    with connected(script) as client:
        for _ in range(3):
            client.submit("laplacian", f).result()
        with pytest.raises(fdclient.Error, match="makes no sense"):
            client.run("laplacian", f)


@pytest.mark.parametrize("code, given_up", [("TIMEOUT", True), ("CANCELLED", True), ("NOT_FOUND", False)])
def test_memory_of_a_job_that_was_stopped(code, given_up):
    """It may be answered while a hanging worker can still write its result: no other job gets the memory."""
    f = wave(128, 256)
    named = []

    def script(server):
        regions = 0
        while len(named) < 4:
            msgid, method, params = server.hear()
            if method == "register":
                regions += 1
                server.say(msgid, {"region": regions})
            elif method == "unregister":
                server.say(msgid, {})
            elif isinstance(params.get("out"), dict):
                named.append(params["out"]["region"])
                server.say(msgid, error={"code": code, "message": "", "retryable": False})
            else:
                server.say(msgid, {"out": inline(f)})
    with connected(script) as client:
        while len(named) < 4:
            with contextlib.suppress(fdclient.Error):
                client.run("laplacian", f)
    assert len(set(named)) == (4 if given_up else 1)


@pytest.mark.parametrize("f, first", [(wave(128, 256), ["inline"]), (fdclient.empty((4, 8)), [])], ids=["pool", "own"])
@pytest.mark.parametrize("code, retryable", [("OVER_BUDGET", True), ("UNSUPPORTED", False)])
def test_memory_that_was_refused_is_offered_again(monkeypatch, f, first, code, retryable):
    """The server may have room later: it is asked again, though not for each job."""
    now, heard, regions = [1000.0], [], ["register"] if retryable else []

    def script(server):
        with contextlib.suppress(AssertionError):  # the client leaves
            while True:
                msgid, method, params = server.hear()
                place = params.get("out") or params.get("f", {})  # the pool's, or that of an array of empty()
                heard.append(method if method == "register" else "region" if "region" in place else "inline")
                if heard == [*first, "register"]:
                    server.say(msgid, error={"code": code, "message": "", "retryable": retryable})
                elif method == "register":
                    server.say(msgid, {"region": 7})
                elif "out" in params:
                    server.say(msgid, {"out": place | {"offset": 0, "shape": list(f.shape), "type": f.dtype.str}})
                else:
                    server.say(msgid, {"out": inline(f)})
    monkeypatch.setattr(fdclient, "time", types.SimpleNamespace(monotonic=lambda: now[0]))  # it stands still
    with connected(script) as client:
        for _ in first:  # for one job alone the pool does not grow
            client.run("laplacian", f)
        for _ in range(4):
            client.run("laplacian", f)
        assert heard == [*first, "register"] + ["inline"] * 4
        now[0] += 1
        for _ in range(2):
            client.run("laplacian", f)
    by = "region" if retryable else "inline"
    assert heard[len(first) + 5:] == [*regions, *(first or [by]), by]


@pytest.mark.parametrize("end", ["closed", "broken", "collected"])
def test_memory_that_stays_keeps_nothing_of_a_client_that_has_gone(end):
    f = fdclient.empty((4, 8))

    def script(server):
        server.answer({"region": 7})
        server.answer({"out": inline(f)})
        if end == "broken":
            server.peer.sendall(b"\xc1")
    with Server(script) as server:
        client = fdclient.Client(server.path)
        gone = weakref.ref(client._gone)
        client.run("laplacian", f)
        if end == "broken":
            with pytest.raises(fdclient.Error, match="CONNECTION"):
                client.call("ping")
        if end == "closed":
            client.close()
        del client
        gc.collect()
        assert gone() is None


@pytest.mark.parametrize("bytes_", [b"\xc1", b"\x07", b"\x90", b"\x93\x02\x01\x90", b"\x92\x01\x01"])
def test_bytes_that_cannot_be_followed(bytes_):
    def script(server):
        server.hear()
        server.peer.sendall(bytes_)
    with connected(script) as client:
        for says in ("cannot be followed", "cannot be followed"):  # from then on, too
            with pytest.raises(fdclient.Error, match="CONNECTION.*" + says):
                client.call("ping")


@contextlib.contextmanager
def on_signal(act):
    before = signal.signal(signal.SIGUSR1, act)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def interrupt(is_handled):
    """As ctrl-C does. If it comes just before the client sleeps, it is handled when that wakes: other signals see to it."""
    os.kill(os.getpid(), signal.SIGINT)
    eventually(lambda: os.kill(os.getpid(), signal.SIGUSR1) or is_handled(), "the interrupt")


def test_an_interrupt_cancels_the_job():
    heard = []

    def script(server):
        msgid, _, _ = server.hear()
        eventually(lambda: client._reading, "a client that waits")
        interrupt(lambda: select.select([server.peer], [], [], 0)[0])
        heard.append((msgid, server.answer({"state": "cancelled"})))
        server.say(msgid, error={"code": "CANCELLED"})
        server.answer({})
    with on_signal(lambda *_: None), connected(script) as client:
        with pytest.raises(KeyboardInterrupt):
            client.run("diffusion", F, steps=10**9, cfl=1)
        assert client.call("ping") == {}
    (msgid, cancel), = heard
    assert cancel == ("cancel", {"msgid": msgid})


def test_an_interrupt_while_sending():
    """No request can follow an incomplete one."""
    interrupted = []

    def script(server):
        server.peer.recv(1)
        interrupt(lambda: interrupted)
    with on_signal(lambda *_: None), connected(script) as client:
        with pytest.raises(KeyboardInterrupt):
            client.put(numpy.zeros(LARGE))
        interrupted.append(True)
        with pytest.raises(fdclient.Error, match="interrupted while it was sent"):
            client.call("ping")


def test_a_connection_that_breaks_while_a_request_is_sent():
    """The rest would neither be read nor answered."""
    def script(server):
        server.peer.recv(1)
        server.peer.sendall(b"\xc1")
    with connected(script) as client:
        with pytest.raises(fdclient.Error, match="CONNECTION.*cannot be followed"):
            client.put(numpy.zeros(LARGE))


def refusal(says, call):
    """A callback from which the call is refused, and the list of the errors so far."""
    refused = []

    def callback(*_):
        with pytest.raises(fdclient.Error, match=says) as raised:
            call()
        refused.append(raised.value)
    return callback, refused


def test_a_request_in_the_middle_of_another():
    ping, refused = refusal("while its thread sends", lambda: client.call("ping"))

    def script(server):
        server.peer.recv(1, socket.MSG_PEEK)
        eventually(lambda: client._reading, "a client that waits for room")
        eventually(lambda: os.kill(os.getpid(), signal.SIGUSR1) or refused, "the handler")
        server.answer({"field": 7})
        server.answer({})
    with on_signal(ping), connected(script) as client:
        client.put(numpy.zeros(LARGE)).keep()
        assert client.call("ping") == {}


def test_a_signal_handler_while_its_thread_waits():
    """Each would wait for the other."""
    cancel, refused = refusal("sends or waits", lambda: job.cancel())

    def script(server):
        msgid, _, _ = server.hear()
        eventually(lambda: client._reading, "a client that waits")
        # Again and again: one that comes just before it sleeps is not handled until it wakes.
        eventually(lambda: os.kill(os.getpid(), signal.SIGUSR1) or refused, "the handler")
        server.say(msgid, {"out": inline(F)})
    with on_signal(cancel), connected(script) as client:
        job = client.submit("laplacian", F)
        assert (job.result() == F).all()


def test_what_is_collected_while_a_message_is_taken(monkeypatch):
    """__del__ runs in any thread, at any time: it is refused if it would wait for its own thread."""
    collect, refused = refusal("sends or waits", lambda: client.call("ping"))

    def script(server):
        msgid, _, _ = server.hear()
        server.peer.sendall(msgpack.packb([2, "progress", [{"msgid": msgid, "done": 1, "total": 2}]]))
        server.say(msgid, {})
    monkeypatch.setattr(fdclient.Client, "_notify", collect)
    with connected(script) as client:
        assert client.run("diffusion", F, steps=2, cfl=1) == {} and refused


def test_what_progress_raises():
    def script(server):
        msgid, _, _ = server.hear()
        # Together: the client may leave after the first.
        server.peer.sendall(msgpack.packb([2, "progress", [{"msgid": msgid, "done": 1, "total": 2}]]) +
                            msgpack.packb([1, msgid, None, {}]))
    with connected(script) as client:
        with pytest.raises(IndexError):
            client.run("diffusion", F, steps=2, cfl=1, progress=lambda done, total: [][done])


def test_timeouts():
    heard = []

    def script(server):
        for _ in range(4):
            heard.append(server.hear())
        server.say(heard[-1][0], {})
    with connected(script) as client:
        for call in (lambda: client.call("ping", timeout=0.01), lambda: client.run("laplacian", F, timeout=0.01),
                     lambda: client.submit("laplacian", F).result(timeout=0.01)):
            with pytest.raises(fdclient.Error, match="TIMEOUT: the server has not answered"):
                call()
        assert client.call("ping", timeout=PATIENCE_S) == {}  # the answers of the others may come when they like
        for timeout in (0, -1, "1", numpy.nan):
            with pytest.raises(fdclient.Error, match="seconds above 0") as caught:
                client.call("ping", timeout=timeout)
            assert caught.value.parameter == "timeout"
    assert [params.get("timeout") for _, _, params in heard] == [None, 10000, None, None]


def test_a_timeout_for_all_calls_and_one_while_sending():
    def script(server):
        server.hear()
    with connected(script, timeout=0.01) as client:
        with pytest.raises(fdclient.Error, match="TIMEOUT"):
            client.call("ping")
        with pytest.raises(fdclient.Error, match="TIMEOUT: the server takes no more"):
            client.put(numpy.zeros(4 * LARGE))
        with pytest.raises(fdclient.Error, match="CONNECTION: TIMEOUT: the server takes no more"):
            client.call("ping")


def test_a_client_that_is_closed():
    with Server(lambda server: server.hear()) as server:
        client = fdclient.Client(server.path)
        job = client.submit("laplacian", F)
        waiting = threading.Thread(target=lambda: pytest.raises(fdclient.Error, job.result))
        waiting.start()
        client.close()
        waiting.join(PATIENCE_S)
        assert not waiting.is_alive()
        client.close()
        for call in (job.result, lambda: client.call("ping"), lambda: client.run("laplacian", F), job.cancel):
            with pytest.raises(fdclient.Error, match="CONNECTION: the client is closed"):
                call()
        assert job.done()


def test_addresses():
    for path, says in (("/" + "x" * 200, "too long"), ("/nowhere", "No such file.*is fdserver running")):
        with pytest.raises(fdclient.Error, match=f"cannot connect to {path}: .*{says}"):
            fdclient.Client(path)


def test_fields_free_themselves():
    heard = []

    def script(server):
        for answer in ({"field": 1}, {"field": 2}, {"field": 3}, {"field": 4}, {"out": field(5)}, {"out": field(6)},
                       {"out": field(7)}):
            server.answer(answer)
        with contextlib.suppress(AssertionError):
            while True:
                msgid, *request = server.hear()
                heard.append(tuple(request))  # before the client can look
                server.say(msgid, {})
    with Server(script) as server:
        with fdclient.Client(server.path) as client:
            kept, with_block, collected, alive = (client.put(F) for _ in range(4))
            made = client.run("laplacian", F, out="field")
            theirs = client.run("laplacian", F, out={"field": 6})
            assert client.run("laplacian", F, out={"field": 7, "type": "<f4"}).id == 7
            assert kept.keep() == 1 and "<fdclient.Field 5: float32 (3,)>" == repr(made) and theirs.id == 6
            with with_block:
                pass
            assert heard == [("free", {"field": 2})] and "freed" in repr(with_block)
            with_block.free()  # nothing more to do
            thread = threading.Thread(target=lambda doomed: doomed.clear(), args=([collected],))
            del kept, collected, theirs
            thread.start()
            thread.join()
            del thread
            gc.collect()
            client.call("ping")
            assert heard[1:] == [("free", {"field": 3}), ("ping", {})]
        assert sorted(params["field"] for method, params in heard[3:] if method == "free") == [4, 5]
        assert heard[-1][0] == "ping" and alive.id == 4


def test_fields_of_a_client_that_nobody_has():
    heard = []

    def script(server):
        server.answer({"field": 1})
        heard.append(server.hear()[1:])  # nobody waits for an answer
    with Server(script) as server:
        fdclient.Client(server.path).put(F)
        gc.collect()
    assert heard == [("free", {"field": 1})]

"""Finite differences from an fdserver. Needs msgpack and numpy; no CUDA is needed or used here.

    import fdclient
    client = fdclient.Client()                      # or Client("unix:PATH")
    f = fdclient.empty((512, 512, 512), "f4")       # memory that the server sees: nothing is copied
    slope = fdclient.empty(f.shape, f.dtype)
    f[:] = ...
    client.run("derivative", f, axis="x", spacing=0.1, out=slope)
    smooth = client.run("diffusion", f, steps=100, cfl=0.5)             # a new array
    job = client.submit("diffusion", f, steps=1000, cfl=0.5, every=100)
    for step, time, snapshot in job.snapshots():
        ...
    edges = client.chain(fdclient.op("gradient", f, out="g"), fdclient.op("divergence", "g"))
    jobs = [client.submit("laplacian", f, accuracy=a) for a in (2, 4, 6, 8)]
    results = [job.result() for job in jobs]

Methods and parameters are those of the wire (protocol/PROTOCOL.md). An array is a NumPy array of
float32 or float64; a vector field is a map of them, {"x": …, "y": …, "z": …}. Arrays in memory from
empty(), and views of it that are in C order, are named to the server; others are sent over the socket.
A large result for which no `out` is given is copied from memory that the client keeps for such.
Arrays and Fields stand inside parameters, too, where the wire takes them:

    client.run("laplacian", f, boundary={"x-": {"value": edge}, "*": "one-sided"}, spacing={"z": heights})

Neither write to an input nor read an output while its job is under way.

A client is used by one thread at a time; different clients are independent.
"""

import array
import collections
import errno
import fcntl
import mmap
import os
import select
import socket
import threading
import weakref

import msgpack
import numpy

__version__ = "0.1.0"  # of the whole project: CMakeLists.txt

_BIN_BYTES = 1 << 31  # of each bin of a large array; one ends at 2^32 - 1
_PLACE_BYTES = 16     # where the server takes an array in a region
_POOL_ARRAY_BYTES = 64 << 10  # results from here up go through the pool: a copy costs less than the socket
_POOL_BYTES = 1 << 30         # of a client's pool; it stays in RAM
_OPERANDS = ("boundary", "coefficient", "diffusivity", "source")  # parameters that hold arrays as f does
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_memories = weakref.WeakSet()
_memories_lock = threading.Lock()


class Error(Exception):
    """What the server answered; code "CONNECTION" where it is away."""

    def __init__(self, code, message, parameter=None, retryable=False, need=None, limit=None):
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.parameter = code, message, parameter
        self.retryable, self.need, self.limit = retryable, need, limit


class _Memory(mmap.mmap):
    """A sealed memfd, mapped. Arrays over it keep it alive; each client registers it once."""

    def __new__(cls, size):
        descriptor = os.memfd_create("fdclient", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(descriptor, size)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
            memory = super().__new__(cls, descriptor, size)
        except BaseException:
            os.close(descriptor)
            raise
        memory.descriptor = descriptor
        memory.address = numpy.frombuffer(memory, "u1").ctypes.data
        weakref.finalize(memory, os.close, descriptor)
        with _memories_lock:
            _memories.add(memory)
        return memory


def empty(shape, dtype="f4"):
    """A new array, zeroed, in memory that servers can be shown. It stays in RAM once one was."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    dtype = numpy.dtype(dtype)
    size = dtype.itemsize
    for n in shape:
        size *= n
    return numpy.ndarray(shape, dtype, _Memory(max(size, 1)))


def _memory_of(array):
    """(memory, offset) of an array that may be named; None: it lies elsewhere, or not in C order."""
    if not array.flags.c_contiguous:
        return None
    address = array.ctypes.data
    with _memories_lock:
        memories = list(_memories)
    for memory in memories:
        offset = address - memory.address
        if 0 <= offset and offset + array.nbytes <= len(memory):
            return (memory, offset) if offset % _PLACE_BYTES == 0 else None
    return None


class _PoolMemory(_Memory):
    registering = None  # the job
    busy = False        # a job uses it
    spent = False       # a worker that was started anew may have been unable to map it again

    def region(self):
        """Its id; None: it has none, or not yet."""
        done = self.registering._done and not self.registering._error
        return self.registering._result["region"] if done else None


class _Pool:
    """Memory that results are copied from, in sizes of powers of two. It grows behind the jobs: one that
    finds too little goes over the socket, and the first one does not even make it grow."""

    def __init__(self, client):
        self._client, self._memories, self._lacked = weakref.proxy(client), [], False

    def find(self, count, size):
        """`count` free memories of `size` bytes or more, which the server has; none where there are too few."""
        size = 1 << (size - 1).bit_length()
        for memory in [memory for memory in self._memories if memory.spent]:
            self._drop(memory)
        free = [memory for memory in self._memories if len(memory) == size and not memory.busy]
        ready = [memory for memory in free if memory.region()]
        if len(ready) >= count:
            return ready[:count]
        if self._lacked and count * size <= _POOL_BYTES:
            self._grow(count - len(free), size)
        self._lacked = True
        return []

    def _drop(self, memory):
        self._memories.remove(memory)
        self._client._send("unregister", {"region": memory.region()})

    def _make_room(self, size):
        """Give up what is idle and of another size; False: that is too little, and all of it stays."""
        idle = [memory for memory in self._memories
                if len(memory) != size and memory.region() and not memory.busy]
        excess = sum(map(len, self._memories)) + size - _POOL_BYTES
        if sum(map(len, idle)) < excess:
            return False
        while excess > 0:
            excess -= len(idle[0])
            self._drop(idle.pop(0))
        return True

    def _grow(self, count, size):
        if any(memory.registering._error for memory in self._memories):
            return  # the server takes no more
        for _ in range(count):
            if not self._make_room(size):
                return
            try:
                memory = _PoolMemory(size)
            except OSError:
                return  # no memory or descriptor for it
            memory.registering = self._client._send("register", {"bytes": size}, descriptor=memory.descriptor)
            memory.registering._client = None  # nobody waits for it, and a client must not keep itself
            self._memories.append(memory)


class Field:
    """An array that stays on the device; an input, or `out`, of other jobs."""

    def __init__(self, client, field, shape, dtype):
        self.client, self.id, self.shape, self.dtype = client, field, tuple(shape), numpy.dtype(dtype)

    def get(self, out=None):
        return self.client.run("get", field=self.id, out=out)

    def free(self):
        self.client.call("free", field=self.id)


def op(name, f, out=None, **parameters):
    """An operator of a chain."""
    return {"op": name, "f": f} | ({} if out is None else {"out": out}) | parameters


class Job:
    """A request under way. Once it is done, `report` is what the answer says of the result (where
    report=True; of a vector field a map by axis), `dt` the time step of a diffusion, and `probes` the
    values at its probes, [steps + 1, probes]."""

    def __init__(self, client, msgid, out, progress):
        self._client, self._msgid, self._out, self._progress = client, msgid, out, progress
        self._error, self._result, self._done = None, None, False
        self._snapshots = collections.deque()
        self.report = self.dt = self.probes = None

    def done(self):
        """Has it been answered? Does not wait."""
        if not self._done:
            self._client._receive(wait=False)
        return self._done

    def result(self):
        """Wait for it: an array, a Field, a map of them by axis, or what else the method gives."""
        while not self._done:
            self._client._receive()
        if self._error:
            raise self._error
        return self._result

    def snapshots(self):
        """Those of a job with every=N, as they come: (step, time, array), or a Field with snapshot="field".
        The job goes on when they are read: here, or by whatever waits for something."""
        while True:
            while self._snapshots:
                yield self._snapshots.popleft()
            if self._done:
                return
            self._client._receive()

    def cancel(self):
        """"cancelled", "already_done" or "not_found"; a cancelled job's result() raises."""
        return self._client.call("cancel", msgid=self._msgid)["state"]


class Client:
    def __init__(self, address=None):
        path = address or os.environ.get("FDSERVER_SOCKET") or _default_path()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)  # or what the system allows
        try:
            self._socket.connect(path.removeprefix("unix:"))
        except OSError as error:
            self._socket.close()
            raise Error("CONNECTION", f"cannot connect to {path}: {error.strerror}") from None
        self._socket.setblocking(False)
        self._unpacker = msgpack.Unpacker(max_buffer_size=0, strict_map_key=False)
        self._jobs = {}                                # by msgid
        self._last = 0
        self._regions = weakref.WeakKeyDictionary()    # memory: its id, or None where it was refused
        self._gone = []                                # ids of regions whose memory is gone
        self._pool = _Pool(self)

    def close(self):
        self._socket.close()
        self._break("the connection was closed")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def submit(self, method, f=None, out=None, progress=None, **parameters):
        """Begin a job. `f` and `out` are arrays, Fields or maps of them by axis; `out` may also be
        "field": a new one. progress(done, total) is called while somebody waits."""
        while self._gone:
            self._send("unregister", {"region": self._gone.pop()})
        if f is not None:
            parameters["f"] = _each(f, self._operand)
        self._name_operands(parameters, self._operand)
        self._name_out(out, parameters)
        if out is None and f is not None:
            out = self._pooled(method, f, parameters)
            if out is not None:
                parameters["out"] = _each(out, lambda memory: {"region": memory.region()})
        if progress:
            parameters["progress"] = True
        job = self._send(method, parameters, out, progress)
        for memory in _pool_memories(out):
            memory.busy = not job._done
        return job

    def run(self, method, f=None, out=None, progress=None, **parameters):
        """The same, and wait for its result."""
        return self.submit(method, f, out, progress, **parameters).result()

    def dry_run(self, method, f, out=None, **parameters):
        """What the job would take, without running it: a map with "bytes" and "seconds" of "device", and
        diffusion's "dt" and "dt_max". Of arrays the shape and type alone are looked at."""
        parameters |= {"f": _each(f, self._described), "dry_run": True}
        self._name_operands(parameters, self._described)
        self._name_out(out, parameters)
        return self._send(method, parameters).result()

    def chain(self, *ops, out=None, **parameters):
        """Several operators in one request, and its result; op() makes each. What one gives is called by
        its `out`, a name or a Field, and by that name it is another's `f`. `out` here is "field", or a map
        by name of "inline" and "field".

            client.chain(fdclient.op("gradient", f, out="g"), fdclient.op("divergence", "g"))

        With dry_run=True what it would take, as dry_run() has it, and of each of its "ops".
        """
        read = self._described if parameters.get("dry_run") else self._operand
        parameters["ops"] = [{name: _each_array(value, read if name in ("f", *_OPERANDS) else self._operand)
                              for name, value in each.items()} for each in ops]
        if out is not None:
            parameters["out"] = out
        return self._send("chain", parameters).result()

    def call(self, method, **parameters):
        """A method without arrays, such as info, stats and list: its result."""
        return self._send(method, parameters).result()

    def put(self, f):
        """Keep an array on the device."""
        f = numpy.asarray(f)
        return Field(self, self.run("put", f)["field"], f.shape, f.dtype)

    # --- arrays

    def _region(self, memory):
        """The memory's id here; None: the server does not take it."""
        if memory not in self._regions:
            self._regions[memory] = None
            try:
                region = self._send("register", {"bytes": len(memory)},
                                    descriptor=memory.descriptor).result()["region"]
            except Error as error:
                if error.code == "CONNECTION":
                    raise
                return None
            self._regions[memory] = region
            weakref.finalize(memory, self._gone.append, region)
        return self._regions[memory]

    def _named(self, array):
        found = _memory_of(array)
        region = found and self._region(found[0])
        return {"region": region, "offset": found[1]} if region else None

    def _operand(self, f):
        if isinstance(f, Field):
            return {"field": f.id}
        f = numpy.asarray(f)
        place = self._named(f)
        return place | {"shape": f.shape, "type": f.dtype.str} if place else numpy.ascontiguousarray(f)

    @staticmethod
    def _name_operands(parameters, call):
        """call() on each array in parameters that are read beside f."""
        for name in _OPERANDS:
            if name in parameters:
                parameters[name] = _each_array(parameters[name], call)

    @staticmethod
    def _described(f):
        if isinstance(f, Field):
            return {"field": f.id}
        f = numpy.asarray(f)
        return {"nd": True, "type": f.dtype.str, "shape": f.shape}

    def _place(self, out):
        """Where the server is to write; None: it is to send, and the array is filled here."""
        if isinstance(out, Field):
            return {"field": out.id}
        place = self._named(out)
        return place | {"shape": out.shape, "type": out.dtype.str} if place else None

    def _name_out(self, out, parameters):
        """Say where the result is to go, unless it is sent."""
        places = out if isinstance(out, str) or out is None else _each(out, self._place)
        if all(place is not None for place in _values(places)):
            parameters["out"] = places

    def _pooled(self, method, f, parameters):
        """Memory of the pool for each array that the job gives; None: they are to be sent."""
        arrays = [each for each in _values(f) if isinstance(each, numpy.ndarray)]
        axes = _result_axes(method, f, arrays[0].ndim, parameters.get("batch")) if arrays else None
        if axes is None or arrays[0].nbytes < _POOL_ARRAY_BYTES:
            return None
        memories = self._pool.find(max(len(axes), 1), arrays[0].nbytes)
        return (dict(zip(axes, memories)) if axes else memories[0]) if memories else None

    # --- messages

    def _send(self, method, parameters, out=None, progress=None, descriptor=None):
        self._last += 1
        job = self._jobs[self._last] = Job(self, self._last, out, progress)
        pieces = [bytearray()]
        _pack([0, self._last, method, [parameters]], pieces)
        for piece in pieces:
            self._write(memoryview(piece), descriptor)
            descriptor = None
        return job

    def _write(self, data, descriptor):
        """Send all of it; what comes meanwhile is taken, so that neither waits for the other."""
        while len(data):
            rights = [] if descriptor is None else [
                (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
            try:
                sent = self._socket.sendmsg([data], rights, socket.MSG_NOSIGNAL)
                data, descriptor = data[sent:], None
            except BlockingIOError:
                if self._wait(select.POLLIN | select.POLLOUT) & ~select.POLLOUT:
                    self._receive(wait=False)
            except OSError as error:
                if rights and error.errno in (errno.EPERM, errno.ETOOMANYREFS):
                    descriptor = None  # none goes through: the server refuses the region
                    continue
                self._break(error.strerror)
                raise Error("CONNECTION", error.strerror) from None

    def _wait(self, events):
        """Until there is one of them; which there are."""
        poll = select.poll()
        poll.register(self._socket, events)
        return poll.poll()[0][1]

    def _receive(self, wait=True):
        """Take what has come; where `wait`, something."""
        try:
            if wait:
                self._wait(select.POLLIN)
            received = self._socket.recv(1 << 20)
        except BlockingIOError:
            return
        except (OSError, ValueError) as error:
            received = b""
            reason = str(error)
        else:
            reason = "the server closed the connection"
        if not received:
            self._break(reason)
            return
        self._unpacker.feed(received)
        for message in self._unpacker:
            if message[0] == 2:
                self._notify(message[1], message[2][0])
            else:
                self._answer(*message[1:])

    def _notify(self, what, about):
        job = self._jobs.get(about.get("msgid"))
        if what == "progress" and job and job._progress:
            job._progress(about["done"], about["total"])
        elif what == "snapshot" and job:
            job._snapshots.append((about["step"], about["time"], self._output(about["out"], None)))

    def _answer(self, msgid, error, result):
        job = self._jobs.pop(msgid, None)
        if not job:
            return  # it goes to none of ours: the server has lost track of what we send, and will close
        try:
            if error:
                raise Error(**error)
            job.report, job.dt = result.get("report"), result.get("dt")
            if "probes" in result:
                job.probes = self._output(result["probes"], None)
            if "out" in result:
                result = self._outputs(result["out"], job._out)
            job._result = result
        except Exception as failure:
            job._error = failure
        for memory in _pool_memories(job._out):
            memory.busy = False
            memory.spent = getattr(job._error, "code", None) in ("INTERNAL", "OUT_OF_MEMORY")
        job._out, job._done = None, True

    def _outputs(self, reply, out):
        """The same of an array, or of a map of them by axis or name."""
        if not all(isinstance(item, dict) for item in reply.values()):
            return self._output(reply, out)
        return {key: self._outputs(item, out.get(key) if isinstance(out, dict) else out)
                for key, item in reply.items()}

    def _output(self, reply, out):
        """What came in the place of `out`."""
        if "region" in reply:
            if not isinstance(out, _PoolMemory):
                return out
            return numpy.ndarray(reply["shape"], reply["type"], out).copy()
        if "field" in reply:
            return out if isinstance(out, Field) else Field(self, reply["field"], reply["shape"], reply["type"])
        data = reply[b"data"]
        data = b"".join(data) if isinstance(data, list) else data
        result = numpy.frombuffer(data, reply[b"type"]).reshape(reply[b"shape"])
        if not isinstance(out, numpy.ndarray):
            return result.copy()
        if out.shape != result.shape:
            raise Error("INVALID_ARGUMENT", f"the result has the shape {result.shape}", "out")
        out[...] = result
        return out

    def _break(self, reason):
        for job in self._jobs.values():
            job._error, job._done = Error("CONNECTION", reason), True
        self._jobs = {}


def _default_path():
    system = "/run/fdserver/fdserver.sock"
    own = os.path.join(os.environ.get("XDG_RUNTIME_DIR", ""), "fdserver.sock")
    return own if not os.path.exists(system) and os.path.exists(own) else system


def _is_vector(value):
    return isinstance(value, dict) and any(axis in value for axis in "xyz")


_ARRAY_METHODS = ("derivative", "laplacian", "divergence", "curl", "diffusion", "biharmonic", "interpolate", "stencil")


def _result_axes(method, f, dimensions, batch):
    """Axes of the vector field that the method gives, none where it gives an array; None: who knows."""
    if method == "curl" and _is_vector(f) and len(f) == 3:
        return "xyz"
    if method != "gradient":
        return "" if method in _ARRAY_METHODS else None
    if not batch:
        return "xyz"[:dimensions]
    return "xyz"[:dimensions - batch] if isinstance(batch, int) and 0 < dimensions - batch <= 3 else None


def _pool_memories(out):
    return [memory for memory in _values(out) if isinstance(memory, _PoolMemory)]


def _values(value):
    return value.values() if _is_vector(value) else [value]


def _each(value, call, *beside):
    """call(value), or of a vector field the same of each component; `beside` is taken apart alike."""
    if not _is_vector(value):
        return call(value, *beside)
    return {axis: call(component, *(b.get(axis) if isinstance(b, dict) else b for b in beside))
            for axis, component in value.items()}


def _each_array(value, call):
    """call(value) of an array or a Field, wherever it stands in maps."""
    if isinstance(value, dict):
        return {key: _each_array(item, call) for key, item in value.items()}
    if isinstance(value, numpy.ndarray) and value.ndim == 0:
        return value.item()
    return call(value) if isinstance(value, (numpy.ndarray, Field)) else value


def _pack(value, pieces):
    """Pack behind the last piece; an array's bytes are pieces of their own and not copied."""
    packer = msgpack.Packer()
    if isinstance(value, dict):
        pieces[-1] += packer.pack_map_header(len(value))
        for key, item in value.items():
            pieces[-1] += packer.pack(key)
            _pack(item, pieces)
    elif isinstance(value, (list, tuple)):
        pieces[-1] += packer.pack_array_header(len(value))
        for item in value:
            _pack(item, pieces)
    elif isinstance(value, numpy.ndarray):
        _pack_array(value, pieces)
    elif isinstance(value, Field):
        _pack({"field": value.id}, pieces)
    else:
        pieces[-1] += packer.pack(value.item() if isinstance(value, numpy.generic) else value)


def _pack_array(value, pieces):
    packer = msgpack.Packer()
    pieces[-1] += packer.pack_map_header(5)
    for item in (b"nd", True, b"type", value.dtype.str, b"kind", b"", b"shape", list(value.shape), b"data"):
        pieces[-1] += packer.pack(item)
    data = memoryview(value.reshape(-1)).cast("B")
    bins = [data]
    if len(data) >= 1 << 32:
        bins = [data[at:at + _BIN_BYTES] for at in range(0, len(data), _BIN_BYTES)]
        pieces[-1] += packer.pack_array_header(len(bins))
    for part in bins:
        pieces[-1] += b"\xc6" + len(part).to_bytes(4, "big")
        pieces += [part, bytearray()]

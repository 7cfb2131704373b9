"""Finite differences from an fdserver. Needs msgpack and numpy; no CUDA is needed or used here.

    import fdclient
    client = fdclient.Client()                      # or Client("unix:PATH")
    f = fdclient.empty((512, 512, 512), "f4")       # memory shared with the server: nothing is copied
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

protocol/PROTOCOL.md lists the methods and their parameters. An array is a NumPy array of float32 or
float64 of shape (nz, ny, nx): x is the last axis. A vector field is a dict of arrays, {"x": …, "y": …,
"z": …}. The server reads arrays from empty(), and their views in C order, in place; all others are sent
over the socket. A large result without `out` is copied from shared memory that the client reuses. Arrays
and Fields may also be parts of parameters:

    client.run("laplacian", f, boundary={"x-": {"value": edge}, "*": "one-sided"}, spacing={"z": heights})

Do not write to an input or read an output until its job has ended.

Every call accepts timeout=, in seconds. When it expires, the call raises an Error with the code "TIMEOUT",
and its job is stopped. Ctrl-C during the wait for a result cancels the job. Threads may share a client.
"""

import array
import collections
import contextlib
import ctypes
import errno
import fcntl
import io
import math
import mmap
import os
import select
import socket
import threading
import time
import uuid
import weakref

import msgpack
import numpy

__version__ = "0.1.0"  # of the whole project: CMakeLists.txt

_BIN_BYTES = 1 << 31  # of each bin of a large array; one ends at 2^32 - 1
_PLACE_BYTES = 16     # where the server takes an array in a region
_POOL_ARRAY_BYTES = 64 << 10  # results from here up go through the pool: a copy costs less than the socket
# Errors after which memory of the pool goes: the server cannot go on with it, or the device may still write to it.
_SPENT = ("INTERNAL", "OUT_OF_MEMORY", "CANCELLED", "TIMEOUT")
_POOL_BYTES = 1 << 30         # of a client's pool; it stays in RAM
_TIMEOUT_S = 1e6  # the most
_RETRY_S = 1   # until a server that has refused memory is asked again
_GRACE_S = 1   # for the server to say itself that a job's time is over
_YIELD_S = 0.01  # until a thread that sends looks again whether it should read, too
_OPERANDS = ("boundary", "coefficient", "diffusivity", "source")  # parameters that hold arrays as f does
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_memories = weakref.WeakSet()
_memories_lock = threading.Lock()


class Error(Exception):
    """An error of the server or of this module: code, message, parameter (or None), retryable, and need and
    limit (or None). The code is "CONNECTION" if the server cannot be reached."""

    def __init__(self, code, message, parameter=None, retryable=False, need=None, limit=None):
        super().__init__(code, message, parameter, retryable, need, limit)
        self.code, self.message, self.parameter = code, message, parameter
        self.retryable, self.need, self.limit = retryable, need, limit

    def __str__(self):
        place = f"{self.parameter}: " if self.parameter else ""
        numbers = [f"{number:.15g}" if isinstance(number, float) else number for number in (self.need, self.limit)]
        told = self.need is None or self.code == "INVALID_ARGUMENT"  # the message has the numbers
        limit = "" if told else f" (need {numbers[0]}, limit {numbers[1]})"
        return f"{self.code}: {place}{self.message}{limit}"


def _error_of(reply):
    """The Error that a reply holds; keys of a later server are let pass."""
    if not isinstance(reply, dict):
        return Error("INTERNAL", str(reply))
    keys = ("parameter", "retryable", "need", "limit")
    return Error(reply.get("code", "INTERNAL"), reply.get("message", ""), *(reply.get(key) for key in keys))


def _in_answer(answer, key):
    if not isinstance(answer, dict) or key not in answer:
        raise Error("CONNECTION", f"the server's reply makes no sense: it has no {key}")
    return answer[key]


def _invalid(message, parameter):
    return Error("INVALID_ARGUMENT", message, parameter)


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
    """A new array of zeros in memory that can be shared with servers. A job that uses the array registers its
    memory with the server, which keeps it in RAM."""
    shape = tuple(shape) if numpy.iterable(shape) else (shape,)
    dtype = numpy.dtype(dtype)
    return numpy.ndarray(shape, dtype, _Memory(max(dtype.itemsize * math.prod(map(int, shape)), 1)))


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


def _retry_at(error):
    """When a server that has refused memory with this error may be asked again: what is in use may be free then."""
    return time.monotonic() + _RETRY_S if error.retryable else math.inf


class _PoolMemory(_Memory):
    registering = None  # the job
    busy = False        # a job uses it
    spent = False       # a worker that was started anew may have been unable to map it again

    def region(self):
        """Its id; None: it has none, or not yet."""
        done = self.registering._done and not self.registering._error
        return _in_answer(self.registering._result, "region") if done else None


class _Pool:
    """Memory that results are copied from, in sizes of powers of two. It grows behind the jobs: one that
    finds too little goes over the socket, and the first one does not even make it grow."""

    def __init__(self, client):
        self._client, self._memories, self._lacked = weakref.proxy(client), [], False
        self._grows_at = 0  # and not before: the server has refused to take more

    def find(self, count, size):
        """`count` free memories of `size` bytes or more, which the server has; none where there are too few."""
        size = 1 << (size - 1).bit_length()
        for memory in list(self._memories):
            if memory.registering._error:
                self._memories.remove(memory)
                self._grows_at = max(self._grows_at, _retry_at(memory.registering._error))
            elif memory.spent:
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
        self._client._tell("unregister", {"region": memory.region()})

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
        if time.monotonic() < self._grows_at:
            return
        for _ in range(count):
            if not self._make_room(size):
                return
            try:
                memory = _PoolMemory(size)
            except OSError:
                return  # no memory or descriptor for it
            memory.registering = self._client._tell("register", {"bytes": size}, memory.descriptor)
            self._memories.append(memory)


class Field:
    """An array on the device, for use as an input or `out` of jobs. numpy.asarray(field) fetches it.

    A field that was created by put() or a job is freed by free(), at the end of its `with` block, with this
    object, or with its client. After keep() it stays on the server."""

    def __init__(self, client, field, shape, dtype, owned=False):
        self.client, self.id, self.shape, self.dtype = client, field, tuple(shape), numpy.dtype(dtype)
        self._freed = False
        # An object is collected in any thread, at any time: what is to be said is noted, and sent later.
        self._release = weakref.finalize(self, client._gone.append, ("free", {"field": field})) if owned else None

    def __repr__(self):
        return f"<fdclient.Field {self.id}: {self.dtype} {self.shape}{', freed' if self._freed else ''}>"

    def get(self, out=None, **parameters):
        return self.client.run("get", field=self.id, out=out, **parameters)

    def export(self, timeout=None, **parameters):
        """Map its memory in this process: an Export."""
        with self.client._sender(timeout, parameters):
            job = self.client._send("export", {"field": self.id} | parameters)
        return Export(self, *job.result())

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("a Field is on the device: an array of it is always a copy")
        array = self.get()
        return array if dtype is None else array.astype(dtype, copy=False)

    def free(self, timeout=None):
        if not self._freed:
            self.client.call("free", field=self.id, timeout=timeout)
            self._freed = True
            self.keep()

    def keep(self):
        """Leave it on the server, and return its id."""
        if self._release:
            self._release.detach()
        return self.id

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        with contextlib.suppress(*([Error] if kind else [])):  # an error before is the cause
            self.free()


class Export:
    """The memory of a Field, mapped in this process: jobs read the values written here, and the reverse.

        view = field.export().numpy()                  # of a server without a GPU
        view = cupy.asarray(field.export())            # of a GPU: nothing is copied; or
        view = torch.from_dlpack(field.export())       # jax.dlpack.from_dlpack(), cupy.from_dlpack()

    The server does not order accesses of this process: read after a job's result has arrived, and complete your
    writes (cupy.cuda.Device().synchronize()) before you submit a job that reads them. Arrays keep the mapping.
    The memory is charged to you until the Field is freed and this client is closed; then its contents are
    undefined."""

    def __init__(self, field, answer, descriptor):
        if not descriptor:
            raise Error("OUT_OF_MEMORY", "this process has no descriptor left", None, True)
        self.field, self.kind, self.device = field, _in_answer(answer, "kind"), answer["device"]
        self.shape, self.dtype, offset = tuple(answer["shape"]), _dtype(answer["type"]), answer["offset"]
        with descriptor:
            if self.kind == "memory":
                memory = mmap.mmap(descriptor.fileno(), answer["bytes"])
                self._array = numpy.ndarray(self.shape, self.dtype, memory, offset)
            elif self.kind == "cuda":
                self._memory = _CudaMemory(descriptor.fileno(), answer["uuid"], answer["bytes"])
                self._address = self._memory.address + offset
            else:
                raise Error("UNSUPPORTED", f"this fdclient does not know memory of the kind {self.kind!r}")

    def numpy(self):
        """A NumPy array of it. UNSUPPORTED if the memory is a GPU's."""
        if self.kind != "memory":
            raise Error("UNSUPPORTED", f"the field is on {self.device}, not in the host's memory")
        return self._array

    @property
    def __cuda_array_interface__(self):
        if self.kind != "cuda":
            raise AttributeError("__cuda_array_interface__")
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self._address, False), "version": 3}

    def __dlpack_device__(self):
        return (2, self._memory.device) if self.kind == "cuda" else self._array.__dlpack_device__()

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("its memory is exported without a copy, on its own device")
        if self.kind == "memory":
            return self._array.__dlpack__()
        shape = (ctypes.c_int64 * len(self.shape))(*self.shape)
        tensor = _DLManagedTensor(self._address, 2, self._memory.device, len(shape), 2, 8 * self.dtype.itemsize, 1,
                                  shape, None, 0, None, _dlpack_taken_back)
        _lent[ctypes.addressof(tensor)] = tensor, shape, self._memory
        return _new_capsule(ctypes.addressof(tensor), _DLPACK, _dlpack_unused)


_TAKEN_BACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _DLManagedTensor(ctypes.Structure):
    """dlpack.h, before version 1."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64), ("manager", ctypes.c_void_p), ("deleter", _TAKEN_BACK)]


_DLPACK = b"dltensor"
_lent = {}  # by the tensor's address: it, and what it stands on
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _TAKEN_BACK)(
    ("PyCapsule_New", ctypes.pythonapi))
_capsule_is = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))


@_TAKEN_BACK
def _dlpack_taken_back(tensor):
    _lent.pop(tensor)


@_TAKEN_BACK
def _dlpack_unused(capsule):
    """A capsule goes that nobody has made an array of (who does renames it)."""
    if _capsule_is(capsule, _DLPACK):
        _lent.pop(_capsule_pointer(capsule, _DLPACK))


def _cuda(name, *arguments):
    """Call CUDA's driver, which is loaded for that."""
    try:
        result = getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments)
    except (OSError, AttributeError) as error:
        raise Error("UNSUPPORTED", f"CUDA's driver is not there, or too old: {error}") from None
    if result:
        raise Error("INTERNAL", f"{name} fails with CUDA's error {result}")


class _CudaMemory:
    """Memory of a GPU that another process exports, mapped here as long as this object lives."""

    def __init__(self, descriptor, gpu, size):
        handle, address = ctypes.c_uint64(), ctypes.c_uint64()
        self.device = self._find(gpu)
        size, device, context = ctypes.c_size_t(size), ctypes.c_int(self.device), ctypes.c_void_p()
        _cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)  # that of CuPy, JAX and torch
        undo = contextlib.ExitStack()
        undo.callback(_cuda, "cuDevicePrimaryCtxRelease_v2", device)
        with undo, self._current(context):
            _cuda("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(descriptor), 1)
            try:
                _cuda("cuMemAddressReserve", ctypes.byref(address), size, ctypes.c_size_t(0), ctypes.c_uint64(0),
                      ctypes.c_uint64(0))
                undo.callback(_cuda, "cuMemAddressFree", address, size)
                _cuda("cuMemMap", address, size, ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
                undo.callback(_cuda, "cuMemUnmap", address, size)
            finally:
                _cuda("cuMemRelease", handle)  # the mapping holds it
            access = (ctypes.c_int * 3)(1, self.device, 3)  # a device; to be read and written
            _cuda("cuMemSetAccess", address, size, access, ctypes.c_size_t(1))
            undo.callback(self._wait, context)
            self.address = address.value
            weakref.finalize(self, undo.pop_all().close).atexit = False

    @staticmethod
    def _find(gpu):
        """The number of that GPU in this process."""
        count, found = ctypes.c_int(), ctypes.create_string_buffer(16)
        _cuda("cuInit", 0)
        _cuda("cuDeviceGetCount", ctypes.byref(count))
        for device in range(count.value):
            _cuda("cuDeviceGetUuid_v2", found, ctypes.c_int(device))
            if uuid.UUID(bytes=found.raw) == uuid.UUID(gpu):
                return device
        raise Error("UNSUPPORTED", f"this process does not see the GPU {gpu} (CUDA_VISIBLE_DEVICES)")

    @staticmethod
    @contextlib.contextmanager
    def _current(context):
        _cuda("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            _cuda("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    @classmethod
    def _wait(cls, context):
        """For what this process still does with it."""
        with cls._current(context):
            _cuda("cuCtxSynchronize")


def op(name, f, out=None, **parameters):
    """An operator for Client.chain()."""
    return {"op": name, "f": f} | ({} if out is None else {"out": out}) | parameters


class Job:
    """A request that was sent. After its answer, `report` is the report (if report=True; for a vector field a
    dict by axis), `dt` the time step of a diffusion, and `probes` the values at its probes, an array
    [steps + 1, probes]."""

    def __init__(self, client, msgid, out, progress, deadline=None, written=()):
        self._client, self._msgid, self._out, self._progress = client, msgid, out, progress
        self._deadline, self._written = deadline, written  # ids of fields that it names as `out`
        self._error, self._result, self._done = None, None, False
        self._snapshots = collections.deque()
        self.report = self.dt = self.probes = None

    def done(self):
        """Has it been answered? Returns at once."""
        return self._client._until(lambda: self._done, 0)

    def result(self, timeout=None):
        """Wait for the result: an array, a Field, a dict of them by axis, or for other methods the answer. If
        this timeout expires, the job continues, and result() may be called again."""
        self._wait(lambda: self._done, self._deadline if timeout is None else time.monotonic() + timeout)
        if self._error:
            raise self._error
        return self._result

    def snapshots(self):
        """The snapshots of a job with every=N, as they arrive: (step, time, array), with snapshot="field" a
        Field instead of the array. The job waits until they are read, here or by any call that waits."""
        while True:
            while self._snapshots:
                yield self._snapshots.popleft()
            if self._done:
                return
            self._wait(lambda: self._snapshots or self._done, self._deadline)

    def cancel(self):
        """Cancel it: "cancelled" (then result() raises), "already_done" or "not_found"."""
        return _in_answer(self._client.call("cancel", msgid=self._msgid), "state")

    def _wait(self, done, deadline):
        try:
            if not self._client._until(done, deadline):
                raise Error("TIMEOUT", "the server has not answered in time")
        except KeyboardInterrupt:
            if not self._done:
                with contextlib.suppress(Error):
                    self._client._tell("cancel", {"msgid": self._msgid})
            raise


class Client:
    """A connection to the server at address ("unix:PATH"; by default $FDSERVER_SOCKET or the usual socket).
    timeout, in seconds, applies to connecting and to each call without its own."""

    def __init__(self, address=None, timeout=None):
        path = address or os.environ.get("FDSERVER_SOCKET") or _default_path()
        self._timeout = timeout
        self._gone = collections.deque()               # requests about what was collected
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)  # or what the system allows
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(path.removeprefix("unix:"))
        except OSError as error:
            self._socket.close()
            hint = {errno.EACCES: "; it is open to its group alone", errno.ENOENT: "; is fdserver running?",
                    errno.ECONNREFUSED: "; is fdserver running?"}.get(error.errno, "")
            reason = f"cannot connect to {path}: {error.strerror or error}{hint}"
            raise Error("CONNECTION", reason, None, True) from None
        self._socket.setblocking(False)
        self._packer = msgpack.Packer()
        self._unpacker = msgpack.Unpacker(max_buffer_size=0, strict_map_key=False)
        self._broken = None                            # why nothing more will come
        self._sending = threading.RLock()              # held while a request is prepared and sent
        self._deadline = None                          # of who holds it
        self._writing = None                           # the thread that sends a part of a request
        self._lock = threading.RLock()                 # of the three that follow:
        self._reading = None                           # one thread reads, for all that wait
        self._turn, self._waiting = threading.Condition(self._lock), 0
        self._calls = collections.deque()              # progress to be told, by whoever waits
        self._jobs = {}                                # by msgid
        self._descriptors = collections.deque()        # that came with answers not read yet
        self._last = 0
        self._fields = weakref.WeakValueDictionary()   # by id
        # Memory: its id, and what unregisters it; or None, and when the server may be asked again to take it.
        self._regions = weakref.WeakKeyDictionary()
        self._pool = _Pool(self)
        weakref.finalize(self, _say_last, self._socket, self._gone, os.getpid())

    def close(self):
        """Free its Fields, cancel its jobs, and disconnect."""
        for reference in self._fields.valuerefs():     # at once: other threads may add some
            field = reference()
            if field and field._release:
                field._release()
        if self._gone and not self._broken:
            with contextlib.suppress(Error):
                self.call("ping", timeout=_GRACE_S)
        self._break("the client is closed")
        self._broken = "the client is closed"
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)    # it wakes those who wait
        with self._sending:
            self._await_turn(lambda: False, None)
            self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def submit(self, method, f=None, out=None, progress=None, timeout=None, **parameters):
        """Begin a job, and return it. `f` and `out` are arrays, Fields or dicts of them by axis; out="field"
        makes a new Field. progress(done, total) is called while a thread waits for an answer."""
        with self._sender(timeout, parameters if method not in _QUICK_METHODS else None):
            self._name_arrays(f, out, parameters, self._operand)
            if out is None and f is not None:
                out = self._pooled(method, f, parameters)
                if out is not None:
                    parameters["out"] = _each(out, lambda memory: {"region": memory.region()})
            if progress:
                parameters["progress"] = True
            memories = _pool_memories(out)
            for memory in memories:
                memory.busy = True
            try:
                return self._send(method, parameters, out, progress)
            except Error:
                for memory in memories:
                    memory.busy = False
                raise

    def run(self, method, f=None, out=None, progress=None, timeout=None, **parameters):
        """submit() a job, and wait for its result."""
        return self.submit(method, f, out, progress, timeout, **parameters).result()

    def dry_run(self, method, f, out=None, timeout=None, **parameters):
        """The cost of a job, without running it: a dict of "bytes", "seconds" and "device", for diffusion also
        "dt" and "dt_max". Only the shapes and types of arrays are sent."""
        with self._sender(timeout, parameters):
            self._name_arrays(f, out, parameters, self._described)
            job = self._send(method, parameters | {"dry_run": True})
        return job.result()

    def chain(self, *ops, out=None, timeout=None, **parameters):
        """Run several operators, each made by op(), in one request, and return its result. `out` of an operator
        is a name for its result, which later operators take as `f`, or a Field. `out` of the chain is "field",
        or a dict from names to "inline" or "field".

            client.chain(fdclient.op("gradient", f, out="g"), fdclient.op("divergence", "g"))

        With dry_run=True it returns the cost, as dry_run() does, with that of each of its "ops".
        """
        if len(ops) == 1 and isinstance(ops[0], (list, tuple)):
            ops = ops[0]
        for each in ops:
            if not isinstance(each, dict):
                raise _invalid(f"must be operators, each made by fdclient.op(); got {_kind(each)}", "ops")
        with self._sender(timeout, parameters):
            read = self._described if parameters.get("dry_run") else self._operand
            parameters["ops"] = [{name: _each_array(value, read if name in ("f", *_OPERANDS) else self._operand, name)
                                  for name, value in each.items()} for each in ops]
            if out is not None:
                parameters["out"] = out
            job = self._send("chain", parameters)
        return job.result()

    def call(self, method, timeout=None, **parameters):
        """Call a method without arrays, such as info, stats or list, and return its result."""
        with self._sender(timeout, parameters if method not in _QUICK_METHODS else None):
            job = self._send(method, parameters)
        return job.result()

    def fields(self):
        """All your resident fields, as the dicts of the method `list`."""
        fields, page = [], [None]
        while page:
            page = self.call("list", after=fields[-1]["field"] if fields else 0, limit=4096)["fields"]
            fields += page
        return fields

    def put(self, f, **parameters):
        """Copy an array to the device, and return its Field."""
        f = _array(f)
        field = _in_answer(self.run("put", f, **parameters), "field")
        self._fields[field] = made = Field(self, field, f.shape, f.dtype, True)
        return made

    # --- arrays

    def _region(self, memory):
        """The memory's id here; None: the server does not take it, or not now."""
        region, then = self._regions.get(memory, (None, 0))
        if region or time.monotonic() < then:
            return region
        self._regions[memory] = None, math.inf  # until it is answered: who waits may come here again
        try:
            job = self._send("register", {"bytes": len(memory)}, descriptor=memory.descriptor)
            region = _in_answer(job.result(), "region")
        except Error as error:
            if error.code in ("CONNECTION", "TIMEOUT"):
                raise
            self._regions[memory] = None, _retry_at(error)
            return None
        gone = self._gone  # no finalizer, which would outlive the client: the memory may stay much longer
        self._regions[memory] = region, weakref.ref(memory, lambda _: gone.append(("unregister", {"region": region})))
        return region

    def _named(self, array):
        """Where the server sees it; None: nowhere."""
        found = _memory_of(array)
        region = found and self._region(found[0])
        return {"region": region, "offset": found[1], "shape": array.shape, "type": array.dtype.str} if region else None

    def _operand(self, f, name="f"):
        if _is_field(f):
            return {"field": _field_id(f)}
        f = _array(f, name)
        return self._named(f) or numpy.ascontiguousarray(f)

    @staticmethod
    def _described(f, name="f"):
        if _is_field(f):
            return {"field": _field_id(f)}
        f = _array(f, name)
        return {"nd": True, "type": f.dtype.str, "shape": f.shape}

    def _place(self, out):
        """Where the server is to write; None: it is to send, and the array is filled here."""
        if _is_field(out):
            return {"field": _field_id(out)}
        if not isinstance(out, numpy.ndarray):
            raise _invalid(f'must be an array, a Field, "field", or a map of them by axis; got {_kind(out)}', "out")
        if not out.flags.writeable or isinstance(out, numpy.ma.MaskedArray) or \
                out.dtype.kind != "f" or out.dtype.itemsize not in (4, 8):
            raise _invalid("must be an array of float32 or float64 that can be written and has no mask; got "
                           f"{_kind(out)}: leave out= away, or give it fdclient.empty(shape, dtype)", "out")
        return self._named(out)

    def _name_arrays(self, f, out, parameters, call):
        """Add f, what is read beside it, each by call(), and where the result is to go, unless it is sent."""
        if f is not None:
            parameters["f"] = _each(f, call)
        for name in _OPERANDS:
            if name in parameters:
                parameters[name] = _each_array(parameters[name], call, name)
        places = out if isinstance(out, str) or out is None else _each(out, self._place)
        if all(place is not None for place in _values(places)):
            parameters["out"] = places
        elif any(map(_is_field, _values(out))):
            raise _invalid("with a Field, each must be a Field", "out")

    def _pooled(self, method, f, parameters):
        """Memory of the pool for each array that the job gives; None: they are to be sent."""
        arrays = [each for each in _values(f) if isinstance(each, numpy.ndarray)]
        axes = _result_axes(method, f, arrays[0].ndim, parameters.get("batch")) if arrays else None
        if axes is None or arrays[0].nbytes < _POOL_ARRAY_BYTES:
            return None
        memories = self._pool.find(max(len(axes), 1), arrays[0].nbytes)
        return (dict(zip(axes, memories)) if axes else memories[0]) if memories else None

    # --- messages

    @contextlib.contextmanager
    def _sender(self, timeout, parameters=None):
        """with it one thread at a time prepares a request and sends it. `parameters` of a job tell the server
        of the timeout, too, which then has a little longer to say that it is over."""
        timeout = self._timeout if timeout is None else timeout
        if timeout is not None:
            if not (isinstance(timeout, (int, float)) and 0 < timeout <= _TIMEOUT_S):
                raise _invalid(f"timeout is a number of seconds above 0, up to {_TIMEOUT_S:g}; got {timeout!r}",
                               "timeout")
            if parameters is not None:
                parameters["timeout"] = math.ceil(timeout * 1e6)
                timeout += _GRACE_S
        deadline = None if timeout is None else time.monotonic() + timeout
        self._look_whether_within()
        if not self._sending.acquire(timeout=-1 if timeout is None else timeout):
            raise Error("TIMEOUT", "another thread's request is still being sent", None, True)
        before, self._deadline = self._deadline, deadline
        try:
            while self._gone:
                self._tell(*self._gone.popleft())
            yield
        finally:
            self._deadline = before
            self._sending.release()

    def _send(self, method, parameters, out=None, progress=None, descriptor=None):
        with self._sending:
            self._look_whether_broken()
            self._look_whether_within()
            self._last += 1
            pieces = [bytearray()]
            try:
                _pack([0, self._last, method, [parameters]], pieces, self._packer)
            except (TypeError, ValueError, OverflowError) as error:  # of a set, an object, an integer of 65 bits
                raise _invalid(f"a parameter cannot be sent: {error}", None) from None
            out = Export if method == "export" else out  # whoever asks, a descriptor comes
            job = Job(self, self._last, out, progress, self._deadline, _written(parameters))
            self._jobs[self._last] = job
            try:
                self._writing = threading.get_ident()
                for piece in pieces:
                    self._write(memoryview(piece), descriptor)
                    descriptor = None
                self._look_whether_broken()
            except BaseException as failure:  # the rest of a message cannot follow later
                self._break(str(failure) or "a request was interrupted while it was sent")
                raise
            finally:
                self._writing = None
            return job

    def _look_whether_within(self):
        """Is it a signal handler or __del__, which its own thread would wait for, and it for its thread?"""
        if threading.get_ident() in (self._writing, self._reading):
            raise _invalid("a signal handler or __del__ cannot use the client while its thread sends or waits", None)

    def _look_whether_broken(self):
        if self._broken:
            raise Error("CONNECTION", self._broken, None, True)

    def _tell(self, method, parameters, descriptor=None):
        """The same, and nobody waits for the answer."""
        job = self._send(method, parameters, descriptor=descriptor)
        job._client = None  # a client must not keep itself
        return job

    def _write(self, data, descriptor):
        """Send all of it; what comes meanwhile is taken, so that neither waits for the other."""
        while len(data):
            self._look_whether_broken()
            rights = [] if descriptor is None else [
                (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
            try:
                sent = self._socket.sendmsg([data], rights, socket.MSG_NOSIGNAL)
                data, descriptor = data[sent:], None
            except BlockingIOError:
                ready = self._read(select.POLLIN | select.POLLOUT, self._deadline)
                if ready is None:  # another thread reads, for as long as it waits itself
                    self._poll(select.POLLOUT, time.monotonic() + _YIELD_S)
                if ready == 0 or self._deadline is not None and time.monotonic() > self._deadline:
                    raise Error("TIMEOUT", "the server takes no more bytes of a request", None, True) from None
            except OSError as error:
                if rights and error.errno in (errno.EPERM, errno.ETOOMANYREFS):
                    descriptor = None  # none goes through: the server refuses the region
                    continue
                raise Error("CONNECTION", error.strerror, None, True) from None

    def _poll(self, events, deadline):
        """Until there is one of them; which there are, 0: the time is over."""
        poll = select.poll()
        poll.register(self._socket, events)
        left_ms = None if deadline is None else max(0, math.ceil((deadline - time.monotonic()) * 1e3))
        ready = poll.poll(left_ms)
        return ready[0][1] if ready else 0

    def _read(self, events, deadline):
        """Wait for one of the events, and take what has come. None: another thread is at it."""
        mine, own = False, threading.get_ident()
        try:
            with self._lock:
                if self._reading:
                    return None
                if self._broken:  # and the socket may be closed; all jobs have ended
                    return events
                self._reading, mine = own, True
            ready = self._poll(events, deadline)
            if ready & ~select.POLLOUT:
                self._receive()
            return ready
        finally:
            if mine:
                self._wake(stop_reading=True)

    def _wake(self, stop_reading=False):
        with self._lock:
            self._reading = None if stop_reading else self._reading
            if self._waiting:
                self._turn.notify_all()

    def _await_turn(self, done, deadline):
        """Until no thread reads, or done()."""
        with self._lock:
            self._waiting += 1
            try:
                left = None if deadline is None else deadline - time.monotonic()
                self._turn.wait_for(lambda: done() or not self._reading, left)
            finally:
                self._waiting -= 1

    def _until(self, done, deadline):
        """Take what comes until done(); False: the deadline came first."""
        while not done():
            if deadline != 0:
                self._look_whether_within()
            ready = self._read(select.POLLIN, deadline)
            if ready is None:
                self._await_turn(done, deadline)
                ready = deadline is None or time.monotonic() < deadline
            while self._calls:
                try:
                    call, *numbers = self._calls.popleft()
                except IndexError:  # another thread took it
                    break
                call(*numbers)
            if not ready:
                return bool(done())
        return True

    def _receive(self):
        """Take what has come."""
        try:
            received, beside, flags, _ = self._socket.recvmsg(1 << 20, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
            for _, _, content in beside:
                self._descriptors.append(io.FileIO(*array.array("i", content[:4]), "r+"))
            if flags & socket.MSG_CTRUNC and not beside:  # there is no number for it
                self._descriptors.append(None)
            if not received:
                self._break("the server closed the connection")
            self._unpacker.feed(received)
            for message in self._unpacker:
                if message[0] == 2:
                    self._notify(message[1], message[2][0])
                else:
                    self._answer(*message[1:])
        except BlockingIOError:
            pass
        except OSError as error:
            self._break(error.strerror)
        except Exception as error:
            self._break(f"the server's bytes cannot be followed: {error!r}")
        except BaseException:
            self._break("it was interrupted while a message was read")
            raise

    def _notify(self, what, about):
        job = self._jobs.get(about.get("msgid"))
        if what == "progress" and job and job._progress:
            self._calls.append((job._progress, about["done"], about["total"]))
        elif what == "snapshot" and job:
            job._snapshots.append((about["step"], about["time"], self._output(about["out"], None)))

    def _answer(self, msgid, error, result):
        job = self._jobs.pop(msgid, None)
        if not job:
            return  # it goes to none of ours: the server has lost track of what we send, and will close
        try:
            if error:
                raise _error_of(error)
            if job._out is Export:
                result = result, self._descriptors.popleft()
            else:
                job.report, job.dt = result.get("report"), result.get("dt")
            if "probes" in result:
                job.probes = self._output(result["probes"], None)
            if "out" in result and job._out is not Export:
                result = self._outputs(result["out"], job._out, job._written)
            job._result = result
        except Error as failure:
            job._error = failure
        except Exception as failure:
            job._error = Error("CONNECTION", f"the server's reply makes no sense: {failure!r}")
        for memory in _pool_memories(job._out):
            memory.busy = False
            memory.spent = getattr(job._error, "code", None) in _SPENT
        job._out, job._done = None, True

    def _outputs(self, reply, out, written=()):
        """The same of an array, or of a map of them by axis or name."""
        if not reply or not all(isinstance(item, dict) for item in reply.values()):
            return self._output(reply, out, written)
        return {key: self._outputs(item, out.get(key) if isinstance(out, dict) else out, written)
                for key, item in reply.items()}

    def _output(self, reply, out, written=()):
        """What came in the place of `out`."""
        if "region" in reply:
            if not isinstance(out, _PoolMemory):
                return out
            if (reply["region"], reply["offset"]) != (out.region(), 0):
                raise ValueError("a place in a region that was not asked for")
            return numpy.ndarray(reply["shape"], _dtype(reply["type"]), out).copy()
        if "field" in reply:
            field = out if isinstance(out, Field) else self._fields.get(reply["field"])
            if not field:
                owned = reply["field"] not in written
                field = Field(self, reply["field"], reply["shape"], reply["type"], owned)
                self._fields[field.id] = field
            return field
        data = reply[b"data"]
        data = b"".join(data) if isinstance(data, list) else data
        result = numpy.frombuffer(data, _dtype(reply[b"type"])).reshape(reply[b"shape"])
        if not isinstance(out, numpy.ndarray):
            return result.copy()
        if out.shape != result.shape:
            raise _invalid(f"the result has the shape {result.shape}, and out has {out.shape}", "out")
        out[...] = result
        return out

    def _break(self, reason):
        """Nothing more will come. The first reason holds."""
        self._broken = self._broken or reason
        for job in list(self._jobs.values()):
            job._error, job._done = Error("CONNECTION", self._broken, None, True), True
        self._jobs.clear()
        self._wake()


def _say_last(connection, gone, process):
    """A client goes without close(): free what went before it. Not in a child that has forked."""
    with contextlib.suppress(OSError):
        if process == os.getpid():
            requests = [msgpack.packb([0, 0, method, [parameters]]) for method, parameters in gone]
            connection.send(b"".join(requests), socket.MSG_NOSIGNAL)


def _default_path():
    system = "/run/fdserver/fdserver.sock"
    own = os.path.join(os.environ.get("XDG_RUNTIME_DIR", ""), "fdserver.sock")
    return own if not os.path.exists(system) and os.path.exists(own) else system


def _is_vector(value):
    return isinstance(value, dict) and any(axis in value for axis in "xyz")


_QUICK_METHODS = ("cancel", "free", "info", "list", "ping", "register", "stats", "unregister")  # no jobs
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


def _each(value, call):
    """call(value), or of a vector field the same of each component."""
    return {axis: call(component) for axis, component in value.items()} if _is_vector(value) else call(value)


def _each_array(value, call, name):
    """call(value, name) of an array or a Field, wherever it stands in maps."""
    if isinstance(value, dict):
        return {key: _each_array(item, call, name) for key, item in value.items()}
    if isinstance(value, numpy.ndarray) and value.ndim == 0:
        return value.item()
    return call(value, name) if isinstance(value, (numpy.ndarray, Field)) else value


def _kind(value):
    """What it is, for errors."""
    kind = type(value).__name__
    return f"{kind} of {value.dtype}" if isinstance(value, numpy.ndarray) else kind


def _array(value, name="f"):
    """As an array to be sent. Refused: what has no numbers, or would lose some."""
    if type(value) is numpy.ndarray and value.dtype.kind == "f":
        return value
    if isinstance(value, numpy.ma.MaskedArray):
        raise _invalid("a masked array would lose its mask: fill it first, as f.filled(numpy.nan)", name)
    with contextlib.suppress(ValueError):  # of lists of different lengths
        array = numpy.asarray(value)
        if array.dtype.kind in "fiubc":
            return array
    raise _invalid(f"must be an array of numbers, a Field, or a map of them by axis; got {_kind(value)}", name)


def _is_field(value):
    return isinstance(value, Field) or isinstance(value, dict) and "field" in value


def _field_id(value):
    return value.id if isinstance(value, Field) else value["field"]


def _written(parameters):
    """Ids of the fields that a request names as `out`: what answers with them has not made them."""
    if not isinstance(parameters.get("out"), dict) and "ops" not in parameters:
        return ()
    places = [parameters.get("out"), *(each.get("out") for each in parameters.get("ops", ()))]
    return [_field_id(place) for out in places for place in _values(out) if _is_field(place)]


def _dtype(name):
    if name not in ("<f4", "<f8"):
        raise ValueError(f"an array of type {name!r}")
    return numpy.dtype(name)


def _pack(value, pieces, packer):
    """Pack behind the last piece; an array's bytes are pieces of their own and not copied."""
    if isinstance(value, dict):
        pieces[-1] += packer.pack_map_header(len(value))
        for key, item in value.items():
            pieces[-1] += packer.pack(key)
            _pack(item, pieces, packer)
    elif isinstance(value, (list, tuple)):
        pieces[-1] += packer.pack_array_header(len(value))
        for item in value:
            _pack(item, pieces, packer)
    elif isinstance(value, numpy.ndarray):
        _pack_array(value, pieces, packer)
    elif isinstance(value, Field):
        _pack({"field": value.id}, pieces, packer)
    else:
        pieces[-1] += packer.pack(value.item() if isinstance(value, numpy.generic) else value)


def _pack_array(value, pieces, packer):
    pieces[-1] += packer.pack_map_header(5)
    for item in (b"nd", True, b"type", value.dtype.str, b"kind", b"", b"shape", list(value.shape), b"data"):
        pieces[-1] += packer.pack(item)
    data = memoryview(numpy.ascontiguousarray(value).reshape(-1)).cast("B")
    bins = [data]
    if len(data) >= 1 << 32:
        bins = [data[at:at + _BIN_BYTES] for at in range(0, len(data), _BIN_BYTES)]
        pieces[-1] += packer.pack_array_header(len(bins))
    for part in bins:
        pieces[-1] += b"\xc6" + len(part).to_bytes(4, "big")
        pieces += [part, bytearray()]

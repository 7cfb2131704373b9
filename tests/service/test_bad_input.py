"""Every bad input gets a clear error or a closed connection, and leaves no resources in use."""

import socket
import struct
import time

import msgpack
import msgpack_numpy
import numpy
import pytest
from hypothesis import HealthCheck, given, settings, strategies

from fdtest import (Client, FdError, MiB, array_header, assert_serves, bin_header, lingering_socket, memory_bytes,
                    request_bytes, sanitized, upload_begin, wave)

OPTIONS = ("--staging-bytes", 16 * MiB, "--upload-timeout-s", 2, "--max-work", 10**9)

pytestmark = pytest.mark.usefixtures("unchanged")

NAN, INF = float("nan"), float("inf")
F = wave(32, 32)


def refused(client, method, **params):
    """The error of a request that must fail; the connection must remain usable."""
    with pytest.raises(FdError) as failure:
        client.call(method, **params)
    assert client.call("ping") == {}
    assert not failure.value.retryable
    assert failure.value.message
    return failure.value


def raw_array(**changes):
    """An ARRAY with some of its five keys changed; None leaves a key out."""
    array = {b"nd": True, b"type": "<f4", b"kind": b"", b"shape": [4, 8], b"data": bytes(128)}
    array.update({key.encode(): value for key, value in changes.items()})
    return {key: value for key, value in array.items() if value is not None}


# (code, parameter, method, parameters)
CASES = {
    "unknown method": ("UNKNOWN_METHOD", None, "derivate", {"f": F}),
    "a method of 4 KiB": ("UNKNOWN_METHOD", None, "d" * 4000, {"f": F}),
    "unknown parameter": ("INVALID_ARGUMENT", "acuracy", "derivative", {"f": F, "axis": "x", "acuracy": 8}),
    "another method's parameter": ("INVALID_ARGUMENT", "steps", "laplacian", {"f": F, "steps": 3}),
    "parameter of a method without": ("INVALID_ARGUMENT", "f", "ping", {"f": 1}),
    "no array": ("INVALID_ARGUMENT", "f", "laplacian", {}),
    "an array that is a number": ("INVALID_ARGUMENT", "f", "laplacian", {"f": 7}),
    "an array that is a list": ("INVALID_ARGUMENT", "f", "laplacian", {"f": [1.0, 2.0]}),
    "int32": ("UNSUPPORTED", "f", "laplacian", {"f": numpy.zeros(8, "<i4")}),
    "float16": ("UNSUPPORTED", "f", "laplacian", {"f": numpy.zeros(8, "<f2")}),
    "big-endian": ("UNSUPPORTED", "f", "laplacian", {"f": numpy.zeros(8, ">f8")}),
    "complex": ("UNSUPPORTED", "f", "laplacian", {"f": numpy.zeros(8, "<c16")}),
    "a dtype that is none": (None, "f", "laplacian", {"f": raw_array(type="bogus")}),
    "a dtype that is a number": (None, "f", "laplacian", {"f": raw_array(type=4)}),
    "a pickle": (None, "f", "laplacian", {"f": raw_array(kind=b"O", data=b"cos\nsystem\n.")}),
    "no dtype": ("INVALID_ARGUMENT", "f", "laplacian", {"f": raw_array(type=None)}),
    "no shape": ("INVALID_ARGUMENT", "f", "laplacian", {"f": raw_array(shape=None)}),
    "no data": ("INVALID_ARGUMENT", "f", "laplacian", {"f": raw_array(data=None)}),
    "a key too many": ("INVALID_ARGUMENT", "f", "laplacian", {"f": raw_array(strides=[1])}),
    "a shape that overflows 64 bits": (None, "f", "laplacian", {"f": raw_array(shape=[2**32, 2**32, 4])}),
    "a shape that overflows to fit": (None, "f", "laplacian",
                                      {"f": raw_array(shape=[2**62, 4, 2**32], data=b"")}),
    "a shape of 2^63": (None, "f", "laplacian", {"f": raw_array(shape=[2**63])}),
    "a negative shape": ("INVALID_ARGUMENT", "f", "laplacian", {"f": raw_array(shape=[-4, -8])}),
    "a shape of zero points": ("INVALID_ARGUMENT", "f", "laplacian", {"f": raw_array(shape=[0, 8], data=b"")}),
    "an empty shape": ("INVALID_ARGUMENT", "f", "laplacian", {"f": raw_array(shape=[], data=bytes(4))}),
    "a shape of floats": ("INVALID_ARGUMENT", "f", "laplacian", {"f": raw_array(shape=[4.5, 8.0])}),
    "nine dimensions": (None, "f", "laplacian", {"f": raw_array(shape=[1] * 8 + [32])}),
    "too few bytes": ("INVALID_ARGUMENT", "f", "laplacian", {"f": raw_array(data=bytes(127))}),
    "too many bytes": ("INVALID_ARGUMENT", "f", "laplacian", {"f": raw_array(data=bytes(129))}),
    "too few bytes, large": ("INVALID_ARGUMENT", "f", "laplacian",
                             {"f": raw_array(shape=[1024, 1024], data=bytes(4 * MiB - 1))}),
    "too many bytes, large": ("INVALID_ARGUMENT", "f", "laplacian",
                              {"f": raw_array(shape=[1024, 1024], data=bytes(4 * MiB + 1))}),
    "far too many bytes": ("INVALID_ARGUMENT", "f", "laplacian", {"f": raw_array(data=bytes(20 * MiB))}),
    "a list of bins, too few": ("INVALID_ARGUMENT", "f", "laplacian",
                                {"f": raw_array(shape=[4096], data=[bytes(8192), bytes(8191)])}),
    "a list of bins, too many": ("INVALID_ARGUMENT", "f", "laplacian",
                                 {"f": raw_array(shape=[4096], data=[bytes(8192), bytes(8193)])}),
    "a large string where no array is": (None, None, "laplacian", {"f": F, "spacing": "x" * 8192}),
    "spacing NaN": ("INVALID_ARGUMENT", "spacing", "laplacian", {"f": F, "spacing": NAN}),
    "spacing infinite": ("INVALID_ARGUMENT", "spacing", "laplacian", {"f": F, "spacing": INF}),
    "spacing zero": ("INVALID_ARGUMENT", "spacing", "laplacian", {"f": F, "spacing": 0}),
    "spacing negative": ("INVALID_ARGUMENT", "spacing", "laplacian", {"f": F, "spacing": -0.5}),
    "spacing of one axis": ("INVALID_ARGUMENT", "spacing", "laplacian", {"f": F, "spacing": {"x": 1, "y": 0}}),
    "spacing of no axis": ("INVALID_ARGUMENT", "spacing", "laplacian", {"f": F, "spacing": {"t": 1}}),
    "spacing of an absent axis": ("INVALID_ARGUMENT", "spacing", "laplacian", {"f": F, "spacing": {"z": 1}}),
    "too many spacings": ("INVALID_ARGUMENT", "spacing", "laplacian", {"f": F, "spacing": [1, 1, 1]}),
    "spacing text": ("INVALID_ARGUMENT", "spacing", "laplacian", {"f": F, "spacing": "1"}),
    "no axis": ("INVALID_ARGUMENT", "axis", "derivative", {"f": F}),
    "axis out of range": ("INVALID_ARGUMENT", "axis", "derivative", {"f": F, "axis": 2}),
    "axis far out of range": ("INVALID_ARGUMENT", "axis", "derivative", {"f": F, "axis": 2**63}),
    "axis below range": ("INVALID_ARGUMENT", "axis", "derivative", {"f": F, "axis": -3}),
    "axis z in 2D": ("INVALID_ARGUMENT", "axis", "derivative", {"f": F, "axis": "z"}),
    "axis w": ("INVALID_ARGUMENT", "axis", "derivative", {"f": F, "axis": "w"}),
    "accuracy 5": ("INVALID_ARGUMENT", "accuracy", "laplacian", {"f": F, "accuracy": 5}),
    "accuracy 2^40": ("INVALID_ARGUMENT", "accuracy", "laplacian", {"f": F, "accuracy": 2**40}),
    "accuracy 8.5": ("INVALID_ARGUMENT", "accuracy", "laplacian", {"f": F, "accuracy": 8.5}),
    "order 8": ("INVALID_ARGUMENT", "order", "derivative", {"f": F, "axis": "x", "order": 8}),
    "order 0": ("INVALID_ARGUMENT", "order", "derivative", {"f": F, "axis": "x", "order": 0}),
    "boundary unheard of": ("INVALID_ARGUMENT", "boundary", "laplacian", {"f": F, "boundary": "magic"}),
    "boundary ambiguous": (None, "boundary", "laplacian", {"f": F, "boundary": "reflect"}),
    "boundary of no side": ("INVALID_ARGUMENT", "boundary", "laplacian", {"f": F, "boundary": {"w-": "periodic"}}),
    "one-sided diffusion": (None, "boundary", "diffusion", {"f": F, "cfl": 0.5, "boundary": "one-sided"}),
    "an axis too short to look inwards": ("INVALID_ARGUMENT", None, "derivative",
                                          {"f": wave(8, 4), "axis": "x", "boundary": "one-sided"}),
    "a NaN on the boundary": ("INVALID_ARGUMENT", "boundary", "diffusion",
                              {"f": F, "cfl": 0.5, "boundary": {"value": NAN}}),
    "batch over the dimensions": ("INVALID_ARGUMENT", "batch", "laplacian", {"f": F, "batch": 2}),
    "endpoint text": ("INVALID_ARGUMENT", "endpoint", "laplacian", {"f": F, "endpoint": "yes"}),
    "no dt": ("INVALID_ARGUMENT", "dt", "diffusion", {"f": F, "steps": 3}),
    "dt and cfl": ("INVALID_ARGUMENT", "dt", "diffusion", {"f": F, "dt": 0.1, "cfl": 0.1}),
    "dt NaN": ("INVALID_ARGUMENT", "dt", "diffusion", {"f": F, "dt": NAN}),
    "dt negative": ("INVALID_ARGUMENT", "dt", "diffusion", {"f": F, "dt": -0.1}),
    "dt too large": ("UNSTABLE", "dt", "diffusion", {"f": F, "dt": 10.0}),
    "cfl too large": ("UNSTABLE", "cfl", "diffusion", {"f": F, "cfl": 1.5}),
    "diffusivity NaN": ("INVALID_ARGUMENT", "diffusivity", "diffusion", {"f": F, "dt": 0.1, "diffusivity": NAN}),
    "diffusivity negative": ("INVALID_ARGUMENT", "diffusivity", "diffusion",
                             {"f": F, "dt": 0.1, "diffusivity": -1.0}),
    "steps 0": ("INVALID_ARGUMENT", "steps", "diffusion", {"f": F, "steps": 0, "dt": 0.1}),
    "steps -1": ("INVALID_ARGUMENT", "steps", "diffusion", {"f": F, "steps": -1, "dt": 0.1}),
    "steps 2^62": ("TOO_LARGE", "steps", "diffusion", {"f": F, "steps": 2**62, "dt": 0.1}),
    "steps 2^64-1": ("TOO_LARGE", "steps", "diffusion", {"f": F, "steps": 2**64 - 1, "dt": 0.1}),
    "steps over the work": ("TOO_LARGE", "steps", "diffusion", {"f": F, "steps": 10**6, "dt": 0.1}),
    "out unheard of": ("INVALID_ARGUMENT", "out", "laplacian", {"f": F, "out": "file"}),
    "a field by name": ("INVALID_ARGUMENT", None, "get", {"field": "mine"}),
    "a negative field": ("INVALID_ARGUMENT", None, "get", {"field": -1}),
    "a field and bytes at once": ("INVALID_ARGUMENT", None, "laplacian", {"f": {**raw_array(), "field": 1}}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_request(client, name):
    code, parameter, method, params = CASES[name]
    error = refused(client, method, **params)
    if code:
        assert error.code == code
    else:
        assert error.code in ("INVALID_ARGUMENT", "UNSUPPORTED", "TOO_LARGE")
    if parameter:
        # "spacing y": the parameter, and the key inside it.
        assert error.parameter.split()[0] == parameter
    if error.code in ("TOO_LARGE", "UNSTABLE") and parameter in ("steps", "dt", "cfl"):
        assert error.need > error.limit > 0
    assert_serves(client)


def test_an_error_names_what_it_is_about(client):
    error = refused(client, "derivative", f=F, axis="x", accuracy=5)
    assert "2, 4, 6" in error.message and "5" in error.message
    assert "accuracy" in refused(client, "derivative", f=F, axis="x", order=8).message
    assert "derivate" in refused(client, "derivate", f=F).message


def not_a_request(daemon, data):
    """Send bytes that are not a request: possibly an error, then the end of the stream; other clients are served."""
    client = daemon.client()
    try:
        client.send_bytes(data)
        client.socket.shutdown(socket.SHUT_WR)
    except (BrokenPipeError, ConnectionResetError, OSError):
        pass
    messages = client.closed_by_server()
    for message in messages:
        assert message[0] == 1 and message[2]["code"] in ("PROTOCOL", "INVALID_ARGUMENT", "TOO_LARGE",
                                                           "UNKNOWN_METHOD", "UNSUPPORTED")
    with Client(daemon.path) as other:
        assert_serves(other)
    return messages


def nest(kind, depth):
    """Containers inside each other, each with all the elements that its header can count."""
    return kind * depth


BOMBS = {
    "five bytes, 2^32-1 elements": b"\xdd\xff\xff\xff\xff",
    "five bytes, 2^32-1 pairs": b"\xdf\xff\xff\xff\xff",
    "a nest of 155 bytes": nest(b"\xdd\xff\xff\xff\xff", 31),
    "a nest in a request": b"\x94\x00\x01\xa4ping\x91" + nest(b"\xdd\x0f\xff\xff\xff", 28),
    "depth 100,000": b"\x91" * 100_000,
    "a map a million deep": b"\x81" * 1_000_000,
    "many small elements": b"\x94\x00\x01\xa4ping\x91\xdc\xff\xff" + bytes(65535),
    "a string of 4 GiB announced": b"\x94\x00\x01\xdb\xff\xff\xff\xff",
    "a bin of 4 GiB announced": b"\x94\x00\x01\xc6\xff\xff\xff\xff",
    "an ext": b"\x94\x00\x01\xa4ping\x91\x81\xa1x\xd7\x46" + bytes(8),
    "a huge ext": b"\x94\x00\x01\xa4ping\x91\x81\xa1x\xc9\xff\xff\xff\xff\x46",
    "the byte that is never used": b"\xc1" * 100,
    "text": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "zeroes": bytes(100_000),
    "ones": b"\xff" * 100_000,
    "not an array": msgpack.packb({"method": "ping"}),
    "an empty array": b"\x90",
    "too short": msgpack.packb([0, 1, "ping"]),
    "too long": msgpack.packb([0, 1, "ping", [{}], 0]),
    "a reply": msgpack.packb([1, 1, None, {}]),
    "type 3": msgpack.packb([3, 1, "ping", [{}]]),
    "a msgid below zero": msgpack.packb([0, -1, "ping", [{}]]),
    "a msgid that is text": msgpack.packb([0, "1", "ping", [{}]]),
    "a method that is a number": msgpack.packb([0, 1, 2, [{}]]),
    "no map": msgpack.packb([0, 1, "laplacian", []]),
    "two maps": msgpack.packb([0, 1, "ping", [{}, {}]]),
    "positional": msgpack.packb([0, 1, "laplacian", [1, 2, 3]]),
    "a number as a key": msgpack.packb([0, 1, "ping", [{1: 2}]]),
    "control bytes without end": b"\x94\x00\x01\xa4ping\x91\xdc\x0f\xff" + (b"\xd9\xff" + b"x" * 255) * 400,
}


@pytest.mark.parametrize("name", BOMBS)
def test_bytes_that_are_no_request(daemon, name):
    before = memory_bytes(daemon.pid, "VmRSS")
    not_a_request(daemon, BOMBS[name])
    assert memory_bytes(daemon.pid, "VmRSS") - before < (64 if sanitized() else 8) * MiB


def test_the_bombs_get_an_answer_too(daemon):
    """If the msgid has arrived, the error names the request."""
    messages = not_a_request(daemon, BOMBS["a nest in a request"])
    assert [message[1] for message in messages] == [1]


def test_a_request_cut_anywhere(daemon):
    whole = request_bytes(1, "derivative", {"f": wave(64, 32), "axis": "x"})
    for length in list(range(0, 140, 7)) + [len(whole) - 1]:
        with Client(daemon.path) as client:
            client.send_bytes(whole[:length])
            client.socket.shutdown(socket.SHUT_WR)
            for message in client.closed_by_server():
                assert message[2]["code"] == "PROTOCOL"
    with Client(daemon.path) as client:
        assert_serves(client)


def test_what_follows_a_wrong_request_in_the_same_write(client):
    """One request fails; those before and after it are answered."""
    requests = [request_bytes(0, "ping", {}), request_bytes(1, "nothing", {"f": wave(64, 64, 64)}),
                request_bytes(2, "laplacian", {"f": raw_array(data=bytes(100_000))}),
                request_bytes(3, "laplacian", {"f": F, "accuracy": 3}), request_bytes(4, "ping", {})]
    client.send_bytes(b"".join(requests))
    codes = {}
    for _ in requests:
        msgid, error, _ = client.recv_any()
        codes[msgid] = error and error.code
    assert codes == {0: None, 1: "UNKNOWN_METHOD", 2: "INVALID_ARGUMENT", 3: "INVALID_ARGUMENT", 4: None}


def test_an_array_of_petabytes_that_never_comes(daemon):
    """The header alone must not allocate what it announces."""
    client = daemon.client()
    header = array_header("<f4", [1 << 16, 1 << 16], bin_header(2**32 - 1))
    client.send_bytes(b"\x94\x00\x05\xa9laplacian\x91\x81\xa1f" + header)
    client.send_bytes(bytes(MiB))
    client.close()
    with Client(daemon.path) as other:
        assert_serves(other)


def test_a_second_array_in_place_of_a_number(client):
    error = refused(client, "laplacian", f=F, spacing=wave(4096))
    assert error.parameter.split()[0] == "spacing"


def test_the_same_parameter_twice(client):
    pair = msgpack.packb("accuracy") + msgpack.packb(8)
    f = msgpack.packb("f") + msgpack.packb(F, default=msgpack_numpy.encode)
    client.send_bytes(b"\x94\x00\x07" + msgpack.packb("laplacian") + b"\x91\x83" + f + pair + pair)
    with pytest.raises(FdError) as failure:
        client.recv(7)
    assert failure.value.code == "INVALID_ARGUMENT" and failure.value.parameter == "accuracy"


def test_descriptors_that_nobody_asked_for(daemon):
    """They are closed, and their request is refused; `unchanged` counts them."""
    for count in (1, 2, 10, 253):
        with Client(daemon.path) as client, open("/dev/null", "rb") as null:
            socket.send_fds(client.socket, [request_bytes(0, "ping", {})], [null.fileno()] * count)
            assert client.outcome(0)[0].code == "PROTOCOL"
            assert client.call("ping") == {}


def test_a_descriptor_whose_close_waits(daemon):
    """The last close of a lingering socket waits, but no other user does."""
    for read_by_server in (True, False):
        with lingering_socket(6) as lingering, daemon.client() as client, Client(daemon.path) as other:
            first = request_bytes(0, "ping", {}) if read_by_server else b"\xc1"
            try:
                socket.send_fds(client.socket, [first], [lingering.fileno()])
                socket.send_fds(client.socket, [bytes(1000)], [lingering.fileno()])
            except OSError:
                pass  # the kernel refuses descriptors at the sender, or the server has closed
            lingering.close()
            begun = time.monotonic()
            for _ in range(20):
                assert other.call("ping") == {}
                time.sleep(0.02)
            assert time.monotonic() - begun < 5


def test_a_list_of_data_that_does_not_begin_with_a_bin(client):
    error = refused(client, "put", f=raw_array(data=[None, bytes(128)]))
    assert error.parameter == "f"


def test_an_array_after_one_that_came_up_short(daemon, client):
    """The second must not be written after the first; no field is damaged."""
    with Client(daemon.path) as other:
        field = other.put(wave(64))
        generation = daemon.info()["devices"][0]["generation"]
        short = raw_array(shape=[2048], data=[bytes(4096)])
        for more in (raw_array(shape=[1024], data=bytes(4096)), raw_array(shape=[1024], data=[None, bytes(4096)])):
            refused(client, "put", f=short, g=more)
        assert other.get(field).tobytes() == wave(64).tobytes()
        assert daemon.info()["devices"][0]["generation"] == generation
        other.free(field)


def test_a_notification_with_a_wrong_array_is_ignored(client):
    client.send_bytes(msgpack.packb([2, "hello", [{"f": raw_array(type="<i4", shape=[2048], data=bytes(8192))}]]))
    assert client.call("ping") == {}


def test_putting_what_is_resident_already(client):
    field = client.put(F)
    assert refused(client, "put", f={"field": field}).code == "UNSUPPORTED"
    assert client.get(field).tobytes() == F.tobytes()
    client.free(field)


def test_a_stall_before_the_first_header(daemon):
    """An incomplete control message without progress times out."""
    client = daemon.client()
    client.send_bytes(b"\x94\x00\x05\xa9lapl")
    client.closed_by_server()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=strategies.binary(max_size=300))
def test_random_bytes(daemon, data):
    with Client(daemon.path) as client:
        try:
            client.send_bytes(data)
            client.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        client.closed_by_server()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=strategies.integers(0, 120), byte=strategies.integers(0, 255))
def test_a_request_with_one_byte_changed(daemon, position, byte):
    request = bytearray(request_bytes(1, "derivative", {"axis": "x", "accuracy": 8, "f": wave(8, 8)}))
    request[position] = byte
    with Client(daemon.path) as client:
        try:
            client.send_bytes(bytes(request))
            client.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        client.closed_by_server()


def test_reset_instead_of_close(daemon):
    """SO_LINGER 0 and unread replies: the most abrupt disconnection."""
    for _ in range(10):
        client = daemon.client()
        client.send("derivative", f=wave(256, 256), axis="x")
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    client = daemon.client()
    client.send_bytes(upload_begin(1, "put", (512, 512)) + bytes(100_000))
    client.close()
    with Client(daemon.path) as other:
        assert_serves(other)

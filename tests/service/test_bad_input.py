"""Every bad input gets a clear error or a closed connection, and leaves no resources in use."""

import socket
import struct
import time

import msgpack
import msgpack_numpy
import pytest
from hypothesis import HealthCheck, given, settings, strategies

from fdtest import (Client, MiB, array_header, bin_header, lingering_socket, memory_bytes, request_bytes,
                    sanitized, upload_begin, wave)

OPTIONS = ("--staging-bytes", 16 * MiB, "--upload-timeout-s", 2, "--max-work", 10**9)

pytestmark = pytest.mark.usefixtures("unchanged")

NAN, INF = float("nan"), float("inf")
F = wave(32, 32)


def raw_array(**changes):
    """An ARRAY with some of its five keys changed; None leaves a key out."""
    array = {b"nd": True, b"type": "<f4", b"kind": b"", b"shape": [4, 8], b"data": bytes(128)}
    array.update({key.encode(): value for key, value in changes.items()})
    return {key: value for key, value in array.items() if value is not None}


def send_and_read_to_the_end(daemon, data):
    with Client(daemon.path) as client:
        try:
            client.send_bytes(data)
            client.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        return client.closed_by_server()


def not_a_request(daemon, data):
    """Send bytes that are not a request: possibly an error, then the end of the stream; other clients are served."""
    messages = send_and_read_to_the_end(daemon, data)
    for message in messages:
        assert message[0] == 1 and message[2]["code"] in ("PROTOCOL", "INVALID_ARGUMENT", "TOO_LARGE",
                                                           "UNKNOWN_METHOD", "UNSUPPORTED")
    daemon.assert_serves()
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
    daemon.assert_serves()


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
    daemon.assert_serves()


def test_the_same_parameter_twice(client):
    pair = msgpack.packb("accuracy") + msgpack.packb(8)
    f = msgpack.packb("f") + msgpack.packb(F, default=msgpack_numpy.encode)
    client.send_bytes(b"\x94\x00\x07" + msgpack.packb("laplacian") + b"\x91\x83" + f + pair + pair)
    assert client.error(7).what == ("INVALID_ARGUMENT", "accuracy")


def test_descriptors_that_nobody_asked_for(daemon):
    """They are closed, and their request is refused; `unchanged` counts them."""
    for count in (1, 2, 10, 253):
        with Client(daemon.path) as client, open("/dev/null", "rb") as null:
            socket.send_fds(client.socket, [request_bytes(0, "ping", {})], [null.fileno()] * count)
            assert client.error(0).code == "PROTOCOL"
            assert client.call("ping") == {}


def test_a_descriptor_whose_close_waits(daemon):
    """The last close of a lingering socket waits, but no other user does."""
    for read_by_server in (True, False):
        with lingering_socket(1000) as lingering, daemon.client() as client, Client(daemon.path) as other:
            first = request_bytes(0, "ping", {}) if read_by_server else b"\xc1"
            try:
                socket.send_fds(client.socket, [first], [lingering.fileno()])
                socket.send_fds(client.socket, [bytes(1000)], [lingering.fileno()])
            except OSError:
                pass  # the kernel refuses descriptors at the sender, or the server has closed
            lingering.close()
            for _ in range(20):
                assert other.call("ping") == {}
                time.sleep(0.02)


def test_a_list_of_data_that_does_not_begin_with_a_bin(client):
    assert client.refused("put", f=raw_array(data=[None, bytes(128)])).parameter == "f"


def test_an_array_after_one_that_came_up_short(daemon, client):
    """The second must not be written after the first; no field is damaged."""
    with Client(daemon.path) as other:
        field = other.put(wave(64))
        generation = daemon.generation()
        short = raw_array(shape=[2048], data=[bytes(4096)])
        for more in (raw_array(shape=[1024], data=bytes(4096)), raw_array(shape=[1024], data=[None, bytes(4096)])):
            client.refused("put", f=short, g=more)
        assert other.get(field).tobytes() == wave(64).tobytes()
        assert daemon.generation() == generation
        other.free(field)


def test_a_notification_with_a_wrong_array_is_ignored(client):
    client.send_bytes(msgpack.packb([2, "hello", [{"f": raw_array(type="<i4", shape=[2048], data=bytes(8192))}]]))
    assert client.call("ping") == {}


def test_putting_what_is_resident_already(client):
    field = client.put(F)
    assert client.refused("put", f={"field": field}).code == "UNSUPPORTED"
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
    send_and_read_to_the_end(daemon, data)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=strategies.integers(0, 120), byte=strategies.integers(0, 255))
def test_a_request_with_one_byte_changed(daemon, position, byte):
    request = bytearray(request_bytes(1, "derivative", {"axis": "x", "accuracy": 8, "f": wave(8, 8)}))
    request[position] = byte
    send_and_read_to_the_end(daemon, bytes(request))


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
    daemon.assert_serves()

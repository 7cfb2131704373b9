"""Arrays go in and come out as msgpack-numpy writes them, whatever their size."""

import msgpack
import msgpack_numpy
import numpy
import pytest
from hypothesis import HealthCheck, given, settings, strategies

from fdtest import (Client, Daemon, MiB, array_header, bin_header, derivative, laplacian, memory_bytes, request_bytes,
                    reset_peak_memory, sanitized, wave)


def tolerance(dtype):
    return 2e-5 if numpy.dtype(dtype).itemsize == 4 else 1e-12


def test_the_bytes_of_a_reply_are_those_of_msgpack_numpy(client):
    f = wave(3, 5, 7)
    field = client.put(f)
    msgid = client.send("get", field=field)
    expected = msgpack.packb([1, msgid, None, {"out": f}], default=msgpack_numpy.encode)
    received = b""
    while len(received) < len(expected):
        received += client.socket.recv(len(expected) - len(received))
    assert received == expected
    client.free(field)


def test_what_is_put_is_what_is_got(client):
    for shape in [(1,), (7,), (2, 3), (5, 7, 11), (2, 3, 5, 7), (1, 1, 1), (257, 129)]:
        for dtype in ("<f4", "<f8"):
            f = wave(*shape, dtype=dtype)
            field = client.put(f)
            back = client.get(field)
            assert back.dtype == f.dtype and back.shape == f.shape
            assert back.tobytes() == f.tobytes()
            client.free(field)


def test_bits_are_kept_even_of_odd_numbers(client):
    f = numpy.array([0.0, -0.0, numpy.inf, -numpy.inf, 1e-45, numpy.float32(numpy.nan)], dtype="<f4")
    field = client.put(f)
    assert client.get(field).tobytes() == f.tobytes()
    client.free(field)


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
@pytest.mark.parametrize("shape", [(64,), (31, 64), (17, 18, 19), (64, 64, 64)])
def test_derivatives_of_every_axis(client, shape, dtype):
    f = wave(*shape, dtype=dtype)
    for axis in range(len(shape)):
        for name in (axis, axis - len(shape), "zyx"[axis - len(shape)]):
            out = client.out("derivative", f=f, axis=name, spacing=0.5)
            assert out.dtype == f.dtype and out.shape == f.shape
            numpy.testing.assert_allclose(out, derivative(f, axis, spacing=0.5),
                                          atol=tolerance(dtype))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=strategies.data())
def test_random_operators_agree_with_numpy(client, data):
    draw = data.draw
    dtype = draw(strategies.sampled_from(["<f4", "<f8"]))
    axes = draw(strategies.integers(1, 3))
    batch = draw(strategies.lists(strategies.integers(1, 3), max_size=2))
    space = draw(strategies.lists(strategies.integers(1, 24), min_size=axes, max_size=axes))
    accuracy = draw(strategies.sampled_from([2, 4, 6, 8]))
    spacing = draw(strategies.floats(0.25, 4))
    shape = batch + space
    seed = draw(strategies.integers(0, 2**32 - 1))
    f = numpy.random.default_rng(seed).standard_normal(shape).astype(dtype)
    common = {"f": f, "accuracy": accuracy, "spacing": spacing, "batch": len(batch)}
    dimensions = range(len(batch), len(shape))
    match draw(strategies.sampled_from(["derivative", "laplacian", "diffusion"])):
        case "derivative":
            axis = draw(strategies.sampled_from(dimensions))
            order = draw(strategies.sampled_from([1, 2]))
            out = client.out("derivative", axis=axis, order=order, **common)
            expected = derivative(f, axis, order, accuracy, spacing)
        case "laplacian":
            out = client.out("laplacian", **common)
            expected = laplacian(f, accuracy, spacing, dimensions)
        case "diffusion":
            steps = draw(strategies.integers(1, 5))
            reply = client.call("diffusion", steps=steps, cfl=0.5, **common)
            out, expected = reply["out"], f.astype("f8")
            for _ in range(steps):
                expected = expected + reply["dt"] * laplacian(expected, accuracy, spacing, dimensions)
    scale = max(1.0, numpy.abs(expected).max(), 30 / spacing**2 * numpy.abs(f).max())
    numpy.testing.assert_allclose(out, expected, atol=scale * tolerance(dtype))


def test_a_batch_is_so_many_single_fields(client):
    f = wave(4, 3, 32, 33)
    out = client.out("laplacian", f=f, batch=2)
    for i in range(4):
        for j in range(3):
            assert client.out("laplacian", f=f[i, j]).tobytes() == out[i, j].tobytes()


def test_spacings_by_axis_by_list_and_for_all(client):
    f = wave(8, 9, 10, dtype="<f8")
    expected = sum(derivative(f, axis, 2, 8, h) for axis, h in enumerate((0.5, 0.25, 2)))
    for spacing in ([0.5, 0.25, 2], {"z": 0.5, "y": 0.25, "x": 2}, {"*": 2, "y": 0.25, "z": 0.5}):
        numpy.testing.assert_allclose(client.out("laplacian", f=f, spacing=spacing), expected, atol=1e-10)


def test_old_writers_of_msgpack_numpy_are_understood(client):
    f = wave(16)
    client.send_bytes(msgpack.packb([0, 5, "derivative", [{"f": f}]], default=msgpack_numpy.encode,
                                    use_bin_type=False))
    numpy.testing.assert_allclose(client.recv(5)["out"], derivative(f), atol=1e-5)


def test_numpy_scalars_are_numbers(client):
    f = wave(16)
    out = client.out("derivative", f=f, spacing=numpy.float64(0.5), accuracy=numpy.int64(4))
    numpy.testing.assert_allclose(out, derivative(f, accuracy=4, spacing=0.5), atol=1e-5)


def test_a_fortran_array_is_what_its_writer_makes_of_it(client):
    f = numpy.asfortranarray(wave(8, 9))
    numpy.testing.assert_allclose(client.out("derivative", f=f, axis="x"), derivative(f), atol=1e-5)


def list_of_bins(msgid, method, array, sizes):
    """A request whose array's data is a list of bins of those sizes."""
    data = array.tobytes()
    assert sum(sizes) == len(data)
    parts = [msgpack.Packer().pack_array_header(len(sizes))]
    for size in sizes:
        parts += [bin_header(size), data[:size]]
        data = data[size:]
    header = array_header(array.dtype.str, array.shape, b"".join(parts))
    name = msgpack.packb(method)
    return b"\x94\x00" + msgpack.packb(msgid) + name + b"\x91\x81" + msgpack.packb("f") + header


@pytest.mark.parametrize("sizes", [[4 * 4096], [1, 16383], [4096, 4096, 8192], [0, 16384, 0], [64] * 256])
def test_data_as_a_list_of_bins(client, sizes):
    f = wave(4096)
    client.send_bytes(list_of_bins(9, "put", f, sizes))
    field = client.recv(9)["field"]
    assert client.get(field).tobytes() == f.tobytes()
    client.free(field)


def test_one_byte_at_a_time(client):
    f = wave(11, dtype="<f8")
    for byte in request_bytes(3, "derivative", {"f": f}):
        client.send_bytes(bytes([byte]))
    numpy.testing.assert_allclose(client.recv(3)["out"], derivative(f), atol=1e-12)


def test_sizes_about_the_diverting_threshold(client):
    """Bins under 4 KiB stay in the control message, those from there up go to the arena."""
    for n in (1022, 1023, 1024, 1025, 4095, 4096, 4097, 65535 // 4, 65536 // 4, 65540 // 4):
        f = wave(n)
        assert client.out("derivative", f=f).tobytes() == client.out("derivative", f=f[None, :], batch=1).tobytes()
        numpy.testing.assert_allclose(client.out("derivative", f=f), derivative(f), atol=1e-5)


def test_an_array_larger_than_the_arena_passes_through_bounded_memory():
    arena = 16 * MiB
    with Daemon("--staging-bytes", arena) as daemon, Client(daemon.path) as client:
        f = wave(96, 512, 512)  # 96 MiB
        client.out("derivative", f=wave(64, 64), axis="x")
        reset_peak_memory(daemon.pid)
        before = memory_bytes(daemon.pid, "VmRSS")
        out = client.out("derivative", f=f, axis="y")
        numpy.testing.assert_allclose(out[7], derivative(f[7], 0), atol=1e-4)
        assert abs(out - numpy.roll(out, 1, 0)).max() > 0
        # A sanitizer's shadow and quarantine come on top.
        slack = 64 * MiB if sanitized() else 4 * MiB
        assert memory_bytes(daemon.pid, "VmHWM") - before <= arena + slack

"""The fdclient command against the real daemon: files, shapes, names, errors, exit statuses."""

import contextlib
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import stat
import subprocess

import numpy
import pytest

from fdtest import (BUILD, Client, Daemon, PATIENCE_S, binary, derivative, diffusion, eventually, laplacian,
                    process_status, sanitized, stopped, wave)

REFUSED, USAGE, CONNECTION, FILE, RETRY, INTERRUPTED = 1, 2, 3, 4, 5, 130
SYSTEM_SOCKET = "/run/fdserver/fdserver.sock"


@pytest.fixture
def run(daemon, tmp_path):
    """Run fdclient in tmp_path; it must end with `status` and, if that is not 0, an error on stderr."""
    def call(*arguments, status=0, socket=None, text=True, **options):
        env = {k: v for k, v in os.environ.items() if k != "XDG_RUNTIME_DIR"}
        env["FDSERVER_SOCKET"] = socket or f"unix:{daemon.path}"
        ended = subprocess.run([binary("fdclient"), *map(str, arguments)], cwd=tmp_path, env=env, text=text,
                               capture_output=True, timeout=PATIENCE_S, **options)
        assert ended.returncode == status, ended.stderr
        if status:
            # One line; before it there may be the one about a shape that was assumed.
            assert re.fullmatch(r"(fdclient: .* cube.*\n)?fdclient: [A-Z_]+: .+\n", ended.stderr)
        return ended
    yield call
    # No partial file is ever left.
    assert not [name for name in os.listdir(tmp_path) if re.search(r"\.(bin|npy|json)\.\w{6}$", name)]


def raw(path, dtype="<f4"):
    return numpy.fromfile(path, dtype)


def test_a_cube_alone(run, tmp_path):
    f = wave(16, 16, 16)
    f.tofile(tmp_path / "field.bin")
    ended = run("submit", "field.bin")
    assert "16x16x16 float32" in ended.stderr and "field.derivative.bin" in ended.stdout
    result = raw(tmp_path / "field.derivative.bin").reshape(f.shape)
    numpy.testing.assert_allclose(result, derivative(f), atol=1e-5)
    assert json.loads((tmp_path / "field.derivative.bin.json").read_text()) == {
        "shape": [16, 16, 16], "dtype": "float32"}
    # The result can be submitted again, and no shape has to be guessed.
    ended = run("submit", "field.derivative.bin", "--axis", "y", "-o", "twice.bin")
    assert ended.stderr == ""
    numpy.testing.assert_allclose(raw(tmp_path / "twice.bin").reshape(f.shape), derivative(result, 1), atol=1e-5)


def test_no_shape_and_no_cube(run, tmp_path):
    wave(5, 7).tofile(tmp_path / "field.bin")
    assert "--shape" in run("submit", "field.bin", status=USAGE).stderr
    assert os.listdir(tmp_path) == ["field.bin"]


@pytest.mark.parametrize("shape", ["5,7,11", "5x7x11"])
def test_shape_and_dtype_from_options(run, tmp_path, shape):
    f = wave(5, 7, 11, dtype="<f8")
    f.tofile(tmp_path / "data")
    run("submit", "data", "--shape", shape, "--dtype", "float64", "--axis", "z", "--accuracy", 2, "--spacing", 0.5)
    numpy.testing.assert_allclose(raw(tmp_path / "data.derivative.bin", "<f8").reshape(f.shape),
                                  derivative(f, 0, accuracy=2, spacing=0.5), atol=1e-12)


def test_shape_from_a_sidecar(run, tmp_path):
    f = wave(6, 20, dtype="<f8")
    f.tofile(tmp_path / "field.bin")
    (tmp_path / "field.bin.json").write_text('{"made": "by hand", "dtype": "float64", "shape": [6, 20]}')
    run("submit", "field.bin", "--op", "laplacian")
    numpy.testing.assert_allclose(raw(tmp_path / "field.laplacian.bin", "<f8").reshape(f.shape), laplacian(f),
                                  atol=1e-12)


@pytest.mark.parametrize("text", ["", "{", "[6, 20]", "{}", '{"shape": 120}', '{"shape": []}', '{"shape": [-6, 20]}',
                                  '{"shape": [6, 20], "dtype": "int8"}', '{"shape": [6, 21]}', "x" * 5000,
                                  '{"shape": [6, 20]} trailing'])
def test_a_bad_sidecar(run, tmp_path, text):
    wave(6, 20).tofile(tmp_path / "field.bin")
    (tmp_path / "field.bin.json").write_text(text)
    assert "field.bin" in run("submit", "field.bin", status=FILE).stderr


def test_npy(run, tmp_path):
    f = wave(4, 6, 9, dtype="<f8")
    numpy.save(tmp_path / "field.npy", f)
    run("submit", "field.npy", "--order", 2)
    result = numpy.load(tmp_path / "field.derivative.npy")
    assert result.dtype == f.dtype
    numpy.testing.assert_allclose(result, derivative(f, order=2), atol=1e-12)
    assert not (tmp_path / "field.derivative.npy.json").exists()
    run("submit", "field.npy", "-o", "out.bin")  # the name decides
    assert raw(tmp_path / "out.bin", "<f8").size == f.size
    run("submit", "out.bin", "-o", "out.npy")
    assert numpy.load(tmp_path / "out.npy").shape == f.shape
    # Version 2 of the format.
    with open(tmp_path / "v2.npy", "wb") as file:
        numpy.lib.format.write_array(file, f, version=(2, 0))
    run("submit", "v2.npy", "-o", "v2out.npy")


@pytest.mark.parametrize("array, said", [
    (numpy.asfortranarray(wave(6, 8)), "Fortran"),
    (wave(6, 8, dtype=">f4"), ">f4"),
    (numpy.arange(64).reshape(8, 8), "<i8"),
    (numpy.zeros(4, [("a", "<f4")]), "structured"),
    (numpy.float32(3), "dimensions"),
    (numpy.zeros((0, 3), "<f4"), "0x3"),
])
def test_npy_refused(run, tmp_path, array, said):
    numpy.save(tmp_path / "field.npy", array)
    assert said in run("submit", "field.npy", status=FILE).stderr


def test_npy_that_is_cut_or_none(run, tmp_path):
    numpy.save(tmp_path / "field.npy", wave(6, 8))
    whole = (tmp_path / "field.npy").read_bytes()
    for length in (1, 6, 9, 40, len(whole) - 1):
        (tmp_path / "field.npy").write_bytes(whole[:length])
        run("submit", "field.npy", status=FILE)


def test_files_that_are_none(run, tmp_path):
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "fifo")
    for name in ("absent", "empty", "fifo", ".", "/dev/null"):
        assert name in run("submit", name, status=FILE).stderr


def test_diffusion(run, tmp_path):
    f = wave(12, 14, dtype="<f8")
    numpy.save(tmp_path / "field.npy", f)
    run("submit", "field.npy", "--op", "diffusion", "--steps", 7, "--dt", 0.01, "--accuracy", 4)
    numpy.testing.assert_allclose(numpy.load(tmp_path / "field.diffusion.npy"), diffusion(f, 7, 0.01, 4), atol=1e-12)
    run("submit", "field.npy", "--op=diffusion", "--cfl=0.9", "--diffusivity", "x=2,y=0.5", "--endpoint=x=true",
        "--boundary", "x=periodic,y-=value:0,y+=derivative:0", "-o", "a.npy")
    run("submit", "field.npy", "--op=diffusion", "--cfl=0.9", "--diffusivity", '{"x": 2, "*": 0.5}',
        "--endpoint=x=true", "--boundary", '{"y-": {"value": 0}, "y+": {"derivative": 0}}', "-o", "b.npy")
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    assert (numpy.load(tmp_path / "a.npy")[0] == 0).all()


def test_errors_of_the_server_name_the_parameter(run, tmp_path):
    wave(8, 8, 8).tofile(tmp_path / "field.bin")
    for arguments, said in [(["--accuracy", 5], "INVALID_ARGUMENT: --accuracy: "),
                            (["--axis", "w"], "INVALID_ARGUMENT: --axis: "),
                            (["--spacing", "0"], "INVALID_ARGUMENT: --spacing"),
                            (["--spacing", "wide"], "INVALID_ARGUMENT: --spacing"),
                            (["--boundary", "nice"], "boundary"),
                            (["--op", "diffusion"], "dt"),
                            (["--op", "diffusion", "--dt", 10], "UNSTABLE: --dt"),
                            (["--op", "curl"], "INVALID_ARGUMENT: f y: "),
                            (["--op", "stencil"], "INVALID_ARGUMENT: --offsets: "),
                            (["--op", "frobnicate"], "UNKNOWN_METHOD: "),
                            (["--field", 1], "NOT_FOUND: ")]:
        file = [] if "--field" in arguments else ["field.bin", "--shape", "8,8,8"]
        assert said in run("submit", *file, *arguments, status=REFUSED).stderr
    assert os.listdir(tmp_path) == ["field.bin"]


def test_wrong_usage(run):
    for arguments in ([], ["get", "x", "-o", "y"], ["free", "x"], ["get", "1,2", "-o", "y"]):  # test_client_options.c: more
        run(*arguments, status=USAGE)
    for option in ("-x", "-xq", "-qx", "--nonsense=1", "--s"):
        assert f"no option {option} " in run("submit", option, "f", status=USAGE).stderr


def test_options_follow_arguments_in_any_environment(run, monkeypatch, tmp_path):
    monkeypatch.setenv("POSIXLY_CORRECT", "1")
    f = wave(8, 8, 8)
    f.tofile(tmp_path / "-1")
    run("submit", "-q", "-o", "out.bin", "--shape", "8,8,8", "--", "-1")
    numpy.testing.assert_allclose(raw(tmp_path / "out.bin").reshape(f.shape), derivative(f), atol=1e-4)


def test_vector_fields_are_a_file_for_each_component(run, tmp_path):
    f = wave(12, 13, 14, dtype="<f8")
    numpy.save(tmp_path / "field.npy", f)
    said = run("submit", "field.npy", "--op", "gradient", "--spacing", 0.5).stdout.splitlines()
    names = [f"field.gradient.{axis}.npy" for axis in "xyz"]
    assert [line.split(":")[0] for line in said] == names
    for k, name in enumerate(names):
        numpy.testing.assert_allclose(numpy.load(tmp_path / name), derivative(f, 2 - k, spacing=0.5), atol=1e-12)
    # As the shell sorts them, they are the components in order.
    assert sorted(path.name for path in tmp_path.glob("field.gradient.?.npy")) == names
    run("submit", *names, "--op", "divergence", "--spacing", 0.5)
    expected = sum(derivative(numpy.load(tmp_path / name), 2 - k, spacing=0.5) for k, name in enumerate(names))
    numpy.testing.assert_allclose(numpy.load(tmp_path / "field.gradient.divergence.npy"), expected, atol=1e-12)
    shown = json.loads(run("submit", *names, "--op", "curl", "--json", "-o", "whirl.bin").stdout)
    for axis in "xyz":
        assert shown[axis]["file"] == f"whirl.{axis}.bin" and shown[axis]["shape"] == [12, 13, 14]
        assert shown[axis]["max"] < 1e-12
        assert raw(tmp_path / f"whirl.{axis}.bin", "<f8").max() == shown[axis]["max"]


def test_vector_fields_of_a_plane(run, tmp_path):
    f = wave(20, 30)
    f.tofile(tmp_path / "f.bin")
    run("submit", "f.bin", "--shape", "20,30", "--op", "gradient", "-q")
    assert not (tmp_path / "f.gradient.z.bin").exists()
    # Each has its sidecar; a plane's curl is one array, and may go to standard output.
    ended = run("submit", "f.gradient.x.bin", "f.gradient.y.bin", "--op", "curl", "-o", "-", text=False)
    curl = numpy.frombuffer(ended.stdout, "<f4")
    assert curl.size == f.size and abs(curl).max() < 1e-5
    assert "f y" in run("submit", "f.gradient.x.bin", "f.bin", "--shape", "600", "--op", "divergence",
                        status=REFUSED).stderr


def test_a_hessian_is_a_file_for_each_second_derivative(run, tmp_path):
    f = wave(12, 13, 14, dtype="<f8")
    numpy.save(tmp_path / "f.npy", f)
    said = run("submit", "f.npy", "--op", "hessian").stdout.splitlines()
    names = [a + b for k, a in enumerate("xyz") for b in "xyz"[k:]]
    assert [line.split(":")[0] for line in said] == [f"f.hessian.{name}.npy" for name in names]
    for name in names:
        same = ("--axis", name[0], "--order", 2) if name[0] == name[1] else ("--axis", f"{name[0]},{name[1]}")
        run("submit", "f.npy", *same, "-o", "one.npy")
        assert (numpy.load(tmp_path / f"f.hessian.{name}.npy") == numpy.load(tmp_path / "one.npy")).all(), name
    # A plane has three of them; they stay resident, too. None fits standard output.
    wave(20, 30).tofile(tmp_path / "plane.bin")
    shown = json.loads(run("submit", "plane.bin", "--shape", "20,30", "--op", "hessian", "--keep", "--json").stdout)
    assert sorted(shown) == ["xx", "xy", "yy"]
    run("free", *(place["field"] for place in shown.values()))
    run("free", run("submit", "f.npy", "--op", "hessian", "--keep").stdout.strip())
    assert len(run("list").stdout.splitlines()) <= 1
    assert "--field" in run("submit", "--field", "1,2,3,4", "--op", "divergence", status=USAGE).stderr
    assert "standard output" in run("submit", "f.npy", "--op", "hessian", "-o", "-", status=USAGE).stderr


def test_resident_vector_fields(run, tmp_path):
    f = wave(12, 13, 14)
    numpy.save(tmp_path / "field.npy", f)
    slope = run("submit", "field.npy", "--op", "gradient", "--keep").stdout.strip()
    assert re.fullmatch(r"\d+,\d+,\d+", slope)
    whirl = run("submit", "--field", slope, "--op", "curl", "--keep").stdout.strip()
    run("submit", "--field", slope, "--op", "divergence", "-o", "sum.npy")
    expected = sum(derivative(derivative(f, k), k) for k in range(3))
    numpy.testing.assert_allclose(numpy.load(tmp_path / "sum.npy"), expected, atol=1e-5)
    shown = json.loads(run("submit", "--field", slope.split(",")[0], "--op", "gradient", "--keep", "--json").stdout)
    assert sorted(shown) == ["x", "y", "z"]
    run("free", slope, whirl, *(place["field"] for place in shown.values()))
    assert len(run("list").stdout.splitlines()) <= 1


@pytest.mark.skipif(os.path.exists(SYSTEM_SOCKET), reason="a server is installed here")
def test_the_server_without_an_address(daemon, tmp_path):
    """It is the user's own where the system has none."""
    env = {name: value for name, value in os.environ.items() if name != "FDSERVER_SOCKET"}
    own = tmp_path / "fdserver.sock"

    def ping():
        return subprocess.run([binary("fdclient"), "ping"], env=env | {"XDG_RUNTIME_DIR": str(tmp_path)}, text=True,
                              capture_output=True, timeout=PATIENCE_S)

    ended = ping()
    assert ended.returncode == CONNECTION and SYSTEM_SOCKET in ended.stderr and str(own) in ended.stderr
    own.symlink_to(daemon.path)
    assert ping().returncode == 0


def test_no_server(run, tmp_path):
    for address in ("unix:/nowhere/fdserver.sock", f"unix:{tmp_path}"):
        run("ping", status=CONNECTION, socket=address)
    run("ping", "--connect", "unix:/nowhere", status=CONNECTION)
    run("ping", "--connect", "http://here", status=USAGE)


def test_resident_fields(run, tmp_path):
    f = wave(8, 9, 10)
    numpy.save(tmp_path / "field.npy", f)
    field = int(run("put", "field.npy").stdout)
    kept = int(run("submit", "--field", field, "--axis", "y", "--keep").stdout)
    run("submit", "--field", kept, "--axis", "x", "-o", "xy.npy")
    run("submit", "--field", field, "--axis", "x,y", "-o", "mixed.npy")
    run("get", kept, "-o", "y.npy")
    run("get", field, "-o", "same.bin")
    numpy.testing.assert_allclose(numpy.load(tmp_path / "y.npy"), derivative(f, 1), atol=1e-5)
    numpy.testing.assert_allclose(numpy.load(tmp_path / "xy.npy"), derivative(derivative(f, 1), 2), atol=1e-5)
    assert (tmp_path / "mixed.npy").read_bytes() == (tmp_path / "xy.npy").read_bytes()
    assert (tmp_path / "same.bin").read_bytes() == f.tobytes()
    table = run("list").stdout.splitlines()
    assert len(table) == 3 and "8x9x10" in table[1]
    fields = json.loads(run("list", "--json").stdout)["fields"]
    assert {entry["field"] for entry in fields} == {field, kept}
    run("free", field, kept)
    assert run("list").stdout == ""
    assert "NOT_FOUND: field" in run("get", field, "-o", "gone.bin", status=REFUSED).stderr
    assert not (tmp_path / "gone.bin").exists()


def test_more_fields_than_a_request_may_have_elements(run, daemon, tmp_path):
    with Client(daemon.path) as client:
        fields = [client.put(wave(4)) for _ in range(700)]
        try:
            assert len(json.loads(run("list", "--json").stdout)["fields"]) == 700
            assert len(run("list").stdout.splitlines()) == 701
        finally:
            client.free(*fields)


def test_json_and_quiet(run, tmp_path):
    f = wave(8, 8, 8)
    f.tofile(tmp_path / 'fi"ld.bin')
    ended = run("submit", 'fi"ld.bin', "--json", "--quiet")
    assert ended.stderr == "" and ended.stdout.count("\n") == 1
    said = json.loads(ended.stdout)
    result = raw(tmp_path / said["file"])
    assert said["shape"] == [8, 8, 8] and said["dtype"] == "float32" and said["bytes"] == 2048
    assert said["seconds"] > 0
    assert numpy.float32(said["min"]) == result.min() and numpy.float32(said["max"]) == result.max()
    ended = run("submit", 'fi"ld.bin', "--quiet")
    assert ended.stderr == "" and ended.stdout == ""
    assert json.loads(run("put", 'fi"ld.bin', "--json", "-q").stdout)["field"] > 0
    numpy.full((4, 4), numpy.nan, "<f4").tofile(tmp_path / "nan.bin")
    said = json.loads(run("submit", "nan.bin", "--shape", "4,4", "--json").stdout)
    assert said["min"] is None and said["max"] is None


def test_standard_output(run, tmp_path):
    wave(8, 8).tofile(tmp_path / "field.bin")
    run("submit", "field.bin", "--shape", "8,8", "-o", "reference.bin")
    ended = run("submit", "field.bin", "--shape", "8,8", "-o", "-", text=False)
    assert ended.stdout == (tmp_path / "reference.bin").read_bytes()
    assert not (tmp_path / "-").exists() and not (tmp_path / "-.json").exists()


def test_standard_output_that_is_full(daemon):
    env = os.environ | {"FDSERVER_SOCKET": f"unix:{daemon.path}"}
    with open("/dev/full", "w") as full:
        ended = subprocess.run([binary("fdclient"), "info"], env=env, stdout=full, stderr=subprocess.PIPE)
    assert ended.returncode == FILE and b"standard output" in ended.stderr


def test_where_results_go(run, tmp_path):
    wave(4, 4, 4).tofile(tmp_path / "field.bin")
    (tmp_path / "deep.er").mkdir()
    shutil.copy(tmp_path / "field.bin", tmp_path / "deep.er/field")
    run("submit", "deep.er/field")
    assert (tmp_path / "deep.er/field.derivative.bin").exists()  # beside its input; a folder's dot is no suffix
    # A link is followed, a mode is kept, a device is written to.
    (tmp_path / "real.bin").write_text("old")
    (tmp_path / "real.bin").chmod(0o640)
    (tmp_path / "link.bin").symlink_to("real.bin")
    run("submit", "field.bin", "-o", "link.bin")
    assert (tmp_path / "link.bin").is_symlink()
    assert stat.S_IMODE((tmp_path / "real.bin").stat().st_mode) == 0o640
    assert (tmp_path / "real.bin").stat().st_size == 256
    run("submit", "field.bin", "-o", "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    run("submit", "field.bin", "-o", "/dev/full", status=FILE)
    for place in ("absent/out.bin", "deep.er"):
        run("submit", "field.bin", "-o", place, status=FILE)
    # Over itself.
    run("submit", "field.bin", "-o", "field.bin")
    assert (tmp_path / "field.bin").stat().st_size == 256


def test_a_failed_job_leaves_the_old_result(run, tmp_path):
    wave(4, 4, 4).tofile(tmp_path / "field.bin")
    (tmp_path / "out.bin").write_text("old")
    run("submit", "field.bin", "--quiet", "--accuracy", 3, "-o", "out.bin", status=REFUSED)
    assert (tmp_path / "out.bin").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["field.bin", "out.bin"]


def test_info_stats_ping(run, daemon):
    for command in ("info", "stats"):
        assert json.loads(run(command).stdout).keys() == json.loads(run(command, "--json").stdout).keys()
    assert json.loads(run("info").stdout)["pid"] == daemon.pid
    assert "answered" in run("ping").stdout
    assert json.loads(run("ping", "--json").stdout)["seconds"] > 0


FOREVER = ("--op", "diffusion", "--steps", 10**9, "--cfl", 0.5, "--accuracy", 2)


def start_forever(daemon, tmp_path, n, *arguments, stderr=subprocess.PIPE, **env):
    """Start a submission of n² points that does not end."""
    wave(n, n).tofile(tmp_path / "field.bin")
    command = [binary("fdclient"), "submit", "field.bin", "--shape", f"{n},{n}", *FOREVER, *arguments]
    return subprocess.Popen([str(part) for part in command], cwd=tmp_path, text=True, stderr=stderr,
                            env=os.environ | {"FDSERVER_SOCKET": f"unix:{daemon.path}"} | env)


def running_forever(daemon, tmp_path, *arguments):
    process = start_forever(daemon, tmp_path, 64, *arguments)
    eventually(lambda: daemon.stats()["queue"]["running"] == 1, "a job that runs")
    return process


def assert_cancelled(process):
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == INTERRUPTED and said == "fdclient: CANCELLED: cancelled\n"


def test_ctrl_c_cancels_the_job(daemon, tmp_path):
    process = running_forever(daemon, tmp_path)
    cancelled = daemon.stats()["user"]["cancelled"]
    process.send_signal(signal.SIGINT)
    assert_cancelled(process)
    eventually(lambda: daemon.stats()["user"]["cancelled"] == cancelled + 1, "its worker has let it go")
    assert sorted(os.listdir(tmp_path)) == ["field.bin"]


def test_ctrl_c_before_the_job_is_there(tmp_path):
    """The server is asked for a region first; it answers late."""
    with Daemon() as daemon:
        with stopped(daemon.pid):
            process = start_forever(daemon, tmp_path, 512, FDCLIENT_TRANSPORT="region")
            eventually(lambda: int(process_status(process.pid, "SigCgt"), 16) >> signal.SIGINT - 1 & 1, "the command to submit")
            process.send_signal(signal.SIGINT)
        assert_cancelled(process)
        eventually(lambda: daemon.stats()["user"]["cancelled"] == 1, "its worker has let it go")


def test_ctrl_c_leaves_a_detached_job_alone(tmp_path):
    with Daemon("--drain-timeout-s", 0) as daemon:
        process = running_forever(daemon, tmp_path, "--keep", "--detach")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == -signal.SIGINT
        with daemon.client() as client:
            eventually(lambda: client.call("stats")["connections"] == 1, "its connection gone")
            stats = client.call("stats")
            assert stats["queue"]["running"] == 1 and stats["user"]["cancelled"] == 0


def test_a_terminal_shows_the_steps_that_are_done(daemon, tmp_path):
    """In one line, which is cleared when the job has ended."""
    terminal, end = pty.openpty()
    process = start_forever(daemon, tmp_path, 64, stderr=end)
    os.close(end)
    said = b""
    while not re.search(rb"\d+ of \d+ steps, \d+%\x1b\[K", said):
        said += os.read(terminal, 4096)
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(OSError):  # there is nobody at the other end
        while True:
            said += os.read(terminal, 4096)
    os.close(terminal)
    assert process.wait(PATIENCE_S) == INTERRUPTED
    assert re.search(rb"steps, \d+%\x1b\[K\r\x1b\[Kfdclient: CANCELLED: cancelled\r\n$", said)


def test_a_timeout(run, tmp_path):
    wave(64, 64).tofile(tmp_path / "field.bin")
    ended = run("submit", "field.bin", "--shape", "64,64", *FOREVER, "--timeout", 0.2, "--priority", -3, status=REFUSED)
    assert "TIMEOUT" in ended.stderr
    assert "--keep" in run("submit", "field.bin", "--detach", status=USAGE).stderr
    assert "priority" in run("submit", "field.bin", "--shape", "64,64", "--priority", 101, status=REFUSED).stderr


def test_what_may_work_later(run, tmp_path):
    wave(64, 64, 64).tofile(tmp_path / "field.bin")
    with Daemon("--user-bytes", 3 << 19) as small:  # room for one, and half of another
        run("put", "field.bin", "-q", socket=f"unix:{small.path}")
        error = run("put", "field.bin", "-q", status=RETRY, socket=f"unix:{small.path}").stderr
        assert "OVER_BUDGET" in error
        run("put", "field.bin", "-q", "--retry", 2, status=RETRY, socket=f"unix:{small.path}")


def test_retry_waits_for_a_server(run, tmp_path):
    """A server that comes up a little later is found."""
    with Daemon() as late:
        env = os.environ | {"FDSERVER_SOCKET": f"unix:{late.path}.late"}
        waiting = subprocess.Popen([binary("fdclient"), "ping", "--retry", "100"], env=env, stdout=subprocess.PIPE)
        os.link(late.path, late.path + ".late")
        assert b"answered" in waiting.communicate(timeout=PATIENCE_S)[0] and waiting.returncode == 0


def test_help_and_version(run):
    text = run("--help").stdout
    for word in ("submit", "--accuracy", "--connect", "Exit status"):
        assert word in text
    assert re.fullmatch(r"fdclient \d+\.\d+\.\d+\n", run("--version").stdout)
    assert run("submit", "--help").stdout == text


def test_the_manual_has_the_options_of_the_help(run):
    """Each of them in scdoc's form, with its text; none of it is taken for markup."""
    root = pathlib.Path(__file__).parents[2]
    page = subprocess.run([root / "client/manual.sh", binary("fdclient"), root / "docs/fdclient.1.scd"],
                          capture_output=True, text=True, check=True).stdout
    assert "\n*-o*, *--output* _FILE_\n\tThe file of the result" in page
    assert "\n*--endpoint*[=_WHICH_]\n" in page and "\n*-q*, *--quiet*\n" in page
    assert r"$FDSERVER\_SOCKET" in page and re.search(r"\s\\\* for", page)
    named = re.findall(r"^  (?:-\w, )?--([a-z-]+)", run("--help").stdout, re.M)
    assert re.findall(r"^(?:\*-\w\*, )?\*--([a-z-]+)\*", page, re.M) == named and len(named) > 30
    if shutil.which("scdoc"):
        subprocess.run(["scdoc"], input=page, text=True, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config")
def test_the_installed_library(daemon, tmp_path):
    """README's program, built in another folder with pkg-config, with the shared library and the static one."""
    if sanitized():
        pytest.skip("the library needs its sanitizer's runtime")
    subprocess.run(["cmake", "--install", str(BUILD / "client"), "--prefix", str(tmp_path)], check=True,
                   capture_output=True)
    library = next(tmp_path.glob("lib*/**/pkgconfig")).parent
    readme, source = (pathlib.Path(__file__).parents[2] / "README.md").read_text(), tmp_path / "tour.c"
    source.write_text(re.search(r"^```c\n(.*?)^```$", readme, re.M | re.S).group(1))
    text = (library / "pkgconfig/fdclient.pc").read_text()
    prefix = re.search(r"^prefix=(.*)$", text, re.M).group(1)
    env = os.environ | {"PKG_CONFIG_PATH": str(library / "pkgconfig"), "LD_LIBRARY_PATH": str(library),
                        "FDSERVER_SOCKET": f"unix:{daemon.path}"}
    for static in ([], ["--static"]):
        flags = subprocess.run(["pkg-config", *static, "--cflags", "--libs", f"--define-variable=prefix={tmp_path}",
                                "fdclient"], env=env, check=True, capture_output=True, text=True).stdout
        assert prefix == str(tmp_path) or prefix not in flags
        options = (flags.replace("-lfdclient", "-l:libfdclient.a") if static else flags).split()
        subprocess.run(["cc", str(source), "-o", tmp_path / "tour", *options, "-lm"], check=True)
        ended = subprocess.run([tmp_path / "tour"], env=env, capture_output=True, text=True, timeout=PATIENCE_S)
        assert ended.stdout == "1048576 bytes of derivative\n", ended.stderr
        nowhere = subprocess.run([tmp_path / "tour"], env=env | {"FDSERVER_SOCKET": "unix:/nowhere"}, text=True,
                                 capture_output=True)
        assert nowhere.returncode == 1 and nowhere.stderr.startswith("CONNECTION: ")
    names = subprocess.run(["nm", "-D", "--defined-only", library / "libfdclient.so"], check=True,
                           capture_output=True, text=True).stdout
    functions = {line.split()[2].split("@")[0] for line in names.splitlines() if " T " in line}
    header = (tmp_path / "include/fdclient.h").read_text()
    assert functions == set(re.findall(r"^(?!typedef)[a-z].*?\b(fdclient_\w+)\(", header, re.M))


def test_a_dry_run_says_what_a_job_would_take(run, tmp_path):
    wave(16, 16, 16).tofile(tmp_path / "field.bin")
    ended = run("submit", "field.bin", "--op", "diffusion", "--cfl", "1", "--accuracy", "2", "--dry-run", "--json")
    answer = json.loads(ended.stdout)
    assert answer["bytes"] == 2 * 4 * 16**3 and answer["seconds"] > 0
    assert answer["dt"] == answer["dt_max"] == pytest.approx(1 / 6)
    assert '"dt_max"' in run("submit", "field.bin", "--op", "diffusion", "--cfl", "1", "--dry-run").stdout
    assert [path.name for path in tmp_path.iterdir()] == ["field.bin"]
    run("submit", "field.bin", "--op", "diffusion", "--dt", "9", "--dry-run", status=REFUSED)


def test_snapshots(run, daemon, tmp_path):
    f = wave(20, 30)
    numpy.save(tmp_path / "f.npy", f)
    diffuse = ("submit", "f.npy", "--op", "diffusion", "--dt", 0.125, "--accuracy", 2)
    run(*diffuse, "--steps", 7, "--every", 3, "-o", "u.npy")
    for steps, name in ((3, "u.3.npy"), (6, "u.6.npy"), (7, "u.npy")):
        run(*diffuse, "--steps", steps, "-o", "alone.npy")
        assert numpy.array_equal(numpy.load(tmp_path / name), numpy.load(tmp_path / "alone.npy"))
    assert sorted(os.listdir(tmp_path)) == ["alone.npy", "f.npy", "u.3.npy", "u.6.npy", "u.npy"]
    ended = run(*diffuse, "--steps", 7, "--every", 3, "--snapshot", "field", "--keep")
    *snapshots, kept = ended.stdout.splitlines()
    assert [line.split()[0] for line in snapshots] == ["3", "6"]
    for line in snapshots:
        step, field = line.split()
        run("get", field, "-o", "got.npy")
        assert numpy.array_equal(numpy.load(tmp_path / "got.npy"), numpy.load(tmp_path / f"u.{step}.npy"))
        run("free", field)
    run("free", kept)
    for options in (("--keep",), ("-o", "-")):
        run(*diffuse, "--steps", 7, "--every", 3, *options, status=USAGE)


@pytest.mark.parametrize("steps", [5, 2000], ids=["small", "payload"])
def test_probes(run, tmp_path, steps):
    numpy.save(tmp_path / "f.npy", wave(20, 30))
    diffuse = ("submit", "f.npy", "--op", "diffusion", "--dt", 0.125, "--accuracy", 2, "--steps", steps, "-q")
    rows = run(*diffuse, "--probes", "[[0, 7], [-1, 3]]", "-o", "u.npy").stdout.splitlines()
    values = numpy.array([row.split() for row in rows], "f4")
    assert values.shape == (steps + 1, 2)
    f, u = numpy.load(tmp_path / "f.npy"), numpy.load(tmp_path / "u.npy")
    assert list(values[0]) == [f[0, 7], f[-1, 3]] and list(values[-1]) == [u[0, 7], u[-1, 3]]
    said = json.loads(run(*diffuse, "--probes", "[[0, 7], [-1, 3]]", "--json").stdout)
    assert numpy.array_equal(numpy.array(said["probes"], "f4"), values)
    run(*diffuse, "--probes", "[[0, 7]]", "-o", "-", status=USAGE)


def test_a_report(run, tmp_path):
    numpy.save(tmp_path / "f.npy", wave(20, 30))
    ended = run("submit", "f.npy", "--op", "laplacian", "--report", "--json")
    said = json.loads(ended.stdout)
    assert said["report"]["min"] == said["min"] and said["report"]["nan"] == 0
    ended = run("submit", "f.npy", "--op", "gradient", "--report", "-q")
    assert list(json.loads(ended.stdout)) == ["x", "y"]
    assert json.loads(run("submit", "f.npy", "--op", "gradient", "--report", "--json").stdout)["report"]["y"]["nan"] == 0


def test_a_chain(run, tmp_path):
    f = wave(20, 30)
    numpy.save(tmp_path / "f.npy", f)
    field = int(run("put", "f.npy").stdout)
    gradient = {"op": "gradient", "f": {"field": field}, "out": "g"}
    run("chain", json.dumps([gradient, {"op": "divergence", "f": "g"}]), "-o", "chain.npy")
    run("submit", "f.npy", "--op", "gradient", "-o", "g.npy")
    run("submit", "g.x.npy", "g.y.npy", "--op", "divergence", "-o", "d.npy")
    assert numpy.array_equal(numpy.load(tmp_path / "chain.npy"), numpy.load(tmp_path / "d.npy"))
    run("chain", json.dumps([gradient]), "-o", "v.npy")
    for axis in "xy":
        assert numpy.array_equal(numpy.load(tmp_path / f"v.{axis}.npy"), numpy.load(tmp_path / f"g.{axis}.npy"))
    step = {"op": "diffusion", "f": {"field": field}, "out": {"field": field}, "dt": 0.125, "accuracy": 2}
    assert int(run("chain", json.dumps([step, {"op": "laplacian", "f": {"field": field}}]), "--repeat", 3,
                   "--keep").stdout) != field
    run("get", field, "-o", "three.npy")
    run("submit", "f.npy", "--op", "diffusion", "--steps", 3, "--dt", 0.125, "--accuracy", 2, "-o", "u.npy")
    assert numpy.array_equal(numpy.load(tmp_path / "three.npy"), numpy.load(tmp_path / "u.npy"))
    assert "ops 1 f" in run("chain", json.dumps([gradient, {"op": "divergence", "f": "h"}]), "--keep",
                            status=REFUSED).stderr
    answer = json.loads(run("chain", json.dumps([gradient, step]), "--dry-run", "--json").stdout)
    assert answer["bytes"] > 0 and answer["ops"][1]["dt_max"] == pytest.approx(0.25)
    kept = json.loads(run("chain", json.dumps([gradient]), "--keep", "--json").stdout)
    assert len({kept["x"]["field"], kept["y"]["field"], field}) == 3
    run("chain", "[]", status=USAGE)
    for line in run("list").stdout.splitlines():
        if line.split()[0].isdigit():
            run("free", line.split()[0])


def test_standard_input(run, daemon, tmp_path):
    f = wave(6, 40, dtype="<f8")
    numpy.save(tmp_path / "field.npy", f)
    run("submit", "field.npy", "-o", "reference.npy")
    whole, reference = (tmp_path / "field.npy").read_bytes(), (tmp_path / "reference.npy").read_bytes()
    assert run("submit", "-", text=False, input=whole).stdout == reference  # to standard output, as NumPy's format
    assert run("submit", "-", "--shape", "6,40", "--dtype", "float64", text=False, input=f.tobytes()).stdout \
        == numpy.load(tmp_path / "reference.npy").tobytes()
    run("submit", "-", "-o", "out.npy", text=False, input=whole)
    assert (tmp_path / "out.npy").read_bytes() == reference
    run("submit", "-", "--op", "gradient", "-o", "slope.npy", text=False, input=whole)
    assert (numpy.load(tmp_path / "slope.x.npy") == numpy.load(tmp_path / "reference.npy")).all()
    assert "one for each axis" in run("submit", "-", "--op", "gradient", status=USAGE).stderr
    assert "one for each axis" in run("submit", "-", "-", "--op", "curl", status=USAGE).stderr
    assert "empty" in run("submit", "-", status=FILE, input="").stderr
    large = wave(300, 1000, dtype="<f8")  # more than it begins with
    field = run("put", "-", "--shape", "300,1000", "--dtype", "float64", text=False, input=large.tobytes()).stdout.decode().strip()
    run("get", field, "-o", "large.bin")
    assert (tmp_path / "large.bin").read_bytes() == large.tobytes()
    run("free", field)
    assert os.listdir(tmp_path) == [name for name in os.listdir(tmp_path) if not name.startswith("-")]
    # What was read is there when the job is tried again.
    with Daemon("--user-queue-jobs", 1) as own, Client(own.path) as client:
        client.send("diffusion", f=wave(64, 64), steps=10**9, cfl=0.5)
        trying = subprocess.Popen([binary("fdclient"), "submit", "-", "--retry", "1000", "--connect", f"unix:{own.path}"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        trying.stdin.write(whole)
        trying.stdin.close()
        trying.stdin = None
        eventually(lambda: own.stats()["user"]["refused"] > 0, "a refusal")
        client.close()
        assert trying.communicate(timeout=PATIENCE_S)[0] == reference


def test_files_that_promise_another_format(run, tmp_path):
    wave(4, 4, 4).tofile(tmp_path / "field.bin")
    for name in ("out.png", "OUT.PNG", "deep.er.h5", "a.csv"):
        said = run("submit", "field.bin", "-o", name, status=USAGE).stderr
        assert "--output: " in said and ".npy" in said and name in said
    for name in ("out", "out.f32", "out.png.bin"):
        run("submit", "field.bin", "-o", name)


def test_errors_speak_of_options(run, tmp_path):
    numpy.save(tmp_path / "field.npy", wave(8, 8))
    for arguments, said in ((["--op", "diffusion", "--cfl", 2], "UNSTABLE: --cfl: --cfl is 2; .*--allow-unstable"),
                            (["--op", "diffusion"], "--dt: diffusion needs exactly one of --dt and --cfl"),
                            (["--boundary", "y-=mirror"], "--boundary y-: "),
                            (["--op", "diffusio", "--dt", 1], "UNKNOWN_METHOD: .*did you mean diffusion")):
        assert re.search(said, run("submit", "field.npy", *arguments, status=REFUSED).stderr)


def test_a_server_that_stands_still(run, tmp_path):
    numpy.save(tmp_path / "field.npy", wave(8, 8))
    with Daemon() as daemon, stopped(daemon.pid):
        for arguments in (["ping"], ["info"], ["list"], ["put", "field.npy"], ["get", "1", "-o", "x"], ["free", "1"],
                          ["submit", "field.npy"], ["submit", "--field", "1", "--detach", "--keep"]):
            said = run(*arguments, "--timeout", 0.01, socket=f"unix:{daemon.path}", status=REFUSED).stderr
            assert "TIMEOUT: --timeout: the server has not answered" in said

"""A server with two devices: homes of connections, memory, and workers that end."""

import os
import shutil
import subprocess

import numpy
import pytest

from fdtest import BUILD, PATIENCE_S, Client, Daemon, binary, derivative, eventually, needs_root, process_status, wave


OPTIONS, DEVICE = ("--mode", "0666"), "host,host"

of_emulated_gpus = pytest.mark.skipif(BUILD.name != "emulated", reason="of emulated GPUs alone")


def device_of(client, field):
    return next(f["device"] for f in client.call("list")["fields"] if f["field"] == field)


def test_both_serve(daemon):
    eventually(lambda: all(d["state"] == "ready" for d in daemon.info()["devices"]), "all ready")
    info = daemon.info()["devices"]
    assert [d["name"] for d in info] == ["host", "host:1", "distributed"]
    assert len({d["pid"] for d in info[:2]}) == 2
    # They share the machine's memory.
    assert sum(d["memory_bytes"] for d in info) <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@needs_root
def test_connections_of_several_users_are_spread(daemon):
    """Users who connect one after another each get the device that is nobody's home."""
    with Client(daemon.path) as client:
        mine = client.put(wave(1024))
        assert client.put(wave(8)) and {f["device"] for f in client.call("list")["fields"]} == {"host"}

        def visit(other):
            field = other.put(wave(64))
            slope = other.out("derivative", f={"field": field}, axis="x")
            where = device_of(other, field)
            other.free(field)
            return where, slope
        for uid in range(60001, 60006):
            where, slope = daemon.as_user(uid, visit)
            assert where == "host:1"
            numpy.testing.assert_allclose(slope, derivative(wave(64)), atol=1e-5)
        assert client.get(mine).tobytes() == wave(1024).tobytes()
        client.free(*(f["field"] for f in client.call("list")["fields"]))


@needs_root
def test_without_connections_the_emptier_device_is_taken(daemon):
    """A third user is given the one with fewer bytes."""
    def visit(uid, points):
        def keep(other):
            field = other.put(wave(points))
            return field, device_of(other, field)
        eventually(lambda: daemon.stats()["connections"] == 1, "no connection but the one that asks")
        return daemon.as_user(uid, keep)
    large, first = visit(60001, 1 << 16)
    small, second = visit(60002, 16)
    third, where = visit(60003, 16)
    assert {first, second} == {"host", "host:1"} and where == second
    for uid, field in ((60001, large), (60002, small), (60003, third)):
        daemon.as_user(uid, lambda other: other.free(field))


def test_a_worker_that_ends_takes_its_own_fields_alone(daemon):
    with Client(daemon.path) as client:
        field = client.put(wave(32))
        devices = {d["name"]: d for d in daemon.info()["devices"]}
        here = device_of(client, field)
        other = next(name for name in devices if name != here)
        os.kill(devices[other]["pid"], 9)
        assert client.get(field).tobytes() == wave(32).tobytes()
        client.free(field)


@pytest.fixture
def faults(tmp_path):
    """A folder in which a file of a GPU's number is its fault, and the environment for that."""
    return tmp_path, {"CUDA_ON_HOST_FAULTS": str(tmp_path)}


@of_emulated_gpus
def test_a_gpu_that_cannot_be_used_is_left_out(faults):
    folder, env = faults
    (folder / "2").touch()
    with Daemon(device="auto", env=env) as daemon:
        assert [d["name"] for d in daemon.info()["devices"]] == ["cuda:0", "cuda:1", "cuda:3", "distributed"]
        eventually(lambda: "cuda:2 cannot be used: the device does not answer" in daemon.log(), "the reason")
        daemon.assert_serves()


@of_emulated_gpus
def test_a_fault_of_the_first_gpu_is_not_taken_for_no_gpu(faults):
    """The host's cores would serve in its place until the server is restarted."""
    folder, env = faults
    (folder / "0").touch()
    daemon = Daemon(device="auto", env=env, wait=False)
    assert daemon.wait() == 1
    assert "cuda:0 cannot be used: the device does not answer" in daemon.log()


@of_emulated_gpus
def test_a_gpu_that_cannot_be_used_any_more(faults):
    """The log says why; it is tried less and less often, and is there again when it can be used."""
    folder, env = faults
    with Daemon(device="cuda:0", env=env) as daemon:
        (folder / "0").touch()
        generation = daemon.kill_worker(wait=False)
        eventually(lambda: "the next worker in 640 ms" in daemon.log(), "many attempts")
        assert "cuda:0 cannot be used: the device does not answer" in daemon.log()
        (folder / "0").unlink()
        daemon.await_worker(generation)
        daemon.assert_serves()


def test_programs_that_are_replaced_while_a_server_runs(tmp_path):
    """As by an upgrade: it goes on with those of its own build."""
    tmp_path.chmod(0o755)
    for program in "fdserver", "fdworker":
        shutil.copy(binary(program), tmp_path / program)
    with Daemon(program=str(tmp_path / "fdserver")) as daemon:
        shutil.copy("/bin/false", tmp_path / "new")
        os.replace(tmp_path / "new", tmp_path / "fdworker")
        daemon.kill_worker()
        daemon.assert_serves()
        assert process_status(daemon.worker_pids()[0], "Name") == "fdworker"


@pytest.mark.parametrize("devices", ["auto", "host", "host,host"])
def test_a_worker_that_cannot_be_started(tmp_path, devices):
    """It reports the error and ends, without killing its process group."""
    shutil.copy(binary("fdserver"), tmp_path / "fdserver")
    (tmp_path / "fdworker").write_text("#!/nonexistent/interpreter\n")
    (tmp_path / "fdworker").chmod(0o755)
    command = f'"$1/fdserver" --listen "unix:$1/s" --device {devices}; echo "ended with $?"'
    with subprocess.Popen(["sh", "-c", command, "sh", tmp_path], start_new_session=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as group:
        try:
            out, log = group.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(group.pid, 9)
            raise
    assert group.returncode == 0 and out == "ended with 1\n"
    assert f"{'cuda:0' if devices == 'auto' else 'host'} cannot be used" in log

"""Kernels compiled for the stencils of jobs: by fdcompile, for a worker that says it is a GPU (and computes on the
host). Skipped without NVRTC, but for what happens without it."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import time

import numpy
import pytest

from fdtest import BUILD, Daemon, binary, eventually, memory_bytes, needs_root

SHAPE = (65, 64, 64)  # just more than 2^18 points
FLOOD_S = 4
FIELD = numpy.random.default_rng(7).standard_normal(SHAPE).astype("f4")


def worker_of_tests():
    for folder in ("", "tests/unit"):
        path = BUILD / folder / "fdworker_copying"
        if path.is_file():
            return path
    pytest.skip("no fdworker_copying")


@pytest.fixture
def programs(tmp_path):
    """A folder with the server, a worker that takes kernels, and the compiler."""
    tmp_path.chmod(0o755)
    shutil.copy(binary("fdserver"), tmp_path / "fdserver")
    shutil.copy(worker_of_tests(), tmp_path / "fdworker")
    shutil.copy(binary("fdcompile"), tmp_path / "fdcompile")
    return tmp_path


def serve(programs, *options, **others):
    return Daemon(*options, program=str(programs / "fdserver"), device="host", **others)


def has_nvrtc():
    names = [pathlib.Path("/usr/local/cuda/lib64") / f"libnvrtc.so.{major}" for major in (12, 13)]
    listing = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    return any(name.exists() for name in names) or "libnvrtc.so.1" in listing


needs_nvrtc = pytest.mark.skipif(not has_nvrtc(), reason="no NVRTC")


def stencil_of(number):
    """Offsets and weights of a stencil that no other number gives, and that the build has no kernel for."""
    points = [[z, y, x] for z in (-1, 0, 1) for y in (-2, 0, 2) for x in (-3, 0, 3)]
    chosen = [point for k, point in enumerate(points) if number >> k & 1] + [[4, 4, 4]]
    return {"offsets": chosen, "weights": [1 / len(chosen)] * len(chosen)}


def run(client, number, field=FIELD):
    return client.out("stencil", f=field, **stencil_of(number))


def kernels_of(daemon):
    return [device["kernels"] for device in daemon.info()["devices"]]


def run_until_kernels(daemon, client, number, count):
    """The result of a job, after which the worker has so many kernels."""
    result = run(client, number)
    eventually(lambda: kernels_of(daemon) == [count], f"{count} kernels")
    return result


def compilers_of(daemon):
    """The pids of its fdcompile processes, but for those that have ended."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            status = (folder / "stat").read_text()
            name, rest = status[status.index("(") + 1:].rsplit(")", 1)
            if name == "fdcompile" and int(rest.split()[1]) == daemon.pid and rest.split()[0] != "Z":
                found.append(int(folder.name))
    return found


def sums(daemon, least=0):
    """What the worker was sent, at least so many: slot and checksum of each kernel, in order."""
    def found():
        return re.findall(r"kernel in slot (\d+): \d+ bytes, sum (\w+)", daemon.log())
    eventually(lambda: len(found()) >= least, f"{least} kernels in the worker's log")
    return found()


@needs_nvrtc
def test_a_stencil_gets_a_kernel_while_jobs_are_answered(programs):
    with serve(programs) as daemon, daemon.client() as client:
        first = run_until_kernels(daemon, client, 5, 1)
        assert numpy.array_equal(run(client, 5), first)
        assert len(sums(daemon, 1)) == 1  # for both


@needs_nvrtc
def test_what_needs_no_kernel_starts_no_compiler(programs):
    with serve(programs) as daemon, daemon.client() as client:
        run(client, 3, FIELD[:64])  # small
        star = [[0, 0, -1], [0, 0, 0], [0, 0, 1]]
        client.out("stencil", f=FIELD, offsets=[[0, 0, o] for o in (-5, 5)], weights=[1, 1])  # too far
        client.out("stencil", f=FIELD.ravel(), offsets=[[o[2]] for o in star], weights=[1, -2, 1])  # a line
        box = [list(o - 1) for o in numpy.array(list(numpy.ndindex(3, 3, 3)))]
        client.out("stencil", f=FIELD, offsets=[[int(o) for o in p] for p in box], weights=[1] * 27)  # the build's
        client.out("laplacian", f=FIELD)
        assert compilers_of(daemon) == []


@needs_nvrtc
@needs_root  # /proc tells others nothing of a process that is not dumpable
def test_the_compiler_is_locked_in(programs):
    with serve(programs) as daemon, daemon.client() as client:
        run_until_kernels(daemon, client, 5, 1)
        [pid] = compilers_of(daemon)
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        assert "Seccomp:\t2" in status and "NoNewPrivs:\t1" in status
        links = [os.readlink(link) for link in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
        allowed = ("/dev/null", daemon.log_path, "socket:")
        assert all(link.startswith(allowed) for link in links) and len(links) == 4, links
        limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
        assert re.search(r"Max open files +0 ", limits) and re.search(r"Max file size +0 ", limits)
        assert os.getpriority(os.PRIO_PROCESS, pid) == 10


@needs_nvrtc
def test_a_kernel_that_ends_workers_is_not_sent_again(programs, tmp_path):
    folder = tmp_path / "kept"
    with serve(programs, "--kernel-cache", str(folder)) as daemon, daemon.client() as client:
        run_until_kernels(daemon, client, 5, 1)
        eventually(lambda: [f.suffix for f in folder.iterdir()] not in ([], [".part"]), "a file")
        daemon.kill_worker()  # it may have been the kernel: it is tried once more, its file is not
        run_until_kernels(daemon, client, 5, 1)
        eventually(lambda: not list(folder.iterdir()), "no file")
        daemon.kill_worker()
        expected = run(client, 5)
        time.sleep(0.3)
        numpy.testing.assert_array_equal(run(client, 5), expected)
        assert kernels_of(daemon) == [0]
        run_until_kernels(daemon, client, 6, 1)  # others are


@needs_nvrtc
def test_a_kernel_that_was_there_when_a_worker_ended_is_not_blamed_for_ever(programs):
    with serve(programs) as daemon, daemon.client() as client:
        run_until_kernels(daemon, client, 5, 1)
        daemon.kill_worker()
        run_until_kernels(daemon, client, 5, 1)
        time.sleep(5)  # the trial of a kernel
        run(client, 5)
        daemon.kill_worker()
        run_until_kernels(daemon, client, 5, 1)


@needs_nvrtc
def test_a_dead_or_hung_compiler_is_replaced(programs):
    with serve(programs) as daemon, daemon.client() as client:
        run_until_kernels(daemon, client, 5, 1)
        [pid] = compilers_of(daemon)
        os.kill(pid, signal.SIGKILL)
        run_until_kernels(daemon, client, 6, 2)
        [second] = compilers_of(daemon)
        os.kill(second, signal.SIGSTOP)
        time.sleep(0.1)
        expected = run(client, 9)  # nobody waits for it
        assert numpy.array_equal(run(client, 9), expected)
        os.kill(second, signal.SIGKILL)
        run_until_kernels(daemon, client, 10, 3)


@needs_nvrtc
def test_a_new_worker_is_sent_what_there_is(programs):
    with serve(programs) as daemon, daemon.client() as client:
        run_until_kernels(daemon, client, 5, 1)
        sums(daemon, 1)  # the log's thread writes it, and would end with the worker
        daemon.kill_worker()
        assert kernels_of(daemon) == [0]
        run(client, 5)
        assert kernels_of(daemon) == [1]
        first, second = sums(daemon, 2)
        assert first == second
        assert len(compilers_of(daemon)) == 1


@needs_nvrtc
def test_a_restart_finds_kernels_in_files(programs, tmp_path):
    folder = tmp_path / "kernels"
    with serve(programs, "--kernel-cache", folder) as daemon, daemon.client() as client:
        run_until_kernels(daemon, client, 5, 1)
        [kernel] = sums(daemon, 1)
        eventually(lambda: [f for f in folder.iterdir() if f.suffix != ".part"], "its file")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    [file] = folder.iterdir()
    assert re.fullmatch("[0-9a-f]{64}", file.name) and stat.S_IMODE(file.stat().st_mode) == 0o600
    before = file.stat().st_ino
    with serve(programs, "--kernel-cache", folder) as daemon, daemon.client() as client:
        run_until_kernels(daemon, client, 5, 1)
        assert sums(daemon, 1) == [kernel]
    assert file.stat().st_ino == before  # not written again


@needs_nvrtc
@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "other", "link"])
def test_a_broken_file_is_made_again(programs, tmp_path, harm):
    folder = tmp_path / "kernels"
    with serve(programs, "--kernel-cache", folder) as daemon, daemon.client() as client:
        run_until_kernels(daemon, client, 5, 1)
        [kernel] = sums(daemon, 1)
        eventually(lambda: [f for f in folder.iterdir() if f.suffix != ".part"], "its file")
    [file] = folder.iterdir()
    whole = file.read_bytes()
    file.unlink()
    if harm == "flip":
        file.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
    elif harm == "link":
        (tmp_path / "elsewhere").write_bytes(whole)
        file.symlink_to(tmp_path / "elsewhere")
    else:
        file.write_bytes({"cut": whole[:-1], "empty": b"", "other": os.urandom(len(whole))}[harm])
    with serve(programs, "--kernel-cache", folder) as daemon, daemon.client() as client:
        run_until_kernels(daemon, client, 5, 1)
        assert sums(daemon, 1) == [kernel]
        eventually(lambda: not file.is_symlink() and file.exists() and file.read_bytes() == whole, "its file again")


@needs_nvrtc
def test_a_folder_that_others_may_write_is_not_used(programs, tmp_path):
    folder = tmp_path / "kernels"
    folder.mkdir()
    folder.chmod(0o777)
    with serve(programs, "--kernel-cache", folder) as daemon, daemon.client() as client:
        run_until_kernels(daemon, client, 5, 1)
        eventually(lambda: "nobody else may write" in daemon.log(), "the reason in the log")
    assert list(folder.iterdir()) == []


@needs_nvrtc
def test_a_flood_of_stencils_compiles_and_keeps_little(programs):
    """A flood of new stencils leaves a bounded number of kernels, and neither the compiler nor the front grows."""
    with serve(programs) as daemon, daemon.client() as client:
        field = client.put(FIELD)
        out = client.put(FIELD)
        number, begun = 0, time.monotonic()
        while number <= 100 or time.monotonic() - begun < FLOOD_S:
            number += 1
            client.call("stencil", f={"field": field}, out={"field": out}, **stencil_of(number))
        assert 1 <= len(sums(daemon, 1)) <= 16 + (time.monotonic() - begun) / 2 + 1
        assert kernels_of(daemon)[0] <= 16
        assert daemon.stats()["user"]["front_bytes"] < 64 << 20
        assert all(memory_bytes(pid, "VmRSS") < 512 << 20 for pid in compilers_of(daemon))


@needs_nvrtc
@needs_root
def test_a_flood_takes_no_kernel_of_another_user(programs):
    with serve(programs, "--mode", "0666") as daemon, daemon.client() as client:
        run_until_kernels(daemon, client, 5, 1)
        [(slot, kernel)] = sums(daemon, 1)

        def flood(other):
            for number in range(100, 140):
                run(other, number)

        daemon.as_user(12345, flood)
        run(client, 5)
        found = sums(daemon)  # the flood's may still come, but none in its place, and it is not sent again
        assert [other for other, _ in found].count(slot) == 1
        assert [other for _, other in found].count(kernel) == 1


def test_without_a_compiler_everything_is_answered(programs):
    (programs / "fdcompile").unlink()
    with serve(programs) as daemon, daemon.client() as client:
        expected = run(client, 5)
        assert numpy.array_equal(run(client, 5), expected)
        assert kernels_of(daemon) == [0]
        reason = "no kernels are compiled for stencils: fdcompile is not beside fdserver"
        eventually(lambda: reason in daemon.log(), "the reason in the log")


def test_a_compiler_that_does_not_start_is_tried_less_and_less(programs):
    (programs / "fdcompile").unlink()
    shutil.copy("/bin/false", programs / "fdcompile")
    with serve(programs) as daemon, daemon.client() as client:
        for number in range(1, 6):
            run(client, number)
        for pause in 1, 2:
            eventually(lambda: f"no kernels are compiled for stencils in the next {pause} s" in daemon.log(), "the pause")
        assert kernels_of(daemon) == [0]


def test_fdcompile_started_by_hand_says_what_it_is():
    by_hand = subprocess.run([binary("fdcompile")], capture_output=True, text=True, check=False)
    assert by_hand.returncode == 2 and "Started by fdserver" in by_hand.stderr
    version = subprocess.run([binary("fdcompile"), "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("fdcompile ")

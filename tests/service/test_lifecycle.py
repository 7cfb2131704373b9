"""The daemon's start, socket activation and end."""

import contextlib
import grp
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import time

import pytest

from fdtest import (Client, DEVICE, Daemon, ENDLESS, MiB, Region, SANITIZER, assert_serves, binary, clean_environment,
                    eventually, needs_root, process_status, wave)


def start_refused(*options, **environment):
    """A start that must fail: (exit status, its message)."""
    ended = subprocess.run([binary("fdserver"), "--device", DEVICE, *options], env=clean_environment(environment), timeout=120,
                           capture_output=True, text=True)
    assert ended.returncode != 0 and not SANITIZER.search(ended.stderr), ended.stderr
    return ended.returncode, ended.stderr


def lasting_job(client):
    """A diffusion that takes long enough for several progress notifications, and its result."""
    steps = 1000
    while True:
        job = {"f": wave(256, 256), "steps": steps, "dt": 0.05, "progress": True}
        client.notifications.clear()
        result = client.out("diffusion", **job)
        if len(client.notifications) >= 5:
            client.notifications.clear()
            return job, result
        steps *= 4


def cpu_seconds(daemon):
    """The front's CPU time."""
    fields = open(f"/proc/{daemon.process.pid}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("busy_poll_us", [0, 50_000])
def test_a_server_without_jobs_sleeps(busy_poll_us):
    with Daemon("--busy-poll-us", busy_poll_us) as daemon, daemon.client() as client:
        field = client.call("put", f=wave(32, 32))["field"]
        for _ in range(20):
            client.call("derivative", f={"field": field}, axis="x")
        time.sleep(0.2)  # it may still busy-poll
        begin, begun = cpu_seconds(daemon), time.monotonic()
        time.sleep(1)
        assert cpu_seconds(daemon) - begin < 0.3 * (time.monotonic() - begun)
        assert_serves(client)


@pytest.mark.parametrize("option", ["--busy-poll-us", "--look-us"])
def test_busy_polling_spends_a_core(option):
    """By its name and by the older one: after a message the front polls for a second."""
    with Daemon(option, 1_000_000) as daemon, daemon.client() as client:
        begin = cpu_seconds(daemon)
        eventually(lambda: client.call("ping") is not None and cpu_seconds(daemon) - begin > 1, "a second of polling")


def sigterm_comes_in_time():
    """Of six jobs one runs: it is finished, and who has not begun is answered. False: all had ended before."""
    with Daemon("--drain-timeout-s", 600) as daemon:
        client = daemon.client()
        job, expected = lasting_job(client)
        running = client.send("diffusion", **job)
        queued = [client.send("diffusion", f=wave(256, 256), steps=2000, dt=0.05) for _ in range(5)]
        client.await_note()
        client.call("ping")  # all six are accepted
        daemon.process.send_signal(signal.SIGTERM)
        outcomes = {}
        for _ in range(6):
            msgid, error, result = client.recv_any()
            outcomes[msgid] = error, result
        error, result = outcomes[running]
        assert error is None and result["out"].tobytes() == expected.tobytes()
        for job in queued:
            error, _ = outcomes[job]
            assert error is None or (error.code == "SHUTTING_DOWN" and error.retryable)
        assert client.closed_by_server() == []
        assert daemon.wait() == 0
        assert not os.path.exists(daemon.path)
        return any(outcomes[job][0] for job in queued)


def test_sigterm_finishes_what_runs_and_answers_the_rest():
    assert any(sigterm_comes_in_time() for _ in range(5))


def test_a_request_that_comes_while_draining():
    with Daemon("--drain-timeout-s", 600) as daemon:
        client = daemon.client()
        running = client.send("diffusion", **lasting_job(client)[0])
        client.await_note()
        daemon.process.send_signal(signal.SIGTERM)
        eventually(lambda: not os.path.exists(daemon.path), "the socket's path gone")
        ended = contextlib.suppress(EOFError, ConnectionError)  # the drain, before the late request was sent or read
        late = None
        with ended:
            late = client.send("derivative", f=wave(64), axis="x")
        assert client.outcome(running)[0] is None
        with ended:
            assert late is None or client.error(late).code == "SHUTTING_DOWN"
        assert daemon.wait() == 0


def test_a_job_that_outlasts_the_drain_is_ended():
    with Daemon("--drain-timeout-s", 1) as daemon:
        client = daemon.client()
        running = client.send("diffusion", f=wave(512, 512), progress=True, **ENDLESS)
        client.await_note()
        daemon.process.send_signal(signal.SIGTERM)
        assert client.error(running).code in ("SHUTTING_DOWN", "CANCELLED", "TIMEOUT")
        assert daemon.wait() == 0


def test_a_client_that_never_reads_does_not_hold_up_the_end():
    with Daemon("--drain-timeout-s", 1) as daemon:
        idle = daemon.client()
        idle.send("derivative", f=wave(64, 256, 256), axis="x")
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.wait() == 0


def test_sigterm_with_idle_connections_and_sigint():
    for number in (signal.SIGTERM, signal.SIGINT):
        with Daemon() as daemon:
            client = daemon.client()
            client.call("ping")
            daemon.process.send_signal(number)
            assert client.closed_by_server() == []
            assert daemon.wait() == 0


def test_a_hang_up_of_the_terminal_ends_nothing():
    with Daemon() as daemon, daemon.client() as client:
        field = client.put(wave(64))
        os.kill(daemon.pid, signal.SIGHUP)
        for pid in daemon.worker_pids():
            os.kill(pid, signal.SIGHUP)
        assert client.get(field).tobytes() == wave(64).tobytes()
        assert daemon.generation() == 1
        client.free(field)


@pytest.mark.parametrize("closed", [[0, 1, 2], [2]])
def test_without_standard_descriptors(closed):
    """Closed standard descriptors are not reused, and log lines go only to stderr."""
    with Daemon(preexec_fn=lambda: [os.close(descriptor) for descriptor in closed]) as daemon:
        for descriptor in closed:
            assert os.readlink(f"/proc/{daemon.pid}/fd/{descriptor}") == "/dev/null"
        daemon.assert_serves()


def test_told_to_end_again_and_again():
    """It ends in the same way, however long its workers take."""
    for number in (signal.SIGTERM, signal.SIGINT):
        with Daemon("--staging-bytes", 64 * MiB) as daemon:
            region = Region(MiB)
            with daemon.client() as client:
                region.register(client)  # there are threads, then
                client.put(wave(64, 512, 512))
            while daemon.process.poll() is None:
                daemon.process.send_signal(number)
            assert daemon.wait() == 0


def test_signals_interrupt_nothing():
    """They are read in the loop: a handler could interrupt another where libuv's wait for one another."""
    numbers = sum(1 << number - 1 for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD))
    with Daemon() as daemon:
        blocked = {thread: int(process_status(thread, "SigBlk"), 16) for thread in os.listdir(f"/proc/{daemon.pid}/task")}
        assert len(blocked) >= 5 and all(mask & numbers == numbers for mask in blocked.values()), blocked


def test_workers_end_with_the_front():
    """Killed by SIGKILL, it leaves no worker behind."""
    daemon = Daemon()
    workers = daemon.worker_pids()
    daemon.process.kill()
    daemon.wait()

    def ended(pid):
        try:
            return process_status(pid, "State") == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True
    eventually(lambda: all(ended(pid) for pid in workers), "no worker")


def test_a_regular_file_in_the_place_of_the_socket(tmp_path):
    path = tmp_path / "fdserver.sock"
    path.write_text("precious")
    status, said = start_refused("--listen", f"unix:{path}")
    assert status == 1 and str(path) in said
    assert path.read_text() == "precious"


def test_a_start_that_fails_early(tmp_path):
    """Before there is any device, or a place where nodes join."""
    status, said = start_refused("--listen", f"unix:{tmp_path}/fdserver.sock", "--trace", f"{tmp_path}/absent/trace")
    assert status == 1 and "absent/trace" in said


def test_a_live_servers_socket():
    with Daemon() as daemon:
        status, said = start_refused("--listen", f"unix:{daemon.path}")
        assert status == 1 and daemon.path in said
        daemon.assert_serves()


@needs_root
def test_a_socket_of_somebody_else(tmp_path):
    path = tmp_path / "fdserver.sock"
    with socket.socket(socket.AF_UNIX) as foreign:
        foreign.bind(str(path))
    os.chown(path, 65534, 65534)
    status, said = start_refused("--listen", f"unix:{path}")
    assert status == 1 and str(path) in said
    assert stat.S_ISSOCK(path.lstat().st_mode)


def test_a_symbolic_link_is_not_followed(tmp_path):
    target, link = tmp_path / "target", tmp_path / "fdserver.sock"
    target.write_text("precious")
    link.symlink_to(target)
    status, _ = start_refused("--listen", f"unix:{link}")
    assert status == 1 and target.read_text() == "precious" and link.is_symlink()


def test_a_stale_socket_is_taken_over(tmp_path):
    path = tmp_path / "fdserver.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    with Daemon("--listen", f"unix:{path}") as daemon:
        with Client(str(path)) as client:
            assert_serves(client)
        daemon.assert_serves()  # several sockets, one server
    assert not path.exists()


def test_a_folder_that_is_not_there(tmp_path):
    status, said = start_refused("--listen", f"unix:{tmp_path}/absent/fdserver.sock")
    assert status == 1 and "absent" in said


def test_a_path_that_is_too_long(tmp_path):
    """libuv would truncate it, and the socket would be elsewhere."""
    status, said = start_refused("--listen", f"unix:{tmp_path}/{'x' * 120}")
    assert status != 0 and "xxx" in said
    assert list(tmp_path.iterdir()) == []


def test_mode_and_group_of_the_socket():
    with Daemon() as daemon:
        assert stat.S_IMODE(os.stat(daemon.path).st_mode) == 0o660
    group = grp.getgrgid(os.getgid()).gr_name
    if os.geteuid() == 0:
        group = "daemon"
    with Daemon("--mode", "0600", "--group", group) as daemon:
        status = os.stat(daemon.path)
        assert stat.S_IMODE(status.st_mode) == 0o600
        assert grp.getgrgid(status.st_gid).gr_name == group


def test_a_group_that_is_not_there(tmp_path):
    status, said = start_refused("--listen", f"unix:{tmp_path}/s", "--group", "no-such-group")
    assert status != 0 and "no-such-group" in said
    assert list(tmp_path.iterdir()) == []


def test_the_default_path_is_the_users_own(tmp_path):
    """If /run/fdserver is not writable, the user's runtime folder is used."""
    if os.access("/run/fdserver", os.W_OK):
        pytest.skip("/run/fdserver is writable here, and may be in use")
    with Daemon(listen=False, wait=False, env={"XDG_RUNTIME_DIR": str(tmp_path)}) as daemon:
        daemon.path = str(tmp_path / "fdserver.sock")
        eventually(daemon.answers, "an answer")


def test_a_socket_from_systemd(tmp_path):
    """LISTEN_FDS as systemd passes it; the path does not belong to the daemon, which does not remove it."""
    path = str(tmp_path / "activated.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        # The pid is known in the child alone, and stays over exec.
        hand_over = (f"import os, sys; os.dup2({listener.fileno()}, 3); "
                     "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1'); "
                     "os.execv(sys.argv[1], sys.argv[1:])")
        command = [sys.executable, "-c", hand_over, binary("fdserver"), "--device", DEVICE]
        process = subprocess.Popen(command, env=clean_environment(), pass_fds=[listener.fileno()],
                                   stderr=subprocess.PIPE, text=True)
    try:
        with Client(path) as client:  # queued in the socket until the daemon accepts
            assert_serves(client)
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 0 and not SANITIZER.search(said), said
    assert os.path.exists(path)


def test_with_systemd_socket_activate(tmp_path):
    import shutil
    if not shutil.which("systemd-socket-activate"):
        pytest.skip("no systemd-socket-activate")
    path = str(tmp_path / "activated.sock")
    process = subprocess.Popen(["systemd-socket-activate", "-l", path, binary("fdserver"), "--device", DEVICE],
                               stderr=subprocess.PIPE, text=True)
    try:
        eventually(lambda: os.path.exists(path), "the socket")

        def served():
            try:
                with Client(path) as client:
                    assert_serves(client)
                    return True
            except ConnectionRefusedError:  # bound, and not yet listening
                return False
        eventually(served, "an answer")
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 0 and not SANITIZER.search(said), said


def test_notifications_to_the_service_manager(tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(120)
        with Daemon(env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "400000"}, wait=False) as daemon:  # few messages wait to be read
            while "READY=1" not in (said := manager.recv(4096).decode().split("\n")):
                assert said == ["WATCHDOG=1"]  # its devices take longer to start
            assert os.path.exists(daemon.path), "ready means that it listens"
            for _ in range(3):
                assert "WATCHDOG=1" in manager.recv(4096).decode().split("\n")
            daemon.process.send_signal(signal.SIGTERM)
            while "STOPPING=1" not in (said := manager.recv(4096).decode().split("\n")):
                pass
            assert "EXTEND_TIMEOUT_USEC=45000000" in said  # with the default drain
            assert daemon.wait() == 0


def test_the_watchdog_of_another_process_is_not_ours(tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(120)
        with Daemon(env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "100000", "WATCHDOG_PID": "1"}) as daemon:
            assert "READY=1" in manager.recv(4096).decode()
            daemon.process.send_signal(signal.SIGTERM)
            assert "STOPPING=1" in manager.recv(4096).decode()
            daemon.wait()


def test_what_stats_counts_of_a_user_who_is_alone():
    """The same for the user as for all; each value has its own name."""
    with Daemon() as daemon, Client(daemon.path) as client:
        fields = [client.put(wave(64, seed=i)) for i in range(3)]
        for _ in range(4):
            client.call("laplacian", f={"field": fields[0]})
        for code, params in (("CANCELLED", {}), ("TIMEOUT", {"timeout": 10_000}), ("TIMEOUT", {"timeout": 10_000})):
            job = client.send("diffusion", f=wave(64, 64), steps=10**9, cfl=0.5, accuracy=2, **params)
            if code == "CANCELLED":
                client.call("cancel", msgid=job)
            assert client.error(job).code == code
        for _ in range(5):
            assert client.outcome(client.send("laplacian", f=wave(64), accuracy=3))[0].code == "INVALID_ARGUMENT"
        Region(MiB).register(client)
        stats = eventually(lambda: (now := client.call("stats"))["totals"]["jobs"] == 0 and now, "no job")
        user, totals = stats["user"], stats["totals"]
        assert set(user) == set(totals) | {"uid", "connections", "queue_bytes", "quota_bytes", "regions", "exports"}
        assert {key: user[key] for key in totals} == totals
        assert stats["connections"] == user["connections"] == 1
        assert (totals["fields"], totals["bytes"]) == (3, 3 * 64 * 4)
        assert (totals["done"], totals["cancelled"], totals["timed_out"], totals["refused"], totals["failed"]) == \
               (3 + 4, 1, 2, 5, 0)
        assert (user["regions"], totals["region_bytes"]) == (1, MiB)
        assert (totals["bytes_in"], totals["bytes_out"]) == (3 * 64 * 64 * 4, 4 * 64 * 4)
        assert set(stats["queue"]) == {"waiting", "queued", "running", "replying", "bytes"}
        assert set(stats["staging"]) == {"bytes", "upload_bytes", "reply_bytes"}


def test_every_line_of_the_log_has_its_priority():
    with Daemon() as daemon:
        daemon.assert_serves()
        daemon.process.send_signal(signal.SIGTERM)
        daemon.wait()
        lines = daemon.log().splitlines()
        assert lines
        assert all(line[0] == "<" and line[1] in "34567" and line[2] == ">" for line in lines), lines


def test_out_of_descriptors_is_no_end():
    """With few descriptors left, connected clients continue, and others are accepted later."""
    with Daemon(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))) as daemon:
        first = daemon.client()
        assert_serves(first)
        crowd = [socket.socket(socket.AF_UNIX) for _ in range(100)]
        for one in crowd:
            one.connect(daemon.path)
        assert_serves(first)
        for one in crowd:
            one.close()
        eventually(daemon.admits, "another who gets in")
        daemon.assert_serves()

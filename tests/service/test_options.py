"""Options, their variables, --help, info and stats."""

import os
import re
import subprocess

import pytest

from fdtest import Client, Daemon, MiB, assert_serves, binary, clean_environment, eventually, process_status, wave

NAMES = ["listen", "group", "mode", "device", "nodes", "join", "node", "cluster-key", "nccl", "threads", "staging-bytes", "front-bytes", "user-bytes", "device-memory",
         "mailbox-bytes", "region-bytes", "region-memory", "max-regions",
         "user-queue-jobs", "user-queue-bytes", "max-queue-jobs", "max-queue-bytes", "max-jobs",
         "max-fields", "max-connections", "max-work", "upload-timeout-s", "drain-timeout-s", "busy-poll-us", "look-us", "log-level",
         "kernel-cache", "trace", "trace-bytes"]


def run(*arguments, **environment):
    return subprocess.run([binary("fdserver"), *arguments], env=clean_environment(environment), capture_output=True,
                          text=True, timeout=120)


def test_help_lists_every_option_and_its_variable():
    ended = run("--help")
    assert ended.returncode == 0 and ended.stderr == ""
    for name in NAMES:
        assert f"--{name} " in ended.stdout
        assert "FDSERVER_" + name.upper().replace("-", "_") in ended.stdout
    assert set(re.findall(r"^ +--([a-z-]+) ", ended.stdout, re.M)) == set(NAMES)


def test_version():
    ended = run("--version")
    assert ended.returncode == 0 and re.fullmatch(r"fdserver \d+\.\d+\.\d+\n", ended.stdout)
    with Daemon() as daemon:
        assert daemon.info()["version"] in ended.stdout


def test_the_manual_comes_from_the_same_table():
    ended = run("--manual")
    assert ended.returncode == 0
    for name in NAMES:
        assert f"--{name}" in ended.stdout


def test_threads():
    """The option and the variable set the number of computing threads; results have the same bits."""
    running, results = {}, {}
    for count, options, env in ((1, ["--threads", 1], {}), (4, [], {"FDSERVER_THREADS": "4"})):
        with Daemon(*options, device="host", env=env) as daemon:
            client = daemon.client()
            device = client.call("info")["devices"][0]
            assert device["units"] == count
            running[count] = int(process_status(device["pid"], "Threads"))
            results[count] = client.out("diffusion", f=wave(96, 97, 98), steps=5, cfl=0.5)
    assert running[4] - running[1] == 3
    assert results[4].tobytes() == results[1].tobytes()


@pytest.mark.parametrize("arguments", [
    ["--nonsense"], ["nonsense"], ["--max-jobs"], ["--max-jobs", "many"], ["--max-jobs", "-1"],
    ["--max-jobs", "0"], ["--max-jobs", "1.5"], ["--max-jobs", "99999999999999999999999"],
    ["--staging-bytes", "1"], ["--staging-bytes", "16Q"], ["--staging-bytes", "99999999999T"],
    ["--mode", "999"], ["--mode", "rw"], ["--mode", "7777"], ["--log-level", "99"], ["--device", ""],
    ["--listen", "tcp:127.0.0.1:80"], ["--listen", "unix:"], ["--listen", "fdserver.sock"], ["--group", ""],
    ["--upload-timeout-s", "0"], ["--threads", "-1"], ["--threads", "1025"], ["--max-jobs="],
])
def test_wrong_options(arguments):
    ended = run(*arguments)
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1 and arguments[0].split("=")[0] in ended.stderr


@pytest.mark.parametrize("device", ["gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1,cuda:1", "host,", "auto,host"])
def test_wrong_devices(device, tmp_path):
    ended = run("--device", device, "--listen", f"unix:{tmp_path}/s")
    assert ended.returncode == 2 and device in ended.stderr


def test_a_wrong_variable_is_as_wrong_as_an_option():
    ended = run(FDSERVER_MAX_JOB="2", FDSERVER_MAX_JOBS="many")
    assert ended.returncode == 2 and "FDSERVER_MAX_JOBS many" in ended.stderr
    assert "FDSERVER_MAX_JOB in the environment is no option" in ended.stderr


def test_a_limit_is_named_as_its_option_takes_it():
    assert "0777" in run("--mode", "7777").stderr
    assert "1048576" in run("--max-jobs", "0").stderr


def test_variables_hold_and_options_hold_over_them():
    environment = {"FDSERVER_MAX_JOBS": "77", "FDSERVER_STAGING_BYTES": "32M", "FDSERVER_USER_BYTES": "1G"}
    with Daemon("--max-jobs=55", env=environment) as daemon:
        limits = daemon.info()["limits"]
        assert limits["max_jobs"] == limits["user_queue_jobs"] == 55
        assert limits["staging_bytes"] == 32 * MiB
        assert limits["user_bytes"] == 1024 * MiB


def test_listen_in_the_environment_is_a_list(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    listen = ",".join(f"unix:{path}" for path in paths)
    with Daemon(listen=False, wait=False, env={"FDSERVER_LISTEN": listen}) as daemon:
        daemon.path = str(paths[0])
        eventually(daemon.answers, "an answer")
        for path in paths:
            with Client(str(path)) as client:
                assert_serves(client)


def test_info():
    with Daemon() as daemon:
        eventually(lambda: daemon.device()["state"] == "ready", "ready")
        info = daemon.info()
        assert info["pid"] == daemon.pid
        [device] = [{k: d[k] for k in ("name", "kind", "model", "state", "generation", "pid", "memory_bytes",
                                       "fields_bytes")} for d in info["devices"][:1]]
        assert device["state"] in ("ready", "stalled") and device["generation"] == 1 and device["fields_bytes"] == 0
        assert device["memory_bytes"] > 0 and device["model"]
        assert os.path.basename(os.readlink(f"/proc/{device['pid']}/exe")) == "fdworker"
        assert {"derivative", "laplacian", "diffusion", "put", "get", "free", "list", "ping", "info",
                "stats"} <= set(info["methods"])
        assert info["limits"]["max_jobs"] == 1024 and info["limits"]["max_connections"] == 4096
        assert info["limits"]["staging_bytes"] == 256 * MiB


def test_stats_count_what_happened():
    with Daemon() as daemon, Client(daemon.path) as client:
        before = client.call("stats")
        f = wave(64, 64)
        for _ in range(5):
            client.out("derivative", f=f, axis="x")
        client.refused("derivative", f=f, axis="q")
        after = client.call("stats")
        for part in ("user", "totals"):
            counted = {key: after[part][key] - before[part][key]
                       for key in ("done", "failed", "cancelled", "timed_out", "refused")}
            assert counted == {"done": 5, "failed": 0, "cancelled": 0, "timed_out": 0, "refused": 1}
            # The refused one's bytes came in too.
            assert after[part]["bytes_in"] - before[part]["bytes_in"] == 6 * f.nbytes
            assert after[part]["bytes_out"] - before[part]["bytes_out"] == 5 * f.nbytes
            latency = after[part]["latency_us"]
            assert latency["count"] >= 5
            assert 0 < latency["p50"] <= latency["p99"]
        assert after["user"]["uid"] == os.geteuid()
        assert after["connections"] == 1
        idle = {"waiting": 0, "queued": 0, "running": 0, "replying": 0, "bytes": 0}
        eventually(lambda: client.call("stats")["queue"] == idle, "an idle queue")

        def staging_is_empty():
            staging = client.call("stats")["staging"]
            return staging["upload_bytes"] == staging["reply_bytes"] == 0
        eventually(staging_is_empty, "an empty arena")

"""The job script and the Pod of docs/CLUSTER.md, without Slurm and Kubernetes: the script runs with a srun that only
starts tasks, and what the manifest says is compared with the programs."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy
import pytest
import yaml

from fdtest import (DEVICE, PATIENCE_S, Client, Daemon, MiB, as_user, binary, clean_environment, derivative,
                    eventually, needs_root, stopped, wave)

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "cluster/fdserver.sbatch"

SRUN = f"""#!{sys.executable}
import os, signal, subprocess, sys
options = [a for a in sys.argv[1:] if a.startswith("--")]
command = sys.argv[1 + len(options):]
count = next(int(a.removeprefix("--ntasks=")) for a in options if a.startswith("--ntasks="))
elsewhere = any(a.startswith("--exclude=") for a in options)
tasks, ended = [], []
def end(*_):
    ended.append(True)
    [task.terminate() for task in tasks]
signal.signal(signal.SIGTERM, end)
for rank in range(count):
    there = {{"SLURMD_NODENAME": f"n{{rank + 2}}"}} if elsewhere else {{}}
    tasks.append(subprocess.Popen(command, env=os.environ | {{"SLURM_PROCID": str(rank)}} | there))
if ended:
    end()
sys.exit(max(abs(task.wait()) + 128 * (task.wait() < 0) for task in tasks))
"""
THREE_TASKS = "srun", "--ntasks=3", "--gpus-per-node=0"
SOLVE = """
import os, sys, numpy, fdclient
f = fdclient.empty((48, 64))
rank = int(os.environ["SLURM_PROCID"])
f[:] = numpy.load("in.npy") + rank
client = fdclient.Client()
numpy.save(f"out{rank}.npy", client.run("derivative", f, axis="x"))
numpy.save(f"server{rank}.npy", client.call("info")["pid"])
sys.exit(rank == int(sys.argv[1]) and 7)
"""
# Begins an endless job; on SIGTERM it still needs the server.
SAVE = """
import pathlib, signal, numpy, fdclient
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
client = fdclient.Client()
f = fdclient.empty((64, 64))
f[:] = numpy.arange(64)
u = client.put(f)
job = client.submit("diffusion", f, out="field", steps=10**9, cfl=0.5)
pathlib.Path("begun").touch()
signal.sigwait([signal.SIGTERM])
numpy.save("saved.npy", u.get())
raise SystemExit(9)
"""


class Job:
    """What sbatch would start, in a process group of its own."""

    def __init__(self, folder):
        self.folder, self.temporary, self.programs = folder, folder / "tmp", folder / "bin"
        self.temporary.mkdir()
        self.programs.mkdir()
        self.program("srun", SRUN)
        numpy.save(folder / "in.npy", wave(48, 64))

    def program(self, name, text):
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)

    def start(self, *command, **environment):
        path = self.programs, *(os.path.dirname(binary(name)) for name in ("fdserver", "fdclient")), os.environ["PATH"]
        self.process = subprocess.Popen(
            [shutil.which("bash"), SCRIPT, *command], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, start_new_session=True, env=clean_environment() | {
                "PATH": os.pathsep.join(map(str, path)), "FDSERVER_DEVICE": DEVICE, "TMPDIR": str(self.temporary),
            } | environment)
        return self

    def python(self, program, *arguments, srun=()):
        return self.start(*srun, sys.executable, "-c", program, *arguments)

    def end(self):
        """(status, output, errors); nothing of the job may remain."""
        said = self.process.communicate(timeout=PATIENCE_S)
        assert list(self.temporary.iterdir()) == []
        assert self.processes() == []
        return self.process.returncode, *said

    def processes(self):
        """Those that know the job's folder by their environment: the script, its server and workers, the command."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"TMPDIR={self.temporary}\0".encode() in (process / "environ").read_bytes():
                    found.append((process / "cmdline").read_bytes())
        return found


@pytest.fixture
def job(tmp_path):
    running = Job(tmp_path)
    yield running
    if hasattr(running, "process"):
        with contextlib.suppress(ProcessLookupError):  # if a test has failed, its group remains, even without the script
            os.killpg(running.process.pid, signal.SIGKILL)
        running.process.communicate()


def test_tasks_have_one_server(job):
    status, _, errors = job.python(SOLVE, "-1", srun=THREE_TASKS).end()
    assert status == 0, errors
    assert len({int(numpy.load(job.folder / f"server{rank}.npy")) for rank in range(3)}) == 1
    for rank in range(3):
        numpy.testing.assert_allclose(numpy.load(job.folder / f"out{rank}.npy"), derivative(wave(48, 64)), atol=1e-5)


NODES = {"SLURM_JOB_NUM_NODES": "3", "SLURM_JOB_NODELIST": "localhost,n[2-3]", "SLURM_JOB_ID": str(os.getpid()),
         "SLURMD_NODENAME": "localhost", "FDSERVER_DEVICE": "host"}
SPREAD = """
import numpy, fdclient
client = fdclient.Client()
f = numpy.random.default_rng(1).random((64, 64, 64), "f4")
names = [device["name"] for device in client.call("info")["devices"]]
results = {client.run("laplacian", f, placement=name).tobytes() for name in names}
assert names == ["host", "n2/host", "n3/host", "distributed"] and len(results) == 1, names
"""


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_a_job_of_several_nodes(job):
    """Each with a name of its own, here on one machine."""
    job.program("scontrol", "#!/bin/sh\necho localhost; echo n2; echo n3\n")
    status, _, errors = job.start(sys.executable, "-c", SPREAD, **NODES).end()
    assert status == 0, errors
    assert not list(job.folder.glob(".fdserver-key*"))
    job.program("srun", "#!/bin/sh\nexit 3\n")
    status, _, _ = job.start("touch", "ran", **NODES).end()
    assert status == 1 and not (job.folder / "ran").exists(), "a node that ends is waited for"
    assert not list(job.folder.glob(".fdserver-key*"))


def test_the_status_is_that_of_the_command(job):
    assert job.python(SOLVE, "1", srun=THREE_TASKS).end()[0] == 7
    assert job.start("sh", "-c", "kill -9 $$").end()[0] == 137
    assert job.start("no-such-program").end()[0] == 127
    assert job.start().end()[::2] == (2, "usage: sbatch [OPTION]... fdserver.sbatch COMMAND [ARGUMENT]...\n")


def test_without_a_server_the_command_is_not_run(job):
    for name, refusal in (("cuda:99", "cannot be used"), ("nonsense", "FDSERVER_DEVICE")):
        status, _, errors = job.start("touch", "ran", FDSERVER_DEVICE=name).end()
        assert status == 1 and refusal in errors
    status, _, errors = job.start("touch", "ran", PATH=str(job.programs)).end()
    assert status == 1 and "fdclient" in errors
    assert not (job.folder / "ran").exists()


def test_a_server_that_ends_early_is_told(job):
    status, _, errors = job.python("import os, fdclient; os.kill(fdclient.Client().call('info')['pid'], 9)").end()
    assert status == 0 and "fdserver.sbatch: fdserver ended with status 137\n" in errors


def test_on_sigterm_the_command_ends_before_the_server(job):
    job.python(SAVE)
    eventually((job.folder / "begun").exists, "the job")
    job.process.terminate()
    status, _, errors = job.end()
    assert status == 9, errors
    assert (numpy.load(job.folder / "saved.npy") == numpy.arange(64)).all()
    assert "ended (0)" in errors


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_all_processes_at_once(job, sent):
    """Again and again: none may interrupt the wait for the server, or what is removed at the end."""
    job.start("srun", "--ntasks=2", "--gpus-per-node=0", "sh", "-c", "touch begun$SLURM_PROCID; exec sleep 1000")
    eventually(lambda: len(list(job.folder.glob("begun?"))) == 2, "the tasks")
    while job.process.poll() is None:
        os.killpg(job.process.pid, sent)
        time.sleep(0.005)
    assert job.end()[0] == 143


def test_sigterm_while_the_server_starts(job):
    job.program("fdclient", "#!/bin/sh\ntouch asked; exit 3\n")
    job.start("touch", "ran")
    eventually((job.folder / "asked").exists, "a question")
    job.process.terminate()
    assert job.end()[0] == 143
    assert not (job.folder / "ran").exists()


POD = yaml.safe_load((ROOT / "cluster/fdserver-pod.yaml").read_text())["spec"]
SERVER, = POD["initContainers"]
CLIENTS = POD["containers"]
ARGUMENTS = dict(argument.removeprefix("--").split("=") for argument in SERVER["command"][1:])
PROBES = [SERVER["startupProbe"], SERVER["livenessProbe"]]


@contextlib.contextmanager
def as_in_the_pod(**popen):
    """The manifest's server with this machine's device, and with a folder as an emptyDir is."""
    with tempfile.TemporaryDirectory(prefix="fdserver-") as folder:
        os.chmod(folder, 0o777)
        assert SERVER["command"][0] == "fdserver" and "device" in ARGUMENTS
        options = [f"--{name}={value}" for name, value in ARGUMENTS.items() if name != "device"]
        path = os.path.join(folder, "fdserver.sock")
        with Daemon(*options, f"--listen=unix:{path}", listen=False, wait=False, **popen) as daemon:
            daemon.path = path
            eventually(daemon.answers, "an answer to ping")
            yield daemon


def probed(probe, path):
    """Whether it succeeds, as the kubelet sees it."""
    name, *arguments = probe["exec"]["command"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run([binary(name), *arguments], env={"FDSERVER_SOCKET": f"unix:{path}"}, capture_output=True,
                              timeout=probe["timeoutSeconds"]).returncode == 0
    return False


def quantity(text):
    number, unit = re.fullmatch(r"(\d+)([KMG]i)", text).groups()
    return int(number) << {"Ki": 10, "Mi": 20, "Gi": 30}[unit]


def test_the_socket_is_where_clients_look():
    volume, = POD["volumes"]
    for container, is_client in [(SERVER, False)] + [(container, True) for container in CLIENTS]:
        mount, = container["volumeMounts"]
        assert (mount["name"], mount["mountPath"]) == (volume["name"], "/run/fdserver")
        assert mount.get("readOnly", False) == is_client
    assert "/run/fdserver/fdserver.sock" in (ROOT / "protocol/PROTOCOL.md").read_text() and "listen" not in ARGUMENTS


def test_probes_succeed_while_the_server_answers():
    with as_in_the_pod() as daemon:
        eventually(lambda: all(probed(probe, daemon.path) for probe in PROBES), "answers in time")
        with stopped(daemon.pid):
            assert not any(probed(probe, daemon.path) for probe in PROBES)
    assert not any(probed(probe, daemon.path) for probe in PROBES)


def test_there_is_time_to_drain():
    assert POD["terminationGracePeriodSeconds"] > int(ARGUMENTS["drain-timeout-s"])


def test_limits_hold_what_the_server_may_take():
    with as_in_the_pod() as daemon:
        limits = daemon.info()["limits"]
    server, = (quantity(container["resources"]["limits"]["memory"]) for container in POD["initContainers"])
    takes = limits["staging_bytes"] + limits["front_bytes"] + (limits["max_connections"] << 14)
    worker = compiler = 1024 * MiB
    assert server >= takes + limits["region_memory"] + worker + compiler
    for container in CLIENTS:
        assert quantity(container["resources"]["limits"]["memory"]) > limits["region_memory"]


def test_containers_are_confined():
    assert POD["securityContext"]["runAsNonRoot"] and not POD["automountServiceAccountToken"]
    assert POD["securityContext"]["runAsGroup"] > 0
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (SERVER, *CLIENTS):
        context = dict(container["securityContext"])
        assert context.pop("runAsUser") > 0
        assert context == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                           "capabilities": {"drop": ["ALL"]}}
    assert len({container["securityContext"]["runAsUser"] for container in (SERVER, *CLIENTS)}) == 1 + len(CLIENTS)


@needs_root
def test_the_users_of_the_pod():
    """Another uid of the socket's group is served, and does not see the server's fields; another group is not."""
    server, client = (container["securityContext"]["runAsUser"] for container in (SERVER, CLIENTS[0]))
    group = POD["securityContext"]["runAsGroup"]
    if not as_user(server, lambda: os.access(binary("fdserver"), os.X_OK)):
        pytest.skip("the build folder is not readable for others")
    with as_in_the_pod(user=server, group=group, extra_groups=[]) as daemon:
        def visit():
            with Client(daemon.path) as connection:
                return connection.out("derivative", f=f), connection.call("list")["fields"]
        f = wave(64)
        daemon.client().put(f)
        out, fields = as_user(client, visit, group)
        numpy.testing.assert_allclose(out, derivative(f), atol=1e-5)
        assert fields == []
        with pytest.raises(AssertionError, match="PermissionError"):
            as_user(client, visit)


def test_nodes_in_pods_join_a_head():
    """The manifest's command and key, with this machine's addresses."""
    service, policy, nodes = yaml.safe_load_all((ROOT / "cluster/fdserver-nodes.yaml").read_text())
    pod = nodes["spec"]["template"]["spec"]
    container, = pod["containers"]
    options = dict(argument.removeprefix("--").split("=") for argument in container["command"][1:])
    port, = (each["port"] for each in service["spec"]["ports"])
    assert options["join"] == f"{service['metadata']['name']}:{port}"
    assert policy["spec"]["ingress"][0]["ports"] == [{"port": port}]
    labels = nodes["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["ingress"][0]["from"] == [{"podSelector": {"matchLabels": labels}}]
    mount, = container["volumeMounts"]
    assert options["cluster-key"] == mount["mountPath"] + "/key"
    secret, = (volume["secret"] for volume in pod["volumes"])
    name = f"{nodes['metadata']['name']}-0"  # of the first Pod
    with Daemon(device=f"host,{name}/host", wait=False) as daemon:
        os.chmod(daemon.key, secret["defaultMode"])
        daemon.join(name, "host")
        eventually(daemon.answers, "the node joins")

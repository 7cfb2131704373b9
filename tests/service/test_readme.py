"""The claims of README.md hold: its commands, after demo.sh alone, its options and its figures.

Every block of code is executed except that of the service (systemd), which would change this machine.
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from fdtest import DEVICE, SANITIZER, binary, sanitized

ROOT = pathlib.Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def program(folder, name, text):
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def programs(tmp_path):
    """A folder for a PATH: this Python, a package manager that has every package, and no GPU."""
    folder = tmp_path / "programs"
    folder.mkdir()
    program(folder, "python3", f'exec {sys.executable} "$@"')
    program(folder, "dpkg-query", "echo installed")
    program(folder, "nvidia-smi", "exit 9")
    return folder


@pytest.fixture
def clone(tmp_path):
    """A clone of the repository, with the changes of the working tree."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git repository")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    folder = tmp_path / "clone"
    for name in filter(None, files.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def demo(clone, programs, **variables):
    """./demo.sh, with the programs before all others."""
    env = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"} | variables
    return subprocess.run(["./demo.sh"], cwd=clone, env=env, capture_output=True, text=True)


def blocks():
    """README's blocks of code: (language, text), in order."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S)


def test_every_block_after_demo_alone(clone, programs, tmp_path):
    if sanitized() or DEVICE != "host":
        pytest.skip("the clone's build is of its own kind, for the host")
    two_commands, *followed = blocks()
    assert two_commands[1].splitlines()[0].startswith("./demo.sh ")
    shown = demo(clone, programs)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert len(re.findall(r"RMS error [\d.]+e-0[5-9]", shown.stdout)) == 2, shown.stdout
    assert [folder.name for folder in (clone / "build").iterdir() if folder.is_dir()] == ["demo"]

    script, service = ["set -e", "trap 'kill %1 2>/dev/null || true' EXIT"], []
    names = iter(re.findall(r"[Aa]s `(\w+\.(?:py|c))`:$", README, re.M))
    for language, text in followed:
        if language == "sh":
            script.append(text)
        elif language:
            name = next(names)
            assert name.endswith({"python": ".py", "c": ".c"}[language])
            (clone / name).write_text(text)
        else:
            service += [line.split()[0] for line in text.splitlines()]
    assert next(names, None) is None
    assert service == ["systemd-sysusers", "systemctl", "systemctl", "usermod"]

    ran = subprocess.run(["bash", "-c", "\n".join(script)], cwd=clone, capture_output=True, text=True,
                         env={"PATH": f"{programs}:/usr/bin:/bin", "DESTDIR": str(tmp_path / "root"),
                              "FDSERVER_DEVICE": "host", "PYTHONDONTWRITEBYTECODE": "1"})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert not SANITIZER.search(ran.stderr)
    for name in ("field.derivative.bin", "laplacian.npy", "field.diffusion.bin"):
        assert (clone / name).stat().st_size >= 64**3 * 4
    assert float(re.search(r"^maximum error (\S+)$", ran.stdout, re.M).group(1)) < 1e-9
    assert 0 < float(re.search(r"^decayed to (\S+)$", ran.stdout, re.M).group(1)) < 1
    assert "1048576 bytes of derivative" in ran.stdout
    assert re.findall(r"^step (\d+), ", ran.stdout, re.M) == ["25", "50", "75"]
    assert float(re.search(r"^error (\S+)$", ran.stdout, re.M).group(1)) < 1
    assert list((tmp_path / "root").glob("**/bin/fdserver"))
    ignored = subprocess.run(["git", "check-ignore", "--stdin"], cwd=ROOT, capture_output=True, text=True,
                             input="\n".join({path.name for path in clone.iterdir() if path.is_file()}
                                             - {path.name for path in ROOT.iterdir()})).stdout.split()
    assert {"tour", "tour.c", "tour.py", "arrays.py", "laplacian.npy", "field.bin"} <= set(ignored)


@pytest.mark.parametrize(("gpus", "said", "chosen"), [
    ("exit 9", "nvidia-smi shows no GPU", ["-DFDSERVER_CUDA=OFF"]),
    ("echo 7.5", "nvidia-smi shows no GPU", ["-DFDSERVER_CUDA=OFF"]),
    ("echo 9.0; echo 9.0", "CUDA architectures 90-real)",
     ["-DFDSERVER_CUDA=ON", "-DCMAKE_CUDA_ARCHITECTURES=90-real"]),
    ("echo 12.0; echo 8.0", "CUDA architectures 120-real;80-real)",
     ["-DFDSERVER_CUDA=ON", "-DCMAKE_CUDA_ARCHITECTURES=120-real;80-real"])])
def test_the_demo_builds_for_the_gpus_that_are_there(clone, programs, tmp_path, gpus, said, chosen):
    program(programs, "nvidia-smi", gpus)
    program(programs, "nvcc", "exit 9")
    program(programs, "cmake", f'printf "%s\\n" "$@" >>{tmp_path}/asked; [ "$1" != --build ]')
    shown = demo(clone, programs)
    assert said in shown.stdout, shown.stderr
    if "-DFDSERVER_CUDA=OFF" in chosen:
        assert "cmake --preset release && cmake --build --preset release" in shown.stdout
    asked = (tmp_path / "asked").read_text().split("\n")
    assert asked[:2] == ["--preset", "demo"] and set(chosen) <= set(asked), asked


def test_the_options_that_it_names_are_there():
    helped = subprocess.run([binary("fdserver"), "--help"], capture_output=True, text=True).stdout
    helped += subprocess.run([binary("fdclient"), "--help"], capture_output=True, text=True).stdout
    for name in set(re.findall(r"(?<![\w-])--([a-z][a-z-]+)", README)):
        if name not in ("install", "preset", "create", "now", "cflags", "libs"):  # cmake's, systemd's, pkg-config's
            assert f"--{name}" in helped, f"--{name} is no option"


def test_its_figures_are_those_of_the_results():
    checked = subprocess.run([sys.executable, ROOT / "bench/figures.py", "--check"], capture_output=True, text=True)
    assert checked.returncode == 0, f"bench/figures.py would change:\n{checked.stdout}{checked.stderr}"
    by_hand = re.sub(r"<!-- bench/figures.py.*?<!-- end -->|^```.*?^```$", "", README, flags=re.M | re.S)
    assert re.findall(r".*\d ?(?:[nµm]s|[GM]B/s|jobs/s|×)(?!\w).*", by_hand) == []


def test_figures_that_a_document_got_wrong_are_noticed(tmp_path):
    spec = importlib.util.spec_from_file_location("figures", ROOT / "bench/figures.py")
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    assert figures.quantity(11664.0, "µs") == "11.7 ms"
    assert figures.quantity(3925600.0, "µs") == "3.93 s"
    assert figures.quantity(36.8, "µs") == "36.8 µs"
    assert figures.quantity(216800.0, "jobs/s") == "217,000 jobs/s"
    assert [figures.rounded(ratio, 2) for ratio in (1.7396, 9.0646, 19.94)] == ["1.7", "9.1", "20"]
    for name in ("README.md", "bench/NOTES.md", "bench/figures.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "bench/results", tmp_path / "bench/results")
    document = tmp_path / "README.md"
    shown = re.search(r"\| ([\d.]+) µs \|", document.read_text())
    document.write_text(document.read_text().replace(shown.group(0), "| 1.23 µs |"))
    check = [sys.executable, tmp_path / "bench/figures.py", "--check"]
    assert subprocess.run(check, capture_output=True).returncode == 1
    subprocess.run(check[:2], check=True)
    assert subprocess.run(check, capture_output=True).returncode == 0
    assert document.read_text() == README

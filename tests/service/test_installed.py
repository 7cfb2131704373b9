"""The files that `cmake --install` installs, programs built against them, and systemd's checks of the units."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from fdtest import BUILD, Daemon, sanitized

ROOT = pathlib.Path(__file__).parents[2]
# The exposure that is allowed, in tenths of systemd's own scale from 0 (safe) to 10. A cluster has a network.
EXPOSURE = {"fdserver.service": 15, "fdserver-cluster.service": 18}
UNITS = list(EXPOSURE)
with_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze")
links_the_library = pytest.mark.skipif(sanitized() != "", reason="a program of the user's own does not link "
                                       "a sanitizer's library")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The root of an installed tree, and the prefix in it."""
    root = tmp_path_factory.mktemp("root")
    subprocess.run(["cmake", "--install", str(BUILD)], env=os.environ | {"DESTDIR": str(root)}, check=True,
                   capture_output=True)
    return root, root / cached("CMAKE_INSTALL_PREFIX").lstrip("/")


@pytest.fixture(scope="module")
def units(installed, tmp_path_factory):
    """The installed units, with the paths of programs and documents under the root."""
    root, prefix = installed
    folder = tmp_path_factory.mktemp("units")
    for name in UNITS:
        service = (prefix / "lib/systemd/system" / name).read_text()
        for program in re.findall(r"^ExecStart=(\S+)", service, re.M):
            assert (root / program.lstrip("/")).is_file(), f"{program} is not installed"
            service = service.replace(f"ExecStart={program}", f"ExecStart={root}{program}")
        (folder / name).write_text(service)
    shutil.copy(prefix / "lib/systemd/system/fdserver.socket", folder)
    return folder


def test_what_is_installed(installed):
    _, prefix = installed
    for program in ("fdserver", "fdworker", "fdcompile", "fdbridge", "fdclient"):
        assert os.access(prefix / "bin" / program, os.X_OK)
    assert (prefix / "include/fdclient.h").is_file()
    assert list(prefix.glob("lib/**/libfdclient.*"))
    for document in ("README.md", "protocol/PROTOCOL.md", "protocol/NODES.md", "docs/NUMERICS.md", "CHANGELOG.md", "LICENSE",
                     "docs/CLUSTER.md", "cluster/fdserver.sbatch", "cluster/fdserver-pod.yaml",
                     "cluster/fdserver-nodes.yaml"):
        assert (prefix / "share/doc/fdserver" / document).is_file()


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A prefix that is given only at installation."""
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", str(BUILD), "--prefix", prefix], check=True, capture_output=True)
    return prefix


def cached(name):
    """A value of the build's cache, "" if there is none."""
    found = re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    return found.group(1) if found else ""


def test_manual_pages_are_there_or_missed_aloud(installed, tmp_path):
    _, prefix = installed
    pages = [prefix / "share/man/man8/fdserver.8", prefix / "share/man/man1/fdclient.1"]
    assert [page.is_file() for page in pages] == [not cached("SCDOC").endswith("NOTFOUND")] * 2
    configured = subprocess.run(["cmake", "-S", ROOT, "-B", tmp_path, "-DSCDOC=", "-DFDSERVER_CUDA=OFF",
                                 "-DFDSERVER_TESTS=OFF"], capture_output=True, text=True, check=True)
    assert "No scdoc found: the manual pages fdserver(8) and fdclient(1) are not built" in configured.stdout


def test_the_python_that_was_found_finds_the_module(installed):
    root, _ = installed
    module, = (path for path in root.rglob("fdclient.py") if "doc" not in path.parts)
    looks = subprocess.run([cached("_Python3_EXECUTABLE"), "-c", "import sys; print(*sys.path, sep='\\n')"],
                           capture_output=True, text=True, check=True).stdout.split("\n")
    assert "/" + str(module.parent.relative_to(root)) in looks


def test_no_prefix_is_left_but_that_of_the_system(elsewhere):
    assert list(elsewhere.glob("lib/python3*/site-packages/fdclient.py"))


def test_a_folder_below_the_prefix_comes_first():
    where = subprocess.run([sys.executable, ROOT / "client/python/where.py", sys.prefix], capture_output=True,
                           text=True, check=True)
    assert where.stdout.startswith(sys.prefix + "/") and where.stdout.rstrip("\n") in sys.path
    assert where.stderr == ""


def test_pip_installs_the_module(tmp_path):
    if importlib.util.find_spec("pip") is None:
        pytest.skip("no pip")
    shutil.copytree(ROOT / "client/python", tmp_path / "client/python")
    offline = ["--no-build-isolation"] if importlib.util.find_spec("flit_core") else []
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                    *offline, "--target", "site", "client/python"], cwd=tmp_path, check=True)
    said = subprocess.run([sys.executable, "-c", "import fdclient, importlib.metadata as metadata\n"
                           "print(fdclient.__version__, metadata.version('fdserver-client'), fdclient.__file__)"],
                          env=os.environ | {"PYTHONPATH": str(tmp_path / "site")}, cwd=tmp_path, check=True,
                          capture_output=True, text=True).stdout.split()
    version = re.search(r"^project\(fdserver VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)
    assert said == [version, version, str(tmp_path / "site/fdclient.py")]


CONSUMER = """#include <fdclient.h>
#include <stdio.h>
int main(void)
{
    struct fdclient_error error;
    if (!fdclient_open("unix:/nowhere/s", &error)) puts(error.code);
    return 0;
}
"""


@links_the_library
def test_cmake_finds_the_package(elsewhere, tmp_path):
    (tmp_path / "consumer.c").write_text(CONSUMER)
    version = ".".join(cached("CMAKE_PROJECT_VERSION").split(".")[:2])
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(consumer C)\n"
        f"find_package(fdclient {version} REQUIRED)\n"
        "add_executable(consumer consumer.c)\ntarget_link_libraries(consumer PRIVATE fdclient::fdclient)\n")
    subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={elsewhere}"],
                   check=True)
    subprocess.run(["cmake", "--build", tmp_path / "build"], check=True)
    ran = subprocess.run([tmp_path / "build/consumer"], capture_output=True, text=True, check=True)
    assert ran.stdout == "CONNECTION\n"


@links_the_library
@pytest.mark.parametrize("way", ["shared", "static"])
def test_pkg_config_finds_the_library(elsewhere, tmp_path, way):
    (tmp_path / "consumer.c").write_text(CONSUMER)
    libraries, = {file.parent for file in elsewhere.glob("lib/**/fdclient.pc")}
    options = "--cflags --libs"
    if way == "static":
        for library in elsewhere.glob("lib/**/libfdclient.a"):
            shutil.copy(library, tmp_path)
        options = f"--static {options}"
    script = f"cc consumer.c -o consumer -L. -Wl,-rpath,{libraries.parent} $(pkg-config {options} fdclient)"
    subprocess.run(["bash", "-ec", script], cwd=tmp_path, check=True,
                   env=os.environ | {"PKG_CONFIG_PATH": str(libraries)})
    ran = subprocess.run([tmp_path / "consumer"], capture_output=True, text=True, check=True)
    assert ran.stdout == "CONNECTION\n"


def dead_links(document):
    """Broken relative links of a document."""
    links = re.findall(r"\]\((?!\w+:|#)([^)#]+)[^)]*\)", document.read_text())
    return [f"{document}: {link}" for link in links if not (document.parent / link).exists()]


def test_no_link_is_dead(installed):
    _, prefix = installed
    documents = [ROOT / line for line in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/NOTES.md")]
    documents += [*ROOT.glob("docs/*.md"), *ROOT.glob("bench/results/*.md"), ROOT / "protocol/PROTOCOL.md"]
    documents += prefix.glob("share/doc/**/*.md")
    assert len(documents) > 10
    assert [link for document in documents for link in dead_links(document)] == []


def test_the_installed_server_finds_its_worker(installed):
    _, prefix = installed
    with Daemon(program=prefix / "bin/fdserver") as daemon:
        daemon.assert_serves()
        assert pathlib.Path(os.readlink(f"/proc/{daemon.device()['pid']}/exe")) == prefix / "bin/fdworker"


@with_systemd
def test_units_are_clean(units):
    checked = subprocess.run(["systemd-analyze", "verify", "--man=no", *(units / name for name in UNITS),
                              units / "fdserver.socket"], capture_output=True, text=True)
    assert checked.returncode == 0 and checked.stderr.strip() == "", checked.stderr


@with_systemd
@pytest.mark.parametrize("name", UNITS)
def test_the_service_is_confined(units, name):
    checked = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager",
                              f"--threshold={EXPOSURE[name]}", units / name],
                             capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "Overall exposure level" in checked.stdout


def test_the_unit_waits_longer_than_the_drain(units):
    service = (units / "fdserver.service").read_text()
    assert int(re.search(r"^TimeoutStopSec=(\d+)s$", service, re.M).group(1)) > 30 + 2


def test_the_unit_is_started_again_however_often_it_ends(units):
    unit = (units / "fdserver.service").read_text().split("[Service]")[0]
    assert re.search(r"^StartLimitIntervalSec=0$", unit, re.M)


def test_users_and_folders(installed):
    _, prefix = installed
    for tool, folder in (("systemd-sysusers", "sysusers.d"), ("systemd-tmpfiles", "tmpfiles.d")):
        file = prefix / "lib" / folder / "fdserver.conf"
        assert file.is_file()
        if tool == "systemd-sysusers" and shutil.which(tool):
            checked = subprocess.run([tool, "--dry-run", file], capture_output=True, text=True)
            assert checked.returncode == 0, checked.stderr

"""What `cmake --install` puts where, and what systemd says of the units."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from fdtest import BUILD

if not shutil.which("systemd-analyze"):
    pytest.skip("no systemd-analyze", allow_module_level=True)

EXPOSURE = 15  # tenths: systemd's own scale from 0 (safe) to 100


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The root of an installed tree, and the prefix in it."""
    root = tmp_path_factory.mktemp("root")
    subprocess.run(["cmake", "--install", str(BUILD)], env=os.environ | {"DESTDIR": str(root)}, check=True,
                   capture_output=True)
    prefix = re.search(r"^CMAKE_INSTALL_PREFIX:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    return root, root / prefix.group(1).lstrip("/")


@pytest.fixture(scope="module")
def units(installed, tmp_path_factory):
    """The units as installed, but for their programs' and documents' paths: those lie under the root."""
    root, prefix = installed
    folder = tmp_path_factory.mktemp("units")
    service = (prefix / "lib/systemd/system/fdserver.service").read_text()
    for program in re.findall(r"^ExecStart=(\S+)", service, re.M):
        assert (root / program.lstrip("/")).is_file(), f"{program} is not installed"
        service = service.replace(f"ExecStart={program}", f"ExecStart={root}{program}")
    (folder / "fdserver.service").write_text(service)
    shutil.copy(prefix / "lib/systemd/system/fdserver.socket", folder)
    return folder


def test_what_is_installed(installed):
    _, prefix = installed
    for program in ("fdserver", "fdworker", "fdclient"):
        assert os.access(prefix / "bin" / program, os.X_OK)
    assert (prefix / "include/fdclient.h").is_file()
    assert list(prefix.glob("lib/**/libfdclient.*"))
    assert list(prefix.glob("lib/python3*/**/fdclient.py"))
    for document in ("README.md", "PROTOCOL.md", "NUMERICS.md", "CHANGELOG.md", "LICENSE"):
        assert (prefix / "share/doc/fdserver" / document).is_file()


def test_the_installed_server_finds_its_worker(installed, tmp_path):
    from fdtest import Client, DEVICE, assert_serves, eventually
    import signal
    _, prefix = installed
    path = tmp_path / "s"
    process = subprocess.Popen([prefix / "bin/fdserver", "--listen", f"unix:{path}", "--device", DEVICE])
    try:
        eventually(path.exists, "the socket")
        with Client(str(path)) as client:
            assert_serves(client)
            worker = client.call("info")["devices"][0]["pid"]
            assert pathlib.Path(os.readlink(f"/proc/{worker}/exe")) == prefix / "bin/fdworker"
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0


def test_units_are_clean(units):
    checked = subprocess.run(["systemd-analyze", "verify", "--man=no", units / "fdserver.service",
                              units / "fdserver.socket"], capture_output=True, text=True)
    assert checked.returncode == 0 and checked.stderr.strip() == "", checked.stderr


def test_the_service_is_confined(units):
    checked = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager",
                              f"--threshold={EXPOSURE}", units / "fdserver.service"],
                             capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "Overall exposure level" in checked.stdout


def test_the_unit_waits_longer_than_the_drain(units):
    service = (units / "fdserver.service").read_text()
    assert int(re.search(r"^TimeoutStopSec=(\d+)s$", service, re.M).group(1)) > 30 + 2


def test_users_and_folders(installed):
    _, prefix = installed
    for tool, folder in (("systemd-sysusers", "sysusers.d"), ("systemd-tmpfiles", "tmpfiles.d")):
        file = prefix / "lib" / folder / "fdserver.conf"
        assert file.is_file()
        if tool == "systemd-sysusers" and shutil.which(tool):
            checked = subprocess.run([tool, "--dry-run", file], capture_output=True, text=True)
            assert checked.returncode == 0, checked.stderr

"""The README's tour does what it says."""

import pathlib
import re
import subprocess
import sys

import pytest

from fdtest import BUILD, DEVICE, SANITIZER, sanitized

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def tour():
    """The code of the tour: [(language, text)]."""
    text = (ROOT / "README.md").read_text()
    section = re.search(r"^## A minute's tour$(.*?)^## ", text, re.M | re.S).group(1)
    return re.findall(r"^```(\w+)\n(.*?)^```$", section, re.M | re.S)


def test_the_tour(tour, tmp_path):
    if sanitized():
        pytest.skip("a C program of the user's own does not link a sanitizer's library")
    assert [language for language, _ in tour] == ["sh", "python", "c", "sh"]
    start, python, c, compile_and_run = (text for _, text in tour)
    (tmp_path / "build").mkdir()
    (tmp_path / "build/release").symlink_to(BUILD)
    (tmp_path / "client").symlink_to(ROOT / "client")
    (tmp_path / "tour.py").write_text(python)
    (tmp_path / "tour.c").write_text(c)
    script = f"set -e\ntrap 'kill %1; wait %1' EXIT\n{start}\n{sys.executable} tour.py\n{compile_and_run}"
    ran = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300,
                         env={"PATH": "/usr/bin:/bin", "FDSERVER_DEVICE": DEVICE})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert not SANITIZER.search(ran.stderr)
    for name in ("field.derivative.bin", "laplacian.npy", "field.diffusion.bin"):
        assert (tmp_path / name).stat().st_size >= 64**3 * 4
    error = float(re.search(r"^maximum error (\S+)$", ran.stdout, re.M).group(1))
    decayed = float(re.search(r"^decayed to (\S+)$", ran.stdout, re.M).group(1))
    assert error < 1e-9
    assert 0 < decayed < 1
    assert "1048576 bytes of derivative" in ran.stdout


def test_the_options_that_it_names_are_there():
    from fdtest import binary
    helped = subprocess.run([binary("fdserver"), "--help"], capture_output=True, text=True).stdout
    helped += subprocess.run([binary("fdclient"), "--help"], capture_output=True, text=True).stdout
    for name in set(re.findall(r"(?<![\w-])--([a-z][a-z-]+)", (ROOT / "README.md").read_text())):
        if name not in ("install", "create", "now", "libs"):  # cmake's, systemd's, pkg-config's
            assert f"--{name}" in helped, f"--{name} is no option"

"""Calls of the front or of a worker that fail at a test's request: tests/lib/faults.c, preloaded."""

import mmap
import os
import pathlib
import struct
import tempfile

import pytest

from fdtest import BUILD, sanitized

FAIL_AT, ALLOCATIONS, FAILED, NO_THREADS, NO_WATCHES, HOLD, HELD, HANG, GO_ON, SPIN, NO_MEMFDS, MEMFDS_FAILED = (
    range(12))

needs_preload = pytest.mark.skipif(bool(sanitized()), reason="a sanitizer has the allocator")


class Faults:
    """Controls the failures in the processes of a program ("fdserver", "fdworker") that have its `env`."""

    def __init__(self, program, hang=None):
        self.file = tempfile.NamedTemporaryFile(prefix="faults-")
        self.file.write(bytes(4096))
        self.file.flush()
        os.chmod(self.file.name, 0o666)
        self.memory = mmap.mmap(self.file.fileno(), 4096)
        library = pathlib.Path(BUILD) / "tests" / "service" / "libfaults.so"
        assert library.exists(), f"{library} is not built: no call would fail, and tests wait for one that does"
        self.env = {"LD_PRELOAD": str(library), "FAULTS_PROCESS": program, "FAULTS_CONTROL": self.file.name}
        if hang:
            self.env["FAULTS_HANG"] = str(hang)

    def __getitem__(self, which):
        return struct.unpack_from("=Q", self.memory, 8 * which)[0]

    def __setitem__(self, which, value):
        struct.pack_into("=Q", self.memory, 8 * which, value)

    def fail_allocation(self, number):
        """The number-th allocation from now fails, counted from 1; 0: none."""
        self[FAIL_AT] = 0
        self[ALLOCATIONS] = self[FAILED] = 0
        self[FAIL_AT] = number

"""A file system of one file, whose close() waits until the system ends: FUSE's FLUSH is never answered.

As a program: mounts it over the file POINT, passes that file to the server at SOCKET the given number of times, reports
this, and serves until it is killed. No other process has its descriptor, because that process's end would wait, too."""

import contextlib
import ctypes
import os
import signal
import socket
import struct
import subprocess
import sys

import pytest

from fdtest import Client, request_bytes

GETATTR, OPEN, FLUSH, RELEASE, INIT = 3, 14, 25, 18, 26
FORGETS = (2, 42)
ENOSYS = 38
CLONE_NEWNS, CLONE_NEWUSER, PR_SET_PDEATHSIG = 0x20000, 0x10000000, 1
MS_NOSUID_NODEV, MS_REC_PRIVATE = 6, 1 << 14 | 1 << 18

libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(point):
    """Mount over a file, in a separate mount namespace; returns the FUSE device."""
    uid, gid = os.getuid(), os.getgid()
    check(libc.unshare(CLONE_NEWNS | (CLONE_NEWUSER if uid else 0)))
    if uid:
        for name, line in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(line)
    else:
        check(libc.mount(None, b"/", None, MS_REC_PRIVATE, None))
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=100644,user_id=0,group_id=0,allow_other"
    check(libc.mount(b"hanging", point.encode(), b"fuse", MS_NOSUID_NODEV, options.encode()))
    return device


def serve(device):
    attributes = struct.pack("=6Q10I", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o100644, 1, 0, 0, 0, 4096, 0)
    answers = {INIT: struct.pack("=4I2H2I2H8I", 7, 31, 0, 0, 16, 12, 4096, 1, 0, 0, *[0] * 8),
               GETATTR: struct.pack("=Q2I", 1 << 20, 0, 0) + attributes,
               OPEN: struct.pack("=Q2I", 1, 0, 0), RELEASE: b""}
    while True:
        _, operation, number = struct.unpack_from("=2IQ", os.read(device, 1 << 16))
        if operation not in FORGETS and operation != FLUSH:
            answer = answers.get(operation, b"")
            error = 0 if operation in answers else -ENOSYS
            os.write(device, struct.pack("=IiQ", 16 + len(answer), error, number) + answer)


def pass_on(path, point, count):
    file = os.open(point, os.O_RDONLY | os.O_CLOEXEC)
    with Client(path) as client:
        for _ in range(count):
            socket.send_fds(client.socket, [request_bytes(0, "ping", {})], [file])
            client.receive_message()
        print("passed", flush=True)
        signal.pause()


def main(path, point, count):
    try:
        device = mount(point)
    except OSError as error:
        sys.exit(f"no FUSE: {error}")
    if os.fork() == 0:
        check(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        os.close(device)
        pass_on(path, point, int(count))
    serve(device)


@contextlib.contextmanager
def hanging_file_passed(path, point, count):
    """The server at `path` receives that many descriptors, each of whose closes waits until the block ends."""
    point.touch()
    with subprocess.Popen([sys.executable, __file__, path, point, str(count)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as system:
        try:
            if system.stdout.readline() != "passed\n":
                error = system.stderr.read()
                pytest.skip(error) if error.startswith("no FUSE") else pytest.fail(error)
            yield
        finally:
            system.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])

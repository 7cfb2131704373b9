"""Another user who takes all that the front permits: for tests of the remaining service. Needs root."""

import contextlib
import os
import select
import signal
import socket

UID = 65534


@contextlib.contextmanager
def neighbour(act):
    """A process of another uid that runs act(begun) during the block; act calls begun() when it has begun."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(UID)
            os.setuid(UID)
            act(lambda: os.write(writer, b"!"))
        finally:
            os._exit(1)
    os.close(writer)
    try:
        assert os.read(reader, 1) == b"!", "the neighbour could not begin"
        yield
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "the neighbour gave up"
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def connect(path):
    one = socket.socket(socket.AF_UNIX)
    one.connect(path)
    return one


def send_without_end(path, message, connections):
    """Messages without an answer, as fast as the server reads them."""
    def act(begun):
        block = message * 8192
        poll, at, ones = select.epoll(), {}, {}
        for _ in range(connections):
            one = connect(path)
            one.setblocking(False)
            ones[one.fileno()], at[one.fileno()] = one, 0
            poll.register(one, select.EPOLLOUT)
        told = False
        while True:
            for descriptor, _ in poll.poll():
                try:
                    at[descriptor] += ones[descriptor].send(block[at[descriptor] % len(block):])
                except BlockingIOError:
                    continue
            if not told:
                begun()
            told = True
    return act


def ask_without_end(path, message, connections, reconnects):
    """One request at a time on each connection; or each request on a new connection."""
    def act(begun):
        poll, ones = select.epoll(), {}

        def begin():
            one = connect(path)
            one.sendall(message)
            ones[one.fileno()] = one
            poll.register(one, select.EPOLLIN)

        for _ in range(connections):
            begin()
        begun()
        while True:
            for descriptor, _ in poll.poll():
                one = ones[descriptor]
                if one.recv(1 << 16) and not reconnects:
                    one.sendall(message)
                    continue
                ones.pop(descriptor).close()
                begin()
    return act

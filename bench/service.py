#!/usr/bin/env python3
"""The service as its clients see it, compared with the machine's floors and with alternatives.

    bench/service.py --build build/release --device cuda:0 --json service.json [--quick]

Starts its own fdservers. The loads are bench_load's, the machine's floors those of bench_kernels and
of a bare socket here, the alternatives those of bench/service_peers.py, all in one run. A row that
cannot be measured (a missing feature, a peer that is not installed) is left out with the reason. Needs
numpy and msgpack; the row of two users needs root. --quick: small arrays and short times, to try the
script; the figures are meaningless.
"""

import contextlib
import json
import os
import pathlib
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import serving

HERE = pathlib.Path(__file__).resolve().parent
ANOTHER_UID = 65534
CHUNK_BYTES = 4 << 20
PATIENCE_S = 40  # for one load
KIB, MIB = 1 << 10, 1 << 20


class LeftOut(Exception):
    """Why a row cannot be measured."""


# ---- rows ----

class Table:
    """Rows: a figure, the floor (or the alternative) that it is compared with, and the bar."""

    def __init__(self, floors):
        self.rows, self.left_out, self.floors = [], [], floors

    def row(self, name, figure, unit, floor=None, floor_name=None, most=None, least=None, ratio_most=None,
            ratio_least=None):
        """The ratio is figure ÷ floor; where ratio_least is given, floor ÷ figure: "× faster"."""
        ratio = None
        if floor:
            ratio = floor / figure if ratio_least is not None else figure / floor
        bars = ((figure, most, 1, f"≤ {most} {unit}"), (figure, least, -1, f"≥ {least} {unit}"),
                (ratio, ratio_most, 1, f"≤ {ratio_most} ×"), (ratio, ratio_least, -1, f"≥ {ratio_least} ×"))
        bar, met = "", None
        for value, limit, sign, text in bars:
            if limit and value is not None:
                bar, met = text, sign * value <= sign * limit
        self.rows.append({"name": name, "figure": rounded(figure), "unit": unit, "floor": rounded(floor),
                          "floor_name": floor_name, "ratio": rounded(ratio), "bar": bar or None, "met": met})

    @contextlib.contextmanager
    def part(self, name):
        """A group of rows that are measured together, and left out together if one of them cannot be."""
        begin = time.monotonic()
        try:
            yield
        except (LeftOut, SystemExit) as reason:
            self.left_out.append({"name": name, "reason": str(reason)})
        except Exception as error:  # any exception: the other rows continue
            self.left_out.append({"name": name, "reason": f"{type(error).__name__}: {error}"})
        print(f"  {name}: {time.monotonic() - begin:.1f} s", file=sys.stderr, flush=True)

    def print(self, title):
        print(title)
        for name, value in self.floors.items():
            print(f"  floor {name:32}{value:12,.2f}")
        print(f"\n{'':52}{'figure':>12} {'':7}{'floor':>12}{'ratio':>9}  bar")
        for row in self.rows:
            met = "" if row["met"] is None else "met" if row["met"] else "MISSED"
            floor = f"{row['floor']:12,.1f}" if row["floor"] else f"{'–':>12}"
            ratio = f"{row['ratio']:9.3f}" if row["ratio"] else f"{'–':>9}"
            print(f"{row['name']:52}{row['figure']:12,.1f} {row['unit']:7}{floor}{ratio}  "
                  f"{row['bar'] or '':18}{met:7} {row['floor_name'] or ''}")
        for row in self.left_out:
            print(f"left out: {row['name']}: {row['reason']}")
        judged = [row["met"] for row in self.rows if row["met"] is not None]
        print(f"{sum(judged)} of {len(judged)} bars met, {len(self.left_out)} parts left out")


def rounded(value):
    return None if value is None else float(f"{value:.5g}")


# ---- a front, and loads on it ----

class Front:
    def __init__(self, options, folder, device, *arguments):
        self.options = options
        self.path = f"{folder}/s"
        self.load_path = shutil.copy(options.build / "bench/bench_load", folder)  # accessible to any uid
        self.process = serving.start(options.build / "server/fdserver", self.path, device, "--mode", "0666",
                                     "--drain-timeout-s", "5", "--log-level", "4", *arguments)
        self.before_any = self.memory("VmRSS")

    def close(self):
        for process in (*self.process.nodes, self.process):
            process.terminate()
            process.wait()
        if os.path.exists(self.path):
            os.unlink(self.path)

    def memory(self, key):
        """Of the front alone, in bytes: VmRSS, VmHWM (its peak), RssAnon."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1]) * KIB
        raise LeftOut(f"/proc does not say {key}")

    def call(self, method):
        with serving.connection(self.path) as (call, *_):
            return call(method)

    def load_begin(self, mode, n, clients=1, in_flight=1, seconds=None, uid=None, idle=0):
        return subprocess.Popen(
            [self.load_path, "--connect", self.path, "--mode", mode,
             "--shape", f"{n},{n},{n}", "--clients", str(clients), "--in-flight", str(in_flight),
             "--seconds", str(seconds or self.options.seconds), "--idle", str(idle)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            **({"user": uid, "group": uid, "extra_groups": []} if uid is not None else {}))

    @staticmethod
    def load_end(load):
        try:
            out, err = load.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            load.kill()
            load.communicate()
            raise LeftOut(f"bench_load was not done after {PATIENCE_S} s") from None
        if load.returncode:
            lines = err.strip().splitlines()
            raise LeftOut(lines[0] if lines else f"bench_load ended with {load.returncode}")
        said = json.loads(out)
        if not said["jobs"]:
            raise LeftOut("no job ended in the time")
        return said

    def load(self, *arguments, **named):
        return self.load_end(self.load_begin(*arguments, **named))


@contextlib.contextmanager
def front(options, device, *arguments):
    with tempfile.TemporaryDirectory(prefix="fdserver-") as folder:
        os.chmod(folder, 0o755)
        server = Front(options, folder, device, *arguments)
        try:
            yield server
        finally:
            server.close()


# ---- floors ----

def kernels(options, *arguments):
    """The JSON that bench_kernels writes."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([options.build / "bench/bench_kernels", "--no-check", "--json", file.name,
                        *(["--quick"] if options.quick else []), *arguments],
                       check=True, stdout=subprocess.DEVNULL)
        return json.load(file)


def receive_into(end, view):
    while view:
        count = end.recv_into(view)
        if not count:
            return False
        view = view[count:]
    return True


def socket_us(size, seconds):
    """Median time for so many bytes through a Unix socket into another process's memory and back: the
    lower bound of an inline job."""
    mine, theirs = socket.socketpair()
    for end in (mine, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MIB)
    child = os.fork()
    if child == 0:
        mine.close()
        memory = memoryview(bytearray(size))
        while receive_into(theirs, memory):
            theirs.sendall(memory)
        os._exit(0)
    theirs.close()
    data, back = memoryview(bytearray(size)), memoryview(bytearray(size))
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 4:
        begin = time.perf_counter()
        mine.sendall(data)
        receive_into(mine, back)
        times.append(time.perf_counter() - begin)
    mine.close()
    os.waitpid(child, 0)
    return 1e6 * statistics.median(times[1:])


def measure_floors(options, sizes):
    said = kernels(options, "--device", options.device, "--floors")
    floors = said["floors"]
    for n in sizes:
        floors[f"socket_{n}_us"] = socket_us(4 * n**3, options.seconds / 2)
    return said, floors


# ---- the table's parts ----

def one_way_us(floors, size):
    """Through PCIe from or to pinned memory, in the slower direction. None without a device."""
    if "pinned_up_gbs" not in floors:
        return None
    return 1e-3 * size / min(floors["pinned_up_gbs"], floors["pinned_down_gbs"])


def region_rows(table, server, peers, sizes):
    medium, large, huge = sizes
    for n, ratio in ((medium, 1.35), (large, 1.25), (huge, 1.2)):
        with table.part(f"{n}³ region to region"):
            figure = server.load("region", n)["p50_us"]
            table.row(f"{n}³ region to region, p50", figure, "µs", one_way_us(table.floors, 4 * n**3),
                      "bytes one way ÷ pinned bandwidth", ratio_most=ratio)
            if n == large:
                for kind, least in (("", 15), (" reused", None), (" pinned", None)):
                    peer_row(table, peers, f"CuPy {n}³{kind}", f"{n}³ region, beside CuPy in process{kind}",
                             figure, least)


def peer_row(table, peers, key, name, figure, least):
    if key in peers["rows"]:
        table.row(name, figure, "µs", peers["rows"][key], key, ratio_least=least or 0)
    else:
        reason = next(reason for peer, reason in peers["missing"].items() if key.startswith(peer))
        table.left_out.append({"name": name, "reason": reason})


def chain_rows(table, server, n, rounds):
    """Four small operators repeated: in one request, with a request a round, and with a request each."""
    with table.part(f"chain of 4 at {n}³"), serving.connection(server.path) as (call, *_):
        array = serving.array(n, n, n)
        u, a, b, c = ({"field": call("put", f=array)["field"]} for _ in range(4))
        ops = [{"op": "derivative", "f": u, "out": a, "axis": "x"},
               {"op": "derivative", "f": a, "out": b, "axis": "y"}, {"op": "laplacian", "f": b, "out": c},
               {"op": "diffusion", "f": u, "out": u, "steps": 1, "cfl": 0.5}]
        singles = [({key: value for key, value in op.items() if key != "op"}, op["op"]) for op in ops]

        def each_us(times, do):
            do(times // 10 + 1)  # warm
            begin = time.perf_counter()
            do(times)
            return 1e6 * (time.perf_counter() - begin) / (times * len(ops))

        def in_one(times):
            call("chain", ops=ops, repeat=times)

        def one_a_round(times):
            for _ in range(times):
                call("chain", ops=ops)

        def one_each(times):
            for _ in range(times):
                for parameters, name in singles:
                    call(name, **parameters)

        alone = each_us(rounds, one_each)
        for name, do in ((f"{rounds:,} rounds in one request", in_one), ("a request a round", one_a_round)):
            table.row(f"chain of 4 at {n}³, {name}: an operator", each_us(rounds, do), "µs", alone,
                      "a request each, from Python", ratio_least=0)
        for field in (u, a, b, c):
            call("free", **field)


def all_chain_rows(table, server):
    """A repeated round at 64³ and 66³ is one graph; operators of 512³ are too large: each is a launch."""
    for n, rounds in (64, 1000), (66, 1000), (512, 100):
        chain_rows(table, server, n, rounds // 10 if server.options.quick else rounds)


def inline_rows(table, server, peers, large):
    with table.part(f"{large}³ inline"):
        figure = server.load("inline", large)["p50_us"]
        table.row(f"{large}³ inline, p50", figure, "µs", table.floors[f"socket_{large}_us"],
                  "the socket alone, both ways", ratio_most=1.3)
        peer_row(table, peers, f"gRPC + CuPy {large}³", f"{large}³ inline, beside gRPC + CuPy", figure, 20)


def latency_rows(table, server, peers):
    floors = table.floors
    launch = floors.get("launch_and_wait_us", 0) + floors["socket_round_trip_us"]
    launch_name = "socket's round trip, launch and wait" if "launch_and_wait_us" in floors \
        else "socket's round trip"
    size = 4 * 64**3
    with table.part("64³ resident"):
        said = server.load("resident", 64)
        table.row("64³ resident, one client, p50", said["p50_us"], "µs", launch, launch_name, most=40)
        table.row("64³ resident, one client, p99", said["p99_us"], "µs", launch, launch_name, most=100)
    with table.part("64³ region to region"):
        said = server.load("region", 64)
        one_way = one_way_us(floors, size)
        table.row("64³ region to region, one client, p50", said["p50_us"], "µs",
                  one_way and launch + one_way, launch_name + ", bytes one way", most=100)
    with table.part("64³ inline"):
        said = server.load("inline", 64)
        table.row("64³ inline, one client, p50", said["p50_us"], "µs", floors["socket_64_us"],
                  "the socket alone, both ways", most=350)
        peer_row(table, peers, "gRPC + CuPy 64³", "64³ inline, beside gRPC + CuPy", said["p50_us"], None)


def rate_rows(table, server, peers):
    floors, size = table.floors, 4 * 64**3
    one_way = one_way_us(floors, size)
    limits = {"resident": (floors.get("copy_1mb_us"), "copies of 1 MiB on the device", 100_000),
              "region": (one_way, "PCIe, both ways at once", 20_000),
              "inline": (2e-3 * size / floors["socket_gbs"], "one core's copies through the socket", 4_000)}
    for mode, (limit_us, limit_name, least) in limits.items():
        with table.part(f"64³ {mode}, 8 × 16 in flight"):
            said = server.load(mode, 64, clients=8, in_flight=16)
            table.row(f"64³ {mode}, 8 clients × 16 in flight", said["jobs_per_s"], "jobs/s",
                      limit_us and 1e6 / limit_us, limit_name, least=least)
            if mode == "resident":
                table.row("front: CPU per resident job, 8 × 16 in flight", said["front_cpu_us_per_job"], "µs",
                          most=5)
            key = "gRPC + CuPy 64³ jobs/s"
            if mode == "inline" and key in peers["rows"]:
                table.row(f"64³ {mode}, 8 × 16 in flight, beside gRPC + CuPy", said["jobs_per_s"], "jobs/s",
                          peers["rows"][key], key)


def two_users(table, server, large, bulk_mode, mode):
    with table.part(f"bulk user by {bulk_mode}, interactive user by {mode}"):
        if os.geteuid() != 0:
            raise LeftOut("a load under another uid needs root")
        seconds = server.options.seconds
        bulk = server.load_begin(bulk_mode, large, in_flight=8, seconds=2 * seconds + 1, uid=ANOTHER_UID)
        # Its queue is full when its first jobs have run.
        done = server.call("stats")["totals"]["done"]
        while bulk.poll() is None and server.call("stats")["totals"]["done"] < done + 10:
            time.sleep(0.05)
        try:
            said = server.load(mode, 64, seconds=seconds)
            overlapped = bulk.poll() is None
        finally:
            bulk_said = server.load_end(bulk)
        if not overlapped:
            raise LeftOut("the bulk user's work was over too soon")
        chunk = one_way_us(table.floors, CHUNK_BYTES)
        table.row(f"64³ {mode}, beside {large}³ {bulk_mode} of another user, p99", said["p99_us"], "µs",
                  chunk and 2 * chunk, "two chunks of 4 MiB through PCIe",
                  most=chunk and round(2 * chunk + 200, 1))
        table.row("  its p50", said["p50_us"], "µs")
        table.row("  the bulk user meanwhile", bulk_said["jobs_per_s"], "jobs/s")


def idle_rows(table, server, count):
    """Idle and busy connections of one user, without the kernel's memory for sockets."""
    with table.part(f"{count} idle connections"):
        alone = server.load("resident", 64)
        before, connections = server.memory("VmRSS"), []
        try:
            for _ in range(count):
                connections.append(socket.socket(socket.AF_UNIX))
                connections[-1].connect(server.path)
            if server.call("stats")["connections"] <= count:
                raise LeftOut("the server did not take them all")
            each = (server.memory("VmRSS") - before) / count
            beside = server.load("resident", 64)
        except OSError as error:
            raise LeftOut(f"after {len(connections)} connections: {error}") from error
        finally:
            for connection in connections:
                connection.close()
        table.row(f"front: memory of each of {count:,} idle connections", each / KIB, "KiB", most=10)
        for name, ratio in (("p50", 1.1), ("p99", 1.2)):  # the difference between two runs of one load
            table.row(f"64³ resident beside them, {name}", beside[f"{name}_us"], "µs", alone[f"{name}_us"],
                      f"{name} without them", ratio_most=ratio)


def memory_row(table, server, huge, arena_bytes):
    with table.part(f"memory at {huge}³ inline"):
        server.load("inline", huge)
        connections = server.call("stats")["connections"] + 2  # bench_load's probe and its client
        limit = arena_bytes + 64 * KIB * connections
        table.row(f"front: peak of its memory at {huge}³ inline, growth",
                  (server.memory("VmHWM") - server.before_any) / MIB, "MiB", limit / MIB,
                  "the arena and 64 KiB a connection", ratio_most=1)


def host_rows(table, options, n):
    with table.part(f"host backend, {n}³ region"), front(options, "host") as server:
        row = kernels(options, "--device", "host", "--only", f"derivative x accuracy 8*{n}x{n}x{n} float32 periodic")
        said = server.load("region", n)
        table.row(f"host backend, {n}³ region to region, p50", said["p50_us"], "µs", row["rows"][0]["us"],
                  "the operator in process", ratio_most=1.1)


def measure_peers(options, large):
    """Before a server of ours is started, so that they have the machine to themselves."""
    if options.device == "host":
        return {"rows": {}, "missing": {name: "no GPU is asked for" for name in ("CuPy", "gRPC + CuPy")}}
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([sys.executable, HERE / "service_peers.py", "--large", str(large), "--json", file.name,
                        "--seconds", str(options.seconds)], check=True, stdout=sys.stderr)
        return json.load(file)


def main():
    parser = serving.parser(__doc__, device="host")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, help="for each load (3; quick: 0.5)")
    parser.add_argument("--chains", action="store_true", help="the rows of chains alone, printed and not written")
    options = parser.parse_args()
    options.seconds = options.seconds or (0.5 if options.quick else 3)
    medium, large, huge = (96, 128, 160) if options.quick else (256, 512, 1024)
    host_cube = 128 if options.quick else 256
    idle = 500 if options.quick else 10_000
    arena_bytes = 256 * MIB
    files = idle + 1000  # descriptors: here and in the front, which inherits the limit
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, max(files, hard)) if os.geteuid() == 0 else (hard, hard))

    begin = time.monotonic()
    if options.chains:
        table = Table({})
        with front(options, options.device) as server:
            all_chain_rows(table, server)
        table.print(options.device)
        return
    said, floors = measure_floors(options, (64, large))
    table = Table(floors)
    peers = measure_peers(options, large)
    floors |= {f"{name}{'' if name.endswith('/s') else ' µs'}": rounded(value)
               for name, value in peers["rows"].items()}
    with front(options, options.device, "--staging-bytes", str(arena_bytes), "--region-memory", "32G",
               "--max-connections", str(2 * idle)) as server:
        memory_row(table, server, huge, arena_bytes)  # first, so that the peak is due to it alone
        latency_rows(table, server, peers)
        rate_rows(table, server, peers)
        all_chain_rows(table, server)
        region_rows(table, server, peers, (medium, large, huge))
        inline_rows(table, server, peers, large)
        for bulk_mode, mode in (("region", "resident"), ("region", "region"), ("inline", "resident")):
            two_users(table, server, large, bulk_mode, mode)
        idle_rows(table, server, idle)
    host_rows(table, options, host_cube)
    table.print(f"{said['device']}, driver {said['driver']}; {time.monotonic() - begin:.0f} s")
    serving.write(options.json, {"device": said["device"], "driver": said["driver"], "floors": floors,
                                 "rows": table.rows, "left_out": table.left_out})


if __name__ == "__main__":
    main()

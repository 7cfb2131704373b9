#!/usr/bin/env python3
"""The bounds of kernels by the GPU's own counters: Nsight Compute over rows of bench_kernels.

    bench/counters.py BENCH_KERNELS [ROW…] [--missed KERNELS_JSON] [--json FILE]

ROW: as for bench_kernels --only. --missed: the rows of its JSON that miss their bar, too.

One row per kernel: the bytes that crossed device memory and those that had to; the percentage of time
for which device memory, L2 (its lookups), L1 and shared memory, and issue slots were busy; and the two
most frequent causes of stalls, in warps per scheduler. Clocks are not changed. Needs ncu and the right
to read counters.
"""

import argparse
import csv
import io
import json
import re
import subprocess
import sys

KERNELS = "regex:(along|unaligned|streaming|interior|boundary|vector|gradient|temporal)_"
STALL = "smsp__average_warps_issue_stalled_%s_per_issue_active.ratio"
STALLS = ["long_scoreboard", "short_scoreboard", "barrier", "mio_throttle", "lg_throttle", "math_pipe_throttle",
          "wait", "no_instruction", "branch_resolving", "dispatch_stall", "sleeping", "membar"]
BUSY = {  # percent of its peak
    "device memory": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2 lookups": "lts__t_tag_requests.avg.pct_of_peak_sustained_elapsed",
    "L1": "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
    "shared": "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed",
    "issue": "smsp__issue_active.avg.pct_of_peak_sustained_elapsed",
    "warps": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
PLAIN = {"us": "gpu__time_duration.sum", "read": "dram__bytes_read.sum", "written": "dram__bytes_write.sum",
         "instructions": "smsp__inst_executed.sum"}
UNITS = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "ns": 1e-3, "us": 1, "ms": 1e3, "nsecond": 1e-3,
         "usecond": 1, "msecond": 1e3}


def short_name(kernel):
    return re.sub(r"^void |\(.*", "", kernel)


def profile(bench, row, launches):
    """Metrics by kernel, of its last launch, when caches and clocks are warm."""
    metrics = [*BUSY.values(), *PLAIN.values(), *(STALL % s for s in STALLS)]
    command = ["ncu", "--clock-control", "none", "--cache-control", "none", "--csv", "--print-units", "base",
               "--kernel-name-base", "function", "--kernel-name", KERNELS, "--launch-count", str(launches),
               "--metrics", ",".join(metrics), bench, "--device", "cuda:0", "--no-check", "--only", row]
    run = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in run.stdout.splitlines() if line.startswith('"')]
    if not lines:
        sys.exit(f"{row}: ncu gave no table:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    found = {}
    for entry in csv.DictReader(io.StringIO("\n".join(lines))):
        value = float(entry["Metric Value"].replace(",", "") or "nan") * UNITS.get(entry["Metric Unit"], 1)
        found.setdefault(short_name(entry["Kernel Name"]), {})[entry["Metric Name"]] = value
    return found


def describe(row, kernel, metrics):
    stalls = sorted(((metrics.get(STALL % s, 0), s.replace("_", " ")) for s in STALLS), reverse=True)
    return {
        "row": row, "kernel": kernel,
        **{name: round(metrics[key], 1) for name, key in PLAIN.items()},
        **{name: round(metrics[key], 1) for name, key in BUSY.items()},
        "waits": {name: round(value, 2) for value, name in stalls[:3]},
    }


def missed(path):
    with open(path) as file:
        rows = json.load(file)["rows"]
    return ["{name} {shape} {dtype} {boundary}".format(**row) for row in rows
            if row["bar"] and row["ratio"] < row["bar"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench")
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--missed", metavar="KERNELS_JSON", help="also the rows of it that miss their bar")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--launches", type=int, default=4, metavar="N", help="launches looked at, by row")
    arguments = parser.parse_args()
    rows = arguments.rows + (missed(arguments.missed) if arguments.missed else [])
    results = []
    print(f"{'kernel':34} {'us':>8} {'read MB':>8} {'written':>8} {'M instr':>8} "
          + " ".join(f"{name:>13}" for name in BUSY) + "  waits for")
    for row in rows:
        print(row)
        for kernel, metrics in profile(arguments.bench, row, arguments.launches).items():
            result = describe(row, kernel, metrics)
            results.append(result)
            print(f"  {kernel:32} {result['us']:8.1f} {result['read'] / 1e6:8.0f} {result['written'] / 1e6:8.0f} "
                  f"{result['instructions'] / 1e6:8.1f} " + " ".join(f"{result[name]:12.0f}%" for name in BUSY)
                  + "  " + ", ".join(f"{name} {value}" for name, value in result["waits"].items()), flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"rows": results}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()

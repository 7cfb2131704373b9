#!/usr/bin/env python3
"""Generates the figures of README.md and bench/NOTES.md from bench/results/. Run it after adding results:

    bench/figures.py            # writes the figures between the documents' marks
    bench/figures.py --check    # writes nothing, and fails if a document differs
"""

import difflib
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "bench/results"

# Lines of README.md from rows of h200_service.json: the job, its comparison ("" for none), the row.
SERVICE = (
    ("resident 64³, from request to reply", "", "64³ resident, one client, p50"),
    ("resident 64³, 8 clients with 16 in flight each", "", "64³ resident, 8 clients × 16 in flight"),
    ("512³ from and to shared memory", "CuPy, ordinary memory, a new array for each result",
     "512³ region, beside CuPy in process"),
    ("", "CuPy, ordinary memory, one array for all results", "512³ region, beside CuPy in process reused"),
    ("", "CuPy, pinned memory", "512³ region, beside CuPy in process pinned"),
    ("512³ through the socket", "CuPy behind gRPC", "512³ inline, beside gRPC + CuPy"),
)


def rounded(value, digits):
    """That many significant digits, without an exponent."""
    shown = float(f"{value:.{digits - 1}e}")
    return f"{shown:,.0f}" if shown >= 10 ** (digits - 1) else f"{shown:.{digits}g}"


def quantity(value, unit):
    """Three digits; times in a suitable unit."""
    if unit == "µs" and value >= 1e6:
        value, unit = value / 1e6, "s"
    elif unit == "µs" and value >= 1e3:
        value, unit = value / 1e3, "ms"
    return f"{rounded(value, 3)} {unit}"


def service():
    file = "h200_service.json"
    results = json.loads((RESULTS / file).read_text())
    rows = {row["name"]: row for row in results["rows"]}
    lines = [f"| job | fdserver | compared with | which takes | times as long | row in `{file}`, "
             f"commit {results['commit']} |",
             "|---|---|---|---|---|---|"]
    for job, other, name in SERVICE:
        if name not in rows:
            sys.exit(f"{file} has no row {name!r}: {results.get('left_out')}")
        row = rows[name]
        cells = [job, quantity(row["figure"], row["unit"]), other]
        cells += [quantity(row["floor"], row["unit"]), rounded(row["ratio"], 2)] if other else ["", ""]
        lines.append(f"| {' | '.join(cells)} | `{name}` |".replace("|  ", "| "))
    return "\n".join(lines)


def kernels():
    results = json.loads((RESULTS / "h200.json").read_text())["rows"]
    bars = [row["ratio"] >= row["bar"] for row in results if row["bar"] is not None]
    product = [row["equal"] for row in results if "does" not in row]
    classical = [row["equal"] for row in results if "does" in row]
    return (f"`bench/results/h200.json`: of {len(bars)} rows with a bar {sum(bars)} reach it. Of the "
            f"{len(product)} rows of the product {sum(product)} have the host backend's bits, of the "
            f"{len(classical)} rows of the classical kernels {sum(classical)}.")


def service_bars():
    results = json.loads((RESULTS / "h200_service.json").read_text())
    rows = [row for row in results["rows"] if row["met"] is not None]
    missed = [f"{row['name']}: {quantity(row['figure'], row['unit'])}, must be {row['bar']}"
              + (f" (it is {rounded(row['ratio'], 3)} ×)" if row["bar"].endswith("×") else "")
              for row in rows if not row["met"]]
    said = f"`bench/results/h200_service.json` (commit {results['commit']}): {len(rows) - len(missed)} of " \
           f"{len(rows)} bars are met."
    return "\n".join([said + (" Missed:" if missed else "")] + [f"- {row}" for row in missed])


def main():
    check = sys.argv[1:] == ["--check"]
    stale = False
    for name, parts in (("README.md", (service,)), ("bench/NOTES.md", (kernels, service_bars))):
        document = ROOT / name
        old = new = document.read_text()
        for part in parts:
            mark = re.escape(f"<!-- bench/figures.py: {part.__name__} -->")
            new, found = re.subn(rf"({mark}\n).*?(<!-- end -->)", lambda m: f"{m[1]}{part()}\n{m[2]}", new,
                                 flags=re.S)
            if found != 1:
                sys.exit(f"{name} must have the mark {part.__name__} once")
        stale |= new != old
        if check:
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), name,
                                                       f"{name} from bench/results/"))
        elif new != old:
            document.write_text(new)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())

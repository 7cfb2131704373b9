#!/usr/bin/env python3
"""A picture of the results of bench_kernels: the roofline, and each ratio with its bar.

    bench/draw.py h200.json h200.png [--peers peers.json]

Needs matplotlib.
"""

import argparse
import json
import math
import pathlib
import re

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402

INK, FAINT, GRID, PAPER = "#22303c", "#7b8a97", "#e3e8ec", "#fbfcfd"
MET, MISSED, CLASSIC, PEER = "#0b7a75", "#d1603d", "#8d99a6", "#b7a6cf"
FAMILIES = {"derivative": "#2a6f97", "laplacian": "#6a4c93", "gradient": "#4d908e", "divergence": "#90a955",
            "curl": "#f3a712", "diffusion 2D": "#d1495b", "diffusion 3D": "#9b2c5b"}
LARGE = 1 << 23  # points: more than any cache holds, in and out
CORES, FLOPS_A_CYCLE = 128, 2  # of a multiprocessor, float32, fused multiply-adds

# Lines of the table of bars: a label, and the rows with a bar that it includes.
LINES = [
    ("∂x ∂y ∂z, accuracy 8, 256³–1024³", r"derivative . accuracy 8 .*512x512.* float32 periodic"
     r"|derivative . accuracy 8 (256x|1024x).*"),
    ("∂x ∂y ∂z, accuracy 2, 4, 6 and float64", r"derivative . accuracy . 512x512x512 float.. periodic"),
    ("∂x ∂y ∂z, other boundaries", r"derivative . accuracy . 512x512x512 .*"),
    ("∂x ∂y ∂z, odd shapes, 509×511×513", r"derivative . accuracy . 509x.*"),
    ("∂x ∂y ∂z, 64³ 96³ 128³ in cache*", r"derivative . accuracy 8 (64|96|128)x.*"),
    ("∂²x ∂²y ∂²z", r"derivative . second .*"),
    ("Laplacian 3D", r"laplacian 3D .*"),
    ("gradient", r"gradient .*"),
    ("divergence", r"divergence .*"),
    ("curl", r"curl .*"),
] + [(f"diffusion 2D {n}², accuracy {a}", rf"diffusion 2D accuracy {a} {n}x.* float32 .*")
     for n in (16384, 4096) for a in (2, 4, 8)] + [
    (f"diffusion 3D 512³, accuracy {a}, {dtype}", rf"diffusion 3D accuracy {a} 512x.* {dtype} .*")
    for a, dtype in ((2, "float32"), (2, "float64"), (4, "float32"), (8, "float32"))]


def text(row):
    return f"{row['name']} {row['shape']} {row['dtype']} {row['boundary']}"


def family(row):
    """None: a kind of row whose operations flops() does not count."""
    if re.search("coordinates|third|fourth|source|of a field", row["name"]):
        return None
    return next((f for f in FAMILIES if row["name"].startswith(f)), None)


def flops(name):
    """Operations of a point in the product: differences or sums of pairs, then fused multiply-adds."""
    radius = int(re.search(r"accuracy (\d)", name)[1]) // 2
    first = 3 * radius - 1
    if name.startswith("derivative"):
        return 3 * radius + 1 if "second" in name else first
    return {"laplacian 2D": 5 * radius + 1, "diffusion 2D": 5 * radius + 1, "laplacian 3D": 7 * radius + 1,
            "diffusion 3D": 7 * radius + 1,
            "gradient 3D": 3 * first, "divergence 3D": 3 * first + 2,
            "curl 3D": 6 * first + 3}[" ".join(name.split()[:2])]


def fields_moved(name):
    return {"gradient": 4, "divergence": 4, "curl": 6}.get(name.split()[0], 2)


def roofline(axes, data, rows):
    """Float32 rows larger than any cache, in Tflop/s over flops for each byte that one pass must move."""
    bandwidth = data["floors"]["copy_gbs"] * 1e-3
    clock = (data.get("clocks") or {}).get("sm_mhz") or 0
    peak = 1e-6 * clock * data.get("units", 0) * CORES * FLOPS_A_CYCLE or math.inf
    left, right = 0.12, 24
    ridge = min(peak / bandwidth, right)
    roof = [left, ridge, right], [left * bandwidth, ridge * bandwidth, ridge * bandwidth]
    axes.fill_between(*roof, 0.08, color="#eef3f6", zorder=0)
    axes.plot(*roof, color=INK, lw=1.6, zorder=2)
    drawn = {}
    for row in rows:
        points = math.prod(map(int, row["shape"].split("x")))
        if row["dtype"] != "float32" or family(row) is None or points < LARGE:
            continue
        work = flops(row["name"])
        drawn.setdefault(family(row), []).append(
            (work / (4 * fields_moved(row["name"])), 1e-3 * work * row["gcells"]))
    for name, points in drawn.items():
        axes.scatter(*zip(*points), s=34, color=FAMILIES[name], edgecolor=PAPER, lw=0.7, alpha=0.9, zorder=4,
                     label=name)
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(0.12, 1.6 * min(peak, right * bandwidth)))
    axes.set_xticks([0.25, 0.5, 1, 2, 4, 8, 16], ["¼", "½", "1", "2", "4", "8", "16"])
    axes.set_yticks([0.2, 0.5, 1, 2, 5, 10, 20, 50], ["0.2", "0.5", "1", "2", "5", "10", "20", "50"])
    axes.minorticks_off()
    axes.set_xlabel("flops for each byte that a pass must move")
    axes.set_ylabel("Tflop/s, float32")
    axes.text(4.6, 5.1 * bandwidth, f"a copy's {bandwidth:.2f} TB/s", color=INK, fontsize=9, ha="center",
              va="bottom", rotation=math.degrees(math.atan(bandwidth)), rotation_mode="anchor",
              transform_rotates_text=True)
    if peak < math.inf:
        axes.annotate(f"{peak:.0f} Tflop/s", (right, peak), xytext=(-4, 5), textcoords="offset points",
                      ha="right", color=INK, fontsize=9)
    axes.text(0.17, 14, "above the roof:\nsteps that stay\non the chip", color=FAINT, fontsize=9,
              style="italic")
    axes.legend(loc="lower right", frameon=False, fontsize=8.5, handletextpad=0.2, labelcolor=INK)


def line_of(row):
    return next((i for i, (_, pattern) in enumerate(LINES) if re.fullmatch(pattern, text(row))), None)


def bars(axes, rows, peers):
    """Each line's rows relative to the floor, its bar, and the other measurements."""
    lines = {}
    for row in rows:
        at = line_of(row)
        if row["bar"] and at is not None:
            lines.setdefault(at, []).append(row)
    order = sorted(lines)
    low = 0.06
    for y, at in enumerate(order):
        mine = lines[at]
        axes.axhspan(y - 0.5, y + 0.5, color="#f1f5f7" if y % 2 else PAPER, zorder=0)
        names = {(row["name"], row["shape"], row["dtype"]) for row in mine}
        for row in rows:  # the classical kernels of the same operation
            if (row.get("does"), row["shape"], row["dtype"]) in names and row["ratio"] >= low:
                axes.scatter(row["ratio"], y + 0.24, s=20, marker="D", facecolor="none",
                             edgecolor=CLASSIC, lw=1)
        for row in peers:
            if row["ratio"] >= low and any(text(row) == text(own) for own in mine):
                axes.scatter(row["ratio"], y + 0.24, s=22, marker="s", color=PEER, lw=0)
        for bar in {row["bar"] for row in mine}:
            axes.plot([bar, bar], [y - 0.36, y + 0.36], color=INK, lw=2.2, solid_capstyle="round", zorder=3)
        for row in mine:
            axes.scatter(max(row["ratio"], 1.03 * low), y - 0.08, s=40, edgecolor=PAPER, lw=0.7, alpha=0.9,
                         color=MET if row["ratio"] >= row["bar"] else MISSED, zorder=4)
        met = sum(row["ratio"] >= row["bar"] for row in mine)
        axes.text(9.5, y, f"{met} of {len(mine)}", va="center", ha="right", fontsize=9,
                  color=MET if met == len(mine) else MISSED)
    axes.axvline(1, color=FAINT, lw=1, ls=(0, (4, 3)), zorder=1)
    axes.set(xscale="log", xlim=(low, 10), ylim=(len(order) - 0.4, -0.6))
    axes.set_xticks([0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4],
                    ["0.1", "0.2", "0.3", "0.5", "0.7", "1", "1.5", "2", "3", "4"])
    axes.minorticks_off()
    axes.set_yticks(range(len(order)), [LINES[at][0] for at in order])
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("share of the copy roofline: as fast as a device copy of the bytes that must move = 1")
    handles = [Line2D([], [], ls="", marker="o", color=MET, label="the product, bar met"),
               Line2D([], [], ls="", marker="o", color=MISSED, label="bar missed"),
               Line2D([], [], ls="", marker="|", ms=11, mew=2.2, color=INK, label="bar"),
               Line2D([], [], ls="", marker="D", mfc="none", mec=CLASSIC, label="classical kernels")]
    if peers:
        handles.append(Line2D([], [], ls="", marker="s", color=PEER,
                              label=", ".join(sorted({row["peer"].split()[0] for row in peers}))))
    axes.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.45, 1.0), ncol=len(handles),
                frameon=False, fontsize=9, handletextpad=0.3, columnspacing=1.4, labelcolor=INK)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=pathlib.Path)
    parser.add_argument("png", type=pathlib.Path)
    parser.add_argument("--peers", type=pathlib.Path)
    options = parser.parse_args()
    data = json.loads(options.json.read_text())
    peers = json.loads(options.peers.read_text())["rows"] if options.peers else []
    rows = data["rows"]
    plt.rcParams.update({
        "font.family": "DejaVu Sans", "font.size": 9.5, "text.color": INK, "axes.labelcolor": INK,
        "axes.edgecolor": GRID, "xtick.color": INK, "ytick.color": INK, "figure.facecolor": PAPER,
        "axes.facecolor": PAPER, "axes.spines.top": False, "axes.spines.right": False,
        "axes.grid": True, "axes.axisbelow": True, "grid.color": GRID, "grid.linewidth": 0.8})
    figure, (left, right) = plt.subplots(1, 2, figsize=(15, 8.6), width_ratios=(1, 1.35))
    roofline(left, data, rows)
    bars(right, rows, peers)
    right.grid(axis="y", visible=False)
    with_bar = [row for row in rows if row["bar"]]
    met = sum(row["ratio"] >= row["bar"] for row in with_bar)
    figure.suptitle(f"fdserver on {data['device']}: {met} of {len(with_bar)} bars met", x=0.012, y=0.985,
                    ha="left", fontsize=16, fontweight="bold")
    equal = all(row["equal"] for row in rows if not row.get("does"))
    figure.text(0.012, 0.931, f"commit {data['commit'] or '?'}, {data['date'][:10]}, driver {data['driver']}"
                + ("; every result equal to the host's to the bit" if equal else "")
                + ".   * against kernels made for that size alone, not the copy", fontsize=9, color=FAINT)
    figure.tight_layout(rect=(0, 0, 1, 0.965), w_pad=3)
    figure.savefig(options.png, dpi=130)


if __name__ == "__main__":
    main()

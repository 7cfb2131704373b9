#!/usr/bin/env python3
"""A picture of the results of bench/general.py: the time of each job beside JAX's and CuPy's.

    bench/draw_general.py h200_general.json h200_general.png

Needs matplotlib.
"""

import argparse
import json

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

SERIES = (("ms", "fdserver, as its client sees it", "#0b7a75"), ("jax_ms", "JAX, jitted", "#8d99a6"),
          ("cupy_ms", "CuPy", "#b7a6cf"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json")
    parser.add_argument("png")
    options = parser.parse_args()
    with open(options.json) as file:
        said = json.load(file)
    rows = said["rows"]
    figure, axes = plt.subplots(figsize=(11, 0.42 * len(rows) + 1.6), facecolor="#fbfcfd")
    for i, (key, label, color) in enumerate(SERIES):
        places = [(len(rows) - k) + 0.27 * (1 - i) for k, row in enumerate(rows) if row.get(key)]
        times = [row[key] for row in rows if row.get(key)]
        axes.barh(places, times, height=0.25, color=color, label=label)
    for k, row in enumerate(rows):
        axes.text(row["ms"] * 1.04, len(rows) - k + 0.27, f"{row['ms']:.2f} ms", va="center", fontsize=7)
    axes.set_xscale("log")
    axes.set_yticks([len(rows) - k for k in range(len(rows))], [row["name"] for row in rows], fontsize=8)
    axes.set_ylim(0.3, len(rows) + 0.7)
    axes.set_xlabel("milliseconds for one application or step (shorter is better)\n"
                    "3D: 512³ float32, 2D: 8192²; arrays resident on the GPU")
    axes.set_title(f"General operators on one {said['device'].removeprefix('NVIDIA ')}", loc="left")
    axes.legend(loc="lower right", fontsize=8)
    axes.grid(axis="x", color="#e3e8ec")
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(options.png, dpi=110)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A model on paper of diffusions of distributed fields on 8 to 1,024 GPUs, from what was measured on two and four.

    bench/scale_model.py [--scale bench/results/h200_scale.json]

A GPU has a slab of planes, and exchanges its outermost planes with two neighbours. The time of a step is that of its
points at the rate of one device, and of its edges, or that of the exchange beside it, whichever is longer. Prints
the efficiency: the time of the points alone, by that of a step.
"""

import argparse
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent
RADIUS = {8: 4, 2: 1}
STEPS = {8: 1, 2: 4}  # that a GPU computes at once: a round
EDGES_US = 17 + 5  # of a round: its edges, and the pause to the next (NOTES.md, "Fields in subdomains")
LEAST_PLANES = 17
GPUS = 8, 64, 256, 1024
# GB/s that a GPU sends while it receives as much, and µs until the first byte has come. NVLink as copy engines reach
# it between two H100 (shared facts of 2026-11: 8 MiB in 35 µs); networks at 90 % of their rate, one for each GPU.
NODES_GBS, HEAD_GBS = 6.4, 1.6  # of a bridge: eight connections of TLS, and one (h200_nodes.json)
LINKS = {"NVLink": (240, 10), "400 Gb/s": (45, 20), "100 Gb/s": (11.2, 20), "25 Gb/s": (2.8, 30)}


def one_device_us(file, accuracy):
    """A step of 512³ on one device."""
    rows = json.loads(file.read_text())["rows"]
    return next(row["floor"] for row in rows
                if row["name"].startswith(f"diffusion, 512³ a device, accuracy {accuracy}:"))


def step_us(point_us, planes, n, accuracy, gbs, latency_us, crossings):
    """crossings: of how many GPUs the bytes pass the link that limits the exchange."""
    rounds = STEPS[accuracy]
    compute = planes * n * n * point_us + EDGES_US / rounds
    halo_bytes = 2 * 4 * RADIUS[accuracy] * n * n
    return max(compute, latency_us / rounds + crossings * halo_bytes / gbs / 1e3)


def row(name, point_us, planes_of, n, accuracy, gbs, latency_us, crossings_of):
    cells = []
    for gpus in GPUS:
        planes = planes_of(gpus)
        alone = planes * n * n * point_us
        step = step_us(point_us, planes, n, accuracy, gbs, latency_us, crossings_of(gpus))
        cells.append("too thin" if planes < LEAST_PLANES else f"{alone / step:.2g}")
    return f"| {name} | " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=pathlib.Path, default=ROOT / "results/h200_scale.json")
    options = parser.parse_args()
    links = [(name, gbs, latency_us, lambda gpus: 1) for name, (gbs, latency_us) in LINKS.items()]
    links.append(("bridges, from node to node", NODES_GBS, 400, lambda gpus: 1))
    links.append(("bridges, all through one head", HEAD_GBS, 400, lambda gpus: gpus))
    for accuracy in (8, 2):
        point_us = one_device_us(options.scale, accuracy) / 512**3
        for title, n, planes_of in ((f"512³ a GPU, accuracy {accuracy}", 512, lambda gpus: 512),
                                    (f"4096³ in all, accuracy {accuracy}", 4096, lambda gpus: 4096 / gpus)):
            print(f"\n| {title} | " + " | ".join(f"{gpus} GPUs" for gpus in GPUS) + " |")
            print("|---" * (1 + len(GPUS)) + "|")
            for name, gbs, latency_us, crossings_of in links:
                print(row(name, point_us, planes_of, n, accuracy, gbs, latency_us, crossings_of))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Each folder includes only its own files and those of the folders in its row. A file belongs to the longest
folder of the table that contains it. docs/ARCHITECTURE.md shows the table as a picture (--draw prints it). It
and CONTRIBUTING.md's lists of where to add things name only files that exist.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The layers of the server, from the top: each includes those below it.
SERVER = ["server/main", "server/io", "server/jobs", "server/devices", "server/users", "server/metrics",
          "server/config"]
ROOMS = {
    "base": [],
    "numerics": ["base"],
    "protocol": ["numerics", "base"],
    "gpu": ["numerics", "base"],
    "gpu/host": ["gpu", "numerics", "base"],
    "gpu/compile": ["numerics", "base"],
    "gpu/cuda": ["gpu/compile", "gpu", "numerics", "base"],
    "gpu/worker": ["gpu", "numerics", "base"],
    "gpu/bridge": ["gpu", "numerics", "base"],
    **{room: [*SERVER[i + 1:], "protocol", "numerics", "base"] for i, room in enumerate(SERVER)},
    "client": ["protocol", "numerics", "base"],
}
# Exceptions: single files of other folders, and the reason.
ALLOWED = {
    ("server/devices", "gpu/worker/channel.h"): "the front's end of the channel",
    ("server/main", "gpu/worker/channel.h"): "what a worker says of the GPUs of its node",
    ("gpu/bridge", "gpu/worker/channel.h"): "what it carries",
    ("server/jobs", "gpu/worker/channel.h"): "times of a job as the worker tells them",
    ("server/devices", "gpu/compile/source.h"): "which stencils have kernels",
    ("server/devices", "gpu/compile/compiler.h"): "the front's end of the socket to fdcompile",
    ("server/devices", "numerics/measure.h"): "what a measure's result looks like",
}


def room_of(path):
    return max((room for room in ROOMS if path.startswith(room + "/")), key=len, default=None)


def levels():
    """Of each room, one more than the highest that it may include."""
    level = {}
    while len(level) < len(ROOMS):
        level |= {room: 1 + max((level[other] for other in below), default=-1) for room, below in ROOMS.items()
                  if room not in level and all(other in level for other in below)}
    return level


def picture():
    """Each room with the highest that it may include: what lies below these it may include, too."""
    level = levels()
    lines = []
    for room in sorted(ROOMS, key=lambda room: (-level[room], room)):
        highest = [other for other in ROOMS[room] if not any(other in ROOMS[between] for between in ROOMS[room])]
        lines.append(f" {level[room]}  {room:16} {'─► ' + ', '.join(highest) if highest else ''}".rstrip())
    return "\n".join(["```", *lines, "```"])


def check_document():
    text = (ROOT / "docs/ARCHITECTURE.md").read_text()
    if f"--draw -->\n{picture()}\n<!-- end -->" not in text:
        sys.exit("docs/ARCHITECTURE.md has another picture of the layers: tests/unit/test_layers.py --draw")
    now = "\n".join(line for line in text.splitlines() if line.startswith(("Now", "| `")))
    tops = "|".join(room for room in ROOMS if "/" not in room) + "|server"
    gone = [path for path in re.findall(rf"`((?:{tops})/[\w/.]*)`", now) if not (ROOT / path).exists()]
    if gone:
        sys.exit(f"docs/ARCHITECTURE.md names {', '.join(gone)}")
    renamed = [line.split()[1] for line in (ROOT / "docs/renames.txt").read_text().splitlines()[1:]]
    gone = [path for path in renamed if not (ROOT / path).exists()]
    if gone:
        sys.exit(f"docs/renames.txt names {', '.join(gone)}")


def check_adding():
    """CONTRIBUTING.md's lists of where to add things: the files exist and contain the names."""
    lists = (ROOT / "CONTRIBUTING.md").read_text().split("\n## Where to add things\n")[1]
    for line in lists.splitlines():
        paths = [ROOT / path for path in re.findall(r"`([\w.]+/[\w./]*)`", line)]
        texts = "".join(path.read_text() for path in paths if path.is_file())
        gone = [str(path) for path in paths if not path.exists()]
        gone += [name for name in re.findall(r"`((?:enum |struct )\w+|[A-Z_]+|\w+\()\)?`", line)
                 if not re.search(rf"\b{re.escape(name)}", texts)]
        if gone:
            sys.exit(f"CONTRIBUTING.md names {', '.join(gone)}")


def main():
    if sys.argv[1:] == ["--draw"]:
        print(picture())
        return
    check_document()
    check_adding()
    tops = sorted({room.split("/")[0] for room in ROOMS})
    files = [str(path.relative_to(ROOT)) for top in tops for path in (ROOT / top).rglob("*")
             if path.suffix in (".c", ".h", ".cu", ".cuh", ".inc")]
    broken = 0
    for name in files:
        room = room_of(name)
        for included in re.findall(r'^#include "([^"]+)"', (ROOT / name).read_text(), re.M):
            other = room_of(included)
            if other in (None, room) or other in ROOMS[room] or (room, included) in ALLOWED:
                continue
            print(f"{name} includes {included}: {room} may include {', '.join(ROOMS[room]) or 'nothing else'}")
            broken += 1
    if broken or not files:
        sys.exit(f"{broken} includes point the wrong way")


if __name__ == "__main__":
    main()

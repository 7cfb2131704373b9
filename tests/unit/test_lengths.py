#!/usr/bin/env python3
"""No file of the product has more than 500 lines, and no function more than 60, from the first line of its
declaration to its last brace, as clang-format writes them."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["base", "numerics", "protocol", "gpu", "server", "client"]
FILE_LINES, FUNCTION_LINES = 500, 60
# Exceptions: kernels, and parts of them, whose registers and shared memory are one state from the first line
# to the last, and a choice among the instances of one.
ALLOWED = {
    ("gpu/cuda/adi_rate.cuh", "march_rate"),
    ("gpu/cuda/along_x.cu", "along_x_kernel"),
    ("gpu/cuda/along_x_indexed.cu", "along_x_indexed_kernel"),
    ("gpu/cuda/biharmonic.cu", "biharmonic_kernel"),
    ("gpu/cuda/divergence.cu", "divergence_kernel"),
    ("gpu/cuda/faces_x.cu", "faces_x_kernel"),
    ("gpu/cuda/frame.cuh", "frame_tile"),
    ("gpu/cuda/gradient.cu", "gradient_kernel"),
    ("gpu/cuda/streaming_2d.cu", "streaming_2d_kernel"),
    ("gpu/cuda/streaming_3d.cu", "streaming_3d_kernel"),
    ("gpu/cuda/streaming_3d_indexed.cu", "streaming_3d_indexed_kernel"),
    ("gpu/cuda/temporal_blocking_3d.cuh", "temporal_3d_kernel"),
    ("gpu/cuda/vector_operators.cu", "vector_kernel"),
}


def functions(lines):
    """Of each function: its name, or that in POINT_NAME(name), and its number of lines."""
    body = None
    for number, line in enumerate(lines):
        if line == "{":
            body = number
        elif line == "}" and body is not None:
            first = body
            while first and re.match(r"\w|\s+[^\s*]", lines[first - 1]):
                first -= 1
            name = re.search(r"\b(?:[A-Z]+_NAME\((\w+)\)|(?!sizeof)([a-z]\w*))\(", "\n".join(lines[first:body]))
            yield name and (name[1] or name[2]), number - first + 1
            body = None


def main():
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))
             if path.suffix in (".c", ".h", ".cu", ".cuh", ".inc")]
    files = {str(path.relative_to(ROOT)): path.read_text().splitlines() for path in paths}
    long = {(name, function): length for name, lines in files.items() for function, length in functions(lines)
            if length > FUNCTION_LINES}
    wrong = [f"{name} has {len(lines)} lines, more than {FILE_LINES}" for name, lines in files.items()
             if len(lines) > FILE_LINES]
    wrong += [f"{name}: {function}() has {length} lines, more than {FUNCTION_LINES}"
              for (name, function), length in long.items() if (name, function) not in ALLOWED]
    wrong += [f"{name}: {function}() is an exception that is not needed" for name, function in ALLOWED - long.keys()]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()

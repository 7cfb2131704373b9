#!/usr/bin/env python3
"""Texts that are not generated from protocol/parameters.inc agree with it. The files that decode a request
call each other in one direction."""

import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# No file calls a later one.
LADDER = ["object", "array", "request_read", "request_axes", "request_parameters",
          "request_chain", "request"]


def text(name):
    return (ROOT / name).read_text()


def python_constant(name):
    for node in ast.parse(text("client/python/fdclient.py")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == name:
            return set(ast.literal_eval(node.value))
    return None


def main():
    wrong = []

    def compare(what, found, expected):
        if found != expected:
            wrong.append(f"{what}: {sorted(found ^ expected)}")

    rows = {re.match(r"\w+", row)[0]: row for row in text("protocol/parameters.inc").split("\nPARAMETER(")[1:]}
    methods = set(re.findall(r'X\(METHOD_\w+, "(\w+)"\)', text("protocol/request.h")))
    compare("fdclient.py's parameters that hold arrays", python_constant("_OPERANDS"),
            {name for name, row in rows.items() if " OPERAND(" in row})
    compare("fdclient.py's methods that are no jobs", python_constant("_QUICK_METHODS"), methods - {"put", "get", "export", "chain", "hessian"})
    compare("parameters in PROTOCOL.md", set(rows) & set(re.findall(r"`(\w+)`", text("protocol/PROTOCOL.md"))), set(rows))
    for at, lower in enumerate(LADDER):
        for upper in LADDER[at + 1:]:
            defined = re.findall(r"^(?!static)\w[\w *]*?\b(\w+)\([^;]*?\)\n\{", text(f"protocol/{upper}.c"), re.M)
            wrong += [f"protocol/{lower}.c calls {name}() of {upper}.c" for name in defined
                      if re.search(rf"\b{name}\(", text(f"protocol/{lower}.c"))]
    if wrong or len(rows) < 30:
        sys.exit("\n".join(wrong) or "no table was found")


if __name__ == "__main__":
    main()

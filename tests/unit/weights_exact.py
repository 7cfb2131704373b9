"""Prints weights_exact.inc for the build: the rows that test_weights.c compares with to the last bit, as fractions of
tests/operators/exact.py, which is independent of numerics/weights.c."""

import itertools
import pathlib
import sys
from fractions import Fraction
from math import lcm

sys.path.append(str(pathlib.Path(__file__).parent.parent / "operators"))
import exact  # noqa: E402

STAGGER = {"NONE": Fraction(0), "FORWARD": Fraction(1, 2), "BACKWARD": Fraction(-1, 2)}
SIDES = {"one-sided": ("ONE_SIDED", 0)} | {kind + at: (kind.upper(), int(at != "")) for kind, at in itertools.product(
    ("value", "derivative", "curvature"), ("", " face"))}


def table():
    """All centred rows, the closures of accuracy 2, and one in six of the others."""
    number = 0
    for order, accuracy, stagger in itertools.product(range(5), (2, 4, 6, 8, 10), STAGGER):
        if order == 0 and stagger == "NONE":
            continue
        middle = exact.centred(order, accuracy, STAGGER[stagger])
        yield order, accuracy, "PERIODIC", 0, stagger, 0, middle
        for side, distance in itertools.product(SIDES, range(-middle.points[0])):
            number += 1
            if accuracy == 2 or number % 6 == 0:
                made = exact.closure(side, order, accuracy, distance, STAGGER[stagger])
                yield order, accuracy, *SIDES[side], stagger, distance, made


def ghosts():
    """Values at points outside: each kind and accuracy, near and far."""
    for accuracy, side, m in itertools.product((2, 4, 6, 8), SIDES, (1, 3, 8)):
        yield 0, accuracy, *SIDES[side], "NONE", -m, exact.closure(side, 0, accuracy, -m)


def literal(number):
    """An integer below 2^113 for C: BIG(a, b) is a·2^60 + b."""
    assert abs(number) < 2**113
    return f"{number}" if abs(number) < 2**62 else f"BIG({number >> 60}, {number % 2**60})"


def main():
    print("/* Rows as exact fractions over one denominator, printed by weights_exact.py:")
    print(" * order, accuracy, kind, at_face, stagger, distance, first, count, under, data, over. */")
    for order, accuracy, kind, at_face, stagger, distance, made in itertools.chain(table(), ghosts()):
        under = lcm(*(value.denominator for value in (*made.weights, made.data)))
        over = ", ".join(literal(int(value * under)) for value in made.weights)
        print(f"{{{order}, {accuracy}, WEIGHTS_{kind}, {at_face}, STAGGER_{stagger}, {distance}, "
              f"{made.points[0]}, {len(made.points)}, {literal(under)}, "
              f"{literal(int(made.data * under))}, {{{over}}}}},")


if __name__ == "__main__":
    main()

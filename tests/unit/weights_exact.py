"""Prints weights_exact.inc for the build: the rows that test_weights.c compares with to the last bit, as fractions of
the solver in tests/operators/exact.py, which is independent of numerics/weights.c. The points of each row are
stated here again."""

import itertools
import pathlib
import sys
from fractions import Fraction
from math import lcm

sys.path.append(str(pathlib.Path(__file__).parent.parent / "operators"))
import exact  # noqa: E402

STAGGER = {"NONE": Fraction(0), "FORWARD": Fraction(1, 2), "BACKWARD": Fraction(-1, 2)}
DATA = {"VALUE": exact.VALUE, "DERIVATIVE": exact.DERIVATIVE, "CURVATURE": exact.CURVATURE}
KINDS = [("ONE_SIDED", 0), *itertools.product(DATA, (0, 1))]


def centred(order, accuracy, stagger):
    """The symmetric row with the fewest points that is of the accuracy; it begins at points[0]."""
    at = STAGGER[stagger]
    for radius in itertools.count(1):
        points = range(-radius + (at > 0), radius - (at < 0) + 1)
        if len(points) > order:
            made = exact.row(order, points, at)
            if made.error(order, at)[0] >= accuracy:
                return made


def closure(kind, at_face, order, accuracy, stagger, distance):
    """The row at this distance from the low edge: of the first points, one fewer where a datum is not one
    of them."""
    at = distance + STAGGER[stagger]
    count = order + accuracy
    if kind == "ONE_SIDED" or (kind == "VALUE" and not at_face):
        return exact.row(order, range(count), at)
    datum = DATA[kind], exact.FACE if at_face else exact.NODE
    return exact.row(order, range(max(count - 1, datum[0])), at, datum)  # one point has no curvature


def table():
    """All centred rows, the closures of accuracy 2, and one in six of the others."""
    number = 0
    for order, accuracy, stagger in itertools.product(range(5), (2, 4, 6, 8, 10), STAGGER):
        if order == 0 and stagger == "NONE":
            continue
        middle = centred(order, accuracy, stagger)
        yield order, accuracy, "PERIODIC", 0, stagger, 0, middle
        for (kind, at_face), distance in itertools.product(KINDS, range(-middle.points[0])):
            number += 1
            if accuracy == 2 or number % 6 == 0:
                made = closure(kind, at_face, order, accuracy, stagger, distance)
                yield order, accuracy, kind, at_face, stagger, distance, made


def ghosts():
    """Values at points outside: each kind and accuracy, near and far."""
    for accuracy, (kind, at_face), m in itertools.product((2, 4, 6, 8), KINDS, (1, 3, 8)):
        yield 0, accuracy, kind, at_face, "NONE", -m, closure(kind, at_face, 0, accuracy, "NONE", -m)


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

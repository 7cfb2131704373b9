"""The sides of exact.py in the wire's words."""

import exact

WITH_NUMBER = [kind + at for kind in ("value", "derivative", "mixed", "curvature") for at in ("", " face")]
MAPS = ["symmetric", "mirror", "antisymmetric"]
# Each may meet each other; periodic and endpoint only themselves.
OPERATOR_SIDES = ["one-sided", "halo", *MAPS, *WITH_NUMBER]
DIFFUSION_SIDES = [*OPERATOR_SIDES[1:], "reflect", "reflect face"]
AROUND = [("periodic",) * 2, ("endpoint",) * 2]

HALO = 0.75  # factor


def states_number(side):
    return side in WITH_NUMBER or side.startswith("reflect")


def word(side, number=0.0, v=0.0):
    """number: what the side states, of a mixed one the constant, beside its v; a number or an array."""
    kind, _, at = side.partition(" ")
    if kind == "endpoint":
        return "periodic"
    if kind == "halo":
        return {"halo": HALO}
    if not states_number(side):
        return side
    made = {"mixed": v, "const": number} if kind == "mixed" else {
        "derivative" if kind == "reflect" else kind: number}
    return made | ({"at": "face"} if at else {})


def boundary(axis, low, high, numbers=(0.0, 0.0), v=(0.0, 0.0)):
    """The parameters of one axis."""
    return {"boundary": {axis + "-": word(low, numbers[0], v[0]), axis + "+": word(high, numbers[1], v[1])},
            "endpoint": {axis: low == "endpoint"}}


def order_of(side):
    """Of the derivative of f that the side's number is."""
    kind = side.split()[0]
    return 1 if kind == "reflect" else exact.DATA[kind]

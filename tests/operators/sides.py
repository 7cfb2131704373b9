"""The sides of exact.py as parameters of requests."""

import exact

WITH_NUMBER = [kind + at for kind in ("value", "derivative", "mixed", "curvature") for at in ("", " face")]
MAPS = ["symmetric", "mirror", "antisymmetric"]
# Any two may be combined; periodic and endpoint only with themselves.
OPERATOR_SIDES = ["one-sided", "halo", *MAPS, *WITH_NUMBER]
DIFFUSION_SIDES = [*OPERATOR_SIDES[1:], "reflect", "reflect face"]
AROUND = [("periodic",) * 2, ("endpoint",) * 2]

HALO = 0.75  # factor


def states_number(side):
    return side in WITH_NUMBER or side.startswith("reflect")


def word(side, number=0.0, v=0.0):
    """number: the number or array that the side states; for a mixed side the constant, beside its v."""
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
    """The order of the derivative of f that the side's number states."""
    kind = side.split()[0]
    return 1 if kind == "reflect" else exact.DATA[kind]

"""Every refusal of an operator's parameters: its code, the parameter that it names, the limit if there is one,
and words of its message. A dry run is refused alike. Nothing of a refused job remains."""

from typing import NamedTuple

import numpy
import pytest

from fdtest import MiB, wave

LINE, PLANE, CUBE = wave(40, dtype="<f8"), wave(30, 40, dtype="<f8"), wave(20, 30, 40, dtype="<f8")
PAIRS, BOX = wave(2, 40, dtype="<f8"), wave(8, 9, 10)
X = numpy.arange(40.0)
X41 = numpy.arange(41.0)
BIG = numpy.zeros(1 << 14)  # more than what stays in a message
STEP = {"dt": 1e-4}
ADI = STEP | {"scheme": "adi"}
FIELD = {"field": 1}
XYZ = {"x": BOX, "y": BOX, "z": BOX}


def of(array, **changes):
    """The wire's map of an array, with keys of it changed; None: left out."""
    keys = {"nd": True, "type": array.dtype.str, "shape": list(array.shape), "data": array.tobytes()} | changes
    return {key: value for key, value in keys.items() if value is not None}


def stepped(at, by):
    x = X.copy()
    x[at] += by
    return x


class Refusal(NamedTuple):
    method: str
    f: object
    params: dict
    code: str
    parameter: str
    says: str
    limit: tuple | None = None  # need and limit


def invalid(method, f, params, parameter, says, limit=None):
    return Refusal(method, f, params, "INVALID_ARGUMENT", parameter, says, limit)


def unsupported(method, f, params, parameter, says):
    return Refusal(method, f, params, "UNSUPPORTED", parameter, says)


def boundary(what, f=PLANE, method="laplacian", **params):
    return method, f, {"boundary": what, "accuracy": 2} | params


TABLE = [
    # order, accuracy, stagger, axis
    *(invalid("derivative", LINE, {"order": order}, "order", says)
      for order, says in ((-1, "-1"), (5, "5"), (6, "did you mean accuracy?"), (8, "did you mean accuracy?"),
                          (1.5, "whole"), ("1", "whole"), (0, "0"), (2**40, "order"), (2**32 + 1, "order"))),
    *(invalid("laplacian", LINE, {"accuracy": accuracy}, "accuracy", "2, 4, 6 or 8")
      for accuracy in (0, 3, 10, -2, 2.5, "8", 2**40, 264)),  # 8 in its low byte
    *(invalid(method, LINE, {"stagger": stagger}, "stagger", "forward")
      for method in ("derivative", "interpolate") for stagger in ("left", 1, True, None)),
    *(invalid(method, LINE, {"axis": axis}, "axis", says) for method in ("derivative", "interpolate")
      for axis, says in (("y", "none is y"), (1, "out of range"), (-2, "out of range"), (2**63 - 1, "out of range"),
                         (-2**63, "out of range"), (0.5, "axis"), ("w", "NumPy"))),
    invalid("interpolate", PLANE, {}, "axis", "needs the parameter axis"),
    invalid("interpolate", PLANE, {"axis": ["x", "y"]}, "axis", "letters"),
    *(invalid("derivative", CUBE, {"axis": "x", "batch": batch}, "batch", says) for batch, says in ((3, "leave"), (-1, "0 to"))),
    *(invalid("derivative", PLANE, {"axis": axis}, "axis", "") for axis in (["x", "x"], ["x"], ["x", "y", "z"], ["x", 0],
                                                                         ["x", "z"])),
    invalid("derivative", PLANE, {"axis": ["x", "y"], "order": 2}, "order", ""),
    invalid("derivative", PLANE, {"axis": ["x", "y"], "stagger": "forward"}, "stagger", ""),
    invalid("derivative", PLANE, {"axis": ["x", "y"], "spacing": -1}, "spacing x", "above 0"),
    invalid("derivative", PLANE[:3], {"axis": ["y", "x"], "boundary": "one-sided", "accuracy": 8}, "boundary y-", ""),
    *(unsupported(method, PLANE, {"report": True} | axis, "report", "")
      for method, axis in (("derivative", {"axis": ["x", "y"]}), ("hessian", {}))),
    *(unsupported(method, PLANE, {"boundary": what} | axis, "boundary x-", "")
      for method, axis in (("derivative", {"axis": ["x", "y"]}), ("hessian", {}))
      for what in ({"x": {"halo": 1}}, {"x-": {"value": [0.0] * 30}, "x+": "one-sided"})),
    *(invalid("hessian", PLANE, {name: value}, name, "") for name, value in (("axis", "x"), ("order", 2), ("batch", 2))),
    unsupported("hessian", PLANE, {"out": FIELD}, "out", ""),
    invalid("hessian", {"x": PLANE, "y": PLANE}, {}, "f", ""),
    invalid("hessian", PLANE, {"spacing": -1}, "spacing x", "above 0"),
    Refusal("hessian", FIELD, {}, "NOT_FOUND", "f", ""),
    invalid("interpolate", LINE, {"order": 1}, "order", "no parameter"),
    invalid("diffusion", PLANE, {"scheme": "adi", "cfl": 0.5}, "cfl", "give dt"),
    invalid("laplacian", LINE, {"stagger": "forward"}, "stagger", "no parameter"),
    # boundaries: grammar
    invalid(*boundary("reflect"), "boundary", "symmetric or mirror"),
    invalid(*boundary({"type": "reflect"}), "boundary", "symmetric or mirror"),
    invalid(*boundary("dirichlet"), "boundary", "; did you mean value?"),
    invalid(*boundary("outflow"), "boundary", "there are periodic, one-sided"),
    invalid(*boundary({"neumann": 0}), "boundary", 'or a kind: value, derivative, mixed, curvature, halo or constant; it has no key "neumann"'),
    invalid(*boundary("endpoint"), "boundary", "endpoint: true"),
    invalid(*boundary("open"), "boundary", '"open"'),
    invalid(*boundary({"z": "periodic"}), "boundary z", "none is z"),
    invalid(*boundary({"x*": "periodic"}), "boundary", '"x*"'),
    invalid(*boundary({"y-": {"mirror": 1}}), "boundary y-", "takes no number"),
    *(invalid(*boundary({"y-": word}), "boundary y-", "needs its number")
      for word in ("value", "derivative", "mixed", "curvature", "halo", "constant")),
    *(unsupported("laplacian", PLANE, {"boundary": {"y+": what, "*": "mirror"}}, "boundary y+", "for stencils")
      for what in ("nearest", {"constant": 1})),
    invalid(*boundary({"type": "value", "value": 1}), "boundary", "one of the keys"),
    invalid(*boundary({"value": 1, "curvature": 1}), "boundary", "one of the keys"),
    invalid(*boundary({"const": 1}), "boundary", "one of the keys"),
    invalid(*boundary({"value": 1, "const": 1}), "boundary", "belongs to mixed"),
    invalid(*boundary({"value": 1, "color": 1}), "boundary", '"color"'),
    invalid(*boundary({"value": 1, "at": "edge"}), "boundary", '"face"'),
    invalid(*boundary({"x": {}}), "boundary x", "one of the keys"),
    invalid(*boundary({"at": "face"}), "boundary", "one of the keys"),
    invalid(*boundary({"type": "halo"}), "boundary", "needs its number"),
    invalid(*boundary(7), "boundary", "word"),
    *(invalid(*boundary({"x": what | {"at": "face"}}), "boundary x", "itself where")
      for what in ({"halo": 1}, {"type": "periodic"}, {"type": "one-sided"}, {"type": "symmetric"},
                   {"type": "mirror"}, {"type": "antisymmetric"})),
    *(invalid(*boundary({"x+": {kind: number}}), "boundary x+", "finite")
      for kind in ("value", "derivative", "mixed", "curvature", "halo", "constant") for number in (numpy.inf, numpy.nan)),
    invalid(*boundary({"x+": {"mixed": 1, "const": numpy.nan}}), "boundary x+", "finite"),
    invalid(*boundary({"x+": {"value": "hot"}}), "boundary x+", "number"),
    invalid(*boundary({"x+": {"halo": X}}), "boundary x+", "number"),
    invalid(*boundary({"x-": "mirror"}), "boundary x-", "both sides"),
    invalid("laplacian", PLANE, {"boundary": "mirror", "endpoint": {"y": True}}, "endpoint y", "periodic"),
    *(invalid("laplacian", PLANE, {"endpoint": what}, name, says) for what, name, says in (
        (1, "endpoint", "true"), ({"x": 1}, "endpoint x", "true"), ({"z": True}, "endpoint z", "none is z"))),
    # boundaries: arrays over the face
    invalid(*boundary({"value": 1.0 * X}), "boundary x-", "of the face"),
    invalid(*boundary({"x": {"value": X[:29]}}), "boundary x-", "of the face"),
    invalid(*boundary({"y-": {"value": X.reshape(1, 40)}, "y+": "mirror"}), "boundary y-", "of the face"),
    invalid(*boundary({"x": {"value": X[:30].astype("<f4")}}), "boundary x-", "convert"),
    invalid(*boundary({"x": {"value": [[1.0] * 30]}}), "boundary x-", "of the face"),
    invalid(*boundary({"x": {"value": [1.0, [2.0]]}}), "boundary x", "no number"),
    invalid(*boundary({"x": {"value": [[1, 2], [3]]}}), "boundary x", "one length"),
    invalid(*boundary({"x": {"value": []}}), "boundary x", "empty"),
    invalid(*boundary({"value": [1.0]}, f=LINE), "boundary x-", "give a number"),
    invalid(*boundary({"value": [1.0, 2.0, 3.0]}, f=PAIRS, batch=1), "boundary x-", "of the face"),
    invalid(*boundary({"x": {"value": of(X[:30], data=None)}}), "boundary x-", "missing"),
    invalid(*boundary({"x": {"value": {"region": 1, "offset": 0}}}), "boundary x", "shape and type"),
    Refusal(*boundary({"x": {"value": {"field": 1}}}), "NOT_FOUND", "boundary x-", "no field 1"),
    Refusal(*boundary({"x": {"value": {"region": 1, "shape": [30], "type": "<f8"}}}), "NOT_FOUND", "boundary x-",
            "no region 1"),
    unsupported(*boundary({"x": {"value": X[:30].astype("<i8")}}), "boundary x", "integer type"),
    unsupported(*boundary({"x": {"value": X[:30].astype("<c16")}}), "boundary x", "complex type"),
    invalid(*boundary({"x": {"value": of(BIG, shape=[1])}}), "boundary x", "131072 bytes"),
    unsupported(*boundary("one-sided", method="diffusion", **STEP), "boundary x-", "unstable"),
    # what is near, what was given, and both shapes
    Refusal("derivativ", LINE, {}, "UNKNOWN_METHOD", None, "; did you mean derivative?"),
    Refusal("diff", LINE, {}, "UNKNOWN_METHOD", None, "; did you mean diffusion?"),
    Refusal("transmogrify", LINE, {}, "UNKNOWN_METHOD", None, "info lists them"),
    invalid("laplacian", LINE, {"acuracy": 4}, "acuracy", "; did you mean accuracy?"),
    invalid("laplacian", LINE, {"stagger": "forward"}, "stagger", 'no parameter "stagger"'),
    invalid("diffusion", LINE, {"diff": 4}, "diff", "; did you mean diffusivity?"),
    invalid("diffusion", LINE, {"dx": 0.1}, "dx", "; did you mean spacing?"),
    invalid("laplacian", PLANE, {"spacing": numpy.array([0.1, 0.2])}, "spacing", "distances of the 2 axes"),
    *(invalid("diffusion", LINE, {name: given}, name, says) for name, given, says in (
        ("accuracy", "high", 'got "high"'), ("accuracy", True, "got true"), ("steps", 2.5, "got 2.5"), ("dt", "1", 'got "1"'),
        ("steps", None, "got nil"), ("scheme", "euler", 'got "euler"'), ("report", 2, "got 2"), ("axis", "x", "no parameter"))),
    invalid("laplacian", PLANE, {"coefficient": PLANE[1:]}, "coefficient", "<f8 [29, 40], and those of f <f8 [30, 40]"),
    invalid("laplacian", PLANE, {"coefficient": PLANE.astype("f4")}, "coefficient", "<f4, and that of f <f8"),
    invalid("divergence", {"x": PLANE, "y": LINE}, {}, "f y", "<f8 [40], and those of the component before <f8 [30, 40]"),
    invalid(*boundary({"y": {"value": X[:30]}}), "boundary y-", "[30], and that of the face [40]"),
    invalid(*boundary({"x-": {"value": LINE}, "x+": "mirror"}, f=CUBE), "boundary x-", "[40], and that of the face [20, 30]"),
    invalid(*boundary({"value": X[:3]}, f=PAIRS, batch=1), "boundary x-", "[3], and that of the face [2]"),
    invalid(*boundary({"x": {"value": X[:3]}}, f=CUBE, batch=1), "boundary x-",
            "[3], and that of the face [30] or, with the batch, [20, 30]"),
    *(invalid("laplacian", of(LINE, type=kind), {}, "f", says) for kind, says in (
        ("|O", "Python objects"), ("<U9", "strings"), ("|S3", "strings"), ("<M8[s]", "times"))),
    # spacing and coordinates
    *(invalid("laplacian", CUBE, {"spacing": {axis: numpy.arange(n + 1.0)[::-1].tolist()}}, f"spacing {axis}",
              f"c[::-1] and f[..., ::-1{rest}]") for axis, n, rest in (("x", 40, ""), ("y", 30, ", :"), ("z", 20, ", :, :"))),
    invalid("laplacian", LINE, {"spacing": [3.0, 1.0, 2.0] + [1.0] * 38}, "spacing x", "number 1 is 1 after 3"),
    *(invalid("laplacian", PLANE, {"spacing": {"y": h}}, "spacing y", "above 0") for h in (0, -1, numpy.inf, numpy.nan)),
    invalid("laplacian", PLANE, {"spacing": {"z": 1}}, "spacing z", "none is z"),
    invalid("derivative", PLANE, {"axis": "x", "spacing": {"y": -1}}, "spacing y", "above 0"),
    *(invalid("laplacian", PLANE, {"spacing": what}, "spacing", says) for what, says in (
        ([], "list"), ("1", "number"), (True, "number"), ({"w": 1}, '"w"'), (BIG, "by axis"))),
    *(invalid(method, f, params | {"spacing": {"x": h}}, "spacing x", "from", (h, limit))
      for method, f, params, h, limit in (
          ("laplacian", PLANE, {}, 1e-300, 2.0**-501), ("laplacian", PLANE, {}, 1e200, 2.0**501),
          ("laplacian", PLANE.astype("<f4"), {}, 1e-17, 2.0**-53), ("biharmonic", PLANE, {}, 1e-80, 2.0**-250.5),
          ("gradient", PLANE.astype("<f4"), {}, 1e-40, 2.0**-106), ("diffusion", PLANE, STEP, 1e-300, 2.0**-501),
          ("diffusion", PLANE.astype("<f4"), STEP | {"diffusivity": PLANE.astype("<f4") ** 2}, 1e-17, 2.0**-53))),
    *(invalid("derivative", LINE, {"order": 2, "spacing": X * h, "boundary": "one-sided"}, "spacing x", "from",
              (need, limit)) for h, need, limit in ((1e-300, 1e-300, 2.0**-501), (1e200, 1e200, 2.0**501))),
    invalid("laplacian", PLANE, {"spacing": [1, 2, 3]}, "spacing", "3 numbers"),
    invalid("laplacian", PLANE, {"spacing": X41}, "spacing", "by axis"),
    invalid("laplacian", LINE, {"spacing": X}, "spacing x", "one more", (40, 41)),
    invalid("laplacian", LINE, {"spacing": X41, "boundary": "one-sided"}, "spacing x", "41", (41, 40)),
    invalid("laplacian", PLANE, {"spacing": {"x": stepped(7, -1)}, "boundary": "one-sided"}, "spacing x", "number 7"),
    invalid("laplacian", LINE, {"spacing": stepped(7, numpy.nan), "boundary": "one-sided"}, "spacing x", "7 is not finite"),
    invalid("laplacian", LINE, {"spacing": [X.tolist()]}, "spacing", "one dimension"),
    invalid("laplacian", LINE, {"spacing": {"x": [1.0, "2"]}}, "spacing x", "no number"),
    invalid("laplacian", LINE, {"spacing": {"x": []}}, "spacing x", "empty"),
    unsupported("laplacian", LINE, {"spacing": {"x": {"field": 1}}}, "spacing x", "no field"),
    invalid("laplacian", LINE, {"spacing": {"x": of(BIG, shape=[1])}}, "spacing x", "131072 bytes"),
    Refusal("laplacian", LINE, {"spacing": of(numpy.zeros(1 << 21))}, "TOO_LARGE", "spacing", "8388608", (1 << 24, 1 << 23)),
    # operands like f
    invalid("laplacian", PLANE, {"coefficient": 2}, "coefficient", "array"),
    invalid("laplacian", PLANE, {"coefficient": [1.0, 2.0]}, "coefficient", "array"),
    invalid("gradient", PLANE, {"coefficient": PLANE}, "coefficient", "no parameter"),
    *(invalid(method, PLANE, step | {name: array}, name, says)
      for method, step, name in (("laplacian", {}, "coefficient"), ("diffusion", STEP, "source"),
                                 ("diffusion", STEP, "diffusivity"))
      for array, says in ((PLANE.T.copy(), "shape"), (PLANE[:1], "shape"), (LINE, "shape"),
                          (PLANE.astype("<f4"), "convert"), (of(PLANE, data=None), "missing"))),
    *(Refusal(method, PLANE, step | {name: {"field": 1}}, "NOT_FOUND", name, "no field 1")
      for method, step, name in (("laplacian", {}, "coefficient"), ("diffusion", STEP, "source"),
                                 ("diffusion", STEP, "diffusivity"))),
    *(unsupported(method, PLANE, step | {name: PLANE.astype("<c16")}, name, "complex")
      for method, step, name in (("laplacian", {}, "coefficient"), ("diffusion", STEP, "source"),
                                 ("diffusion", STEP, "diffusivity"))),
    # diffusion
    invalid("diffusion", LINE, {}, "dt", "got none"),
    invalid("diffusion", LINE, {"dt": 1, "cfl": 1}, "dt", "got both"),
    *(invalid("diffusion", LINE, {"dt": dt}, "dt", "above 0") for dt in (0, -1, numpy.inf, numpy.nan)),
    *(invalid("diffusion", LINE, {"cfl": cfl}, "cfl", "above 0") for cfl in (0, -1, numpy.nan)),
    Refusal("diffusion", LINE, {"cfl": 1.5}, "UNSTABLE", "cfl", "1.5", (1.5, 1)),
    invalid("diffusion", LINE, {"cfl": 0.5, "diffusivity": 0}, "cfl", "give dt"),
    Refusal("diffusion", LINE, {"dt": 1, "accuracy": 2}, "UNSTABLE", "dt", "0.5", (1, 0.5)),
    invalid("diffusion", LINE, STEP | {"scheme": "leapfrog"}, "scheme", "rk4"),
    invalid("diffusion", LINE.astype("<f4"), {"dt": 1e35, "scheme": "adi"}, "dt", "at most", (1e35, 2.0**106)),
    Refusal("diffusion", PLANE, ADI | {"accuracy": 4}, "INVALID_ARGUMENT", "accuracy", "accuracy 2", (4, 2)),
    unsupported("diffusion", PLANE, ADI | {"spacing": {"x": X}, "boundary": "symmetric"}, "spacing x", "rk4 do"),
    *(unsupported("diffusion", LINE, {"diffusivity": LINE**2, "dt": 0.01, "accuracy": accuracy, "boundary": side},
                  "boundary x-", "accuracy 2") for accuracy, side in (
        (2, {"curvature": 0.0}), (8, {"curvature": 0.0, "at": "face"}), (4, {"mixed": 1.0}), (8, {"mixed": 1.0, "at": "face"}))),
    unsupported("diffusion", PLANE, STEP | {"diffusivity": PLANE**2, "accuracy": 2, "boundary": {"x": {"mixed": X[:30]}}},
                "boundary x-", ""),
    *(unsupported("diffusion", PLANE, ADI | {"boundary": {"y": side}} | more, "boundary y-", says)
      for side, more, says in (
          ({"halo": 0.5}, {}, "other than 1"), ({"curvature": 0, "at": "face"}, {}, "curvature at the face"),
          ({"mixed": -1}, {}, "below 0"), ({"mixed": X, "const": 0}, {"allow_unstable": True}, "of an array"),
          ({"curvature": 0}, {"diffusivity": PLANE**2}, "is a field"),
          *(({kind: 1, "at": "face"}, {"diffusivity": PLANE**2}, "is a field")
            for kind in ("value", "derivative", "mixed")))),
    invalid("diffusion", LINE, STEP | {"source": "sun"}, "source", "number"),
    *(invalid("diffusion", LINE, STEP | {"source": number}, "source", "finite") for number in (numpy.inf, numpy.nan)),
    invalid("diffusion", PLANE, STEP | {"diffusivity": [1, 1]}, "diffusivity", "map"),
    *(invalid("diffusion", PLANE, STEP | {"diffusivity": {"y": k}}, "diffusivity y", "from 0 up")
      for k in (-1, numpy.inf, numpy.nan)),
    unsupported("diffusion", PLANE, STEP | {"diffusivity": {"x": PLANE}}, "diffusivity x", "for all axes"),
    *(invalid("diffusion", LINE, STEP | {"steps": steps}, "steps", "from 1") for steps in (0, -1, 1.5, "2", 1e17, numpy.inf)),
    *(Refusal("diffusion", LINE, STEP | {"steps": steps}, "TOO_LARGE", "steps", "at most", (40.0 * steps, 1e15))
      for steps in (1 << 60, 1 << 62, 2**64 - 1)),
    # probes
    *(invalid("diffusion", PLANE, STEP | {"probes": probes}, "probes", says)
      for probes, says in (([[30, 0]], "out of range for 30"), ([[0, -41]], "out of range for 40"), ([[0]], "2 indices"),
                           ([[0, 0, 0]], "2 indices"), ([0, 0], "indices"), ([[0, 0.5]], "whole"),
                           ([[0, 0], [0]], "one length"), ([], "empty"), (1, "list"))),
    invalid("diffusion", PAIRS, STEP | {"batch": 1, "probes": [[3]]}, "probes", "one of the batch"),
    invalid("diffusion", PAIRS[:1], STEP | {"batch": 1, "probes": [[3]]}, "probes", "one of the batch"),
    invalid("diffusion", PAIRS, STEP | {"batch": 1, "probes": [[2, 0]]}, "probes", "out of range for 2"),
    Refusal("diffusion", LINE, STEP | {"probes": numpy.zeros((1025, 1), "<i4")}, "TOO_LARGE", "probes", "1024",
            (1025, 1024)),
    Refusal("diffusion", LINE, STEP | {"probes": [[0]], "steps": 1 << 24}, "TOO_LARGE", "probes", "16777216",
            (1 + (1 << 24), 1 << 24)),
    unsupported("diffusion", LINE, STEP | {"probes": {"field": 1}}, "probes", "no field"),
    invalid("laplacian", PLANE, {"probes": [[0, 0]]}, "probes", "no parameter"),
    # stencils
    *(invalid("stencil", PLANE, {"offsets": offsets, "weights": weights}, name, says) for offsets, weights, name, says in (
        ([[0, 0], [1, 1], [0, 0]], [1, 2, 3], "offsets", "number 2"), ([[0, 0, 0]], [1], "offsets", "2 numbers"),
        ([[0, 0.5]], [1], "offsets", "whole"), ([0], [1], "offsets", "2 numbers"), ([[0, 0]], [[1]], "weights", "one list"),
        ([[0, 0]], [numpy.nan], "weights", "finite"))),
    invalid("stencil", PLANE, {"offsets": [[0, 9]], "weights": [1]}, "offsets", "number 0 has 9 along x", (9, 8)),
    invalid("stencil", PLANE, {"offsets": [[0, 0]], "weights": [1, 2]}, "weights", "2 weights", (2, 1)),
    invalid("stencil", wave(8), {"offsets": [0], "weights": [1e300]}, "weights", "finite"),
    invalid("stencil", PLANE, {"weights": [1]}, "offsets", ""),
    invalid("stencil", PLANE, {"offsets": [[0, 0]]}, "weights", ""),
    invalid("derivative", LINE, {"weights": [1]}, "weights", "no parameter"),
    *(invalid("stencil", LINE[:7], {"offsets": [0], "weights": [1]} | params, name, "") for params, name in (
        ({"steps": 0}, "steps"), ({"boundary": "one-sided"}, "boundary x-"), ({"dt": 1}, "dt"))),
    unsupported("stencil", LINE[:7], {"offsets": [0], "weights": [1], "spacing": list(range(8))}, "spacing", ""),
    Refusal("stencil", LINE, {"offsets": [0], "weights": [1], "steps": 1 << 60}, "TOO_LARGE", "steps", "at most"),
    Refusal("stencil", PLANE, {"offsets": numpy.zeros((5202, 2), "<i8"), "weights": numpy.ones(5202)}, "TOO_LARGE", "offsets",
            "", (5202, 4913)),
    # every, snapshot, report
    *(invalid("diffusion", LINE, STEP | {"every": every}, "every", "from 1") for every in (0, -1, 0.5, "1")),
    *(invalid("diffusion", LINE, STEP | {"snapshot": what}, "snapshot", "every") for what in ("notify", "field")),
    invalid("laplacian", LINE, {"every": 2}, "every", "no parameter"),
    invalid("diffusion", LINE, STEP | {"every": 1, "snapshot": "file"}, "snapshot", "field"),
    invalid("laplacian", LINE, {"report": 1}, "report", "true or false"),
    # how a job is treated
    *(invalid("laplacian", LINE, {name: value}, name, says) for name, value, says in (
        ("priority", 101, "-100 to 100"), ("priority", "high", "whole"), ("priority", 1.5, "whole"),
        ("placement", "", "spread"), ("placement", "host!", "name of a device"), ("placement", 1, "spread"),
        ("timeout", 0, "microseconds"), ("timeout", -1, "microseconds"), ("timeout", "1 s", "whole"),
        ("detach", 1, "true or false"), ("detach", True, "give out"), ("msgid", 1, "no parameter"),
        ("progress", "yes", "true"), ("out", "elsewhere", "inline"))),
    *(invalid("laplacian", LINE, {"detach": True, "out": out}, "detach", "give out")
      for out in ("inline", {"region": 7, "offset": 0})),
    # vectors
    invalid("divergence", BOX, {}, "f", "takes a vector field"),
    *(invalid(method, {axis: BOX for axis in "xyz"}, {}, "f", "takes one array") for method in ("gradient", "laplacian")),
    invalid("put", {"x": BOX}, {}, "f", ""),
    invalid("curl", {"x": BOX, "z": BOX}, {}, "f y", "missing"),
    invalid("divergence", {"x": BOX[0], "y": BOX[0], "z": BOX[0]}, {}, "f z", "none is z"),
    invalid("divergence", XYZ | {"t": BOX}, {}, "f", '"t"'),
    invalid("divergence", XYZ | {"y": 7}, {}, "f y", "msgpack-numpy"),
    invalid("divergence", XYZ | {"x": {"x": FIELD}}, {}, "f x", "no key"),
    *(invalid(method, XYZ | {axis: other}, {}, f"f {axis}", says) for method, axis, other, says in (
        ("divergence", "y", BOX[1:], "[7, 9, 10]"), ("divergence", "z", wave(64, 64, 65), "[64, 64, 65]"),
        ("curl", "z", BOX.transpose().copy(), "[10, 9, 8]"), ("curl", "y", BOX.astype("<f8"), "<f8"),
        ("curl", "z", of(BOX, shape=[8, 9, 1000], data=bytes(100000)), "bytes"))),
    unsupported("curl", XYZ | {"y": numpy.zeros((80, 90, 10), ">f4")}, {}, "f y", "byte order"),
    invalid("curl", {"x": LINE}, {}, "f", ""),
    invalid("gradient", BOX, {"batch": 1, "spacing": {"z": 1}}, "spacing z", "none is z"),
    invalid("gradient", BOX, {"axis": "x"}, "axis", "no parameter"),
    invalid("curl", XYZ, {"order": 1}, "order", "no parameter"),
    invalid("gradient", BOX[..., :8], {"boundary": "one-sided"}, "boundary x-", ""),
    *(invalid("gradient", BOX, {"out": out}, name, says) for out, name, says in (
        (FIELD, "out", "gives a vector field"), ({"x": FIELD, "y": FIELD}, "out z", "missing"), ({}, "out", ""),
        ({"x": FIELD, "y": "field", "z": FIELD}, "out y", ""), (7, "out", "by axis"))),
    invalid("gradient", PLANE, {"out": {"x": FIELD, "y": FIELD, "z": FIELD}}, "out z", "none is z"),
    invalid("divergence", XYZ, {"out": {"x": FIELD}}, "out", "gives one array"),
    invalid("curl", {"x": PLANE, "y": PLANE}, {"out": {"x": FIELD, "y": FIELD}}, "out", "gives one array"),
    # f itself; its bytes in the message, beside it, and in a list
    *(invalid("laplacian", f, {}, "f", says) for f, says in (
        ([1.0, 2.0], "array"), (of(LINE, type=None), "type"), (of(LINE, data=bytes(319)), "320 bytes"))),
    *(invalid("put", f, {}, "f", says) for f, says in (
        (of(LINE, data=bytes(20 * MiB)), "bytes"), (of(LINE, shape=[4096], data=[bytes(16384), bytes(16383)]), "bytes"),
        (of(LINE, shape=[4096], data=[bytes(16384), bytes(16385)]), "bytes"),
        *((of(LINE, shape=[1024, 1024], data=bytes(8 * MiB + more)), "bytes") for more in (-1, 1)))),
    # as a whole
    invalid("laplacian", LINE, {f"a{i}": of(BIG) for i in range(25)}, None, "at most 24 inline arrays"),
]


def name_of(row):
    told = {key: value if isinstance(value, (int, float, str, dict)) else type(value).__name__
            for key, value in row.params.items()}
    return f"{row.method} {told}"[:90]


@pytest.mark.parametrize("row", TABLE, ids=name_of)
def test_a_refusal_names_what_is_wrong(unchanged, client, row):
    is_described = row.says == "missing" or row.method == "put"  # which is enough for a dry run, or has none
    for dry_run in ({}, {"dry_run": True})[:1 if is_described else 2]:
        error = client.refused(row.method, f=row.f, **row.params, **dry_run)
        assert error.what == (row.code, row.parameter), error
        assert row.says in str(error)
        assert not error.retryable
        if row.limit:
            assert (error.need, error.limit) == pytest.approx(row.limit)
    assert client.call("ping") == {}

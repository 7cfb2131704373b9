#!/usr/bin/env python3
"""Random jobs on distributed fields have the bits that they have on one device.

    tests/operators/distributed_equal.py --build build/release --devices cuda:0,cuda:1 [--jobs 1000] [--seed N]

One server with all of the devices runs each job twice: on fields in subdomains, and on the first device. Prints how
many jobs of each kind ran in subdomains, and ends with 1 at the first difference, or refusal.
"""

import argparse
import collections
import os
import pathlib
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "client/python"))
sys.path.insert(0, str(ROOT / "bench"))
import fdclient  # noqa: E402
import serving  # noqa: E402

SIDES = ("periodic", "mirror", "symmetric", "antisymmetric", {"value": 0.5}, {"value": -1, "at": "face"}, {"derivative": 0},
         {"derivative": 0.25}, {"derivative": 1, "at": "face"}, {"mixed": 0.5, "const": 1}, {"curvature": 0.5},
         {"halo": 1}, {"halo": 0.5}, "one-sided")
SIDES_OF_ADI = tuple(side for side in SIDES if side not in ({"halo": 0.5}, "one-sided"))
SIDES_OF_ADI_OF_A_FIELD = tuple(side for side in SIDES_OF_ADI if "at" not in side and "curvature" not in side)


class Jobs:
    """Random jobs: (method, f, arrays beside it, parameters)."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.cut = set()  # the ids of fields in subdomains

    def one_of(self, choices):
        return choices[self.random.integers(len(choices))]

    def face(self, axes, axis):
        """Numbers over the face of an axis, with or without the batch's axes."""
        batch = len(self.shape) - len(axes)
        face = [n for i, n in enumerate(self.shape) if i != len(self.shape) - 1 - "xyz".index(axis)]
        face = face[batch:] if self.random.integers(2) and len(axes) > 1 else face
        return self.random.standard_normal(face).astype(self.dtype)

    def side(self, axes, axis, arrays, sides):
        """A side of an axis, whose number may be an array over the face."""
        side = self.one_of(sides)
        if not arrays or not isinstance(side, dict) or "halo" in side or len(self.shape) == 1 or self.random.integers(2):
            return side
        name = "const" if "const" in side else next(iter(side))
        return side | {name: self.face(axes, axis)}

    def sides(self, axes, arrays=True, sides=SIDES):
        boundary = {}
        for axis in axes:
            low, high = self.side(axes, axis, arrays, sides), self.side(axes, axis, arrays, sides)
            if "periodic" in [side for side in (low, high) if isinstance(side, str)]:
                boundary[axis] = "periodic"
            else:
                boundary |= {axis + "-": low, axis + "+": high}
        return boundary

    def array(self):
        return self.random.standard_normal(self.shape).astype(self.dtype)

    def placed(self, client, value):
        """An array as it is, in a region or as a field; a map of them, each somewhere."""
        if isinstance(value, dict):
            return {name: self.placed(client, one) for name, one in value.items()}
        if not isinstance(value, np.ndarray) or self.random.integers(2):
            return value
        if self.random.integers(2):
            distribute = bool(self.random.integers(2))
            field = client.put(value, distribute=distribute)
            self.cut |= {field.id} if distribute else set()
            return field
        shared = fdclient.empty(value.shape, value.dtype)
        shared[...] = value
        return shared

    def out(self, method, f):
        """Where the result goes: to the client, into a new field or, of one that stays a scalar, into f."""
        stays = method in ("diffusion", "stencil", "laplacian", "biharmonic") and isinstance(f, fdclient.Field)
        if stays and f.id in self.cut and self.random.integers(2):
            return f
        return self.one_of((None, "field"))

    def probes(self):
        """Some points of the field, anywhere; with a batch, the field's number comes first."""
        count = int(self.random.integers(1, self.one_of((4, 200))))
        return np.stack([self.random.integers(0, n, count) for n in self.shape], axis=1).tolist()

    def plain_diffusion(self, members):
        """Of the kind whose exchange GPUs overlap with computing."""
        self.dtype = self.one_of(("f4", "f8"))
        self.shape = (int(self.random.integers(17 * members, 17 * members + 40)), *self.random.integers(16, 40, 2))
        return "diffusion", self.array(), {}, {
            "boundary": self.sides("xyz", arrays=False), "accuracy": int(self.one_of((2, 2, 4, 6, 8))), "cfl": 0.5,
            "steps": int(self.random.integers(1, 40)), "report": bool(self.random.integers(2))}

    def adi(self, members):
        """Whose lines along the axis that is cut go through all subdomains, at once or in chunks."""
        axes = int(self.random.integers(1, 4))
        self.dtype = self.one_of(("f4", "f8"))
        most = 40 if self.random.integers(4) else 130
        self.shape = (int(self.random.integers(17 * members, 17 * members + 40)),
                      *(int(self.random.integers(most // 2, most)) for _ in range(axes - 1)))
        arrays = {name: np.exp(self.array()) for name in ("diffusivity", "source") if self.random.integers(2)}
        names = "xyz"[:axes]
        params = {"boundary": self.sides(names, sides=SIDES_OF_ADI_OF_A_FIELD if "diffusivity" in arrays else SIDES_OF_ADI),
                  "scheme": "adi", "dt": float(np.exp(self.random.uniform(-3, 3))), "steps": int(self.random.integers(1, 5)),
                  "report": bool(self.random.integers(2))}
        if params["boundary"].get(names[-1]) == "periodic" and self.random.integers(2):
            params["endpoint"] = {names[-1]: True}
        if self.random.integers(3) == 0:
            params["probes"] = self.probes()
        return "diffusion", self.array(), arrays, params

    def derivative(self, names):
        """At the nodes, or between them, or a mixed one."""
        kind = self.random.integers(4)
        if kind == 0:
            return {"axis": self.one_of(names), "order": int(self.random.integers(2)), "stagger": self.one_of(("forward", "backward"))}
        if kind == 1 and len(names) > 1:
            return {"axis": self.random.permutation(list(names))[:2].tolist()}
        return {"axis": self.one_of(names), "order": int(self.random.integers(1, 5))}

    def chain(self, members):
        """Of operators and steps in time, in rounds."""
        axes = int(self.random.integers(1, 4))
        self.dtype = self.one_of(("f4", "f8"))
        self.shape = (int(self.random.integers(17 * members, 17 * members + 90)),
                      *(int(self.random.integers(10, 40)) for _ in range(axes - 1)))
        names = "xyz"[:axes]

        def op(name, f, **more):
            return fdclient.op(name, f, boundary=self.sides(names, arrays=False), accuracy=int(self.one_of((2, 4, 6, 8))), **more)

        ops = self.one_of(([op("gradient", None, out="g"), op("divergence", "g")], [op("laplacian", None)],
                           [op("derivative", None, axis=self.one_of(names))]))
        ops[-1]["out"] = "r"
        ops.append(op("diffusion", "r", cfl=0.5, steps=int(self.random.integers(1, 9)), scheme=self.one_of(("forward-euler", "rk4"))))
        return "chain", self.array(), {}, {"ops": ops, "repeat": int(self.random.integers(1, 3))}

    def next(self, members):
        kind = self.random.integers(7)
        if kind < 3:
            return (self.plain_diffusion, self.adi, self.chain)[kind](members)
        axes = int(self.random.integers(1, 4))
        self.dtype = self.one_of(("f4", "f8"))
        planes = int(self.random.integers(17 * members, 17 * members + 90))
        self.shape = (planes, *(int(self.random.integers(1, 40)) for _ in range(axes - 1)))
        names = "xyz"[:axes]
        method = self.one_of(("derivative", "derivative", "interpolate", "hessian", "laplacian", "gradient", "divergence", "curl",
                              "biharmonic", "diffusion", "diffusion", "diffusion", "stencil"))
        params = {"boundary": self.sides(names), "accuracy": int(self.one_of((2, 4, 6, 8)))}
        arrays = {}
        if self.random.integers(6) == 0 and axes > 1:
            params["batch"] = 1
            names = names[:-1]
            params["boundary"] = self.sides(names)
        last = names[-1]
        periodic = params["boundary"].get(last) == "periodic"
        if periodic and self.random.integers(2):
            params["endpoint"] = {last: True}
        if self.random.integers(4) == 0:
            n = self.shape[-len(names)] + (periodic and "endpoint" not in params)
            params["spacing"] = {last: (np.cumsum(self.random.uniform(0.8, 1.2, n)) - 7).tolist()}
        if method == "derivative":
            params |= self.derivative(names)
        elif method == "interpolate":
            params |= {"axis": self.one_of(names), "stagger": self.one_of(("forward", "backward"))}
        elif method == "diffusion":
            params |= {"cfl": 0.5, "steps": int(self.random.integers(1, 40)),
                       "scheme": self.one_of(("forward-euler", "rk4"))}
            watch = self.random.integers(3)
            if watch == 0:
                params["probes"] = self.probes()
            elif watch == 1 and params["steps"] > 1:
                params["every"] = int(self.random.integers(1, params["steps"]))
            if self.random.integers(3) == 0:
                params["accuracy"] = 2
                arrays["diffusivity"] = np.exp(self.array())
            if self.random.integers(3) == 0:
                arrays["source"] = self.array()
        elif method == "laplacian" and self.random.integers(2):
            arrays["coefficient"] = np.exp(self.array())
        elif method == "stencil":
            count = int(self.random.integers(1, 9))
            params.pop("spacing", None)  # a stencil has none
            params |= {"offsets": self.random.integers(-3, 4, (count, len(names))).tolist(),
                       "weights": (self.random.standard_normal(count) / count).tolist(),
                       "steps": int(self.random.integers(1, 9))}
        if self.random.integers(3) == 0:
            params["report"] = True
        f = {axis: self.array() for axis in names} if method in ("divergence", "curl") else self.array()
        return method, f, arrays, params


def has_arrays(value):
    return any(map(has_arrays, value.values())) if isinstance(value, dict) else isinstance(value, np.ndarray)


def values(result):
    result = result if isinstance(result, dict) else {"": result}
    return {name: np.asarray(one).tobytes() for name, one in result.items()}


def outcome(client, method, f, arrays, params, **where):
    """The bytes of the result, of snapshots and of probes and the numbers of the report, or the error."""
    try:
        if method == "chain":
            first, *others = params["ops"]
            return values(client.chain(first | {"f": f}, *others, repeat=params["repeat"], **where))
        job = client.submit(method, f, **arrays, **params, **where)
        snapshots = [(step, one.tobytes()) for step, _, one in job.snapshots()]
        return values(job.result()) | {"report": repr(job.report), "snapshots": snapshots,
                                       "probes": None if job.probes is None else job.probes.tobytes()}
    except fdclient.Error as error:
        return error


def check(client, jobs, job, first):
    """Does it run in subdomains? Ends the program if its bits differ, or if it is refused."""
    method, f, arrays, params = job
    expected = outcome(client, method, f, arrays, params, placement=first)
    if not isinstance(expected, dict):
        return False
    f_there, arrays_there, boundary = [jobs.placed(client, one) for one in (f, arrays, params.get("boundary"))]
    there = params | ({"boundary": boundary} if boundary else {})
    got = outcome(client, method, f_there, arrays_there, there, distribute=True, out=jobs.out(method, f_there))
    if got != expected:
        shape = (next(iter(f.values())) if isinstance(f, dict) else f)
        sys.exit(f"{method} of {shape.dtype} {shape.shape} with {list(arrays)}, {params}: "
                 f"{'other bits' if isinstance(got, dict) else got}")
    return True


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--devices", default="host,host")
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("FDSERVER_SEED", time.time_ns() % 10**9)))
    options = parser.parse_args(arguments)
    print(f"FDSERVER_SEED={options.seed}", flush=True)
    devices = options.devices.split(",")
    jobs, ran, drawn = Jobs(options.seed), collections.Counter(), 0
    with tempfile.TemporaryDirectory(prefix="fdserver-") as folder:
        program = next(p for p in (options.build / "server/fdserver", options.build / "fdserver") if p.exists())
        server = serving.start(program, f"{folder}/s", options.devices, "--log-level", "4")
        try:
            with fdclient.Client(f"{folder}/s") as client:
                while ran.total() < options.jobs:
                    job = jobs.next(len(devices))
                    if check(client, jobs, job, devices[0]):
                        has = {"faces": has_arrays(job[3].get("boundary"))} | {
                            name: job[3].get(name) for name in ("report", "probes", "every", "spacing", "endpoint")}
                        ran[" with ".join([job[3].get("scheme", job[0]), *(name for name, one in has.items() if one)])] += 1
                    drawn += 1
                    if drawn > 20 * options.jobs:
                        sys.exit("too few of the jobs run in subdomains")
        finally:
            server.terminate()
            server.wait()
    print(f"{ran.total()} jobs of {drawn} ran on {len(devices)} devices with the bits of one: {dict(ran)}")


if __name__ == "__main__":
    main()

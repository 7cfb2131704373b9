"""The observed order of every operator × order × accuracy × boundary × dimension × dtype × spacing ×
stagger, in the maximum norm with the edge points, from two grids that differ by a factor of about 2. Writes
convergence.tsv into the build folder.

On one axis every pair of sides is combined with every form of row; in two and three dimensions every pair of
values of any two of these factors occurs (a covering array of strength 2, whose seed is printed). Fields are
products of the waves of waves.py, with the real and the imaginary part as separate fields. Sides state the
wave's own data: a number if it is constant over the face, else an array.

In float32 the errors of high orders vanish in rounding before they are asymptotic; if no grid shows the
order, the row of the table states this. Every float32 result agrees with that of float64 within rounding."""

import collections
import itertools
import random
from typing import NamedTuple

import numpy as np
import pytest

import exact
import fdtest
import sides
import waves
from offered import ACCURACIES, DTYPES
from waves import Form

TOLERANCE = 0.2
# If the exact rows themselves deviate from the order by more than the first on these grids, the result must
# have their order, within the second.
SHOWS, LIKE_THEM = 0.18, 0.05
ABOVE_ROUNDING = 40  # times what it may make of Σ|w|
WAVELENGTHS = {"x": 1.0, "y": 1.5, "z": 0.75}  # so that the axes differ in their spacing
KAPPA = 0.75
SEED = 5

# Operators: for a part, {component: [(factor, {axis: order})]} of scalar or vector fields.
FIRST = ["gradient", "divergence", "curl"]
# With a coefficient: ∇·(κ∇f).
PRODUCTS = {"laplacian κ": "coefficient", "diffusion κ": "diffusivity"}
METHODS = ["derivative", "interpolate", "laplacian", "biharmonic", *FIRST, "diffusion", *PRODUCTS]


class Case(NamedTuple):
    """sides: (low, high) of each axis, in the order x, y, z; stretched: whether it has coordinates."""
    method: str
    order: int
    accuracy: int
    stagger: str | None
    along: str | None
    sides: tuple
    stretched: tuple
    dtype: str


def pairs(kinds):
    return [*sides.AROUND, *itertools.product(kinds, repeat=2)]


def some_pairs(kinds):
    """Each with itself and with one other."""
    turned = kinds[4:] + kinds[:4]
    return [*sides.AROUND, *zip(kinds, kinds), *zip(kinds, turned)]


def keeps_order(method, accuracy, side, stretched):
    """Whether the truncation next to the side has the accuracy. If κ is a field, a diffusion has rows without
    growing modes on a uniform axis beside sides that state a number, and with coordinates everywhere at
    accuracy 2 (test_rough_diffusivity.py and test_rough_coordinates.py test their order)."""
    if method != "diffusion κ" or side is None:
        return True
    if stretched and accuracy == 2:
        return False
    return not side.startswith("curvature") and (stretched in (True, None) or side.split()[0] not in exact.DATA)


def on_a_line(method, accuracy):
    """All sides for each form; of the staggered forms, each side with itself and one more."""
    if method == "derivative":
        forms = [(order, None, pairs(sides.OPERATOR_SIDES)) for order in (1, 2, 3, 4)]
        forms += [(order, stagger, some_pairs(sides.OPERATOR_SIDES)) for order in range(5)
                  for stagger in ("forward", "backward")]
    elif method == "interpolate":
        forms = [(0, stagger, some_pairs(sides.OPERATOR_SIDES)) for stagger in ("forward", "backward")]
    elif method == "diffusion":
        forms = [(2, None, pairs(sides.DIFFUSION_SIDES))]
    elif method == "diffusion κ":
        forms = [(2, None, some_pairs([side for side in sides.DIFFUSION_SIDES if "reflect" not in side]))]
    elif method == "curl":
        forms = []
    else:
        forms = [(order_of(method), None, some_pairs(sides.OPERATOR_SIDES))]
    return [Case(method, order, accuracy, stagger, "x" if method in ("derivative", "interpolate") else None,
                 (pair,), (stretched,), dtype)
            for order, stagger, found in forms for pair in found for stretched in (False, True)
            for dtype in DTYPES if not (stretched and any(side.startswith("reflect") for side in pair))
            and all(keeps_order(method, accuracy, side, stretched) for side in pair)]


def order_of(method):
    return 1 if method in FIRST else {"biharmonic": 4, "interpolate": 0}.get(method, 2)


def covering(seed):
    """Rows of values of all factors, so that any two values of different factors meet (where they may)."""
    chosen = random.Random(seed)
    kinds = sorted({*sides.OPERATOR_SIDES, *sides.DIFFUSION_SIDES, "periodic", "endpoint"})
    forms = [("derivative", order, None) for order in (1, 2, 3, 4)]
    forms += [("derivative", order, stagger) for order in (1, 2, 3, 4) for stagger in ("forward", "backward")]
    forms += [("interpolate", 0, "forward"), ("interpolate", 0, "backward")]
    forms += [(method, order_of(method), None) for method in METHODS[2:]]
    factors = [forms, ACCURACIES, (2, 3), DTYPES, *[kinds] * 6, *[(False, True)] * 3, "xyz"]

    def may(row):
        """With None for factors that are not chosen yet."""
        (method, order, _) = row[0] or (None, 0, None)
        for k in range(3):
            low, high = row[4 + 2 * k], row[5 + 2 * k]
            around = {low, high} & {"periodic", "endpoint"}
            if None not in (low, high) and around and low != high:
                return False
            reflect = any(side and side.startswith("reflect") for side in (low, high))
            if reflect and (row[10 + k] or (method and method != "diffusion")):
                return False
            if method and method.startswith("diffusion") and "one-sided" in (low, high):
                return False
            if not all(keeps_order(method, row[1], side, row[10 + k]) for side in (low, high)):
                return False
            if row[2] == 2 and k == 2 and (low, high) != (None, None) and around != {"periodic"}:
                return False  # no such axis: one word for it
        if row[2] == 2 and row[13] == "z":
            return False
        # In three dimensions grids are small.
        return not (row[2] == 3 and order >= 3 and row[1] and row[1] > 6)

    wanted = set()
    for a, b in itertools.combinations(range(len(factors)), 2):
        for x, y in itertools.product(factors[a], factors[b]):
            row = [None] * len(factors)
            row[a], row[b] = x, y
            if may(row):
                wanted.add((a, x, b, y))
    made, in_order = [], sorted(wanted, key=repr)
    while wanted:
        row = [None] * len(factors)
        in_order = [pair for pair in in_order if pair in wanted]
        a, x, b, y = chosen.choice(in_order)
        row[a], row[b] = x, y
        if not complete(row, factors, may, wanted, chosen):
            wanted.discard((a, x, b, y))  # the two may not meet after all
            continue
        made.append(tuple(row))
        wanted -= {(a, row[a], b, row[b]) for a, b in itertools.combinations(range(len(row)), 2)}
    return made


def complete(row, factors, may, wanted, chosen):
    """Choose the other factors; prefer the values that cover the most missing pairs."""
    for k in chosen.sample(range(len(row)), len(row)):
        if row[k] is not None:
            continue
        best, most = [], -1
        for value in factors[k]:
            row[k] = value
            if not may(row):
                continue
            new = sum((min(k, o), *((value, o, row[o]) if k < o else (row[o], k, value))) in wanted
                      for o in range(len(row)) if o != k and row[o] is not None)
            if new > most:
                best, most = [], new
            if new == most:
                best.append(value)
        if not best:
            return False
        row[k] = chosen.choice(best)
    return True


def in_space(seed):
    made = []
    for (method, order, stagger), accuracy, d, dtype, *rest in covering(seed):
        found = tuple((rest[2 * k], rest[2 * k + 1]) for k in range(d))
        along = rest[9] if method in ("derivative", "interpolate") else None
        made.append(Case(method, order, accuracy, stagger, along, found, tuple(rest[6:6 + d]), dtype))
    return sorted(set(made), key=repr)


LINES = [case for m in METHODS for accuracy in ACCURACIES for case in on_a_line(m, accuracy)]
SPACE = in_space(SEED)


# One axis of a case on one grid.

class Line:
    """The wave along an axis in the server's units: distances are phases over the wavenumber."""

    def __init__(self, case, k):
        self.axis, (self.low, self.high) = "xyz"[k], case.sides[k]
        self.active = case.along in (None, self.axis)
        self.form = Form(case.order if self.active else 2, case.accuracy,
                         case.stagger if self.active else None, case.method.startswith("diffusion"))
        self.wavenumber = 2 * np.pi / WAVELENGTHS[self.axis]

    def on(self, grid):
        self.grid = grid
        psi = waves.phases(grid)
        self.n = grid.n
        self.spacing = (np.asarray(psi / self.wavenumber, "f8") if grid.stretched
                        else float((psi[1] - psi[0]) / self.wavenumber))
        self.wave = waves.field(grid, psi[:grid.n]).astype("c16")
        self.numbers = [waves.number(grid, end, side) * self.wavenumber ** sides.order_of(side)
                        if sides.states_number(side) else 0.0
                        for end, side in (("-", self.low), ("+", self.high))]
        self.v = [waves.V[end] * self.wavenumber for end in "-+"]

    def derivative(self, order, of_another):
        """(exact, the rows' deviation from it, Σ|w|) at the positions of the results; of_another: for a field
        of which the sides state nothing."""
        form, ends = self.form._replace(order=order), (self.low, self.high)
        places = waves.places(self.grid, form, *ends)
        off, size = waves.truncation(self.grid, form, *map(waves.without_data, ends) if of_another else ends)
        scale = self.wavenumber**order
        return (scale * waves.field(self.grid, places, order).astype("c16"), scale * off.astype("c16"),
                scale * size)

    def product(self):
        """The same of (κ f′)′."""
        right, off, size = waves.product(self.grid, self.form, self.low, self.high)
        scale = self.wavenumber**2
        return scale * right.astype("c16"), scale * off.astype("c16"), scale * size

    def coefficient(self):
        return waves.coefficient(self.grid).of(waves.phases(self.grid)[:self.n]).astype("f8")

    def kept(self):
        """Without the points that are data."""
        ends = []
        for side in (self.low, self.high):
            radius = 0
            if side == "halo":
                radius = halo_radius(self.form, self.grid.stretched)
            elif side == "value" and self.form.diffusion:
                radius = 1
            ends.append(radius)
        return slice(ends[0], self.n - ends[1])


def halo_radius(form, stretched):
    if stretched:
        return (form.order + form.accuracy + (form.stagger is not None)) // 2
    points = exact.centred(form.order, form.accuracy, waves.STAGGER[form.stagger]).points
    return max(-points[0], points[-1])


def lines_of(case, which):
    """The lines on the coarse (0) or fine (1) grids."""
    d = len(case.sides)
    most = {1: 130, 2: 80, 3: 50}[d]
    made = []
    for k in range(d):
        line = Line(case, k)
        if line.active:
            grids, _ = waves.choose(line.form, line.low, line.high, case.stretched[k], case.dtype, most,
                                    case.method in PRODUCTS)
        else:  # nothing is done along it
            least = 2 * waves.least_points(line.form)
            grids = waves.pair(line.form, line.low, line.high, case.stretched[k], 1.0, least)[:1] * 2
        line.on(grids[which])
        made.append(line)
    return made


def outer(factors):
    """A product over the axes, x first, in C order."""
    f = np.ones(())
    for values in factors:
        f = values[(...,) + (None,) * f.ndim] * f
    return f


def terms_of(case):
    """{component: [(factor, component of f, {axis: order})]}"""
    axes = "xyz"[:len(case.sides)]
    if case.along:
        return {"": [(1.0, "", {case.along: case.order})]}
    if case.method == "gradient":
        return {a: [(1.0, "", {a: 1})] for a in axes}
    if case.method == "divergence":
        return {"": [(1.0, a, {a: 1}) for a in axes]}
    if case.method == "curl":
        curls = {"": ("x", "y")} if len(axes) == 2 else {"x": ("y", "z"), "y": ("z", "x"), "z": ("x", "y")}
        return {c: [(1.0, b, {a: 1}), (-1.0, a, {b: 1})] for c, (a, b) in curls.items()}
    if case.method == "biharmonic":
        return {"": [(1.0, "", {a: 4}) for a in axes] +
                    [(2.0, "", {a: 2, b: 2}) for a, b in itertools.combinations(axes, 2)]}
    return {"": [(1.0, "", {a: 2}) for a in axes]}


class Problem:
    """A case on one grid: f, the exact result, and the result of the exact rows."""

    def __init__(self, case, which):
        self.case = case
        self.lines = lines_of(case, which)
        self.f = outer(line.wave for line in self.lines)
        product = case.method in PRODUCTS
        waves_of = {line.axis: line.wave * (line.coefficient() if product else 1) for line in self.lines}
        self.coefficient = outer(line.coefficient() for line in self.lines) if product else None
        self.right, self.off, self.size = {}, {}, 0.0
        for component, terms in terms_of(case).items():
            right = off = 0
            size = 0.0
            for factor, _, orders in terms:
                exactly, made, sizes = dict(waves_of), dict(waves_of), 1.0
                for number, (a, order) in enumerate(orders.items()):
                    line = self.lines["xyz".index(a)]
                    # Of two derivatives, the second is applied to the result of the first.
                    exactly[a], wrong, sum_of = (line.product() if product
                                                 else line.derivative(order, number > 0))
                    made[a] = exactly[a] + wrong
                    sizes *= sum_of
                right = right + factor * outer(exactly.values())
                off = off + factor * (outer(made.values()) - outer(exactly.values()))
                size += abs(factor) * sizes
            self.right[component], self.off[component] = right, off
            self.size = max(self.size, size)
        self.kept = tuple(line.kept() for line in reversed(self.lines))
        self.envelope = outer(waves.envelope(line.grid) for line in self.lines)

    def worst(self, errors):
        """Over all points except data."""
        return max(float((np.abs(error) / self.envelope)[self.kept].max()) for error in errors.values())

    def predicted(self):
        return self.worst(self.off)

    def is_a_step(self):
        return self.case.method.startswith("diffusion")

    def parts(self):
        """The real and the imaginary part, if there is one; or both as a batch. A diffusion's slopes are
        arrays, because a number would require a field without a third derivative."""
        if self.case.method.startswith("diffusion"):
            return [both]
        if not np.abs(self.f.imag).max() > 1e-9:
            return [np.real]
        numbers = any(map(sides.states_number, (s for pair in self.case.sides for s in pair)))
        return [np.real, np.imag] if numbers and len(self.lines) == 1 and self.case.dtype == "<f8" else [both]

    def requests(self, dtype):
        """[params], one for each of the parts."""
        case = self.case
        d = len(self.lines)
        vector = case.method in ("divergence", "curl")
        common = dict(accuracy=case.accuracy)
        spacings = {line.axis: line.spacing for line in self.lines}
        if case.along:
            common |= dict(axis=case.along)
        common |= dict(spacing=spacings)
        if case.method == "derivative":
            common |= dict(order=case.order)
        if case.stagger:
            common |= dict(stagger=case.stagger)
        if self.is_a_step():
            common |= dict(steps=1, dt=1.0, allow_unstable=True, diffusivity=KAPPA)
        made = []
        for part in self.parts():
            # float32's own numbers, so that both types can be asked the same.
            f = np.ascontiguousarray(part(self.f).astype(case.dtype).astype(dtype))
            words, endpoint = {}, {}
            for line in self.lines:
                others = outer(other.wave for other in self.lines if other is not line)
                for end, side, number, v in zip("-+", (line.low, line.high), line.numbers, line.v):
                    stated = part(number * others)
                    if side.startswith("reflect"):
                        stated = 0.0
                    elif np.ndim(stated):
                        stated = np.ascontiguousarray(stated.astype(case.dtype).astype(dtype))
                    else:
                        stated = float(np.asarray(stated, case.dtype))
                    words[line.axis + end] = sides.word(side, stated, v)
                    if vector and side == "halo":  # which component's would it be?
                        words[line.axis + end] = {"halo": 0}
                endpoint[line.axis] = line.low == "endpoint"
            params = dict(f={a: f for a in "xyz"[:d]} if vector else f, boundary=words, endpoint=endpoint)
            if case.method in PRODUCTS:
                k = np.stack([self.coefficient] * 2) if part is both else self.coefficient
                params[PRODUCTS[case.method]] = np.ascontiguousarray(k.astype(case.dtype).astype(dtype))
            made.append(common | params | (dict(batch=1) if part is both else {}))
        return made

    def results(self, outs):
        """{component: complex} from the replies to the requests, if these are of the equation's operator."""
        made = {}
        for part, out in zip(self.parts(), outs, strict=True):
            for component, values in (out if isinstance(out, dict) else {"": out}).items():
                values = values.astype("f8")
                if self.is_a_step():
                    f = part(self.f).astype(self.case.dtype)
                    values = (values - f) / (1 if self.case.method in PRODUCTS else KAPPA)
                if part is both:
                    values = values[0] + 1j * values[1]
                made[component] = made.get(component, 0) + values * (1j if part is np.imag else 1)
        return made


def both(f):
    return np.stack([np.real(f), np.imag(f)])


def order_between(problems, errors):
    steps = [max(float(waves.step(line.grid)) for line in p.lines if line.active) for p in problems]
    return float(np.log(errors[0] / errors[1]) / np.log(steps[0] / steps[1]))


class Flow:
    """Requests in flight, several at a time, each with a function for its replies."""

    def __init__(self, client, most=12):
        self.client, self.most, self.pending = client, most, collections.deque()

    def ask(self, method, requests, then):
        self.pending.append(([self.client.send(method, **params) for params in requests], then))
        while len(self.pending) > self.most:
            self.answer()

    def answer(self):
        msgids, then = self.pending.popleft()
        outcomes = [self.client.outcome(msgid) for msgid in msgids]
        for error, _ in outcomes:
            if error:
                raise error
        then([result["out"] for _, result in outcomes])

    def finish(self):
        while self.pending:
            self.answer()


@pytest.fixture(scope="module")
def table():
    rows = []
    yield rows
    head = "method order accuracy stagger along low,high coordinates dtype points error observed by".split()
    with open(fdtest.BUILD / "convergence.tsv", "w") as file:
        for row in [head, *rows]:
            print(*row, sep="\t", file=file)


def test_number_of_rows():
    """No combination is omitted without a reason."""
    assert len(set(LINES)) == len(LINES)
    print(f"seed of the covering array: {SEED}")
    assert collections.Counter(case.method for case in LINES) == COUNTS["a line"]
    assert len(SPACE) == COUNTS["space"]
    assert len(set(SPACE)) == len(SPACE) and {case.method for case in SPACE} == set(METHODS)


COUNTS = {
    "a line": {"derivative": 15424, "interpolate": 896, "laplacian": 448, "biharmonic": 448, "gradient": 448,
               "divergence": 448, "diffusion": 2752, "laplacian κ": 448, "diffusion κ": 168},
    "space": 505}


def check(client, table, cases):
    flow, wrong, seen, compared = Flow(client), [], collections.Counter(), 0

    def judge(case, problems, outs):
        made = [problem.results(out) for problem, out in zip(problems, outs)]
        errors = [problem.worst({c: m[c] - problem.right[c] for c in problem.right})
                  for problem, m in zip(problems, made)]
        predicted = [problem.predicted() for problem in problems]
        observed, expected = order_between(problems, errors), order_between(problems, predicted)
        if predicted[1] < ABOVE_ROUNDING * np.finfo(case.dtype).eps * problems[1].size:
            kind = "rounding"
        elif abs(expected - case.accuracy) <= SHOWS:
            kind = "shown"
            good = abs(observed - case.accuracy) <= TOLERANCE
        else:
            kind = "as exact rows"
            good = abs(observed - expected) <= LIKE_THEM
        if kind != "rounding" and not good:
            wrong.append((case, [p.f.shape for p in problems], errors, predicted, observed))
        seen[kind] += 1
        table.append([case.method, case.order, case.accuracy, case.stagger or "-", case.along or "-",
                      " ".join(map(",".join, case.sides)), "".join("ny"[s] for s in case.stretched), case.dtype,
                      "×".join(map(str, problems[1].f.shape)), f"{errors[1]:.2e}",
                      "-" if kind == "rounding" else f"{observed:.2f}", kind])

    def agree(case, problem, out, wide):
        nonlocal compared
        compared += 1
        narrow, wide = problem.results(out), problem.results(wide)
        points = len(problem.lines) * (case.order + case.accuracy)
        bound = (points + 3) * np.finfo("<f4").eps * (problem.size + problem.is_a_step() * 2)
        for c in problem.right:
            off = float((np.abs(narrow[c] - wide[c]) / problem.envelope).max())
            if not off <= 3 * bound:
                wrong.append((case, "float32 differs from float64", off, bound))

    for case in cases:
        problems = [Problem(case, 0), Problem(case, 1)]
        got = {}

        def keep(which, outs, case=case, problems=problems, got=got):
            got[which] = outs
            if which == 1 and 0 in got:
                judge(case, problems, [got[0], outs])
            if which == "wide" and 1 in got:
                agree(case, problems[1], got[1], outs)

        for which, problem in enumerate(problems):
            method = case.method.split()[0]
            flow.ask(method, problem.requests(case.dtype), lambda outs, w=which, k=keep: k(w, outs))
        if case.dtype == "<f4":
            flow.ask(method, problems[1].requests("<f8"), lambda outs, k=keep: k("wide", outs))
    flow.finish()
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(map(str, wrong[:20]))
    print(dict(seen), end=" ")
    assert seen.total() == len(cases) > 0 and compared == sum(case.dtype == "<f4" for case in cases)


UNITS = [*dict.fromkeys((case.method, case.accuracy, *case.stretched) for case in LINES)]


@pytest.mark.parametrize("method, accuracy, stretched", UNITS)
def test_lines(client, table, method, accuracy, stretched):
    cases = [case for case in on_a_line(method, accuracy) if case.stretched == (stretched,)]
    check(client, table, cases)


@pytest.mark.parametrize("method", METHODS)
def test_space(client, table, method):
    cases = [case for case in SPACE if case.method == method]
    check(client, table, cases)

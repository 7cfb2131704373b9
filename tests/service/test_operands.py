"""Operands and parameters of many numbers: every form gives the same bits, nothing of them remains, and each
refusal names its parameter."""

import numpy
import pytest

from fdtest import Client, Daemon, FdError, Region, eventually, wave

OPTIONS = ("--user-queue-bytes", "256M")


class Forms:
    """One array in every form of an operand."""

    def __init__(self, client, array):
        self.client, self.array = client, numpy.ascontiguousarray(array)
        self.region = Region.holding(client, self.array, offset=16)
        self.field = client.put(self.array)

    def __iter__(self):
        yield "inline", self.array
        yield "field", {"field": self.field}
        yield "region", self.region.place(16, like=self.array)
        if self.array.size < 1000:
            yield "list", self.array.tolist()

    def end(self):
        self.client.free(self.field)
        self.client.call("unregister", region=self.region.id)


STEP = {"dt": 1e-3, "steps": 3}
# (method, parameters, of an operand its name, or the kind of a boundary)
OPERANDS = [("laplacian", {}, "value"), ("laplacian", {}, "derivative"), ("laplacian", {}, "curvature"),
            ("laplacian", {}, "coefficient"),
            *(("diffusion", STEP | {"scheme": scheme}, name) for scheme in ("forward-euler", "rk4", "adi")
              for name in ("source", "diffusivity"))]


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
@pytest.mark.parametrize("shape", [(6, 7, 8), (12, 70, 80)], ids=["small", "payload"])
@pytest.mark.parametrize("method, params, name", OPERANDS)
def test_an_operand_in_every_form(unchanged, client, method, params, name, shape, dtype):
    """Inline, resident, in a region and (of a face) as a list: the same bits. A number is the array that has it
    everywhere."""
    of_face = name in ("value", "derivative", "curvature")
    f, shape = wave(*shape, dtype=dtype), shape[of_face:]
    operand = wave(*shape, dtype=dtype, seed=3) + (0 if of_face else 7)

    def out(operand):
        given = {"boundary": {"z-": {name: operand}, "z+": "one-sided"}} if of_face else {name: operand}
        return client.out(method, f=f, accuracy=2, **params, **given)

    forms = Forms(client, operand)
    results = {form: out(given) for form, given in forms if of_face or form != "list"}
    for form, result in results.items():
        assert result.tobytes() == results["inline"].tobytes(), form
    filled = out(numpy.full(shape, 0.5, dtype))
    assert filled.tobytes() != results["inline"].tobytes()
    if of_face:
        assert out(0.5).tobytes() == filled.tobytes()
    elif name == "coefficient":
        assert filled == pytest.approx(client.out(method, f=f, accuracy=2) / 2, abs=1e-5)
    else:
        assert out(0.5) == pytest.approx(filled, abs=1e-5 if dtype == "<f4" else 1e-9)
    if name == "source":
        assert filled == pytest.approx(client.out(method, f=f, accuracy=2, **params) + 0.5 * 3e-3, abs=1e-5)
    forms.end()


def test_both_numbers_of_a_mixed_boundary(unchanged, client):
    f, v, c = wave(9, 30, dtype="<f8"), 1 + wave(9, dtype="<f8") ** 2, wave(9, dtype="<f8", seed=1)
    expected = client.out("laplacian", f=f, accuracy=2,
                          boundary={"x": {"mixed": v, "const": c}, "y": "symmetric"})
    forms = {"v": Forms(client, v), "c": Forms(client, c)}
    for (name, first), (_, second) in zip(forms["v"], forms["c"]):
        result = client.out("laplacian", f=f, accuracy=2,
                            boundary={"x": {"mixed": first, "const": second}, "y": "symmetric"})
        assert result.tobytes() == expected.tobytes(), name
    for form in forms.values():
        form.end()


def test_a_mixed_boundary_that_says_nothing_of_the_face(unchanged, client):
    """If 1 + e v is 0, only the rows that have the number divide by it."""
    f, v = wave(9, 30, dtype="<f8"), numpy.ones(9)

    def derivative():
        side = {"mixed": v, "const": 1.0, "at": "face"}
        return client.out("derivative", f=f, axis="x", accuracy=2, spacing={"x": 8 / 3}, boundary={"x": side})

    expected = derivative()  # e is 1
    v[4] = -1
    result = derivative().copy()
    assert not numpy.isfinite(result[4, [0, -1]]).any()
    result[4, [0, -1]] = expected[4, [0, -1]]
    assert result.tobytes() == expected.tobytes()


def test_a_face_for_each_field_of_a_batch(unchanged, client):
    """One face for all fields of a batch, or one for each; in 1D a number for each."""
    f = numpy.stack([wave(14, 16, dtype="<f8", seed=i) for i in range(3)])
    faces = numpy.stack([wave(14, dtype="<f8", seed=9 + i) for i in range(3)])

    def laplacian(f, face, **params):
        return client.out("laplacian", f=f, accuracy=2, boundary={"x+": {"value": face}, "*": "one-sided"}, **params)

    each = laplacian(f, faces, batch=1)
    shared = laplacian(f, faces[0], batch=1)
    for i in range(3):
        assert each[i].tobytes() == laplacian(f[i], faces[i]).tobytes()
        assert shared[i].tobytes() == laplacian(f[i], faces[0]).tobytes()
    lines = f[:, 0]
    for form in ([1.0, 2.0, 3.0], numpy.array([1.0, 2.0, 3.0])):
        result = client.out("laplacian", f=lines, batch=1, accuracy=2, boundary={"value": form})
        for i in range(3):
            alone = client.out("laplacian", f=lines[i], accuracy=2, boundary={"value": i + 1.0})
            assert result[i].tobytes() == alone.tobytes()


def test_numbers_of_a_list_are_rounded_to_the_fields_type(unchanged, client):
    f = wave(12, 14)
    face = [0.1 * i for i in range(12)]
    listed = client.out("laplacian", f=f, accuracy=2, boundary={"x": {"value": face}})
    inline = client.out("laplacian", f=f, accuracy=2, boundary={"x": {"value": numpy.array(face, "<f4")}})
    assert listed.tobytes() == inline.tobytes()


def test_requests_that_use_an_operand_take_effect_in_order(unchanged, client):
    """A job that overwrites a face's field runs after earlier jobs that read it."""
    f, face = wave(60, 70, 80), wave(70, 80, seed=4)
    field = client.put(face)
    boundary = {"z": {"value": {"field": field}}, "*": "one-sided"}
    before = client.out("laplacian", f=f, accuracy=2, boundary=boundary)
    read = [client.send("laplacian", f=f, accuracy=2, boundary=boundary) for _ in range(3)]
    write = client.send("derivative", f={"field": field}, axis="x", accuracy=2, out={"field": field})
    after = client.send("laplacian", f=f, accuracy=2, boundary=boundary)
    for msgid in read:
        assert client.recv(msgid)["out"].tobytes() == before.tobytes()
    client.recv(write)
    changed = client.get(field)
    expected = client.out("laplacian", f=f, accuracy=2, boundary={"z": {"value": changed}, "*": "one-sided"})
    assert client.recv(after)["out"].tobytes() == expected.tobytes()
    client.free(field)


def test_a_field_that_is_read_beside_f_is_not_overwritten(unchanged, client):
    f = client.put(wave(20, 20))
    face = client.put(wave(20))
    assert client.refused("laplacian", f={"field": f}, accuracy=2, out={"field": face},
                          boundary={"x": {"value": {"field": face}}}).what == ("INVALID_ARGUMENT", "out")
    client.free(f, face)


def test_a_lost_operand_is_told():
    """A resident face is lost with its worker, as any field; the next job succeeds."""
    with Daemon() as daemon, Client(daemon.path) as client:
        face = client.put(wave(20))
        daemon.kill_worker()
        boundary = {"x": {"value": {"field": face}}}
        assert client.refused("laplacian", f=wave(20, 20), accuracy=2, boundary=boundary).what == ("FIELD_LOST", "boundary x-")
        boundary = {"x": {"value": wave(20)}}
        client.out("laplacian", f=wave(20, 20), accuracy=2, boundary=boundary)


def test_what_operands_take_is_asked_beforehand(unchanged, client):
    """dry_run counts them as the job is charged for them; resident ones cost nothing more."""
    f, face = wave(20, 70, 80), wave(70, 80)
    field = client.put(face)

    def dry_run(**boundary):
        return client.call("laplacian", f=f, accuracy=2, dry_run=True, boundary={"*": "one-sided"} | boundary)["bytes"]

    bare = dry_run()
    assert bare == 2 * f.nbytes
    assert dry_run(**{"z-": {"value": face}}) == bare + face.nbytes
    assert dry_run(**{"z": {"value": face}}) == bare + 2 * face.nbytes
    assert dry_run(**{"z": {"value": {"field": field}}}) == bare
    described = {"nd": True, "type": "<f4", "shape": [70, 80]}
    assert dry_run(**{"z-": {"mixed": 1, "const": described}}) == bare + face.nbytes
    client.free(field)


def test_hang_ups_half_way_leave_nothing(unchanged, daemon):
    """Connections end at every point of a message with operands in every form."""
    with Client(daemon.path) as client:
        f, face = wave(20, 70, 80), wave(70, 80)
        forms = Forms(client, face)
        for _, form in forms:
            for _ in range(3):
                with Client(daemon.path) as other:
                    other.send("laplacian", f=f, accuracy=2, boundary={"z": {"value": form}, "*": "one-sided"})
        forms.end()


def test_a_region_is_held_while_an_operand_is_copied_from_it(unchanged, client):
    """unregister is answered after the jobs that name the region; later jobs do not find it."""
    f, face = wave(60, 70, 80), wave(70, 80, seed=3)
    expected = client.out("laplacian", f=f, accuracy=2, boundary={"z": {"value": face}, "*": "one-sided"})
    for _ in range(5):
        region = Region.holding(client, face)
        boundary = {"z": {"value": region.place(like=face)}, "*": "one-sided"}
        jobs = [client.send("laplacian", f=f, accuracy=2, boundary=boundary) for _ in range(3)]
        cancelled = client.send("laplacian", f=f, accuracy=2, boundary=boundary)
        client.send("cancel", msgid=cancelled)
        gone = client.send("unregister", region=region.id)
        late = client.send("laplacian", f=f, accuracy=2, boundary=boundary)
        answered = []
        while gone not in answered:
            msgid, error, result = client.recv_any()
            answered.append(msgid)
            if msgid in jobs:
                assert not error and result["out"].tobytes() == expected.tobytes()
        assert set(jobs) | {cancelled} <= set(answered)
        if late not in answered:
            assert client.error(late).code == "NOT_FOUND"


STENCIL = {"offsets": numpy.arange(-3, 4, dtype="<i8"), "weights": numpy.ones(7) / 7}


def bins(array, *cuts):
    """The wire's map of an array whose data is a list of bins, cut at those bytes."""
    data = array.tobytes()
    ends = [0, *cuts, len(data)]
    return {"nd": True, "type": array.dtype.str, "shape": list(array.shape),
            "data": [data[a:b] for a, b in zip(ends, ends[1:])]}


@pytest.mark.parametrize("dtype", ["<i8", "<i4", "<i2", "|i1", "<f4", "<f8"])
def test_numbers_in_every_form(unchanged, client, dtype):
    f = wave(6, 40, dtype="<f8")
    offsets = numpy.array([[j, i] for j in range(-2, 3) for i in range(-8, 9)], dtype)
    weights = 1.0 / (1 + numpy.arange(len(offsets)))
    expected = client.out("stencil", f=f, offsets=offsets.tolist(), weights=weights.tolist())
    many = numpy.array([[j, i] for j in range(-8, 9) for i in range(-8, 9)], dtype)
    inline = [(offsets, weights), (bins(offsets, 3, 7), bins(weights, 1)), (bins(offsets), weights.tolist())]
    for form, weight in inline:
        assert client.out("stencil", f=f, offsets=form, weights=weight).tobytes() == expected.tobytes()
    large = numpy.concatenate([weights, numpy.zeros(len(many) - len(weights))])
    first = numpy.concatenate([offsets, [o for o in many.tolist() if o not in offsets.tolist()]]).astype(dtype)
    as_payload = client.out("stencil", f=f, offsets=first.astype("<i8"), weights=large.astype("<f8"))
    assert as_payload.tobytes() == client.out("stencil", f=f, offsets=bins(first, 100, 200), weights=bins(large, 9)).tobytes()
    assert numpy.allclose(as_payload, expected)


@pytest.mark.parametrize("name,says", [("short", "of data has"), ("long", "more than"), ("not there", "missing")])
def test_payload_of_numbers_is_counted(unchanged, client, name, says):
    f, weights = wave(40, dtype="<f8"), numpy.ones(1000)
    form = bins(weights, 4000)
    if name == "short":
        form["data"].pop()
    elif name == "long":
        form["data"].append(b"12345678")
    else:
        del form["data"]
    error = client.refused("stencil", f=f, offsets=numpy.arange(1000), weights=form)
    assert (error.code, error.parameter) == ("INVALID_ARGUMENT", "weights") and says in str(error)


def test_numbers_of_a_message_have_a_limit(unchanged, client):
    """The limit of all parameters together; that of a single one is checked when it arrives."""
    most = (1 << 23) // 8
    error = client.refused("stencil", f=wave(40), offsets=numpy.zeros(most // 2), weights=numpy.zeros(most // 2 + 1))
    assert (error.code, error.parameter) == ("TOO_LARGE", "weights")
    assert (error.need, error.limit) == ((1 << 23) + 8, 1 << 23)
    client.out("stencil", f=wave(40), **STENCIL)


def test_numbers_that_wait_are_charged_to_the_queue():
    """A job's block is memory of the server while it waits."""
    offsets = numpy.array([[k, j, i] for k in range(-8, 9) for j in range(-8, 9) for i in range(-8, 9)])
    weights = numpy.ones(len(offsets))
    block = len(offsets) * (12 + 8)
    with Daemon("--user-queue-bytes", str(block // 2)) as daemon, Client(daemon.path) as client:
        f = wave(4, 5, 6)
        error = client.refused("stencil", f=f, offsets=offsets, weights=weights)
        assert error.code == "TOO_LARGE" and error.limit == block // 2
        assert error.need == pytest.approx(block + f.nbytes, abs=16)
        half = slice(None, None, 4)
        client.out("stencil", f=f, offsets=offsets[half], weights=weights[half])
        eventually(lambda: client.call("stats")["user"]["queue_bytes"] == 0, "nothing charged any more")
    large = wave(24, 40, 40)
    for room in (large.nbytes + block // 2, 2 * large.nbytes + block // 2):  # for the block, then for the result
        with Daemon("--user-queue-bytes", str(room)) as daemon, Client(daemon.path) as client:
            error = client.refused("stencil", f=large, offsets=offsets, weights=weights)
            assert error.code == "TOO_LARGE" and error.limit == room  # waiting would not help
            assert room < error.need <= 2 * large.nbytes + block + 16


def test_an_estimate_s_numbers_are_charged_too():
    """With probes, the jobs have a block of numbers."""
    f, x = wave(2048, dtype="<f8"), numpy.arange(2049.0)
    params = {"f": f, "spacing": x, "steps": 1, "cfl": 0.1, "accuracy": 2, "report": True}
    needs = []
    for probes in ({}, {"probes": [[5]]}):
        room, code = 1, "TOO_LARGE"
        while code:
            with Daemon("--user-queue-bytes", str(int(room))) as daemon, Client(daemon.path) as client:
                code = None
                try:
                    client.call("diffusion", **params, **probes)
                except FdError as error:
                    code, need = error.code, error.need
                    assert code == "TOO_LARGE" and need > room
                    room = need
                eventually(lambda: client.call("stats")["user"]["queue_bytes"] == 0, "nothing charged any more")
        needs.append(room)
    probed = 32 + 2 * 8  # where they are, and what they saw
    assert needs[1] == needs[0] + probed + x.nbytes


def test_probes_in_every_form(unchanged, client):
    """Of inline results and of fields."""
    f = numpy.stack([wave(12, 40, dtype="<f8", seed=i) for i in range(3)])
    params = {"f": f, "dt": 1e-3, "steps": 5, "batch": 1, "boundary": {"x": {"value": 1}}}
    at = [[0, 0, 0], [1, -1, 7], [2, 11, -1], [-3, 5, 39]]
    expected = client.call("diffusion", probes=at, **params)
    for form in (numpy.array(at, "<i2"), numpy.array(at * 200, "<i8"), bins(numpy.array(at), 9, 20)):
        again = client.call("diffusion", probes=form, out="field", **params)
        assert again["probes"][:, :4].tobytes() == expected["probes"].tobytes()
        field = again["out"]["field"]
        assert client.get(field).tobytes() == expected["out"].tobytes()
        client.free(field)


def test_probes_alone_make_no_end_of_a_job(no_fields_left, client, daemon):
    """Answers with probes are streamed, withdrawn and dropped like results."""
    f = wave(40, dtype="<f8")
    params = {"f": f, "steps": 4000, "cfl": 0.5, "probes": numpy.arange(40).reshape(40, 1)}
    expected = client.call("diffusion", **params)["probes"]
    assert expected.shape == (4001, 40)
    for out in ("inline", "field"):
        with Client(daemon.path) as other:
            jobs = [other.send("diffusion", out=out, **params) for _ in range(4)]
            assert other.call("cancel", msgid=jobs[3])["state"] in ("cancelled", "already_done")
            for msgid in jobs[:3]:
                error, result = other.outcome(msgid)
                assert not error and result["probes"].tobytes() == expected.tobytes()
        with Client(daemon.path) as other:
            other.send("diffusion", out=out, **params)
    eventually(lambda: client.call("stats")["totals"]["jobs"] == 0, "no job")


def test_coordinates_in_every_form(unchanged, client):
    f = wave(9, 40, dtype="<f8")
    x = numpy.arange(40.0) ** 1.25
    params = {"f": f, "accuracy": 4, "boundary": "one-sided"}
    expected = client.out("laplacian", spacing={"x": x, "*": 0.5}, **params)
    for form in (x.tolist(), bins(x, 100, 101), {"nd": True, "type": "<f8", "shape": [40], "data": x.tobytes()}):
        assert client.out("laplacian", spacing={"y": 0.5, "x": form}, **params).tobytes() == expected.tobytes()
    line = {"f": f[0], "accuracy": 4, "boundary": "one-sided"}
    alone = client.out("laplacian", spacing={"x": x}, **line)
    for form in (x, x.tolist(), {"*": x}):
        assert client.out("laplacian", spacing=form, **line).tobytes() == alone.tobytes()
    whole = client.out("laplacian", spacing=numpy.arange(40) * 3, **line)
    assert whole.tobytes() == client.out("laplacian", spacing=[3.0 * i for i in range(40)], **line).tobytes()
    assert whole == pytest.approx(client.out("laplacian", spacing=3, **line), abs=1e-4)  # of the same order


def test_long_coordinates_come_as_payload(unchanged, client):
    """65,536 of them: half a megabyte beside the field's, for the front itself."""
    n = 65536
    x = numpy.cumsum(1 + 0.5 * numpy.sin(numpy.arange(n)))
    f = 3 * x + 7
    result = client.out("derivative", f=f, spacing=x, accuracy=2, boundary="one-sided")
    assert result == pytest.approx(numpy.full(n, 3.0), abs=1e-9)
    assert client.refused("derivative", f=f, spacing=x[::-1].copy(), accuracy=2, boundary="one-sided").what == (
        "INVALID_ARGUMENT", "spacing x")

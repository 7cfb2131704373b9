#include "protocol/request_chain.h"
#include "protocol/request_job.h"

#include "tests/unit/notation.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

#define MAX_WORK 1e15

static const struct array_type cube = {DTYPE_F32, 3, {20, 30, 40}, 20 * 30 * 40 * 4};

/* What the last decode() has left. */
static struct {
    struct request request;
    struct job job;
    struct failure failure;
} decoded;

/* Decode `text`, and where it is an operator finish the job for an input of `type`. */
static bool decode(const char *text, const struct array_type *type)
{
    msgpack_unpacked unpacked = notation_object(text);
    bool has_msgid;
    uint8_t *block = NULL;
    memset(&decoded.failure, 0, sizeof decoded.failure);
    bool good = request_decode(&unpacked.data, &decoded.request, &has_msgid, &decoded.failure);
    if (good && decoded.request.method == METHOD_OPERATOR)
        good =
            request_job(&decoded.request, type, MAX_WORK, &decoded.job, &block, &decoded.failure);
    assert_int_equal(good, decoded.failure.code == STATUS_OK);
    free(block);
    request_free(&decoded.request);
    msgpack_unpacked_destroy(&unpacked);
    return good;
}

/* `text` is taken if says is NULL, or refused with words of `says` about the parameter. */
static void judged(const char *text, const struct array_type *type, const char *parameter,
                   const char *says)
{
    const struct failure *failure = &decoded.failure;
    if (decode(text, type) != !says ||
        (says && (failure->code != STATUS_INVALID_ARGUMENT ||
                  strcmp(failure->parameter, parameter) != 0 || !strstr(failure->message, says))))
        fail_msg("%s: %s %s: %s", text, status_name(failure->code), failure->parameter,
                 failure->message);
}

/* The text of method "op" with those parameters beside f. */
static const char *text_of(const char *op, const char *params)
{
    static char text[1024];
    snprintf(text, sizeof text, "[0, 1, '%s', [{'f': {'field': 5}, %s}]]", op, params);
    return text;
}

static struct job job_of(const char *op, const char *params, const struct array_type *type)
{
    judged(text_of(op, params), type, NULL, NULL);
    return decoded.job;
}

static void refused(const char *op, const char *params, const char *parameter, const char *says)
{
    judged(text_of(op, params), &cube, parameter, says);
}

TEST(the_designs_example_is_a_job)
{
    const struct job job = job_of("derivative",
                                  "'axis': 'x', 'order': 1, 'accuracy': 8, 'spacing': 0.1, "
                                  "'boundary': 'periodic', 'out': 'inline'",
                                  &cube);
    struct job expected;
    job_init(&expected);
    expected.axes = 3;
    expected.n[AXIS_X] = 40;
    expected.n[AXIS_Y] = 30;
    expected.n[AXIS_Z] = 20;
    expected.spacing[AXIS_X] = 0.1;
    assert_memory_equal(&job, &expected, sizeof job);
}

TEST(equal_jobs_are_equal_bytes)
{
    const struct job plain = job_of("derivative", "'axis': 'x'", &cube);
    const char *const same[] = {
        "'axis': 2",
        "'axis': -1",
        "b'axis': b'x', 'accuracy': 8.0",
        "'axis': 'x', 'spacing': {'x': 1, '*': 7}",
        "'axis': 'x', 'spacing': [3, 2, 1]",
        "'axis': 'x', 'boundary': {'y': 'one-sided'}, 'endpoint': {'z': true}",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const struct job job = job_of("derivative", same[i], &cube);
        assert_memory_equal(&job, &plain, sizeof job);
    }
    const struct job zero = job_of("diffusion", "'dt': 1e-3, 'boundary': {'derivative': 0}", &cube);
    const struct job negative =
        job_of("diffusion", "'dt': 1e-3, 'boundary': {'derivative': -0.0}", &cube);
    assert_memory_equal(&zero, &negative, sizeof zero);
    const struct job still = job_of("diffusion", "'dt': 1e-3, 'diffusivity': 0", &cube);
    const struct job backwards = job_of("diffusion", "'dt': 1e-3, 'diffusivity': -0.0", &cube);
    assert_memory_equal(&still, &backwards, sizeof still);
}

TEST(axes_are_counted_in_the_whole_shape)
{
    const struct array_type five = {DTYPE_F64, 5, {2, 3, 20, 30, 40}, 2 * 3 * 20 * 30 * 40 * 8};
    struct job job = job_of("derivative", "'axis': 2", &five);
    assert_int_equal(job.axis, AXIS_Z);
    assert_int_equal(job.batch, 6);
    assert_int_equal(job.dtype, DTYPE_F64);
    job = job_of("derivative", "'axis': -2, 'batch': 3", &five);
    assert_int_equal(job.axis, AXIS_Y);
    assert_int_equal(job.axes, 2);
    assert_int_equal(job.batch, 120);
    assert_int_equal(job.n[AXIS_Z], 1);
    job = job_of("derivative", "'batch': 2", &cube); /* one axis of space needs no name */
    assert_int_equal(job.axes, 1);
    assert_int_equal(job.batch, 600);

    judged(text_of("derivative", "'axis': 1"), &five, "axis", "");
    judged(text_of("derivative", "'axis': 'x', 'batch': 1"), &five, "batch", "");
}

TEST(numbers_may_be_numpys_scalars)
{
    /* #8 is 0x0706050403020100, #1 is 0: letters are bytes that a text can hold. */
    struct job job =
        job_of("laplacian", "'spacing': {b'nd': false, b'type': '|u1', b'data': b'A'}", &cube);
    assert_true(job.spacing[AXIS_Y] == 65);
    job = job_of("laplacian", "'spacing': {b'nd': false, b'type': '<f4', b'data': b'AAAA'}", &cube);
    assert_true(job.spacing[AXIS_Y] == 0x1.828282p+3);
    job = job_of("laplacian", "'spacing': {b'nd': false, b'type': '<i2', b'data': b'AB'}", &cube);
    assert_true(job.spacing[AXIS_Y] == 0x4241);
    assert_false(decode(
        text_of("diffusion", "'dt': 1e-3, 'steps': {b'nd': false, b'type': '<u8', b'data': #8}"),
        &cube));
    assert_int_equal(decoded.failure.code, STATUS_TOO_LARGE);
    const char *const wrong[] = {
        "{b'nd': false, b'type': '<f8', b'data': b'AAAA'}",
        "{b'nd': false, b'type': '>f4', b'data': b'AAAA'}",
        "{b'nd': false, b'type': '<c8', b'data': #8}",
        "{b'nd': false, b'type': '|b1', b'data': b'A'}",
        "{b'nd': false, b'type': '<f', b'data': b'AAAA'}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char params[200];
        snprintf(params, sizeof params, "'spacing': %s", wrong[i]);
        refused("laplacian", params, "spacing", "number");
    }
    job = job_of("laplacian", "'endpoint': {b'nd': false, b'type': '|b1', b'data': b'A'}", &cube);
    assert_int_equal(job.boundary[AXIS_X][SIDE_LOW].kind, BOUNDARY_ENDPOINT);
}

TEST(spacing_goes_by_axis_name_or_in_the_order_of_shape)
{
    struct job job = job_of("laplacian", "'spacing': [3, 2, 1]", &cube);
    assert_true(job.spacing[AXIS_X] == 1 && job.spacing[AXIS_Y] == 2 && job.spacing[AXIS_Z] == 3);
    job = job_of("laplacian", "'spacing': {'z': 3, '*': 0.5}", &cube);
    assert_true(job.spacing[AXIS_X] == 0.5 && job.spacing[AXIS_Y] == 0.5);
    assert_true(job.spacing[AXIS_Z] == 3);
    job = job_of("laplacian", "'spacing': {'y': 2}, 'batch': 1", &cube);
    assert_true(job.spacing[AXIS_X] == 1 && job.spacing[AXIS_Y] == 2);
    refused("laplacian", "'spacing': {'x': 1, 'x': 2}", "spacing", "twice");
}

/* The request of a diffusion with those parameters beside f and dt; what it holds of the message
 * lives until unpacked is destroyed. */
static struct request request_of(const char *params, msgpack_unpacked *unpacked)
{
    char text[1024];
    struct request request;
    struct failure failure = {0};
    bool has_msgid;
    snprintf(text, sizeof text, "[0, 1, 'diffusion', [{'f': {'field': 5}, 'dt': 1, %s}]]", params);
    *unpacked = notation_object(text);
    if (!request_decode(&unpacked->data, &request, &has_msgid, &failure))
        fail_msg("%s: %s: %s", params, failure.parameter, failure.message);
    return request;
}

TEST(boundaries_have_kinds_numbers_and_places)
{
    static const struct {
        const char *boundary;
        enum boundary_kind kind;
        double value, constant;
        bool at_face;
    } cases[] = {
        {"'periodic'", BOUNDARY_PERIODIC, 0, 0, false},
        {"{'type': 'one-sided'}", BOUNDARY_ONE_SIDED, 0, 0, false},
        {"'symmetric'", BOUNDARY_SYMMETRIC, 0, 0, false},
        {"{'type': 'mirror'}", BOUNDARY_MIRROR, 0, 0, false},
        {"{'type': 'antisymmetric'}", BOUNDARY_ANTISYMMETRIC, 0, 0, false},
        {"{'value': 2.5}", BOUNDARY_VALUE, 2.5, 0, false},
        {"{'value': 2.5, 'at': 'face'}", BOUNDARY_VALUE, 2.5, 0, true},
        {"{'at': 'node', 'derivative': -1}", BOUNDARY_DERIVATIVE, -1, 0, false},
        {"{'mixed': 3, 'const': 4, 'at': 'face'}", BOUNDARY_MIXED, 3, 4, true},
        {"{'mixed': 3}", BOUNDARY_MIXED, 3, 0, false},
        {"{'curvature': 1e3}", BOUNDARY_CURVATURE, 1e3, 0, false},
        {"{'halo': 0.5}", BOUNDARY_HALO, 0.5, 0, false},
        {"'nearest'", BOUNDARY_NEAREST, 0, 0, false},
        {"{'constant': -2.5}", BOUNDARY_CONSTANT, -2.5, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char params[200];
        msgpack_unpacked unpacked;
        snprintf(params, sizeof params, "'boundary': %s", cases[i].boundary);
        const struct request request = request_of(params, &unpacked);
        for (int s = 0; s < AXIS_COUNT * SIDE_COUNT; s++) {
            const struct boundary *side = &request.job.boundary[s / SIDE_COUNT][s % SIDE_COUNT];
            assert_int_equal(side->kind, cases[i].kind);
            assert_true(side->value == cases[i].value);
            assert_true(request.job.more.constant[s / SIDE_COUNT][s % SIDE_COUNT] ==
                        cases[i].constant);
            assert_int_equal(side->at_face, cases[i].at_face);
        }
        msgpack_unpacked_destroy(&unpacked);
    }
}

TEST(numbers_of_a_face_may_be_arrays)
{
    msgpack_unpacked unpacked;
    const struct request request =
        request_of("'boundary': {'x-': {'value': [1, 2]}, 'x+': {'mixed': {'field': 7}, "
                   "'const': {'nd': true, 'type': '<f4', 'shape': [2], 'data': #8}}}",
                   &unpacked);
    assert_int_equal(request.operand[OPERAND_VALUE + SIDE_LOW].kind, ARRAY_LIST);
    assert_int_equal(request.operand[OPERAND_VALUE + SIDE_HIGH].kind, ARRAY_FIELD);
    assert_int_equal(request.operand[OPERAND_CONSTANT + SIDE_HIGH].kind, ARRAY_INLINE);
    int found = 0;
    for (int i = 0; i < OPERANDS; i++) {
        const struct array *array = &request.operand[i];
        if (array->kind == ARRAY_NONE)
            continue;
        found++;
        assert_string_equal(request_operand_place(&request, i),
                            array->kind == ARRAY_LIST ? "boundary x-" : "boundary x+");
    }
    assert_int_equal(found, 3);
    msgpack_unpacked_destroy(&unpacked);
}

TEST(less_usual_parameters_are_read)
{
    msgpack_unpacked unpacked;
    struct request request =
        request_of("'scheme': 'rk4', 'source': -2.5, 'probes': [[0, 1, -1]]", &unpacked);
    assert_int_equal(request.job.more.scheme, SCHEME_RK4);
    assert_true(request.job.more.source_value == -2.5);
    assert_int_equal(numbers_count(&request.numbers[NUMBERS_PROBES]), 3);
    msgpack_unpacked_destroy(&unpacked);
    request = request_of("'source': {'field': 3}, 'diffusivity': {'field': 4}", &unpacked);
    assert_int_equal(request.operand[OPERAND_SOURCE].field, 3);
    assert_int_equal(request.operand[OPERAND_COEFFICIENT].field, 4);
    msgpack_unpacked_destroy(&unpacked);
}

/* The chain of these ops, to be freed with the request; NULL with the failure set. */
static struct request_chain *chain_of(const char *params, struct request *request,
                                      struct failure *failure)
{
    char text[1024];
    snprintf(text, sizeof text, "[0, 1, 'chain', [{%s}]]", params);
    msgpack_unpacked unpacked = notation_object(text);
    bool has_msgid;
    memset(failure, 0, sizeof *failure);
    const bool good = request_decode(&unpacked.data, request, &has_msgid, failure);
    assert_int_equal(good, failure->code == STATUS_OK);
    msgpack_unpacked_destroy(&unpacked);
    if (!good)
        request_free(request);
    return request->chain;
}

TEST(names_of_a_chain_are_resolved)
{
    struct request request;
    struct failure failure;
    struct request_chain *chain =
        chain_of("'ops': [{'op': 'gradient', 'f': {'field': 5}, 'out': 'u'}, "
                 "{'f': 'u.y', 'op': 'laplacian', 'accuracy': 4, 'out': 'u'}, "
                 "{'op': 'curl', 'f': {'y': {'field': 6}, 'x': 'u'}, "
                 "'out': {'field': 5}}], 'repeat': 7",
                 &request, &failure);
    assert_non_null(chain);
    assert_int_equal(chain->count, 3);
    assert_int_equal(request.repeat, 7);
    assert_int_equal(chain->link[0].source[0].link, -1);
    assert_int_equal(chain->link[0].request.f.at[0].field, 5);
    assert_int_equal(chain->link[1].source[0].link, 0);
    assert_int_equal(chain->link[1].source[0].component, AXIS_Y);
    assert_int_equal(chain->link[1].request.job.accuracy, 4);
    assert_int_equal(chain->link[2].source[AXIS_X].link, 1);
    assert_int_equal(chain->link[2].source[AXIS_X].component, -1);
    assert_int_equal(chain->link[2].source[AXIS_Y].link, -1);
    assert_int_equal(chain->link[2].request.f.at[AXIS_Y].field, 6);
    assert_false(chain->is_named);
    assert_int_equal(chain->answers, 1);
    assert_int_equal(chain->answer[0].link, 2);
    assert_int_equal(chain->answer[0].kind, OUT_FIELD);
    request_free(&request);
    assert_null(request.chain);
    static const struct {
        const char *params, *parameter;
    } refusals[] = {
        {"'out': 'field'", "ops"},
        {"'ops': {}", "ops"},
        {"'ops': [{'op': 'laplacian', 'op': 'curl', 'f': {'field': 1}}]", "ops 0 op"},
        {"'ops': [{'op': 'laplacian', 'f': {'field': 1}, 'f': {'field': 1}}]", "ops 0 f"},
        {"'ops': [{'op': 'laplacian', 'f': {'field': 1}, 'out': ''}]", "ops 0 out"},
        {"'ops': [{'op': 'laplacian', 'f': {'field': 1}, 'out': {'field': 1}}], 'out': 'field'",
         "out"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        assert_null(chain_of(refusals[i].params, &request, &failure));
        assert_string_equal(failure.parameter, refusals[i].parameter);
    }
}

TEST(boundaries_go_from_the_general_to_the_side)
{
    const char *const forms[] = {
        "'dt': 1e-3, 'boundary': {'x-': {'value': 4}, 'x': {'halo': 0.5}, '*': {'derivative': 0}}",
        "'dt': 1e-3, 'boundary': {'*': {'derivative': 0}, 'x': {'halo': 0.5}, 'x-': {'value': 4}}",
    };
    for (int i = 0; i < 2; i++) {
        const struct job job = job_of("diffusion", forms[i], &cube);
        assert_int_equal(job.boundary[AXIS_X][SIDE_LOW].kind, BOUNDARY_VALUE);
        assert_true(job.boundary[AXIS_X][SIDE_LOW].value == 4);
        assert_int_equal(job.boundary[AXIS_X][SIDE_HIGH].kind, BOUNDARY_HALO);
        assert_true(job.boundary[AXIS_X][SIDE_HIGH].value == 0.5);
        assert_int_equal(job.boundary[AXIS_Z][SIDE_HIGH].kind, BOUNDARY_DERIVATIVE);
    }
    const struct job job = job_of("laplacian", "'boundary': {'y': 'one-sided'}", &cube);
    assert_int_equal(job.boundary[AXIS_X][SIDE_LOW].kind, BOUNDARY_PERIODIC);
    assert_int_equal(job.boundary[AXIS_Y][SIDE_HIGH].kind, BOUNDARY_ONE_SIDED);
}

TEST(endpoint_makes_a_periodic_axis_repeat_its_first_point)
{
    struct job job = job_of("laplacian", "'endpoint': true", &cube);
    for (int a = 0; a < AXIS_COUNT; a++)
        assert_int_equal(job.boundary[a][SIDE_HIGH].kind, BOUNDARY_ENDPOINT);
    job = job_of("laplacian", "'endpoint': {'y': true}, 'boundary': {'x': 'one-sided'}", &cube);
    assert_int_equal(job.boundary[AXIS_Y][SIDE_LOW].kind, BOUNDARY_ENDPOINT);
    assert_int_equal(job.boundary[AXIS_Z][SIDE_LOW].kind, BOUNDARY_PERIODIC);
    job = job_of("laplacian", "'endpoint': false, 'boundary': 'one-sided'", &cube);
    assert_int_equal(job.boundary[AXIS_Y][SIDE_LOW].kind, BOUNDARY_ONE_SIDED);
}

TEST(a_time_step_is_given_once)
{
    struct job job = job_of("diffusion",
                            "'cfl': 0.5, 'accuracy': 2, 'spacing': 0.1, 'diffusivity': 2, "
                            "'steps': 100",
                            &cube);
    assert_true(fabs(job.dt / (0.5 * 0.01 / (2 * 3 * 2)) - 1) < 1e-14);
    assert_int_equal(job.steps, 100);
    assert_int_equal(job.order, 2);
    job = job_of("diffusion", "'dt': 1e-4, 'diffusivity': {'x': 3, 'z': 0}", &cube);
    assert_true(job.diffusivity[AXIS_X] == 3 && job.diffusivity[AXIS_Y] == 1);
    assert_true(job.diffusivity[AXIS_Z] == 0);
    job_of("diffusion", "'cfl': 1", &cube);
    job_of("diffusion", "'cfl': 1.5, 'allow_unstable': true", &cube);
}

/* What no Python writes; test_refusals.py has the other refusals. */
TEST(parameters_given_twice_or_without_a_name_are_refused)
{
    refused("derivative", "'axis': 0, 'axis': 0", "axis", "twice");
    refused("derivative", "'axis': 0, 'f': {'field': 1}", "f", "twice");
    refused("derivative", "7: 7", "?", "no parameter");
    refused("laplacian", "'boundary': {'x': 'mirror', 'x': 'mirror'}", "boundary", "twice");
    refused("laplacian", "'boundary': {'value': 1, 'value': 1}", "boundary", "twice");
    refused("laplacian", "'out': {'region': 1, 'offset': 4}", "out", "multiple of 16");
}

struct answer {
    const char *text;
    enum status code;
    const char *parameter;
};

TEST(messages_are_judged_as_a_whole)
{
    static const struct answer answers[] = {
        {"[0, 1, 'ping', []]", STATUS_OK, ""},
        {"[0, 1, b'ping', [nil]]", STATUS_OK, ""},
        {"[0, 1, 'list', [{}]]", STATUS_OK, ""},
        {"[0, 18446744073709551615, 'get', [{b'field': 9}]]", STATUS_OK, ""},
        {"[0, 1, 'ping', [{'x': 1}]]", STATUS_INVALID_ARGUMENT, "x"},
        {"[0, 1, 'ping', [{}, {}]]", STATUS_INVALID_ARGUMENT, ""},
        {"[0, 1, 'ping', [7]]", STATUS_INVALID_ARGUMENT, ""},
        {"[0, 1, 'ping', {}]", STATUS_PROTOCOL, ""},
        {"[0, 1, 'ping']", STATUS_PROTOCOL, ""},
        {"[0, 1, 7, []]", STATUS_PROTOCOL, ""},
        {"[0, -1, 'ping', []]", STATUS_PROTOCOL, ""},
        {"[1, 1, nil, nil]", STATUS_PROTOCOL, ""},
        {"['0', 1, 'ping', []]", STATUS_PROTOCOL, ""},
        {"[]", STATUS_PROTOCOL, ""},
        {"[0, 1, 'get', []]", STATUS_INVALID_ARGUMENT, "field"},
        {"[0, 1, 'put', [{}]]", STATUS_INVALID_ARGUMENT, "f"},
        {"[0, 1, 'free', [{'field': 'a'}]]", STATUS_INVALID_ARGUMENT, "field"},
        {"[0, 1, 'gradient', [{}]]", STATUS_INVALID_ARGUMENT, "f"},
        {"[0, 1, 'put', [{'f': {'x': {'field': 1}}}]]", STATUS_INVALID_ARGUMENT, "f"},
        {"[0, 1, 'metrics', []]", STATUS_UNSUPPORTED, ""},
        {"[0, 1, 'grad', [{}]]", STATUS_UNKNOWN_METHOD, ""},
        {"[0, 1, $5000, []]", STATUS_UNKNOWN_METHOD, ""},
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        decode(answers[i].text, &cube);
        if (decoded.failure.code != answers[i].code ||
            strcmp(decoded.failure.parameter, answers[i].parameter) != 0)
            fail_msg("%s: %s %s: %s", answers[i].text, status_name(decoded.failure.code),
                     decoded.failure.parameter, decoded.failure.message);
    }
}

TEST(an_error_finds_its_request)
{
    static const struct {
        const char *text;
        bool has_msgid;
    } cases[] = {{"[0, 77, 'nonsense', [{}]]", true},
                 {"[0, 77, 7]", true},
                 {"[0]", false},
                 {"[0, nil, 'ping', []]", false},
                 {"[1, 77, nil, nil]", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        msgpack_unpacked unpacked = notation_object(cases[i].text);
        struct request request;
        bool has_msgid;
        struct failure failure = {0};
        assert_false(request_decode(&unpacked.data, &request, &has_msgid, &failure));
        assert_int_equal(has_msgid, cases[i].has_msgid);
        if (has_msgid)
            assert_int_equal(request.msgid, 77);
        msgpack_unpacked_destroy(&unpacked);
    }
}

TEST(any_notification_is_let_pass)
{
    /* pynvim's first message */
    msgpack_unpacked unpacked =
        notation_object("[2, b'nvim_set_client_info', ['x', {}, 'remote', {}, {}]]");
    struct request request;
    bool has_msgid;
    struct failure failure = {0};
    assert_true(request_decode(&unpacked.data, &request, &has_msgid, &failure));
    assert_true(request.is_notification);
    assert_false(has_msgid);
    assert_int_equal(request.method, METHOD_COUNT);
    msgpack_unpacked_destroy(&unpacked);
}

TEST(outputs_are_inline_new_or_given)
{
    static const struct {
        const char *out;
        enum out_kind kind;
    } cases[] = {{"'out': 'inline'", OUT_INLINE},
                 {"'out': 'field'", OUT_NEW_FIELD},
                 {"'out': {'field': 6}", OUT_FIELD},
                 {"'out': {'region': 7, 'offset': 16}", OUT_REGION}};
    for (int i = 0; i < 4; i++) {
        assert_true(decode(text_of("laplacian", cases[i].out), &cube));
        assert_int_equal(decoded.request.out, cases[i].kind);
        assert_false(decoded.request.f.is_vector);
        assert_int_equal(decoded.request.f.at[0].kind, ARRAY_FIELD);
        assert_int_equal(decoded.request.f.at[0].field, 5);
        assert_int_equal(decoded.request.out_place.at[0].field, i == 2 ? 6 : 0);
        assert_int_equal(decoded.request.out_place.at[0].region, i == 3 ? 7 : 0);
        assert_int_equal(decoded.request.out_place.at[0].offset, i == 3 ? 16 : 0);
    }
}

#define PLACE "'region': 7, 'offset': 32"
#define CUBE "'shape': [20, 30, 40], 'type': '<f4'"

TEST(regions_are_registered_by_size_and_given_back_by_id)
{
    assert_true(decode("[0, 1, 'register', [{'bytes': 4096}]]", NULL));
    assert_int_equal(decoded.request.method, METHOD_REGISTER);
    assert_int_equal(decoded.request.bytes, 4096);
    assert_true(decoded.request.writable);
    assert_true(decode("[0, 1, 'register', [{'bytes': 1, 'writable': false}]]", NULL));
    assert_false(decoded.request.writable);
    assert_true(decode("[0, 1, 'unregister', [{'region': 18446744073709551615}]]", NULL));
    assert_int_equal(decoded.request.method, METHOD_UNREGISTER);
    assert_true(decoded.request.region == UINT64_MAX);
    judged("[0, 1, 'register', [{}]]", &cube, "bytes", "needs");
    judged("[0, 1, 'register', [{'bytes': 1e30}]]", &cube, "bytes", "1 up");
    judged("[0, 1, 'unregister', [{}]]", &cube, "region", "needs");
    judged("[0, 1, 'unregister', [{'region': nil}]]", &cube, "region", "unsigned");
}

TEST(inputs_and_outputs_may_lie_in_regions)
{
    judged("[0, 1, 'laplacian', [{'f': {" PLACE ", " CUBE "}}]]", &cube, "", NULL);
    judged("[0, 1, 'laplacian', [{'f': {" PLACE ", " CUBE "}, 'out': {" PLACE "}}]]", &cube, "",
           NULL);
    judged("[0, 1, 'put', [{'f': {" PLACE ", " CUBE "}}]]", &cube, "", NULL);
    judged("[0, 1, 'get', [{'field': 5, 'out': {" PLACE "}}]]", &cube, "", NULL);
    judged("[0, 1, 'get', [{'field': 5, 'out': 'inline'}]]", &cube, "", NULL);
    judged("[0, 1, 'gradient', [{'f': {'field': 5}, 'out': {'x': {" PLACE "}, 'y': {" PLACE
           "}, 'z': {" PLACE "}}}]]",
           &cube, "", NULL); /* that they overlap is for the server, who knows how long they are */
    judged("[0, 1, 'laplacian', [{'f': {" PLACE "}}]]", &cube, "f", "shape and type");
    judged("[0, 1, 'curl', [{'f': {'x': {" PLACE ", " CUBE "}, 'y': {" PLACE
           "}, 'z': {'field': 3}}}]]",
           &cube, "f y", "shape and type");
    judged("[0, 1, 'get', [{'field': 5, 'out': 'field'}]]", &cube, "out", "inline");
    judged("[0, 1, 'get', [{'field': 5, 'out': {'field': 6}}]]", &cube, "out", "inline");
    judged("[0, 1, 'get', [{'field': 5, 'out': {'x': {" PLACE "}}}]]", &cube, "out", "inline");
    judged("[0, 1, 'gradient', [{'f': {'field': 5}, 'out': {'x': {" PLACE
           "}, 'y': {'field': 6}, 'z': {" PLACE "}}}]]",
           &cube, "out", "either kind");
    judged("[0, 1, 'gradient', [{'f': {'field': 5}, 'out': {" PLACE "}}]]", &cube, "out",
           "gives a vector field");
}

TEST(a_job_says_how_it_is_to_be_treated)
{
    static const char *const methods[] = {
        "[0, 1, 'laplacian', [{'f': {'field': 5}, 'priority': -100, 'timeout': 1, "
        "'out': 'field', 'detach': true}]]",
        "[0, 1, 'put', [{'f': {'field': 5}, 'priority': 100, 'detach': true, "
        "'timeout': 18446744073709551615}]]",
        "[0, 1, 'get', [{'field': 5, 'timeout': 250000.0}]]"};
    static const struct {
        int priority;
        uint64_t timeout_us;
        bool detach;
    } expected[] = {{-100, 1, true}, {100, UINT64_MAX, true}, {0, 250000, false}};
    for (int i = 0; i < 3; i++) {
        assert_true(decode(methods[i], &cube));
        assert_int_equal(decoded.request.priority, expected[i].priority);
        assert_int_equal(decoded.request.timeout_us, expected[i].timeout_us);
        assert_int_equal(decoded.request.detach, expected[i].detach);
    }
}

TEST(a_job_says_where_it_is_to_run)
{
    static const struct {
        const char *text, *placement;
    } taken[] = {{"[0, 1, 'laplacian', [{'f': {'field': 5}}]]", ""},
                 {"[0, 1, 'laplacian', [{'f': {'field': 5}, 'placement': 'spread'}]]", "spread"},
                 {"[0, 1, 'hessian', [{'placement': b'host', 'f': {'field': 5}}]]", "host"},
                 {"[0, 1, 'put', [{'f': {'field': 5}, 'placement': 'cuda:1'}]]", "cuda:1"},
                 {"[0, 1, 'chain', [{'ops': [{'op': 'laplacian', 'f': {'field': 5}}], 'placement': "
                  "'az09-AZ_.890123456789012345678901/host:12345678'}]]",
                  "az09-AZ_.890123456789012345678901/host:12345678"}};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        assert_true(decode(taken[i].text, &cube));
        assert_string_equal(decoded.request.placement, taken[i].placement);
    }
    static const char *const wrong[] = {
        "''",    "'az09-AZ_.890123456789012345678901/host:123456789'",
        "'a+'",  "'cuda 1'",
        "'{'",   "'@'",
        "#1",    "1",
        "nil",   "true",
        "['a']", "{'cuda': 1}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char params[96];
        snprintf(params, sizeof params, "'placement': %s", wrong[i]);
        refused("laplacian", params, "placement", "\"spread\" or the name of a device");
    }
    judged("[0, 1, 'get', [{'field': 5, 'placement': 'host'}]]", &cube, "placement",
           "no parameter");
    judged("[0, 1, 'chain', [{'ops': [{'op': 'laplacian', 'f': {'field': 5}, 'placement': "
           "'host'}]}]]",
           &cube, "ops 0 placement", "in a chain");
}

TEST(a_dry_run_needs_no_data)
{
#define DESCRIBED "{'nd': true, 'type': '<f4', 'shape': [20, 30, 40]}"
    assert_true(decode("[0, 1, 'laplacian', [{'f': " DESCRIBED ", 'dry_run': true}]]", &cube));
    assert_true(decoded.request.dry_run);
    assert_int_equal(decoded.request.f.at[0].kind, ARRAY_DESCRIBED);
    static const struct {
        const char *text, *parameter;
    } refusals[] = {
        {"[0, 1, 'laplacian', [{'f': " DESCRIBED "}]]", "f"},
        {"[0, 1, 'put', [{'f': " DESCRIBED "}]]", "f"},
        {"[0, 1, 'put', [{'f': " DESCRIBED ", 'dry_run': true}]]", "dry_run"},
        {"[0, 1, 'laplacian', [{'dry_run': false, 'f': " DESCRIBED "}]]", "f"},
        {"[0, 1, 'curl', [{'f': {'x': {'field': 1}, 'y': " DESCRIBED "}}]]", "f y"},
        {"[0, 1, 'laplacian', [{'dry_run': 1, 'f': {'field': 1}}]]", "dry_run"},
        {"[0, 1, 'chain', [{'ops': [{'op': 'laplacian', 'f': " DESCRIBED "}]}]]", "ops 0 f"},
        {"[0, 1, 'chain', [{'ops': [{'op': 'laplacian', 'f': {'field': 1}, 'dry_run': true}]}]]",
         "ops 0 dry_run"}};
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        judged(refusals[i].text, &cube, refusals[i].parameter, "");
#undef DESCRIBED
}

TEST(a_job_is_cancelled_by_its_msgid)
{
    assert_true(decode("[0, 8, 'cancel', [{'msgid': 18446744073709551615}]]", &cube));
    assert_int_equal(decoded.request.method, METHOD_CANCEL);
    assert_int_equal(decoded.request.msgid, 8);
    assert_int_equal(decoded.request.cancel, UINT64_MAX);
    static const char *const wrong[] = {"[0, 8, 'cancel', [{}]]",
                                        "[0, 8, 'cancel', [{'msgid': -1}]]",
                                        "[0, 8, 'cancel', [{'msgid': '7'}]]"};
    for (int i = 0; i < 3; i++)
        judged(wrong[i], &cube, "msgid", "");
}

#define X "'x': {'field': 1}"
#define Y "'y': {'field': 2}"
#define Z "'z': {'field': 3}"

static const struct array_type plane = {DTYPE_F64, 2, {30, 40}, 30 * 40 * 8};

TEST(vector_fields_are_maps_by_axis)
{
    static const struct {
        const char *op, *f, *out;
        const struct array_type *type;
        int inputs, outputs;
    } cases[] = {
        {"gradient", "{'field': 5}", NULL, &cube, 1, 3},
        {"gradient", "{'field': 5}", "'field'", &plane, 1, 2},
        {"gradient", "{'field': 5}", "{" X ", " Z ", " Y "}", &cube, 1, 3},
        {"divergence", "{" X ", " Y ", " Z "}", NULL, &cube, 3, 1},
        {"divergence", "{" Y ", " X "}", "{'field': 6}", &plane, 2, 1},
        {"curl", "{" Z ", " Y ", " X "}", "{" X ", " Y ", " Z "}", &cube, 3, 3},
        {"curl", "{" X ", " Y "}", "{'field': 6}", &plane, 2, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text, "[0, 1, '%s', [{'f': %s%s%s}]]", cases[i].op, cases[i].f,
                 cases[i].out ? ", 'out': " : "", cases[i].out ? cases[i].out : "");
        judged(text, cases[i].type, NULL, NULL);
        assert_int_equal(job_inputs(&decoded.job), cases[i].inputs);
        assert_int_equal(job_outputs(&decoded.job), cases[i].outputs);
        assert_int_equal(decoded.job.order, 1);
        for (int a = 0; a < cases[i].inputs && job_takes_vector(&decoded.job); a++)
            assert_int_equal(decoded.request.f.at[a].field, a + 1);
        for (int a = 0; a < AXIS_COUNT && decoded.request.out_place.is_vector; a++)
            assert_int_equal(decoded.request.out_place.at[a].field, a + 1);
    }
}

/* Offsets are in the order of shape, the job's in that of axes. */
TEST(a_stencil_is_in_its_jobs_block)
{
    static const int32_t expected[2][AXIS_COUNT] = {{1, -2, 3}, {0, 0, -8}};
    static const double weights[] = {0.5, -4};
    msgpack_unpacked unpacked = notation_object(
        "[0, 1, 'stencil', [{'f': {'field': 5}, 'offsets': [[3, -2, 1], [-8, 0, 0]], "
        "'weights': [0.5, -4], 'steps': 7}]]");
    struct request request;
    struct failure failure = {0};
    struct job job;
    uint8_t *block;
    bool has_msgid;
    assert_true(request_decode(&unpacked.data, &request, &has_msgid, &failure));
    assert_true(request_job(&request, &cube, MAX_WORK, &job, &block, &failure));
    assert_int_equal(job.steps, 7);
    assert_int_equal(job.more.stencil_points, 2);
    assert_int_equal(job.more.stencil_radius[AXIS_X], 1);
    assert_int_equal(job.more.stencil_radius[AXIS_Y], 2);
    assert_int_equal(job.more.stencil_radius[AXIS_Z], 8);
    assert_int_equal(job.more.block_bytes, job_block_part(&job, BLOCK_END));
    assert_memory_equal(block + job_block_part(&job, BLOCK_OFFSETS), expected, sizeof expected);
    assert_memory_equal(block + job_block_part(&job, BLOCK_WEIGHTS), weights, sizeof weights);
    free(block);
    msgpack_unpacked_destroy(&unpacked);
}

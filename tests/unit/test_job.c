#include "numerics/job.h"
#include "numerics/job_check.h"
#include "tests/lib/job_of.h"
#include "tests/unit/unit.h"
#include "numerics/stability.h"

#include <math.h>
#include <string.h>

#define MAX_WORK 1e15

static struct job cube(enum operator_id id, int accuracy, uint64_t n)
{
    struct job job = job_of(id, DTYPE_F32, n, n, n, accuracy);
    job.order = id == OPERATOR_DERIVATIVE ? 1 : 2;
    job.axes = 3;
    for (int a = 0; a < AXIS_COUNT; a++)
        job.diffusivity[a] = id == OPERATOR_DIFFUSION;
    job.dt = id == OPERATOR_DIFFUSION ? job_dt_max(&job) : 0;
    return job;
}

static void set_boundary(struct job *job, int axis, uint64_t kind, double value)
{
    job_set_sides(job, axis, (struct boundary){.value = value, .kind = kind});
}

static struct failure refused(const struct job *job, enum status code, const char *parameter)
{
    struct failure failure = {0};
    assert_false(job_check(job, MAX_WORK, &failure));
    assert_string_equal(status_name(failure.code), status_name(code));
    assert_string_equal(failure.parameter, parameter);
    assert_true(strlen(failure.message) > 0);
    return failure;
}

static void accepted(const struct job *job)
{
    struct failure failure = {0};
    if (!job_check(job, MAX_WORK, &failure))
        fail_msg("%s: %s", failure.parameter, failure.message);
}

TEST(every_operator_takes_a_plain_cube)
{
    struct job job;
    job_init(&job);
    accepted(&job);
    for (int id = 0; id <= OPERATOR_CURL; id++)
        for (int accuracy = 2; accuracy <= 8; accuracy += 2) {
            job = cube((enum operator_id)id, accuracy, 64);
            accepted(&job);
            assert_int_equal(job_points(&job), 64 * 64 * 64);
            assert_int_equal(job_bytes(&job), 64 * 64 * 64 * 4);
            job.dtype = DTYPE_F64;
            assert_int_equal(job_bytes(&job), 64 * 64 * 64 * 8);
        }
}

TEST(a_wrong_number_is_refused_by_its_name)
{
    const double wrong[] = {NAN, INFINITY, -INFINITY, 0, -1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct job job = cube(OPERATOR_DIFFUSION, 4, 16);
        job.spacing[AXIS_Y] = wrong[i];
        refused(&job, STATUS_INVALID_ARGUMENT, "spacing y");
        job = cube(OPERATOR_DIFFUSION, 4, 16);
        job.dt = wrong[i];
        refused(&job, STATUS_INVALID_ARGUMENT, "dt");
        if (wrong[i] != 0) {
            job = cube(OPERATOR_DIFFUSION, 4, 16);
            job.diffusivity[AXIS_Z] = wrong[i];
            refused(&job, STATUS_INVALID_ARGUMENT, "diffusivity z");
        }
    }
    struct job job = cube(OPERATOR_DERIVATIVE, 5, 16);
    assert_string_equal(refused(&job, STATUS_INVALID_ARGUMENT, "accuracy").message,
                        "accuracy must be 2, 4, 6 or 8; got 5");
    job = cube(OPERATOR_DERIVATIVE, 8, 16);
    job.order = 8;
    assert_non_null(
        strstr(refused(&job, STATUS_INVALID_ARGUMENT, "order").message, "did you mean accuracy?"));
    for (job.order = 1; job.order <= 4; job.order++)
        accepted(&job);
    refused(&job, STATUS_INVALID_ARGUMENT, "order");
    job.order = 0;
    refused(&job, STATUS_INVALID_ARGUMENT, "order");
    job = cube(OPERATOR_DERIVATIVE, 8, 16);
    job.axes = 2;
    job.n[AXIS_Z] = 1;
    job.axis = AXIS_Z;
    refused(&job, STATUS_INVALID_ARGUMENT, "axis");
    job = cube(OPERATOR_DIFFUSION, 8, 16);
    job.steps = 0;
    refused(&job, STATUS_INVALID_ARGUMENT, "steps");
    set_boundary(&job, AXIS_X, BOUNDARY_VALUE, NAN);
    job.steps = 1;
    refused(&job, STATUS_INVALID_ARGUMENT, "boundary x-");
}

TEST(work_over_the_limit_says_how_much)
{
    struct job job = cube(OPERATOR_DIFFUSION, 2, 100);
    job.steps = UINT64_C(1) << 62;
    const struct failure failure = refused(&job, STATUS_TOO_LARGE, "steps");
    assert_true(failure.has_need && failure.need == 1e6 * 0x1p62 && failure.limit == MAX_WORK);
    job.steps = 1000000000; /* 1e6 points: exactly the limit */
    accepted(&job);
    job.steps++;
    refused(&job, STATUS_TOO_LARGE, "steps");

    struct failure unlimited = {0};
    job.steps = UINT64_MAX;
    assert_false(job_check(&job, INFINITY, &unlimited)); /* steps + 1 passes would be 0 */
    struct failure nonsense = {0};
    job.steps = 1;
    assert_false(job_check(&job, NAN, &nonsense));
}

TEST(a_shape_that_overflows_is_too_large)
{
    struct job job = cube(OPERATOR_LAPLACIAN, 2, UINT64_C(1) << 32);
    refused(&job, STATUS_TOO_LARGE, "f");
    job = cube(OPERATOR_LAPLACIAN, 2, 1);
    job.batch = UINT64_MAX;
    refused(&job, STATUS_TOO_LARGE, "f");
    job.batch = 0;
    refused(&job, STATUS_INVALID_ARGUMENT, "f");
    job.batch = 1;
    job.axes = 4;
    refused(&job, STATUS_INVALID_ARGUMENT, "f");
}

TEST(an_axis_has_the_points_that_its_boundary_needs)
{
    for (int accuracy = 2; accuracy <= 8; accuracy += 2)
        for (int order = 1; order <= 2; order++) {
            const uint64_t need = (uint64_t)(order + accuracy);
            struct job job = cube(OPERATOR_DERIVATIVE, accuracy, need);
            job.order = (uint8_t)order;
            job.axis = AXIS_Y;
            set_boundary(&job, AXIS_Y, BOUNDARY_ONE_SIDED, 0);
            accepted(&job);
            job.n[AXIS_Y] = need - 1;
            refused(&job, STATUS_INVALID_ARGUMENT, "boundary y-");
            job.axis = AXIS_X; /* no derivative along y: its points do not matter */
            accepted(&job);
        }
    struct job job = cube(OPERATOR_LAPLACIAN, 8, 10);
    set_boundary(&job, AXIS_Z, BOUNDARY_ONE_SIDED, 0);
    accepted(&job);
    job.n[AXIS_Z] = 9;
    refused(&job, STATUS_INVALID_ARGUMENT, "boundary z-");

    job = cube(OPERATOR_DIFFUSION, 6, 8);
    set_boundary(&job, AXIS_X, BOUNDARY_VALUE, 300);
    accepted(&job);
    job.n[AXIS_X] = 7;
    refused(&job, STATUS_INVALID_ARGUMENT, "boundary x-");
    job.boundary[AXIS_X][SIDE_LOW] = (struct boundary){.kind = BOUNDARY_DERIVATIVE};
    refused(&job, STATUS_INVALID_ARGUMENT, "boundary x+");

    job = cube(OPERATOR_DERIVATIVE, 8, 2);
    set_boundary(&job, AXIS_X, BOUNDARY_ENDPOINT, 0);
    accepted(&job);
    job.n[AXIS_X] = 1;
    refused(&job, STATUS_INVALID_ARGUMENT, "boundary x-");
    set_boundary(&job, AXIS_X, BOUNDARY_PERIODIC, 0); /* wrapped as often as needed */
    accepted(&job);
}

TEST(boundaries_fit_their_operator)
{
    struct job job = cube(OPERATOR_DIFFUSION, 8, 32);
    set_boundary(&job, AXIS_Y, BOUNDARY_ONE_SIDED, 0);
    refused(&job, STATUS_UNSUPPORTED, "boundary y-");
    for (uint32_t kind = BOUNDARY_VALUE; kind < BOUNDARY_NEAREST; kind++)
        for (int id = 0; id <= OPERATOR_CURL; id++) {
            job = cube((enum operator_id)id, 8, 32);
            job.dt *= 0.25; /* some rows are stiff */
            set_boundary(&job, AXIS_X, kind, 0);
            accepted(&job);
            job.boundary[AXIS_X][SIDE_HIGH].kind =
                BOUNDARY_PERIODIC; /* the side that is not is named */
            refused(&job, STATUS_INVALID_ARGUMENT, "boundary x-");
        }
    for (uint32_t kind = BOUNDARY_NEAREST; kind <= BOUNDARY_CONSTANT; kind++)
        for (int id = 0; id <= OPERATOR_BIHARMONIC; id++) {
            job = cube((enum operator_id)id, 8, 32);
            set_boundary(&job, AXIS_X, kind, 0);
            refused(&job, STATUS_UNSUPPORTED, "boundary x-");
        }
    job = cube(OPERATOR_DIFFUSION, 8, 32);
    job.boundary[AXIS_X][SIDE_LOW].kind = BOUNDARY_ENDPOINT;
    refused(&job, STATUS_INVALID_ARGUMENT, "boundary x+");
    set_boundary(&job, AXIS_X, 77, 0);
    refused(&job, STATUS_INVALID_ARGUMENT, "boundary x-");
    job = cube(OPERATOR_DIVERGENCE, 8, 32);
    set_boundary(&job, AXIS_Z, BOUNDARY_HALO, 1); /* of which component? */
    refused(&job, STATUS_INVALID_ARGUMENT, "boundary z-");
}

static struct job stencil(uint32_t points, uint64_t n);

/* A number that the kind has not, one that is no number, and the face of a kind that has none. */
TEST(boundaries_have_the_numbers_of_their_kind)
{
    for (uint32_t kind = 0; kind < BOUNDARY_KINDS; kind++) {
        const bool has_face = kind == BOUNDARY_VALUE || kind == BOUNDARY_DERIVATIVE ||
                              kind == BOUNDARY_MIXED || kind == BOUNDARY_CURVATURE;
        const bool has_value = has_face || kind == BOUNDARY_HALO || kind == BOUNDARY_CONSTANT;
        struct job plain =
                       kind < BOUNDARY_NEAREST ? cube(OPERATOR_LAPLACIAN, 4, 32) : stencil(4, 32),
                   job;
        set_boundary(&plain, AXIS_Y, kind, 0);
        job = plain;
        job.boundary[AXIS_Y][SIDE_HIGH].value = 0.5;
        if (has_value)
            accepted(&job);
        else
            refused(&job, STATUS_INVALID_ARGUMENT, "boundary y+");
        job.boundary[AXIS_Y][SIDE_HIGH].value = NAN;
        refused(&job, STATUS_INVALID_ARGUMENT, "boundary y+");
        job = plain;
        job.boundary[AXIS_Y][SIDE_LOW].at_face = 1;
        if (has_face)
            accepted(&job);
        else
            refused(&job, STATUS_INVALID_ARGUMENT, "boundary y-");
        job = plain;
        job.boundary[AXIS_Y][SIDE_LOW].value_array = NUMBER_FACE;
        if (has_face)
            accepted(&job);
        else
            refused(&job, STATUS_INVALID_ARGUMENT, "boundary y-");
        job.boundary[AXIS_Y][SIDE_LOW].value = 1; /* a number and an array */
        refused(&job, STATUS_INVALID_ARGUMENT, "boundary y-");
        job = plain;
        job.more.constant[AXIS_Y][SIDE_LOW] = 2;
        if (kind == BOUNDARY_MIXED)
            accepted(&job);
        else
            refused(&job, STATUS_INVALID_ARGUMENT, "boundary y-");
    }
    /* f at the face would be a number over 0. */
    struct job job = cube(OPERATOR_DERIVATIVE, 2, 32);
    set_boundary(&job, AXIS_X, BOUNDARY_MIXED, -0.5);
    job.boundary[AXIS_X][SIDE_HIGH].at_face = 1;
    accepted(&job);
    job.boundary[AXIS_X][SIDE_HIGH].value = -50;
    const struct failure failure = refused(&job, STATUS_INVALID_ARGUMENT, "boundary x+");
    job.boundary[AXIS_X][SIDE_HIGH].value = failure.limit * 0.999;
    accepted(&job);
    job.boundary[AXIS_X][SIDE_HIGH].value = failure.limit;
    refused(&job, STATUS_INVALID_ARGUMENT, "boundary x+");
    job.boundary[AXIS_X][SIDE_HIGH].value = failure.limit * (1 - 0x1p-23); /* 0, rounded */
    refused(&job, STATUS_INVALID_ARGUMENT, "boundary x+");
    job.boundary[AXIS_X][SIDE_HIGH].value = failure.limit * (1 - 0x1p-20);
    accepted(&job);
    job.boundary[AXIS_X][SIDE_HIGH].value = 1e39; /* no number of float32 */
    refused(&job, STATUS_INVALID_ARGUMENT, "boundary x+");
    job.boundary[AXIS_X][SIDE_HIGH].value = 1e38;
    accepted(&job);
}

TEST(a_step_over_the_stability_limit_needs_leave)
{
    struct job job = cube(OPERATOR_DIFFUSION, 2, 32);
    assert_true(fabs(job_dt_max(&job) - 1.0 / 6) < 1e-15); /* the textbook's h²/(2 d κ) */
    job.axes = 1;
    job.n[AXIS_Y] = job.n[AXIS_Z] = 1;
    job.diffusivity[AXIS_Y] = job.diffusivity[AXIS_Z] = 0;
    job.accuracy = 8;
    job.spacing[AXIS_X] = 0.5;
    job.diffusivity[AXIS_X] = 3;
    const double limit = 2 / (3 * (2048.0 / 315) / 0.25);
    assert_true(fabs(job_dt_max(&job) / limit - 1) < 1e-15);
    job.dt = job_dt_max(&job);
    accepted(&job);
    job.dt *= 1 + 1e-9;
    const struct failure failure = refused(&job, STATUS_UNSTABLE, "dt");
    assert_true(failure.need == job.dt && failure.limit == job_dt_max(&job));
    job.allow_unstable = 1;
    accepted(&job);
    job.allow_unstable = 0;
    job.diffusivity[AXIS_X] = 0; /* nothing flows: any step is stable */
    job.spacing[AXIS_X] = 1e-300;
    job.dt = 1e9;
    assert_true(isinf(job_dt_max(&job)));
    accepted(&job);
    job.diffusivity[AXIS_X] = 1; /* over an h² that underflows: ∞ */
    assert_true(job_dt_max(&job) == 0);
    job.more.coefficient = 1; /* a field that is 0 everywhere */
    assert_true(isinf(job_dt_max(&job)));
    job.more.coefficient = 0;
    job.accuracy = 2;
    job.more.scheme = SCHEME_ADI;
    assert_true(isinf(job_dt_max(&job)));
    refused(&job, STATUS_INVALID_ARGUMENT, "spacing x");
    job.spacing[AXIS_X] = 1;
    accepted(&job);
}

/* Weights are numbers of the type, however small or large a spacing is. */
TEST(powers_of_the_spacing_have_their_place)
{
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++)
        for (int order = 1; order <= 4; order++)
            for (int sign = -1; sign <= 1; sign += 2) {
                struct job job = cube(OPERATOR_DERIVATIVE, 2, 64);
                job.dtype = (uint8_t)dtype;
                job.order = (uint8_t)order;
                const double limit = exp2(sign * (dtype == DTYPE_F32 ? 106.0 : 1002.0) / order);
                job.spacing[AXIS_X] = limit * exp2(-sign * 1e-6);
                accepted(&job);
                job.spacing[AXIS_X] = limit * exp2(sign * 1e-6);
                const struct failure failure = refused(&job, STATUS_INVALID_ARGUMENT, "spacing x");
                assert_true(failure.need == job.spacing[AXIS_X]);
                assert_true(fabs(failure.limit / limit - 1) < 1e-12);
                job.axis = AXIS_Y; /* nothing is derived along x */
                accepted(&job);
            }
}

/* … and however large a step is. */
TEST(steps_have_their_place)
{
    struct job job = cube(OPERATOR_DIFFUSION, 2, 64);
    job.allow_unstable = 1;
    job.spacing[AXIS_X] = 0x1p-20;
    job.dt = 0x1p66;
    accepted(&job);
    job.dt = 0x1p67;
    const struct failure failure = refused(&job, STATUS_INVALID_ARGUMENT, "dt");
    assert_true(failure.need == 0x1p107 && failure.limit == 0x1p106);
    job.dtype = DTYPE_F64;
    accepted(&job);
    job.dtype = DTYPE_F32;
    job.diffusivity[AXIS_X] = 0;
    accepted(&job);
    job.dt = 0x1p107; /* by which a source is multiplied */
    refused(&job, STATUS_INVALID_ARGUMENT, "dt");
    /* A curvature is multiplied by diffusivity dt. */
    job = cube(OPERATOR_DIFFUSION, 2, 64);
    job.spacing[AXIS_X] = 0x1p60;
    job.diffusivity[AXIS_X] = 0x1p70;
    job.diffusivity[AXIS_Y] = job.diffusivity[AXIS_Z] = 0;
    job.dt = 0x1p40;
    set_boundary(&job, AXIS_X, BOUNDARY_MIRROR, 0);
    accepted(&job);
    set_boundary(&job, AXIS_X, BOUNDARY_CURVATURE, 0);
    refused(&job, STATUS_INVALID_ARGUMENT, "dt");
    job.dt = 0x1p30;
    accepted(&job);
    /* … and, of an interpolation, by h². */
    job = cube(OPERATOR_INTERPOLATE, 2, 64);
    job.more.stagger = STAGGER_FORWARD;
    set_boundary(&job, AXIS_X, BOUNDARY_CURVATURE, 0);
    job.spacing[AXIS_X] = 0x1p53;
    accepted(&job);
    job.spacing[AXIS_X] = 0x1p54;
    refused(&job, STATUS_INVALID_ARGUMENT, "spacing x");
    set_boundary(&job, AXIS_X, BOUNDARY_ONE_SIDED, 0);
    accepted(&job);
}

TEST(passes_and_scratch_follow_from_steps_and_values)
{
    struct job job = cube(OPERATOR_DERIVATIVE, 8, 16);
    assert_int_equal(job_passes(&job), 1);
    assert_int_equal(job_scratch(&job, false, false), 0);
    assert_int_equal(job_scratch(&job, true, false), 1);
    job = cube(OPERATOR_DIFFUSION, 8, 16);
    assert_int_equal(job_passes(&job), 1);
    assert_int_equal(job_scratch(&job, false, false), 0);
    set_boundary(&job, AXIS_X, BOUNDARY_VALUE, 1); /* imposed before the first step */
    assert_int_equal(job_passes(&job), 2);
    assert_int_equal(job_scratch(&job, false, false), 1);
    assert_int_equal(job_scratch(&job, false, true), 0);
    job.steps = 10;
    assert_int_equal(job_passes(&job), 11);
    set_boundary(&job, AXIS_X, BOUNDARY_HALO, 1);
    assert_int_equal(job_passes(&job), 10);
    assert_int_equal(job_scratch(&job, false, false), 1);
}

TEST(schemes_have_limits_of_their_own)
{
    struct job job = cube(OPERATOR_DIFFUSION, 2, 16);
    const double euler = job_dt_max(&job);
    job.more.scheme = SCHEME_RK4;
    assert_true(fabs(job_dt_max(&job) / euler - 2.785293563405282 / 2) < 1e-15);
    job.dt = 1.39 * euler;
    accepted(&job);
    job.dt = 1.40 * euler;
    refused(&job, STATUS_UNSTABLE, "dt");
    job.more.scheme = SCHEME_ADI;
    assert_true(isinf(job_dt_max(&job)));
    job.dt = 1e9;
    accepted(&job);
    job.accuracy = 4;
    refused(&job, STATUS_INVALID_ARGUMENT, "accuracy");
    job.accuracy = 2;
    set_boundary(&job, AXIS_X, BOUNDARY_HALO, 0.5);
    refused(&job, STATUS_UNSUPPORTED, "boundary x-");
    set_boundary(&job, AXIS_X, BOUNDARY_MIXED, -1);
    refused(&job, STATUS_UNSUPPORTED, "boundary x-");
    set_boundary(&job, AXIS_X, BOUNDARY_SYMMETRIC, 0);
    job.n[AXIS_X] = 1;
    refused(&job, STATUS_INVALID_ARGUMENT, "boundary x-");
    set_boundary(&job, AXIS_X, BOUNDARY_PERIODIC, 0);
    accepted(&job);
    job.n[AXIS_X] = (1 << 18) + 1; /* its table would be as long */
    refused(&job, STATUS_TOO_LARGE, "dt");
    job.dt = 0x1p22 * job.spacing[AXIS_X] * job.spacing[AXIS_X] / job.diffusivity[AXIS_X];
    accepted(&job);
    job.dt *= 2;
    refused(&job, STATUS_TOO_LARGE, "dt");
    job.more.coefficient = 1; /* which has no table */
    job.more.coefficient_max = 1;
    accepted(&job);

    job = cube(OPERATOR_DIFFUSION, 2, 16);
    job.more.scheme = SCHEME_COUNT;
    refused(&job, STATUS_INVALID_ARGUMENT, "scheme");
    job.more.scheme = SCHEME_EULER;
    job.more.source_value = NAN;
    refused(&job, STATUS_INVALID_ARGUMENT, "source");
    job.more.source_value = 1e39; /* no number of float32 */
    refused(&job, STATUS_INVALID_ARGUMENT, "source");
    job.more.source_value = 1;
    accepted(&job);
    job.more.source = 1;
    refused(&job, STATUS_INVALID_ARGUMENT, "source");
    job.more.source_value = 0;
    accepted(&job);
    job.more.probes = 1025;
    refused(&job, STATUS_TOO_LARGE, "probes");
    job.more.probes = 1 << 4;
    job.steps = 1 << 20;
    refused(&job, STATUS_TOO_LARGE, "probes");
    job.steps--;
    accepted(&job);
}

TEST(steps_are_told_of_passes)
{
    for (int scheme = 0; scheme < SCHEME_COUNT; scheme++)
        for (int impose = 0; impose < 2; impose++) {
            struct job job = cube(OPERATOR_DIFFUSION, 2, 16);
            const uint64_t each = scheme == SCHEME_RK4 ? 4 : scheme == SCHEME_ADI ? 5 : 1;
            job.more.scheme = (uint8_t)scheme;
            job.steps = 3;
            if (impose)
                set_boundary(&job, AXIS_Y, BOUNDARY_VALUE, 1);
            assert_int_equal(job_passes(&job), 3 * each + (uint64_t)impose);
            for (uint64_t pass = 0; pass <= job_passes(&job); pass++)
                assert_int_equal(job_steps_done(&job, pass),
                                 pass < (uint64_t)impose ? 0 : (pass - (uint64_t)impose) / each);
        }
}

TEST(any_bytes_are_judged_without_fault)
{
    uint64_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        struct job job;
        unsigned char *bytes = (unsigned char *)&job;
        for (size_t i = 0; i < sizeof job; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            bytes[i] = (unsigned char)(seed >> 56);
        }
        if (round % 2) { /* get past the first checks */
            job.operator_id %= OPERATOR_COUNT;
            job.dtype %= 2;
            job.axes = (uint8_t)(1 + job.axes % 3);
            job.allow_unstable = job.imposed = 0;
        }
        struct failure failure = {0};
        assert_false(job_check(&job, MAX_WORK, &failure));
        assert_int_not_equal(failure.code, STATUS_OK);
    }
}

static struct job stencil(uint32_t points, uint64_t n)
{
    struct job job = cube(OPERATOR_STENCIL, 4, n);
    job.more.stencil_points = points;
    memset(job.more.stencil_radius, JOB_STENCIL_RADIUS, sizeof job.more.stencil_radius);
    job.more.block_bytes = job_block_part(&job, BLOCK_END);
    return job;
}

TEST(a_mixed_face_of_order_0_has_the_points_of_its_row)
{
    static const enum operator_id ids[] = {OPERATOR_DERIVATIVE, OPERATOR_INTERPOLATE};
    for (int k = 0; k < 2; k++) {
        struct job job = cube(ids[k], 8, 8);
        job.order = 0;
        job.more.stagger = STAGGER_FORWARD;
        job_set_sides(&job, AXIS_X,
                      (struct boundary){.kind = BOUNDARY_MIXED, .value = 1, .at_face = 1});
        accepted(&job);
        job.n[AXIS_X] = 7; /* enough for the values half way, too few for f at the face */
        refused(&job, STATUS_INVALID_ARGUMENT, "boundary x-");
    }
}

/* Is the job's block refused because of a parameter, once the double (or the two int32) at a place
 * of it is that? */
static void block_refused(const struct job *job, const void *block, enum block_part part, int at,
                          uint64_t bits, const char *parameter)
{
    struct failure failure = {0};
    uint64_t other[16];
    memcpy(other, block, sizeof other);
    other[job_block_part(job, part) / 8 + (uint64_t)at] = bits;
    assert_true(job_check_block(job, block, &failure));
    assert_false(job_check_block(job, other, &failure));
    assert_int_equal(failure.code, STATUS_INVALID_ARGUMENT);
    assert_memory_equal(failure.parameter, parameter, strlen(parameter));
}

TEST(a_block_is_what_its_job_can_have)
{
    const double x[16] = {0, 1, 3, 4, 5};
    struct job job = cube(OPERATOR_LAPLACIAN, 2, 4);
    job.more.coordinates = 1 << AXIS_Y;
    for (int k = 0; k < 5; k++)
        block_refused(&job, x, BLOCK_Y, k, UINT64_C(0x7ff0000000000000), "spacing"); /* ∞ */
    block_refused(&job, x, BLOCK_Y, 4, 0, "spacing");

    const int64_t probes[16] = {3, 0, 2, 1, 0, 3, 3, 0};
    job = cube(OPERATOR_DIFFUSION, 2, 4);
    job.batch = 2;
    job.more.probes = 2;
    for (int k = 0; k < 8; k++) {
        block_refused(&job, probes, BLOCK_PROBES, k, k % 4 == 3 ? 2 : 4, "probes");
        block_refused(&job, probes, BLOCK_PROBES, k, UINT64_MAX, "probes");
    }

    const int32_t offsets[32] = {8, -8, 0, 0};
    job = cube(OPERATOR_STENCIL, 2, 4);
    job.more.stencil_points = 1;
    job.more.stencil_radius[AXIS_X] = job.more.stencil_radius[AXIS_Y] = 8;
    block_refused(&job, offsets, BLOCK_OFFSETS, 0, 9, "offsets");
    block_refused(&job, offsets, BLOCK_OFFSETS, 0, UINT64_C(0xfffffff700000000), "offsets");
    block_refused(&job, offsets, BLOCK_OFFSETS, 1, 1, "offsets");
}

TEST(a_part_of_a_periodic_axis_lies_in_it)
{
    static const struct job_whole wrong[] = {{1, 0, BOUNDARY_PERIODIC},
                                             {100, 100, BOUNDARY_PERIODIC},
                                             {UINT64_MAX, 0, BOUNDARY_PERIODIC},
                                             {100, 0, BOUNDARY_HALO},
                                             {0, 1, 0},
                                             {0, 0, BOUNDARY_ENDPOINT}};
    struct job job = cube(OPERATOR_LAPLACIAN, 2, 64);
    set_boundary(&job, AXIS_Z, BOUNDARY_HALO, 1);
    job.more.coordinates = 1 << AXIS_Z;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        job.more.whole = wrong[i];
        refused(&job, STATUS_INVALID_ARGUMENT, "spacing");
    }
    job.more.whole = (struct job_whole){100, 99, BOUNDARY_PERIODIC};
    job.more.block_bytes = job_block_part(&job, BLOCK_END);
    assert_int_equal(job.more.block_bytes, 101 * sizeof(double));
    accepted(&job);
    job.more.coordinates = 1 << AXIS_Y;
    refused(&job, STATUS_INVALID_ARGUMENT, "spacing");
}

TEST(an_axis_has_only_so_many_coordinates)
{
    const struct {
        enum operator_id id;
        uint64_t most;
    } limits[] = {{OPERATOR_DERIVATIVE, 65536},
                  {OPERATOR_LAPLACIAN, 65536},
                  {OPERATOR_BIHARMONIC, 8192},
                  {OPERATOR_DIFFUSION, 2048}};
    for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
        struct job job = cube(limits[k].id, 8, 16);
        job.n[AXIS_X] = limits[k].most;
        job.more.coordinates = 1 << AXIS_X;
        accepted(&job);
        job.n[AXIS_X]++;
        const struct failure many = refused(&job, STATUS_TOO_LARGE, "spacing x");
        assert_true(many.need == (double)job.n[AXIS_X] && many.limit == (double)limits[k].most);
        job.more.coordinates = 0;
        accepted(&job);
    }
}

TEST(a_stencil_has_limits_of_its_own)
{
    struct job job = stencil(JOB_STENCIL_POINTS, 3);
    job.steps = 5;
    accepted(&job);
    job.more.stencil_points++;
    const struct failure many = refused(&job, STATUS_TOO_LARGE, "offsets");
    assert_true(many.has_need && many.need == 4914 && many.limit == 4913);
    job.more.stencil_points = 0;
    refused(&job, STATUS_INVALID_ARGUMENT, "offsets");
    job = stencil(1, 3);
    job.more.stencil_radius[AXIS_Y] = 9;
    refused(&job, STATUS_INVALID_ARGUMENT, "offsets");
    job = stencil(1, 3);
    job.axes = 2;
    job.n[AXIS_Z] = 1;
    refused(&job, STATUS_INVALID_ARGUMENT, "offsets"); /* along z */
    job.more.stencil_radius[AXIS_Z] = 0;
    accepted(&job);
    job.more.coordinates = 1;
    refused(&job, STATUS_UNSUPPORTED, "spacing");

    /* Each 16 points of it count as a point of the field. */
    job = stencil(32, 100);
    job.steps = 500000000;
    accepted(&job);
    job.steps++;
    refused(&job, STATUS_TOO_LARGE, "steps");
    job = stencil(7, 100);
    job.steps = 1000000000;
    accepted(&job);

    /* Ghosts are of as many points as the accuracy, images of any. */
    for (uint32_t kind = BOUNDARY_ONE_SIDED; kind < BOUNDARY_KINDS; kind++) {
        const bool has_ghosts = kind == BOUNDARY_ONE_SIDED || kind == BOUNDARY_VALUE ||
                                kind == BOUNDARY_DERIVATIVE || kind == BOUNDARY_MIXED ||
                                kind == BOUNDARY_CURVATURE;
        job = stencil(4, 4);
        set_boundary(&job, AXIS_X, kind, has_ghosts && kind != BOUNDARY_ONE_SIDED);
        accepted(&job);
        job.n[AXIS_X] = 3;
        if (has_ghosts)
            refused(&job, STATUS_INVALID_ARGUMENT, "boundary x-");
        else
            accepted(&job);
    }
    /* f at the face would be a number over 0, whatever the other side is. */
    for (uint32_t kind = BOUNDARY_NEAREST; kind <= BOUNDARY_CONSTANT; kind++) {
        job = stencil(4, 8);
        job.boundary[AXIS_X][SIDE_LOW].kind = kind;
        job.boundary[AXIS_X][SIDE_HIGH] =
            (struct boundary){.kind = BOUNDARY_MIXED, .value = -50, .at_face = 1};
        refused(&job, STATUS_INVALID_ARGUMENT, "boundary x+");
    }
    /* By the polynomial of its own ghosts, of one point and the number: f_b = -h/2 (-v f_b). */
    job = stencil(4, 8);
    job.accuracy = 2;
    job.spacing[AXIS_X] = 1;
    job_set_sides(&job, AXIS_X,
                  (struct boundary){.kind = BOUNDARY_MIXED, .value = -1.999, .at_face = 1});
    accepted(&job);
    job.boundary[AXIS_X][SIDE_LOW].value = -2;
    refused(&job, STATUS_INVALID_ARGUMENT, "boundary x-");
    job = stencil(4, 32);
    job.accuracy = 10;
    refused(&job, STATUS_INVALID_ARGUMENT, "accuracy");
    job = stencil(4, 3);
    set_boundary(&job, AXIS_Y, BOUNDARY_DERIVATIVE, 0); /* a mirror */
    accepted(&job);
    set_boundary(&job, AXIS_Y, BOUNDARY_ENDPOINT, 0);
    job.n[AXIS_Y] = 2;
    accepted(&job);
    job.n[AXIS_Y] = 1;
    refused(&job, STATUS_INVALID_ARGUMENT, "boundary y-");
}

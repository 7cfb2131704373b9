/* A run's copies and lines as a pipeline: whatever the job, its places, the chunks' size and the
 * order in which steps are taken and completed, nothing is computed before its inputs are on their
 * way, nothing is sent before it is computed, and in the end all is there once. */
#include "gpu/worker/transfer.h"
#include "tests/lib/job_of.h"
#include "tests/lib/random_job.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"

struct model {
    struct plan plan;
    struct split split;
    uint64_t line_bytes, array_bytes;
    bool in_has[AXIS_COUNT], out_has[AXIS_COUNT];
    uint8_t *in[AXIS_COUNT], *out[AXIS_COUNT]; /* by byte: copies begun */
    uint8_t *computed;                         /* by line: launches begun */
    uint64_t left;                             /* the launch that the last output chunk was of */
    uint64_t *launch;                          /* by line: which */
};

static void model_init(struct model *model, const struct job *job)
{
    memset(model, 0, sizeof *model);
    plan_make(&model->plan, job);
    model->split = split_of(&model->plan);
    model->array_bytes = job_bytes(job);
    model->line_bytes = model->array_bytes / model->plan.lines;
    for (int i = 0; i < AXIS_COUNT; i++) {
        model->in[i] = calloc(model->array_bytes, 1);
        model->out[i] = calloc(model->array_bytes, 1);
    }
    model->computed = calloc(model->plan.lines, 1);
    model->launch = calloc(model->plan.lines, sizeof *model->launch);
}

static void model_free(struct model *model)
{
    for (int i = 0; i < AXIS_COUNT; i++) {
        free(model->in[i]);
        free(model->out[i]);
    }
    free(model->computed);
    free(model->launch);
}

static void mark(uint8_t *bytes, const struct chunk *chunk, uint64_t array_bytes)
{
    assert_true(chunk->bytes > 0 && chunk->offset + chunk->bytes <= array_bytes);
    for (uint64_t i = 0; i < chunk->bytes; i++)
        assert_int_equal(bytes[chunk->offset + i]++, 0);
}

/* Unit `unit` of the field that begins at byte `field` is on its way, in all inputs with a place.
 */
static void assert_unit_is_in(const struct model *model, uint64_t field, uint64_t unit)
{
    const uint64_t bytes = model->split.unit_lines * model->line_bytes;
    for (int i = 0; i < AXIS_COUNT; i++)
        for (uint64_t k = 0; k < bytes && model->in_has[i]; k++)
            assert_int_equal(model->in[i][field + unit * bytes + k], 1);
}

/* Where the value is that stands for the one at index i. */
static int64_t image_of(const struct plan_axis *axis, int64_t i)
{
    const int64_t n = axis->n;
    const int map = axis->side[i < 0 ? SIDE_LOW : SIDE_HIGH].map;
    const int64_t period = map == SIDE_MAP_NODE       ? 2 * (n - 1)
                           : map == SIDE_MAP_ENDPOINT ? n - 1
                                                      : n;
    if (i >= 0 && i < n)
        return i;
    i = period ? (i % period + period) % period : 0;
    return i < n ? i : period - i;
}

static void assert_inputs_are_in(const struct model *model, uint64_t line)
{
    const struct split *split = &model->split;
    const struct plan_axis *axis = &model->plan.axis[split->axis];
    const uint64_t lines = split->unit_lines * split->units;
    const uint64_t field = line / lines * lines * model->line_bytes;
    const int64_t at = (int64_t)(line % lines / split->unit_lines);
    assert_unit_is_in(model, field, (uint64_t)at);
    if (split->reach == 0)
        return;
    const bool low = at < axis->side[SIDE_LOW].rows;
    const bool closed = low || axis->n - 1 - at < axis->side[SIDE_HIGH].rows;
    for (int k = 0; closed && k < axis->row_points; k++)
        assert_unit_is_in(model, field, (uint64_t)(low ? k : axis->n - 1 - k));
    if (closed || at < axis->side[SIDE_LOW].held || axis->n - 1 - at < axis->side[SIDE_HIGH].held)
        return;
    for (int m = -model->plan.radius; m <= model->plan.radius; m++)
        assert_unit_is_in(model, field, (uint64_t)image_of(axis, at + m));
}

/* Is it a part that a backend without splits_passes computes alone? */
static bool is_part(const struct split *split, uint64_t from, uint64_t to)
{
    const uint64_t field = split->units * split->unit_lines;
    if (from % field == 0 && to % field == 0)
        return from < to;
    const uint64_t begin = from % field, end = begin + (to - from);
    if (from >= to || end > field || begin % (split->grain * split->unit_lines))
        return false;
    return end == field || (end % (split->grain * split->unit_lines) == 0 &&
                            end / split->unit_lines + split->reach <= split->units);
}

static void take_part(struct model *model, const struct part *part)
{
    const bool whole = model->plan.passes > 1;
    assert_true(part->from < part->to && part->to <= model->plan.lines);
    assert_true(whole || part->launch <= model->left + TRANSFER_LAUNCHES);
    assert_true(whole ? part->from == 0 && part->to == model->plan.lines
                      : is_part(&model->split, part->from, part->to));
    for (uint64_t line = part->from; line < part->to; line++) {
        if (whole || line % model->split.unit_lines == 0)
            assert_inputs_are_in(model, line);
        assert_int_equal(model->computed[line]++, 0);
        model->launch[line] = part->launch;
    }
}

static void take_out(struct model *model, const struct chunk *chunk)
{
    assert_true(chunk->component < AXIS_COUNT && model->out_has[chunk->component]);
    mark(model->out[chunk->component], chunk, model->array_bytes);
    for (uint64_t i = chunk->offset; i < chunk->offset + chunk->bytes; i += model->line_bytes) {
        assert_int_equal(model->computed[i / model->line_bytes], 1);
        if (model->plan.passes == 1)
            assert_int_equal(model->launch[i / model->line_bytes], chunk->launch);
        model->left = chunk->launch;
    }
}

static void check(struct random *random, const struct job *job)
{
    struct model model;
    struct transfer transfer;
    model_init(&model, job);
    int places = 0;
    while (!places) {
        for (int i = 0; i < model.plan.inputs; i++)
            places += model.in_has[i] = random_below(random, 3) > 0;
        for (int i = 0; i < model.plan.outputs; i++)
            places += model.out_has[i] = random_below(random, 3) > 0;
    }
    const uint64_t chunk_bytes =
        random_below(random, 4) ? 8 + 8 * random_below(random, 3000) : UINT64_C(4) << 20;
    transfer_init(&transfer, &model.plan, model.in_has, model.out_has, chunk_bytes);
    uint32_t under_way = 0;
    bool passes = false, stuck = false;
    while (!transfer_is_done(&transfer)) {
        struct chunk chunk;
        struct part part;
        const uint64_t what = random_below(random, 4);
        if (what == 0 && under_way > (passes ? 1 : 0)) {
            transfer_completed(&transfer);
            under_way--;
        } else if (what == 1 && transfer_copy(&transfer, WAY_IN, &chunk)) {
            assert_true(chunk.component < AXIS_COUNT && model.in_has[chunk.component]);
            assert_true(chunk.bytes <= chunk_bytes);
            mark(model.in[chunk.component], &chunk, model.array_bytes);
            under_way++;
        } else if (what == 2 && passes && random_below(random, 3) == 0) {
            transfer_passes_completed(&transfer);
            passes = false;
            under_way--;
        } else if (what == 2 && transfer_compute(&transfer, &part)) {
            take_part(&model, &part);
            passes = model.plan.passes > 1;
            under_way++;
        } else if (what == 3 && transfer_can_copy(&transfer, WAY_OUT)) {
            assert_true(transfer_copy(&transfer, WAY_OUT, &chunk));
            assert_true(chunk.bytes <= chunk_bytes);
            take_out(&model, &chunk);
            under_way++;
        } else if (under_way == 0 && !transfer_can_copy(&transfer, WAY_IN) &&
                   !transfer_can_copy(&transfer, WAY_OUT)) {
            assert_false(stuck); /* only lines are left: they must be next */
            stuck = !transfer_compute(&transfer, &part);
            if (!stuck) {
                take_part(&model, &part);
                passes = model.plan.passes > 1;
                under_way++;
            }
        }
    }
    assert_int_equal(under_way, 0);
    for (uint64_t line = 0; line < model.plan.lines; line++)
        assert_int_equal(model.computed[line], 1);
    for (int i = 0; i < AXIS_COUNT; i++)
        for (uint64_t k = 0; k < model.array_bytes; k++) {
            assert_int_equal(model.in[i][k], model.in_has[i]);
            assert_int_equal(model.out[i][k], model.out_has[i]);
        }
    model_free(&model);
}

TEST(test_random_jobs_in_any_order)
{
    struct random random = random_start();
    for (int i = 0; i < 3000; i++) {
        struct job job;
        random_job(&random, i % 10 ? 3000 : 20000, &job);
        check(&random, &job);
    }
}

static struct job cube(enum operator_id operator_id, uint64_t n)
{
    struct job job = job_of(operator_id, DTYPE_F32, n, n, n, 8);
    job.axis = AXIS_Z;
    return job;
}

enum { CHUNK = 4 << 20 };

/* Take the job's steps as early as they can be. The most bytes of an input that had come and of the
 * same output had not left. */
static uint64_t most_behind(const struct job *job)
{
    struct plan plan;
    struct transfer transfer;
    struct chunk chunk;
    struct part part;
    bool in[AXIS_COUNT], out[AXIS_COUNT];
    uint64_t came = 0, left = 0, most = 0;
    plan_make(&plan, job);
    for (int i = 0; i < AXIS_COUNT; i++) {
        in[i] = i < plan.inputs;
        out[i] = i < plan.outputs;
    }
    transfer_init(&transfer, &plan, in, out, CHUNK);
    while (!transfer_is_done(&transfer)) {
        if (transfer_copy(&transfer, WAY_IN, &chunk))
            came += chunk.component == 0 ? chunk.bytes : 0;
        while (transfer_compute(&transfer, &part))
            ;
        while (transfer_copy(&transfer, WAY_OUT, &chunk)) {
            left += chunk.component == 0 ? chunk.bytes : 0;
            while (transfer_compute(&transfer, &part))
                ;
        }
        most = came > left + most ? came - left : most;
        while (transfer.under_way)
            transfer_completed(&transfer);
    }
    assert_int_equal(left, job_bytes(job));
    return most;
}

/* The first results leave when a few chunks have come, around a periodic edge too, and never are
 * more than a few behind. */
TEST(test_a_large_job_is_a_pipeline)
{
    for (int id = OPERATOR_DERIVATIVE; id <= OPERATOR_CURL; id++) {
        const struct job job = cube((enum operator_id)id, 512);
        if (job_passes(&job) == 1)
            assert_true(most_behind(&job) <= 24 << 20);
    }
}

/* Where planes, or rows, do not look at each other, what has come leaves at once, however large the
 * planes are. */
TEST(test_what_stands_alone_leaves_at_once)
{
    for (uint64_t n = 64; n <= 2048; n *= 2)
        for (int axis = AXIS_X; axis <= AXIS_Y; axis++) {
            struct job job = cube(OPERATOR_DERIVATIVE, n);
            job.axis = (uint8_t)axis;
            assert_true(most_behind(&job) <= (axis == AXIS_X ? 0 : n * n * sizeof(float)));
        }
}

/* A small job is one chunk, one launch, one chunk. */
TEST(test_a_small_job_is_one_step_of_each)
{
    const struct job job = cube(OPERATOR_LAPLACIAN, 64);
    static const bool one[AXIS_COUNT] = {true};
    struct plan plan;
    struct transfer transfer;
    struct chunk chunk;
    struct part part;
    plan_make(&plan, &job);
    transfer_init(&transfer, &plan, one, one, CHUNK);
    assert_false(transfer_compute(&transfer, &part));
    assert_false(transfer_copy(&transfer, WAY_OUT, &chunk));
    assert_true(transfer_copy(&transfer, WAY_IN, &chunk));
    assert_int_equal(chunk.bytes, job_bytes(&job));
    assert_false(transfer_copy(&transfer, WAY_IN, &chunk));
    assert_true(transfer_compute(&transfer, &part));
    assert_int_equal(part.to, plan.lines);
    assert_true(transfer_copy(&transfer, WAY_OUT, &chunk));
    assert_int_equal(chunk.bytes, job_bytes(&job));
    for (int i = 0; i < 3; i++) {
        assert_false(transfer_is_done(&transfer));
        transfer_completed(&transfer);
    }
    assert_true(transfer_is_done(&transfer));
}

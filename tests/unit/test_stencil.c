/* Stencils of a user's own: the host's loops give the bits of numerics/stencil_point.h, in pieces
 * of any size; and that gives what the definition says: sums of what padding by each boundary, axis
 * by axis, would show. */
#include "gpu/host/pass.h"
#include "gpu/host/stencil_pass.h"
#include "base/thread_pool.h"
#include "gpu/worker/slices.h"
#include "tests/lib/random_stencil.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 1500 / ONE_JOB_IN, THREADS = 3 };

/* All passes in launches of so many lines. */
static void run(const struct kernels *kernels, const struct plan *plan,
                const struct operands *operands, const void *in, void *even, void *odd,
                uint64_t lines, bool stream)
{
    struct launch launch = {
        .plan = plan, .in = {in}, .even = {even}, .odd = odd, .operands = operands};
    const uint64_t total = plan->lines * plan->passes;
    for (uint64_t from = 0; from < total; from = launch.to) {
        launch.from = from;
        launch.to = total - from < lines ? total : from + lines;
        pass_launch(kernels, &launch, stream ? 0 : UINT64_MAX);
    }
}

static void check_loops(struct random *random, uint64_t max_points)
{
    const struct kernels *kernels[PASS_KERNELS];
    const int count = pass_kernels(kernels);
    struct stencil_job stencil;
    struct plan plan;
    random_stencil(random, max_points, &stencil);
    assert_true(plan_init(&plan, &stencil.job, stencil.block));
    void *in[AXIS_COUNT], *even[AXIS_COUNT], *odd[AXIS_COUNT], *expected[AXIS_COUNT];
    const uint64_t bytes = job_bytes(&stencil.job), total = plan.lines * plan.passes;
    arrays_make(in, 1, bytes, 0);
    arrays_make(expected, 1, bytes, 0);
    random_field(random, &stencil.job, in[0]);
    random_exceptions(random, &stencil.job, in[0]);
    reference_stencil(&plan, &stencil.operands, in[0], expected[0]);
    for (int k = 0; k < count; k++) {
        arrays_make(even, 1, bytes, 0x5a);
        arrays_make(odd, 1, bytes, 0xa5);
        run(kernels[k], &plan, &stencil.operands, in[0], even[0], odd[0],
            1 + random_below(random, total), random_below(random, 2));
        if (!results_equal(&stencil.job, plan.passes % 2 == 1 ? even[0] : odd[0], expected[0])) {
            stencil_job_print(&stencil);
            fail_msg("%s differs", kernels[k]->name);
        }
        arrays_free(even);
        arrays_free(odd);
    }
    arrays_free(in);
    arrays_free(expected);
    plan_release(&plan);
    stencil_job_free(&stencil);
}

TEST(loops_give_the_bits_of_the_point)
{
    struct random start = random_start(), *random = &start;
    for (int i = 0; i < JOBS; i++)
        check_loops(random, i % 20 ? 600 : 6000);
}

/* The first piece of a job, whose speed nobody knows yet, is of a few milliseconds at most: of a
 * stencil of many points it has as many points fewer. */
TEST(a_first_piece_is_as_short_as_others)
{
    enum { SIDE = 8, POINTS = SIDE * SIDE * SIDE };
    int32_t offsets[POINTS][AXIS_COUNT];
    double weights[POINTS];
    for (int i = 0; i < POINTS; i++) {
        weights[i] = 1;
        for (int a = 0, rest = i; a < AXIS_COUNT; a++, rest /= SIDE)
            offsets[i][a] = rest % SIDE;
    }
    for (uint32_t points = 1; points <= POINTS; points *= 8) {
        struct stencil_job stencil = {.block = NULL};
        struct plan plan;
        struct slices slices;
        struct launch launch;
        char in, out;
        job_init(&stencil.job);
        stencil.job.operator_id = OPERATOR_STENCIL;
        stencil.job.axes = AXIS_COUNT;
        for (int a = 0; a < AXIS_COUNT; a++)
            stencil.job.n[a] = 256;
        stencil_job_set(&stencil, offsets, weights, points);
        assert_true(plan_init(&plan, &stencil.job, stencil.block));
        slices_begin(&slices, &plan, true, &(struct buffers){.in = {&in}, .out = {&out}});
        assert_true(slices_next(&slices, &launch));
        const double work = (double)(launch.to * 256) * job_point_work(&stencil.job);
        assert_true(work <= (double)slices_first_points(true));
        assert_true(2 * work >= (double)slices_first_points(true));
        plan_release(&plan);
        free(stencil.block);
    }
}

int main(void)
{
    struct failure failure;
    if (!thread_pool_open(THREADS, &failure))
        return 1;
    return unit_run(NULL, NULL);
}

/* The first slice of a user-defined stencil, whose speed is not known yet. */
#include "base/thread_pool.h"
#include "gpu/worker/slices.h"
#include "tests/lib/random_stencil.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

/* The first slice of a job, whose speed is not known yet, takes a few milliseconds at most: for a
 * stencil of many points it has correspondingly fewer points. */
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
        struct sample stencil = {.block = NULL};
        struct plan plan;
        struct slices slices;
        struct launch launch;
        char in, out;
        job_init(&stencil.job);
        stencil.job.operator_id = OPERATOR_STENCIL;
        stencil.job.axes = AXIS_COUNT;
        for (int a = 0; a < AXIS_COUNT; a++)
            stencil.job.n[a] = 256;
        random_stencil_set(&stencil, offsets, weights, points);
        assert_true(plan_init(&plan, &stencil.job, stencil.block));
        slices_begin(&slices, &plan, true, 0, &(struct buffers){.in = {&in}, .out = {&out}});
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
    if (!thread_pool_open(3, &failure))
        return 1;
    return unit_run(NULL, NULL);
}

#include "gpu/worker/slices.h"

#include "numerics/stencil_plan.h"

enum {
    SLICE_US = 10000,
    SLICE_GROWTH = 16,  /* a first, cold measurement may be far off */
    SLICE_PASSES = 512, /* bounds the launches that wait in a device's queue */
    /* A device does up to 8 passes at once, to the other array and back: a slice ends after a
     * multiple of twice as many or, if that is too long, of twice 4, even if it gets longer. */
    FUSED_PASSES = 16,
    FIRST_PASSES = 64,
    FIRST_POINTS_HOST = 1 << 20,  /* a few ms on one core */
    FIRST_POINTS_DEVICE = 1 << 25 /* a device wants whole passes: well under 10 ms on any GPU */
};

static bool is_input(const struct plan *plan, const struct buffers *buffers, const void *buffer)
{
    for (int i = 0; i < plan->inputs; i++)
        if (buffers->in[i] == buffer)
            return true;
    return false;
}

/* A staged plan reads and writes one array of the field's size, which may be the same, and those
 * beside it are its own. */
static bool staged_possible(const struct plan *plan, const struct buffers *buffers)
{
    for (int i = 0; i < AXIS_COUNT; i++) {
        const void *scratch = buffers->scratch[i];
        if ((i < plan->staged) != (scratch != NULL))
            return false;
        if (scratch && (scratch == buffers->in[0] || scratch == buffers->out[0]))
            return false;
        for (int j = 0; j < i; j++)
            if (scratch && scratch == buffers->scratch[j])
                return false;
    }
    return true;
}

bool slices_possible(const struct plan *plan, const struct buffers *buffers)
{
    if (plan->staged)
        return staged_possible(plan, buffers);
    for (int i = 0; i < plan->outputs; i++) {
        const void *out = buffers->out[i], *scratch = buffers->scratch[i];
        if (!scratch && (is_input(plan, buffers, out) || plan->passes > 1))
            return false;
        /* What one pass reads, it must not write; more of them have one input. */
        if (scratch && plan->inputs + plan->outputs > 2 && is_input(plan, buffers, scratch))
            return false;
        for (int j = 0; j < plan->outputs; j++)
            if (scratch == buffers->out[j] ||
                (j != i && (out == buffers->out[j] || (scratch && scratch == buffers->scratch[j]))))
                return false;
    }
    return true;
}

uint64_t slices_first_points(bool splits_passes)
{
    return splits_passes ? FIRST_POINTS_HOST : FIRST_POINTS_DEVICE;
}

/* Of a stencil of many points some are the work of one point in other jobs. */
static uint64_t point_work(const struct plan *plan)
{
    const uint64_t points =
        plan->engine == PLAN_STENCIL ? (uint64_t)stencil_table_of(plan->table)->points : 0;
    return points <= JOB_STENCIL_UNIT ? 1 : (points + JOB_STENCIL_UNIT - 1) / JOB_STENCIL_UNIT;
}

/* The last pass, passes − 1, writes `even` where the number of passes is odd. Where there is a
 * choice it must write `out`; where there is none (the first pass may not write what it reads), the
 * result lies in the other buffer.
 *
 *   in, out, scratch          even     odd      result in
 *   in ≠ out, one pass        out      –        out
 *   in ≠ out, scratch = in    out      in       out where passes are odd, else in
 *   all different             so that the result is in out
 *   in = out                  scratch  out      scratch where passes are odd, else out */
void slices_begin(struct slices *slices, const struct plan *plan, bool splits_passes,
                  uint64_t first, const struct buffers *buffers)
{
    const bool ends_even = plan->passes % 2 == 1;
    struct launch *const launch = &slices->launch;
    *slices = (struct slices){.launch = {.plan = plan, .to = plan->passes * plan->lines},
                              .total = plan->passes * plan->lines,
                              .whole_passes = !splits_passes || plan->staged};
    for (int i = 0; i < plan->inputs; i++)
        launch->in[i] = buffers->in[i];
    if (plan->staged) {
        launch->even[0] = buffers->out[0];
        launch->odd = buffers->scratch[0];
        launch->spare[0] = buffers->scratch[1];
        launch->spare[1] = buffers->scratch[2];
    }
    for (int i = 0; i < plan->outputs && !plan->staged; i++) {
        void *out = buffers->out[i], *scratch = buffers->scratch[i];
        const bool scratch_first = is_input(plan, buffers, out) ||
                                   (plan->passes > 1 && scratch != buffers->in[0] && !ends_even);
        launch->even[i] = scratch_first ? scratch : out;
        if (plan->passes > 1)
            launch->odd = scratch_first ? out : scratch;
    }
    const uint64_t points = plan->points * plan->batch;
    const uint64_t row = points / plan->lines;
    slices->next_size = slices_first_points(splits_passes) / row / point_work(plan);
    if (slices->next_size / plan->lines > FIRST_PASSES)
        slices->next_size = FIRST_PASSES * plan->lines;
    if (first)
        slices->next_size = first;
}

void slices_begin_own(struct slices *slices, const struct plan *plan, const struct own_planes *own,
                      const struct buffers *buffers)
{
    const uint64_t lines = plan->passes * plan->lines;
    *slices = (struct slices){.launch = {.plan = plan,
                                         .in = {buffers->in[0]},
                                         .even = {buffers->out[0]},
                                         .to = lines,
                                         .own = *own},
                              .total = lines,
                              .next_size = lines,
                              .whole_passes = true};
}

void slices_keep(struct slices *slices, const struct leg *leg)
{
    const uint64_t lines = slices->launch.plan->lines;
    slices->launch.leg = *leg;
    slices->done = leg->from * lines;
    slices->total = leg->to * lines;
}

/* May a slice end before that pass? A step of RK4 is not cut: a backend may do it at once. */
static bool may_end(const struct plan *plan, uint64_t pass)
{
    return plan->scheme != SCHEME_RK4 || stage_of(plan, pass - 1).steps_done > 0;
}

/* Where a slice from pass `done` on ends that should have so many: after whole groups of those that
 * a device does at once. The pass that imposes values is in none. */
static uint64_t fused_end(const struct plan *plan, uint64_t done, uint64_t passes)
{
    const uint64_t first = plan->impose != 0, half = FUSED_PASSES / 2;
    const uint64_t end = done + passes;
    if (end >= plan->passes)
        return plan->passes;
    if (passes >= FUSED_PASSES)
        return first + (end - first) / FUSED_PASSES * FUSED_PASSES;
    return passes >= half / 2 ? first + (end - first + half - 1) / half * half : end;
}

/* As many of the next passes as a slice may end after, one at least. */
static uint64_t whole_passes(const struct slices *slices, uint64_t passes)
{
    const struct plan *plan = slices->launch.plan;
    const uint64_t done = slices->done / plan->lines;
    uint64_t end = fused_end(plan, done, passes);
    while (end > done && !may_end(plan, end))
        end--;
    if (end == done)
        do
            end++;
        while (!may_end(plan, end));
    return end - done;
}

bool slices_next(struct slices *slices, struct launch *launch)
{
    if (slices->size || slices->done == slices->total)
        return false;
    const uint64_t lines = slices->launch.plan->lines;
    uint64_t size = slices->next_size;
    if (size / lines > SLICE_PASSES)
        size = SLICE_PASSES * lines;
    if (slices->whole_passes)
        size = whole_passes(slices, size / lines) * lines;
    if (size == 0)
        size = 1;
    if (size > slices->total - slices->done)
        size = slices->total - slices->done;
    slices->size = size;
    *launch = slices->launch;
    launch->from = slices->done;
    launch->to = slices->done + size;
    return true;
}

void slices_completed(struct slices *slices, uint64_t device_us)
{
    const double lines_per_us = (double)slices->size / (double)(device_us ? device_us : 1);
    double next = lines_per_us * SLICE_US;
    const double most = (double)slices->size * SLICE_GROWTH;
    if (next > most)
        next = most;
    slices->next_size = next > 0x1p62 ? UINT64_C(1) << 62 : (uint64_t)next;
    slices->done += slices->size;
    slices->size = 0;
    slices->device_us += device_us;
}

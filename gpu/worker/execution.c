#include "gpu/worker/execution.h"

#include "base/clock.h"

struct holding *execution_array(const struct execution *run, int i, bool *written)
{
    const int operand = i - 3 * AXIS_COUNT;
    *written = operand >= 0 ? operand == OPERAND_PROBES : i >= AXIS_COUNT || run->from[i].region;
    return operand >= 0         ? run->operand[operand]
           : i < AXIS_COUNT     ? run->in[i]
           : i < 2 * AXIS_COUNT ? run->out[i - AXIS_COUNT]
                                : run->scratch[i - 2 * AXIS_COUNT];
}

/* How often the run writes the array, or how often it reads it. */
static uint32_t times(const struct execution *run, const struct holding *holding, bool writes)
{
    uint32_t count = 0;
    bool written;
    for (int i = 0; i < EXECUTION_ARRAYS; i++)
        count += execution_array(run, i, &written) == holding && written == writes;
    return count;
}

/* Is nobody else at an array that it writes, and does nobody else write one that it reads? */
static bool is_alone(const struct execution *run)
{
    bool written;
    for (int i = 0; i < EXECUTION_ARRAYS; i++) {
        const struct holding *holding = execution_array(run, i, &written);
        if (holding && (holding->writers != times(run, holding, true) ||
                        (written && holding->readers != times(run, holding, false))))
            return false;
    }
    return true;
}

/* Is one of its arrays still copied in such a way that it may not be read, or not be written? */
static bool is_being_copied(const struct execution *run)
{
    bool written;
    for (int i = 0; i < EXECUTION_ARRAYS; i++) {
        const struct holding *holding = execution_array(run, i, &written);
        if (holding && (holding->region_uploads || (written && holding->downloads)))
            return true;
    }
    return false;
}

/* Does it write what the run uses, or use what the run writes? */
static bool stands_before(const struct execution *other, const struct execution *run)
{
    bool written;
    for (int i = 0; i < EXECUTION_ARRAYS; i++) {
        const struct holding *holding = execution_array(run, i, &written);
        if (holding && (times(other, holding, true) || (written && times(other, holding, false))))
            return true;
    }
    return false;
}

/* × passes. */
static uint64_t points_of(const struct execution *run)
{
    return run->plan.points * run->plan.batch * run->plan.passes;
}

bool execution_is_chained(const struct execution *run)
{
    return run->chain && !run->in_pipeline && !run->launches_copy;
}

bool executions_may_start(const struct executions *runs, const struct execution *run)
{
    if (run->measures && runs->slots == UINT64_MAX)
        return false;
    if (is_being_copied(run))
        return false;
    if (is_alone(run))
        return true;
    const bool chained = execution_is_chained(run);
    uint64_t points = 0;
    for (const struct execution *other = runs->first; other != run; other = other->next)
        if (chained && other->launched && other->chain == run->chain)
            points += points_of(other);
        else if (stands_before(other, run))
            return false;
    return points == 0 || points + points_of(run) <= runs->chain_points;
}

/* Count the run in or out among those that use its arrays. */
static void use(const struct execution *run, bool begins)
{
    const uint32_t by = begins ? 1 : UINT32_MAX; /* − 1 */
    for (int i = 0; i < AXIS_COUNT; i++) {
        if (run->from[i].region)
            run->from[i].region->users += by;
        if (run->to[i].region)
            run->to[i].region->users += by;
    }
    for (int i = 0; i < EXECUTION_ARRAYS; i++) {
        bool written;
        struct holding *holding = execution_array(run, i, &written);
        if (holding)
            *(written ? &holding->writers : &holding->readers) += by;
    }
}

/* One of several passes copies at its ends alone. */
static bool copies_all_along(const struct execution *run)
{
    return run->launches_copy && run->plan.passes == 1;
}

bool executions_add(struct executions *runs, struct execution *run)
{
    if (!ids_add(&runs->by_id, run->id, run))
        return false;
    use(run, true);
    run->next = NULL;
    run->previous = runs->last;
    *(runs->last ? &runs->last->next : &runs->first) = run;
    runs->last = run;
    runs->waiting++;
    runs->copying += copies_all_along(run);
    return true;
}

void executions_remove(struct executions *runs, struct execution *run)
{
    ids_remove(&runs->by_id, run->id);
    use(run, false);
    if (!run->started)
        runs->waiting--;
    else if (run->measures)
        runs->slots &= ~(UINT64_C(1) << run->slot);
    runs->copying -= copies_all_along(run);
    *(run->previous ? &run->previous->next : &runs->first) = run->next;
    *(run->next ? &run->next->previous : &runs->last) = run->previous;
}

/* An array's memory or, where it has none, its place. */
static void *memory(const struct holding *holding, const struct execution_place *place)
{
    return holding ? holding->block.memory : place ? place->memory : NULL;
}

struct buffers execution_buffers(const struct execution *run)
{
    struct buffers buffers;
    for (int i = 0; i < AXIS_COUNT; i++) {
        buffers.in[i] = memory(run->in[i], &run->from[i]);
        buffers.out[i] = memory(run->out[i], &run->to[i]);
        buffers.scratch[i] = memory(run->scratch[i], NULL);
    }
    return buffers;
}

void executions_start(struct executions *runs, struct execution *run)
{
    run->started = true;
    if (run->measures) {
        run->slot = (uint32_t)__builtin_ctzll(~runs->slots);
        runs->slots |= UINT64_C(1) << run->slot;
    }
    for (int i = 0; i < OPERANDS; i++)
        run->operands.at[i] = run->operand[i] ? run->operand[i]->block.memory : NULL;
    runs->waiting--;
}

struct execution *executions_find(const struct executions *runs, uint64_t id)
{
    return ids_find(&runs->by_id, id);
}

const struct execution *executions_last_of_chain(const struct executions *runs, uint64_t chain)
{
    const struct execution *run = runs->last;
    while (run && run->chain != chain)
        run = run->previous;
    return run;
}

void execution_span(struct channel_span *span, uint64_t us)
{
    const uint64_t now = clock_ns();
    if (!span->begin_ns)
        span->begin_ns = now - 1000 * us;
    span->end_ns = now;
}

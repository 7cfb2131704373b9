#include "gpu/worker/execution.h"

#include "base/clock.h"

/* Does the run write array number i? Of its operands it writes the probes alone, of its inputs
 * those that it copies from a place. */
static bool writes(const struct execution *run, int i)
{
    const int operand = i - 3 * AXIS_COUNT;
    return operand >= 0 ? operand == OPERAND_PROBES : i >= AXIS_COUNT || run->from[i].region;
}

/* How often the run writes the array, or how often it reads it. */
static uint32_t times(const struct execution *run, const struct holding *holding, bool written)
{
    uint32_t count = 0;
    for (int i = 0; i < EXECUTION_ARRAYS; i++)
        count += run->array[i] == holding && writes(run, i) == written;
    return count;
}

/* Is nobody else at an array that it writes, and does nobody else write one that it reads? */
static bool is_alone(const struct execution *run)
{
    for (int i = 0; i < EXECUTION_ARRAYS; i++) {
        const struct holding *holding = run->array[i];
        if (holding && (holding->writers != times(run, holding, true) ||
                        (writes(run, i) && holding->readers != times(run, holding, false))))
            return false;
    }
    return true;
}

/* Is one of its arrays still copied in such a way that it may not be read, or not be written? */
static bool is_being_copied(const struct execution *run)
{
    for (int i = 0; i < EXECUTION_ARRAYS; i++)
        if (run->array[i] &&
            (run->array[i]->region_uploads || (writes(run, i) && run->array[i]->downloads)))
            return true;
    return false;
}

/* Does it write what the run uses, or use what the run writes? */
static bool stands_before(const struct execution *other, const struct execution *run)
{
    for (int i = 0; i < EXECUTION_ARRAYS; i++)
        if (run->array[i] && (times(other, run->array[i], true) ||
                              (writes(run, i) && times(other, run->array[i], false))))
            return true;
    return false;
}

/* × passes. */
static uint64_t points_of(const struct execution *run)
{
    return run->plan->points * run->plan->batch * run->plan->passes;
}

bool execution_is_chained(const struct execution *run)
{
    return run->chain && !run->in_pipeline && !run->launches_copy;
}

bool executions_may_start(struct executions *runs, const struct execution *run)
{
    if (run->measures && runs->slots == UINT64_MAX)
        return false;
    if (is_being_copied(run))
        return false;
    if (is_alone(run))
        return true;
    const bool chained = execution_is_chained(run);
    uint64_t points = 0;
    unsigned ahead = 0;
    LIST_EACH (struct execution, other, &runs->all, link) {
        if (other == run)
            break;
        if (chained && other->launched && other->chain == run->chain)
            points += points_of(other), ahead++;
        else if (stands_before(other, run))
            return false;
    }
    return ahead <= 1 || points + points_of(run) <= runs->chain_points;
}

/* Count the run in or out among those that use its arrays. */
static void use(const struct execution *run, bool begins)
{
    const uint32_t by = begins ? 1 : UINT32_MAX; /* − 1 */
    for (int i = 0; i < EXECUTION_PLACES; i++)
        if (run->place[i].region)
            run->place[i].region->users += by;
    for (int i = 0; i < EXECUTION_ARRAYS; i++)
        if (run->array[i])
            *(writes(run, i) ? &run->array[i]->writers : &run->array[i]->readers) += by;
    if (run->own.end) {
        run->in[0]->own_readers += by;
        run->out[0]->own_writers += by;
    }
}

/* One of several passes copies at its ends alone. */
static bool copies_all_along(const struct execution *run)
{
    return run->launches_copy && run->plan->passes == 1;
}

bool executions_add(struct executions *runs, struct execution *run)
{
    if (!ids_add(&runs->by_id, run->id, run))
        return false;
    use(run, true);
    list_push(&runs->all, &run->link);
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
    list_remove(&run->link);
}

void *execution_memory(const struct execution *run, const struct holding *holding)
{
    const bool is_measure = run->measures && holding == run->out[0];
    return (uint8_t *)holding->memory.at + (is_measure ? 0 : run->ahead);
}

/* An array's memory or, where it has none, its place. */
static void *memory_of(const struct execution *run, const struct holding *holding,
                       const struct execution_place *place)
{
    return holding ? execution_memory(run, holding) : place->memory;
}

struct buffers execution_buffers(const struct execution *run)
{
    struct buffers buffers;
    for (int i = 0; i < AXIS_COUNT; i++) {
        buffers.in[i] = memory_of(run, run->in[i], &run->from[i]);
        buffers.out[i] = memory_of(run, run->out[i], &run->to[i]);
        buffers.scratch[i] = run->scratch[i] ? execution_memory(run, run->scratch[i]) : NULL;
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
        run->operands.at[i] =
            run->operand[i] ? (uint8_t *)run->operand[i]->memory.at + run->before[i] : NULL;
    runs->waiting--;
}

const struct execution *executions_last_of_chain(const struct executions *runs, uint64_t chain)
{
    for (struct list *link = list_last(&runs->all); link != &runs->all; link = link->prev)
        if (LIST_ENTRY(link, struct execution, link)->chain == chain)
            return LIST_ENTRY(link, struct execution, link);
    return NULL;
}

void execution_span(struct channel_span *span, uint64_t us)
{
    const uint64_t now = clock_ns();
    if (!span->begin_ns)
        span->begin_ns = now - 1000 * us;
    span->end_ns = now;
}

#include "gpu/run.h"

static bool writes(const struct run *run, const struct holding *holding)
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if (holding && (run->out[i] == holding || run->scratch[i] == holding))
            return true;
    return false;
}

static bool touches(const struct run *run, const struct holding *holding)
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if (holding && run->in[i] == holding)
            return true;
    return writes(run, holding);
}

bool runs_may_start(const struct runs *runs, const struct run *run)
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if ((run->out[i] && run->out[i]->downloads) ||
            (run->scratch[i] && run->scratch[i]->downloads))
            return false;
    for (const struct run *other = runs->first; other != run; other = other->next)
        for (int i = 0; i < AXIS_COUNT; i++)
            if (writes(other, run->in[i]) || touches(other, run->out[i]) ||
                touches(other, run->scratch[i]))
                return false;
    return true;
}

/* Count the run in or out among those that use its arrays. */
static void use(const struct run *run, bool begins)
{
    const uint32_t by = begins ? 1 : UINT32_MAX; /* − 1 */
    for (int i = 0; i < AXIS_COUNT; i++) {
        if (run->from[i].region)
            run->from[i].region->users += by;
        if (run->to[i].region)
            run->to[i].region->users += by;
        if (run->in[i])
            run->in[i]->readers += by;
        if (run->out[i])
            run->out[i]->writers += by;
        if (run->scratch[i])
            run->scratch[i]->writers += by;
    }
}

void runs_add(struct runs *runs, struct run *run)
{
    use(run, true);
    run->next = NULL;
    run->previous = runs->last;
    *(runs->last ? &runs->last->next : &runs->first) = run;
    runs->last = run;
    runs->waiting++;
}

void runs_remove(struct runs *runs, struct run *run)
{
    use(run, false);
    if (!run->started)
        runs->waiting--;
    *(run->previous ? &run->previous->next : &runs->first) = run->next;
    *(run->next ? &run->next->previous : &runs->last) = run->previous;
}

/* An array's memory or, where it has none, its place. */
static void *memory(const struct holding *holding, const struct run_place *place)
{
    return holding ? holding->block.memory : place ? place->memory : NULL;
}

struct buffers run_buffers(const struct run *run)
{
    struct buffers buffers;
    for (int i = 0; i < AXIS_COUNT; i++) {
        buffers.in[i] = memory(run->in[i], &run->from[i]);
        buffers.out[i] = memory(run->out[i], &run->to[i]);
        buffers.scratch[i] = memory(run->scratch[i], NULL);
    }
    return buffers;
}

void runs_start(struct runs *runs, struct run *run)
{
    run->started = true;
    runs->waiting--;
}

struct run *runs_find(const struct runs *runs, uint64_t id)
{
    struct run *run = runs->first;
    while (run && run->id != id)
        run = run->next;
    return run;
}

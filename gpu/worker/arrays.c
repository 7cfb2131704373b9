#include "gpu/worker/arrays.h"

#include "gpu/worker/worker.h"

/* The region and the memory of each of its places, of so many bytes. */
static void find_places(const struct worker *worker, const struct execution *run,
                        const struct place given[AXIS_COUNT], int arrays, uint64_t bytes,
                        bool writes, struct execution_place found[AXIS_COUNT])
{
    for (int i = 0; i < AXIS_COUNT; i++) {
        if (!given[i].region)
            continue;
        if (i >= arrays)
            worker_broken("RUN with more places than its job has arrays", run->id);
        if (given[i].offset % PLACE_ALIGNMENT)
            worker_broken("RUN with a place at an odd offset", run->id);
        found[i].region = regions_find(&worker->regions, &given[i], bytes, writes);
        found[i].memory = found[i].region->memory + given[i].offset;
    }
}

static void find_arrays(const struct worker *worker, struct execution *run,
                        const struct channel_run *given)
{
    const struct job *job = &given->job;
    const int scratches = run->plan->staged ? run->plan->staged : job_outputs(job);
    for (int i = 0; i < AXIS_COUNT; i++) {
        const uint64_t in = given->in[i], out = given->out[i], scratch = given->scratch[i];
        const bool has_in = i < job_inputs(job) && !(worker->direct && run->from[i].region);
        const bool has_out = i < job_outputs(job) && !(worker->direct && run->to[i].region);
        if (!in == has_in || !out == has_out || (scratch && i >= scratches))
            worker_broken("RUN with another number of arrays than its job has", run->id);
        run->in[i] = in ? store_find(worker, in) : NULL;
        run->out[i] = out ? store_find(worker, out) : NULL;
        run->scratch[i] = scratch ? store_find(worker, scratch) : NULL;
    }
}

bool arrays_have_size(const struct execution *run, const struct holding *holding, uint64_t bytes)
{
    const uint64_t all = holding->memory.bytes;
    return bytes <= all && run->ahead <= all - bytes && run->behind == all - bytes - run->ahead;
}

/* Of an array, the job's: of a sweep, its rows'. */
static uint64_t bytes_of(const struct execution *run, const struct job *job)
{
    const uint64_t all = job_bytes(job), rows = job->n[job->axes - 1];
    return run->leg.sweep ? all / rows * (run->leg.end - run->leg.begin) : all;
}

/* Has an operand the size that it needs? Of one that is cut as the job's arrays are there is as
 * much before and behind the job's as of these; but behind a face's, whose planes have fewer
 * elements, may be another number of planes (subdomain_behind()). */
static bool operand_has_size(const struct execution *run, int i, const struct job *job)
{
    const uint64_t bytes = run->leg.sweep ? subdomain_operand_bytes(job, i, bytes_of(run, job))
                                          : job_operand_bytes(job, i);
    const uint64_t all = run->operand[i]->memory.bytes;
    const uint64_t left = all - bytes, before = run->before[i];
    if (bytes > all || before > left)
        return false;
    if (i == OPERAND_PROBES)
        return before % dtype_element_bytes(job->dtype) == 0;
    const uint64_t after = left - before,
                   planes = job->batch > 1 ? job->batch : job->n[job->axes - 1];
    const uint64_t plane = subdomain_operand_bytes(job, i, job_bytes(job) / planes);
    const bool is_cut_face = i >= OPERAND_VALUE && plane;
    return before % PLACE_ALIGNMENT == 0 &&
           (is_cut_face ? after % plane == 0
                        : after == subdomain_operand_bytes(job, i, run->behind));
}

/* The run's operands: those that its job has. */
static void find_operands(const struct worker *worker, struct execution *run,
                          const struct channel_run *given)
{
    const struct job *job = &given->job;
    for (int i = 0; i < OPERANDS; i++) {
        const uint64_t id = given->operand[i];
        if (!id != !job_operand_bytes(job, i))
            worker_broken("RUN with other operands than its job has", run->id);
        run->operand[i] = id ? store_find(worker, id) : NULL;
        run->before[i] =
            i == OPERAND_PROBES ? given->probed : subdomain_operand_bytes(job, i, given->ahead);
        if (id && store_has_memory(run->operand[i]) && !operand_has_size(run, i, job))
            worker_broken("RUN with an operand of another size than its job's", run->id);
    }
}

/* A job on parts of its arrays begins at a multiple of PLACE_ALIGNMENT, and has neither places nor
 * exported arrays. */
static void check_parts(const struct execution *run)
{
    bool allowed = run->ahead % PLACE_ALIGNMENT == 0;
    for (int i = 0; i < EXECUTION_PLACES; i++)
        allowed = allowed && !run->place[i].region;
    for (int i = 0; i < EXECUTION_ARRAYS; i++)
        allowed = allowed && !(run->array[i] && run->array[i]->memory.exportable);
    if ((run->ahead || run->behind) && !allowed)
        worker_broken("RUN of an odd part of an array, or of one that others see", run->id);
}

/* A leg is of passes that the job has. A sweep's is a solve along the slowest axis. */
static void check_leg(const struct execution *run, const struct job *job)
{
    const struct leg *leg = &run->leg;
    const uint64_t rows = job->n[job->axes - 1], points = job_points(job) / rows,
                   beside = 3 * points * dtype_element_bytes(job->dtype);
    bool right = leg->from < leg->to && leg->to <= run->plan->passes && run->plan->staged;
    if (right && leg->sweep) {
        const struct stage stage = stage_of(run->plan, leg->from);
        right = leg->sweep <= SWEEP_CLOSE && job->batch == 1 && leg->to == leg->from + 1 &&
                stage.kind == STAGE_SOLVE && stage.axis == job->axes - 1 && leg->begin < leg->end &&
                leg->end <= rows && leg->first < leg->last && leg->last <= points &&
                run->ahead >= beside && run->behind >= beside;
    }
    if (!right && (leg->to || leg->sweep))
        worker_broken("RUN of a leg that its job does not have", run->id);
}

/* A job of own planes has two arrays, and these planes in them. */
static void check_own(const struct execution *run, const struct job *job)
{
    const struct own_planes *own = &run->own;
    const uint64_t planes = job->n[AXIS_Z];
    const bool inside = own->begin < own->end && own->end <= planes &&
                        own->edge[SIDE_LOW] <= own->end - own->begin &&
                        own->edge[SIDE_HIGH] <= own->end - own->begin - own->edge[SIDE_LOW];
    bool alone = run->in[0] && run->out[0] && run->in[0] != run->out[0];
    for (int i = 0; i < EXECUTION_ARRAYS; i++)
        alone = alone && (i == 0 || i == AXIS_COUNT || !run->array[i]);
    for (int i = 0; i < EXECUTION_PLACES; i++)
        alone = alone && !run->place[i].region;
    if (own->end && !(inside && alone))
        worker_broken("RUN of planes that its job does not have, or with other arrays", run->id);
}

/* They have memory, of so many bytes each, and none is written that must not be. */
static void check_arrays(const struct execution *run, uint64_t bytes)
{
    for (int i = 0; i < 3 * AXIS_COUNT; i++)
        if (run->array[i] && !arrays_have_size(run, run->array[i], bytes))
            worker_broken("RUN with an array of another size than its job's", run->id);
    if (run->scratch[0] && run->scratch[0] == run->in[0] && !run->out[0])
        worker_broken("RUN whose result would come to lie in its input's array, not in its place",
                      run->id);
    const struct buffers buffers = execution_buffers(run);
    if (!run->own.end && !slices_possible(run->plan, &buffers))
        worker_broken("RUN without the scratch array that it needs", run->id);
}

/* An array of the run; NULL: it has none. */
static const struct holding *any_array(const struct execution *run)
{
    const struct holding *array = NULL;
    for (int i = 0; i < EXECUTION_ARRAYS && !array; i++)
        array = run->array[i];
    return array;
}

/* Nobody's launches come behind another's because somebody else says so. */
static void check_chain(const struct worker *worker, const struct execution *run)
{
    const struct execution *other =
        run->chain ? executions_last_of_chain(&worker->runs, run->chain) : NULL;
    const struct holding *array = any_array(run), *of_other = other ? any_array(other) : NULL;
    if (array && of_other && array->memory.owner != of_other->memory.owner)
        worker_broken("RUN in a chain of another owner's", run->id);
}

bool arrays_have_memory(const struct execution *run)
{
    for (int i = 0; i < EXECUTION_ARRAYS; i++)
        if (run->array[i] && !store_has_memory(run->array[i]))
            return false;
    return true;
}

bool arrays_find(const struct worker *worker, struct execution *run,
                 const struct channel_run *given)
{
    const struct job *job = &given->job;
    run->leg = given->leg;
    run->ahead = given->ahead;
    run->behind = given->behind;
    run->own = given->own;
    check_leg(run, job);
    const uint64_t bytes = bytes_of(run, job);
    find_places(worker, run, given->from, job_inputs(job), bytes, false, run->from);
    find_places(worker, run, given->to, job_outputs(job), bytes, true, run->to);
    find_arrays(worker, run, given);
    find_operands(worker, run, given);
    if (!arrays_have_memory(run))
        return false;
    check_parts(run);
    check_own(run, job);
    check_arrays(run, bytes);
    check_chain(worker, run);
    return true;
}

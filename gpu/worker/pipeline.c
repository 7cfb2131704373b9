#include "gpu/worker/pipeline.h"

#include "base/log.h"
#include "gpu/range.h"

#include <stdlib.h>

/* So many may be under way without a call for memory. */
enum { STEPS_KEPT = 256 };

void pipeline_init(struct pipeline *pipeline, const struct backend *backend, uint64_t tokens,
                   void (*compute_passes)(void *context, struct execution *run), void *context)
{
    *pipeline = (struct pipeline){
        .backend = backend, .tokens = tokens, .compute_passes = compute_passes, .context = context};
    for (int way = 0; way < WAYS; way++)
        pipeline->last_size[way] = PIPELINE_LARGE; /* a small one is the first */
    for (int i = 0; i < STEPS_KEPT; i++) {
        struct step *step = malloc(sizeof *step);
        if (!step)
            break;
        step->next = pipeline->free_steps;
        pipeline->free_steps = step;
    }
}

void pipeline_free(struct pipeline *pipeline)
{
    while (pipeline->free_steps) {
        struct step *step = pipeline->free_steps;
        pipeline->free_steps = step->next;
        free(step);
    }
}

/* The way out stands still until the first slab is in, and remains a slab behind: small ones are
 * better. Each takes some time of its own beside its bytes': large ones are better. The sum is
 * least near the square root of the array's bytes and those that the time of its own would be for;
 * a power of two, so that pinned pieces are whole slabs. */
uint64_t pipeline_slab_bytes(uint64_t array_bytes)
{
    enum { LEAST_BYTES = 1 << 20, GAP_BYTES = 512 << 10 };
    uint64_t bytes = LEAST_BYTES;
    while (bytes < PIPELINE_SLAB_BYTES && 4 * bytes * bytes / GAP_BYTES <= array_bytes)
        bytes *= 2;
    return bytes;
}

/* --- queues --- */

static struct pipeline_queue *queue_of(struct pipeline *pipeline, const struct execution *run,
                                       int way)
{
    const bool is_small = run->transfer.array_bytes <= PIPELINE_SLAB_BYTES;
    return &pipeline->queues[way][is_small ? PIPELINE_SMALL : PIPELINE_LARGE];
}

/* At the end of its queue, if it has something to copy and is not there yet. */
static void enqueue(struct pipeline *pipeline, struct execution *run, int way)
{
    struct pipeline_queue *queue = queue_of(pipeline, run, way);
    const bool has_slab = way == WAY_IN ? transfer_can_copy_in(&run->transfer)
                                        : transfer_can_copy_out(&run->transfer);
    if (!has_slab || run->queued[way])
        return;
    run->queued[way] = true;
    run->behind[way] = NULL;
    *(queue->last ? &queue->last->behind[way] : &queue->first) = run;
    queue->last = run;
}

static void dequeue(struct pipeline *pipeline, struct execution *run, int way)
{
    struct pipeline_queue *queue = queue_of(pipeline, run, way);
    struct execution *before = NULL;
    if (!run->queued[way])
        return;
    for (struct execution *other = queue->first; other != run; other = other->behind[way])
        before = other;
    *(before ? &before->behind[way] : &queue->first) = run->behind[way];
    if (queue->last == run)
        queue->last = before;
    run->queued[way] = false;
}

/* The run whose slab is copied next; NULL: none has one, or enough is under way. */
static struct execution *next_run(struct pipeline *pipeline, int way)
{
    if (pipeline->bytes[way] > (PIPELINE_SLABS - 1) * PIPELINE_SLAB_BYTES)
        return NULL;
    int size = pipeline->last_size[way] == PIPELINE_SMALL ? PIPELINE_LARGE : PIPELINE_SMALL;
    if (!pipeline->queues[way][size].first)
        size = pipeline->last_size[way];
    pipeline->last_size[way] = size;
    return pipeline->queues[way][size].first;
}

/* --- steps --- */

static struct step *take_step(struct pipeline *pipeline, struct execution *run, enum step_kind kind)
{
    struct step *step = pipeline->free_steps;
    if (step)
        pipeline->free_steps = step->next;
    else
        step = malloc(sizeof *step);
    if (!step)
        log_fatal(BACKEND_FAULT_EXIT, "no memory for a step of the pipeline");
    *step = (struct step){.run = run, .kind = kind};
    pipeline->under_way++;
    return step;
}

static uint64_t token_of(const struct pipeline *pipeline, const struct step *step)
{
    return (uint64_t)(uintptr_t)step | pipeline->tokens;
}

/* Launch the lines whose inputs are on their way. */
static void compute(struct pipeline *pipeline, struct execution *run)
{
    struct part part;
    while (transfer_compute(&run->transfer, &part)) {
        if (run->transfer.whole) {
            pipeline->compute_passes(pipeline->context, run);
            return;
        }
        struct step *step = take_step(pipeline, run, STEP_LAUNCH);
        struct launch launch = {.plan = &run->plan, .from = part.from, .to = part.to};
        for (int i = 0; i < AXIS_COUNT; i++) {
            launch.in[i] = run->slices.in[i];
            launch.even[i] = run->slices.even[i];
        }
        step->launch = part.launch;
        run->slices.done = part.to;
        range_begin("launch", run->id);
        step->name = pipeline->backend->launch(&launch, token_of(pipeline, step));
        run->launches[part.launch] = step->name;
        range_end();
    }
    enqueue(pipeline, run, WAY_OUT);
}

static void copy_in(struct pipeline *pipeline, struct execution *run)
{
    struct slab slab;
    transfer_copy_in(&run->transfer, &slab);
    struct step *step = take_step(pipeline, run, STEP_IN);
    step->bytes = slab.bytes;
    pipeline->bytes[WAY_IN] += slab.bytes;
    if (!transfer_can_copy_in(&run->transfer))
        dequeue(pipeline, run, WAY_IN);
    if (slab.bytes < run->transfer.array_bytes)
        pipeline->backend->begin(); /* what has been launched does not wait for this slab */
    execution_copy_begins(run, WAY_IN);
    range_begin("upload", run->id);
    pipeline->backend->upload((uint8_t *)run->slices.in[slab.component] + slab.offset,
                              run->from[slab.component].memory + slab.offset, slab.bytes,
                              token_of(pipeline, step));
    range_end();
    compute(pipeline, run);
}

static void copy_out(struct pipeline *pipeline, struct execution *run)
{
    struct slab slab;
    transfer_copy_out(&run->transfer, &slab);
    struct step *step = take_step(pipeline, run, STEP_OUT);
    step->bytes = slab.bytes;
    pipeline->bytes[WAY_OUT] += slab.bytes;
    if (!transfer_can_copy_out(&run->transfer))
        dequeue(pipeline, run, WAY_OUT);
    execution_copy_begins(run, WAY_OUT);
    range_begin("download", run->id);
    pipeline->backend->download(run->to[slab.component].memory + slab.offset,
                                (const uint8_t *)slices_result(&run->slices, slab.component) +
                                    slab.offset,
                                slab.bytes, run->launches[slab.launch], token_of(pipeline, step));
    range_end();
    if (!run->transfer.whole)
        compute(pipeline, run); /* there is room for another launch */
}

/* --- runs --- */

void pipeline_add(struct pipeline *pipeline, struct execution *run)
{
    bool in[AXIS_COUNT], out[AXIS_COUNT];
    for (int i = 0; i < AXIS_COUNT; i++) {
        in[i] = run->from[i].region != NULL;
        out[i] = run->to[i].region != NULL;
    }
    const struct plan *plan = &run->plan;
    transfer_init(&run->transfer, plan, in, out,
                  plan->passes > 1 ? PIPELINE_SLAB_BYTES
                                   : pipeline_slab_bytes(plan_array_bytes(plan)));
    enqueue(pipeline, run, WAY_IN);
    compute(pipeline, run); /* where no input has a place */
}

void pipeline_add_copy(struct pipeline *pipeline, struct execution *run, uint64_t bytes,
                       enum way way)
{
    transfer_init_copy(&run->transfer, bytes, way == WAY_IN, PIPELINE_SLAB_BYTES);
    run->plan.passes = 1;
    run->slices.plan = &run->plan;
    enqueue(pipeline, run, way);
}

void pipeline_remove(struct pipeline *pipeline, struct execution *run)
{
    for (int way = 0; way < WAYS; way++)
        dequeue(pipeline, run, way);
}

void pipeline_passes_completed(struct pipeline *pipeline, struct execution *run)
{
    transfer_passes_completed(&run->transfer);
    enqueue(pipeline, run, WAY_OUT);
}

void pipeline_pump(struct pipeline *pipeline)
{
    struct execution *in, *out;
    do { /* in turns: the first results are soon under way */
        if ((in = next_run(pipeline, WAY_IN)))
            copy_in(pipeline, in);
        if ((out = next_run(pipeline, WAY_OUT)))
            copy_out(pipeline, out);
    } while (in || out);
}

struct execution *pipeline_complete(struct pipeline *pipeline, struct step *step,
                                    uint64_t device_us)
{
    struct execution *run = step->run;
    if (step->kind == STEP_LAUNCH) {
        if (run->launches[step->launch] == step->name)
            run->launches[step->launch] = NULL;
        run->slices.device_us += device_us;
        execution_computed(run, device_us);
    } else {
        const enum way way = step->kind == STEP_IN ? WAY_IN : WAY_OUT;
        pipeline->bytes[way] -= step->bytes;
        execution_copy_ended(run, way);
    }
    transfer_completed(&run->transfer);
    pipeline->under_way--;
    step->next = pipeline->free_steps;
    pipeline->free_steps = step;
    return run;
}

#include "gpu/worker/pipeline.h"

#include "gpu/range.h"

void pipeline_init(struct pipeline *pipeline, const struct backend *backend,
                   void (*compute_passes)(void *context, struct execution *run), void *context)
{
    *pipeline =
        (struct pipeline){.backend = backend, .compute_passes = compute_passes, .context = context};
    for (int way = 0; way < WAYS; way++)
        pipeline->last_size[way] = PIPELINE_LARGE; /* a small one is the first */
}

/* The way out stands still until the first chunk is in, and remains a chunk behind: small ones are
 * better. Each takes some time of its own beside its bytes': large ones are better. The sum is
 * least near the square root of the array's bytes and those that the time of its own would be for;
 * a power of two, so that pinned pieces are whole chunks. */
uint64_t pipeline_chunk_bytes(uint64_t array_bytes)
{
    enum { LEAST_BYTES = 1 << 20, GAP_BYTES = 512 << 10 };
    uint64_t bytes = LEAST_BYTES;
    while (bytes < PIPELINE_CHUNK_BYTES && 4 * bytes * bytes / GAP_BYTES <= array_bytes)
        bytes *= 2;
    return bytes;
}

/* --- queues --- */

/* Put it at the end of its queue if it has something to copy and is not there yet. */
static void enqueue(struct pipeline *pipeline, struct execution *run, enum way way)
{
    const bool is_small = run->transfer.array_bytes <= PIPELINE_CHUNK_BYTES;
    if (transfer_can_copy(&run->transfer, way) && list_empty(&run->queued[way]))
        list_push(&pipeline->queues[way][is_small ? PIPELINE_SMALL : PIPELINE_LARGE],
                  &run->queued[way]);
}

/* The run whose chunk is copied next; NULL: none has one, or enough is under way. */
static struct execution *next_run(struct pipeline *pipeline, enum way way)
{
    if (pipeline->bytes[way] > (PIPELINE_CHUNKS - 1) * PIPELINE_CHUNK_BYTES)
        return NULL;
    int size = pipeline->last_size[way] == PIPELINE_SMALL ? PIPELINE_LARGE : PIPELINE_SMALL;
    if (list_empty(&pipeline->queues[way][size]))
        size = pipeline->last_size[way];
    pipeline->last_size[way] = size;
    return LIST_FIRST(&pipeline->queues[way][size], struct execution, queued[way]);
}

/* --- copies and launches --- */

/* Something of the run begins. */
static struct token token_of(struct pipeline *pipeline, struct execution *run, enum token_kind kind,
                             uint64_t number)
{
    pipeline->under_way++;
    return (struct token){.of = run, .number = number, .kind = kind};
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
        struct launch launch = run->slices.launch;
        launch.from = part.from;
        launch.to = part.to;
        run->slices.done = part.to;
        range_begin("launch", run->id);
        run->launches[part.launch % TRANSFER_LAUNCHES] =
            pipeline->backend->launch(&launch, token_of(pipeline, run, TOKEN_PART, part.launch));
        range_end();
    }
    enqueue(pipeline, run, WAY_OUT);
}

static void copy(struct pipeline *pipeline, struct execution *run, enum way way)
{
    struct chunk chunk;
    transfer_copy(&run->transfer, way, &chunk);
    const struct execution_place *places = way == WAY_IN ? run->from : run->to;
    uint8_t *const outside = places[chunk.component].memory + chunk.offset;
    pipeline->bytes[way] += chunk.bytes;
    if (!transfer_can_copy(&run->transfer, way))
        list_remove(&run->queued[way]);
    if (way == WAY_IN && chunk.bytes < run->transfer.array_bytes)
        pipeline->backend->begin(); /* what has been launched does not wait for this chunk */
    execution_span(&run->copied[way], 0);
    const struct token token =
        token_of(pipeline, run, way == WAY_IN ? TOKEN_COPY_IN : TOKEN_COPY_OUT, chunk.bytes);
    range_begin(way == WAY_IN ? "upload" : "download", run->id);
    if (way == WAY_IN)
        pipeline->backend->upload((uint8_t *)(uintptr_t)run->slices.launch.in[chunk.component] +
                                      chunk.offset,
                                  outside, chunk.bytes, token);
    else
        pipeline->backend->download(
            outside,
            (const uint8_t *)launch_result(&run->slices.launch, chunk.component) + chunk.offset,
            chunk.bytes, run->launches[chunk.launch % TRANSFER_LAUNCHES], token);
    range_end();
    compute(pipeline, run); /* lines whose inputs are there, or for which there is room */
}

/* --- runs --- */

void pipeline_add(struct pipeline *pipeline, struct execution *run)
{
    bool in[AXIS_COUNT], out[AXIS_COUNT];
    for (int i = 0; i < AXIS_COUNT; i++) {
        in[i] = run->from[i].region != NULL;
        out[i] = run->to[i].region != NULL;
    }
    const struct plan *plan = run->plan;
    transfer_init(&run->transfer, plan, in, out,
                  plan->passes > 1 ? PIPELINE_CHUNK_BYTES
                                   : pipeline_chunk_bytes(plan_array_bytes(plan)));
    enqueue(pipeline, run, WAY_IN);
    compute(pipeline, run); /* where no input has a place */
}

/* What a copy is in the place of a job. */
static const struct plan a_line = {.lines = 1};

void pipeline_add_copy(struct pipeline *pipeline, struct execution *run, uint64_t bytes,
                       enum way way)
{
    transfer_init_copy(&run->transfer, bytes, way, PIPELINE_CHUNK_BYTES);
    run->plan = run->slices.launch.plan = &a_line;
    run->slices.launch.to = 1;
    enqueue(pipeline, run, way);
}

void pipeline_remove(struct execution *run)
{
    for (int way = 0; way < WAYS; way++)
        list_remove(&run->queued[way]);
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
            copy(pipeline, in, WAY_IN);
        if ((out = next_run(pipeline, WAY_OUT)))
            copy(pipeline, out, WAY_OUT);
    } while (in || out);
}

struct execution *pipeline_complete(struct pipeline *pipeline, const struct completion *completion)
{
    struct execution *run = completion->token.of;
    const uint64_t number = completion->token.number;
    if (completion->token.kind == TOKEN_PART) {
        const struct transfer *transfer = &run->transfer;
        if (transfer->first_launch + transfer->launches <= number + TRANSFER_LAUNCHES)
            run->launches[number % TRANSFER_LAUNCHES] = NULL; /* no later one has the place */
        run->slices.device_us += completion->device_us;
        execution_span(&run->computed, completion->device_us);
    } else {
        const enum way way = completion->token.kind == TOKEN_COPY_IN ? WAY_IN : WAY_OUT;
        pipeline->bytes[way] -= number;
        execution_span(&run->copied[way], 0);
    }
    transfer_completed(&run->transfer);
    pipeline->under_way--;
    return run;
}

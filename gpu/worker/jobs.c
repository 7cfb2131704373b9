#include "gpu/worker/arrays.h"
#include "gpu/worker/worker.h"

#include "base/clock.h"
#include "base/log.h"
#include "numerics/measure.h"
#include "gpu/range.h"
#include "numerics/job_check.h"
#include "base/limits.h"

#include <stdlib.h>
#include <unistd.h>

enum {
    PROGRESS_US = 100 * 1000, /* ten a second */
    COPYING_MOST = 8          /* jobs whose launches copy; with more the copy engine is faster */
};

/* points × passes: keeps the lines of a job inside 64 bits. How much work a job may be is for the
 * front to judge. */
static const double MOST_WORK = 0x1p62;

/* run NULL: there was no memory for it. */
static void answer_finished(struct worker *worker, uint64_t id, enum status status,
                            const struct execution *run)
{
    struct channel_message message = {
        .type = CHANNEL_FINISHED, .status = status, .u.job = {.id = id}};
    if (run && run->started) {
        /* Begun passes count: from 1 on, the output may hold anything. */
        message.u.job.done = (run->slices.done + run->plan->lines - 1) / run->plan->lines;
        message.u.job.device_us = run->slices.device_us;
        message.u.job.copy_in = run->copied[WAY_IN];
        message.u.job.compute = run->computed;
        message.u.job.copy_out = run->copied[WAY_OUT];
        if (run->measured)
            message.u.job.measured = worker->runs.measured[run->slot];
    }
    worker_answer(worker, &message);
}

/* Answer and forget it, be it refused before it was added. */
static void finish(struct worker *worker, struct execution *run, enum status status)
{
    answer_finished(worker, run->id, status, run);
    if (!list_empty(&run->link))
        executions_remove(&worker->runs, run);
    plans_give(run->plan);
    free(run);
}

/* Where its result comes to lie in the scratch array's memory, the two exchange theirs: runs that
 * start from here on find it. An exported array keeps its own: the result is copied there. */
static void place_result(struct worker *worker, struct execution *run, const void *launch)
{
    for (int i = 0; i < run->plan->outputs && !run->plan->staged; i++) {
        struct holding *out = run->out[i], *other = run->scratch[i];
        if (!out || launch_result(&run->slices.launch, i) == execution_memory(run, out))
            continue;
        if (out->memory.exportable) {
            exported_bring_home(worker, run, launch, i);
            continue;
        }
        const struct holding_memory memory = out->memory;
        out->memory = other->memory;
        other->memory = memory;
    }
}

void jobs_settle(struct worker *worker, struct execution *run)
{
    /* Passes that were cancelled leave lines undone, though there may be nothing more to copy. */
    const bool is_done = transfer_is_done(&run->transfer) && run->slices.done == run->slices.total;
    if (is_done && run->copies) {
        struct region *from = run->from[0].region;
        store_copied(worker, run->copies, from ? from : run->to[0].region, from != NULL, run->id);
        free(run);
    } else if (is_done) {
        if (!run->coming_home) /* else a cancel came meanwhile */
            place_result(worker, run, NULL);
        if (!run->coming_home)
            finish(worker, run, STATUS_OK);
    } else if (run->cancelled && run->transfer.under_way == 0) {
        finish(worker, run, STATUS_CANCELLED);
    }
}

/* Are all uploads to its arrays complete? */
static bool is_resident(const struct execution *run)
{
    for (int i = 0; i < EXECUTION_ARRAYS; i++)
        if (run->array[i] && run->array[i]->uploads)
            return false;
    return true;
}

static void launch_next(struct worker *worker, struct execution *run)
{
    struct launch launch;
    if (!slices_next(&run->slices, &launch))
        return;
    launch.is_resident = !run->in_pipeline && is_resident(run);
    for (int i = 0; i < AXIS_COUNT && run->launches_copy; i++) {
        launch.source[i] = launch.from == 0 ? run->from[i].memory : NULL;
        launch.target[i] = launch.to == run->slices.total ? run->to[i].memory : NULL;
    }
    worker->jobs.under_way++;
    range_begin("launch", run->id);
    const void *launched =
        worker->backend->launch(&launch, (struct token){.of = run, .kind = TOKEN_SLICE});
    range_end();
    if (launch.to == run->slices.total && !run->in_pipeline) {
        place_result(worker, run, launched);
        run->launched = execution_is_chained(run) && !run->coming_home;
    }
}

static void compute_passes(void *worker, struct execution *run)
{
    launch_next(worker, run);
}

static void start(struct worker *worker, struct execution *run)
{
    executions_start(&worker->runs, run);
    const struct buffers buffers = execution_buffers(run);
    if (run->own.end)
        slices_begin_own(&run->slices, run->plan, &run->own, &buffers);
    else
        slices_begin(&run->slices, run->plan, worker->backend->splits_passes,
                     plans_slice(run->plan), &buffers);
    if (run->leg.to)
        slices_keep(&run->slices, &run->leg);
    run->slices.launch.operands = &run->operands;
    if (execution_is_chained(run)) {
        run->slices.launch.chain = run->chain;
        run->slices.launch.ends_round = run->ends_round;
    }
    if (run->in_pipeline)
        pipeline_add(&worker->pipeline, run);
    else
        launch_next(worker, run);
}

/* Where measures come to, pinned where the backend pins: copies to it wait for nothing. */
static void open_measured(struct worker *worker)
{
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    bool addressable;
    _Static_assert(EXECUTIONS_MEASURING * sizeof(struct measured) <= 4096, "they fit a page");
    worker->runs.measured = aligned_alloc(bytes, bytes);
    if (!worker->runs.measured)
        worker_out_of_memory();
    if (worker->backend->pin &&
        worker->backend->pin(worker->runs.measured, bytes, true, &addressable) != STATUS_OK)
        log_warning("the page that measures come to could not be pinned");
}

static void close_measured(struct worker *worker)
{
    if (worker->backend->unpin)
        worker->backend->unpin(worker->runs.measured, (size_t)sysconf(_SC_PAGESIZE));
    free(worker->runs.measured);
}

void jobs_open(struct worker *worker)
{
    pipeline_init(&worker->pipeline, worker->backend, compute_passes, worker);
    worker->runs.chain_points = slices_first_points(worker->backend->splits_passes);
    open_measured(worker);
}

void jobs_close(struct worker *worker)
{
    LIST_DRAIN (struct execution, run, &worker->runs.all, link) {
        plans_give(run->plan);
        free(run);
    }
    ids_free(&worker->runs.by_id);
    plans_free(&worker->plans);
    close_measured(worker);
}

/* Of a chain those behind one that must wait are not looked at: there may be many. */
void jobs_start_waiting(struct worker *worker)
{
    uint64_t stuck = 0;
    LIST_EACH (struct execution, run, &worker->runs.all, link) {
        if (!worker->runs.waiting)
            return;
        if (run->started || (execution_is_chained(run) && run->chain == stuck))
            continue;
        if (executions_may_start(&worker->runs, run))
            start(worker, run);
        else if (execution_is_chained(run))
            stuck = run->chain;
    }
}

/* How its arrays, of so many bytes each, come from and to its places. */
static void choose_way(const struct worker *worker, struct execution *run, uint64_t bytes)
{
    bool has_places = false, reached = true;
    for (int i = 0; i < EXECUTION_PLACES; i++) {
        const struct region *region = run->place[i].region;
        has_places |= region != NULL;
        reached &= !region || region->addressable;
    }
    if (!has_places || worker->direct)
        return;
    run->launches_copy = reached && bytes <= worker->backend->launch_copies_bytes &&
                         worker->runs.copying < COPYING_MOST;
    run->in_pipeline = !run->launches_copy;
}

/* It waits for its turn, or starts. */
static void add_run(struct worker *worker, struct execution *run)
{
    run->progress_us = clock_us();
    if (!executions_add(&worker->runs, run))
        finish(worker, run, STATUS_OUT_OF_MEMORY);
    else if (executions_may_start(&worker->runs, run))
        start(worker, run);
}

/* The plan of a RUN's job that has none yet. NULL, with the status in `failure`: there is none. */
static const struct plan *make_plan(struct worker *worker, const struct channel_run *given,
                                    const uint8_t *block, struct failure *failure)
{
    const struct job *job = &given->job;
    if (!job_check(job, MOST_WORK, failure)) {
        log_error("job %llu: %s", (unsigned long long)given->id, failure->message);
        return NULL;
    }
    if (job_block_part(job, BLOCK_END) != job->more.block_bytes)
        worker_broken("RUN with a block of another size than its job's", given->id);
    failure->code = STATUS_OUT_OF_MEMORY;
    if (job->more.block_bytes && !block)
        return NULL;
    if (!job_check_block(job, block, failure))
        worker_broken("RUN with a block that its job cannot have", given->id);
    return plans_make(&worker->plans, given->owner, job, block);
}

/* The plan of a RUN's job; NULL as above. */
static const struct plan *find_plan(struct worker *worker, const struct channel_run *given,
                                    const struct channel_inbox *inbox, int descriptor,
                                    struct failure *failure)
{
    const uint64_t bytes = given->job.more.block_bytes;
    uint8_t *block;
    const char *rule = channel_block(inbox, descriptor, bytes, &block);
    if (rule)
        worker_broken(rule, given->id);
    const struct plan *plan =
        bytes && !block ? NULL : plans_find(&worker->plans, &given->job, block);
    if (!plan)
        plan = make_plan(worker, given, block, failure);
    free(block);
    return plan;
}

/* A run of the plan, which it takes over. NULL where there is no memory, or no plan, for the reason
 * `without`; this has been answered. */
static struct execution *new_run(struct worker *worker, uint64_t id, const struct plan *plan,
                                 enum status without)
{
    struct execution *run = plan ? calloc(1, sizeof *run) : NULL;
    if (run) {
        run->id = id;
        run->plan = plan;
        return run;
    }
    if (plan)
        plans_give(plan);
    answer_finished(worker, id, plan ? STATUS_OUT_OF_MEMORY : without, NULL);
    return NULL;
}

void jobs_run(struct worker *worker, const struct channel_run *given,
              const struct channel_inbox *inbox, int descriptor)
{
    const struct job *job = &given->job;
    struct failure failure = {0};
    if (given->id == 0 || ids_find(&worker->runs.by_id, given->id))
        worker_broken("RUN of a job that is there already", given->id);
    const struct plan *plan = find_plan(worker, given, inbox, descriptor, &failure);
    struct execution *run = new_run(worker, given->id, plan, failure.code);
    if (!run)
        return;
    run->wants_progress = given->progress != 0;
    run->chain = given->chain;
    run->ends_round = given->ends_round != 0;
    if (!arrays_find(worker, run, given)) {
        finish(worker, run, STATUS_OUT_OF_MEMORY);
        return;
    }
    if (run->own.end &&
        !(worker->backend->takes_own_planes && worker->backend->takes_own_planes(run->plan))) {
        finish(worker, run, STATUS_UNSUPPORTED);
        return;
    }
    choose_way(worker, run, job_bytes(job));
    add_run(worker, run);
}

void jobs_measure(struct worker *worker, const struct channel_message *message)
{
    const uint64_t id = message->u.measure.id, points = message->u.measure.points;
    if (id == 0 || ids_find(&worker->runs.by_id, id))
        worker_broken("MEASURE of a job that is there already", id);
    if (message->u.measure.dtype > DTYPE_F64 || points == 0 || points > LIMIT_POINTS)
        worker_broken("MEASURE of what is no array", id);
    const enum dtype dtype = (enum dtype)message->u.measure.dtype;
    const bool of_results = message->u.measure.array == message->u.measure.result,
               of_two = message->u.measure.other != 0;
    const struct plan *plan = plans_measure(dtype, points, of_results ? 0 : 1 + of_two);
    struct execution *run = new_run(worker, id, plan, STATUS_OUT_OF_MEMORY);
    if (!run)
        return;
    run->measures = true;
    if (!of_results)
        run->in[0] = store_find(worker, message->u.measure.array);
    if (of_two)
        run->in[1] = store_find(worker, message->u.measure.other);
    run->out[0] = store_find(worker, message->u.measure.result);
    run->ahead = message->u.measure.ahead;
    run->behind = message->u.measure.behind;
    if (!arrays_have_memory(run)) {
        finish(worker, run, STATUS_OUT_OF_MEMORY);
        return;
    }
    for (int i = 0; i < 2; i++)
        if (run->in[i] &&
            (!arrays_have_size(run, run->in[i], points * dtype_element_bytes(dtype)) ||
             run->in[i] == run->out[0]))
            worker_broken("MEASURE of an array of another size, or of its result", id);
    if (run->out[0]->memory.bytes < plan_measure_bytes(plan) ||
        run->ahead % dtype_element_bytes(dtype) || (of_results && of_two))
        worker_broken("MEASURE of an odd part of an array, or with too small a result", id);
    add_run(worker, run);
}

/* The blocks are measured: bring over what they came to. */
static void fetch_measured(struct worker *worker, struct execution *run)
{
    const uint64_t at = plan_measure_bytes(run->plan) - sizeof(struct measured);
    run->measured = true;
    worker->jobs.under_way++;
    worker->backend->download(&worker->runs.measured[run->slot],
                              (const uint8_t *)run->out[0]->memory.at + at, sizeof(struct measured),
                              NULL, (struct token){.of = run, .kind = TOKEN_SLICE});
}

void jobs_cancel(struct worker *worker, uint64_t id)
{
    struct execution *run = ids_find(&worker->runs.by_id, id);
    if (!run)
        return; /* it has ended already */
    run->cancelled = true;
    if (!run->started) {
        finish(worker, run, STATUS_CANCELLED);
    } else if (run->in_pipeline) {
        pipeline_remove(run);
        jobs_settle(worker, run);
    }
}

static void tell_progress(struct worker *worker, struct execution *run)
{
    const uint64_t now = clock_us();
    if (now - run->progress_us < PROGRESS_US)
        return;
    worker_answer(worker,
                  &(struct channel_message){
                      .type = CHANNEL_PROGRESS,
                      .u.job = {.id = run->id, .done = run->slices.done / run->plan->lines}});
    run->progress_us = now;
}

void jobs_came_home(struct worker *worker, struct execution *run)
{
    if (--run->coming_home == 0 && run->slices.done == run->slices.total)
        finish(worker, run, STATUS_OK);
}

void jobs_slice_completed(struct worker *worker, struct execution *run,
                          const struct completion *completion)
{
    if (completion->edges) {
        worker_answer(worker,
                      &(struct channel_message){.type = CHANNEL_EDGES, .u.job.id = run->id});
        return;
    }
    if (run->measured) {
        finish(worker, run, STATUS_OK);
        return;
    }
    slices_completed(&run->slices, completion->device_us);
    if (!run->leg.sweep) /* which is counted as a whole pass */
        plans_learn(run->plan, run->slices.next_size);
    execution_span(&run->computed, completion->device_us + completion->copy_us);
    const bool done = run->slices.done == run->slices.total;
    if (run->wants_progress && !done)
        tell_progress(worker, run);
    if (!done && !run->cancelled) {
        launch_next(worker, run);
    } else if (!run->in_pipeline) {
        if (done && run->measures)
            fetch_measured(worker, run);
        else if (done && !run->coming_home)
            finish(worker, run, STATUS_OK);
        else if (!done)
            finish(worker, run, STATUS_CANCELLED);
    } else {
        if (run->cancelled)
            transfer_completed(&run->transfer); /* its passes, as far as they came */
        else
            pipeline_passes_completed(&worker->pipeline, run);
        jobs_settle(worker, run);
    }
}

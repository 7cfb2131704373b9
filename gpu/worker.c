/* fdworker: the process that owns one device and everything resident on it. The front starts it
 * with the channel on descriptor 3.
 *
 *   channel ──► order ──► allocate, upload, download ──► backend
 *                  └────► job: waits for its arrays, then one piece after another ──► backend
 *   channel ◄── COPIED, PROGRESS, FINISHED ◄── completions ◄──────────────────────────────┘
 *
 * Ways to end: 0, the front closed the channel (or died: PR_SET_PDEATHSIG); 1, there is no such
 * device; 2, started wrongly; 65, the front broke a rule of channel.h; BACKEND_FAULT_EXIT, the
 * device failed. */
#include "gpu/backend.h"
#include "gpu/channel.h"
#include "gpu/holding.h"
#include "gpu/piece.h"
#include "gpu/pipeline.h"
#include "gpu/plans.h"
#include "gpu/range.h"
#include "gpu/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    EXIT_NO_DEVICE = 1,
    EXIT_USAGE = 2,
    EXIT_BROKEN_FRONT = 65,
    FAULT_POLL_MS = 50,       /* a device that has failed calls nobody back */
    PROGRESS_US = 100 * 1000, /* ten a second */
    ORDERS_AT_ONCE = 64,      /* between two looks at the device */
    LOOK_US = 250,            /* after something has happened, before we sleep */
    SLEEP_US = 1000,          /* … and the longest without a look at all descriptors */
    LOOK_CPUS = 4,            /* with fewer, others need ours more */
    COPYING_MOST = 8          /* jobs whose launches copy; with more the copy engine is faster */
};

/* points × passes: keeps the lines of a job inside 64 bits. How much work a job may be is for the
 * front to judge. */
static const double MOST_WORK = 0x1p62;

/* A token names what it belongs to: a struct's address, and in its lowest bits which kind. */
enum { TOKEN_RUN, TOKEN_COPY, TOKEN_STEP, TOKEN_KIND = 3 };

struct copy {
    struct holding *holding;
    struct region *region; /* NULL: the arena */
    struct copy *next;     /* in worker.free_copies */
    uint64_t tag;
    bool is_upload;
};

static struct {
    const char *name; /* of its device, as the front calls it: "host", "cuda:0" */
    const struct backend *backend;
    int device;
    bool open;
    bool looks; /* for completions and orders, before it sleeps */
    uint8_t *arena;
    uint64_t arena_bytes;
    bool direct; /* the backend computes in regions themselves */
    struct ids holdings;
    struct regions regions;
    struct runs runs;
    struct pipeline pipeline;
    struct plans plans;
    uint32_t under_way; /* completions that the backend owes */
    struct copy *free_copies;
    struct channel_inbox orders;
    struct channel_queue answers;              /* sent at the end of a turn of the loop */
    struct channel_message components, places; /* for the next RUN, or of type 0 */
} worker;

static void log_line(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void log_line(int priority, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "<%d>fdworker %s: %s\n", priority, worker.name, text);
}

/* The front broke a rule: nothing that it says can be trusted any more. */
static _Noreturn void broken(const char *rule, uint64_t id)
{
    log_line(2, "the front broke the channel's rules: %s (%llu)", rule, (unsigned long long)id);
    _exit(EXIT_BROKEN_FRONT);
}

/* Does the backend owe a completion? */
static bool is_busy(void)
{
    return worker.under_way || worker.pipeline.under_way;
}

static _Noreturn void end(void)
{
    /* With work under way the device may still write to memory that closing would take away. */
    if (is_busy())
        _exit(0);
    while (worker.free_copies) {
        struct copy *copy = worker.free_copies;
        worker.free_copies = copy->next;
        free(copy);
    }
    while (worker.runs.first) {
        struct run *run = worker.runs.first;
        worker.runs.first = run->next;
        free(run);
    }
    ids_free(&worker.runs.by_id);
    for (size_t i = 0; i < worker.holdings.capacity; i++) {
        struct holding *holding = worker.holdings.slots[i].item;
        if (holding && holding->block.memory)
            worker.backend->release(holding->block.memory, holding->block.bytes,
                                    holding->block.owner);
    }
    holdings_free(&worker.holdings);
    pipeline_free(&worker.pipeline);
    channel_queue_free(&worker.answers);
    if (worker.open) {
        regions_free(&worker.regions);
        worker.backend->close();
    }
    exit(0);
}

static _Noreturn void out_of_memory(void)
{
    log_line(2, "no memory for the worker's own tables");
    _exit(BACKEND_FAULT_EXIT);
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Is there a CPU that this thread may keep busy? */
static bool has_cpu(void)
{
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) >= LOOK_CPUS;
}

static void answer(const struct channel_message *message)
{
    if (!channel_queue_push(&worker.answers, message, -1))
        out_of_memory();
}

static void answer_copied(uint64_t tag)
{
    struct channel_message message = {.type = CHANNEL_COPIED};
    message.u.copy.tag = tag;
    answer(&message);
}

static void answer_finished(uint64_t id, enum status status, uint64_t done, uint64_t total,
                            const struct run *begun)
{
    struct channel_message message = {.type = CHANNEL_FINISHED, .status = status};
    message.u.job.id = id;
    message.u.job.done = done;
    message.u.job.total = total;
    if (begun) {
        message.u.job.device_us = begun->pieces.device_us;
        message.u.job.copy_in = begun->copied[WAY_IN];
        message.u.job.compute = begun->computed;
        message.u.job.copy_out = begun->copied[WAY_OUT];
    }
    answer(&message);
}

/* --- arena, regions, arrays and copies --- */

static _Noreturn void refuse(const struct failure *failure)
{
    struct channel_message message = {.type = CHANNEL_REFUSED, .status = failure->code};
    snprintf(message.u.refused.text, sizeof message.u.refused.text, "%.*s",
             (int)sizeof message.u.refused.text - 1, failure->message);
    channel_send(CHANNEL_DESCRIPTOR, &message, -1);
    _exit(EXIT_NO_DEVICE);
}

static void compute_passes(struct run *run);

static void take_arena(uint64_t bytes, int memfd)
{
    struct failure failure = {0};
    struct stat stat;
    if (worker.open)
        broken("a second ARENA", bytes);
    /* Sealed against shrinking, so that no access to it can fault later. */
    const int seals = memfd < 0 ? -1 : fcntl(memfd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(memfd, &stat) < 0 || bytes == 0 ||
        (uint64_t)stat.st_size != bytes)
        broken("an ARENA without a sealed memfd of its size", bytes);
    void *arena = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    if (arena == MAP_FAILED) {
        failure_set(&failure, STATUS_INTERNAL, NULL, "the arena cannot be mapped: %s",
                    strerror(errno));
        refuse(&failure);
    }
    close(memfd);
    struct channel_message message = {.type = CHANNEL_READY};
    if (!worker.backend)
        failure_set(&failure, STATUS_INTERNAL, NULL, "this fdworker was built without CUDA");
    if (!worker.backend ||
        !worker.backend->open(worker.device, arena, bytes, &message.u.ready.info, &failure))
        refuse(&failure);
    worker.arena = arena;
    worker.arena_bytes = bytes;
    worker.direct = message.u.ready.info.direct != 0;
    regions_init(&worker.regions, worker.backend);
    pipeline_init(&worker.pipeline, worker.backend, TOKEN_STEP, compute_passes);
    worker.open = true;
    worker.looks = worker.backend->is_looked_at && has_cpu();
    message.u.ready.pid = (uint32_t)getpid();
    answer(&message);
    log_line(6, "%s is ready", message.u.ready.info.name);
}

static void take_region(const struct channel_message *message, int memfd)
{
    const char *rule = regions_map(&worker.regions, message->u.region.region,
                                   message->u.region.bytes, message->u.region.writable, memfd);
    if (rule)
        broken(rule, message->u.region.region);
}

static void take_unregion(uint64_t id)
{
    const char *rule = regions_unmap(&worker.regions, id);
    if (rule)
        broken(rule, id);
}

static void answer_mapped(void)
{
    struct region *region;
    while ((region = regions_mapped(&worker.regions))) {
        struct channel_message message = {.type = CHANNEL_MAPPED, .status = region->status};
        message.u.region.region = region->id;
        answer(&message);
    }
}

/* So many bytes at a place, and the region that holds them. */
static uint8_t *find_place(const struct place *place, uint64_t bytes, bool write,
                           struct region **region)
{
    const char *rule = regions_find(&worker.regions, place, bytes, write, region);
    if (rule)
        broken(rule, place->region);
    return (*region)->memory + place->offset;
}

static struct holding *find(uint64_t id)
{
    struct holding *holding = holdings_find(&worker.holdings, id);
    if (!holding)
        broken("an order names an array that was never allocated", id);
    return holding;
}

static void take_allocate(uint64_t id, uint64_t bytes, uint64_t owner)
{
    if (bytes == 0 || id == 0 || holdings_find(&worker.holdings, id))
        broken("ALLOCATE of no bytes, or of an array that is there already", id);
    struct holding *holding = holdings_add(&worker.holdings, id);
    if (!holding)
        out_of_memory();
    holding->block = (struct block){worker.backend->allocate(bytes, owner), bytes, owner};
    if (!holding->block.memory) {
        struct channel_message message = {.type = CHANNEL_FAILED, .status = STATUS_OUT_OF_MEMORY};
        message.u.allocate.array = id;
        answer(&message);
    }
}

static void take_release(uint64_t id)
{
    struct holding *holding = find(id);
    if (holding->uploads || holding->downloads || holding->readers || holding->writers)
        broken("RELEASE of an array that is in use", id);
    if (holding->block.memory)
        worker.backend->release(holding->block.memory, holding->block.bytes, holding->block.owner);
    holdings_remove(&worker.holdings, holding);
}

/* Between a region and an array: beside the copies of jobs, since it may be as long. */
static void copy_in_slabs(struct copy *copy, void *memory, uint8_t *outside, uint64_t bytes)
{
    struct run *run = calloc(1, sizeof *run);
    if (!run)
        out_of_memory();
    run->id = copy->tag;
    run->copy = copy;
    run->from[0].memory = run->to[0].memory = outside;
    run->pieces.in[0] = run->pieces.even[0] = memory;
    pipeline_add_copy(&worker.pipeline, run, bytes, copy->is_upload ? WAY_IN : WAY_OUT);
}

static void take_copy(const struct channel_message *message)
{
    const uint64_t offset = message->u.copy.offset, arena_offset = message->u.copy.arena_offset;
    const uint64_t bytes = message->u.copy.bytes;
    const bool is_upload = message->type == CHANNEL_UPLOAD;
    const struct place place = {message->u.copy.region, arena_offset};
    struct holding *holding = find(message->u.copy.array);
    struct region *region = NULL;
    if (bytes > holding->block.bytes || offset > holding->block.bytes - bytes)
        broken("a copy reaches past its array", holding->id);
    if (!place.region && (bytes > worker.arena_bytes || arena_offset > worker.arena_bytes - bytes))
        broken("a copy reaches past the arena", holding->id);
    uint8_t *outside =
        place.region ? find_place(&place, bytes, !is_upload, &region) : worker.arena + arena_offset;
    if (holding->writers || (is_upload && holding->readers))
        broken("a copy of an array that a job uses", holding->id);
    if (is_upload && holding->downloads)
        broken("UPLOAD to an array that is being downloaded", holding->id);
    if (!is_upload && holding->uploads)
        broken("DOWNLOAD of an array that is being uploaded", holding->id);
    if (holding->region_uploads)
        broken("a copy of an array that comes from a region", holding->id);
    if (!holding->block.memory) {
        if (!is_upload) /* nobody else's bytes may go out in place of its own */
            memset(outside, 0, bytes);
        answer_copied(message->u.copy.tag);
        return;
    }
    struct copy *copy = worker.free_copies;
    if (copy)
        worker.free_copies = copy->next;
    else
        copy = malloc(sizeof *copy);
    if (!copy)
        out_of_memory();
    *copy = (struct copy){
        .holding = holding, .region = region, .tag = message->u.copy.tag, .is_upload = is_upload};
    *(is_upload ? &holding->uploads : &holding->downloads) += 1;
    if (region) {
        region->users++;
        holding->region_uploads += is_upload;
    }
    uint8_t *memory = (uint8_t *)holding->block.memory + offset;
    if (region && bytes) {
        copy_in_slabs(copy, memory, outside, bytes);
        return;
    }
    worker.under_way++;
    const uint64_t token = (uint64_t)(uintptr_t)copy | TOKEN_COPY;
    range_begin(is_upload ? "upload" : "download", holding->id);
    if (is_upload)
        worker.backend->upload(memory, outside, bytes, token);
    else
        worker.backend->download(outside, memory, bytes, NULL, token);
    range_end();
}

static void complete_copy(struct copy *copy)
{
    if (copy->is_upload)
        copy->holding->uploads--;
    else
        copy->holding->downloads--;
    if (copy->region) {
        copy->region->users--;
        copy->holding->region_uploads -= copy->is_upload;
    }
    answer_copied(copy->tag);
    copy->next = worker.free_copies;
    worker.free_copies = copy;
}

/* --- jobs --- */

static void finish(struct run *run, enum status status)
{
    runs_remove(&worker.runs, run);
    /* Begun passes count: from 1 on, the output may hold anything. */
    const uint64_t lines = run->plan.lines;
    const uint64_t done = run->started ? (run->pieces.done + lines - 1) / lines : 0;
    answer_finished(run->id, status, done, run->plan.passes, run->started ? run : NULL);
    free(run);
}

/* Its result is there. Where it came to lie in the scratch array's memory, the two exchange theirs.
 */
static void finish_well(struct run *run)
{
    for (int i = 0; i < run->plan.outputs; i++) {
        struct holding *out = run->out[i], *other = run->scratch[i];
        if (!out || pieces_result(&run->pieces, i) == out->block.memory)
            continue;
        const struct block block = out->block;
        out->block = other->block;
        other->block = block;
    }
    finish(run, STATUS_OK);
}

/* Finish a run with places, or a copy, in whose pipeline nothing is left to do. */
static void settle(struct run *run)
{
    if (run->copy) {
        if (transfer_is_done(&run->transfer)) {
            complete_copy(run->copy);
            free(run);
        }
        return;
    }
    if (transfer_is_done(&run->transfer))
        finish_well(run);
    else if (run->cancelled && run->transfer.under_way == 0)
        finish(run, STATUS_CANCELLED);
}

/* Are all uploads to its arrays complete? */
static bool is_resident(const struct run *run)
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if ((run->in[i] && run->in[i]->uploads) || (run->out[i] && run->out[i]->uploads) ||
            (run->scratch[i] && run->scratch[i]->uploads))
            return false;
    return true;
}

/* Launch the run's next piece, or finish it. */
static void advance(struct run *run)
{
    struct launch launch;
    if (run->started && run->is_copied && run->cancelled) {
        transfer_completed(&run->transfer); /* its passes, as far as they came */
        settle(run);
        return;
    }
    if (run->started && run->is_copied && run->pieces.done == run->pieces.total) {
        pipeline_passes_completed(&worker.pipeline, run);
        settle(run);
        return;
    }
    if (run->started && run->pieces.done == run->pieces.total) {
        finish_well(run);
        return;
    }
    if (run->cancelled) {
        finish(run, STATUS_CANCELLED);
        return;
    }
    if (!run->started) {
        runs_start(&worker.runs, run);
        const struct buffers buffers = run_buffers(run);
        pieces_begin(&run->pieces, &run->plan, worker.backend->splits_passes, &buffers);
        if (run->is_copied) {
            pipeline_add(&worker.pipeline, run);
            return;
        }
    }
    if (pieces_next(&run->pieces, &launch)) {
        launch.is_resident = !run->is_copied && is_resident(run);
        for (int i = 0; i < AXIS_COUNT && run->launches_copy; i++) {
            launch.source[i] = launch.from == 0 ? run->from[i].memory : NULL;
            launch.target[i] = launch.to == run->pieces.total ? run->to[i].memory : NULL;
        }
        worker.under_way++;
        range_begin("launch", run->id);
        worker.backend->launch(&launch, (uint64_t)(uintptr_t)run | TOKEN_RUN);
        range_end();
    }
}

static void compute_passes(struct run *run)
{
    advance(run);
}

/* Start what waited for an array that may be free now. */
static void start_waiting(void)
{
    struct run *next;
    for (struct run *run = worker.runs.first; run && worker.runs.waiting; run = next) {
        next = run->next;
        if (!run->started && runs_may_start(&worker.runs, run))
            advance(run);
    }
}

/* COMPONENTS and PLACES are kept for their RUN. */
static void take_before_run(const struct channel_message *message)
{
    struct channel_message *kept =
        message->type == CHANNEL_PLACES ? &worker.places : &worker.components;
    if (kept->type)
        broken("COMPONENTS or PLACES twice", message->type);
    *kept = *message;
}

/* Is there one of them that waits for its RUN? */
static bool run_follows(void)
{
    return worker.components.type || worker.places.type;
}

static void forget_before_run(void)
{
    memset(&worker.components, 0, sizeof worker.components);
    memset(&worker.places, 0, sizeof worker.places);
}

/* The run's places from the PLACES before it, if any. */
static void find_places(struct run *run, const struct job *job)
{
    const struct place *in = worker.places.u.places.in, *out = worker.places.u.places.out;
    for (int i = 0; i < AXIS_COUNT; i++) {
        if ((in[i].region && i >= job_inputs(job)) || (out[i].region && i >= job_outputs(job)))
            broken("RUN with more places than its job has arrays", run->id);
        if (in[i].region)
            run->from[i].memory = find_place(&in[i], job_bytes(job), false, &run->from[i].region);
        if (out[i].region)
            run->to[i].memory = find_place(&out[i], job_bytes(job), true, &run->to[i].region);
    }
}

/* The run's arrays from the order or, where there is one, from the COMPONENTS before it. */
static void find_arrays(struct run *run, const struct channel_message *message)
{
    struct channel_message *given = &worker.components;
    const struct job *job = &message->u.run.job;
    if (given->type && (message->u.run.in || message->u.run.out || message->u.run.scratch))
        broken("RUN with arrays of its own after COMPONENTS", run->id);
    if (!given->type) {
        given->u.components.in[0] = message->u.run.in;
        given->u.components.out[0] = message->u.run.out;
        given->u.components.scratch[0] = message->u.run.scratch;
    }
    for (int i = 0; i < AXIS_COUNT; i++) {
        const uint64_t in = given->u.components.in[i], out = given->u.components.out[i];
        const uint64_t scratch = given->u.components.scratch[i];
        const bool has_in = i < job_inputs(job) && !(worker.direct && run->from[i].region);
        const bool has_out = i < job_outputs(job) && !(worker.direct && run->to[i].region);
        if (!in == has_in || !out == has_out || (scratch && i >= job_outputs(job)))
            broken("RUN with another number of arrays than its job has", run->id);
        run->in[i] = in ? find(in) : NULL;
        run->out[i] = out ? find(out) : NULL;
        run->scratch[i] = scratch ? find(scratch) : NULL;
    }
}

/* How its arrays, of so many bytes each, come from and to its places. */
static void choose_way(struct run *run, uint64_t bytes)
{
    bool has_places = false, reached = true;
    for (int i = 0; i < AXIS_COUNT; i++) {
        const struct region *const regions[] = {run->from[i].region, run->to[i].region};
        for (int k = 0; k < 2; k++) {
            has_places |= regions[k] != NULL;
            reached &= !regions[k] || regions[k]->addressable;
        }
    }
    if (!has_places || worker.direct)
        return;
    run->launches_copy = reached && bytes <= worker.backend->launch_copies_bytes &&
                         worker.runs.copying < COPYING_MOST;
    run->is_copied = !run->launches_copy;
}

static void take_run(const struct channel_message *message)
{
    const struct job *job = &message->u.run.job;
    const uint64_t id = message->u.run.id;
    struct failure failure = {0};
    if (id == 0 || runs_find(&worker.runs, id))
        broken("RUN of a job that is there already", id);
    if (!job_check(job, MOST_WORK, &failure)) {
        log_line(3, "job %llu: %s", (unsigned long long)id, failure.message);
        forget_before_run();
        answer_finished(id, failure.code, 0, 0, NULL);
        return;
    }
    struct run *run = calloc(1, sizeof *run);
    if (!run)
        out_of_memory();
    run->id = id;
    run->wants_progress = message->u.run.progress != 0;
    find_places(run, job);
    find_arrays(run, message);
    forget_before_run();
    run->plan = *plans_get(&worker.plans, job);
    struct buffers ids; /* an array without memory is known by its holding alone */
    bool is_there = true;
    for (int i = 0; i < AXIS_COUNT; i++) {
        struct holding *const holdings[] = {run->in[i], run->out[i], run->scratch[i]};
        ids.in[i] = run->in[i] ? (void *)run->in[i] : run->from[i].memory;
        ids.out[i] = run->out[i] ? (void *)run->out[i] : run->to[i].memory;
        ids.scratch[i] = run->scratch[i];
        for (int k = 0; k < 3; k++) {
            if (holdings[k] && holdings[k]->block.bytes != job_bytes(job))
                broken("RUN with an array of another size than its job's", id);
            is_there = is_there && (!holdings[k] || holdings[k]->block.memory);
        }
    }
    if (run->scratch[0] && run->scratch[0] == run->in[0] && !run->out[0])
        broken("RUN whose result would come to lie in its input's array, not in its place", id);
    if (!pieces_possible(&run->plan, &ids))
        broken("RUN without the scratch array that it needs", id);
    if (!is_there) {
        answer_finished(id, STATUS_OUT_OF_MEMORY, 0, run->plan.passes, NULL);
        free(run);
        return;
    }
    choose_way(run, job_bytes(job));
    run->progress_us = now_us();
    if (!runs_add(&worker.runs, run))
        out_of_memory();
    if (runs_may_start(&worker.runs, run))
        advance(run);
}

/* Takes effect at the end of the piece under way; a job that is not known has ended already. */
static void take_cancel(uint64_t id)
{
    struct run *run = runs_find(&worker.runs, id);
    if (!run)
        return;
    run->cancelled = true;
    if (!run->started) {
        finish(run, STATUS_CANCELLED);
    } else if (run->is_copied) {
        pipeline_remove(&worker.pipeline, run);
        settle(run);
    }
}

static void complete_piece(struct run *run, const struct completion *completion)
{
    pieces_completed(&run->pieces, completion->device_us);
    run_computed(run, completion->device_us + completion->copy_us);
    if (run->wants_progress && run->pieces.done < run->pieces.total) {
        const uint64_t now = now_us();
        if (now - run->progress_us >= PROGRESS_US) {
            struct channel_message message = {.type = CHANNEL_PROGRESS};
            message.u.job.id = run->id;
            message.u.job.done = run->pieces.done / run->plan.lines;
            message.u.job.total = run->plan.passes;
            message.u.job.device_us = run->pieces.device_us;
            answer(&message);
            run->progress_us = now;
        }
    }
    advance(run);
}

/* --- the loop --- */

static void take_order(const struct channel_message *message, int descriptor)
{
    if (message->type == CHANNEL_ARENA) {
        take_arena(message->u.arena.bytes, descriptor);
        return;
    }
    if (descriptor >= 0 && message->type != CHANNEL_REGION)
        broken("a descriptor that nobody asked for", message->type);
    if (message->type == CHANNEL_PING) {
        const struct channel_message pong = {.type = CHANNEL_PONG};
        answer(&pong);
        return;
    }
    if (!worker.open)
        broken("an order before the ARENA", message->type);
    if (run_follows() && message->type != CHANNEL_RUN && message->type != CHANNEL_COMPONENTS &&
        message->type != CHANNEL_PLACES)
        broken("COMPONENTS or PLACES without a RUN", message->type);
    switch (message->type) {
    case CHANNEL_ALLOCATE:
        take_allocate(message->u.allocate.array, message->u.allocate.bytes,
                      message->u.allocate.owner);
        break;
    case CHANNEL_UPLOAD:
    case CHANNEL_DOWNLOAD:
        take_copy(message);
        break;
    case CHANNEL_REGION:
        take_region(message, descriptor);
        break;
    case CHANNEL_UNREGION:
        take_unregion(message->u.region.region);
        break;
    case CHANNEL_COMPONENTS:
    case CHANNEL_PLACES:
        take_before_run(message);
        break;
    case CHANNEL_RUN:
        take_run(message);
        break;
    case CHANNEL_CANCEL:
        take_cancel(message->u.job.id);
        start_waiting();
        break;
    case CHANNEL_RELEASE:
        take_release(message->u.job.id);
        break;
    default:
        broken("an order of an unknown type", message->type);
    }
}

/* Were there any? */
static bool take_completions(void)
{
    enum { AT_ONCE = 64 };
    struct completion completions[AT_ONCE];
    bool some = false;
    int count;
    do {
        count = worker.backend->reap(completions, AT_ONCE);
        some = some || count;
        for (int i = 0; i < count; i++) {
            const uintptr_t address = (uintptr_t)completions[i].token & ~(uintptr_t)TOKEN_KIND;
            const unsigned kind = completions[i].token & TOKEN_KIND;
            if (kind == TOKEN_STEP) {
                settle(pipeline_complete(&worker.pipeline, (struct step *)address,
                                         completions[i].device_us));
                continue;
            }
            worker.under_way--;
            if (kind == TOKEN_COPY)
                complete_copy((struct copy *)address);
            else
                complete_piece((struct run *)address, &completions[i]);
        }
    } while (count == AT_ONCE);
    if (some)
        start_waiting();
    return some;
}

/* Take what has come; a packet to its end. Was there anything? */
static bool take_orders(void)
{
    int i;
    for (i = 0; i < ORDERS_AT_ONCE || channel_inbox_holds(&worker.orders); i++) {
        struct channel_message message;
        int descriptor;
        const enum channel_result result =
            channel_receive(CHANNEL_DESCRIPTOR, &worker.orders, &message, &descriptor);
        if (result == CHANNEL_CLOSED)
            end();
        if (result == CHANNEL_AGAIN)
            break;
        take_order(&message, descriptor);
    }
    return i > 0;
}

/* Sleep until something comes or completes, at most timeout_ms; and take it. */
static bool wait(int timeout_ms)
{
    struct pollfd polls[3] = {
        {.fd = CHANNEL_DESCRIPTOR, .events = POLLIN},
        {.fd = worker.open ? worker.backend->wake_descriptor() : -1, .events = POLLIN},
        {.fd = worker.open ? worker.regions.wake : -1, .events = POLLIN}};
    if (worker.answers.count)
        polls[0].events |= POLLOUT;
    if (timeout_ms && is_busy())
        worker.backend->arm();
    else if (timeout_ms && worker.open && worker.backend->rest())
        timeout_ms = 0;
    const int ready = poll(polls, 3, timeout_ms);
    if (ready < 0 && errno != EINTR && errno != EAGAIN) {
        log_line(2, "poll: %s", strerror(errno));
        _exit(BACKEND_FAULT_EXIT);
    }
    if (ready < 0)
        return false;
    bool some = false;
    /* Also where nothing woke us: a device that has failed calls nobody back. */
    if (polls[1].revents || is_busy())
        some = take_completions();
    if (polls[2].revents)
        answer_mapped();
    if (polls[0].revents & (POLLIN | POLLHUP | POLLERR))
        some = take_orders() || some;
    return some;
}

/* A thread that sleeps is woken in the time that a small job takes: so look for a while first. */
static _Noreturn void serve(void)
{
    uint64_t active_us = 0, waited_us = 0;
    for (;;) {
        if (worker.open) {
            pipeline_pump(&worker.pipeline);
            worker.backend->begin();
        }
        if (channel_queue_flush(&worker.answers, CHANNEL_DESCRIPTOR) == CHANNEL_CLOSED)
            end();
        const uint64_t now = now_us();
        const bool looks = worker.looks && now - active_us < LOOK_US;
        bool some;
        if (looks && now - waited_us < SLEEP_US && !worker.answers.count) {
            some = take_completions();
            some = take_orders() || some;
        } else {
            waited_us = now;
            some = wait(looks ? 0 : is_busy() ? FAULT_POLL_MS : -1);
        }
        if (some)
            active_us = now_us();
    }
}

static bool choose_device(const char *name)
{
    worker.name = name;
    if (strcmp(name, "host") == 0) {
        worker.backend = backend_host();
        return true;
    }
    if (strncmp(name, "cuda:", 5) != 0 || name[5] < '0' || name[5] > '9')
        return false;
    char *rest;
    const long index = strtol(name + 5, &rest, 10);
    if (*rest || index > 1023)
        return false;
    worker.device = (int)index;
#ifdef HAVE_CUDA
    worker.backend = backend_cuda();
#endif
    return true;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("fdworker " FDSERVER_VERSION);
        return 0;
    }
    if (argc != 2 || !choose_device(argv[1])) {
        fprintf(stderr,
                "usage: fdworker host | cuda:N\n"
                "Started by fdserver, with its channel on descriptor %d.\n",
                CHANNEL_DESCRIPTOR);
        return EXIT_USAGE;
    }
    int kind = 0;
    socklen_t length = sizeof kind;
    if (getsockopt(CHANNEL_DESCRIPTOR, SOL_SOCKET, SO_TYPE, &kind, &length) < 0 ||
        kind != SOCK_SEQPACKET) {
        fprintf(stderr, "<3>fdworker: descriptor %d is not the front's channel\n",
                CHANNEL_DESCRIPTOR);
        return EXIT_USAGE;
    }
    fcntl(CHANNEL_DESCRIPTOR, F_SETFD, FD_CLOEXEC);
    /* If the front dies before this line, the channel is closed and the first poll sees it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* What a terminal or an operator sends to the whole group is for the front to decide. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    serve();
}

#include "tests/lib/run_backend.h"

#include "base/thread_pool.h"
#include "base/wake.h"
#include "gpu/split.h"
#include "tests/lib/measure_reference.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum { POISON = 0xa5, OWNER = 1, PARTS_MOST = 1000 };

bool bed_open(struct bed *bed, const struct backend *backend, int index, size_t arena_bytes,
              struct failure *failure)
{
    memset(bed, 0, sizeof *bed);
    bed->backend = backend;
    bed->arena_bytes = arena_bytes;
    bed->arena = mmap(NULL, arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bed->arena == MAP_FAILED)
        return failure_set(failure, STATUS_INTERNAL, NULL, "no memory for the arena");
    bed->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return thread_pool_open(0, failure) &&
           backend->open(index, bed->arena, arena_bytes, bed->wake, &bed->info, failure);
}

void bed_close(struct bed *bed)
{
    bed->backend->close();
    thread_pool_close();
    close(bed->wake);
    munmap(bed->arena, bed->arena_bytes);
}

/* Wait until a completion is possible. */
static void sleep_a_while(struct bed *bed)
{
    struct pollfd wake = {.fd = bed->wake, .events = POLLIN};
    bed->backend->begin();
    bed->backend->arm();
    poll(&wake, 1, 100);
    wake_take(bed->wake);
}

static struct token token(uint64_t number)
{
    return (struct token){.number = number};
}

/* Wait for one token; no other is in flight here. */
static struct completion wait_for(struct bed *bed, uint64_t number)
{
    struct completion completion;
    while (!bed->backend->reap(&completion))
        sleep_a_while(bed);
    if (completion.token.number != number) {
        fprintf(stderr, "a completion nobody waits for\n");
        abort();
    }
    return completion;
}

static size_t piece_of(const struct bed *bed, uint64_t bytes, uint64_t done)
{
    return bytes - done < bed->arena_bytes ? (size_t)(bytes - done) : bed->arena_bytes;
}

static void upload(struct bed *bed, uint8_t *device, const uint8_t *in, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes; done += piece_of(bed, bytes, done)) {
        const size_t piece = piece_of(bed, bytes, done);
        if (in)
            memcpy(bed->arena, in + done, piece);
        else if (!done)
            memset(bed->arena, POISON, piece);
        bed->backend->upload(device + done, bed->arena, piece, token(1));
        wait_for(bed, 1);
    }
}

static void download(struct bed *bed, uint8_t *out, const uint8_t *device, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes; done += piece_of(bed, bytes, done)) {
        const size_t piece = piece_of(bed, bytes, done);
        bed->backend->download(bed->arena, device + done, piece, NULL, token(2));
        wait_for(bed, 2);
        memcpy(out + done, bed->arena, piece);
    }
}

/* The arrays of a job on the device: inputs, and poisoned outputs. */
struct resident {
    struct plan plan;
    struct launch launch; /* whole */
    uint64_t bytes, owner;
};

static bool resident_make(struct bed *bed, struct resident *resident, const struct job *job,
                          const void *block, uint64_t owner)
{
    const struct backend *backend = bed->backend;
    struct plan *plan = &resident->plan;
    struct launch *launch = &resident->launch;
    bool ok = true;
    plan_init(plan, job, block);
    memset(launch, 0, sizeof *launch);
    resident->bytes = job_bytes(job);
    resident->owner = owner;
    launch->plan = plan;
    launch->to = plan->lines * plan->passes;
    for (int i = 0; i < plan->inputs; i++)
        ok = (launch->in[i] = backend->allocate(resident->bytes, owner)) && ok;
    for (int i = 0; i < plan->outputs; i++)
        ok = (launch->even[i] = backend->allocate(resident->bytes, owner)) && ok;
    if (plan->passes > 1)
        ok = (launch->odd = backend->allocate(resident->bytes, owner)) && ok;
    for (int i = 0; i + 1 < plan->staged; i++)
        ok = (launch->spare[i] = backend->allocate(resident->bytes, owner)) && ok;
    return ok;
}

static void resident_end(struct bed *bed, struct resident *resident)
{
    const struct launch *launch = &resident->launch;
    void *memory[] = {(void *)(uintptr_t)launch->in[0],
                      (void *)(uintptr_t)launch->in[1],
                      (void *)(uintptr_t)launch->in[2],
                      launch->even[0],
                      launch->even[1],
                      launch->even[2],
                      launch->odd,
                      launch->spare[0],
                      launch->spare[1]};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i])
            bed->backend->release(memory[i], resident->bytes, resident->owner);
    plan_release(&resident->plan);
}

/* The end of the launch that begins at line `from`. */
static uint64_t next_end(const struct plan *plan, uint64_t from, uint64_t at_once)
{
    const uint64_t total = plan->lines * plan->passes;
    if (at_once == 0)
        return total;
    if (plan->passes > 1 || !plan->plain || plan->probes)
        return total - from < at_once * plan->lines ? total : from + at_once * plan->lines;
    const struct split split = split_of(plan);
    const uint64_t field = split.units * split.unit_lines, begin = from % field;
    const uint64_t grain = split.grain * split.unit_lines, least = field / grain / PARTS_MOST;
    const uint64_t end = begin + (at_once < least ? least : at_once) * grain;
    return from - begin + (end + split.reach * split.unit_lines <= field ? end : field);
}

/* The operands of a launch in the device's memory. */
static bool operands_upload(struct bed *bed, const struct job *job, const struct operands *from,
                            struct operands *to)
{
    memset(to, 0, sizeof *to);
    for (int i = 0; i < OPERANDS; i++) {
        const uint64_t bytes = job_operand_bytes(job, i);
        if (bytes == 0)
            continue;
        to->at[i] = bed->backend->allocate(bytes, OWNER);
        if (!to->at[i])
            return false;
        upload(bed, to->at[i], from->at[i], bytes);
    }
    return true;
}

static void operands_release(struct bed *bed, const struct job *job, struct operands *operands)
{
    for (int i = 0; i < OPERANDS; i++)
        if (operands->at[i])
            bed->backend->release(operands->at[i], job_operand_bytes(job, i), OWNER);
}

bool bed_run(struct bed *bed, const struct job *job, const void *block,
             const struct operands *given, void *const in[AXIS_COUNT], void *const out[AXIS_COUNT],
             uint64_t at_once, uint64_t *device_us)
{
    struct resident *resident = malloc(sizeof *resident);
    if (!resident)
        abort();
    struct operands operands;
    bool ok = resident_make(bed, resident, job, block, OWNER);
    ok = operands_upload(bed, job, given, &operands) && ok;
    resident->launch.operands = &operands;
    if (ok) {
        const struct plan *plan = &resident->plan;
        for (int i = 0; i < plan->inputs; i++)
            upload(bed, (uint8_t *)(uintptr_t)resident->launch.in[i], in[i], resident->bytes);
        for (int i = 0; i < plan->outputs; i++)
            upload(bed, resident->launch.even[i], NULL, resident->bytes);
        if (resident->launch.odd)
            upload(bed, resident->launch.odd, NULL, resident->bytes);
        const uint64_t total = plan->lines * plan->passes;
        struct launch launch = resident->launch;
        uint64_t us = 0;
        launch.to = 0;
        while (launch.to < total) {
            launch.from = launch.to;
            launch.to = next_end(plan, launch.from, at_once);
            bed->backend->launch(&launch, token(3));
            us += wait_for(bed, 3).device_us;
        }
        if (device_us)
            *device_us = us;
        for (int i = 0; i < plan->outputs; i++)
            download(bed, out[i], launch_result(&resident->launch, i), resident->bytes);
        if (operands.at[OPERAND_PROBES])
            download(bed, given->at[OPERAND_PROBES], operands.at[OPERAND_PROBES],
                     job_operand_bytes(job, OPERAND_PROBES));
    }
    operands_release(bed, job, &operands);
    resident_end(bed, resident);
    free(resident);
    return ok;
}

static void measure(struct bed *bed, struct launch *launch, uint64_t at_once,
                    struct measured *measured)
{
    const struct plan *plan = launch->plan;
    launch->to = 0;
    while (launch->to < plan->lines) {
        const uint64_t left = plan->lines - launch->to;
        const uint64_t most = at_once && bed->backend->splits_passes ? at_once : left;
        launch->from = launch->to;
        launch->to += most < left ? most : left;
        bed->backend->launch(launch, token(3));
        wait_for(bed, 3);
    }
    const uint8_t *end = (uint8_t *)launch->even[0] + plan_measure_bytes(plan);
    download(bed, (uint8_t *)measured, end - sizeof *measured, sizeof *measured);
}

bool bed_measure(struct bed *bed, enum dtype dtype, uint64_t points, const void *a, const void *b,
                 uint64_t at_once, struct measured *measured)
{
    const struct backend *backend = bed->backend;
    const void *const from[] = {a, b};
    const uint64_t bytes = points * dtype_element_bytes(dtype);
    const uint64_t size = measure_bytes(points) + sizeof *measured; /* room for one block's, too */
    struct plan plan;
    plan_init_measure(&plan, dtype, points, b ? 2 : 1);
    struct launch launch = {.plan = &plan};
    bool ok = (launch.even[0] = backend->allocate(size, OWNER)) != NULL;
    for (int i = 0; i < plan.inputs; i++)
        ok = (launch.in[i] = backend->allocate(bytes, OWNER)) && ok;
    for (int i = 0; i < plan.inputs && ok; i++)
        upload(bed, (uint8_t *)(uintptr_t)launch.in[i], from[i], bytes);
    const int inputs = plan.inputs;
    if (ok) {
        struct measured again;
        measure(bed, &launch, at_once, measured);
        plan_init_measure(&plan, dtype, measure_blocks(points), 0);
        measure(bed, &launch, at_once, &again);
        ok = measure_reference_equal(measured, &again);
    }
    if (launch.even[0])
        backend->release(launch.even[0], size, OWNER);
    for (int i = 0; i < inputs; i++)
        if (launch.in[i])
            backend->release((void *)(uintptr_t)launch.in[i], bytes, OWNER);
    return ok;
}

static void wait_for_all(struct bed *bed, uint64_t count)
{
    struct completion completion;
    for (; count; count--)
        while (!bed->backend->reap(&completion))
            sleep_a_while(bed);
}

/* A client's memory that launches copy from and to. */
struct client {
    uint8_t *memory;
    uint64_t bytes, used;
    bool addressable;
};

static void client_make(struct bed *bed, struct client *client)
{
    *client = (struct client){.bytes = 2 * bed->arena_bytes};
    client->memory =
        mmap(NULL, client->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (client->memory == MAP_FAILED ||
        (bed->backend->pin &&
         bed->backend->pin(client->memory, client->bytes, true, &client->addressable) != STATUS_OK))
        abort();
}

static void client_end(struct bed *bed, struct client *client)
{
    if (bed->backend->unpin)
        bed->backend->unpin(client->memory, client->bytes);
    munmap(client->memory, client->bytes);
}

static uint8_t *client_take(struct client *client, uint64_t bytes)
{
    enum { ALIGNMENT = 16 };
    uint8_t *place = client->memory + client->used;
    client->used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (client->used > client->bytes)
        abort();
    return place;
}

/* Let the launch copy the job's inputs and results. */
static void resident_place(struct resident *resident, struct client *client,
                           const struct bed_job *job)
{
    for (int c = 0; c < resident->plan.inputs; c++) {
        uint8_t *source = client_take(client, resident->bytes);
        memcpy(source, job->in[c], resident->bytes);
        resident->launch.source[c] = source;
    }
    for (int c = 0; c < resident->plan.outputs; c++) {
        resident->launch.target[c] = client_take(client, resident->bytes);
        memset(resident->launch.target[c], POISON, resident->bytes);
    }
}

bool bed_run_together(struct bed *bed, const struct bed_job *jobs, uint64_t count)
{
    struct resident *all = calloc(count, sizeof *all);
    struct client client;
    if (!all)
        abort();
    bool ok = true;
    client_make(bed, &client);
    for (uint64_t i = 0; i < count; i++) { /* each job another owner: memory comes cleared */
        ok = resident_make(bed, &all[i], &jobs[i].job, NULL, i) && ok;
        if (i % 2 && client.addressable && all[i].bytes <= bed->backend->launch_copies_bytes)
            resident_place(&all[i], &client, &jobs[i]);
    }
    uint64_t place = 0, tokens = 0;
    for (uint64_t i = 0; ok && i < count; i++) {
        const uint64_t bytes = all[i].bytes;
        for (int c = 0; c < all[i].plan.inputs && !all[i].launch.source[c]; c++) {
            if (bytes > bed->arena_bytes - place)
                abort();
            memcpy(bed->arena + place, jobs[i].in[c], bytes);
            bed->backend->upload((void *)(uintptr_t)all[i].launch.in[c], bed->arena + place, bytes,
                                 token(1));
            place += bytes;
            tokens++;
        }
        all[i].launch.is_resident = all[i].launch.source[0] != NULL;
        bed->backend->launch(&all[i].launch, token(2));
        tokens++;
    }
    if (ok)
        wait_for_all(bed, tokens);
    for (uint64_t i = 0; i < count; i++) {
        for (int c = 0; ok && c < all[i].plan.outputs; c++)
            if (all[i].launch.target[c])
                memcpy(jobs[i].out[c], all[i].launch.target[c], all[i].bytes);
            else
                download(bed, jobs[i].out[c], launch_result(&all[i].launch, c), all[i].bytes);
        resident_end(bed, &all[i]);
    }
    client_end(bed, &client);
    free(all);
    return ok;
}

/* From the first job's output back to its input. */
static struct launch back(const struct resident *resident)
{
    struct launch launch = resident->launch;
    uint8_t *result = launch_result(&resident->launch, 0);
    uint8_t *in = (uint8_t *)(uintptr_t)launch.in[0];
    launch.in[0] = result;
    *(result == launch.even[0] ? &launch.even[0] : &launch.odd) = in;
    return launch;
}

bool bed_run_chain(struct bed *bed, const struct bed_job *jobs, uint64_t count, uint64_t rounds)
{
    struct resident *all = calloc(count, sizeof *all);
    if (!all)
        abort();
    bool ok = true;
    for (uint64_t i = 0; i < count; i++) {
        ok = resident_make(bed, &all[i], &jobs[i].job, NULL, OWNER) && ok;
        all[i].launch.chain = 1;
        all[i].launch.is_resident = true;
        if (ok)
            upload(bed, (uint8_t *)(uintptr_t)all[i].launch.in[0], jobs[i].in[0], all[i].bytes);
    }
    for (uint64_t round = 0; ok && round < rounds; round++)
        for (uint64_t i = 0; i < count; i++) {
            struct launch second = back(&all[i]);
            second.ends_round = i + 1 == count;
            bed->backend->launch(&all[i].launch, token(2));
            bed->backend->launch(&second, token(2));
        }
    if (ok)
        wait_for_all(bed, 2 * count * rounds);
    for (uint64_t i = 0; i < count; i++) {
        if (ok)
            download(bed, jobs[i].out[0], all[i].launch.in[0], all[i].bytes);
        resident_end(bed, &all[i]);
    }
    free(all);
    return ok;
}

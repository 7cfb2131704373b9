/* The real fdworker, driven over its channel like the front does, on the host backend or on the
 * device that FDSERVER_TEST_DEVICE names. */
#pragma once

#include "base/rights.h"
#include "gpu/worker/channel.h"
#include "tests/lib/job_of.h"
#include "tests/lib/random_job.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARENA_BYTES = 4 << 20, OWNER = 1000, BROKEN_FRONT = 65, PATIENCE_MS = 120 * 1000 };

static struct {
    pid_t pid;
    int socket, memfd;
    uint8_t *arena;
    uint64_t next_id;
    int exported; /* descriptor that came with the last answer; −1 */
    struct channel_inbox inbox;
    bool direct;
    struct channel_run next; /* what the next RUN has beside its job and arrays … */
    const void *block;       /* … and its job's block */
    uint64_t chain;          /* of the RUNs that are ordered, … */
    bool ends_round;
    bool packs; /* orders wait for send_packet() */
    struct channel_queue packet;
} front;

static inline const char *device_name(void)
{
    const char *name = getenv("FDSERVER_TEST_DEVICE");
    return name ? name : "host";
}

static inline void start(const char *device)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    front.pid = fork();
    assert_true(front.pid >= 0);
    if (front.pid == 0) {
        if (ends[1] == CHANNEL_DESCRIPTOR)
            fcntl(CHANNEL_DESCRIPTOR, F_SETFD, 0);
        else
            dup2(ends[1], CHANNEL_DESCRIPTOR);
        execl(WORKER, "fdworker", device, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    front.socket = ends[0];
    memset(&front.inbox, 0, sizeof front.inbox);
    front.next_id = 1;
    front.memfd = rights_memfd("arena", ARENA_BYTES);
    front.arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, front.memfd, 0);
    assert_ptr_not_equal(front.arena, MAP_FAILED);
}

static inline void flush(void)
{
    enum channel_result result;
    struct pollfd poll_out = {.fd = front.socket, .events = POLLOUT};
    while ((result = channel_queue_flush(&front.packet, front.socket)) == CHANNEL_AGAIN)
        poll(&poll_out, 1, PATIENCE_MS);
    assert_int_equal(result, CHANNEL_OK);
    channel_queue_free(&front.packet);
}

static inline void order_all_of(const struct channel_message *message, const void *block,
                                int descriptor)
{
    const int own = descriptor < 0 ? -1 : dup(descriptor);
    assert_true(channel_queue_push(&front.packet, message, block, own));
    if (!front.packs)
        flush();
}

static inline void order_with(const struct channel_message *message, int descriptor)
{
    order_all_of(message, NULL, descriptor);
}

static inline void order(const struct channel_message *message)
{
    order_with(message, -1);
}

/* Orders are collected until send_packet() sends them in one packet. */
static inline void begin_packet(void)
{
    front.packs = true;
}

static inline void send_packet(void)
{
    front.packs = false;
    flush();
}

/* The next answer but signs of life, which a slow machine's worker gives at any time. */
static inline struct channel_message answer(void)
{
    struct channel_message message;
    int descriptor;
    struct pollfd poll_in = {.fd = front.socket, .events = POLLIN};
    do {
        if (!channel_inbox_holds(&front.inbox))
            assert_int_equal(poll(&poll_in, 1, PATIENCE_MS), 1);
        assert_int_equal(channel_receive(front.socket, &front.inbox, &message, &descriptor),
                         CHANNEL_OK);
    } while (message.type == CHANNEL_ALIVE);
    assert_int_equal(descriptor >= 0,
                     message.type == CHANNEL_EXPORTED && message.status == STATUS_OK);
    front.exported = descriptor;
    return message;
}

static inline struct channel_message answer_of(enum channel_type type)
{
    const struct channel_message message = answer();
    assert_int_equal(message.type, type);
    return message;
}

static inline void order_arena(void)
{
    struct channel_message message = {.type = CHANNEL_ARENA};
    message.u.arena.bytes = ARENA_BYTES;
    order_with(&message, front.memfd);
}

/* The worker's exit status, or minus the signal that ended it. */
static inline int ended(void)
{
    int status;
    assert_int_equal(waitpid(front.pid, &status, 0), front.pid);
    close(front.memfd);
    munmap(front.arena, ARENA_BYTES);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static inline int close_and_wait(void)
{
    close(front.socket);
    return ended();
}

static inline int setup(void **state)
{
    start(device_name());
    order_arena();
    const struct channel_message ready = answer_of(CHANNEL_READY);
    assert_int_equal(strncmp(ready.u.ready.info.kind, device_name(), 4), 0);
    front.direct = ready.u.ready.info.direct;
    assert_true(ready.u.ready.info.free_bytes > 0);
    return 0;
}

static inline int teardown(void **state)
{
    return close_and_wait();
}

static inline uint64_t order_allocate(uint64_t owner, uint64_t bytes, bool exportable)
{
    struct channel_message message = {.type = CHANNEL_ALLOCATE};
    message.u.allocate.array = front.next_id++;
    message.u.allocate.bytes = bytes;
    message.u.allocate.owner = owner;
    message.u.allocate.exportable = exportable;
    order(&message);
    return message.u.allocate.array;
}

static inline uint64_t allocate_for(uint64_t owner, uint64_t bytes)
{
    return order_allocate(owner, bytes, false);
}

static inline uint64_t allocate(uint64_t bytes)
{
    return allocate_for(OWNER, bytes);
}

/* Memory that others map, for an EXPORT. */
static inline uint64_t allocate_exportable(uint64_t bytes)
{
    return order_allocate(OWNER, bytes, true);
}

static inline uint64_t order_export(uint64_t array, uint64_t other)
{
    struct channel_message message = {.type = CHANNEL_EXPORT};
    message.u.exported.id = front.next_id++;
    message.u.exported.array = array;
    message.u.exported.other = other;
    order(&message);
    return message.u.exported.id;
}

/* 0: none. */
static inline void release(uint64_t array)
{
    if (!array)
        return;
    struct channel_message message = {.type = CHANNEL_RELEASE};
    message.u.job.id = array;
    order(&message);
}

static inline void cancel(uint64_t id)
{
    struct channel_message message = {.type = CHANNEL_CANCEL};
    message.u.job.id = id;
    order(&message);
}

static inline void order_copy(enum channel_type type, uint64_t array, uint64_t offset,
                              uint64_t arena_offset, uint64_t bytes, uint64_t tag)
{
    struct channel_message message = {.type = type};
    message.u.copy.array = array;
    message.u.copy.offset = offset;
    message.u.copy.arena_offset = arena_offset;
    message.u.copy.bytes = bytes;
    message.u.copy.tag = tag;
    order(&message);
}

/* In two pieces, so that offsets matter. */
static inline void upload(uint64_t array, const void *from, uint64_t bytes)
{
    const uint64_t half = bytes / 2;
    assert_true(bytes <= ARENA_BYTES / 2);
    memcpy(front.arena + 64, from, bytes);
    order_copy(CHANNEL_UPLOAD, array, half, 64 + half, bytes - half, 71);
    order_copy(CHANNEL_UPLOAD, array, 0, 64, half, 72);
    assert_int_equal(answer_of(CHANNEL_COPIED).u.copy.tag + answer_of(CHANNEL_COPIED).u.copy.tag,
                     143);
}

static inline void download(uint64_t array, void *to, uint64_t bytes)
{
    memset(front.arena, 0x5a, bytes);
    order_copy(CHANNEL_DOWNLOAD, array, 0, 0, bytes, UINT64_MAX / 3);
    assert_int_equal(answer_of(CHANNEL_COPIED).u.copy.tag, UINT64_MAX / 3);
    memcpy(to, front.arena, bytes);
}

static inline uint64_t run_components(const struct job *job, const uint64_t in[AXIS_COUNT],
                                      const uint64_t out[AXIS_COUNT],
                                      const uint64_t scratch[AXIS_COUNT])
{
    struct channel_message message = {.type = CHANNEL_RUN};
    struct channel_run *run = &message.u.run;
    const void *block = front.block;
    *run = front.next;
    memset(&front.next, 0, sizeof front.next);
    front.block = NULL;
    run->id = front.next_id++;
    memcpy(run->in, in, sizeof run->in);
    memcpy(run->out, out, sizeof run->out);
    memcpy(run->scratch, scratch, sizeof run->scratch);
    run->chain = front.chain;
    run->ends_round = front.ends_round;
    run->job = *job;
    order_all_of(&message, block, -1);
    return run->id;
}

static inline uint64_t run(const struct job *job, uint64_t in, uint64_t out, uint64_t scratch,
                           bool progress)
{
    front.next.progress = progress;
    return run_components(job, (uint64_t[AXIS_COUNT]){in}, (uint64_t[AXIS_COUNT]){out},
                          (uint64_t[AXIS_COUNT]){scratch});
}

/* The results by the contract, which arrays_free() frees. */
static inline void expect(const struct job *job, const void *block, void *const in[AXIS_COUNT],
                          void *expected[AXIS_COUNT])
{
    struct plan plan;
    assert_true(plan_init(&plan, job, block));
    arrays_make(expected, plan.outputs, job_bytes(job), 0);
    reference_run(&plan, in, expected);
    plan_release(&plan);
}

/* What a job of one input and one output in the front's memory has computed. */
static inline void assert_result(const struct job *job, const void *in, const void *result)
{
    void *expected[AXIS_COUNT];
    expect(job, NULL, (void *[AXIS_COUNT]){(void *)(uintptr_t)in}, expected);
    if (memcmp(result, expected[0], job_bytes(job)) != 0) {
        random_job_print(job);
        fail_msg("the result differs from the reference");
    }
    arrays_free(expected);
}

/* Of points that lie between so many bytes of the array (and the other). */
static inline uint64_t order_measure_part(uint64_t array, uint64_t other, uint64_t result,
                                          uint64_t ahead, uint64_t points, uint64_t behind,
                                          enum dtype dtype)
{
    struct channel_message message = {.type = CHANNEL_MEASURE};
    message.u.measure.id = front.next_id++;
    message.u.measure.ahead = ahead;
    message.u.measure.behind = behind;
    message.u.measure.array = array;
    message.u.measure.other = other;
    message.u.measure.result = result;
    message.u.measure.points = points;
    message.u.measure.dtype = dtype;
    order(&message);
    return message.u.measure.id;
}

static inline uint64_t order_measure(uint64_t array, uint64_t other, uint64_t result,
                                     uint64_t points, enum dtype dtype)
{
    return order_measure_part(array, other, result, 0, points, 0, dtype);
}

static inline void finished(uint64_t id, enum status status)
{
    const struct channel_message message = answer_of(CHANNEL_FINISHED);
    assert_int_equal(message.u.job.id, id);
    assert_int_equal(message.status, status);
}

static inline void ping(void)
{
    const struct channel_message message = {.type = CHANNEL_PING};
    order(&message);
    answer_of(CHANNEL_PONG);
}

/* --- regions --- */

struct client_region {
    uint64_t id, bytes;
    uint8_t *memory;
};

static inline int sealed_memfd(uint64_t bytes, unsigned seals)
{
    const int memfd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(memfd >= 0);
    assert_int_equal(ftruncate(memfd, (off_t)bytes), 0);
    assert_int_equal(fcntl(memfd, F_ADD_SEALS, seals), 0);
    return memfd;
}

static inline uint64_t order_region(uint64_t bytes, bool writable, int memfd)
{
    struct channel_message message = {.type = CHANNEL_REGION};
    message.u.region.region = front.next_id++;
    message.u.region.bytes = bytes;
    message.u.region.writable = writable;
    order_with(&message, memfd);
    return message.u.region.region;
}

static inline void mapped(uint64_t region)
{
    const struct channel_message message = answer_of(CHANNEL_MAPPED);
    assert_int_equal(message.u.region.region, region);
    assert_int_equal(message.status, STATUS_OK);
}

static inline struct client_region make_region(uint64_t bytes, bool writable)
{
    struct client_region region = {.bytes = bytes};
    const int memfd = sealed_memfd(bytes, F_SEAL_SHRINK | F_SEAL_GROW);
    region.memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    assert_ptr_not_equal(region.memory, MAP_FAILED);
    region.id = order_region(bytes, writable, memfd);
    close(memfd);
    mapped(region.id);
    return region;
}

static inline void order_unregion(uint64_t id)
{
    struct channel_message message = {.type = CHANNEL_UNREGION};
    message.u.region.region = id;
    order(&message);
}

static inline void end_region(const struct client_region *region)
{
    order_unregion(region->id);
    munmap(region->memory, region->bytes);
}

/* Of the next RUN. */
static inline void set_places(const struct place in[AXIS_COUNT], const struct place out[AXIS_COUNT])
{
    memcpy(front.next.from, in, sizeof front.next.from);
    memcpy(front.next.to, out, sizeof front.next.to);
}

static inline void set_place(struct place in, struct place out)
{
    set_places((struct place[AXIS_COUNT]){in}, (struct place[AXIS_COUNT]){out});
}

static const struct place nowhere;

/* An array beside a place in a region: of workers that copy from and to it; else 0. */
static inline uint64_t allocate_beside(uint64_t bytes)
{
    return front.direct ? 0 : allocate(bytes);
}

/* --- jobs --- */

enum arrangement { APART, OWN_INPUT, IN_PLACE, ARRANGEMENTS };

/* A random job, its inputs, the result by the contract, and memory for one result. */
struct sample {
    struct job job;
    struct plan plan;
    uint64_t bytes; /* of each array */
    void *fields[AXIS_COUNT], *expected[AXIS_COUNT], *result[AXIS_COUNT];
};

static inline void sample_make(struct sample *sample, struct random *random)
{
    random_job(random, 4000, &sample->job);
    plan_make(&sample->plan, &sample->job);
    sample->bytes = job_bytes(&sample->job);
    arrays_make(sample->fields, sample->plan.inputs, sample->bytes, 0);
    arrays_make(sample->result, 1, sample->bytes, 0);
    for (int c = 0; c < sample->plan.inputs; c++)
        random_field(random, &sample->job, sample->fields[c]);
    expect(&sample->job, NULL, sample->fields, sample->expected);
}

/* sample->result[0] is the component c, computed by that one. */
static inline void sample_check(const struct sample *sample, int c, int by)
{
    if (memcmp(sample->result[0], sample->expected[c], sample->bytes) != 0) {
        random_job_print(&sample->job);
        fail_msg("%d: component %d differs from the reference", by, c);
    }
}

static inline void sample_free(struct sample *sample)
{
    arrays_free(sample->fields);
    arrays_free(sample->expected);
    arrays_free(sample->result);
}

/* So many COPIED and FINISHED, in any order. */
static inline void copied_and_finished(int copied, int jobs)
{
    while (copied || jobs) {
        const struct channel_message message = answer();
        assert_true(message.type == CHANNEL_COPIED || message.type == CHANNEL_FINISHED);
        assert_int_equal(message.status, STATUS_OK);
        *(message.type == CHANNEL_COPIED ? &copied : &jobs) -= 1;
        assert_true(copied >= 0 && jobs >= 0);
    }
}

static inline struct job diffusion(uint64_t nx, uint64_t ny, uint64_t steps)
{
    struct job job = diffusion_of(DTYPE_F32, nx, ny, 1, 4, steps);
    job.dt = 0.1;
    return job;
}

/* A field of that job's size with the job's bits in it. */
static inline uint64_t field_of(const struct job *job, float *values)
{
    struct random random = random_start();
    random_field(&random, job, values);
    const uint64_t array = allocate(job_bytes(job));
    upload(array, values, job_bytes(job));
    return array;
}

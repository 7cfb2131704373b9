/* The real fdworker, driven over its channel like the front does, on the host backend or on the
 * device that FDSERVER_TEST_DEVICE names. */
#include "gpu/worker/channel.h"
#include "tests/lib/measure_reference.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARENA_BYTES = 4 << 20, OWNER = 1000, BROKEN_FRONT = 65, PATIENCE_MS = 120 * 1000 };

static struct {
    pid_t pid;
    int socket, memfd;
    uint8_t *arena;
    uint64_t next_id;
    struct channel_inbox inbox;
    bool direct;
    struct channel_run next; /* what the next RUN has beside its job and arrays … */
    const void *block;       /* … and its job's block */
    uint64_t chain;          /* of the RUNs that are ordered, … */
    bool ends_round;
    bool packs; /* orders wait for send_packet() */
    struct channel_queue packet;
} front;

static const char *device_name(void)
{
    const char *name = getenv("FDSERVER_TEST_DEVICE");
    return name ? name : "host";
}

static void start(const char *device)
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
    front.memfd = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(front.memfd, ARENA_BYTES), 0);
    assert_int_equal(fcntl(front.memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    front.arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, front.memfd, 0);
    assert_ptr_not_equal(front.arena, MAP_FAILED);
}

static void flush(void)
{
    enum channel_result result;
    struct pollfd poll_out = {.fd = front.socket, .events = POLLOUT};
    while ((result = channel_queue_flush(&front.packet, front.socket)) == CHANNEL_AGAIN)
        poll(&poll_out, 1, PATIENCE_MS);
    assert_int_equal(result, CHANNEL_OK);
    channel_queue_free(&front.packet);
}

static void order_all_of(const struct channel_message *message, const void *block, int descriptor)
{
    const int own = descriptor < 0 ? -1 : dup(descriptor);
    assert_true(channel_queue_push(&front.packet, message, block, own));
    if (!front.packs)
        flush();
}

static void order_with(const struct channel_message *message, int descriptor)
{
    order_all_of(message, NULL, descriptor);
}

static void order(const struct channel_message *message)
{
    order_with(message, -1);
}

/* Orders are collected until send_packet() sends them in one packet. */
static void begin_packet(void)
{
    front.packs = true;
}

static void send_packet(void)
{
    front.packs = false;
    flush();
}

static struct channel_message answer(void)
{
    struct channel_message message;
    int descriptor;
    struct pollfd poll_in = {.fd = front.socket, .events = POLLIN};
    if (!channel_inbox_holds(&front.inbox))
        assert_int_equal(poll(&poll_in, 1, PATIENCE_MS), 1);
    assert_int_equal(channel_receive(front.socket, &front.inbox, &message, &descriptor),
                     CHANNEL_OK);
    assert_int_equal(descriptor, -1);
    return message;
}

static struct channel_message answer_of(enum channel_type type)
{
    const struct channel_message message = answer();
    assert_int_equal(message.type, type);
    return message;
}

static void order_arena(void)
{
    struct channel_message message = {.type = CHANNEL_ARENA};
    message.u.arena.bytes = ARENA_BYTES;
    order_with(&message, front.memfd);
}

/* The worker's exit status, or minus the signal that ended it. */
static int ended(void)
{
    int status;
    assert_int_equal(waitpid(front.pid, &status, 0), front.pid);
    close(front.memfd);
    munmap(front.arena, ARENA_BYTES);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int close_and_wait(void)
{
    close(front.socket);
    return ended();
}

static int setup(void **state)
{
    start(device_name());
    order_arena();
    const struct channel_message ready = answer_of(CHANNEL_READY);
    assert_int_equal(strncmp(ready.u.ready.info.kind, device_name(), 4), 0);
    front.direct = ready.u.ready.info.direct;
    assert_int_equal(ready.u.ready.pid, front.pid);
    assert_true(ready.u.ready.info.memory_bytes >= ready.u.ready.info.free_bytes);
    return 0;
}

static int teardown(void **state)
{
    return close_and_wait();
}

static uint64_t allocate_for(uint64_t owner, uint64_t bytes)
{
    struct channel_message message = {.type = CHANNEL_ALLOCATE};
    message.u.allocate.array = front.next_id++;
    message.u.allocate.bytes = bytes;
    message.u.allocate.owner = owner;
    order(&message);
    return message.u.allocate.array;
}

static uint64_t allocate(uint64_t bytes)
{
    return allocate_for(OWNER, bytes);
}

static void release(uint64_t array)
{
    struct channel_message message = {.type = CHANNEL_RELEASE};
    message.u.job.id = array;
    order(&message);
}

static void order_copy(enum channel_type type, uint64_t array, uint64_t offset,
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
static void upload(uint64_t array, const void *from, uint64_t bytes)
{
    const uint64_t half = bytes / 2;
    assert_true(bytes <= ARENA_BYTES / 2);
    memcpy(front.arena + 64, from, bytes);
    order_copy(CHANNEL_UPLOAD, array, half, 64 + half, bytes - half, 71);
    order_copy(CHANNEL_UPLOAD, array, 0, 64, half, 72);
    assert_int_equal(answer_of(CHANNEL_COPIED).u.copy.tag + answer_of(CHANNEL_COPIED).u.copy.tag,
                     143);
}

static void download(uint64_t array, void *to, uint64_t bytes)
{
    memset(front.arena, 0x5a, bytes);
    order_copy(CHANNEL_DOWNLOAD, array, 0, 0, bytes, UINT64_MAX / 3);
    assert_int_equal(answer_of(CHANNEL_COPIED).u.copy.tag, UINT64_MAX / 3);
    memcpy(to, front.arena, bytes);
}

static uint64_t run_components(const struct job *job, const uint64_t in[AXIS_COUNT],
                               const uint64_t out[AXIS_COUNT], const uint64_t scratch[AXIS_COUNT])
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

static uint64_t run(const struct job *job, uint64_t in, uint64_t out, uint64_t scratch,
                    bool progress)
{
    front.next.progress = progress;
    return run_components(job, (uint64_t[AXIS_COUNT]){in}, (uint64_t[AXIS_COUNT]){out},
                          (uint64_t[AXIS_COUNT]){scratch});
}

static uint64_t order_measure(uint64_t array, uint64_t other, uint64_t result, uint64_t points,
                              enum dtype dtype)
{
    struct channel_message message = {.type = CHANNEL_MEASURE};
    message.u.measure.id = front.next_id++;
    message.u.measure.array = array;
    message.u.measure.other = other;
    message.u.measure.result = result;
    message.u.measure.points = points;
    message.u.measure.dtype = dtype;
    order(&message);
    return message.u.measure.id;
}

static void finished(uint64_t id, enum status status)
{
    const struct channel_message message = answer_of(CHANNEL_FINISHED);
    assert_int_equal(message.u.job.id, id);
    assert_int_equal(message.status, status);
}

static void ping(void)
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

static int sealed_memfd(uint64_t bytes, unsigned seals)
{
    const int memfd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(memfd >= 0);
    assert_int_equal(ftruncate(memfd, (off_t)bytes), 0);
    assert_int_equal(fcntl(memfd, F_ADD_SEALS, seals), 0);
    return memfd;
}

static uint64_t order_region(uint64_t bytes, bool writable, int memfd)
{
    struct channel_message message = {.type = CHANNEL_REGION};
    message.u.region.region = front.next_id++;
    message.u.region.bytes = bytes;
    message.u.region.writable = writable;
    order_with(&message, memfd);
    return message.u.region.region;
}

static void mapped(uint64_t region)
{
    const struct channel_message message = answer_of(CHANNEL_MAPPED);
    assert_int_equal(message.u.region.region, region);
    assert_int_equal(message.status, STATUS_OK);
}

static struct client_region make_region(uint64_t bytes, bool writable)
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

static void order_unregion(uint64_t id)
{
    struct channel_message message = {.type = CHANNEL_UNREGION};
    message.u.region.region = id;
    order(&message);
}

static void end_region(const struct client_region *region)
{
    order_unregion(region->id);
    munmap(region->memory, region->bytes);
}

/* Of the next RUN. */
static void set_places(const struct place in[AXIS_COUNT], const struct place out[AXIS_COUNT])
{
    memcpy(front.next.from, in, sizeof front.next.from);
    memcpy(front.next.to, out, sizeof front.next.to);
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

static void sample_make(struct sample *sample, struct random *random)
{
    random_job(random, 4000, &sample->job);
    plan_make(&sample->plan, &sample->job);
    sample->bytes = job_bytes(&sample->job);
    arrays_make(sample->fields, sample->plan.inputs, sample->bytes, 0);
    arrays_make(sample->expected, sample->plan.outputs, sample->bytes, 0);
    arrays_make(sample->result, 1, sample->bytes, 0);
    for (int c = 0; c < sample->plan.inputs; c++)
        random_field(random, &sample->job, sample->fields[c]);
    reference_run(&sample->plan, sample->fields, sample->expected);
}

static void sample_free(struct sample *sample)
{
    arrays_free(sample->fields);
    arrays_free(sample->expected);
    arrays_free(sample->result);
}

/* Every placement of a job's arrays gives the contract's bits and leaves the input unchanged,
 * unless the job is in place. */
TEST(test_results_in_every_arrangement, setup, teardown)
{
    struct random random = random_start();
    for (int i = 0; i < 240; i++) {
        const enum arrangement arrangement = (enum arrangement)(i % ARRANGEMENTS);
        struct sample sample;
        sample_make(&sample, &random);
        const struct plan *plan = &sample.plan;
        const uint64_t bytes = sample.bytes;

        /* In place: as many outputs as there are inputs lie in them, in another order. */
        uint64_t in[AXIS_COUNT] = {0}, out[AXIS_COUNT] = {0}, scratch[AXIS_COUNT] = {0};
        for (int c = 0; c < plan->inputs; c++) {
            in[c] = allocate(bytes);
            upload(in[c], sample.fields[c], bytes);
        }
        for (int c = 0; c < plan->outputs; c++) {
            const bool in_place = arrangement == IN_PLACE && c < plan->inputs;
            out[c] = in_place ? in[plan->inputs - 1 - c] : allocate(bytes);
            if (arrangement == OWN_INPUT && plan->form == PLAN_SCALAR)
                scratch[c] = in[c];
            else if (job_scratch(&sample.job, in_place, false))
                scratch[c] = allocate(bytes);
        }
        finished(run_components(&sample.job, in, out, scratch), STATUS_OK);
        for (int c = 0; c < plan->outputs; c++) {
            download(out[c], sample.result[0], bytes);
            if (memcmp(sample.result[0], sample.expected[c], bytes) != 0) {
                random_job_print(&sample.job);
                fail_msg("arrangement %d: component %d differs from the reference", arrangement, c);
            }
        }
        for (int c = 0; c < plan->inputs; c++) {
            if (arrangement == APART) {
                download(in[c], sample.result[0], bytes);
                assert_memory_equal(sample.result[0], sample.fields[c], bytes);
            }
            release(in[c]);
        }
        for (int c = 0; c < plan->outputs; c++) {
            if (arrangement != IN_PLACE || c >= plan->inputs)
                release(out[c]);
            if (scratch[c] && scratch[c] != in[c])
                release(scratch[c]);
        }
        sample_free(&sample);
    }
}

/* So many COPIED and FINISHED, in any order. */
static void copied_and_finished(int copied, int jobs)
{
    while (copied || jobs) {
        const struct channel_message message = answer();
        assert_true(message.type == CHANNEL_COPIED || message.type == CHANNEL_FINISHED);
        assert_int_equal(message.status, STATUS_OK);
        *(message.type == CHANNEL_COPIED ? &copied : &jobs) -= 1;
        assert_true(copied >= 0 && jobs >= 0);
    }
}

/* Inputs that come in one packet with the two jobs that read them, the second of which may
 * overwrite one. */
TEST(test_inputs_that_come_with_their_jobs, setup, teardown)
{
    struct random random = random_start();
    for (int i = 0; i < 120; i++) {
        struct sample sample;
        sample_make(&sample, &random);
        const struct plan *plan = &sample.plan;
        const uint64_t bytes = sample.bytes;
        uint64_t in[AXIS_COUNT] = {0}, out[2][AXIS_COUNT] = {{0}}, scratch[2][AXIS_COUNT] = {{0}};
        const bool needs_scratch = job_scratch(&sample.job, false, false);
        const bool own =
            i % 2 && plan->form == PLAN_SCALAR; /* the second job's scratch is its input */
        begin_packet();
        for (int c = 0; c < plan->inputs; c++) {
            const uint64_t at = (uint64_t)c * (ARENA_BYTES / 8);
            assert_true(bytes <= ARENA_BYTES / 8);
            memcpy(front.arena + at, sample.fields[c], bytes);
            in[c] = allocate(bytes);
            order_copy(CHANNEL_UPLOAD, in[c], 0, at, bytes, (uint64_t)c);
        }
        for (int k = 0; k < 2; k++) {
            for (int c = 0; c < plan->outputs; c++) {
                out[k][c] = allocate(bytes);
                if (k && own)
                    scratch[k][c] = in[c];
                else if (needs_scratch)
                    scratch[k][c] = allocate(bytes);
            }
            run_components(&sample.job, in, out[k], scratch[k]);
        }
        send_packet();
        copied_and_finished(plan->inputs, 2);
        for (int k = 0; k < 2; k++)
            for (int c = 0; c < plan->outputs; c++) {
                download(out[k][c], sample.result[0], bytes);
                if (memcmp(sample.result[0], sample.expected[c], bytes) != 0) {
                    random_job_print(&sample.job);
                    fail_msg("job %d: component %d differs from the reference", k, c);
                }
                release(out[k][c]);
                if (scratch[k][c] && scratch[k][c] != in[c])
                    release(scratch[k][c]);
            }
        for (int c = 0; c < plan->inputs; c++) {
            if (!own) {
                download(in[c], sample.result[0], bytes);
                assert_memory_equal(sample.result[0], sample.fields[c], bytes);
            }
            release(in[c]);
        }
        sample_free(&sample);
    }
}

static struct job diffusion(uint64_t nx, uint64_t ny, uint64_t steps)
{
    struct job job;
    job_init(&job);
    job.operator_id = OPERATOR_DIFFUSION;
    job.order = 2;
    job.accuracy = 4;
    job.axes = 2;
    job.n[AXIS_X] = nx;
    job.n[AXIS_Y] = ny;
    job.diffusivity[AXIS_X] = job.diffusivity[AXIS_Y] = 1;
    job.steps = steps;
    job.dt = 0.1;
    return job;
}

/* A field of that job's size with the job's bits in it. */
static uint64_t field_of(const struct job *job, float *values)
{
    struct random random = random_start();
    random_field(&random, job, values);
    const uint64_t array = allocate(job_bytes(job));
    upload(array, values, job_bytes(job));
    return array;
}

/* Many slices give the same result as one, and the device time and the passes are reported. */
TEST(test_a_long_job_in_pieces, setup, teardown)
{
    static float values[300 * 301], expected[300 * 301], result[300 * 301];
    const struct job job = diffusion(300, 301, 1501);
    struct plan plan;
    plan_make(&plan, &job);
    const uint64_t field = field_of(&job, values), scratch = allocate(sizeof values);
    reference_run(&plan, (void *[AXIS_COUNT]){values}, (void *[AXIS_COUNT]){expected});
    const uint64_t id = run(&job, field, field, scratch, true);
    uint64_t done = 0;
    struct channel_message message;
    while ((message = answer()).type == CHANNEL_PROGRESS) {
        assert_int_equal(message.u.job.id, id);
        assert_int_equal(message.u.job.total, 1501);
        assert_true(message.u.job.done >= done && message.u.job.done < 1501);
        done = message.u.job.done;
    }
    assert_int_equal(message.type, CHANNEL_FINISHED);
    assert_int_equal(message.status, STATUS_OK);
    assert_true(message.u.job.device_us > 0);
    download(field, result, sizeof result);
    assert_memory_equal(result, expected, sizeof result);
}

TEST(test_a_short_job_passes_a_long_one_which_is_cancelled, setup, teardown)
{
    static float values[512 * 512];
    struct channel_message cancel = {.type = CHANNEL_CANCEL};
    const struct job longest = diffusion(512, 512, UINT64_C(1) << 40);
    const struct job shortest = diffusion(32, 32, 3);
    const uint64_t field = field_of(&longest, values), scratch = allocate(sizeof values);
    const uint64_t small = field_of(&shortest, values), small_out = allocate(32 * 32 * 4);
    cancel.u.job.id = run(&longest, field, field, scratch, false);
    finished(run(&shortest, small, small_out, small, false), STATUS_OK);
    ping();
    order(&cancel);
    finished(cancel.u.job.id, STATUS_CANCELLED);
    order(&cancel); /* has ended: nothing to say */
    ping();
    release(scratch);
    release(field);
    ping();
}

/* Runs on one field are taken in order, though all are sent at once; one that waits can be
 * cancelled. */
TEST(test_runs_on_one_field_wait_for_each_other, setup, teardown)
{
    static float values[100 * 100], expected[100 * 100], result[100 * 100];
    const struct job steps7 = diffusion(100, 100, 7), steps28 = diffusion(100, 100, 28);
    struct plan plan;
    plan_make(&plan, &steps28);
    const uint64_t field = field_of(&steps7, values), scratch = allocate(sizeof values);
    reference_run(&plan, (void *[AXIS_COUNT]){values}, (void *[AXIS_COUNT]){expected});
    uint64_t ids[4];
    for (int i = 0; i < 4; i++)
        ids[i] = run(&steps7, field, field, scratch, false);
    for (int i = 0; i < 4; i++)
        finished(ids[i], STATUS_OK);
    download(field, result, sizeof result);
    assert_memory_equal(result, expected, sizeof result);

    const struct job longest = diffusion(100, 100, UINT64_C(1) << 40);
    struct channel_message cancel = {.type = CHANNEL_CANCEL};
    const uint64_t first = run(&longest, field, field, scratch, false);
    const uint64_t second = run(&steps7, field, field, scratch, false);
    cancel.u.job.id = second;
    order(&cancel);
    finished(second, STATUS_CANCELLED);
    cancel.u.job.id = first;
    order(&cancel);
    finished(first, STATUS_CANCELLED);
}

enum { LINKS = 4, CHAIN_ARRAYS = 4 };

/* A chain whose operators read each other's results, some of which are in scratch arrays: its
 * arrays, and their expected contents. */
struct chain_sample {
    uint64_t number, bytes, array[CHAIN_ARRAYS];
    struct job job[LINKS];
    void *expected[AXIS_COUNT + 1];
};

/* Of each link: in, out, scratch. */
static const int chain_links[LINKS][3] = {{0, 1, 3}, {1, 0, 1}, {0, 2, 3}, {0, 0, 3}};

static void chain_make(struct chain_sample *chain, uint64_t nx, uint64_t ny, uint64_t steps)
{
    static float values[1100 * 1000];
    static uint64_t number = UINT64_C(1) << 40;
    chain->number = number++;
    for (int k = 0; k < LINKS; k++)
        chain->job[k] = diffusion(nx, ny, k == 0 ? steps : k == 1 ? 2 : 1);
    chain->job[2].operator_id = OPERATOR_LAPLACIAN;
    chain->job[2].dt = chain->job[2].diffusivity[AXIS_X] = chain->job[2].diffusivity[AXIS_Y] = 0;
    chain->bytes = job_bytes(&chain->job[0]);
    assert_true(chain->bytes <= sizeof values);
    struct random random = random_start();
    random_field(&random, &chain->job[0], values);
    for (int i = 0; i < CHAIN_ARRAYS; i++) {
        chain->array[i] = allocate(chain->bytes);
        chain->expected[i] = calloc(1, chain->bytes);
    }
    memcpy(chain->expected[0], values, chain->bytes);
    memcpy(front.arena, values, chain->bytes);
    order_copy(CHANNEL_UPLOAD, chain->array[0], 0, 0, chain->bytes, 7);
    answer_of(CHANNEL_COPIED);
}

/* One round in the chain's order, and the expected contents of its arrays. */
static void chain_round(struct chain_sample *chain, bool ends)
{
    front.chain = chain->number;
    for (int k = 0; k < LINKS; k++) {
        const int *link = chain_links[k];
        struct plan plan;
        void *result[AXIS_COUNT];
        front.ends_round = ends && k == LINKS - 1;
        run(&chain->job[k], chain->array[link[0]], chain->array[link[1]], chain->array[link[2]],
            false);
        plan_make(&plan, &chain->job[k]);
        arrays_make(result, 1, chain->bytes, 0);
        reference_run(&plan, (void *[AXIS_COUNT]){chain->expected[link[0]]}, result);
        memcpy(chain->expected[link[1]], result[0], chain->bytes);
        arrays_free(result);
    }
    front.chain = 0;
    front.ends_round = false;
}

static void chain_check(const struct chain_sample *chain)
{
    for (int i = 0; i < CHAIN_ARRAYS; i += 2) { /* 1 and 3 are scratch */
        order_copy(CHANNEL_DOWNLOAD, chain->array[i], 0, 0, chain->bytes, 7);
        answer_of(CHANNEL_COPIED);
        assert_memory_equal(front.arena, chain->expected[i], chain->bytes);
    }
}

static void chain_free(struct chain_sample *chain)
{
    for (int i = 0; i < CHAIN_ARRAYS; i++) {
        release(chain->array[i]);
        free(chain->expected[i]);
    }
}

/* Two chains at once, repeated often enough for graphs, and between their rounds other runs on one
 * of their arrays: the results are as if each had waited. */
TEST(test_chains, setup, teardown)
{
    static const struct {
        uint64_t nx, ny, steps;
        int rounds;
    } cases[] = {{33, 31, 3, 40}, {200, 300, 2, 12}, {600, 500, 5, 6}, {1100, 900, 2, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct chain_sample chains[2];
        for (int c = 0; c < 2; c++)
            chain_make(&chains[c], cases[i].nx, cases[i].ny, cases[i].steps);
        const uint64_t out = allocate(chains[0].bytes);
        int others = 0;
        for (int round = 0; round < cases[i].rounds; round++) {
            if (round % 4 == 0)
                begin_packet();
            for (int c = 0; c < 2; c++)
                chain_round(&chains[c], round % 2);
            if (round % 8 == 7) {
                run(&chains[0].job[3], chains[0].array[0], out, 0, false);
                others++;
            }
            if (round % 4 == 3 || round == cases[i].rounds - 1)
                send_packet();
        }
        copied_and_finished(0, 2 * LINKS * cases[i].rounds + others);
        for (int c = 0; c < 2; c++) {
            chain_check(&chains[c]);
            chain_free(&chains[c]);
        }
        release(out);
        ping();
    }
}

/* A run of a chain that is cancelled; those behind it go on, or are cancelled too. */
TEST(test_cancelling_a_chain, setup, teardown)
{
    static float values[100 * 100];
    const struct job longest = diffusion(100, 100, UINT64_C(1) << 40);
    const struct job shortest = diffusion(100, 100, 1);
    const uint64_t field = field_of(&shortest, values), scratch = allocate(sizeof values);
    const uint64_t out = allocate(sizeof values);
    struct channel_message cancel = {.type = CHANNEL_CANCEL};
    uint64_t ids[4];
    front.chain = 9;
    ids[0] = run(&shortest, field, field, scratch, false);
    ids[1] = run(&longest, field, field, scratch, false);
    ids[2] = run(&shortest, field, field, scratch, false);
    ids[3] = run(&shortest, field, out, 0, false);
    front.chain = 0;
    finished(ids[0], STATUS_OK);
    cancel.u.job.id = ids[2];
    order(&cancel);
    finished(ids[2], STATUS_CANCELLED);
    cancel.u.job.id = ids[1];
    order(&cancel);
    finished(ids[1], STATUS_CANCELLED);
    finished(ids[3], STATUS_OK);
    release(field);
    release(scratch);
    release(out);
    ping();
}

/* Operators that read and write places in regions: they keep the chain's order, too. */
TEST(test_a_chain_from_region_to_region, setup, teardown)
{
    enum { ROUNDS = 20 };
    const struct job jobs[] = {diffusion(50, 60, 1), diffusion(1200, 1100, 1)};
    struct random random = random_start();
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        const struct job *job = &jobs[i];
        const uint64_t bytes = job_bytes(job);
        const struct client_region region = make_region(2 * bytes, true);
        random_field(&random, job, region.memory);
        const uint64_t array = allocate(bytes), scratch = allocate(bytes);
        const uint64_t in = front.direct ? 0 : allocate(bytes);
        const uint64_t out = front.direct ? 0 : allocate(bytes);
        front.chain = 5;
        for (int round = 0; round < ROUNDS; round++) {
            set_places((struct place[AXIS_COUNT]){{region.id, 0}}, (struct place[AXIS_COUNT]){0});
            run(job, in, array, 0, false);
            run(job, array, array, scratch, false);
            set_places((struct place[AXIS_COUNT]){{0}},
                       (struct place[AXIS_COUNT]){{region.id, bytes}});
            run(job, array, out, 0, false);
        }
        front.chain = 0;
        copied_and_finished(0, 3 * ROUNDS);
        struct job steps = *job;
        struct plan plan;
        void *expected[AXIS_COUNT];
        steps.steps = 3;
        plan_make(&plan, &steps);
        arrays_make(expected, 1, bytes, 0);
        reference_run(&plan, (void *[AXIS_COUNT]){region.memory}, expected);
        assert_memory_equal(region.memory + bytes, expected[0], bytes);
        arrays_free(expected);
        end_region(&region);
        release(array);
        release(scratch);
        if (!front.direct) {
            release(in);
            release(out);
        }
        ping();
    }
}

/* More than there are slots for, ordered all at once behind the job whose result they measure. */
TEST(test_measures, setup, teardown)
{
    enum { MEASURES = 150 };
    static float values[100 * 100], expected[100 * 100];
    const struct job job = diffusion(100, 100, 7);
    struct plan plan;
    plan_make(&plan, &job);
    const uint64_t in = field_of(&job, values), out = allocate(sizeof values);
    const uint64_t scratch = allocate(sizeof values);
    reference_run(&plan, (void *[AXIS_COUNT]){values}, (void *[AXIS_COUNT]){expected});
    const struct measured of_one = measure_reference(DTYPE_F32, 10000, expected, NULL);
    const struct measured of_two = measure_reference(DTYPE_F32, 10000, expected, values);
    uint64_t ids[MEASURES], results[MEASURES];
    begin_packet();
    const uint64_t computed = run(&job, in, out, scratch, false);
    for (int i = 0; i < MEASURES; i++) {
        results[i] = allocate(measure_bytes(10000));
        ids[i] = order_measure(out, i % 2 ? in : 0, results[i], 10000, DTYPE_F32);
    }
    send_packet();
    finished(computed, STATUS_OK);
    bool seen[MEASURES] = {false};
    for (int i = 0; i < MEASURES; i++) {
        const struct channel_message message = answer_of(CHANNEL_FINISHED);
        assert_int_equal(message.status, STATUS_OK);
        int k = 0;
        while (k < MEASURES && ids[k] != message.u.job.id)
            k++;
        assert_true(k < MEASURES && !seen[k]);
        seen[k] = true;
        assert_true(measure_reference_equal(&message.u.job.measured, k % 2 ? &of_two : &of_one));
        release(results[k]);
    }
}

/* Every mixture of arrays and places: inputs in a read-only region, outputs in another one, whose
 * other bytes stay as they were. */
TEST(test_results_in_regions, setup, teardown)
{
    enum { GUARD = 64, STEP = 64 << 10 };
    struct random random = random_start();
    const struct client_region given = make_region(AXIS_COUNT * STEP, false);
    const struct client_region wanted = make_region(AXIS_COUNT * STEP, true);
    for (int i = 0; i < 120; i++) {
        struct sample sample;
        sample_make(&sample, &random);
        const struct plan *plan = &sample.plan;
        const uint64_t bytes = sample.bytes;
        assert_true(bytes + 2 * GUARD <= STEP);
        memset(wanted.memory, 0x77, wanted.bytes);

        uint64_t in[AXIS_COUNT] = {0}, out[AXIS_COUNT] = {0}, scratch[AXIS_COUNT] = {0};
        struct place from[AXIS_COUNT] = {0}, to[AXIS_COUNT] = {0};
        for (int c = 0; c < plan->inputs; c++) {
            const bool placed = random_below(&random, 3);
            in[c] = placed && front.direct ? 0 : allocate(bytes);
            if (placed) {
                from[c] = (struct place){given.id, (uint64_t)c * STEP + GUARD};
                memcpy(given.memory + from[c].offset, sample.fields[c], bytes);
            } else {
                upload(in[c], sample.fields[c], bytes);
            }
        }
        for (int c = 0; c < plan->outputs; c++) {
            if (random_below(&random, 3))
                to[c] = (struct place){wanted.id, (uint64_t)c * STEP + GUARD};
            if (!to[c].region || !front.direct)
                out[c] = allocate(bytes);
            const bool in_serves = in[0] && out[c] && random_below(&random, 2);
            if (job_scratch(&sample.job, false, false))
                scratch[c] = in_serves ? in[0] : allocate(bytes);
        }
        set_places(from, to);
        finished(run_components(&sample.job, in, out, scratch), STATUS_OK);
        for (int c = 0; c < plan->outputs; c++) {
            if (to[c].region) {
                uint8_t *begin = wanted.memory + to[c].offset;
                memcpy(sample.result[0], begin, bytes);
                memset(begin, 0x77, bytes);
            } else {
                download(out[c], sample.result[0], bytes);
            }
            if (out[c])
                release(out[c]);
            if (scratch[c] && scratch[c] != in[0])
                release(scratch[c]);
            if (memcmp(sample.result[0], sample.expected[c], bytes) != 0) {
                random_job_print(&sample.job);
                fail_msg("component %d differs from the reference", c);
            }
        }
        for (uint64_t k = 0; k < wanted.bytes; k++)
            assert_int_equal(wanted.memory[k], 0x77);
        for (int c = 0; c < plan->inputs; c++) {
            if (from[c].region)
                assert_memory_equal(given.memory + from[c].offset, sample.fields[c], bytes);
            if (in[c])
                release(in[c]);
        }
        sample_free(&sample);
    }
    end_region(&given);
    end_region(&wanted);
    ping();
}

/* More kinds of jobs at once than a device keeps weights for, one or several of each, some of them
 * cancelled: each gives its own result, whatever began or was copied together with it. */
TEST(test_many_jobs_at_once, setup, teardown)
{
    enum { AT_ONCE = 120, STEP = 16 << 10, CANCEL_EVERY = 6 };
    struct random random = random_start();
    const struct client_region given = make_region(AT_ONCE * STEP, false);
    const struct client_region wanted = make_region(AT_ONCE * STEP, true);
    for (int round = 0; round < 4; round++) {
        static struct job jobs[AT_ONCE];
        uint64_t ids[AT_ONCE], arrays[AT_ONCE][3] = {{0}}; /* in, out, scratch */
        bool is_cancelled[AT_ONCE] = {false};
        memset(wanted.memory, 0x77, wanted.bytes);
        for (int i = 0; i < AT_ONCE; i++) {
            const struct place in[AXIS_COUNT] = {{given.id, (uint64_t)i * STEP}};
            const struct place out[AXIS_COUNT] = {{wanted.id, (uint64_t)i * STEP}};
            if (i > 0 && random_below(&random, 2))
                jobs[i] = jobs[i - 1];
            else
                do
                    random_job(&random, 2000, &jobs[i]);
                while (job_inputs(&jobs[i]) + job_outputs(&jobs[i]) > 2);
            random_field(&random, &jobs[i], given.memory + in[0].offset);
            for (int k = 0; k < 3; k++)
                if (k < 2 ? !front.direct : job_scratch(&jobs[i], false, false))
                    arrays[i][k] = allocate(job_bytes(&jobs[i]));
            set_places(in, out);
            ids[i] = run(&jobs[i], arrays[i][0], arrays[i][1], arrays[i][2], false);
            if (random_below(&random, CANCEL_EVERY) == 0) {
                struct channel_message cancel = {.type = CHANNEL_CANCEL};
                cancel.u.job.id = ids[i - (int)random_below(&random, (uint64_t)i + 1)];
                order(&cancel);
            }
        }
        for (int left = AT_ONCE; left > 0; left--) {
            const struct channel_message message = answer_of(CHANNEL_FINISHED);
            int i = 0;
            while (i < AT_ONCE && ids[i] != message.u.job.id)
                i++;
            assert_true(i < AT_ONCE);
            is_cancelled[i] = message.status == STATUS_CANCELLED;
            assert_true(is_cancelled[i] || message.status == STATUS_OK);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            struct plan plan;
            void *expected[AXIS_COUNT];
            plan_make(&plan, &jobs[i]);
            arrays_make(expected, 1, job_bytes(&jobs[i]), 0);
            reference_run(&plan, (void *[AXIS_COUNT]){given.memory + i * STEP}, expected);
            if (!is_cancelled[i] &&
                memcmp(wanted.memory + i * STEP, expected[0], job_bytes(&jobs[i])) != 0) {
                random_job_print(&jobs[i]);
                fail_msg("job %d of %d at once differs from the reference", i, AT_ONCE);
            }
            for (uint64_t k = job_bytes(&jobs[i]); k < STEP; k++)
                assert_int_equal(wanted.memory[(uint64_t)i * STEP + k], 0x77);
            for (int k = 0; k < 3; k++)
                if (arrays[i][k])
                    release(arrays[i][k]);
            arrays_free(expected);
        }
    }
    end_region(&given);
    end_region(&wanted);
    ping();
}

static struct job block(enum operator_id operator_id, uint64_t nx, uint64_t ny, uint64_t nz)
{
    struct job job;
    job_init(&job);
    job.operator_id = (uint8_t)operator_id;
    job.order = (uint8_t)job_order(&job);
    job.axes = 3;
    job.axis = AXIS_Z;
    job.n[AXIS_X] = nx;
    job.n[AXIS_Y] = ny;
    job.n[AXIS_Z] = nz;
    return job;
}

/* Jobs of many slabs each, all in flight at once, from one field to separate places. */
TEST(test_large_jobs_in_regions, setup, teardown)
{
    enum { JOBS = 3 };
    struct job jobs[JOBS] = {block(OPERATOR_DERIVATIVE, 80, 90, 170),
                             block(OPERATOR_DERIVATIVE, 80, 90, 170),
                             block(OPERATOR_LAPLACIAN, 80, 90, 170)};
    jobs[1].axis = AXIS_X;
    const uint64_t bytes = job_bytes(&jobs[0]);
    const struct client_region region = make_region((1 + JOBS) * bytes, true);
    struct random random = random_start();
    random_field(&random, &jobs[0], region.memory);
    uint64_t in[JOBS], out[JOBS], ids[JOBS];
    for (int i = 0; i < JOBS; i++) {
        in[i] = front.direct ? 0 : allocate(bytes);
        out[i] = front.direct ? 0 : allocate(bytes);
        set_places((struct place[AXIS_COUNT]){{region.id, 0}},
                   (struct place[AXIS_COUNT]){{region.id, (uint64_t)(1 + i) * bytes}});
        ids[i] = run(&jobs[i], in[i], out[i], 0, false);
    }
    for (int i = 0; i < JOBS; i++) {
        const struct channel_message message = answer_of(CHANNEL_FINISHED);
        assert_int_equal(message.status, STATUS_OK);
        assert_int_equal(message.u.job.done, 1);
        assert_true(message.u.job.id >= ids[0] && message.u.job.id <= ids[JOBS - 1]);
        const struct channel_span up = message.u.job.copy_in, down = message.u.job.copy_out;
        const struct channel_span compute = message.u.job.compute;
        assert_true(compute.begin_ns > 0 && compute.begin_ns <= compute.end_ns);
        if (front.direct) {
            assert_true(!up.end_ns && !down.end_ns);
        } else {
            assert_true(up.begin_ns < up.end_ns && down.begin_ns < down.end_ns);
            assert_true(up.begin_ns <= down.begin_ns && compute.end_ns <= down.end_ns);
        }
    }
    void *expected[AXIS_COUNT];
    arrays_make(expected, 1, bytes, 0);
    for (int i = 0; i < JOBS; i++) {
        struct plan plan;
        plan_make(&plan, &jobs[i]);
        reference_run(&plan, (void *[AXIS_COUNT]){region.memory}, expected);
        assert_memory_equal(region.memory + (uint64_t)(1 + i) * bytes, expected[0], bytes);
        if (in[i])
            release(in[i]);
        if (out[i])
            release(out[i]);
    }
    arrays_free(expected);
    end_region(&region);
    ping();
}

/* Small jobs of every number of arrays, all at once, whose places are all over a region that a
 * device knows in several pieces; and one that is a little larger. */
TEST(test_small_jobs_all_over_a_region, setup, teardown)
{
    enum { JOBS = 7, STEP = 3 << 20, GUARD = 48, ALL = 4 * STEP };
    const struct client_region given = make_region((uint64_t)JOBS * ALL, false);
    const struct client_region wanted = make_region((uint64_t)JOBS * ALL, true);
    struct random random = random_start();
    struct job jobs[JOBS];
    uint64_t arrays[JOBS][3][AXIS_COUNT] = {{{0}}}, ids[JOBS];
    for (int i = 0; i < JOBS; i++) {
        static const enum operator_id operators[] = {OPERATOR_LAPLACIAN, OPERATOR_GRADIENT,
                                                     OPERATOR_DIVERGENCE, OPERATOR_CURL};
        struct place places[2][AXIS_COUNT] = {{{0}}};
        if (i == JOBS - 1)
            jobs[i] = diffusion(63, 65, 200); /* several pieces */
        else
            jobs[i] = block(operators[i % 4], i == 4 ? 65 : 64, 64, 64);
        for (int c = 0; c < AXIS_COUNT; c++) {
            const uint64_t offset = (uint64_t)i * ALL + (uint64_t)c * STEP + GUARD;
            const bool is_in = c < job_inputs(&jobs[i]), is_out = c < job_outputs(&jobs[i]);
            const bool needs[] = {is_in && !front.direct, is_out && !front.direct,
                                  is_out && job_scratch(&jobs[i], false, false)};
            for (int k = 0; k < 3; k++)
                if (needs[k])
                    arrays[i][k][c] = allocate(job_bytes(&jobs[i]));
            if (is_in)
                places[0][c] = (struct place){given.id, offset};
            if (is_out)
                places[1][c] = (struct place){wanted.id, offset};
            if (is_in)
                random_field(&random, &jobs[i], given.memory + offset);
        }
        set_places(places[0], places[1]);
        ids[i] = run_components(&jobs[i], arrays[i][0], arrays[i][1], arrays[i][2]);
    }
    for (int left = JOBS; left > 0; left--) {
        const struct channel_message message = answer_of(CHANNEL_FINISHED);
        assert_int_equal(message.status, STATUS_OK);
        assert_true(message.u.job.id >= ids[0] && message.u.job.id <= ids[JOBS - 1]);
        const struct channel_span compute = message.u.job.compute;
        assert_true(compute.begin_ns > 0 && compute.begin_ns <= compute.end_ns);
    }
    for (int i = 0; i < JOBS; i++) {
        struct plan plan;
        void *in[AXIS_COUNT], *expected[AXIS_COUNT];
        plan_make(&plan, &jobs[i]);
        arrays_make(expected, plan.outputs, job_bytes(&jobs[i]), 0);
        for (int c = 0; c < AXIS_COUNT; c++)
            in[c] = given.memory + (uint64_t)i * ALL + (uint64_t)c * STEP + GUARD;
        reference_run(&plan, in, expected);
        for (int c = 0; c < plan.outputs; c++) {
            const uint8_t *out = wanted.memory + (uint64_t)i * ALL + (uint64_t)c * STEP;
            assert_memory_equal(out + GUARD, expected[c], job_bytes(&jobs[i]));
            for (int k = 0; k < GUARD; k++)
                assert_true(out[k] == 0 && out[GUARD + job_bytes(&jobs[i]) + (uint64_t)k] == 0);
        }
        arrays_free(expected);
        for (int k = 0; k < 3; k++)
            for (int c = 0; c < AXIS_COUNT; c++)
                if (arrays[i][k][c])
                    release(arrays[i][k][c]);
    }
    end_region(&given);
    end_region(&wanted);
    ping();
}

/* Its slabs in flight complete; then its region can be unmapped. */
TEST(test_cancelling_a_job_in_regions, setup, teardown)
{
    struct channel_message cancel = {.type = CHANNEL_CANCEL};
    /* Of the last one launches copy the arrays, where they can. */
    const struct job jobs[] = {block(OPERATOR_LAPLACIAN, 128, 128, 256),
                               diffusion(1024, 1024, UINT64_C(1) << 40),
                               diffusion(64, 64, UINT64_C(1) << 40)};
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        const uint64_t bytes = job_bytes(&jobs[i]);
        const struct client_region region = make_region(2 * bytes, true);
        const uint64_t in = front.direct ? 0 : allocate(bytes);
        const uint64_t out = front.direct ? 0 : allocate(bytes);
        const uint64_t scratch = i ? allocate(bytes) : 0;
        begin_packet();
        set_places((struct place[AXIS_COUNT]){{region.id, 0}},
                   (struct place[AXIS_COUNT]){{region.id, bytes}});
        cancel.u.job.id = run(&jobs[i], in, out, scratch, false);
        order(&cancel);
        send_packet();
        const struct channel_message message = answer_of(CHANNEL_FINISHED);
        assert_int_equal(message.u.job.id, cancel.u.job.id);
        assert_int_equal(message.status, STATUS_CANCELLED);
        end_region(&region);
        if (in) {
            release(in);
            release(out);
        }
        if (scratch)
            release(scratch);
        ping();
    }
}

/* Its input is in, its result stays in an array, and some of its passes are done: no more is left
 * to copy, and yet it is not done. */
TEST(test_cancelling_the_passes_of_an_input_from_a_region, setup, teardown)
{
    struct channel_message cancel = {.type = CHANNEL_CANCEL};
    const struct job job = diffusion(1024, 512, UINT64_C(1) << 40);
    const uint64_t bytes = job_bytes(&job);
    const struct client_region region = make_region(bytes, true);
    const uint64_t in = front.direct ? 0 : allocate(bytes);
    const uint64_t out = allocate(bytes), scratch = allocate(bytes);
    set_places((struct place[AXIS_COUNT]){{region.id, 0}}, (struct place[AXIS_COUNT]){{0}});
    cancel.u.job.id = run(&job, in, out, scratch, true);
    answer_of(CHANNEL_PROGRESS);
    order(&cancel);
    struct channel_message message = answer();
    while (message.type == CHANNEL_PROGRESS)
        message = answer();
    assert_int_equal(message.type, CHANNEL_FINISHED);
    assert_int_equal(message.u.job.id, cancel.u.job.id);
    assert_true(message.u.job.done < message.u.job.total);
    assert_int_equal(message.status, STATUS_CANCELLED);
    end_region(&region);
    ping();
}

static struct channel_message region_copy(enum channel_type type, uint64_t array,
                                          const struct client_region *region, uint64_t offset,
                                          uint64_t bytes)
{
    struct channel_message message = {.type = type};
    message.u.copy.array = array;
    message.u.copy.arena_offset = offset;
    message.u.copy.bytes = bytes;
    message.u.copy.region = region->id;
    message.u.copy.tag = offset;
    return message;
}

/* From one place of a region to another, of a few bytes and of many slabs, and at once a job that
 * reads the copied array. */
TEST(test_copies_between_regions_and_arrays, setup, teardown)
{
    const struct job jobs[] = {diffusion(16, 16, 1), diffusion(1300, 1300, 1)};
    struct random random = random_start();
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        const uint64_t bytes = job_bytes(&jobs[i]);
        const struct client_region region = make_region(3 * bytes, true);
        const uint64_t array = allocate(bytes), out = allocate(bytes);
        random_field(&random, &jobs[i], region.memory);
        struct channel_message message = region_copy(CHANNEL_UPLOAD, array, &region, 0, bytes);
        order(&message);
        const uint64_t id = run(&jobs[i], array, out, 0, false);
        assert_int_equal(answer_of(CHANNEL_COPIED).u.copy.tag, 0);
        finished(id, STATUS_OK);
        message = region_copy(CHANNEL_DOWNLOAD, array, &region, bytes, bytes);
        order(&message);
        message = region_copy(CHANNEL_DOWNLOAD, out, &region, 2 * bytes, bytes);
        order(&message);
        const uint64_t first = answer_of(CHANNEL_COPIED).u.copy.tag;
        assert_int_equal(first + answer_of(CHANNEL_COPIED).u.copy.tag, 3 * bytes);
        assert_memory_equal(region.memory + bytes, region.memory, bytes);
        struct plan plan;
        void *expected[AXIS_COUNT];
        plan_make(&plan, &jobs[i]);
        arrays_make(expected, 1, bytes, 0);
        reference_run(&plan, (void *[AXIS_COUNT]){region.memory}, expected);
        assert_memory_equal(region.memory + 2 * bytes, expected[0], bytes);
        arrays_free(expected);
        end_region(&region);
        release(array);
        release(out);
        ping();
    }
}

/* A region sealed against writing can be read. */
TEST(test_a_region_that_is_sealed_against_writing, setup, teardown)
{
    enum { BYTES = 1 << 16 };
    uint8_t *result = malloc(BYTES);
    const int memfd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(memfd, BYTES), 0);
    memset(result, 0x3c, BYTES);
    assert_int_equal(pwrite(memfd, result, BYTES, 0), BYTES);
    assert_int_equal(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
    const struct client_region region = {.id = order_region(BYTES, false, memfd), .bytes = BYTES};
    close(memfd);
    mapped(region.id);
    const uint64_t array = allocate(BYTES);
    struct channel_message message = region_copy(CHANNEL_UPLOAD, array, &region, 0, BYTES);
    order(&message);
    answer_of(CHANNEL_COPIED);
    memset(result, 0, BYTES);
    download(array, result, BYTES);
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(result[i], 0x3c);
    order_unregion(region.id);
    release(array);
    ping();
    free(result);
}

TEST(test_many_regions_at_once, setup, teardown)
{
    enum { COUNT = 200 };
    uint64_t first = front.next_id;
    for (int i = 0; i < COUNT; i++) {
        const uint64_t bytes = (uint64_t)(i % 7 + 1) * 4096;
        const int memfd = sealed_memfd(bytes, F_SEAL_SHRINK | F_SEAL_GROW);
        order_region(bytes, true, memfd);
        close(memfd);
    }
    for (uint64_t i = 0; i < COUNT; i++)
        mapped(first + i);
    for (uint64_t i = 0; i < COUNT; i++)
        order_unregion(first + (i * 37) % COUNT);
    ping();
}

/* A packet of one RUN record, or what pretends to be one, with `behind` bytes after its struct and
 * a descriptor where descriptor ≥ 0. */
static void send_run(const struct channel_run *run, uint16_t version, uint32_t said_bytes,
                     const void *behind, size_t behind_bytes, int descriptor)
{
    struct channel_message message = {
        .bytes = said_bytes, .version = version, .type = CHANNEL_RUN, .u.run = *run};
    struct iovec pieces[] = {{&message, CHANNEL_RUN_BYTES},
                             {(void *)(uintptr_t)behind, behind_bytes}};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {{0}};
    struct msghdr header = {.msg_iov = pieces, .msg_iovlen = 2};
    if (descriptor >= 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof control.bytes;
        *CMSG_FIRSTHDR(&header) = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&header)), &descriptor, sizeof descriptor);
    }
    assert_int_equal(sendmsg(front.socket, &header, 0), CHANNEL_RUN_BYTES + behind_bytes);
}

/* A valid RUN, of a job with one probe. */
static struct channel_run run_with_probe(void)
{
    struct channel_run run = {.id = front.next_id++, .job = diffusion(32, 32, 1)};
    run.job.more.probes = 1;
    run.job.more.block_bytes = sizeof(int64_t[AXIS_COUNT + 1]);
    run.in[0] = allocate(4096);
    run.out[0] = allocate(4096);
    run.operand[OPERAND_PROBES] = allocate(2 * job_element_bytes(&run.job));
    return run;
}
static const int64_t a_probe[AXIS_COUNT + 2] = {0, 31, 0, 0, 0}; /* and 8 bytes more */
enum { PROBE_BYTES = sizeof(int64_t[AXIS_COUNT + 1]) };

/* The same RUN with its block in a memfd of so many bytes with these seals. */
static void run_with_memfd(uint64_t bytes, unsigned seals, uint64_t behind_bytes)
{
    const struct channel_run run = run_with_probe();
    const int memfd = memfd_create("block", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(write(memfd, a_probe, bytes), bytes);
    assert_int_equal(fcntl(memfd, F_ADD_SEALS, seals), 0);
    send_run(&run, CHANNEL_VERSION, (uint32_t)(CHANNEL_RUN_BYTES + behind_bytes), a_probe,
             behind_bytes, memfd);
    close(memfd);
}
enum { ALL_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };
/* A block that fits its record, one that does not, and one of a memfd that was made by hand. */
TEST(test_blocks, setup, teardown)
{
    static double block[20000], values[20000], expected[20000], result[20000];
    static const uint64_t counts[] = {50, 4000, 4100, 20000};
    for (int i = 0; i < 20000; i++)
        block[i] = i + 0.1 * (i % 7);
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        struct job job;
        struct plan plan;
        struct random random = random_start();
        job_init(&job);
        job.dtype = DTYPE_F64;
        job.accuracy = 4;
        job.n[AXIS_X] = counts[k];
        job.more.coordinates = 1;
        job.boundary[AXIS_X][SIDE_LOW].kind = job.boundary[AXIS_X][SIDE_HIGH].kind =
            BOUNDARY_ONE_SIDED;
        job.more.block_bytes = 8 * counts[k];
        job_block_key(block, job.more.block_bytes, job.more.block_key);
        random_field(&random, &job, values);
        assert_true(plan_init(&plan, &job, block));
        reference_run(&plan, (void *[AXIS_COUNT]){values}, (void *[AXIS_COUNT]){expected});
        plan_release(&plan);
        const uint64_t in = allocate(job_bytes(&job)), out = allocate(job_bytes(&job));
        upload(in, values, job_bytes(&job));
        front.block = block;
        finished(run(&job, in, out, 0, false), STATUS_OK);
        download(out, result, job_bytes(&job));
        assert_memory_equal(result, expected, job_bytes(&job));
        release(in);
        release(out);
    }
    run_with_memfd(PROBE_BYTES, ALL_SEALS, 0);
    assert_int_equal(answer_of(CHANNEL_FINISHED).status, STATUS_OK);
}

/* Bytes of RUN records changed at random: the worker either answers, or ends because of a faulty
 * front. */
TEST(test_random_records)
{
    struct random random = random_start();
    setup(NULL);
    for (int i = 0; i < 400; i++) {
        struct channel_run run = run_with_probe();
        struct channel_message message = {.type = CHANNEL_PING};
        uint32_t said_bytes = CHANNEL_RUN_BYTES + PROBE_BYTES;
        int descriptor, status;
        for (uint64_t k = random_below(&random, 4); k < 4; k++)
            ((uint8_t *)&run)[random_below(&random, sizeof run)] =
                (uint8_t)random_below(&random, 256);
        if (random_below(&random, 8) == 0)
            said_bytes ^= UINT32_C(1) << random_below(&random, 32);
        send_run(&run, CHANNEL_VERSION, said_bytes, a_probe, PROBE_BYTES, -1);
        channel_send(front.socket, &message, -1); /* it may have ended by now */
        do {
            struct pollfd poll_in = {.fd = front.socket, .events = POLLIN};
            if (!channel_inbox_holds(&front.inbox))
                assert_int_equal(poll(&poll_in, 1, PATIENCE_MS), 1);
            status = channel_receive(front.socket, &front.inbox, &message, &descriptor);
        } while (status == CHANNEL_OK && message.type != CHANNEL_PONG);
        if (status == CHANNEL_OK)
            continue;
        assert_int_equal(status, CHANNEL_CLOSED);
        assert_int_equal(ended(), BROKEN_FRONT);
        close(front.socket);
        setup(NULL);
    }
    assert_int_equal(close_and_wait(), 0);
}

TEST(test_a_job_that_is_none_is_refused, setup, teardown)
{
    struct job job = diffusion(32, 32, 1);
    const uint64_t in = allocate(job_bytes(&job)), out = allocate(job_bytes(&job));
    job.accuracy = 5;
    finished(run(&job, in, out, 0, false), STATUS_INVALID_ARGUMENT);
    memset(&job, 0xff, sizeof job);
    job.more.block_bytes = 0;
    const uint64_t id = run(&job, in, out, 0, false);
    const struct channel_message message = answer_of(CHANNEL_FINISHED);
    assert_int_equal(message.u.job.id, id);
    assert_int_not_equal(message.status, STATUS_OK);
    ping();
}

TEST(test_no_memory, setup, teardown)
{
    const uint64_t large = allocate(UINT64_C(1) << 60), small = allocate(4096);
    const struct channel_message failed = answer_of(CHANNEL_FAILED);
    assert_int_equal(failed.u.allocate.array, large);
    order_copy(CHANNEL_UPLOAD, large, UINT64_C(1) << 59, 0, 4096, 9);
    assert_int_equal(answer_of(CHANNEL_COPIED).u.copy.tag, 9);
    /* The slab may still hold what another user sent. */
    memset(front.arena, 0x77, 3 * 4096);
    order_copy(CHANNEL_DOWNLOAD, large, 0, 4096, 4096, 10);
    assert_int_equal(answer_of(CHANNEL_COPIED).u.copy.tag, 10);
    for (int i = 0; i < 3 * 4096; i++)
        assert_int_equal(front.arena[i], i / 4096 == 1 ? 0 : 0x77);
    struct job job;
    job_init(&job);
    job.n[AXIS_X] = UINT64_C(1) << 48;
    const uint64_t in = allocate(job_bytes(&job)), out = allocate(job_bytes(&job));
    assert_int_equal(answer_of(CHANNEL_FAILED).u.allocate.array, in);
    assert_int_equal(answer_of(CHANNEL_FAILED).u.allocate.array, out);
    finished(run(&job, in, out, 0, false), STATUS_OUT_OF_MEMORY);
    release(in);
    release(out);
    release(large);
    release(small);
    ping();
}

/* Limit the growth of the worker's address space. */
static void let_grow(uint64_t bytes)
{
    char path[64];
    unsigned long long pages;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)front.pid);
    FILE *statm = fopen(path, "r");
    assert_non_null(statm);
    assert_int_equal(fscanf(statm, "%llu", &pages), 1);
    fclose(statm);
    const struct rlimit limit = {
        bytes == RLIM_INFINITY ? bytes : pages * (uint64_t)sysconf(_SC_PAGESIZE) + bytes,
        RLIM_INFINITY};
    assert_int_equal(prlimit(front.pid, RLIMIT_AS, &limit, NULL), 0);
}

/* An array for which there was no memory; 0: there was some all the same. */
static uint64_t allocate_without_memory(uint64_t bytes)
{
    const struct channel_message is_there = {.type = CHANNEL_PING};
    let_grow(bytes / 2);
    const uint64_t array = allocate(bytes);
    order(&is_there);
    const bool failed = answer().type == CHANNEL_FAILED;
    let_grow(RLIM_INFINITY);
    if (failed)
        answer_of(CHANNEL_PONG);
    else
        release(array);
    return failed ? array : 0;
}

/* Its input and output exist before memory is short, and one more array does not. */
TEST(test_no_memory_for_one_array_of_a_job, setup, teardown)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their allocators end the worker where the address space is limited */
#endif
    struct job job = diffusion(4096, 4096, 2);
    const uint64_t bytes = job_bytes(&job);
    const uint64_t in = allocate(bytes), out = allocate(bytes), scratch = allocate(bytes);
    ping();
    const uint64_t none = allocate_without_memory(bytes);
    if (!none)
        skip();
    finished(run(&job, in, out, none, false), STATUS_OUT_OF_MEMORY);
    job.more.source = 1;
    front.next.operand[OPERAND_SOURCE] = none;
    finished(run(&job, in, out, scratch, false), STATUS_OUT_OF_MEMORY);
    release(none);
    release(in);
    release(out);
    release(scratch);
    ping();
}

TEST(test_signals_are_for_the_front, setup, teardown)
{
    kill(front.pid, SIGTERM);
    kill(front.pid, SIGINT);
    ping();
}

/* --- ends --- */

TEST(test_closing_ends_it)
{
    setup(NULL);
    assert_int_equal(close_and_wait(), 0);
    start(device_name()); /* before it has its arena */
    assert_int_equal(close_and_wait(), 0);
    setup(NULL); /* with work under way */
    static float values[512 * 512];
    const struct job job = diffusion(512, 512, UINT64_C(1) << 40);
    const uint64_t field = field_of(&job, values);
    run(&job, field, field, allocate(sizeof values), false);
    ping();
    assert_int_equal(close_and_wait(), 0);
}

TEST(test_no_such_device)
{
    start("cuda:1000");
    order_arena();
    const struct channel_message refused = answer_of(CHANNEL_REFUSED);
    assert_true(memchr(refused.u.refused.text, '\0', sizeof refused.u.refused.text));
    assert_true(refused.u.refused.text[0]);
    assert_int_equal(ended(), 1);
    close(front.socket);
}

/* Each breaks one rule of channel.h, the i-th of its cases. */
static void break_orders(int i)
{
    const struct channel_message message = {.type = i == 1 ? CHANNEL_READY : CHANNEL_PING};
    switch (i) {
    case 0:
        assert_int_equal(send(front.socket, "?", 1, 0), 1);
        break;
    case 1: /* a type that is no order */
        order(&message);
        break;
    case 2: /* a second arena */
        order_arena();
        break;
    case 3: /* a descriptor that nobody asked for */
        order_with(&message, front.memfd);
        break;
    case 4: /* an unknown array */
        release(12345);
        break;
    case 5: /* an unknown region */
        order_unregion(12345);
        break;
    case 6: /* no bytes */
        allocate(0);
        break;
    default: /* the same array again */
        allocate(16);
        front.next_id--;
        allocate(16);
    }
}

static void break_measures(int i)
{
    static const struct {
        uint64_t array, other, result, points; /* bytes; 0: none. result 0: the array */
        enum dtype dtype;
    } cases[] = {{4096, 0, 32, 1, DTYPE_F32},
                 {4, 8, 32, 1, DTYPE_F32},
                 {4, 0, 64, 1, DTYPE_F32},
                 {32, 0, 0, 4, DTYPE_F64},
                 {4, 0, 32, 0, DTYPE_F32}};
    const uint64_t array = allocate(cases[i].array);
    assert_int_equal(measure_bytes(1), 32);
    order_measure(array, cases[i].other ? allocate(cases[i].other) : 0,
                  cases[i].result ? allocate(cases[i].result) : array, cases[i].points,
                  cases[i].dtype);
}

/* Past the end of the array or of the arena, or of all numbers. */
static void break_copies(int i)
{
    static const struct {
        enum channel_type type;
        uint64_t offset, arena_offset, bytes;
    } cases[] = {{CHANNEL_UPLOAD, 1, 0, 4096},
                 {CHANNEL_DOWNLOAD, UINT64_MAX - 15, 0, 32},
                 {CHANNEL_UPLOAD, 0, ARENA_BYTES - 4095, 4096},
                 {CHANNEL_UPLOAD, 0, UINT64_MAX - 15, 32}};
    order_copy(cases[i].type, allocate(4096), cases[i].offset, cases[i].arena_offset,
               cases[i].bytes, 1);
}

static uint64_t allocate_some(uint64_t bytes)
{
    return bytes ? allocate(bytes) : 0;
}

/* Arrays of another size than the job's 4096 bytes, or missing ones. */
static void break_runs(int i)
{
    static const struct {
        uint64_t steps, in, out, scratch; /* bytes; 0: none */
    } cases[] = {{1, 4096, 4095, 0}, {1, 4097, 4096, 0}, {2, 4096, 4096, 4095},
                 {1, 0, 4096, 0},    {1, 4096, 0, 0},    {2, 4096, 4096, 0}};
    const struct job job = diffusion(32, 32, cases[i].steps);
    const uint64_t in = allocate_some(cases[i].in), out = allocate_some(cases[i].out);
    run(&job, in, out, allocate_some(cases[i].scratch), false);
}

static void break_run_twice(int i)
{
    const struct job job = diffusion(32, 32, UINT64_C(1) << 40);
    const uint64_t in = allocate(4096), out = allocate(4096), scratch = allocate(4096);
    run(&job, in, out, scratch, false);
    front.next_id--;
    run(&job, in, out, scratch, false);
}

static void break_run_in_place_without_scratch(int i)
{
    const struct job job = diffusion(32, 32, 1);
    const uint64_t array = allocate(4096);
    run(&job, array, array, array, false);
}

static struct job vector_job(enum operator_id id)
{
    struct job job = diffusion(32, 32, 1);
    job.operator_id = (uint8_t)id;
    job.order = 1;
    job.dt = job.diffusivity[AXIS_X] = job.diffusivity[AXIS_Y] = 0;
    return job;
}
/* Too few or too many arrays, or the same one twice. Arrays by number from 1 on; 0: none. */
static void break_components(int i)
{
    static const struct {
        enum operator_id id;
        int in[AXIS_COUNT], out[AXIS_COUNT], scratch[AXIS_COUNT];
    } cases[] = {{OPERATOR_GRADIENT, {1}, {2}, {0}},    {OPERATOR_DIFFUSION, {1}, {2}, {3, 4}},
                 {OPERATOR_DIVERGENCE, {1}, {2}, {0}},  {OPERATOR_CURL, {1, 1}, {2, 3}, {0}},
                 {OPERATOR_GRADIENT, {1}, {2, 2}, {0}}, {OPERATOR_GRADIENT, {1}, {2, 1}, {0}}};
    const bool is_vector = cases[i].id != OPERATOR_DIFFUSION;
    const struct job job = is_vector ? vector_job(cases[i].id) : diffusion(32, 32, 2);
    uint64_t ids[5] = {0}, arrays[3][AXIS_COUNT];
    for (int k = 1; k < 5; k++)
        ids[k] = allocate(4096);
    for (int c = 0; c < AXIS_COUNT; c++) {
        arrays[0][c] = ids[cases[i].in[c]];
        arrays[1][c] = ids[cases[i].out[c]];
        arrays[2][c] = ids[cases[i].scratch[c]];
    }
    run_components(&job, arrays[0], arrays[1], arrays[2]);
}

/* A source that is missing, of another size, and of a job that has none. */
static void break_operands(int i)
{
    struct job job = diffusion(32, 32, 1);
    const uint64_t in = allocate(4096), out = allocate(4096);
    job.more.source = i < 2;
    front.next.operand[OPERAND_SOURCE] = i == 0 ? 0 : allocate(i == 1 ? 4092 : 4096);
    run(&job, in, out, 0, false);
}

static void break_probe_outside(int i)
{
    struct job job = diffusion(32, 32, 1);
    const int64_t probe[AXIS_COUNT + 1] = {0, 32, 0, 0};
    const uint64_t in = allocate(4096), out = allocate(4096);
    job.more.probes = 1;
    job.more.block_bytes = sizeof probe;
    front.next.operand[OPERAND_PROBES] = allocate(2 * job_element_bytes(&job));
    front.block = probe;
    run(&job, in, out, 0, false);
}

/* Of another version, or of other lengths: what the record says, what follows it, and what its job
 * has, each beside a probe's. */
static void break_records(int i)
{
    enum { LONG = CHANNEL_PACKET_BYTES };
    static const struct {
        int version, said, behind, block;
    } cases[] = {{0, -8 - PROBE_BYTES, -PROBE_BYTES, 0},
                 {0, 0, -8, 0},
                 {0, 0, 8, 0},
                 {1, 0, 0, 0},
                 {0, LONG - PROBE_BYTES, LONG - PROBE_BYTES, 0},
                 {0, -PROBE_BYTES, -PROBE_BYTES, 0},
                 {0, 8, 8, 0},
                 {0, 8, 8, 8}};
    static uint8_t behind[LONG];
    struct channel_run run = run_with_probe();
    memcpy(behind, a_probe, sizeof a_probe);
    run.job.more.block_bytes += (uint64_t)cases[i].block;
    send_run(&run, (uint16_t)(CHANNEL_VERSION + cases[i].version),
             (uint32_t)(CHANNEL_RUN_BYTES + PROBE_BYTES + cases[i].said), behind,
             (uint64_t)(PROBE_BYTES + cases[i].behind), -1);
}

/* That may be written or shrink, of other sizes, and beside a block. */
static void break_memfds(int i)
{
    static const struct {
        uint64_t bytes;
        unsigned seals;
        uint64_t behind;
    } cases[] = {{PROBE_BYTES, F_SEAL_SHRINK | F_SEAL_GROW, 0},
                 {PROBE_BYTES, F_SEAL_GROW | F_SEAL_WRITE, 0},
                 {PROBE_BYTES - 8, ALL_SEALS, 0},
                 {PROBE_BYTES + 8, ALL_SEALS, 0},
                 {PROBE_BYTES, ALL_SEALS, PROBE_BYTES}};
    run_with_memfd(cases[i].bytes, cases[i].seals, cases[i].behind);
}

static void break_memfd_that_is_none(int i)
{
    const struct channel_run run = run_with_probe();
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    send_run(&run, CHANNEL_VERSION, CHANNEL_RUN_BYTES, NULL, 0, pipes[0]);
    close(pipes[0]);
    close(pipes[1]);
}
static void break_memfd_without_a_block(int i)
{
    const struct job job = diffusion(32, 32, 1);
    struct channel_run run = run_with_probe();
    run.job = job;
    run.operand[OPERAND_PROBES] = 0;
    const int memfd = memfd_create("block", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(fcntl(memfd, F_ADD_SEALS, ALL_SEALS), 0);
    send_run(&run, CHANNEL_VERSION, CHANNEL_RUN_BYTES, NULL, 0, memfd);
    close(memfd);
}

static void break_chain_of_two_owners(int i)
{
    const struct job job = diffusion(32, 32, UINT64_C(1) << 40);
    front.chain = 3;
    for (uint64_t owner = 1; owner <= 2; owner++) {
        const uint64_t array = allocate_for(owner, 4096);
        run(&job, array, array, allocate_for(owner, 4096), false);
    }
    front.chain = 0;
}

/* A release, an upload and a download of a job's array; an upload of what it only reads. */
static void break_arrays_in_use(int i)
{
    const struct job job = diffusion(32, 32, UINT64_C(1) << 40);
    const uint64_t array = allocate(4096);
    run(&job, array, i == 3 ? allocate(4096) : array, allocate(4096), false);
    if (i == 0)
        release(array);
    else
        order_copy(i == 2 ? CHANNEL_DOWNLOAD : CHANNEL_UPLOAD, array, 0, 0, 4096, 1);
}

static void break_release_in_copies(int i)
{
    const uint64_t array = allocate(4096);
    begin_packet();
    order_copy(i == 0 ? CHANNEL_UPLOAD : CHANNEL_DOWNLOAD, array, 0, 0, 4096, 1);
    release(array);
    send_packet();
}

/* These two in one packet each, so that the first copy has not been told of in between. */
static void break_upload_beside_one_from_a_region(int i)
{
    const struct client_region region = make_region(4096, false);
    struct channel_message message = {.type = CHANNEL_UPLOAD};
    message.u.copy.array = allocate(4096);
    message.u.copy.region = region.id;
    message.u.copy.bytes = 4096;
    begin_packet();
    order(&message);
    order_copy(CHANNEL_UPLOAD, message.u.copy.array, 0, 0, 4096, 1);
    send_packet();
}
static void break_download_of_upload(int i)
{
    struct channel_message messages[] = {{.type = CHANNEL_UPLOAD}, {.type = CHANNEL_DOWNLOAD}};
    const uint64_t array = allocate(4096);
    for (int i = 0; i < 2; i++) {
        messages[i].u.copy.array = array;
        messages[i].u.copy.bytes = 4096;
        messages[i].u.copy.arena_offset = (uint64_t)i * 4096;
        messages[i].u.copy.tag = (uint64_t)i;
    }
    assert_int_equal(send(front.socket, messages, sizeof messages, 0), sizeof messages);
}

/* Without a memfd, of another size, with a seal too few, and one that is there. */
static void break_regions(int i)
{
    enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW };
    if (i == 3)
        front.next_id = make_region(4096, true).id;
    order_region(i == 1 ? 8192 : 4096, true,
                 i == 0 ? -1 : sealed_memfd(4096, i == 2 ? F_SEAL_SHRINK : SEALS));
}

/* A job of 32² float32 points from one place to another. */
static void run_in_region(struct place in, struct place out)
{
    const struct job job = diffusion(32, 32, 1);
    const uint64_t from = in.region && front.direct ? 0 : allocate(4096);
    const uint64_t to = out.region && front.direct ? 0 : allocate(4096);
    set_places((struct place[AXIS_COUNT]){in}, (struct place[AXIS_COUNT]){out});
    run(&job, from, to, 0, false);
}
/* Past the region's end or that of all numbers, at an odd place, of a region that is read only, and
 * of one that is unknown. */
static void break_places(int i)
{
    const struct client_region region = make_region(16384, i != 3);
    const struct place begin = {region.id, 0}, none = {0};
    const struct place cases[][2] = {{begin, {region.id, 16384 - 4080}},
                                     {{region.id, UINT64_MAX - 15}, none},
                                     {{region.id, 8}, none},
                                     {none, begin},
                                     {{77, 0}, none}};
    run_in_region(cases[i][0], cases[i][1]);
}

static void break_place_scratch(int i)
{
    const struct client_region region = make_region(16384, true);
    const struct job job = diffusion(32, 32, 2);
    const uint64_t in = allocate(4096);
    set_places((struct place[AXIS_COUNT]){{0}}, (struct place[AXIS_COUNT]){{region.id, 0}});
    run(&job, in, 0, in, false);
}
static void break_places_too_many(int i)
{
    const struct client_region region = make_region(16384, true);
    const struct job job = diffusion(32, 32, 1);
    const struct place places[AXIS_COUNT] = {{0}, {region.id, 0}};
    const uint64_t in = allocate(4096), out = allocate(4096);
    set_places(places, (struct place[AXIS_COUNT]){{0}});
    run(&job, in, out, 0, false);
}
static void break_unregion_in_use(int i)
{
    const struct client_region region = make_region(4096, true);
    const struct job job = diffusion(32, 32, UINT64_C(1) << 40);
    const uint64_t in = allocate(4096), scratch = allocate(4096);
    const uint64_t out = front.direct ? 0 : allocate(4096);
    set_places((struct place[AXIS_COUNT]){{0}}, (struct place[AXIS_COUNT]){{region.id, 0}});
    run(&job, in, out, scratch, false);
    order_unregion(region.id);
}

TEST(test_a_broken_front)
{
    static const struct {
        void (*breaks)(int i);
        int cases;
    } rules[] = {{break_orders, 8},
                 {break_measures, 5},
                 {break_copies, 4},
                 {break_runs, 6},
                 {break_run_twice, 1},
                 {break_run_in_place_without_scratch, 1},
                 {break_components, 6},
                 {break_operands, 3},
                 {break_records, 8},
                 {break_memfds, 5},
                 {break_memfd_that_is_none, 1},
                 {break_memfd_without_a_block, 1},
                 {break_probe_outside, 1},
                 {break_chain_of_two_owners, 1},
                 {break_arrays_in_use, 4},
                 {break_release_in_copies, 2},
                 {break_upload_beside_one_from_a_region, 1},
                 {break_download_of_upload, 1},
                 {break_regions, 4},
                 {break_places, 5},
                 {break_place_scratch, 1},
                 {break_places_too_many, 1},
                 {break_unregion_in_use, 1}};
    for (size_t rule = 0; rule < sizeof rules / sizeof *rules; rule++)
        for (int i = 0; i < rules[rule].cases; i++) {
            setup(NULL);
            rules[rule].breaks(i);
            assert_int_equal(ended(), BROKEN_FRONT);
            close(front.socket);
        }
    start(device_name());
    allocate(16); /* before the arena */
    assert_int_equal(ended(), BROKEN_FRONT);
    close(front.socket);
}

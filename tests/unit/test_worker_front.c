/* The worker's trust: records, blocks, memory, its end, and a front that breaks the rules. */
#include "tests/unit/worker.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

/* A packet of one RUN record, or what pretends to be one, with `behind` bytes after its struct and
 * a descriptor where descriptor ≥ 0. */
static void send_run(const struct channel_run *run, uint16_t version, uint32_t said_bytes,
                     const void *behind, size_t behind_bytes, int descriptor)
{
    struct channel_message message = {
        .bytes = said_bytes, .version = version, .type = CHANNEL_RUN, .u.run = *run};
    struct iovec pieces[] = {{&message, CHANNEL_RUN_BYTES},
                             {(void *)(uintptr_t)behind, behind_bytes}};
    assert_int_equal(rights_send(front.socket, pieces, 2, descriptor),
                     CHANNEL_RUN_BYTES + behind_bytes);
}

/* A valid RUN, of a job with one probe. */
static struct channel_run run_with_probe(void)
{
    struct channel_run run = {.id = front.next_id++, .job = diffusion(32, 32, 1)};
    run.job.more.probes = 1;
    run.job.more.block_bytes = sizeof(int64_t[AXIS_COUNT + 1]);
    run.in[0] = allocate(4096);
    run.out[0] = allocate(4096);
    run.operand[OPERAND_PROBES] = allocate(2 * dtype_element_bytes(run.job.dtype));
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
    static double block[20000], values[20000], result[20000];
    static const uint64_t counts[] = {50, 4000, 4100, 20000};
    for (int i = 0; i < 20000; i++)
        block[i] = i + 0.1 * (i % 7);
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        struct job job;
        void *expected[AXIS_COUNT];
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
        expect(&job, block, (void *[AXIS_COUNT]){values}, expected);
        const uint64_t in = allocate(job_bytes(&job)), out = allocate(job_bytes(&job));
        upload(in, values, job_bytes(&job));
        front.block = block;
        finished(run(&job, in, out, 0, false), STATUS_OK);
        download(out, result, job_bytes(&job));
        assert_memory_equal(result, expected[0], job_bytes(&job));
        arrays_free(expected);
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

static void order_kernel(uint64_t slot, uint64_t bytes, int memfd)
{
    const struct channel_message message = {.type = CHANNEL_KERNEL,
                                            .u.kernel = {.slot = slot, .bytes = bytes}};
    order_with(&message, memfd);
    close(memfd);
}

/* What the front may send a worker whose device has no use for it. */
TEST(test_a_kernel_for_the_host, setup, teardown)
{
    static const uint8_t image[3 * 4096];
    if (strncmp(device_name(), "host", 4) != 0)
        skip();
    order_kernel(0, sizeof image, channel_sealed(image, sizeof image));
    order_kernel(DEVICE_KERNELS - 1, sizeof image, channel_sealed(image, sizeof image));
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

/* A slot or a size that there is none of, and less than that in the memfd. */
static void break_kernels(int i)
{
    static const uint8_t image[4096];
    static const uint64_t slots[] = {DEVICE_KERNELS, 0, 0, 0};
    static const uint64_t bytes[] = {4096, 0, CHANNEL_KERNEL_BYTES + 1, 4097};
    order_kernel(slots[i], bytes[i], channel_sealed(image, sizeof image));
}

static void break_measures(int i)
{
    static const struct {
        uint64_t array, other, result; /* bytes; 0: none. result 0: the array */
        uint64_t ahead, points;        /* ahead: bytes, as many as behind */
        enum dtype dtype;
    } cases[] = {{4096, 0, 32, 0, 1, DTYPE_F32}, {4, 8, 32, 0, 1, DTYPE_F32},
                 {4, 0, 16, 0, 1, DTYPE_F32},    {32, 0, 0, 0, 4, DTYPE_F64},
                 {96, 32, 0, 0, 2, DTYPE_F64},   {12, 0, 32, 2, 2, DTYPE_F32},
                 {4, 0, 32, 0, 0, DTYPE_F32}};
    const uint64_t array = allocate(cases[i].array);
    assert_int_equal(measure_bytes(1), 32);
    order_measure_part(array, cases[i].other ? allocate(cases[i].other) : 0,
                       cases[i].result ? allocate(cases[i].result) : array, cases[i].ahead,
                       cases[i].points, cases[i].ahead, cases[i].dtype);
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

/* Jobs on parts of their arrays: past the end, at an odd byte, with too many bytes behind, with a
 * sum that overflows, and with a place. */
static void break_parts(int i)
{
    static const struct {
        uint64_t ahead, behind;
    } cases[] = {{8192, 0}, {8, 4088}, {16, 4096}, {UINT64_MAX - 4095, 4096}, {4096, 0}};
    const struct job job = diffusion(32, 32, 1);
    const uint64_t in = allocate(8192), out = allocate(8192);
    front.next.ahead = cases[i].ahead;
    front.next.behind = cases[i].behind;
    if (i == 4) {
        const struct client_region region = make_region(16384, true);
        set_place((struct place){region.id, 0}, nowhere);
        run(&job, front.direct ? 0 : in, out, 0, false);
    } else {
        run(&job, in, out, 0, false);
    }
}

/* Own planes that the job does not have, edges that overlap, and arrays beside two. */
static void break_own_planes(int i)
{
    static const struct own_planes cases[] = {
        {4, 33, {0, 0}},          {8, 8, {0, 0}},  {0, 32, {17, 16}}, {0, 32, {UINT64_MAX, 2}},
        {UINT64_MAX, 32, {0, 0}}, {0, 32, {4, 4}}, {0, 32, {4, 4}}};
    struct job job = diffusion_of(DTYPE_F32, 8, 8, 32, 2, 1);
    job.dt = 0.1;
    const uint64_t in = allocate(8192), out = i == 5 ? in : allocate(8192);
    front.next.own = cases[i];
    run(&job, in, out, i == 6 ? allocate(8192) : 0, false);
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

/* Of a part of its arrays: an array over a face without the planes before the job's, or all of the
 * job's, or with a part of a plane behind. */
static void break_faces(int i)
{
    enum { ROW = 32 * sizeof(float), NUMBERS = 4 + 32 + 4 };
    static const uint64_t bytes[] = {32 * sizeof(float), 35 * sizeof(float),
                                     36 * sizeof(float) + 2};
    struct job job = diffusion(32, 32, 1);
    const uint64_t in = allocate(ROW * NUMBERS), out = allocate(ROW * NUMBERS);
    job.boundary[AXIS_X][SIDE_LOW] =
        (struct boundary){.kind = BOUNDARY_VALUE, .value_array = NUMBER_FACE};
    job.boundary[AXIS_X][SIDE_HIGH] = (struct boundary){.kind = BOUNDARY_SYMMETRIC};
    front.next.operand[OPERAND_VALUE] = allocate(bytes[i]);
    front.next.ahead = front.next.behind = 4 * ROW;
    run(&job, in, out, 0, false);
}

static void break_probe_outside(int i)
{
    struct job job = diffusion(32, 32, 1);
    const int64_t probe[AXIS_COUNT + 1] = {0, 32, 0, 0};
    const uint64_t in = allocate(4096), out = allocate(4096);
    job.more.probes = 1;
    job.more.block_bytes = sizeof probe;
    front.next.operand[OPERAND_PROBES] = allocate(2 * dtype_element_bytes(job.dtype));
    front.block = probe;
    run(&job, in, out, 0, false);
}

/* Values that do not follow whole ones, or reach past the array's end. */
static void break_probed(int i)
{
    static const uint64_t probed[] = {2, 4, UINT64_MAX - 3};
    struct job job = diffusion(32, 32, 1);
    const int64_t probe[AXIS_COUNT + 1] = {0};
    const uint64_t in = allocate(4096), out = allocate(4096);
    job.more.probes = 1;
    job.more.block_bytes = sizeof probe;
    front.next.operand[OPERAND_PROBES] = allocate(i == 0 ? 12 : 8);
    front.next.probed = probed[i];
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
    set_place(in, out);
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
    set_place(nowhere, (struct place){region.id, 0});
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
    set_place(nowhere, (struct place){region.id, 0});
    run(&job, in, out, scratch, false);
    order_unregion(region.id);
}

TEST(test_a_broken_front)
{
    static const struct {
        void (*breaks)(int i);
        int cases;
    } rules[] = {{break_orders, 8},
                 {break_kernels, 4},
                 {break_measures, 7},
                 {break_copies, 4},
                 {break_runs, 6},
                 {break_parts, 5},
                 {break_own_planes, 7},
                 {break_run_twice, 1},
                 {break_run_in_place_without_scratch, 1},
                 {break_components, 6},
                 {break_operands, 3},
                 {break_faces, 3},
                 {break_probed, 3},
                 {break_records, 8},
                 {break_memfds, 5},
                 {break_memfd_that_is_none, 1},
                 {break_memfd_without_a_block, 1},
                 {break_probe_outside, 1},
                 {break_chain_of_two_owners, 1},
                 {break_arrays_in_use, 4},
                 {break_release_in_copies, 2},
                 {break_upload_beside_one_from_a_region, 1},
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

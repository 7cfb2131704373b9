/* Runs that are copied from and to clients' memory: the results of many jobs in flight together, on
 * the host backend; and the order of chunks, on a device that only records. */
#include "gpu/worker/pipeline.h"
#include "base/thread_pool.h"
#include "base/wake.h"
#include "tests/lib/job_of.h"
#include "tests/lib/random_job.h"
#include "tests/unit/unit.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { MOST_IN_FLIGHT = PIPELINE_CHUNKS * PIPELINE_CHUNK_BYTES };

static struct pipeline pipeline;
static struct region region; /* of no importance here but that there is one */

/* A job whose inputs and outputs have places or not. */
struct client {
    struct job job;
    struct plan plan;
    struct execution run;
    struct holding holdings[3 * AXIS_COUNT];
    void *in[AXIS_COUNT], *out[AXIS_COUNT]; /* its own memory, or what the arrays hold */
};

static void launch_piece(void *unused, struct execution *run)
{
    (void)unused;
    struct launch launch;
    if (slices_next(&run->slices, &launch))
        pipeline.backend->launch(&launch, (struct token){.of = run, .kind = TOKEN_SLICE});
}

static struct holding *hold(struct client *client, int i, uint64_t bytes)
{
    client->holdings[i].memory.bytes = bytes;
    client->holdings[i].memory.at = pipeline.backend->allocate(bytes, 0);
    assert_non_null(client->holdings[i].memory.at);
    return &client->holdings[i];
}

static void client_init(struct client *client, struct random *random, const struct job *job)
{
    const uint64_t bytes = job_bytes(job);
    struct execution *run = &client->run;
    memset(client, 0, sizeof *client);
    client->job = *job;
    plan_make(&client->plan, job);
    run->plan = &client->plan;
    arrays_make(client->in, run->plan->inputs, bytes, 0);
    arrays_make(client->out, run->plan->outputs, bytes, 0x5a);
    while (!run->in_pipeline) {
        for (int i = 0; i < run->plan->inputs; i++)
            run->from[i].region = random_below(random, 3) ? &region : NULL;
        for (int i = 0; i < run->plan->outputs; i++)
            run->to[i].region = random_below(random, 3) ? &region : NULL;
        for (int i = 0; i < AXIS_COUNT; i++)
            run->in_pipeline |= run->from[i].region || run->to[i].region;
    }
    for (int i = 0; i < run->plan->inputs; i++) {
        random_field(random, job, client->in[i]);
        run->in[i] = hold(client, i, bytes);
        run->from[i].memory = client->in[i];
        if (!run->from[i].region)
            memcpy(run->in[i]->memory.at, client->in[i], bytes);
    }
    for (int i = 0; i < run->plan->outputs; i++) {
        run->out[i] = hold(client, AXIS_COUNT + i, bytes);
        run->to[i].memory = client->out[i];
        if (job_scratch(job, false, false))
            run->scratch[i] = hold(client, 2 * AXIS_COUNT + i, bytes);
    }
    const struct buffers buffers = execution_buffers(run);
    slices_begin(&run->slices, run->plan, true, 0, &buffers);
}

static void client_end(struct client *client)
{
    const uint64_t bytes = job_bytes(&client->job);
    void *expected[AXIS_COUNT];
    arrays_make(expected, client->plan.outputs, bytes, 0);
    reference_run(&client->plan, client->in, expected);
    for (int i = 0; i < client->plan.outputs; i++) {
        const void *result = client->run.to[i].region
                                 ? client->out[i]
                                 : launch_result(&client->run.slices.launch, i);
        if (memcmp(result, expected[i], bytes) != 0) {
            random_job_print(&client->job);
            fail_msg("component %d differs", i);
        }
    }
    for (size_t i = 0; i < sizeof client->holdings / sizeof client->holdings[0]; i++)
        if (client->holdings[i].memory.at)
            pipeline.backend->release(client->holdings[i].memory.at, bytes, 0);
    arrays_free(expected);
    arrays_free(client->in);
    arrays_free(client->out);
}

TEST(test_many_jobs_together)
{
    enum { ROUNDS = 12, TOGETHER = 16 };
    static struct client clients[TOGETHER];
    struct random random = random_start();
    struct device_info info;
    struct failure failure = {0};
    const struct backend *backend = backend_host();
    assert_true(thread_pool_open(0, &failure));
    struct pollfd wake = {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .events = POLLIN};
    assert_true(backend->open(0, NULL, 0, wake.fd, &info, &failure));
    pipeline_init(&pipeline, backend, launch_piece, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        int left = TOGETHER;
        for (int i = 0; i < TOGETHER; i++) {
            struct job job;
            random_job(&random, i == 0 ? 1500000 : i % 4 ? 3000 : 30000, &job);
            client_init(&clients[i], &random, &job);
            pipeline_add(&pipeline, &clients[i].run);
        }
        while (left) {
            struct completion completion;
            pipeline_pump(&pipeline);
            assert_true(pipeline.bytes[WAY_IN] <= MOST_IN_FLIGHT);
            assert_true(pipeline.bytes[WAY_OUT] <= MOST_IN_FLIGHT);
            poll(&wake, 1, -1);
            wake_take(wake.fd);
            while (backend->reap(&completion)) {
                struct execution *run = completion.token.of;
                if (completion.token.kind != TOKEN_SLICE) {
                    pipeline_complete(&pipeline, &completion);
                } else {
                    slices_completed(&run->slices, completion.device_us);
                    if (run->slices.done == run->slices.total)
                        pipeline_passes_completed(&pipeline, run);
                    else
                        launch_piece(NULL, run);
                }
                if (transfer_is_done(&run->transfer))
                    left--;
            }
        }
        assert_int_equal(pipeline.under_way, 0);
        for (int i = 0; i < TOGETHER; i++)
            client_end(&clients[i]);
    }
    backend->close();
    thread_pool_close();
    close(wake.fd);
}

/* --- a device that takes note --- */

static struct {
    uint64_t uploads, downloads, launches;
    uint64_t waiting;         /* launches that have not begun */
    struct token tokens[64];  /* of uploads under way, oldest first */
    struct token others[512]; /* of all else, which ends late */
    int count, other_count;
} noted;

static void note_upload(void *device, const void *from, size_t bytes, struct token token)
{
    (void)device;
    (void)from;
    (void)bytes;
    noted.uploads++;
    noted.tokens[noted.count++] = token;
}
static void note_download(void *to, const void *device, size_t bytes, const void *after,
                          struct token token)
{
    (void)to;
    (void)device;
    (void)bytes;
    assert_non_null(after);
    noted.downloads++;
    noted.others[noted.other_count++] = token;
}
static const void *note_launch(const struct launch *launch, struct token token)
{
    (void)launch;
    noted.waiting++;
    noted.others[noted.other_count++] = token;
    return &noted.others[noted.launches++];
}

static void note_begin(void)
{
    noted.waiting = 0;
}

static const struct backend taking_note = {
    .upload = note_upload, .download = note_download, .launch = note_launch, .begin = note_begin};

static const struct execution *complete(struct token token)
{
    return pipeline_complete(&pipeline, &(struct completion){.token = token});
}

static struct execution *plain_run(struct execution *run, struct plan *plan,
                                   struct holding *holding, uint64_t n)
{
    const struct job job = job_of(OPERATOR_DERIVATIVE, DTYPE_F32, n, n, n, 8);
    memset(run, 0, sizeof *run);
    plan_make(plan, &job);
    run->plan = plan;
    run->in[0] = run->out[0] = holding;
    run->from[0].region = run->to[0].region = &region;
    slices_begin(&run->slices, run->plan, false, 0, &(struct buffers){.out = {holding}});
    return run;
}

/* Behind large jobs a small one waits for the copies in flight and one more chunk, not for its turn
 * among them; and a sequence of small jobs does not deprive a large one of its turns. */
TEST(test_a_small_job_passes_large_ones)
{
    enum { SMALL = 20 };
    static struct execution large[3], small[SMALL];
    static struct plan plan_of_large, plan_of_small;
    static struct holding holding;
    memset(&noted, 0, sizeof noted);
    pipeline_init(&pipeline, &taking_note, NULL, NULL);
    for (int i = 0; i < 3; i++)
        pipeline_add(&pipeline, plain_run(&large[i], &plan_of_large, &holding, 256));
    pipeline_pump(&pipeline);
    const int begun = noted.count;
    assert_true(pipeline.bytes[WAY_IN] > (PIPELINE_CHUNKS - 1) * PIPELINE_CHUNK_BYTES);
    for (int i = 0; i < SMALL; i++)
        pipeline_add(&pipeline, plain_run(&small[i], &plan_of_small, &holding, 64));
    pipeline_pump(&pipeline);
    assert_int_equal(noted.count, begun);
    int of_small = 0, of_large = 0;
    while (of_small < SMALL) {
        const struct execution *run = complete(noted.tokens[0]);
        memmove(noted.tokens, noted.tokens + 1, sizeof noted.tokens - sizeof noted.tokens[0]);
        noted.count--;
        of_small += run->plan->points == small[0].plan->points;
        of_large += run->plan->points != small[0].plan->points;
        assert_true(of_small || of_large <= begun + 1);
        pipeline_pump(&pipeline);
        assert_true(pipeline.bytes[WAY_IN] <= MOST_IN_FLIGHT);
    }
    assert_true(of_large >= SMALL / 2);
    assert_true(noted.downloads >= 1 && noted.launches >= SMALL);
    for (int i = 0; i < 3; i++)
        pipeline_remove(&large[i]);
    for (int i = 0; i < SMALL; i++)
        pipeline_remove(&small[i]);
    for (int way = 0; way < WAYS; way++)
        for (int size = 0; size < PIPELINE_SIZES; size++)
            assert_true(list_empty(&pipeline.queues[way][size]));
    for (int i = 0; i < noted.count; i++)
        complete(noted.tokens[i]);
    for (int i = 0; i < noted.other_count; i++)
        complete(noted.others[i]);
    assert_int_equal(pipeline.under_way, 0);
}

/* Few large chunks or many small ones: neither their gaps nor the lag of a chunk take much time. */
TEST(test_larger_jobs_have_larger_chunks)
{
    assert_int_equal(pipeline_chunk_bytes(1), 1 << 20);
    assert_int_equal(pipeline_chunk_bytes(4 << 20), 1 << 20);
    assert_int_equal(pipeline_chunk_bytes(8 << 20), 2 << 20);
    assert_int_equal(pipeline_chunk_bytes(16 << 20), 2 << 20);
    assert_int_equal(pipeline_chunk_bytes(32 << 20), 4 << 20);
    assert_int_equal(pipeline_chunk_bytes(UINT64_MAX), PIPELINE_CHUNK_BYTES);
}

static void note_upload_after_launches(void *device, const void *from, size_t bytes,
                                       struct token token)
{
    assert_int_equal(noted.waiting, 0);
    note_upload(device, from, bytes, token);
}

/* For any number of chunks: otherwise a launch would also wait for the next chunk's upload. */
TEST(test_a_launch_does_not_wait_for_the_next_chunk)
{
    static struct execution run;
    static struct plan plan;
    static struct holding holding;
    struct backend backend = taking_note;
    backend.upload = note_upload_after_launches;
    memset(&noted, 0, sizeof noted);
    pipeline_init(&pipeline, &backend, NULL, NULL);
    pipeline_add(&pipeline, plain_run(&run, &plan, &holding, 100));
    while (pipeline_pump(&pipeline), noted.count || noted.other_count) {
        struct token token =
            noted.count ? noted.tokens[--noted.count] : noted.others[--noted.other_count];
        complete(token);
    }
    assert_true(transfer_is_done(&run.transfer));
    assert_true(noted.uploads > 2 && noted.launches > 2);
}

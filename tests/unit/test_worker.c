/* The worker's jobs: results in any arrangement of arrays, order, chains, measures. */
#include "tests/lib/measure_reference.h"
#include "tests/unit/worker.h"

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
            sample_check(&sample, c, arrangement);
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
            if (scratch[c] != in[c])
                release(scratch[c]);
        }
        sample_free(&sample);
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
                sample_check(&sample, c, k);
                release(out[k][c]);
                if (scratch[k][c] != in[c])
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

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { LONG_STEPS = 301 }; /* the expected result takes far longer than the job */
#else
enum { LONG_STEPS = 1501 };
#endif

/* Many slices give the same result as one, and the device time and the passes are reported. */
TEST(test_a_long_job_in_pieces, setup, teardown)
{
    static float values[300 * 301], result[300 * 301];
    const struct job job = diffusion(300, 301, LONG_STEPS);
    const uint64_t field = field_of(&job, values), scratch = allocate(sizeof values);
    const uint64_t id = run(&job, field, field, scratch, true);
    uint64_t done = 0;
    struct channel_message message;
    while ((message = answer()).type == CHANNEL_PROGRESS) {
        assert_int_equal(message.u.job.id, id);
        assert_true(message.u.job.done >= done && message.u.job.done < LONG_STEPS);
        done = message.u.job.done;
    }
    assert_int_equal(message.type, CHANNEL_FINISHED);
    assert_int_equal(message.status, STATUS_OK);
    assert_true(message.u.job.device_us > 0);
    download(field, result, sizeof result);
    assert_result(&job, values, result);
}

TEST(test_a_short_job_passes_a_long_one_which_is_cancelled, setup, teardown)
{
    static float values[512 * 512];
    const struct job longest = diffusion(512, 512, UINT64_C(1) << 40);
    const struct job shortest = diffusion(32, 32, 3);
    const uint64_t field = field_of(&longest, values), scratch = allocate(sizeof values);
    const uint64_t small = field_of(&shortest, values), small_out = allocate(32 * 32 * 4);
    const uint64_t long_one = run(&longest, field, field, scratch, false);
    finished(run(&shortest, small, small_out, small, false), STATUS_OK);
    ping();
    cancel(long_one);
    finished(long_one, STATUS_CANCELLED);
    cancel(long_one); /* has ended: nothing to say */
    ping();
    release(scratch);
    release(field);
    ping();
}

/* Runs on one field are taken in order, though all are sent at once; one that waits can be
 * cancelled. */
TEST(test_runs_on_one_field_wait_for_each_other, setup, teardown)
{
    static float values[100 * 100], result[100 * 100];
    const struct job steps7 = diffusion(100, 100, 7), steps28 = diffusion(100, 100, 28);
    const uint64_t field = field_of(&steps7, values), scratch = allocate(sizeof values);
    uint64_t ids[4];
    for (int i = 0; i < 4; i++)
        ids[i] = run(&steps7, field, field, scratch, false);
    for (int i = 0; i < 4; i++)
        finished(ids[i], STATUS_OK);
    download(field, result, sizeof result);
    assert_result(&steps28, values, result);

    const struct job longest = diffusion(100, 100, UINT64_C(1) << 40);
    const uint64_t first = run(&longest, field, field, scratch, false);
    const uint64_t second = run(&steps7, field, field, scratch, false);
    cancel(second);
    finished(second, STATUS_CANCELLED);
    cancel(first);
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
        void *result[AXIS_COUNT];
        front.ends_round = ends && k == LINKS - 1;
        run(&chain->job[k], chain->array[link[0]], chain->array[link[1]], chain->array[link[2]],
            false);
        expect(&chain->job[k], NULL, (void *[AXIS_COUNT]){chain->expected[link[0]]}, result);
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
    uint64_t ids[4];
    front.chain = 9;
    ids[0] = run(&shortest, field, field, scratch, false);
    ids[1] = run(&longest, field, field, scratch, false);
    ids[2] = run(&shortest, field, field, scratch, false);
    ids[3] = run(&shortest, field, out, 0, false);
    front.chain = 0;
    finished(ids[0], STATUS_OK);
    cancel(ids[2]);
    finished(ids[2], STATUS_CANCELLED);
    cancel(ids[1]);
    finished(ids[1], STATUS_CANCELLED);
    finished(ids[3], STATUS_OK);
    release(field);
    release(scratch);
    release(out);
    ping();
}

/* A part's values follow those of earlier steps, and the bytes before its points are not theirs. */
TEST(test_probes_of_a_part, setup, teardown)
{
    enum { AHEAD = 16, POINTS = 32 * 32, ROWS = 5, EARLIER = 2, PLACE = 37 };
    static float values[AHEAD + POINTS], result[AHEAD + POINTS];
    struct job job = diffusion(32, 32, 1);
    struct random random = random_start();
    const int64_t probe[AXIS_COUNT + 1] = {PLACE % 32, PLACE / 32};
    float rows[ROWS];
    job.more.probes = 1;
    job.more.block_bytes = sizeof probe;
    job_block_key(probe, sizeof probe, job.more.block_key);
    random_field(&random, &job, values + AHEAD);
    const uint64_t in = allocate(sizeof values), out = allocate(sizeof values),
                   probed = allocate(sizeof rows);
    upload(in, values, sizeof values);
    memset(rows, 0x33, sizeof rows);
    upload(probed, rows, sizeof rows);
    front.next.operand[OPERAND_PROBES] = probed;
    front.next.ahead = AHEAD * sizeof *values;
    front.next.probed = EARLIER * sizeof *rows;
    front.block = probe;
    finished(run(&job, in, out, 0, false), STATUS_OK);
    download(out, result, sizeof result);
    download(probed, rows, sizeof rows);
    for (int i = 0; i < ROWS; i++)
        assert_memory_equal(&rows[i],
                            i == EARLIER       ? (void *)&values[AHEAD + PLACE]
                            : i == EARLIER + 1 ? (void *)&result[AHEAD + PLACE]
                                               : "3333",
                            sizeof *rows);
}

/* Own planes alone are written, whatever comes to the others meanwhile; their edges are told of
 * before the end. On a device that does not compute such the order is refused. */
TEST(test_own_planes, setup, teardown)
{
    enum { PLANES = 30, PLANE = 18 * 20, POINTS = PLANES * PLANE };
    static float values[POINTS], result[POINTS];
    const struct own_planes own = {4, PLANES - 4, {4, 4}};
    const uint64_t in = allocate(sizeof values), out = allocate(sizeof values);
    for (uint64_t steps = 1; steps <= 4; steps += 3) {
        struct job job = diffusion_of(DTYPE_F32, 20, 18, PLANES, 2, steps);
        struct random random = random_start();
        void *expected[AXIS_COUNT];
        job.dt = 0.1;
        random_field(&random, &job, values);
        expect(&job, NULL, (void *[AXIS_COUNT]){values}, expected);
        upload(in, values, sizeof values);
        begin_packet();
        front.next.own = own;
        front.chain = 5;
        const uint64_t id = run(&job, in, out, 0, false);
        front.chain = 0;
        memset(front.arena, 0x33, 4 * PLANE * sizeof *values);
        order_copy(CHANNEL_UPLOAD, out, 0, 0, 4 * PLANE * sizeof *values, 9);
        send_packet();
        struct channel_message message;
        int edges = 0, copies = 0;
        for (message = answer(); message.type != CHANNEL_FINISHED; message = answer()) {
            edges += message.type == CHANNEL_EDGES && message.u.job.id == id;
            copies += message.type == CHANNEL_COPIED;
        }
        if (!copies)
            answer_of(CHANNEL_COPIED);
        const bool takes = strcmp(device_name(), "host") != 0;
        assert_int_equal(message.status, takes ? STATUS_OK : STATUS_UNSUPPORTED);
        assert_int_equal(edges, takes);
        download(out, result, sizeof result);
        for (int i = 0; i < 4 * PLANE; i++)
            assert_memory_equal(&result[i], "3333", 4);
        if (takes)
            assert_memory_equal(&result[4 * PLANE], (float *)expected[0] + 4 * PLANE,
                                (PLANES - 8) * PLANE * sizeof *values);
        arrays_free(expected);
    }
    release(in);
    release(out);
    ping();
}

/* Of an array in two parts that begin at any element, whose blocks' results are joined, as devices
 * measure a distributed field together. */
TEST(test_measures_in_parts, setup, teardown)
{
    enum { POINTS = 60000, BLOCKS = (POINTS + MEASURE_BLOCK - 1) / MEASURE_BLOCK, AHEAD = 3 };
    static float values[2][AHEAD + POINTS];
    static struct measured blocks[BLOCKS];
    struct random random = random_start();
    const uint64_t results = allocate(measure_bytes(POINTS)), part = allocate(sizeof blocks);
    uint64_t arrays[2];
    for (int i = 0; i < 2; i++) {
        measure_reference_values(&random, DTYPE_F32, AHEAD + POINTS, values[i]);
        arrays[i] = allocate(sizeof values[i]);
        upload(arrays[i], values[i], sizeof values[i]);
    }
    for (int of_two = 0; of_two < 2; of_two++) {
        const uint64_t b = of_two ? arrays[1] : 0;
        const uint64_t first = 1 + random_below(&random, BLOCKS - 2),
                       points = first * MEASURE_BLOCK;
        finished(order_measure_part(arrays[0], b, part, AHEAD * sizeof(float), points,
                                    (POINTS - points) * sizeof(float), DTYPE_F32),
                 STATUS_OK);
        download(part, blocks, first * sizeof *blocks);
        finished(order_measure_part(arrays[0], b, part, (AHEAD + points) * sizeof(float),
                                    POINTS - points, 0, DTYPE_F32),
                 STATUS_OK);
        download(part, blocks + first, (BLOCKS - first) * sizeof *blocks);
        upload(results, blocks, sizeof blocks);
        order_measure(results, 0, results, BLOCKS, DTYPE_F64);
        const struct channel_message message = answer_of(CHANNEL_FINISHED);
        const struct measured expected = measure_reference(DTYPE_F32, POINTS, values[0] + AHEAD,
                                                           of_two ? values[1] + AHEAD : NULL);
        assert_int_equal(message.status, STATUS_OK);
        assert_true(measure_reference_equal(&message.u.job.measured, &expected));
    }
}

/* More than there are slots for, ordered all at once behind the job whose result they measure. */
TEST(test_measures, setup, teardown)
{
    enum { MEASURES = 150 };
    static float values[100 * 100];
    void *expected[AXIS_COUNT];
    const struct job job = diffusion(100, 100, 7);
    const uint64_t in = field_of(&job, values), out = allocate(sizeof values);
    const uint64_t scratch = allocate(sizeof values);
    expect(&job, NULL, (void *[AXIS_COUNT]){values}, expected);
    const struct measured of_one = measure_reference(DTYPE_F32, 10000, expected[0], NULL);
    const struct measured of_two = measure_reference(DTYPE_F32, 10000, expected[0], values);
    arrays_free(expected);
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

/* The worker's jobs and copies from and to clients' memory. */
#include "tests/unit/worker.h"

static struct job block(enum operator_id operator_id, uint64_t nx, uint64_t ny, uint64_t nz)
{
    struct job job = job_of(operator_id, DTYPE_F32, nx, ny, nz, 8);
    job.axis = AXIS_Z;
    return job;
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
        const uint64_t in = allocate_beside(bytes);
        const uint64_t out = allocate_beside(bytes);
        front.chain = 5;
        for (int round = 0; round < ROUNDS; round++) {
            set_place((struct place){region.id, 0}, nowhere);
            run(job, in, array, 0, false);
            run(job, array, array, scratch, false);
            set_place(nowhere, (struct place){region.id, bytes});
            run(job, array, out, 0, false);
        }
        front.chain = 0;
        copied_and_finished(0, 3 * ROUNDS);
        struct job steps = *job;
        steps.steps = 3;
        assert_result(&steps, region.memory, region.memory + bytes);
        end_region(&region);
        release(array);
        release(scratch);
        release(in);
        release(out);
        ping();
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
            in[c] = placed ? allocate_beside(bytes) : allocate(bytes);
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
            release(out[c]);
            if (scratch[c] != in[0])
                release(scratch[c]);
            sample_check(&sample, c, i);
        }
        for (uint64_t k = 0; k < wanted.bytes; k++)
            assert_int_equal(wanted.memory[k], 0x77);
        for (int c = 0; c < plan->inputs; c++) {
            if (from[c].region)
                assert_memory_equal(given.memory + from[c].offset, sample.fields[c], bytes);
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
            if (random_below(&random, CANCEL_EVERY) == 0)
                cancel(ids[i - (int)random_below(&random, (uint64_t)i + 1)]);
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
            if (!is_cancelled[i])
                assert_result(&jobs[i], given.memory + i * STEP, wanted.memory + i * STEP);
            for (uint64_t k = job_bytes(&jobs[i]); k < STEP; k++)
                assert_int_equal(wanted.memory[(uint64_t)i * STEP + k], 0x77);
            for (int k = 0; k < 3; k++)
                release(arrays[i][k]);
        }
    }
    end_region(&given);
    end_region(&wanted);
    ping();
}

/* Jobs of many chunks each, all in flight at once, from one field to separate places: at an odd
 * place, which reaches over two of the pieces that a device knows the region in. */
TEST(test_large_jobs_in_regions, setup, teardown)
{
    enum { JOBS = 3, FIELD = (6 << 20) + 48 };
    struct job jobs[JOBS] = {block(OPERATOR_DERIVATIVE, 80, 90, 170),
                             block(OPERATOR_DERIVATIVE, 80, 90, 170),
                             block(OPERATOR_LAPLACIAN, 80, 90, 170)};
    jobs[1].axis = AXIS_X;
    const uint64_t bytes = job_bytes(&jobs[0]);
    const struct client_region region = make_region(FIELD + (1 + JOBS) * bytes, true);
    struct random random = random_start();
    random_field(&random, &jobs[0], region.memory + FIELD);
    uint64_t in[JOBS], out[JOBS], ids[JOBS];
    for (int i = 0; i < JOBS; i++) {
        in[i] = allocate_beside(bytes);
        out[i] = allocate_beside(bytes);
        set_place((struct place){region.id, FIELD},
                  (struct place){region.id, FIELD + (uint64_t)(1 + i) * bytes});
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
    for (int i = 0; i < JOBS; i++) {
        assert_result(&jobs[i], region.memory + FIELD,
                      region.memory + FIELD + (uint64_t)(1 + i) * bytes);
        release(in[i]);
        release(out[i]);
    }
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
        void *in[AXIS_COUNT], *expected[AXIS_COUNT];
        for (int c = 0; c < AXIS_COUNT; c++)
            in[c] = given.memory + (uint64_t)i * ALL + (uint64_t)c * STEP + GUARD;
        expect(&jobs[i], NULL, in, expected);
        for (int c = 0; c < job_outputs(&jobs[i]); c++) {
            const uint8_t *out = wanted.memory + (uint64_t)i * ALL + (uint64_t)c * STEP;
            assert_memory_equal(out + GUARD, expected[c], job_bytes(&jobs[i]));
            for (int k = 0; k < GUARD; k++)
                assert_true(out[k] == 0 && out[GUARD + job_bytes(&jobs[i]) + (uint64_t)k] == 0);
        }
        arrays_free(expected);
        for (int k = 0; k < 3; k++)
            for (int c = 0; c < AXIS_COUNT; c++)
                release(arrays[i][k][c]);
    }
    end_region(&given);
    end_region(&wanted);
    ping();
}

/* Its chunks in flight complete; then its region can be unmapped. */
TEST(test_cancelling_a_job_in_regions, setup, teardown)
{
    /* Of the last one launches copy the arrays, where they can. */
    const struct job jobs[] = {block(OPERATOR_LAPLACIAN, 128, 128, 256),
                               diffusion(1024, 1024, UINT64_C(1) << 40),
                               diffusion(64, 64, UINT64_C(1) << 40)};
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        const uint64_t bytes = job_bytes(&jobs[i]);
        const struct client_region region = make_region(2 * bytes, true);
        const uint64_t in = allocate_beside(bytes);
        const uint64_t out = allocate_beside(bytes);
        const uint64_t scratch = i ? allocate(bytes) : 0;
        begin_packet();
        set_place((struct place){region.id, 0}, (struct place){region.id, bytes});
        const uint64_t id = run(&jobs[i], in, out, scratch, false);
        cancel(id);
        send_packet();
        finished(id, STATUS_CANCELLED);
        end_region(&region);
        release(in);
        release(out);
        release(scratch);
        ping();
    }
}

/* Its input is in, its result stays in an array, and some of its passes are done: no more is left
 * to copy, and yet it is not done. */
TEST(test_cancelling_the_passes_of_an_input_from_a_region, setup, teardown)
{
    const struct job job = diffusion(1024, 512, UINT64_C(1) << 40);
    const uint64_t bytes = job_bytes(&job);
    const struct client_region region = make_region(bytes, true);
    const uint64_t in = allocate_beside(bytes);
    const uint64_t out = allocate(bytes), scratch = allocate(bytes);
    set_place((struct place){region.id, 0}, nowhere);
    const uint64_t id = run(&job, in, out, scratch, true);
    answer_of(CHANNEL_PROGRESS);
    cancel(id);
    struct channel_message message = answer();
    while (message.type == CHANNEL_PROGRESS)
        message = answer();
    assert_int_equal(message.type, CHANNEL_FINISHED);
    assert_int_equal(message.u.job.id, id);
    assert_true(message.u.job.done < job.steps);
    assert_int_equal(message.status, STATUS_CANCELLED);
    end_region(&region);
    ping();
}

/* From one place of a region to another, of a few bytes and of many chunks, and at once a job that
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
        assert_result(&jobs[i], region.memory, region.memory + 2 * bytes);
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

/* The worker's arrays whose memory other processes map: it stays theirs, whatever writes it. */
#include "tests/unit/worker.h"

#include <sys/stat.h>

/* The array's memory as others map it; of a GPU there is none to look at from here: NULL. */
static void *export_array(uint64_t array, uint64_t bytes)
{
    const uint64_t other = allocate_exportable(bytes);
    const uint64_t id = order_export(array, other);
    const struct channel_message message = answer_of(CHANNEL_EXPORTED);
    assert_int_equal(message.u.exported.id, id);
    assert_int_equal(message.status, STATUS_OK);
    struct stat stat;
    assert_int_equal(fstat(front.exported, &stat), 0);
    void *memory = NULL;
    if (stat.st_size) {
        assert_true((uint64_t)stat.st_size >= bytes);
        memory =
            mmap(NULL, (size_t)stat.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, front.exported, 0);
        assert_ptr_not_equal(memory, MAP_FAILED);
        /* Nothing of anybody's beyond the array. */
        for (uint64_t i = bytes; i < (uint64_t)stat.st_size; i++)
            assert_int_equal(((uint8_t *)memory)[i], 0);
    }
    close(front.exported);
    release(other); /* the memory that the array had */
    return memory;
}

/* The array, and its memory as others see it. */
static void assert_both(const struct job *job, uint64_t array, const void *in, const void *mapped)
{
    static uint8_t result[ARENA_BYTES / 2];
    download(array, result, job_bytes(job));
    assert_result(job, in, result);
    if (mapped)
        assert_memory_equal(mapped, result, job_bytes(job));
}

/* A small grid, and one of several chunks. */
static const uint64_t sizes[][2] = {{50, 60}, {700, 601}};

/* In place and from another array, with odd and even passes, alone and in a chain: the result of
 * each comes to lie where others look. */
TEST(test_results_come_home, setup, teardown)
{
    static float f[ARENA_BYTES / 8], values[ARENA_BYTES / 8];
    for (int i = 0; i < 32; i++) {
        struct random random = random_start();
        struct job job = diffusion(sizes[i / 16][0], sizes[i / 16][1], 1 + (uint64_t)i % 4);
        const bool in_place = i & 4, chained = i & 8;
        const uint64_t bytes = job_bytes(&job);
        assert_true(bytes <= sizeof f);
        random_field(&random, &job, f);
        random_field(&random, &job, values);
        const uint64_t array = allocate(bytes), in = allocate(bytes), scratch = allocate(bytes);
        upload(array, in_place ? f : values, bytes);
        upload(in, f, bytes);
        const void *mapped = export_array(array, bytes);
        front.chain = chained ? 9 : 0;
        const uint64_t id = run(&job, in_place ? array : in, array, scratch, false);
        const uint64_t next = run(&job, array, array, scratch, false);
        front.chain = 0;
        finished(id, STATUS_OK);
        finished(next, STATUS_OK);
        struct job both = job;
        both.steps *= 2;
        assert_both(&both, array, f, mapped);
        release(array);
        release(in);
        release(scratch);
        ping();
    }
}

/* An input in a region, so that copies and passes are a pipeline where the device has its own
 * memory. */
TEST(test_a_result_of_a_pipeline_comes_home, setup, teardown)
{
    for (int i = 0; i < 8; i++) {
        struct random random = random_start();
        const struct job job = diffusion(sizes[i % 2][0], sizes[i % 2][1], 1 + (uint64_t)i / 2);
        const uint64_t bytes = job_bytes(&job);
        const struct client_region region = make_region(bytes, false);
        random_field(&random, &job, region.memory);
        const uint64_t array = allocate(bytes), in = allocate_beside(bytes);
        const uint64_t scratch = in ? 0 : allocate(bytes); /* its input's array serves */
        const void *mapped = export_array(array, bytes);
        set_place((struct place){region.id, 0}, nowhere);
        finished(run(&job, in, array, in ? in : scratch, false), STATUS_OK);
        assert_both(&job, array, region.memory, mapped);
        end_region(&region);
        release(array);
        release(in);
        release(scratch);
        ping();
    }
}

/* What others write is what the next job reads; and large memory is copied in pieces. */
TEST(test_what_others_write_is_read, setup, teardown)
{
    enum { LARGE = 100 << 20 };
    static float values[1000], result[1000];
    struct job job = diffusion(100, 10, 1);
    for (int i = 0; i < 1000; i++)
        values[i] = (float)(i % 13);
    const uint64_t array = allocate(sizeof values), out = allocate(sizeof values);
    upload(array, result, sizeof result);
    float *mapped = export_array(array, sizeof values);
    if (mapped) {
        memcpy(mapped, values, sizeof values);
        finished(run(&job, array, out, 0, false), STATUS_OK);
        download(out, result, sizeof result);
        assert_result(&job, values, result);
    }
    const uint64_t large = allocate(LARGE);
    for (int i = 0; i < 100; i++) {
        memset(front.arena, i + 1, 1 << 20);
        order_copy(CHANNEL_UPLOAD, large, (uint64_t)i << 20, 0, 1 << 20, 5);
        answer_of(CHANNEL_COPIED);
    }
    const uint8_t *bytes = export_array(large, LARGE);
    for (int i = 0; i < 100; i++) {
        order_copy(CHANNEL_DOWNLOAD, large, ((uint64_t)i << 20) + 12345, 0, 1, 5);
        answer_of(CHANNEL_COPIED);
        assert_int_equal(front.arena[0], i + 1);
        assert_true(!bytes || bytes[((uint64_t)i << 20) + 777] == i + 1);
    }
    release(large);
    release(array);
    release(out);
}

/* Released memory is empty for whoever has the host's mapped, and nobody can make it shorter. */
TEST(test_the_hosts_memory_is_sealed_and_goes, setup, teardown)
{
    if (strncmp(device_name(), "host", 4) != 0)
        return;
    const uint64_t array = allocate(10000), other = allocate_exportable(10000);
    static uint8_t ones[10000];
    memset(ones, 1, sizeof ones);
    upload(array, ones, sizeof ones);
    order_export(array, other);
    answer_of(CHANNEL_EXPORTED);
    const uint8_t *mapped =
        mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, front.exported, 0);
    assert_memory_equal(mapped, ones, sizeof ones);
    assert_true(ftruncate(front.exported, 0) < 0);
    assert_true(ftruncate(front.exported, 1 << 20) < 0);
    assert_true(fcntl(front.exported, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) < 0);
    close(front.exported);
    release(array);
    release(other);
    ping();
    for (int i = 0; i < 12288; i++)
        while (*(volatile const uint8_t *)&mapped[i])
            usleep(1000);
}

/* There is no memory: the array is as it was. */
TEST(test_no_memory_to_export_to, setup, teardown)
{
    static uint8_t values[4096], result[4096];
    memset(values, 7, sizeof values);
    const uint64_t array = allocate(sizeof values);
    upload(array, values, sizeof values);
    const uint64_t other = allocate_exportable(UINT64_C(1) << 52);
    answer_of(CHANNEL_FAILED);
    order_export(array, other);
    assert_int_equal(answer_of(CHANNEL_EXPORTED).status, STATUS_OUT_OF_MEMORY);
    download(array, result, sizeof result);
    assert_memory_equal(result, values, sizeof values);
}

TEST(test_a_front_that_exports_against_the_rules)
{
    for (int i = 0; i < 4; i++) {
        setup(NULL);
        const uint64_t array = allocate(4096), plain = allocate(4096);
        const uint64_t other = allocate_exportable(4096), large = allocate_exportable(8192);
        if (i == 0) { /* not exportable */
            order_export(array, plain);
        } else if (i == 1) { /* of another size */
            order_export(array, large);
        } else { /* twice; in use */
            order_export(array, other);
            if (i == 2) {
                answer_of(CHANNEL_EXPORTED);
                close(front.exported);
            }
            order_export(array, i == 2 ? large : other);
        }
        assert_int_equal(ended(), BROKEN_FRONT);
        close(front.socket);
    }
}

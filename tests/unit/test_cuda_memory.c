/* Cached device memory: its reuse, its clearing and its release. */
#include "gpu/cuda/memory.h"
#include "tests/lib/counted_device.h"
#include "tests/unit/unit.h"

enum { MiB = 1 << 20, KEEP_BYTES = 100 * MiB, DEVICE_BYTES = 1000 * MiB, ALICE = 1, BOB };

static int setup(void **state)
{
    counted_device = (struct counted_device){.has_bytes = DEVICE_BYTES};
    memory_open(KEEP_BYTES);
    return 0;
}
static int teardown(void **state)
{
    memory_close();
    return counted_device.bytes != 0;
}

TEST(test_sizes, setup, teardown)
{
    for (int bits = 0; bits < 63; bits++)
        for (uint64_t k = 0; k < 40; k++) {
            const uint64_t bytes = (UINT64_C(1) << bits) + (k << bits) / 40 + k % 3;
            const uint64_t rounded = memory_rounded(bytes);
            assert_true(rounded >= bytes && rounded - bytes <= bytes / 16 + 512);
            assert_int_equal(memory_rounded(rounded), rounded);
        }
    assert_int_equal(memory_rounded(512 * MiB), 512 * MiB);
    assert_int_equal(memory_rounded(UINT64_MAX - 5), UINT64_MAX - 5);
}

TEST(test_a_block_is_used_again_and_cleared_for_another_owner, setup, teardown)
{
    bool must_clear = false;
    void *first = memory_take(50 * MiB, ALICE, &must_clear);
    assert_true(must_clear);
    memory_give(first, 50 * MiB, ALICE);
    assert_ptr_equal(memory_take(50 * MiB - 1000, ALICE, &must_clear), first);
    assert_false(must_clear);
    void *second = memory_take(50 * MiB, BOB, &must_clear);
    memory_give(first, 50 * MiB - 1000, ALICE);
    memory_give(second, 50 * MiB, BOB);
    assert_ptr_equal(memory_take(50 * MiB, ALICE, &must_clear),
                     first); /* its own, not the newest */
    assert_false(must_clear);
    assert_ptr_equal(memory_take(50 * MiB, ALICE, &must_clear), second);
    assert_true(must_clear);
    memory_give(first, 50 * MiB, ALICE);
    memory_give(second, 50 * MiB, ALICE);
    assert_int_equal(counted_device.made, 2);
    assert_int_equal(counted_device.freed, 0);
}

/* cudaFree waits for the device: memory is freed only when the device is idle or memory is short,
 * or when very much is kept. */
TEST(test_too_much_is_given_back_when_there_is_time, setup, teardown)
{
    void *blocks[5];
    bool must_clear;
    for (int i = 0; i < 5; i++)
        blocks[i] = memory_take(40 * MiB, ALICE, &must_clear);
    for (int i = 0; i < 5; i++)
        memory_give(blocks[i], 40 * MiB, ALICE);
    assert_int_equal(counted_device.freed, 0);
    int turns = 1;
    while (memory_rest())
        turns++;
    assert_int_equal(turns, 3);
    assert_true(counted_device.bytes <= KEEP_BYTES);
    assert_false(memory_rest());
    assert_int_equal(counted_device.freed, 3);
}

TEST(test_a_worker_that_never_rests_does_not_keep_all, setup, teardown)
{
    bool must_clear;
    for (int i = 0; i < 100; i++) {
        const uint64_t bytes = (uint64_t)(10 + i) * MiB;
        memory_give(memory_take(bytes, ALICE, &must_clear), bytes, ALICE);
        assert_true(counted_device.bytes <= 2 * KEEP_BYTES);
    }
    assert_true(counted_device.bytes > KEEP_BYTES);
}

TEST(test_a_block_too_large_to_keep_is_used_again_by_the_next_job, setup, teardown)
{
    bool must_clear;
    for (int i = 0; i < 5; i++)
        memory_give(memory_take(300 * MiB, ALICE, &must_clear), 300 * MiB, ALICE);
    assert_int_equal(counted_device.made, 1);
}

TEST(test_what_is_kept_makes_room, setup, teardown)
{
    bool must_clear;
    for (int i = 0; i < 4; i++) {
        void *block = memory_take((uint64_t)(44 + 2 * i) * MiB, ALICE, &must_clear);
        assert_non_null(block);
        memory_give(block, (uint64_t)(44 + 2 * i) * MiB, ALICE);
    }
    assert_int_equal(counted_device.freed, 0);
    void *large = memory_take(900 * MiB, BOB, &must_clear);
    assert_non_null(large);
    assert_true(must_clear);
    assert_null(memory_take(900 * MiB, BOB, &must_clear));
    memory_give(large, 900 * MiB, BOB);
}

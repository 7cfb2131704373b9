/* Tables of plans on the device: the slots that hold them, their lifetime, and the case without
 * memory for one. */
#include "gpu/cuda/memory.h"
#include "gpu/cuda/slots.h"
#include "tests/lib/counted_device.h"
#include "tests/unit/unit.h"

enum { MiB = 1 << 20, DEVICE_BYTES = 100 * MiB, LARGE_BYTES = 40 * MiB, SMALL_BYTES = 1000 };

static int copies;

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)to, (void)from, (void)bytes, (void)kind, (void)stream;
    copies++;
    return cudaSuccess;
}
static int setup(void **state)
{
    counted_device = (struct counted_device){.has_bytes = DEVICE_BYTES};
    copies = 0;
    memory_open(DEVICE_BYTES);
    return slots_open() != cudaSuccess;
}
static int teardown(void **state)
{
    slots_close();
    memory_close();
    return counted_device.bytes != 0;
}

static struct plan plan_with(uint64_t bytes)
{
    struct plan plan = {.lines = 1, .points = 1, .batch = 1, .passes = 1};
    plan.table = plan_table_new(bytes);
    return plan;
}

TEST(a_table_is_loaded_once, setup, teardown)
{
    struct plan plan = plan_with(SMALL_BYTES);
    const int slot = slots_take(&plan, NULL);
    assert_int_equal(slots_take(&plan, NULL), slot);
    slots_give(slot);
    slots_give(slot);
    assert_int_equal(slots_take(&plan, NULL), slot);
    assert_int_equal(copies, 1);
    slots_give(slot);
    plan_release(&plan);
}

/* Plans are compared by their bytes and their tables by serial numbers, because the memory of a
 * freed table is often reused by the next one. */
TEST(a_table_in_the_place_of_another_is_loaded, setup, teardown)
{
    struct plan plan = plan_with(SMALL_BYTES);
    slots_give(slots_take(&plan, NULL));
    plan.table->serial++;
    const int slot = slots_take(&plan, NULL);
    assert_int_equal(copies, 2);
    assert_int_equal(slots_take(&plan, NULL), slot);
    assert_int_equal(copies, 2);
    slots_give(slot);
    slots_give(slot);
    plan_release(&plan);
}

TEST(a_large_table_waits_for_another_to_end, setup, teardown)
{
    struct plan one = plan_with(LARGE_BYTES), two = plan_with(LARGE_BYTES);
    const int slot = slots_take(&one, NULL);
    assert_true(slot >= 0);
    assert_int_equal(slots_take(&two, NULL), -1); /* with each slot's own room they do not fit */
    slots_give(slot);
    const int other = slots_take(&two, NULL);
    assert_true(other >= 0);
    slots_give(other);
    plan_release(&one);
    plan_release(&two);
}

TEST(a_large_table_leaves_its_memory_to_arrays, setup, teardown)
{
    struct plan plan = plan_with(LARGE_BYTES);
    slots_give(slots_take(&plan, NULL));
    bool must_clear;
    void *array = memory_take(DEVICE_BYTES - LARGE_BYTES, 1, &must_clear);
    assert_non_null(array);
    assert_true(must_clear);
    memory_give(array, DEVICE_BYTES - LARGE_BYTES, 1);
    plan_release(&plan);
}

/* Measures on the host: the contract's bits, for any division into slices. */
#include "tests/lib/measure_reference.h"
#include "tests/lib/run_backend.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>

static struct bed bed;

static int setup(void **state)
{
    struct failure failure = {0};
    return !bed_open(&bed, backend_host(), 0, 1 << 20, &failure);
}

static int teardown(void **state)
{
    bed_close(&bed);
    return 0;
}

TEST(test_bits)
{
    enum { ARRAYS = 150 };
    struct random random = random_start();
    for (int i = 0; i < ARRAYS; i++) {
        const enum dtype dtype = i % 2 ? DTYPE_F64 : DTYPE_F32;
        /* One of more blocks than a block holds: three levels. */
        const uint64_t points =
            i == 0 ? (UINT64_C(1) << 24) + 4097 : measure_reference_points(&random, 90000);
        const uint64_t bytes = points * dtype_element_bytes(dtype);
        void *a = malloc(bytes), *b = malloc(bytes);
        assert_true(a && b);
        measure_reference_values(&random, dtype, points, a);
        measure_reference_values(&random, dtype, points, b);
        const void *const other = random_below(&random, 2) ? b : NULL;
        struct measured got;
        assert_true(bed_measure(&bed, dtype, points, a, other, random_below(&random, 3), &got));
        const struct measured expected = measure_reference(dtype, points, a, other);
        assert_true(measure_reference_equal(&got, &expected));
        free(a);
        free(b);
    }
}

TEST(test_meaning)
{
    const double a[] = {3, -1, NAN, 4, INFINITY}, b[] = {3, 1, 0, 1, 0};
    struct measured got;
    assert_true(bed_measure(&bed, DTYPE_F64, 4, a, NULL, 0, &got));
    assert_true(got.min == -1 && got.max == 4 && got.sum == 6 && got.nan == 1);
    assert_true(bed_measure(&bed, DTYPE_F64, 4, a, b, 0, &got));
    assert_true(got.min == 0 && got.max == 3 && got.sum == 4 + 9 && got.nan == 1);
    assert_true(bed_measure(&bed, DTYPE_F64, 5, a, NULL, 0, &got));
    assert_true(got.max == INFINITY && got.sum == INFINITY && got.nan == 1);
    assert_true(bed_measure(&bed, DTYPE_F64, 1, a + 2, NULL, 0, &got));
    assert_true(isnan(got.min) && isnan(got.max) && got.sum == 0 && got.nan == 1);
}

TEST(test_bytes)
{
    assert_int_equal(measure_bytes(1), 32);
    assert_int_equal(measure_bytes(4096), 32);
    assert_int_equal(measure_bytes(4097), 3 * 32);
    assert_int_equal(measure_bytes(UINT64_C(1) << 24), (4096 + 1) * 32);
    assert_int_equal(measure_bytes((UINT64_C(1) << 24) + 1), (4097 + 2 + 1) * 32);
}

int main(void)
{
    return unit_run(setup, teardown);
}

/* The route of a job's arrays: in place, through the pool, or over the socket. */
#include "client/connection.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { N = 1 << 16, BYTES = 4 * N };

static struct list regions = {&regions, &regions};

static struct region *add(size_t bytes, bool pooled, enum region_state state)
{
    static uint64_t id;
    struct region *region = region_make(bytes, pooled);
    assert_non_null(region);
    region->state = state;
    region->id = ++id;
    list_push_front(&regions, &region->link);
    return region;
}

static int forget(void **state)
{
    LIST_DRAIN (struct region, region, &regions, link)
        region_free(region);
    return 0;
}

struct chosen {
    struct route route;
    struct wish missing;
};

/* A job of f_count arrays of BYTES (data NULL: resident), through a pool that takes arrays of
 * BYTES. */
static struct chosen choose(const char *method, void *const f[], uint32_t f_count,
                            void *const outs[], uint32_t out_count, size_t capacity)
{
    struct fdclient_array arrays[FDCLIENT_AXES] = {{0}};
    struct fdclient_result results[FDCLIENT_AXES] = {{0}};
    struct call job = {.method = method,
                       .f = arrays,
                       .f_count = f_count,
                       .results = results,
                       .result_count = out_count};
    for (uint32_t i = 0; i < f_count; i++) {
        arrays[i] = (struct fdclient_array){FDCLIENT_F32, 3, {4, 64, N / 256}, f[i], 9};
        job.types[i].bytes = f[i] ? BYTES : 0;
    }
    for (uint32_t i = 0; i < out_count; i++)
        results[i] = (struct fdclient_result){.data = outs[i], .capacity = capacity};
    struct chosen chosen;
    route_choose(&chosen.route, &job, &regions, BYTES, &chosen.missing);
    route_settle(&chosen.route);
    return chosen;
}

TEST(a_region_is_sealed_and_zeroed, NULL, forget)
{
    struct region *region = add(12345, false, REGION_ASKED);
    struct stat stat;
    assert_int_equal(fstat(region->descriptor, &stat), 0);
    assert_int_equal(stat.st_size, 12345);
    assert_int_equal(fcntl(region->descriptor, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW),
                     F_SEAL_SHRINK | F_SEAL_GROW);
    for (size_t i = 0; i < region->bytes; i++)
        assert_int_equal(region->memory[i], 0);
}

TEST(the_pool_has_few_sizes, NULL, forget)
{
    size_t before = 0, sizes = 0;
    for (size_t bytes = 1; bytes < (size_t)1 << 24; bytes += 1000) {
        const size_t size = region_pool_bytes(bytes);
        assert_true(size >= bytes && size >= before && size % 4096 == 0);
        assert_true(bytes < 65536 || size <= bytes + bytes / 4);
        sizes += size != before;
        before = size;
    }
    assert_true(sizes < 40);
}

TEST(arrays_in_shared_memory_stay_where_they_are, NULL, forget)
{
    struct region *a = add(2 * BYTES, false, REGION_READY), *b = add(BYTES, false, REGION_READY);
    struct chosen c =
        choose("laplacian", (void *[]){a->memory + BYTES}, 1, (void *[]){b->memory}, 1, BYTES);
    assert_true(c.route.in[0].region == a->id && c.route.in[0].offset == BYTES);
    assert_true(c.route.out[0].region == b->id && c.route.out[0].offset == 0);
    assert_int_equal(c.route.outs, 1);
    assert_false(c.route.out_is_vector || c.missing.count);
    assert_null(c.route.in[0].pooled);
    /* Misaligned; beyond the end; not registered. */
    assert_false(choose("put", (void *[]){a->memory + 8}, 1, NULL, 0, 0).route.in[0].region);
    assert_false(
        choose("put", (void *[]){a->memory + BYTES + 16}, 1, NULL, 0, 0).route.in[0].region);
    a->state = REGION_PLAIN;
    assert_false(choose("put", (void *[]){a->memory}, 1, NULL, 0, 0).route.in[0].region);
}

TEST(ordinary_arrays_go_through_the_pool_or_say_what_it_lacks, NULL, forget)
{
    uint8_t *f = malloc(BYTES), *out = malloc(BYTES);
    memset(f, 7, BYTES);
    struct chosen c = choose("laplacian", (void *[]){f}, 1, (void *[]){out}, 1, BYTES);
    assert_false(c.route.in[0].region || c.route.outs);
    assert_int_equal(c.missing.count, 2);
    assert_int_equal(c.missing.bytes, BYTES);
    struct region *small = add(BYTES / 2, true, REGION_READY),
                  *fits = add(BYTES, true, REGION_READY);
    struct region *large = add(BYTES * 2, true, REGION_READY),
                  *huge = add(BYTES * 9, true, REGION_READY);
    add(BYTES, true, REGION_ASKED);
    c = choose("laplacian", (void *[]){f}, 1, (void *[]){NULL}, 1, 0);
    assert_true(c.route.in[0].pooled == fits && c.route.out[0].pooled == large);
    assert_true(c.route.outs == 1 && !c.missing.count);
    assert_memory_equal(fits->memory, f, BYTES);
    assert_true(fits->busy && large->busy && !small->busy && !huge->busy);
    const struct chosen second = choose("laplacian", (void *[]){f}, 1, (void *[]){out}, 1, BYTES);
    assert_int_equal(second.missing.count, 2);
    route_release(&c.route);
    assert_false(fits->busy || large->busy);
    free(f);
    free(out);
}

TEST(all_results_go_by_regions_or_none, NULL, forget)
{
    struct region *a = add(BYTES, false, REGION_READY), *b = add(2 * BYTES, false, REGION_READY);
    struct region *pooled = add(BYTES, true, REGION_READY);
    void *const f[] = {a->memory};
    uint8_t *plain = malloc(BYTES);
    struct chosen c =
        choose("gradient", f, 1, (void *[]){b->memory, b->memory + BYTES, plain}, 3, BYTES);
    assert_true(c.route.outs == 3 && c.route.out_is_vector && c.route.out[2].pooled == pooled);
    route_release(&c.route);
    pooled->state = REGION_ASKED;
    c = choose("gradient", f, 1, (void *[]){b->memory, b->memory + BYTES, plain}, 3, BYTES);
    assert_true(c.route.outs == 0 && !c.route.out[0].region && c.missing.count == 1);
    pooled->state = REGION_READY;
    /* No place for a component, or one that is too small: the reply's error reports it. */
    assert_int_equal(choose("gradient", f, 1, (void *[]){b->memory}, 1, BYTES).route.outs, 0);
    assert_int_equal(choose("laplacian", f, 1, (void *[]){b->memory}, 1, BYTES - 1).route.outs, 0);
    assert_false(pooled->busy);
    free(plain);
}

TEST(results_over_inputs_or_each_other_go_another_way, NULL, forget)
{
    struct region *a = add(3 * BYTES, false, REGION_READY);
    uint8_t *const at = a->memory;
    assert_int_equal(choose("laplacian", (void *[]){at}, 1, (void *[]){at}, 1, BYTES).route.outs,
                     0);
    assert_int_equal(
        choose("laplacian", (void *[]){at}, 1, (void *[]){at + BYTES - 16}, 1, BYTES).route.outs,
        0);
    assert_int_equal(
        choose("laplacian", (void *[]){at}, 1, (void *[]){at + BYTES}, 1, BYTES).route.outs, 1);
    void *const same[] = {at, at, at + BYTES};
    assert_int_equal(choose("gradient", (void *[]){at + 2 * BYTES}, 1, same, 3, BYTES).route.outs,
                     0);
    assert_int_equal(
        choose("gradient", (void *[]){at + 2 * BYTES}, 1, same, 3, SIZE_MAX).route.outs, 0);
    struct region *pooled = add(BYTES, true, REGION_READY);
    struct chosen c = choose("laplacian", (void *[]){at}, 1, (void *[]){at}, 1, BYTES);
    assert_true(c.route.outs == 1 && c.route.out[0].pooled == pooled);
}

TEST(a_result_of_unknown_size_needs_a_place_that_ends_with_its_region, NULL, forget)
{
    struct region *a = add(2 * BYTES, false, REGION_READY);
    void *const resident[] = {NULL};
    for (int i = 0; i < 2; i++) {
        const char *method = i ? "get" : "laplacian";
        struct chosen c = choose(method, resident, 1, (void *[]){a->memory + BYTES}, 1, BYTES);
        assert_true(c.route.outs == 1 && c.route.out[0].offset == BYTES);
        assert_int_equal(choose(method, resident, 1, (void *[]){a->memory}, 1, BYTES).route.outs,
                         0);
        assert_int_equal(choose(method, resident, 1, (void *[]){NULL}, 1, 0).route.outs, 0);
    }
}

#include "protocol/request_bounds.h"
#include "protocol/request_job.h"
#include "tests/unit/notation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { POINTS = 40 };

static union {
    struct request_bounds bounds;
    uint8_t bytes[1 << 20];
} room;

static void write_coordinates(char *to, int count)
{
    double x = -3;
    for (int i = 0; i < count; i++, x += 0.25 + 0.125 * (i % 3))
        to += sprintf(to, "%s%.4f", i ? ", " : "", x);
}

/* dt of a diffusion whose bounds were found beforehand and are `factor` times as large; 0: its job
 * does not make use of them at all. */
static double time_step(const char *params, int coordinates, double factor)
{
    const struct array_type line = {DTYPE_F64, 1, {POINTS}, POINTS * 8};
    char list[1024], text[2048];
    struct request request;
    struct failure failure = {0};
    struct job job;
    uint8_t *block = NULL;
    bool has_msgid;
    write_coordinates(list, coordinates);
    snprintf(text, sizeof text,
             "[0, 1, \"diffusion\", [{\"f\": {\"field\": 5}, \"steps\": 1, \"cfl\": 0.5, "
             "\"spacing\": {\"x\": [%s]}, %s}]]",
             list, params);
    msgpack_unpacked unpacked = notation_object(text);
    assert_true(request_decode(&unpacked.data, &request, &has_msgid, &failure));
    request_bounds_list(&request, &room.bounds);
    request_bounds_find(&room.bounds);
    assert_int_equal(room.bounds.count, 1);
    room.bounds.at[0].bound *= factor;
    if (factor > 0)
        request_bounds_give(&request, &room.bounds);
    if (!request_job(&request, &line, 1e15, &job, &block, &failure))
        fail_msg("%s: %s", params, failure.message);
    free(block);
    request_free(&request);
    msgpack_unpacked_destroy(&unpacked);
    return job.dt;
}

/* Beside every kind of side: else the loop would find them a second time. */
static void a_job_takes_the_bounds_found_before(void **state)
{
    (void)state;
    static const struct {
        const char *params;
        int extra; /* coordinates */
    } cases[] = {
        {"\"accuracy\": 2", 1},
        {"\"batch\": 0", 1}, /* accuracy 8 */
        {"\"boundary\": \"periodic\", \"accuracy\": 4", 1},
        {"\"endpoint\": true", 0},
        {"\"endpoint\": {\"x\": true}, \"boundary\": {\"x\": \"periodic\"}", 0},
        {"\"boundary\": \"mirror\"", 0},
        {"\"boundary\": {\"*\": \"symmetric\"}", 0},
        {"\"boundary\": {\"x-\": \"antisymmetric\", \"x+\": {\"value\": 0}}", 0},
        {"\"boundary\": {\"x\": {\"value\": 1, \"at\": \"face\"}}", 0},
        {"\"boundary\": {\"derivative\": 0}", 0},
        {"\"boundary\": {\"derivative\": 3, \"at\": \"face\"}, \"accuracy\": 6", 0},
        {"\"boundary\": {\"x-\": {\"mixed\": 2, \"const\": 1}, \"*\": {\"mixed\": 3, \"const\": "
         "1}}",
         0},
        {"\"boundary\": {\"mixed\": 2, \"const\": 1, \"at\": \"face\"}, \"diffusivity\": 3", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int coordinates = POINTS + cases[i].extra;
        const double alone = time_step(cases[i].params, coordinates, 0);
        assert_true(time_step(cases[i].params, coordinates, 1) == alone);
        assert_true(time_step(cases[i].params, coordinates, 4) == alone / 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_job_takes_the_bounds_found_before)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "protocol/request_bounds.h"
#include "protocol/request_job.h"
#include "tests/unit/notation.h"
#include "tests/unit/unit.h"

enum { POINTS = 40 };

#define FIELD "'accuracy': 2, 'diffusivity': {'field': 7}"

static union {
    struct request_bounds bounds;
    uint8_t bytes[1 << 20];
} room;
static struct request_bounds axes;

static void write_coordinates(char *to, int count)
{
    double x = -3;
    for (int i = 0; i < count; i++, x += 0.25 + 0.125 * (i % 3))
        to += sprintf(to, "%s%.4f", i ? ", " : "", x);
}

/* The spacing that is as stiff as the axis of a diffusion whose bounds were found beforehand and
 * are `factor` times as large; 0: its job does not make use of them at all. */
static double stiffness(const char *params, int coordinates, double factor)
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
             "[0, 1, 'diffusion', [{'f': {'field': 5}, 'steps': 1, 'cfl': 0.5, "
             "'spacing': {'x': [%s]}, %s}]]",
             list, params);
    msgpack_unpacked unpacked = notation_object(text);
    assert_true(request_decode(&unpacked.data, &request, &has_msgid, &failure));
    request.operand[OPERAND_COEFFICIENT].type = line; /* as admission finds that of a field */
    request_bounds_list(&request, &axes);
    request_bounds_copy(&axes, &room.bounds);
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
    return job.spacing[AXIS_X];
}

/* For every kind of side: otherwise the loop would compute the bounds again. */
TEST(a_job_takes_the_bounds_found_before)
{
    static const struct {
        const char *params;
        int extra; /* coordinates */
    } cases[] = {
        {"'accuracy': 2", 1},
        {"'batch': 0", 1}, /* accuracy 8 */
        {"'boundary': 'periodic', 'accuracy': 4", 1},
        {"'endpoint': true", 0},
        {"'endpoint': {'x': true}, 'boundary': {'x': 'periodic'}", 0},
        {"'boundary': 'mirror'", 0},
        {"'boundary': {'*': 'symmetric'}", 0},
        {"'boundary': {'x-': 'antisymmetric', 'x+': {'value': 0}}", 0},
        {"'boundary': {'x': {'value': 1, 'at': 'face'}}", 0},
        {"'boundary': {'derivative': 0}", 0},
        {"'boundary': {'derivative': 3, 'at': 'face'}, 'accuracy': 6", 0},
        {"'boundary': {'x-': {'mixed': 2, 'const': 1}, '*': {'mixed': 3, 'const': 1}}", 0},
        {"'boundary': {'mixed': 2, 'const': 1, 'at': 'face'}, 'diffusivity': 3", 0},
        {FIELD, 1},
        {"'boundary': {'x-': {'value': 0}, 'x+': {'derivative': 3, 'at': 'face'}}, " FIELD, 0},
        {"'boundary': {'mixed': 2, 'const': 1}, " FIELD, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int coordinates = POINTS + cases[i].extra;
        const double alone = stiffness(cases[i].params, coordinates, 0);
        assert_true(stiffness(cases[i].params, coordinates, 1) == alone);
        assert_true(stiffness(cases[i].params, coordinates, 4) == alone / 2);
    }
}

/* The number of bounds of a chain of two diffusions along the same coordinates. */
static uint32_t bounds_of(const char *one, const char *other)
{
    char list[1024], text[4096];
    struct request request;
    struct failure failure = {0};
    bool has_msgid;
    write_coordinates(list, POINTS);
    snprintf(text, sizeof text,
             "[0, 1, 'chain', [{'ops': ["
             "{'op': 'diffusion', 'f': {'field': 5}, 'steps': 1, 'cfl': 0.5, 'out': "
             "'u', 'boundary': 'mirror', 'spacing': {'x': [%s]}, %s}, "
             "{'op': 'diffusion', 'f': 'u', 'steps': 1, 'cfl': 0.5, "
             "'boundary': 'mirror', 'spacing': {'x': [%s]}, %s}]}]]",
             list, one, list, other);
    msgpack_unpacked unpacked = notation_object(text);
    if (!request_decode(&unpacked.data, &request, &has_msgid, &failure))
        fail_msg("%s", failure.message);
    request_bounds_list(&request, &axes);
    request_bounds_copy(&axes, &room.bounds);
    request_free(&request);
    msgpack_unpacked_destroy(&unpacked);
    return room.bounds.count;
}

/* Their rows differ. */
TEST(a_field_has_other_bounds_than_a_number)
{
    static const char *const number = "'accuracy': 2, 'diffusivity': 3";
    assert_int_equal(bounds_of(number, number), 1);
    assert_int_equal(bounds_of(FIELD, FIELD), 1);
    assert_int_equal(bounds_of(number, FIELD), 2);
}

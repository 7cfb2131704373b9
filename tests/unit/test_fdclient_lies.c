/* libfdclient against a server that sends false replies: no byte of the client's memory is read or
 * written beyond the request, and no earlier answer changes. AddressSanitizer detects accesses to
 * memory that belongs to no array. */
#include "client/fdclient.h"

#include "protocol/object.h"
#include "protocol/reply.h"
#include "tests/lib/scripted.h"
#include "tests/unit/unit.h"

#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct fdclient_array by_id = {.field = 5};

enum { POINTS = 2000, BYTES = 4 * POINTS, BEHIND = 64 << 10 };

/* A place for a result, and memory behind it that is not its own. */
struct place {
    uint8_t data[BYTES], behind[BEHIND];
};

static struct place *place_make(struct fdclient_result *result)
{
    struct place *place = malloc(sizeof *place);
    memset(place, 0xa5, sizeof *place);
    *result = (struct fdclient_result){.data = place->data, .capacity = sizeof place->data};
    return place;
}

static void place_check(struct place *place)
{
    for (size_t i = 0; i < sizeof place->behind; i++)
        if (place->behind[i] != 0xa5)
            fail_msg("byte %zu behind the result was written", i);
    free(place);
}

/* Pack a bin of that many bytes. */
static void pack_bytes(msgpack_packer *packer, size_t bytes)
{
    char *data = calloc(1, bytes);
    msgpack_pack_bin(packer, bytes);
    msgpack_pack_bin_body(packer, data, bytes);
    free(data);
}

/* [1, id, nil, {"out": an array of POINTS whose data is these bins (0: their end). */
static void say_bins(struct scripted *s, uint64_t id, const size_t *bins)
{
    const struct array_type type = scripted_type(POINTS);
    uint32_t count = 0;
    while (bins[count])
        count++;
    msgpack_packer *packer = scripted_out(s, id, &type);
    s->buffer.size -= 3; /* the header of its one bin: c5 and 2 bytes */
    if (count > 1)
        msgpack_pack_array(packer, count);
    for (uint32_t i = 0; i < count; i++)
        pack_bytes(packer, bins[i]);
    scripted_flush(s);
}

/* --- more data than the shape says ------------------------------------------------------------ */

static const size_t too_long[][4] = {
    {BYTES + 4}, {BYTES + BEHIND}, {BYTES, 4}, {1, BYTES - 1, BEHIND}, {5000, 5000}};
enum { TOO_LONG = sizeof too_long / sizeof *too_long };

static void script_too_long(struct scripted *s)
{
    for (uint64_t id = 1; id <= TOO_LONG; id++) {
        scripted_skip(s, 1);
        say_bins(s, id, too_long[id - 1]);
    }
    scripted_answer_array(s, TOO_LONG + 1, POINTS);
}

TEST(test_more_data_than_its_shape)
{
    static const size_t pieces[] = {0, 1000, 4096};
    for (int p = 0; p < 3; p++) {
        struct fdclient *client = scripted_begin(script_too_long, pieces[p]);
        struct fdclient_error error;
        struct fdclient_result result;
        for (int i = 0; i < TOO_LONG; i++) {
            struct place *place = place_make(&result);
            assert_false(fdclient_get(client, 5, &result, &error));
            assert_string_equal(error.code, "CONNECTION");
            assert_non_null(strstr(error.message, "more data"));
            place_check(place);
        }
        struct place *place = place_make(&result);
        assert_true(fdclient_get(client, 5, &result, &error));
        scripted_check_array(&result, TOO_LONG + 1, POINTS);
        place_check(place);
        scripted_end(client);
    }
}

/* The same of snapshots, whose memory is the library's. */
static void script_snapshots_too_long(struct scripted *s)
{
    scripted_skip(s, 1);
    for (int i = 0; i < TOO_LONG + 1; i++) {
        const struct array_type type = scripted_type(POINTS);
        msgpack_packer *packer = scripted_write(s);
        reply_write_snapshot(packer, 1, (uint64_t)i, 0);
        array_write_header(packer, &type);
        s->buffer.size -= 3;
        if (i == TOO_LONG) { /* an honest one */
            pack_bytes(packer, BYTES);
        } else {
            uint32_t count = 0;
            while (too_long[i][count])
                count++;
            msgpack_pack_array(packer, count);
            for (uint32_t b = 0; b < count; b++)
                pack_bytes(packer, too_long[i][b]);
        }
        scripted_flush(s);
    }
    scripted_say_array(s, 1, 10);
}

static void note_snapshot(void *context, const struct fdclient_snapshot *snapshot)
{
    uint64_t *steps = context;
    assert_int_equal(snapshot->array.shape[0], POINTS);
    *steps = *steps * 10 + snapshot->step;
}

TEST(test_a_snapshot_of_more_data_than_its_shape)
{
    static const size_t pieces[] = {0, 1000, 4096};
    for (int p = 0; p < 3; p++) {
        struct fdclient *client = scripted_begin(script_snapshots_too_long, pieces[p]);
        struct fdclient_result result = {0};
        uint64_t steps = 0;
        fdclient_on_snapshot(client, note_snapshot, &steps);
        assert_true(fdclient_run(client, "diffusion", &by_id, NULL, &result, NULL));
        assert_int_equal(steps, TOO_LONG);
        scripted_check_array(&result, 1, 10);
        free(result.data);
        scripted_end(client);
    }
}

/* --- places in regions ------------------------------------------------------------------------ */

/* The server's answer to a job whose result goes to the place (region, offset). */
static const struct lie {
    uint64_t region, offset; /* added to those */
    uint64_t points;
    const char *name; /* of the component, of a result that has none; two letters: of a Hessian */
} lies[] = {{1, 0, POINTS, NULL},
            {0, 16, POINTS, NULL},
            {0, 0, BEHIND, NULL}, /* 4 times the region of the pool */
            {0, 0, UINT64_C(1) << 40, NULL},
            {0, 0, POINTS, "y"},
            {0, 0, POINTS, "zz"}};
enum { LIES = sizeof lies / sizeof *lies };

static void say_region(struct scripted *s, uint64_t id, const struct lie *lie, uint64_t region,
                       uint64_t offset)
{
    const struct array_type type = scripted_type(lie->points);
    msgpack_packer *packer = scripted_reply(s, id, "out");
    if (lie->name) {
        msgpack_pack_map(packer, 1);
        reply_write_str(packer, lie->name);
    }
    reply_write_region(packer, region + lie->region, offset + lie->offset, &type);
    scripted_flush(s);
}

/* Registers every region, under the request's id, and answers the first jobs with lies, then one
 * with the truth. */
static void script_regions(struct scripted *s)
{
    static const struct lie truth = {.points = POINTS};
    for (int job = 0; job <= LIES;) {
        msgpack_unpacked request;
        if (!scripted_hear(s, &request))
            return;
        const msgpack_object *items = request.data.via.array.ptr;
        const uint64_t id = items[1].via.u64;
        const msgpack_object *out = object_find(items[3].via.array.ptr, "out");
        uint64_t region = 0, offset = 0;
        if (object_is(&items[2], "register")) {
            scripted_say_region(s, id);
        } else {
            if (out)
                s->failed = s->failed || !object_unsigned(object_find(out, "region"), &region) ||
                            !object_unsigned(object_find(out, "offset"), &offset);
            say_region(s, id, job < LIES ? &lies[job] : &truth, region, offset);
            job++;
        }
        msgpack_unpacked_destroy(&request);
    }
}

static void check_lies(struct fdclient *client, const void *input, struct fdclient_result *result)
{
    const struct fdclient_array f = {.dimensions = 1, .shape = {POINTS}, .data = input};
    struct fdclient_error error;
    for (int i = 0; i < LIES; i++) {
        const struct fdclient_result given = *result;
        struct fdclient_result results[FDCLIENT_RESULTS] = {{0}};
        if (lies[i].name && lies[i].name[1])
            assert_false(fdclient_run_vector(client, "hessian", &f, 1, NULL, results,
                                             FDCLIENT_RESULTS, &error));
        else
            assert_false(fdclient_run(client, "laplacian", &f, NULL, result, &error));
        assert_string_equal(error.code, "CONNECTION");
        assert_non_null(strstr(error.message, "not asked for"));
        assert_ptr_equal(result->data, given.data);
        *result = given;
    }
}

TEST(test_another_place_in_the_pool, scripted_by_regions, scripted_by_socket)
{
    static const float input[POINTS];
    struct fdclient_result result = {0};
    const struct fdclient_array f = {.dimensions = 1, .shape = {POINTS}, .data = input};
    struct fdclient *client = scripted_begin(script_regions, 0);
    check_lies(client, input, &result);
    assert_true(fdclient_run(client, "laplacian", &f, NULL, &result, NULL));
    assert_int_equal(result.bytes, BYTES);
    free(result.data);
    scripted_end(client);
}

/* An array larger than requested, in a region of the pool that would hold it: it must not overflow
 * the caller's memory. */
static void script_larger_than_its_place(struct scripted *s)
{
    static const struct lie larger = {.points = 2 * POINTS};
    for (bool is_job = false; !is_job;) {
        msgpack_unpacked request;
        if (!scripted_hear(s, &request))
            return;
        const msgpack_object *items = request.data.via.array.ptr;
        const msgpack_object *out = object_find(items[3].via.array.ptr, "out");
        const uint64_t id = items[1].via.u64;
        uint64_t region = 0;
        if (out && (is_job = object_unsigned(object_find(out, "region"), &region))) {
            say_region(s, id, &larger, region, 0);
        } else {
            scripted_say_region(s, id);
        }
        msgpack_unpacked_destroy(&request);
    }
}

TEST(test_a_larger_array_than_its_place, scripted_by_regions, scripted_by_socket)
{
    static const float input[POINTS];
    struct fdclient_result result;
    struct fdclient_error error;
    const struct fdclient_array f = {.dimensions = 1, .shape = {POINTS}, .data = input};
    struct fdclient *client = scripted_begin(script_larger_than_its_place, 0);
    struct place *place = place_make(&result);
    assert_false(fdclient_run(client, "laplacian", &f, NULL, &result, &error));
    assert_string_equal(error.code, "TOO_LARGE");
    place_check(place);
    scripted_end(client);
}

TEST(test_another_place_in_memory_of_the_callers)
{
    setenv("FDCLIENT_TRANSPORT", "", 1);
    struct fdclient *client = scripted_begin(script_regions, 0);
    uint8_t *memory = fdclient_alloc(client, (size_t)2 << 16);
    memset(memory, 0xa5, (size_t)2 << 16);
    struct fdclient_result result = {.data = memory + (1 << 16), .capacity = BYTES};
    const struct fdclient_array f = {.dimensions = 1, .shape = {POINTS}, .data = memory};
    for (int i = 0; i < LIES; i++) {
        struct fdclient_error error;
        assert_false(fdclient_run(client, "laplacian", &f, NULL, &result, &error));
        /* A requested place that is too small: the error reports it. */
        assert_string_equal(error.code, lies[i].points > POINTS ? "TOO_LARGE" : "CONNECTION");
    }
    assert_true(fdclient_run(client, "laplacian", &f, NULL, &result, NULL));
    assert_ptr_equal(result.data, memory + (1 << 16));
    for (size_t i = 0; i < (size_t)2 << 16; i++)
        assert_int_equal(memory[i], 0xa5);
    fdclient_dealloc(client, memory);
    setenv("FDCLIENT_TRANSPORT", "socket", 1);
    scripted_end(client);
}

/* A job whose result comes over the socket has no place in a region: not even in region 0. */
static void script_no_region(struct scripted *s)
{
    static const struct lie nowhere = {.points = POINTS};
    scripted_skip(s, 1);
    say_region(s, 1, &nowhere, 0, 0);
}

TEST(test_a_region_for_a_result_of_the_socket)
{
    struct fdclient *client = scripted_begin(script_no_region, 0);
    struct fdclient_result result = {0};
    struct fdclient_error error;
    assert_false(fdclient_get(client, 5, &result, &error));
    assert_string_equal(error.code, "CONNECTION");
    assert_null(result.data);
    scripted_end(client);
}

/* --- fields ----------------------------------------------------------------------------------- */

/* A small array under another key, and a large field as "out": the result must not combine the
 * memory of the one with the shape of the other. */
static void script_fields(struct scripted *s)
{
    static const char field[] = "\xa3out\x83\xa5"
                                "field\x07\xa5shape\x91\xce\x10\0\0\0\xa4type\xa3<f8";
    for (uint64_t id = 1; id <= 3; id++) {
        const struct array_type small = scripted_type(POINTS);
        scripted_skip(s, 1);
        msgpack_packer *packer = scripted_write(s);
        reply_write_begin(packer, id);
        msgpack_pack_map(packer, id == 1 ? 2 : 1);
        if (id == 1) {
            reply_write_str(packer, "report");
            array_write_header(packer, &small);
            s->buffer.size -= 3;
            pack_bytes(packer, BYTES);
        }
        msgpack_sbuffer_write(&s->buffer, field, sizeof field - 1);
        scripted_flush(s);
    }
}

TEST(test_a_field_beside_data_or_for_an_array)
{
    struct fdclient *client = scripted_begin(script_fields, 0);
    struct fdclient_params params = FDCLIENT_PARAMS;
    struct fdclient_error error;
    struct fdclient_result result = {0};
    params.out_is_field = true;
    assert_false(fdclient_run(client, "laplacian", &by_id, &params, &result, &error));
    assert_string_equal(error.code, "CONNECTION");
    assert_null(result.data);
    assert_int_equal(result.field, 0);
    struct place *place = place_make(&result); /* no field was asked for */
    assert_false(fdclient_run(client, "laplacian", &by_id, NULL, &result, &error));
    assert_string_equal(error.code, "CONNECTION");
    place_check(place);
    result = (struct fdclient_result){0};
    assert_true(fdclient_run(client, "laplacian", &by_id, &params, &result, &error));
    assert_int_equal(result.field, 7);
    scripted_end(client);
}

/* --- a second reply --------------------------------------------------------------------------- */

enum { LARGE = 1 << 22 }; /* points; more than a socket takes */

/* Answers twice while the request is being sent: the ticket still waits for its array to be sent.
 */
static void answer_twice(struct scripted *s, void (*say)(struct scripted *, uint64_t reply))
{
    char some[4096];
    s->failed = recv(s->peer, some, sizeof some, MSG_PEEK | MSG_WAITALL) != sizeof some;
    say(s, 0);
    say(s, 1);
    /* No more of the request is taken before the client has read both. */
    for (int unread = 1; unread > 0 && !s->failed; usleep(1000))
        s->failed = ioctl(s->peer, SIOCOUTQ, &unread) != 0;
    scripted_skip(s, 1);
}

static void say_put(struct scripted *s, uint64_t reply)
{
    char put[] = "\x94\x01\x01\xc0\x81\xa5"
                 "field\x07";
    put[sizeof put - 2] += (char)reply;
    scripted_say(s, put, sizeof put - 1);
}

static void script_put_twice(struct scripted *s)
{
    answer_twice(s, say_put);
}

static void say_small(struct scripted *s, uint64_t reply)
{
    const struct array_type type = scripted_type(2);
    scripted_out(s, 1, &type);
    const float data[2] = {(float)reply, 3};
    msgpack_sbuffer_write(&s->buffer, (const char *)data, sizeof data);
    scripted_flush(s);
}

static void script_small_twice(struct scripted *s)
{
    answer_twice(s, say_small);
}

static void say_large(struct scripted *s, uint64_t reply)
{
    const size_t whole[] = {BYTES, 0};
    if (reply)
        scripted_say_array(s, 1, POINTS);
    else
        say_bins(s, 1, whole); /* zeros */
}

static void script_large_twice(struct scripted *s)
{
    answer_twice(s, say_large);
}

TEST(test_a_second_reply)
{
    void (*const scripts[])(struct scripted *) = {script_put_twice, script_small_twice,
                                                  script_large_twice};
    float *data = calloc(LARGE, sizeof *data);
    const struct fdclient_array f = {.dimensions = 1, .shape = {LARGE}, .data = data};
    for (int i = 0; i < 3; i++) {
        struct fdclient *client = scripted_begin(scripts[i], 0);
        struct fdclient_result result = {0};
        struct fdclient_error error;
        uint64_t ticket;
        assert_true(
            fdclient_submit(client, i ? "laplacian" : "put", &f, NULL, &result, &ticket, &error));
        assert_true(fdclient_wait(client, ticket, &error));
        if (i == 0)
            assert_int_equal(result.field, 7);
        else
            assert_true(((const float *)result.data)[0] == 0);
        free(result.data);
        scripted_end(client);
    }
    free(data);
}

int main(void)
{
    setenv("FDCLIENT_TRANSPORT", "socket", 1);
    return unit_run(NULL, NULL);
}

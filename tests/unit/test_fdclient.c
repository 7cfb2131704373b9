/* libfdclient against a server that sends exactly the test's bytes. */
#include "client/connection.h"

#include "client/error.h"
#include "protocol/array.h"
#include "protocol/object.h"
#include "protocol/reply.h"
#include "tests/lib/scripted.h"
#include "tests/unit/unit.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static const struct fdclient_array by_id = {.field = 5};

/* --- replies in every cut -------------------------------------------------------------------- */

static const uint64_t sizes[] = {1, 30, 1023, 1024, 1025, 3000, 20000, 70001};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void script_sizes(struct scripted *s)
{
    for (uint64_t id = 1; id <= SIZES; id++) {
        scripted_answer_array(s, id, sizes[id - 1]);
    }
}

TEST(test_replies_in_pieces)
{
    static const size_t pieces[] = {1, 2, 3, 7, 61, 1000, 65536, 0};
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++)
        for (int own = 0; own < 2; own++) { /* into memory of the caller's, or the client's */
            struct fdclient *client = scripted_begin(script_sizes, pieces[p]);
            for (uint64_t id = 1; id <= SIZES; id++) {
                const size_t room = 4 * sizes[id - 1];
                struct fdclient_result result = {.data = own ? malloc(room) : NULL,
                                                 .capacity = own ? room : 0};
                assert_true(fdclient_get(client, 5, &result, NULL));
                assert_int_equal(result.allocated, !own);
                scripted_check_array(&result, id, sizes[id - 1]);
                free(result.data);
            }
            scripted_end(client);
        }
}

static void script_reversed(struct scripted *s)
{
    scripted_skip(s, 20);
    for (uint64_t id = 20; id >= 1; id--)
        scripted_say_array(s, id, 500 * id);
}

TEST(test_replies_in_any_order)
{
    struct fdclient *client = scripted_begin(script_reversed, 4097);
    struct fdclient_result results[20] = {0};
    struct fdclient_error error;
    uint64_t ticket;
    for (int i = 0; i < 20; i++) {
        assert_true(fdclient_submit(client, "get", &by_id, NULL, &results[i], &ticket, &error));
        assert_int_equal(ticket, i + 1);
    }
    /* The loop described in the header. */
    for (uint64_t wanted = 20; wanted > 0;) {
        struct pollfd wait = {fdclient_descriptor(client), fdclient_events(client), 0};
        assert_true(wait.events & POLLIN);
        assert_int_equal(poll(&wait, 1, -1), 1);
        assert_true(fdclient_process(client, &error));
        for (; fdclient_next(client, &ticket, &error) == 1; wanted--)
            assert_int_equal(ticket, wanted);
    }
    for (uint64_t id = 1; id <= 20; id++) {
        scripted_check_array(&results[id - 1], id, 500 * id);
        free(results[id - 1].data);
    }
    scripted_end(client);
}

static void script_list_of_bins(struct scripted *s)
{
    static const size_t bins[] = {0, 1, 5000, 3, 6988, 8, 0};
    for (uint64_t id = 1; id <= 2; id++) {
        scripted_skip(s, 1);
        const struct array_type type = scripted_type(3000);
        msgpack_packer *packer = scripted_out(s, id, &type);
        s->buffer.size -= 3; /* a list takes the place of its one bin's header, c5 and 2 bytes */
        msgpack_pack_array(packer, 7);
        for (size_t b = 0, at = 0; b < 7; at += bins[b++]) {
            msgpack_pack_bin(packer, bins[b]);
            scripted_write_bytes(s, id, at, bins[b]);
        }
        scripted_flush(s);
    }
}

TEST(test_a_list_of_bins)
{
    for (size_t piece = 0; piece < 4; piece++) {
        struct fdclient *client = scripted_begin(script_list_of_bins, piece);
        for (uint64_t id = 1; id <= 2; id++) {
            scripted_get_array(client, id, 3000);
        }
        scripted_end(client);
    }
}

/* Vector fields of every size, z before x: components are told apart by their keys. */
static void script_vectors(struct scripted *s)
{
    for (uint64_t id = 1; id <= SIZES; id++) {
        static const char order[] = "zxy";
        const uint64_t n = sizes[id - 1];
        const struct array_type type = scripted_type(n);
        scripted_skip(s, 1);
        msgpack_packer *packer = scripted_reply(s, id, "out");
        msgpack_pack_map(packer, 3);
        for (int k = 0; k < 3; k++) {
            const char axis[] = {order[k], '\0'};
            reply_write_str(packer, axis);
            array_write_header(packer, &type);
            scripted_write_bytes(s, id + (uint64_t)axis[0], 0, type.bytes);
        }
        scripted_flush(s);
    }
}

TEST(test_vectors_in_pieces)
{
    static const size_t pieces[] = {1, 3, 61, 1000, 65536, 0};
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
        struct fdclient *client = scripted_begin(script_vectors, pieces[p]);
        struct fdclient_error error;
        for (uint64_t id = 1; id <= SIZES; id++) {
            struct fdclient_result results[FDCLIENT_AXES] = {{0}};
            if (id == SIZES / 2) { /* too few places: an error, and the next reply arrives */
                assert_false(
                    fdclient_run_vector(client, "gradient", &by_id, 1, NULL, results, 2, &error));
                assert_string_equal(error.code, "TOO_LARGE");
                assert_null(results[0].data);
                continue;
            }
            assert_true(
                fdclient_run_vector(client, "gradient", &by_id, 1, NULL, results, 3, &error));
            for (uint64_t c = 0; c < FDCLIENT_AXES; c++) {
                scripted_check_array(&results[c], id + 'x' + c, sizes[id - 1]);
                free(results[c].data);
            }
        }
        scripted_end(client);
    }
}

static void script_vector_fields(struct scripted *s)
{
    scripted_answer(s, "\x94\x01\x01\xc0\x81\xa3out\x82"
                       "\xa1x\x83\xa5"
                       "field\x07\xa5shape\x92\x02\x03\xa4type\xa3<f8\xa1y\x83\xa5"
                       "field\x08\xa5shape\x92\x02\x03\xa4type\xa3<f8");
}

TEST(test_resident_vectors)
{
    struct fdclient *client = scripted_begin(script_vector_fields, 5);
    struct fdclient_params params = FDCLIENT_PARAMS;
    struct fdclient_result results[FDCLIENT_AXES] = {{0}};
    params.out_is_field = true;
    assert_true(fdclient_run_vector(client, "gradient", &by_id, 1, &params, results, 3, NULL));
    assert_int_equal(results[0].field, 7);
    assert_int_equal(results[1].field, 8);
    assert_int_equal(results[1].bytes, 48);
    assert_int_equal(results[2].field, 0);
    assert_int_equal(results[2].bytes, 0);
    scripted_end(client);
}

/* --- errors ---------------------------------------------------------------------------------- */

static void script_failure(struct scripted *s)
{
    const struct failure failure = {.code = STATUS_OVER_BUDGET,
                                    .has_need = true,
                                    .need = 4096,
                                    .limit = 1024,
                                    .parameter = "f",
                                    .message = "no room"};
    scripted_skip(s, 1);
    reply_write_failure(scripted_write(s), 1, &failure);
    scripted_flush(s);
    /* an error that is no map */
    scripted_answer(s, "\x94\x01\x02\xa4oops\xc0");
    scripted_answer_array(s, 3, 10);
}

TEST(test_errors_from_the_server)
{
    struct fdclient *client = scripted_begin(script_failure, 5);
    struct fdclient_error error;
    struct fdclient_result result = {0};
    assert_false(fdclient_get(client, 5, &result, &error));
    assert_string_equal(error.code, "OVER_BUDGET");
    assert_string_equal(error.parameter, "f");
    assert_string_equal(error.message, "no room");
    assert_true(error.retryable && error.has_limit && error.need == 4096 && error.limit == 1024);
    assert_false(fdclient_get(client, 5, &result, &error));
    assert_string_equal(error.code, "INTERNAL");
    assert_string_equal(error.message, "oops");
    assert_false(error.retryable);
    scripted_get_array(client, 3, 10);
    scripted_end(client);
}

/* A job, a request to cancel it and another job; the first is cancelled when the last has arrived.
 */
static void script_cancel(struct scripted *s)
{
    msgpack_unpacked request;
    scripted_skip(s, 1);
    if (!scripted_hear(s, &request))
        return;
    const msgpack_object *items = request.data.via.array.ptr;
    uint64_t id = 0;
    const msgpack_object *msgid = object_find(items[3].via.array.ptr, "msgid");
    s->failed = s->failed || !object_is(&items[2], "cancel") || items[1].via.u64 != 2 || !msgid ||
                !object_unsigned(msgid, &id) || id != 1;
    msgpack_unpacked_destroy(&request);
    scripted_skip(s, 1);
    msgpack_packer *packer = scripted_write(s);
    struct failure failure = {0};
    failure_set(&failure, STATUS_CANCELLED, NULL, "cancelled");
    reply_write_begin(packer, 2);
    msgpack_pack_map(packer, 1);
    reply_write_str(packer, "state");
    reply_write_str(packer, "cancelled");
    reply_write_failure(packer, 1, &failure);
    scripted_flush(s);
    scripted_say_array(s, 3, 10);
}

TEST(test_cancel)
{
    struct fdclient *client = scripted_begin(script_cancel, 7);
    struct fdclient_error error;
    struct fdclient_result results[2] = {{0}, {0}};
    uint64_t first, second, ticket;
    assert_true(fdclient_submit(client, "get", &by_id, NULL, &results[0], &first, &error));
    assert_true(fdclient_cancel(client, first, &error));
    assert_true(fdclient_submit(client, "get", &by_id, NULL, &results[1], &second, &error));
    assert_true(fdclient_wait(client, second, &error));
    scripted_check_array(&results[1], 3, 10);
    free(results[1].data);
    assert_true(fdclient_cancel(client, first, &error)); /* over, and not taken yet */
    assert_int_equal(fdclient_next(client, &ticket, &error), -1);
    assert_true(ticket == first && !error.retryable);
    assert_string_equal(error.code, "CANCELLED");
    assert_int_equal(fdclient_next(client, &ticket, &error), 0); /* nothing of the cancel's own */
    assert_false(fdclient_cancel(client, first, &error));
    assert_string_equal(error.parameter, "ticket");
    scripted_end(client);
}

static void script_two_sizes(struct scripted *s)
{
    scripted_answer_array(s, 1, 20000);
    scripted_answer_array(s, 2, 600);
    scripted_answer_array(s, 3, 500);
}

TEST(test_a_result_too_large_is_dropped_and_the_next_arrives)
{
    static const size_t pieces[] = {0, 1, 4096};
    for (int p = 0; p < 3; p++) {
        struct fdclient *client = scripted_begin(script_two_sizes, pieces[p]);
        struct fdclient_error error;
        for (int i = 0; i < 2; i++) { /* one whose data is payload, one that is small */
            struct fdclient_result result = {.data = malloc(2000), .capacity = 2000};
            assert_false(fdclient_get(client, 5, &result, &error));
            assert_string_equal(error.code, "TOO_LARGE");
            assert_true(error.has_limit && error.limit == 2000);
            free(result.data);
        }
        struct fdclient_result result = {.data = malloc(2000), .capacity = 2000};
        assert_true(fdclient_get(client, 5, &result, &error));
        scripted_check_array(&result, 3, 500);
        free(result.data);
        scripted_end(client);
    }
}

/* The shape has n points, the data another length. */
static void say_lie(struct scripted *s, uint64_t id, uint64_t n, uint32_t data_bytes)
{
    struct array_type type = scripted_type(n);
    type.bytes = 100000;
    msgpack_packer *packer = scripted_out(s, id, &type);
    s->buffer.size -= 5; /* bin32 */
    msgpack_pack_bin(packer, data_bytes);
    char *data = calloc(1, data_bytes);
    msgpack_sbuffer_write(&s->buffer, data, data_bytes);
    scripted_flush(s);
    free(data);
}

static void script_lies(struct scripted *s)
{
    scripted_skip(s, 1);
    say_lie(s, 1, 2000, 8004);
    scripted_skip(s, 1);
    say_lie(s, 2, 2000, 7996);
    scripted_skip(s, 1);
    say_lie(s, 3, 10, 44);
    scripted_skip(s, 1);
    say_lie(s, 4, UINT64_C(1) << 62, 8000);
    scripted_answer(s, "\x94\x01\x05\xc0\x80"); /* no out */
    scripted_answer(s, "\x94\x01\x06\xc0\x07"); /* no map */
    scripted_answer_array(s, 99, 5000);         /* nobody asked for it */
    scripted_say_array(s, 7, 5000);
}

TEST(test_replies_that_make_no_sense)
{
    struct fdclient *client = scripted_begin(script_lies, 999);
    struct fdclient_error error;
    for (int i = 0; i < 6; i++) {
        struct fdclient_result result = {0};
        assert_false(fdclient_get(client, 5, &result, &error));
        assert_string_equal(error.code, "CONNECTION");
        assert_null(result.data);
    }
    scripted_get_array(client, 7, 5000);
    scripted_end(client);
}

static void script_garbage(struct scripted *s)
{
    scripted_answer(s, "\xc1");
}

static void script_not_rpc(struct scripted *s)
{
    scripted_answer(s, "\x93\x05\x06\x07");
}

static void script_silence(struct scripted *s)
{
    s->leaves = true;
    scripted_skip(s, 1);
}

static void script_half_a_header(struct scripted *s)
{
    s->leaves = true;
    scripted_answer(s, "\x94\x01\x01\xc0\x81\xa3ou");
}

static void script_half_a_payload(struct scripted *s)
{
    s->leaves = true;
    const struct array_type type = {
        .dtype = DTYPE_F64, .dimensions = 1, .shape = {100000}, .bytes = 800000};
    scripted_skip(s, 1);
    scripted_out(s, 1, &type);
    static const char half[400000];
    msgpack_sbuffer_write(&s->buffer, half, sizeof half);
    scripted_flush(s);
}

TEST(test_the_server_goes_away)
{
    void (*const scripts[])(struct scripted *) = {script_garbage, script_not_rpc, script_silence,
                                                  script_half_a_header, script_half_a_payload};
    for (int i = 0; i < 5; i++) {
        struct fdclient *client = scripted_begin(scripts[i], 0);
        struct fdclient_result results[3] = {0};
        struct fdclient_error error;
        uint64_t ticket;
        for (int job = 0; job < 3; job++)
            assert_true(
                fdclient_submit(client, "get", &by_id, NULL, &results[job], &ticket, &error));
        assert_false(fdclient_wait(client, 1, &error));
        assert_string_equal(error.code, "CONNECTION");
        assert_true(error.retryable && error.message[0]);
        for (uint64_t job = 2; job <= 3; job++) {
            assert_int_equal(fdclient_next(client, &ticket, &error), -1);
            assert_int_equal(ticket, job);
            assert_string_equal(error.code, "CONNECTION");
            assert_null(results[job - 1].data);
        }
        assert_int_equal(fdclient_next(client, &ticket, &error), 0);
        assert_false(fdclient_process(client, &error));
        assert_false(fdclient_submit(client, "ping", NULL, NULL, &results[0], &ticket, &error));
        assert_string_equal(error.code, "CONNECTION");
        assert_int_equal(fdclient_events(client), 0);
        scripted_end(client);
    }
}

static void script_leaves_in_an_upload(struct scripted *s)
{
    char some[1000];
    s->leaves = true;
    s->failed = recv(s->peer, some, sizeof some, 0) <= 0;
}

TEST(test_the_server_goes_away_during_an_upload)
{
    struct fdclient *client = scripted_begin(script_leaves_in_an_upload, 0);
    struct fdclient_error error;
    float *data = calloc(1 << 22, sizeof *data);
    const struct fdclient_array f = {.dimensions = 1, .shape = {1 << 22}, .data = data};
    uint64_t field;
    assert_false(fdclient_put(client, &f, &field, &error));
    assert_string_equal(error.code, "CONNECTION");
    scripted_end(client);
    free(data);
}

static void script_leaves_at_register(struct scripted *s)
{
    scripted_skip(s, 1);
    s->leaves = true;
}

TEST(test_the_server_goes_away_instead_of_taking_a_region, scripted_by_regions, scripted_by_socket)
{
    struct fdclient *client = scripted_begin(script_leaves_at_register, 0);
    struct fdclient_error error;
    static float data[1 << 10];
    const struct fdclient_array f = {.dimensions = 1, .shape = {1 << 10}, .data = data};
    uint64_t field;
    for (int i = 0; i < 2; i++) {
        assert_false(fdclient_put(client, &f, &field, &error));
        assert_string_equal(error.code, "CONNECTION");
    }
    scripted_end(client);
}

/* `register` is answered while it still waits behind an upload: the region is not used before its
 * descriptor has been sent. */
static void script_registers_early(struct scripted *s)
{
    char some[4096];
    msgpack_unpacked request;
    s->failed = recv(s->peer, some, sizeof some, MSG_PEEK | MSG_WAITALL) != sizeof some;
    scripted_say_text(s, "\x94\x01\x02\xc0\x81\xa6region\x05");
    scripted_skip(s, 2);
    if (!scripted_hear(s, &request))
        return;
    const msgpack_object *items = request.data.via.array.ptr;
    s->failed = s->failed || !object_is(&items[2], "unregister");
    msgpack_unpacked_destroy(&request);
    scripted_say_text(s, "\x94\x01\x01\xc0\x81\xa5"
                         "field\x07");
}

TEST(test_a_region_that_is_answered_before_it_is_sent)
{
    setenv("FDCLIENT_TRANSPORT", "", 1);
    struct fdclient *client = scripted_begin(script_registers_early, 0);
    float *data = calloc(1 << 22, sizeof *data);
    const struct fdclient_array f = {.dimensions = 1, .shape = {1 << 22}, .data = data};
    struct fdclient_result result = {0};
    uint64_t ticket;
    assert_true(fdclient_submit(client, "put", &f, NULL, &result, &ticket, NULL));
    fdclient_dealloc(client, fdclient_alloc(client, 4096));
    assert_true(fdclient_wait(client, ticket, NULL));
    assert_int_equal(result.field, 7);
    setenv("FDCLIENT_TRANSPORT", "socket", 1);
    scripted_end(client);
    free(data);
}

/* Where a test sets it, time stands still. */
static _Atomic time_t now_s;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!now_s)
        return __real_clock_gettime(clock, now);
    *now = (struct timespec){.tv_sec = now_s};
    return 0;
}

static int time_goes_on(void **state)
{
    now_s = 0;
    return scripted_by_socket(state);
}

static enum status refusal; /* STATUS_OK: an answer that makes no sense */

/* Refuses one region, takes the next, and a job. */
static void script_refuses_a_region(struct scripted *s)
{
    const struct failure failure = {.code = refusal, .message = "no region"};
    scripted_skip(s, 1);
    if (refusal != STATUS_OK) {
        reply_write_failure(scripted_write(s), 1, &failure);
        scripted_flush(s);
    } else {
        scripted_say_text(s, "\x94\x01\x01\xc0\x80");
    }
    msgpack_unpacked request;
    if (!scripted_hear(s, &request)) {
        s->failed = false; /* the client may leave */
        return;
    }
    s->failed = s->failed || !object_is(&request.data.via.array.ptr[2], "register");
    msgpack_unpacked_destroy(&request);
    scripted_say_region(s, 2);
    scripted_answer(s, "\x94\x01\x03\xc0\x81\xa5"
                       "field\x07");
}

/* The server may have room later: it is asked again, though not for each job. */
TEST(test_a_refused_region_is_asked_for_again, scripted_by_regions, time_goes_on)
{
    static const struct {
        enum status status;
        const char *code;
        bool later;
    } cases[] = {{STATUS_OVER_BUDGET, "OVER_BUDGET", true},
                 {STATUS_OUT_OF_MEMORY, "OUT_OF_MEMORY", true},
                 {STATUS_UNSUPPORTED, "UNSUPPORTED", false},
                 {STATUS_OK, ERROR_CONNECTION, false}};
    static const float data[16];
    const struct fdclient_array f = {.dimensions = 1, .shape = {16}, .data = data};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        refusal = cases[i].status;
        struct fdclient *client = scripted_begin(script_refuses_a_region, 0);
        struct fdclient_error error;
        uint64_t field;
        now_s = 1000;
        for (int job = 0; job < 3; job++) {
            assert_false(fdclient_put(client, &f, &field, &error));
            assert_string_equal(error.code, cases[i].code);
        }
        assert_true(list_empty(&client->regions)); /* the memory has gone */
        now_s++;
        assert_true(fdclient_put(client, &f, &field, &error) == cases[i].later);
        scripted_end(client);
    }
}

/* Takes regions, answers every job with that status, and leaves when one is given up: was one? */
static bool sees_a_region_given_up(struct scripted *s, enum status status)
{
    bool gives_up = false;
    for (uint64_t id = 1; !gives_up; id++) {
        msgpack_unpacked request;
        if (!scripted_hear(s, &request))
            break; /* the client has left */
        const msgpack_object *method = &request.data.via.array.ptr[2];
        gives_up = object_is(method, "unregister");
        if (object_is(method, "register")) {
            scripted_say_region(s, id);
        } else {
            struct failure failure = {0};
            failure_set(&failure, status, NULL, "no job is done here");
            reply_write_failure(scripted_write(s), id, &failure);
            scripted_flush(s);
        }
        msgpack_unpacked_destroy(&request);
    }
    s->leaves = true;
    return gives_up;
}

static void script_takes_regions(struct scripted *s)
{
    s->failed = sees_a_region_given_up(s, STATUS_NOT_FOUND);
}

static void script_stops_jobs(struct scripted *s)
{
    s->failed = !sees_a_region_given_up(s, STATUS_TIMEOUT);
}

/* A stopped job may be answered while a hanging worker can still write its result: the pool's
 * memory for it is given to no other job. */
TEST(test_memory_of_a_stopped_job_is_given_up, scripted_by_regions, scripted_by_socket)
{
    struct fdclient *client = scripted_begin(script_stops_jobs, 0);
    float data[16] = {0}, out[16];
    const struct fdclient_array f = {.dimensions = 1, .shape = {16}, .data = data};
    struct fdclient_result result = {.data = out, .capacity = sizeof out};
    struct fdclient_error error;
    assert_false(fdclient_run(client, "derivative", &f, NULL, &result, &error));
    assert_string_equal(error.code, "TIMEOUT");
    assert_false(fdclient_run(client, "derivative", &f, NULL, &result, &error));
    scripted_end(client);
}

/* The pool has room for two of three results: it frees neither these for the third, nor any other
 * memory that would not help. */
TEST(test_results_that_the_pool_has_no_room_for, scripted_by_regions, scripted_by_socket)
{
    struct fdclient *client = scripted_begin(script_takes_regions, 0);
    const struct fdclient_array f = {.dimensions = 3, .shape = {1, 1, 1}, .field = 7};
    struct fdclient_result results[3];
    struct fdclient_error error;
    uint8_t place[3]; /* nothing will be written there */
    uint64_t ticket;
    results[0] = (struct fdclient_result){.data = place, .capacity = 1};
    assert_false(fdclient_get(client, 7, results, &error));
    assert_string_equal(error.code, "NOT_FOUND");
    for (int i = 0; i < 3; i++)
        results[i] = (struct fdclient_result){.data = &place[i], .capacity = (size_t)384 << 20};
    assert_false(
        fdclient_submit_vector(client, "gradient", &f, 1, NULL, results, 3, &ticket, &error));
    assert_string_equal(error.code, "OVER_BUDGET");
    scripted_end(client);
}

TEST(test_closing_with_jobs_under_way)
{
    struct fdclient *client = scripted_begin(script_half_a_payload, 0);
    struct fdclient_result result = {0};
    uint64_t ticket;
    assert_true(fdclient_submit(client, "get", &by_id, NULL, &result, &ticket, NULL));
    while (!result.data && fdclient_process(client, NULL)) /* until its payload is on the way */
        continue;
    fdclient_close(client);
    assert_null(result.data); /* given up, as ASan can tell */
    scripted_end(NULL);
}

/* --- a lot under way ------------------------------------------------------------------------- */

enum { JOBS = 48 };
#define JOB_POINTS (UINT64_C(1) << 19)

/* Answers each request before it reads the next: two sides that only write would deadlock. */
static void script_echo(struct scripted *s)
{
    for (uint64_t id = 1; id <= JOBS && !s->failed; id++) {
        msgpack_unpacked request;
        if (!scripted_hear(s, &request))
            return;
        const msgpack_object *params = request.data.via.array.ptr[3].via.array.ptr;
        const msgpack_object *data = object_find(object_find(params, "f"), "data");
        const struct array_type type = scripted_type(JOB_POINTS);
        scripted_out(s, id, &type);
        scripted_flush(s);
        s->failed = s->failed || data->via.bin.size != type.bytes;
        if (!s->failed)
            scripted_say(s, data->via.bin.ptr, type.bytes);
        msgpack_unpacked_destroy(&request);
    }
}

TEST(test_many_large_jobs_before_the_first_reply_is_read)
{
    struct fdclient *client = scripted_begin(script_echo, 0);
    struct fdclient_result results[JOBS] = {0};
    struct fdclient_error error;
    uint8_t *data = malloc(4 * JOB_POINTS);
    for (size_t i = 0; i < 4 * JOB_POINTS; i++)
        data[i] = scripted_byte(0, i);
    const struct fdclient_array f = {.dimensions = 1, .shape = {JOB_POINTS}, .data = data};
    uint64_t ticket;
    for (int i = 0; i < JOBS; i++)
        assert_true(fdclient_submit(client, "laplacian", &f, NULL, &results[i], &ticket, &error));
    for (uint64_t id = JOBS; id >= 1; id--)
        assert_true(fdclient_wait(client, id, &error));
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(results[i].bytes, 4 * JOB_POINTS);
        assert_memory_equal(results[i].data, data, 4 * JOB_POINTS);
        free(results[i].data);
    }
    assert_false(fdclient_wait(client, 1, &error)); /* taken already */
    assert_string_equal(error.parameter, "ticket");
    scripted_end(client);
    free(data);
}

/* The answer arrives before the upload has ended: the ticket waits for the array's last byte. */
static void script_early_refusal(struct scripted *s)
{
    char some[4096];
    s->failed = recv(s->peer, some, sizeof some, MSG_WAITALL) != sizeof some;
    scripted_say_text(s, "\x94\x01\x01\x81\xa4"
                         "code\xaaQUEUE_FULL\xc0");
    size_t rest = 0;
    while (rest < 4 << 22) {
        char more[65536];
        const ssize_t count = recv(s->peer, more, sizeof more, 0);
        if (count <= 0) {
            s->failed = true;
            return;
        }
        rest += (size_t)count;
        if (rest + 4096 >= 4 << 22)
            break;
    }
}

TEST(test_a_refusal_before_the_upload_has_ended)
{
    struct fdclient *client = scripted_begin(script_early_refusal, 0);
    struct fdclient_error error;
    float *data = calloc(1 << 22, sizeof *data);
    const struct fdclient_array f = {.dimensions = 1, .shape = {1 << 22}, .data = data};
    uint64_t field;
    assert_false(fdclient_put(client, &f, &field, &error));
    free(data); /* borrowed no longer */
    assert_string_equal(error.code, "QUEUE_FULL");
    assert_true(error.retryable);
    scripted_end(client);
}

/* --- the other methods ----------------------------------------------------------------------- */

static void script_methods(struct scripted *s)
{
    scripted_answer(s, "\x94\x01\x01\xc0\x81\xa5"
                       "field\xcf\xff\xff\xff\xff\xff\xff\xff\xfe");
    scripted_answer(s, "\x94\x01\x02\xc0\x80");
    scripted_answer(s, "\x94\x01\x03\xc0\x82\xa1"
                       "a\x93\x01\xcb\x3f\xe0\0\0\0\0\0\0\xc0\xa1\"\xa1\n");
    scripted_answer(s, "\x94\x01\x04\xc0\x81\xa3out\x83\xa5"
                       "field\x07\xa5shape\x92\x02\x03\xa4type\xa3<f8");
}

TEST(test_put_free_call_and_fields)
{
    struct fdclient *client = scripted_begin(script_methods, 1);
    struct fdclient_error error;
    const float data[3] = {1, 2, 3};
    const struct fdclient_array f = {.dimensions = 1, .shape = {3}, .data = data};
    uint64_t field;
    char *json;
    assert_true(fdclient_put(client, &f, &field, &error));
    assert_true(field == UINT64_MAX - 1);
    assert_true(fdclient_free(client, field, &error));
    assert_true(fdclient_call(client, "info", &json, &error));
    assert_string_equal(json, "{\"a\": [1, 0.5, null], \"\\\"\": \"\\n\"}");
    free(json);
    struct fdclient_params params = FDCLIENT_PARAMS;
    params.out_is_field = true;
    struct fdclient_result result = {0};
    assert_true(fdclient_run(client, "laplacian", &by_id, &params, &result, &error));
    assert_int_equal(result.field, 7);
    assert_int_equal(result.dtype, FDCLIENT_F64);
    assert_int_equal(result.dimensions, 2);
    assert_int_equal(result.bytes, 48);
    assert_null(result.data);
    scripted_end(client);
}

static void script_long_list(struct scripted *s)
{
    scripted_skip(s, 1);
    msgpack_packer *packer = scripted_reply(s, 1, "fields");
    msgpack_pack_array(packer, 65536);
    for (uint32_t i = 0; i < 65536; i++) {
        msgpack_pack_map(packer, 1);
        reply_write_str(packer, "field");
        msgpack_pack_uint64(packer, i);
    }
    scripted_flush(s);
}

TEST(test_a_list_of_all_the_fields_a_user_may_have)
{
    struct fdclient *client = scripted_begin(script_long_list, 0);
    char *json;
    assert_true(fdclient_call(client, "list", &json, NULL));
    assert_non_null(strstr(json, "{\"field\": 65535}]}"));
    free(json);
    scripted_end(client);
}

static void script_progress(struct scripted *s)
{
    msgpack_packer *packer = scripted_write(s);
    scripted_skip(s, 1);
    reply_write_progress(packer, 1, 10, 30);
    reply_write_progress(packer, 77, 1, 2);                      /* of no job here */
    msgpack_sbuffer_write(&s->buffer, "\x93\x02\xa3new\x90", 7); /* of a later server */
    reply_write_progress(packer, 1, 20, 30);
    scripted_flush(s);
    scripted_say_array(s, 1, 3);
}

static void note_progress(void *context, uint64_t ticket, uint64_t done, uint64_t total)
{
    char *text = context;
    snprintf(text + strlen(text), 64, "%d: %d of %d; ", (int)ticket, (int)done, (int)total);
}

TEST(test_progress)
{
    struct fdclient *client = scripted_begin(script_progress, 3);
    char text[256] = "";
    struct fdclient_result result = {0};
    fdclient_on_progress(client, note_progress, text);
    assert_true(fdclient_run(client, "diffusion", &by_id, NULL, &result, NULL));
    assert_string_equal(text, "1: 10 of 30; 1: 20 of 30; ");
    free(result.data);
    scripted_end(client);
}

/* --- wrong use ------------------------------------------------------------------------------- */

static void script_one(struct scripted *s)
{
    scripted_answer_array(s, 1, 3);
}

TEST(test_a_refused_submit_leaves_the_connection_as_it_was)
{
    struct fdclient *client = scripted_begin(script_one, 0);
    struct fdclient_error error;
    struct fdclient_result result = {0};
    const struct fdclient_array wrong = {.dimensions = 0, .data = client};
    uint64_t ticket;
    assert_false(fdclient_submit(client, "laplacian", &wrong, NULL, &result, &ticket, &error));
    assert_string_equal(error.code, "INVALID_ARGUMENT");
    const struct fdclient_array neither = {.dimensions = 1, .shape = {3}};
    assert_false(fdclient_submit(client, "laplacian", &neither, NULL, &result, &ticket, &error));
    assert_non_null(strstr(error.message, "data is NULL"));
    assert_false(fdclient_submit(client, "laplacian", &by_id, NULL, NULL, &ticket, &error));
    assert_string_equal(error.parameter, "result");
    scripted_get_array(client, 1, 3);
    scripted_end(client);
}

TEST(test_addresses)
{
    char long_path[256] = "unix:/";
    memset(long_path + 6, 'a', 120);
    const struct {
        const char *address, *code;
    } cases[] = {{"unix:/nowhere/at/all", "CONNECTION"},
                 {"tcp:127.0.0.1:1", "INVALID_ARGUMENT"},
                 {"unix:", "INVALID_ARGUMENT"},
                 {"", "INVALID_ARGUMENT"},
                 {long_path, "INVALID_ARGUMENT"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fdclient_error error;
        assert_null(fdclient_open(cases[i].address, &error));
        assert_string_equal(error.code, cases[i].code);
    }
    assert_null(fdclient_open("unix:", NULL));
    setenv("FDSERVER_SOCKET", "unix:/nowhere/by/environment", 1);
    struct fdclient_error error;
    assert_null(fdclient_open(NULL, &error));
    assert_non_null(strstr(error.message, "/nowhere/by/environment"));
    unsetenv("FDSERVER_SOCKET");
}

static _Atomic int alarms;

static void count_alarm(int number)
{
    (void)number;
    alarms++;
}

/* Let the client that waits for its turn in, once a signal has interrupted it. */
static void *accept_two(void *listener)
{
    while (!alarms)
        usleep(1000);
    close(accept(*(int *)listener, NULL, NULL));
    close(accept(*(int *)listener, NULL, NULL));
    return NULL;
}

TEST(test_a_signal_while_connecting)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "/tmp/fdclient-%d.sock", (int)getpid());
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0), first = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 0), 0); /* room for one */
    assert_int_equal(connect(first, (struct sockaddr *)&at, sizeof at), 0);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = count_alarm}, NULL);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_t thread;
    pthread_sigmask(SIG_BLOCK, &alarm, NULL); /* in the other thread */
    assert_int_equal(pthread_create(&thread, NULL, accept_two, (void *)&listener), 0);
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 50000}, NULL);
    struct fdclient_error error = {0};
    struct fdclient *client = fdclient_open(at.sun_path, &error);
    assert_string_equal(error.message, "");
    assert_int_equal(
        getpeername(fdclient_descriptor(client), (struct sockaddr *)&at, &(socklen_t){sizeof at}),
        0);
    fdclient_close(client);
    pthread_join(thread, NULL);
    unlink(at.sun_path);
    close(first);
    close(listener);
}

int main(void)
{
    /* These servers send only the test's bytes: no `register` in between. */
    setenv("FDCLIENT_TRANSPORT", "socket", 1);
    return unit_run(NULL, NULL);
}

#include "client/connection.h"

#include "client/json.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static const struct route inline_all;

static bool begin(struct outgoing *out, uint64_t id, const char *method,
                  const struct fdclient_array *f, uint32_t f_count,
                  const struct fdclient_params *params, struct fdclient_error *error)
{
    struct call call = {.method = method, .f = f, .f_count = f_count, .params = params};
    return call_types(&call, error) && outgoing_init(out, id, &call, &inline_all, error);
}

/* A request without an array's data, as JSON. */
static void check_vector(const char *method, const struct fdclient_array *f, uint32_t f_count,
                         const struct fdclient_params *params, const char *wanted)
{
    struct outgoing out;
    struct fdclient_error error;
    assert_true(begin(&out, 300, method, f, f_count, params, &error));
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    size_t offset = 0, length;
    assert_int_equal(msgpack_vrefbuffer_veclen(out.pieces), 1);
    const struct iovec *control = msgpack_vrefbuffer_vec(out.pieces);
    assert_int_equal(msgpack_unpack_next(&unpacked, control->iov_base, control->iov_len, &offset),
                     MSGPACK_UNPACK_SUCCESS);
    assert_int_equal(offset, control->iov_len);
    char *text;
    FILE *file = open_memstream(&text, &length);
    json_write(file, &unpacked.data, 0);
    fclose(file);
    assert_string_equal(text, wanted);
    free(text);
    msgpack_unpacked_destroy(&unpacked);
    outgoing_free(&out);
}

static void check(const char *method, const struct fdclient_array *f,
                  const struct fdclient_params *params, const char *wanted)
{
    check_vector(method, f, 1, params, wanted);
}

static const struct fdclient_array by_id = {.field = 9};

TEST(test_methods)
{
    check("ping", NULL, NULL, "[0, 300, \"ping\", [{}]]");
    check("get", &by_id, NULL, "[0, 300, \"get\", [{\"field\": 9}]]");
    check("free", &by_id, NULL, "[0, 300, \"free\", [{\"field\": 9}]]");
    check("laplacian", &by_id, NULL, "[0, 300, \"laplacian\", [{\"f\": {\"field\": 9}}]]");
}

TEST(test_parameters)
{
    const struct fdclient_params none = FDCLIENT_PARAMS;
    check("derivative", &by_id, &none, "[0, 300, \"derivative\", [{\"f\": {\"field\": 9}}]]");
    struct fdclient_params all = {.axis = "-1",
                                  .order = 2,
                                  .accuracy = 4,
                                  .spacing = "x=0.5,*=2",
                                  .boundary = "x=periodic,y-=value:0.25,*=halo:1",
                                  .endpoint = "x=true,y=false",
                                  .batch = 1,
                                  .steps = UINT64_MAX,
                                  .dt = 0.25,
                                  .cfl = 0.5,
                                  .diffusivity = "[1, 2.5]",
                                  .allow_unstable = true,
                                  .progress = true,
                                  .priority = -5,
                                  .placement = "cuda:1",
                                  .timeout_us = 2500000,
                                  .detach = true,
                                  .out_is_field = true,
                                  .out_field = {8}};
    check("diffusion", &by_id, &all,
          "[0, 300, \"diffusion\", [{\"axis\": -1, \"order\": 2, \"accuracy\": 4, "
          "\"spacing\": {\"x\": 0.5, \"*\": 2}, "
          "\"boundary\": {\"x\": \"periodic\", \"y-\": {\"value\": 0.25}, \"*\": {\"halo\": 1}}, "
          "\"endpoint\": {\"x\": true, \"y\": false}, \"batch\": 1, "
          "\"steps\": 18446744073709551615, \"dt\": 0.25, \"cfl\": 0.5, \"diffusivity\": [1, 2.5], "
          "\"allow_unstable\": true, \"progress\": true, \"priority\": -5, \"placement\": "
          "\"cuda:1\", \"timeout\": 2500000, "
          "\"detach\": true, \"out\": {\"field\": 8}, \"f\": {\"field\": 9}}]]");
    struct fdclient_params some = FDCLIENT_PARAMS;
    some.axis = "z";
    some.spacing = "0.3,0.2,0.1";
    some.boundary = "{\"x\": {\"value\": 1}}";
    some.endpoint = "true";
    some.out_is_field = true;
    check("derivative", &by_id, &some,
          "[0, 300, \"derivative\", [{\"axis\": \"z\", \"spacing\": [0.3, 0.2, 0.1], "
          "\"boundary\": {\"x\": {\"value\": 1}}, \"endpoint\": true, \"out\": \"field\", "
          "\"f\": {\"field\": 9}}]]");
}

TEST(test_boundaries_in_short)
{
    static const struct {
        const char *text, *sent;
    } cases[] = {
        {"mirror", "\"mirror\""},
        {"value:0.5@face", "{\"value\": 0.5, \"at\": \"face\"}"},
        {"mixed:2:3", "{\"mixed\": 2, \"const\": 3}"},
        {"x-=mixed:2:3@node,*=symmetric",
         "{\"x-\": {\"mixed\": 2, \"const\": 3, \"at\": \"node\"}, \"*\": \"symmetric\"}"},
        {"symmetric@face", "{\"type\": \"symmetric\", \"at\": \"face\"}"},
        {"derivative:field:9223372036854775807",
         "{\"derivative\": {\"field\": 9223372036854775807}}"},
        {"mixed:field:7:field:8@face",
         "{\"mixed\": {\"field\": 7}, \"const\": {\"field\": 8}, \"at\": \"face\"}"},
        {"value:field:seven", "{\"value\": \"field:seven\"}"},
        {"mixed:1:", "{\"mixed\": 1, \"const\": \"\"}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char message[300];
        struct fdclient_params params = FDCLIENT_PARAMS;
        params.boundary = cases[i].text;
        snprintf(message, sizeof message,
                 "[0, 300, \"laplacian\", [{\"boundary\": %s, \"f\": {\"field\": 9}}]]",
                 cases[i].sent);
        check("laplacian", &by_id, &params, message);
    }
}

TEST(test_less_usual_parameters)
{
    struct fdclient_params params = FDCLIENT_PARAMS;
    params.stagger = "backward";
    params.coefficient = "field:5";
    params.offsets = "[[-1], [0], [1]]";
    params.weights = "0.25,0.5,0.25";
    params.source = "-2.5";
    params.scheme = "rk4";
    params.diffusivity = "field:18446744073709551615";
    check("diffusion", &by_id, &params,
          "[0, 300, \"diffusion\", [{\"stagger\": \"backward\", \"coefficient\": {\"field\": 5}, "
          "\"offsets\": [[-1], [0], [1]], \"weights\": [0.25, 0.5, 0.25], "
          "\"diffusivity\": {\"field\": 18446744073709551615}, \"source\": -2.5, "
          "\"scheme\": \"rk4\", \"f\": {\"field\": 9}}]]");
}

TEST(test_vectors)
{
    const struct fdclient_array ids[] = {{.field = 1}, {.field = 2}, {.field = 3}};
    struct fdclient_params params = FDCLIENT_PARAMS;
    params.out_is_field = true;
    params.out_field[0] = 7;
    check_vector(
        "divergence", ids, 3, &params,
        "[0, 300, \"divergence\", [{\"out\": {\"field\": 7}, \"f\": {\"x\": {\"field\": 1}, "
        "\"y\": {\"field\": 2}, \"z\": {\"field\": 3}}}]]");
    check_vector("divergence", ids, 1, NULL,
                 "[0, 300, \"divergence\", [{\"f\": {\"x\": {\"field\": 1}}}]]");
    check_vector("gradient", ids, 1, &params,
                 "[0, 300, \"gradient\", [{\"out\": {\"x\": {\"field\": 7}}, \"f\": {\"field\": "
                 "1}}]]");
    params.out_field[1] = 8;
    check_vector("curl", ids, 2, &params,
                 "[0, 300, \"curl\", [{\"out\": {\"x\": {\"field\": 7}, \"y\": {\"field\": 8}}, "
                 "\"f\": {\"x\": {\"field\": 1}, \"y\": {\"field\": 2}}}]]");
    struct outgoing out;
    struct fdclient_error error;
    assert_false(begin(&out, 1, "curl", ids, 4, NULL, &error));
    assert_string_equal(error.parameter, "f");
    assert_false(begin(&out, 1, "curl", ids, 0, NULL, &error));
}

TEST(test_parameters_without_form)
{
    static const char *const texts[] = {"",     "x=", "=1",        "x=1,", "x=1,2",
                                        "1,,2", "{",  "{\"x\": }", "[1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct outgoing out;
        struct fdclient_error error;
        struct fdclient_params params = FDCLIENT_PARAMS;
        params.spacing = texts[i];
        assert_false(begin(&out, 1, "laplacian", &by_id, 1, &params, &error));
        assert_string_equal(error.code, "INVALID_ARGUMENT");
        assert_string_equal(error.parameter, "spacing");
    }
}

TEST(test_arrays_without_sense)
{
    static const struct fdclient_array arrays[] = {
        {.dimensions = 0, .data = &by_id},
        {.dimensions = 9, .data = &by_id},
        {.dimensions = 1, .shape = {0}, .data = &by_id},
        {.dimensions = 2, .shape = {UINT64_MAX, UINT64_MAX}, .data = &by_id},
        {.dimensions = 2, .shape = {1 << 30, 1 << 30}, .data = &by_id},
        {.dtype = (enum fdclient_dtype)7, .dimensions = 1, .shape = {1}, .data = &by_id},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        struct outgoing out;
        struct fdclient_error error;
        assert_false(begin(&out, 1, "laplacian", &arrays[i], 1, NULL, &error));
        assert_string_equal(error.parameter, "f");
    }
}

/* The pieces' bytes without the payload, and the size of the payload, which must be contiguous
 * from `data`. */
static size_t pieces_take(const struct outgoing *out, const char *data, uint8_t *headers,
                          uint64_t *payload)
{
    size_t length = 0;
    *payload = 0;
    for (size_t i = 0; i < msgpack_vrefbuffer_veclen(out->pieces); i++) {
        const struct iovec *piece = &msgpack_vrefbuffer_vec(out->pieces)[i];
        if (i % 2 == 1) {
            assert_ptr_equal(piece->iov_base, data + *payload);
            *payload += piece->iov_len;
        } else {
            memcpy(headers + length, piece->iov_base, piece->iov_len);
            length += piece->iov_len;
        }
    }
    return length;
}

TEST(test_one_bin)
{
    static const char data[24];
    const struct fdclient_array f = {.dimensions = 2, .shape = {2, 3}, .data = data};
    static const uint8_t wanted[] = "\x94\x00\x01\xa3put\x91\x81\xa1"
                                    "f\x85\xc4\x02nd\xc3\xc4\x04type\xa3<f4\xc4\x04kind\xc4\x00"
                                    "\xc4\x05shape\x92\x02\x03\xc4\x04"
                                    "data\xc4\x18"; /* as msgpack-numpy writes it */
    struct outgoing out;
    uint8_t headers[256];
    uint64_t payload;
    assert_true(begin(&out, 1, "put", &f, 1, NULL, NULL));
    const size_t length = pieces_take(&out, data, headers, &payload);
    assert_int_equal(length, sizeof wanted - 1);
    assert_memory_equal(headers, wanted, length);
    assert_int_equal(payload, sizeof data);
    outgoing_free(&out);
}

/* Three arrays of a vector field: each after its header, without a copy. */
TEST(test_a_vector_inline)
{
    static const double data[3][4];
    struct fdclient_array f[3];
    for (int i = 0; i < 3; i++)
        f[i] = (struct fdclient_array){FDCLIENT_F64, 1, {4}, data[i], 0};
    struct outgoing out;
    assert_true(begin(&out, 1, "divergence", f, 3, NULL, NULL));
    const struct iovec *pieces = msgpack_vrefbuffer_vec(out.pieces);
    assert_int_equal(msgpack_vrefbuffer_veclen(out.pieces), 6);
    uint8_t message[1024];
    size_t length = 0;
    for (size_t i = 0; i < 6; i++) {
        assert_true(i % 2 == 0 || pieces[i].iov_base == data[i / 2]);
        memcpy(message + length, pieces[i].iov_base, pieces[i].iov_len);
        length += pieces[i].iov_len;
    }
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    size_t offset = 0;
    assert_int_equal(msgpack_unpack_next(&unpacked, (char *)message, length, &offset),
                     MSGPACK_UNPACK_SUCCESS);
    assert_int_equal(offset, length);
    msgpack_unpacked_destroy(&unpacked);
    outgoing_free(&out);
}

/* 2^32 + 4 bytes do not fit one bin: two of 2^31 and one of 4. Nothing of the data is touched. */
TEST(test_a_list_of_bins)
{
    const char *data = (const char *)&by_id;
    const struct fdclient_array f = {
        .dimensions = 1, .shape = {(UINT64_C(1) << 30) + 1}, .data = data};
    struct outgoing out;
    uint8_t headers[256];
    uint64_t payload;
    assert_true(begin(&out, 1, "put", &f, 1, NULL, NULL));
    assert_int_equal(msgpack_vrefbuffer_veclen(out.pieces), 6);
    const size_t length = pieces_take(&out, data, headers, &payload);
    static const uint8_t wanted[] = "data\x93\xc6\x80\0\0\0\xc6\x80\0\0\0\xc4\x04";
    assert_memory_equal(headers + length - (sizeof wanted - 1), wanted, sizeof wanted - 1);
    assert_int_equal(payload, (UINT64_C(1) << 32) + 4);
    outgoing_free(&out);
}

/* Each byte is in one of the pieces. */
TEST(test_the_bins_of_large_arrays)
{
    static const uint64_t edges[] = {UINT64_C(1) << 30, UINT64_C(1) << 31, UINT64_C(1) << 32,
                                     UINT64_C(3) << 30};
    for (size_t e = 0; e < sizeof edges / sizeof *edges; e++)
        for (uint64_t points = edges[e] - 1; points <= edges[e] + 1; points++)
            for (uint32_t components = 1; components <= 3; components += 2) {
                const char *data = (const char *)&by_id;
                struct fdclient_array f[3];
                for (uint32_t i = 0; i < components; i++)
                    f[i] =
                        (struct fdclient_array){.dimensions = 1, .shape = {points}, .data = data};
                struct outgoing out;
                uint64_t payload = 0;
                assert_true(begin(&out, 1, components > 1 ? "divergence" : "put", f, components,
                                  NULL, NULL));
                for (size_t i = 1; i < msgpack_vrefbuffer_veclen(out.pieces); i += 2)
                    payload += msgpack_vrefbuffer_vec(out.pieces)[i].iov_len;
                assert_true(payload == components * 4 * points);
                outgoing_free(&out);
            }
}

#include "tests/lib/scripted.h"

#include "protocol/reply.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void scripted_say(struct scripted *s, const void *bytes, size_t length)
{
    for (size_t done = 0; done < length && !s->failed;) {
        size_t count = length - done;
        if (s->piece > 0 && count > s->piece)
            count = s->piece;
        const ssize_t sent = send(s->peer, (const char *)bytes + done, count, MSG_NOSIGNAL);
        s->failed = sent <= 0;
        done += sent > 0 ? (size_t)sent : 0;
    }
}

msgpack_packer *scripted_write(struct scripted *s)
{
    reply_buffer_init(&s->buffer, &s->packer);
    return &s->packer;
}

void scripted_flush(struct scripted *s)
{
    scripted_say(s, s->buffer.data, s->buffer.size);
    msgpack_sbuffer_destroy(&s->buffer);
}

msgpack_packer *scripted_reply(struct scripted *s, uint64_t id, const char *key)
{
    msgpack_packer *packer = scripted_write(s);
    reply_write_begin(packer, id);
    msgpack_pack_map(packer, 1);
    reply_write_str(packer, key);
    return packer;
}

msgpack_packer *scripted_out(struct scripted *s, uint64_t id, const struct array_type *type)
{
    msgpack_packer *packer = scripted_reply(s, id, "out");
    array_write_header(packer, type);
    return packer;
}

void scripted_say_region(struct scripted *s, uint64_t id)
{
    msgpack_pack_uint64(scripted_reply(s, id, "region"), id);
    scripted_flush(s);
}

struct array_type scripted_type(uint64_t n)
{
    return (struct array_type){.dtype = DTYPE_F32, .dimensions = 1, .shape = {n}, .bytes = 4 * n};
}

bool scripted_hear(struct scripted *s, msgpack_unpacked *request)
{
    msgpack_unpacked_init(request);
    for (;;) {
        const msgpack_unpack_return got = msgpack_unpacker_next(&s->unpacker, request);
        if (got == MSGPACK_UNPACK_SUCCESS)
            return true;
        msgpack_unpacker_reserve_buffer(&s->unpacker, 1 << 16);
        const ssize_t count = got == MSGPACK_UNPACK_CONTINUE
                                  ? recv(s->peer, msgpack_unpacker_buffer(&s->unpacker), 1 << 16, 0)
                                  : -1;
        if (count <= 0) {
            s->failed = true;
            return false;
        }
        msgpack_unpacker_buffer_consumed(&s->unpacker, (size_t)count);
    }
}

void scripted_skip(struct scripted *s, int n)
{
    for (int i = 0; i < n; i++) {
        msgpack_unpacked request;
        scripted_hear(s, &request);
        msgpack_unpacked_destroy(&request);
    }
}

static void *serve(void *context)
{
    struct scripted *s = context;
    s->peer = accept(s->listener, NULL, NULL);
    if (s->peer < 0)
        return NULL; /* a test that does not connect */
    msgpack_unpacker_init(&s->unpacker, 1 << 16);
    s->script(s);
    char byte;
    if (!s->leaves)
        recv(s->peer, &byte, 1, 0);
    msgpack_unpacker_destroy(&s->unpacker);
    close(s->peer);
    return NULL;
}

static struct scripted server;

struct fdclient *scripted_begin(void (*script)(struct scripted *), size_t piece)
{
    struct scripted *s = &server;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    *s = (struct scripted){.folder = "/tmp/fdclient-XXXXXX", .script = script, .piece = piece};
    assert_non_null(mkdtemp(s->folder));
    snprintf(at.sun_path, sizeof at.sun_path, "%s/socket", s->folder);
    snprintf(s->address, sizeof s->address, "unix:%s", at.sun_path);
    s->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(s->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(s->listener, 1), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
    struct fdclient_error error;
    struct fdclient *client = fdclient_open(s->address, &error);
    assert_non_null(client);
    return client;
}

void scripted_end(struct fdclient *client)
{
    struct scripted *s = &server;
    if (client)
        fdclient_close(client);
    pthread_join(s->thread, NULL);
    close(s->listener);
    unlink(s->address + 5);
    rmdir(s->folder);
    assert_false(client && s->failed);
}

uint8_t scripted_byte(uint64_t id, size_t i)
{
    return (uint8_t)(i * 7 + i / 251 + id);
}

void scripted_write_bytes(struct scripted *s, uint64_t id, size_t from, size_t count)
{
    for (size_t i = from; i < from + count; i++)
        msgpack_sbuffer_write(&s->buffer, (char[]){(char)scripted_byte(id, i)}, 1);
}

void scripted_say_array(struct scripted *s, uint64_t id, uint64_t n)
{
    const struct array_type type = scripted_type(n);
    scripted_out(s, id, &type);
    scripted_write_bytes(s, id, 0, type.bytes);
    scripted_flush(s);
}

void scripted_check_array(const struct fdclient_result *result, uint64_t id, uint64_t n)
{
    assert_int_equal(result->dtype, FDCLIENT_F32);
    assert_int_equal(result->dimensions, 1);
    assert_int_equal(result->shape[0], n);
    assert_int_equal(result->bytes, 4 * n);
    const uint8_t *bytes = result->data;
    for (size_t i = 0; i < 4 * n; i++)
        if (bytes[i] != scripted_byte(id, i))
            fail_msg("byte %zu is wrong", i);
}

void scripted_answer_array(struct scripted *s, uint64_t id, uint64_t n)
{
    scripted_skip(s, 1);
    scripted_say_array(s, id, n);
}

void scripted_get_array(struct fdclient *client, uint64_t id, uint64_t n)
{
    struct fdclient_result result = {0};
    assert_true(fdclient_get(client, 5, &result, NULL));
    scripted_check_array(&result, id, n);
    free(result.data);
}

int scripted_by_regions(void **state)
{
    (void)state;
    return setenv("FDCLIENT_TRANSPORT", "region", 1);
}

int scripted_by_socket(void **state)
{
    (void)state;
    return setenv("FDCLIENT_TRANSPORT", "socket", 1);
}

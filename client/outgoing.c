#include "client/outgoing.h"

#include "client/error.h"
#include "client/params.h"
#include "protocol/array.h"
#include "protocol/limits.h"
#include "protocol/reply.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { SEND_PIECES = 16 };
/* Of one call, so that a caller's loop is not held up by a reader as fast as we are. */
#define SEND_BYTES ((size_t)4 << 20)

static bool type_of(const struct fdclient_array *f, struct array_type *type,
                    struct fdclient_error *error)
{
    if (f->dtype != FDCLIENT_F32 && f->dtype != FDCLIENT_F64)
        return error_set(error, "INVALID_ARGUMENT", "f", "dtype must be float32 or float64");
    if (f->dimensions < 1 || f->dimensions > LIMIT_DIMENSIONS)
        return error_set(error, "INVALID_ARGUMENT", "f", "an array has 1 to %d dimensions; got %u",
                         LIMIT_DIMENSIONS, f->dimensions);
    *type = (struct array_type){.dtype = f->dtype == FDCLIENT_F64 ? DTYPE_F64 : DTYPE_F32,
                                .dimensions = f->dimensions};
    uint64_t points = 1;
    for (uint32_t i = 0; i < f->dimensions; i++) {
        type->shape[i] = f->shape[i];
        if (f->shape[i] == 0)
            return error_set(error, "INVALID_ARGUMENT", "f", "every axis has at least one point");
        if (__builtin_mul_overflow(points, f->shape[i], &points) || points > LIMIT_POINTS)
            return error_set(error, "TOO_LARGE", "f", "an array has at most %llu points",
                             (unsigned long long)LIMIT_POINTS);
    }
    type->bytes = points * (f->dtype == FDCLIENT_F64 ? 8 : 4);
    return true;
}

/* Do these name a field by its id alone? */
static bool takes_id(const char *method)
{
    return strcmp(method, "get") == 0 || strcmp(method, "free") == 0;
}

/* f's pair of the map; an inline array's payload then ends the message. */
static void f_write(msgpack_packer *packer, const char *method, const struct fdclient_array *f,
                    const struct array_type *type)
{
    if (!takes_id(method))
        reply_write_str(packer, "f");
    if (type->bytes > 0) {
        array_write_header(packer, type);
        return;
    }
    if (!takes_id(method))
        msgpack_pack_map(packer, 1);
    reply_write_str(packer, "field");
    msgpack_pack_uint64(packer, f->field);
}

/* The message's pieces: control bytes, then data; or of a list, each bin's header and its data. */
static bool pieces_make(struct outgoing *out, const void *data, uint64_t bytes)
{
    const bool is_list = array_is_list(bytes);
    const uint64_t bins = bytes == 0 ? 0 : is_list ? (bytes - 1) / ARRAY_BIN_BYTES + 1 : 1;
    const size_t begin = out->control.size; /* of the list's bin headers */
    msgpack_packer packer;
    msgpack_packer_init(&packer, &out->control, msgpack_sbuffer_write);
    for (uint64_t i = 0; is_list && i < bins; i++)
        array_write_bin(&packer, i + 1 < bins ? ARRAY_BIN_BYTES : bytes - i * ARRAY_BIN_BYTES);
    out->pieces = calloc(1 + 2 * bins, sizeof *out->pieces);
    if (!out->pieces)
        return false;
    out->pieces[out->count++] = (struct iovec){out->control.data, begin};
    size_t at = begin;
    for (uint64_t i = 0; i < bins; i++) {
        const uint64_t done = i * ARRAY_BIN_BYTES;
        const uint64_t length = is_list && i + 1 < bins ? ARRAY_BIN_BYTES : bytes - done;
        if (is_list) {
            /* All are bin32 but the last, which may be short. */
            const size_t header = i + 1 < bins ? 5 : out->control.size - at;
            out->pieces[out->count++] = (struct iovec){out->control.data + at, header};
            at += header;
        }
        out->pieces[out->count++] = (struct iovec){(char *)data + done, (size_t)length};
    }
    return true;
}

bool outgoing_init(struct outgoing *out, uint64_t id, const char *method,
                   const struct fdclient_array *f, const struct fdclient_params *params,
                   struct fdclient_error *error)
{
    memset(out, 0, sizeof *out);
    struct array_type type = {.bytes = 0};
    if (f && f->data && !takes_id(method) && !type_of(f, &type, error))
        return false;
    msgpack_sbuffer pairs; /* packed first: the map's header needs their number */
    msgpack_sbuffer_init(&pairs);
    msgpack_packer packer;
    msgpack_packer_init(&packer, &pairs, msgpack_sbuffer_write);
    uint32_t count = 0;
    if (params && !params_write(&packer, params, &count, error)) {
        msgpack_sbuffer_destroy(&pairs);
        return false;
    }
    msgpack_sbuffer_init(&out->control);
    msgpack_packer_init(&packer, &out->control, msgpack_sbuffer_write);
    msgpack_pack_array(&packer, 4);
    msgpack_pack_int(&packer, 0);
    msgpack_pack_uint64(&packer, id);
    reply_write_str(&packer, method);
    msgpack_pack_array(&packer, 1);
    msgpack_pack_map(&packer, count + (f ? 1 : 0));
    if (pairs.size > 0)
        msgpack_sbuffer_write(&out->control, pairs.data, pairs.size);
    msgpack_sbuffer_destroy(&pairs);
    if (f)
        f_write(&packer, method, f, &type);
    if (!pieces_make(out, f ? f->data : NULL, type.bytes)) {
        outgoing_free(out);
        return error_set(error, "OUT_OF_MEMORY", "", "no memory for the request");
    }
    return true;
}

void outgoing_free(struct outgoing *out)
{
    msgpack_sbuffer_destroy(&out->control);
    free(out->pieces);
    memset(out, 0, sizeof *out);
}

bool outgoing_done(const struct outgoing *out)
{
    return out->first == out->count;
}

ssize_t outgoing_send(struct outgoing *out, int socket)
{
    struct iovec window[SEND_PIECES];
    size_t count = 0, bytes = 0;
    while (count < SEND_PIECES && out->first + count < out->count && bytes < SEND_BYTES) {
        window[count] = out->pieces[out->first + count];
        if (window[count].iov_len > SEND_BYTES - bytes)
            window[count].iov_len = SEND_BYTES - bytes;
        bytes += window[count++].iov_len;
    }
    const struct msghdr message = {.msg_iov = window, .msg_iovlen = count};
    const ssize_t sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    for (size_t left = sent > 0 ? (size_t)sent : 0; left > 0;) {
        struct iovec *piece = &out->pieces[out->first];
        const size_t taken = left < piece->iov_len ? left : piece->iov_len;
        piece->iov_base = (char *)piece->iov_base + taken;
        piece->iov_len -= taken;
        left -= taken;
        if (piece->iov_len == 0)
            out->first++;
    }
    return sent;
}

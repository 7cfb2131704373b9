#include "client/outgoing.h"

#include "client/error.h"
#include "client/params.h"
#include "protocol/array.h"
#include "base/limits.h"
#include "protocol/reply.h"

#include <errno.h>
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

static bool takes_vector(const char *method)
{
    return strcmp(method, "divergence") == 0 || strcmp(method, "curl") == 0;
}

/* Bins that an array's data is sent in; 0: it has none. */
static uint64_t bins_of(const struct array_type *type)
{
    return array_is_list(type->bytes) ? (type->bytes - 1) / ARRAY_BIN_BYTES + 1 : type->bytes > 0;
}

/* A piece of what was packed since the last one, then one of `length` bytes of data. */
static void pieces_add(struct outgoing *out, const char *data, uint64_t length)
{
    const size_t packed = out->control.size - out->in_pieces;
    out->pieces[out->count++] = (struct iovec){NULL, packed}; /* see control_place() */
    out->in_pieces = out->control.size;
    if (length > 0)
        out->pieces[out->count++] = (struct iovec){(char *)data, (size_t)length};
}

/* The control bytes move while they grow: only now do pieces of them have a place. */
static void control_place(struct outgoing *out)
{
    size_t at = 0;
    for (size_t i = 0; i < out->count; i++)
        if (!out->pieces[i].iov_base) {
            out->pieces[i].iov_base = out->control.data + at;
            at += out->pieces[i].iov_len;
        }
}

static void array_write(struct outgoing *out, msgpack_packer *packer,
                        const struct fdclient_array *f, const struct array_type *type,
                        const struct way *way, bool described)
{
    if (way->region) {
        reply_write_region(packer, way->region, way->offset, type);
        return;
    }
    if (type->bytes == 0) {
        msgpack_pack_map(packer, 1);
        reply_write_str(packer, "field");
        msgpack_pack_uint64(packer, f->field);
        return;
    }
    if (described) {
        array_write_description(packer, type);
        return;
    }
    array_write_header(packer, type);
    const bool is_list = array_is_list(type->bytes);
    for (uint64_t done = 0; done < type->bytes;) {
        const uint64_t left = type->bytes - done;
        const uint64_t length = is_list && left > ARRAY_BIN_BYTES ? ARRAY_BIN_BYTES : left;
        if (is_list)
            msgpack_pack_bin(packer, length);
        pieces_add(out, (const char *)f->data + done, length);
        done += length;
    }
}

/* f's pair of the map. */
static void f_write(struct outgoing *out, msgpack_packer *packer, const char *method,
                    const struct fdclient_array *f, uint32_t f_count,
                    const struct array_type *types, const struct route *route, bool described)
{
    if (takes_id(method)) {
        reply_write_str(packer, "field");
        msgpack_pack_uint64(packer, f->field);
        return;
    }
    const bool is_vector = f_count > 1 || takes_vector(method);
    reply_write_str(packer, "f");
    if (is_vector)
        msgpack_pack_map(packer, f_count);
    for (uint32_t i = 0; i < f_count; i++) {
        if (is_vector)
            reply_write_str(packer, axis_name((enum axis)i));
        array_write(out, packer, &f[i], &types[i], &route->in[i], described);
    }
}

/* The pair "out" of results that are to lie in regions. */
static void outs_write(msgpack_packer *packer, const struct route *route)
{
    reply_write_str(packer, "out");
    if (route->out_is_vector)
        msgpack_pack_map(packer, route->outs);
    for (uint32_t i = 0; i < route->outs; i++) {
        if (route->out_is_vector)
            reply_write_str(packer, axis_name((enum axis)i));
        msgpack_pack_map(packer, 2);
        reply_write_str(packer, "region");
        msgpack_pack_uint64(packer, route->out[i].region);
        reply_write_str(packer, "offset");
        msgpack_pack_uint64(packer, route->out[i].offset);
    }
}

/* Of those that are not resident; where they are to be `described` alone, they need no data. */
static bool types_of(const char *method, const struct fdclient_array *f, uint32_t f_count,
                     bool described, struct array_type types[AXIS_COUNT],
                     struct fdclient_error *error)
{
    if (f && (f_count < 1 || f_count > AXIS_COUNT))
        return error_set(error, "INVALID_ARGUMENT", "f",
                         "a vector field has 1 to %d components; got %u", AXIS_COUNT, f_count);
    memset(types, 0, AXIS_COUNT * sizeof *types);
    for (uint32_t i = 0; f && i < f_count; i++)
        if ((f[i].data || (described && !f[i].field)) && !takes_id(method) &&
            !type_of(&f[i], &types[i], error))
            return false;
    return true;
}

bool outgoing_bytes(const char *method, const struct fdclient_array *f, uint32_t f_count,
                    uint64_t bytes[FDCLIENT_AXES], struct fdclient_error *error)
{
    struct array_type types[AXIS_COUNT];
    if (!types_of(method, f, f_count, false, types, error))
        return false;
    for (int i = 0; i < FDCLIENT_AXES; i++)
        bytes[i] = types[i].bytes;
    return true;
}

/* [0, id, method, [a map of `pairs`: they must follow. */
static void begin_request(struct outgoing *out, msgpack_packer *packer, uint64_t id,
                          const char *method, uint32_t pairs)
{
    msgpack_sbuffer_init(&out->control);
    msgpack_packer_init(packer, &out->control, msgpack_sbuffer_write);
    msgpack_pack_array(packer, 4);
    msgpack_pack_int(packer, 0);
    msgpack_pack_uint64(packer, id);
    reply_write_str(packer, method);
    msgpack_pack_array(packer, 1);
    msgpack_pack_map(packer, pairs);
}

static void end_request(struct outgoing *out)
{
    if (out->in_pieces < out->control.size)
        pieces_add(out, NULL, 0);
    control_place(out);
}

/* Of one number, with a descriptor where that is ≥ 0. */
static bool init_number(struct outgoing *out, uint64_t id, const char *method, const char *name,
                        uint64_t number, int descriptor)
{
    msgpack_packer packer;
    memset(out, 0, sizeof *out);
    out->descriptor = descriptor;
    out->pieces = calloc(1, sizeof *out->pieces);
    if (!out->pieces)
        return false;
    begin_request(out, &packer, id, method, 1);
    reply_write_str(&packer, name);
    msgpack_pack_uint64(&packer, number);
    end_request(out);
    return true;
}

bool outgoing_init_register(struct outgoing *out, uint64_t id, const struct region *region)
{
    return init_number(out, id, "register", "bytes", region->bytes, region->descriptor);
}

bool outgoing_init_unregister(struct outgoing *out, uint64_t id, uint64_t region)
{
    return init_number(out, id, "unregister", "region", region, -1);
}

bool outgoing_init_cancel(struct outgoing *out, uint64_t id, uint64_t msgid)
{
    return init_number(out, id, "cancel", "msgid", msgid, -1);
}

bool outgoing_init(struct outgoing *out, uint64_t id, const char *method,
                   const struct fdclient_array *f, uint32_t f_count,
                   const struct fdclient_params *params, const struct route *route,
                   struct fdclient_error *error)
{
    struct array_type types[AXIS_COUNT];
    memset(out, 0, sizeof *out);
    out->descriptor = -1;
    const bool described = params && params->dry_run;
    if (!types_of(method, f, f_count, described, types, error))
        return false;
    msgpack_sbuffer pairs; /* packed first: the map's header needs their number */
    msgpack_sbuffer_init(&pairs);
    msgpack_packer packer;
    msgpack_packer_init(&packer, &pairs, msgpack_sbuffer_write);
    uint32_t count = 0;
    if (params && !params_write(&packer, method, params, &count, error)) {
        msgpack_sbuffer_destroy(&pairs);
        return false;
    }
    uint64_t bins = 0;
    for (int i = 0; i < AXIS_COUNT; i++)
        bins += route->in[i].region || described ? 0 : bins_of(&types[i]);
    out->pieces = calloc(1 + 2 * bins, sizeof *out->pieces);
    if (!out->pieces) {
        msgpack_sbuffer_destroy(&pairs);
        return error_set(error, "OUT_OF_MEMORY", "", "no memory for the request");
    }
    begin_request(out, &packer, id, method, count + (f ? 1 : 0) + (route->outs ? 1 : 0));
    if (pairs.size > 0)
        msgpack_sbuffer_write(&out->control, pairs.data, pairs.size);
    msgpack_sbuffer_destroy(&pairs);
    if (route->outs)
        outs_write(&packer, route);
    if (f)
        f_write(out, &packer, method, f, f_count, types, route, described);
    end_request(out);
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
    struct msghdr message = {.msg_iov = window, .msg_iovlen = count};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    if (out->descriptor >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof out->descriptor);
        memcpy(CMSG_DATA(c), &out->descriptor, sizeof out->descriptor);
    }
    ssize_t sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && out->descriptor >= 0 && (errno == EPERM || errno == ETOOMANYREFS)) {
        /* None goes through: the server refuses the request without, and is done without. */
        message.msg_control = NULL;
        message.msg_controllen = 0;
        sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (sent > 0)
        out->descriptor = -1;
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

/* A request on its way out: its control bytes, the caller's arrays sent from where they lie, and
 * the descriptor that goes with its first byte. */
#include "client/connection.h"

#include "base/limits.h"
#include "base/rights.h"
#include "client/error.h"
#include "client/params.h"
#include "protocol/reply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SEND_PIECES = 16 };

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

/* Are arrays only described, by type and shape? They then need no data. */
static bool is_described(const struct call *call)
{
    return call->params && call->params->dry_run;
}

/* Does the method take only the id of a field? */
static bool takes_id(const char *method)
{
    return strcmp(method, "get") == 0 || strcmp(method, "free") == 0;
}

struct job call_job(const char *method, uint32_t axes)
{
    struct job job = {.operator_id = OPERATOR_DERIVATIVE, .axes = (uint8_t)axes};
    while (job.operator_id < OPERATOR_COUNT &&
           strcmp(method, operator_name((enum operator_id)job.operator_id)) != 0)
        job.operator_id++;
    return job;
}

const char *const *call_result_names(const char *method)
{
    static const char *const of_vector[] = {"x", "y", "z", NULL};
    static const char *const of_hessian[] = {"xx", "xy", "xz", "yy", "yz", "zz", NULL};
    return strcmp(method, "hessian") == 0 ? of_hessian : of_vector;
}

bool call_types(struct call *call, struct fdclient_error *error)
{
    if (call->f && (call->f_count < 1 || call->f_count > AXIS_COUNT))
        return error_set(error, "INVALID_ARGUMENT", "f",
                         "a vector field has 1 to %d components; got %u", AXIS_COUNT,
                         call->f_count);
    call->f_count = call->f ? call->f_count : 0;
    for (uint32_t i = 0; i < call->f_count && !takes_id(call->method); i++) {
        const struct fdclient_array *f = &call->f[i];
        if (!f->data && !f->field && !is_described(call))
            return error_set(error, "NOT_FOUND", "f", "there is no field 0, and data is NULL");
        if ((f->data || !f->field) && !type_of(f, &call->types[i], error))
            return false;
    }
    return true;
}

static int control_write(void *to, const char *bytes, size_t count)
{
    struct outgoing *out = to;
    out->lacks_memory =
        out->lacks_memory || msgpack_vrefbuffer_append_copy(out->pieces, bytes, count) != 0;
    return 0;
}

static void data_write(struct outgoing *out, const char *data, uint64_t count)
{
    out->lacks_memory =
        out->lacks_memory || msgpack_vrefbuffer_append_ref(out->pieces, data, (size_t)count) != 0;
}

/* The i-th array. */
static void array_write(struct outgoing *out, msgpack_packer *packer, const struct call *call,
                        const struct route *route, uint32_t i)
{
    const struct fdclient_array *f = &call->f[i];
    const struct array_type *type = &call->types[i];
    if (route->in[i].region) {
        reply_write_region(packer, route->in[i].region, route->in[i].offset, type);
        return;
    }
    if (type->bytes == 0) {
        msgpack_pack_map(packer, 1);
        reply_write_count(packer, "field", f->field);
        return;
    }
    if (is_described(call)) {
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
        data_write(out, (const char *)f->data + done, length);
        done += length;
    }
}

/* f's pair of the map. */
static void f_write(struct outgoing *out, msgpack_packer *packer, const struct call *call,
                    const struct route *route)
{
    const struct job job = call_job(call->method, call->f_count);
    const bool is_vector = call->f_count > 1 || job_takes_vector(&job);
    if (takes_id(call->method)) {
        reply_write_count(packer, "field", call->f->field);
        return;
    }
    reply_write_str(packer, "f");
    if (is_vector)
        msgpack_pack_map(packer, call->f_count);
    for (uint32_t i = 0; i < call->f_count; i++) {
        if (is_vector)
            reply_write_str(packer, axis_name((enum axis)i));
        array_write(out, packer, call, route, i);
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
        reply_write_count(packer, "region", route->out[i].region);
        reply_write_count(packer, "offset", route->out[i].offset);
    }
}

/* [0, id, method, [a map of `pairs`: they must follow. */
static void begin_request(struct outgoing *out, msgpack_packer *packer, uint64_t id,
                          const char *method, uint32_t pairs, int descriptor)
{
    *out = (struct outgoing){.descriptor = descriptor};
    out->pieces =
        msgpack_vrefbuffer_new(MSGPACK_VREFBUFFER_REF_SIZE, MSGPACK_VREFBUFFER_CHUNK_SIZE);
    out->lacks_memory = !out->pieces;
    msgpack_packer_init(packer, out, control_write);
    msgpack_pack_array(packer, 4);
    msgpack_pack_int(packer, 0);
    msgpack_pack_uint64(packer, id);
    reply_write_str(packer, method);
    msgpack_pack_array(packer, 1);
    msgpack_pack_map(packer, pairs);
}

static bool end_request(struct outgoing *out)
{
    const bool is_whole = !out->lacks_memory;
    if (!is_whole)
        outgoing_free(out);
    return is_whole;
}

bool outgoing_init_number(struct outgoing *out, uint64_t id, const char *method, const char *name,
                          uint64_t number, int descriptor)
{
    msgpack_packer packer;
    begin_request(out, &packer, id, method, 1, descriptor);
    reply_write_count(&packer, name, number);
    return end_request(out);
}

bool outgoing_init(struct outgoing *out, uint64_t id, const struct call *call,
                   const struct route *route, struct fdclient_error *error)
{
    msgpack_sbuffer pairs; /* packed first: the map's header needs their number */
    msgpack_packer packer;
    uint32_t count = 0;
    reply_buffer_init(&pairs, &packer);
    bool ok = !call->params || params_write(&packer, call->method, call->params, &count, error);
    if (ok) {
        begin_request(out, &packer, id, call->method,
                      count + (call->f ? 1 : 0) + (route->outs ? 1 : 0), -1);
        if (pairs.size > 0)
            control_write(out, pairs.data, pairs.size);
        else
            out->lacks_memory = out->lacks_memory || count > 0;
        if (route->outs)
            outs_write(&packer, route);
        if (call->f)
            f_write(out, &packer, call, route);
        ok = end_request(out) || error_set(error, "OUT_OF_MEMORY", "", "no memory for the request");
    }
    msgpack_sbuffer_destroy(&pairs);
    return ok;
}

void outgoing_free(struct outgoing *out)
{
    msgpack_vrefbuffer_free(out->pieces);
    memset(out, 0, sizeof *out);
}

bool outgoing_done(const struct outgoing *out)
{
    return out->first == msgpack_vrefbuffer_veclen(out->pieces);
}

ssize_t outgoing_send(struct outgoing *out, int socket, size_t most)
{
    struct iovec window[SEND_PIECES];
    struct iovec *piece = out->pieces->array + out->first;
    size_t count = 0, bytes = 0;
    while (count < SEND_PIECES && piece + count < out->pieces->tail && bytes < most) {
        window[count] = piece[count];
        if (window[count].iov_len > most - bytes)
            window[count].iov_len = most - bytes;
        bytes += window[count++].iov_len;
    }
    ssize_t sent = rights_send(socket, window, count, out->descriptor);
    if (sent < 0 && out->descriptor >= 0 && (errno == EPERM || errno == ETOOMANYREFS))
        /* None goes through: the server refuses the request without, and is done without. */
        sent = rights_send(socket, window, count, -1);
    if (sent > 0)
        out->descriptor = -1;
    for (size_t left = sent > 0 ? (size_t)sent : 0; left > 0;) {
        const size_t taken = left < piece->iov_len ? left : piece->iov_len;
        piece->iov_base = (char *)piece->iov_base + taken;
        piece->iov_len -= taken;
        left -= taken;
        if (piece->iov_len == 0)
            piece++;
    }
    out->first = (size_t)(piece - out->pieces->array);
    return sent;
}

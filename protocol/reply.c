#include "protocol/reply.h"

#include "protocol/object.h"
#include "protocol/splitter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* msgpack_sbuffer_write(), but all or nothing: what was packed in part is given up, and capacity
 * without memory tells those that come later. */
static int write_all(void *data, const char *bytes, size_t length)
{
    msgpack_sbuffer *buffer = data;
    if ((buffer->data || !buffer->alloc) && msgpack_sbuffer_write(buffer, bytes, length) == 0)
        return 0;
    free(buffer->data);
    *buffer = (msgpack_sbuffer){.alloc = 1};
    return -1;
}

void reply_buffer_init(msgpack_sbuffer *buffer, msgpack_packer *packer)
{
    enum { BYTES = 256 };
    msgpack_sbuffer_init(buffer);
    buffer->data = malloc(BYTES);
    buffer->alloc = buffer->data ? BYTES : 0;
    msgpack_packer_init(packer, buffer, write_all);
}

void reply_write_str(msgpack_packer *packer, const char *text)
{
    msgpack_pack_str_with_body(packer, text, strlen(text));
}

void reply_write_text(msgpack_packer *packer, const char *key, const char *text)
{
    reply_write_str(packer, key);
    reply_write_str(packer, text);
}

void reply_write_count(msgpack_packer *packer, const char *key, uint64_t value)
{
    reply_write_str(packer, key);
    msgpack_pack_uint64(packer, value);
}

void reply_write_flag(msgpack_packer *packer, const char *key, bool value)
{
    reply_write_str(packer, key);
    (value ? msgpack_pack_true : msgpack_pack_false)(packer);
}

void reply_write_real(msgpack_packer *packer, const char *key, bool has, double value)
{
    reply_write_str(packer, key);
    if (has)
        msgpack_pack_double(packer, value);
    else
        msgpack_pack_nil(packer);
}

/* [1, msgid, … */
static void begin_response(msgpack_packer *packer, uint64_t msgid)
{
    msgpack_pack_array(packer, 4);
    msgpack_pack_int(packer, SPLITTER_RESPONSE);
    msgpack_pack_uint64(packer, msgid);
}

/* [2, name, [{"msgid", … so many pairs */
static void begin_notification(msgpack_packer *packer, const char *name, uint64_t msgid,
                               uint32_t pairs)
{
    msgpack_pack_array(packer, 3);
    msgpack_pack_int(packer, SPLITTER_NOTIFICATION);
    reply_write_str(packer, name);
    msgpack_pack_array(packer, 1);
    msgpack_pack_map(packer, pairs);
    reply_write_count(packer, "msgid", msgid);
}

void reply_write_begin(msgpack_packer *packer, uint64_t msgid)
{
    begin_response(packer, msgid);
    msgpack_pack_nil(packer);
}

void reply_write_report(msgpack_packer *packer, const struct reply_report *report)
{
    msgpack_pack_map(packer, 6);
    reply_write_real(packer, "min", report->has_values, report->min);
    reply_write_real(packer, "max", report->has_values, report->max);
    reply_write_real(packer, "mean", report->has_values, report->mean);
    reply_write_count(packer, "nan", report->nan);
    reply_write_real(packer, "stability", report->has_stability, report->stability);
    reply_write_str(packer, "error");
    if (!report->has_error) {
        msgpack_pack_nil(packer);
        return;
    }
    msgpack_pack_map(packer, 2);
    reply_write_real(packer, "max", true, report->error_max);
    reply_write_real(packer, "rms", true, report->error_rms);
}

void reply_write_type(msgpack_packer *packer, const struct array_type *type)
{
    reply_write_text(packer, "type", array_dtype_text(type->dtype));
    reply_write_str(packer, "shape");
    array_write_shape(packer, type);
}

void reply_write_field(msgpack_packer *packer, uint64_t id, const struct array_type *type)
{
    msgpack_pack_map(packer, 3);
    reply_write_count(packer, "field", id);
    reply_write_type(packer, type);
}

void reply_write_region(msgpack_packer *packer, uint64_t id, uint64_t offset,
                        const struct array_type *type)
{
    msgpack_pack_map(packer, 4);
    reply_write_count(packer, "region", id);
    reply_write_count(packer, "offset", offset);
    reply_write_type(packer, type);
}

/* Bytes and counts as integers, time steps as floats. */
static void write_number(msgpack_packer *packer, double value)
{
    if (value >= 0 && value <= 0x1p53 && value == floor(value))
        msgpack_pack_uint64(packer, (uint64_t)value);
    else
        msgpack_pack_double(packer, value);
}

void reply_write_failure(msgpack_packer *packer, uint64_t msgid, const struct failure *failure)
{
    const bool has_parameter = failure->parameter[0] != '\0';
    begin_response(packer, msgid);
    msgpack_pack_map(packer, 3 + (has_parameter ? 1 : 0) + (failure->has_need ? 2 : 0));
    reply_write_text(packer, "code", status_name(failure->code));
    reply_write_text(packer, "message",
                     failure->message[0] ? failure->message : status_text(failure->code));
    if (has_parameter)
        reply_write_text(packer, "parameter", failure->parameter);
    reply_write_flag(packer, "retryable", status_retryable(failure->code));
    if (failure->has_need) {
        reply_write_str(packer, "need");
        write_number(packer, failure->need);
        reply_write_str(packer, "limit");
        write_number(packer, failure->limit);
    }
    msgpack_pack_nil(packer);
}

void reply_write_progress(msgpack_packer *packer, uint64_t msgid, uint64_t done, uint64_t total)
{
    begin_notification(packer, "progress", msgid, 3);
    reply_write_count(packer, "done", done);
    reply_write_count(packer, "total", total);
}

void reply_write_snapshot(msgpack_packer *packer, uint64_t msgid, uint64_t step, double time)
{
    begin_notification(packer, "snapshot", msgid, 4);
    reply_write_count(packer, "step", step);
    reply_write_real(packer, "time", true, time);
    reply_write_str(packer, "out");
}

/* The text under a key, cut to fit; "" where it is none. */
static void read_text(const msgpack_object *object, char *text, size_t capacity)
{
    const char *bytes;
    uint32_t length;
    text[0] = '\0';
    if (object && object_bytes(object, &bytes, &length))
        snprintf(text, capacity, "%.*s", length < capacity ? (int)length : (int)capacity, bytes);
}

void reply_read_failure(const msgpack_object *object, struct failure *failure)
{
    memset(failure, 0, sizeof *failure);
    failure->code = STATUS_INTERNAL;
    if (object->type != MSGPACK_OBJECT_MAP) { /* another server's error may be a bare string */
        read_text(object, failure->message, sizeof failure->message);
        return;
    }
    const msgpack_object *code = object_find(object, "code");
    const char *bytes;
    uint32_t length;
    if (code && object_bytes(code, &bytes, &length))
        failure->code = status_from_name(bytes, length);
    if (failure->code == STATUS_OK)
        failure->code = STATUS_INTERNAL;
    read_text(object_find(object, "message"), failure->message, sizeof failure->message);
    read_text(object_find(object, "parameter"), failure->parameter, sizeof failure->parameter);
    const msgpack_object *need = object_find(object, "need"), *limit = object_find(object, "limit");
    failure->has_need =
        need && limit && object_real(need, &failure->need) && object_real(limit, &failure->limit);
}

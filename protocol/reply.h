/* The server's messages: responses, errors, notifications. And how a client reads an error. */
#pragma once

#include "protocol/array.h"
#include "base/status.h"

#include <msgpack.h>

/* A buffer as large as most replies need (msgpack-c's own first step is 8 KiB), and its packer. If
 * memory runs out while packing, the buffer is empty at the end: only then need it be checked. */
void reply_buffer_init(msgpack_sbuffer *buffer, msgpack_packer *packer);

/* [1, msgid, error, nil] */
void reply_write_failure(msgpack_packer *packer, uint64_t msgid, const struct failure *failure);

/* [1, msgid, nil, …: the result must follow. */
void reply_write_begin(msgpack_packer *packer, uint64_t msgid);

/* Properties of a result; those that it does not have are nil. */
struct reply_report {
    bool has_values; /* it is not all NaN */
    double min, max, mean;
    uint64_t nan;
    bool has_stability, has_error;
    double stability; /* dt / dt_max */
    double error_max, error_rms;
};

/* {"min", "max", "mean", "nan", "stability", "error": {"max", "rms"}} */
void reply_write_report(msgpack_packer *packer, const struct reply_report *report);

/* The pairs "type" and "shape" of a map. */
void reply_write_type(msgpack_packer *packer, const struct array_type *type);

/* {"field": id, "type", "shape"} */
void reply_write_field(msgpack_packer *packer, uint64_t id, const struct array_type *type);

/* {"region": id, "offset", "type", "shape"} */
void reply_write_region(msgpack_packer *packer, uint64_t id, uint64_t offset,
                        const struct array_type *type);

/* [2, "progress", [{"msgid", "done", "total"}]] */
void reply_write_progress(msgpack_packer *packer, uint64_t msgid, uint64_t done, uint64_t total);

/* [2, "snapshot", [{"msgid", "step", "time", "out": …: an ARRAY or a field must follow. */
void reply_write_snapshot(msgpack_packer *packer, uint64_t msgid, uint64_t step, double time);

/* Write a str key or value. */
void reply_write_str(msgpack_packer *packer, const char *text);

/* Write a key and its value: a text, a whole number, a boolean, a real number (nil unless `has`).
 */
void reply_write_text(msgpack_packer *packer, const char *key, const char *text);
void reply_write_count(msgpack_packer *packer, const char *key, uint64_t value);
void reply_write_flag(msgpack_packer *packer, const char *key, bool value);
void reply_write_real(msgpack_packer *packer, const char *key, bool has, double value);

/* Read an error object of a response (the client's side): any shape is taken without fault. */
void reply_read_failure(const msgpack_object *object, struct failure *failure);

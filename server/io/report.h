/* What `info`, `stats` and `list` say. The fields are documented in protocol/PROTOCOL.md. */
#pragma once

#include <msgpack.h>

struct failure;
struct request;
struct io;
struct user;

enum { REPORT_COUNTED = 20 }; /* values of `stats` that are of all users: the table in report.c */

/* What other users than the operator see of them: rounded down and refreshed seldom, so that no
 * single job of others shows. */
struct report_coarse {
    uint64_t at_ns; /* uv_hrtime(); 0: never yet */
    uint64_t values[REPORT_COUNTED];
};

void report_info(msgpack_packer *packer, struct io *io, const struct user *user);
void report_stats(msgpack_packer *packer, struct io *io, const struct user *user);
/* The user's fields, in the order of their ids: all, or as many as the request says. False with the
 * failure set: they are too many for one answer, or there is no room for it. */
bool report_fields(msgpack_packer *packer, struct user *user, const struct request *request,
                   struct failure *failure);

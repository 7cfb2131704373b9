/* What `info`, `stats` and `list` say. The fields are documented in protocol/PROTOCOL.md. */
#ifndef SERVER_METRICS_REPORT_H
#define SERVER_METRICS_REPORT_H

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

struct failure;
struct request;
struct server;
struct user;

/* What all users come to. */
enum report_total {
    REPORT_CONNECTIONS,
    REPORT_JOBS,
    REPORT_FIELDS,
    REPORT_DONE,
    REPORT_FAILED,
    REPORT_CANCELLED,
    REPORT_TIMED_OUT,
    REPORT_REFUSED,
    REPORT_WAITING,
    REPORT_QUEUED,
    REPORT_RUNNING,
    REPORT_REPLYING,
    REPORT_COUNTS, /* from here on bytes */
    REPORT_BYTES = REPORT_COUNTS,
    REPORT_REGION_BYTES,
    REPORT_FRONT_BYTES,
    REPORT_BYTES_IN,
    REPORT_BYTES_OUT,
    REPORT_QUEUE_BYTES,
    REPORT_UPLOAD_BYTES,
    REPORT_REPLY_BYTES,
    REPORT_TOTALS
};

/* The same as other users than the operator see it: rounded down and refreshed seldom, so that no
 * single job of others shows. */
struct report_coarse {
    uint64_t at_ns; /* uv_hrtime(); 0: never yet */
    uint64_t totals[REPORT_TOTALS];
};

void report_info(msgpack_packer *packer, struct server *server, const struct user *user);
void report_stats(msgpack_packer *packer, struct server *server, const struct user *user);
/* The user's fields, in the order of their ids: all, or as many as the request says. False with the
 * failure set: they are too many for one answer, or there is no room for it. */
bool report_fields(msgpack_packer *packer, struct server *server, struct user *user,
                   const struct request *request, struct failure *failure);

#endif

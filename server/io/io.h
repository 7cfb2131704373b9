/* An event loop of sockets: it reads messages, passes their requests to jobs, and sends the
 * answers. Several may feed one scheduler (jobs.h). */
#pragma once

#include "server/io/io_threads.h"
#include "server/io/report.h"
#include "server/io/turn.h"
#include "server/jobs/jobs.h"
#include "server/jobs/upload.h"

enum { IO_READ_BYTES = 4 << 10 };

struct io {
    uv_loop_t *loop;
    const struct config *config;
    struct jobs *jobs;
    struct io_threads io_threads;
    struct list connections; /* struct connection */
    struct list listeners;   /* struct listener */
    struct list changed;     /* struct connection: to be settled at the end of the turn */
    struct list closed;      /* struct connection: to be freed then */
    uint64_t connection_count;
    struct turn turn;
    uint64_t started_ns; /* uv_hrtime() */
    struct report_coarse coarse;
    msgpack_zone message;                   /* the objects of the one at work */
    uint8_t read_buffer[IO_READ_BYTES];     /* control bytes, for one connection at a time */
    uint8_t drop_buffer[UPLOAD_DROP_BYTES]; /* for payload that is dropped */
};

/* An event loop of sockets: it reads messages, passes their requests to jobs, and sends the
 * answers. Several may feed one scheduler (jobs.h). */
#pragma once

#include "server/io/io_threads.h"
#include "server/io/turn.h"
#include "server/jobs/jobs.h"
#include "server/jobs/upload.h"

struct request;

enum { IO_READ_BYTES = 4 << 10 };

enum { REPORT_COUNTED = 20 }; /* values of `stats` that are of all users: the table in report.c */

/* Their values for users other than the operator: rounded down and refreshed seldom, so that no
 * single job of another user shows. */
struct report_coarse {
    uint64_t at_ns; /* uv_hrtime(); 0: never yet */
    uint64_t values[REPORT_COUNTED];
};

struct io {
    uv_loop_t *loop;
    const struct config *config;
    struct jobs *jobs;
    struct io_threads io_threads;
    struct list connections; /* struct connection */
    struct list listeners;   /* struct listener */
    struct list changed;     /* struct connection: to be settled at the end of the turn */
    struct list closed;      /* struct connection: to be freed then */
    struct turn turn;
    uint64_t started_ns; /* uv_hrtime() */
    struct report_coarse coarse;
    msgpack_zone message;                   /* the objects of the one at work */
    uint8_t read_buffer[IO_READ_BYTES];     /* control bytes, for one connection at a time */
    uint8_t drop_buffer[UPLOAD_DROP_BYTES]; /* for payload that is dropped */
};

/* --- listener.c: sockets that clients connect to --- */

/* Listen on all configured sockets and those from systemd. False: a log line says why. */
bool listener_open_all(struct io *io);
void listener_close_all(struct io *io);
/* Called twice a second: try again where accepting had to pause. */
void listener_tick(struct io *io);

/* --- report.c: the answers to `info`, `stats` and `list` --- */

void report_info(msgpack_packer *packer, struct io *io, const struct user *user);
void report_stats(msgpack_packer *packer, struct io *io, const struct user *user);
/* The user's fields, in the order of their ids: all, or as many as the request says. False with the
 * failure set: they are too many for one answer, or there is no room for it. */
bool report_fields(msgpack_packer *packer, struct user *user, const struct request *request,
                   struct failure *failure);

/* --- notify.c: a service's messages to systemd and the sockets that it hands over, without its
 * library (sd_notify(3), sd_listen_fds(3)) --- */

/* Take NOTIFY_SOCKET, WATCHDOG_USEC and LISTEN_FDS out of the environment, so that workers do not
 * inherit them. Once, at start. */
void notify_init(void);

/* Send "READY=1", "WATCHDOG=1", "STATUS=…"; nothing without a listener. */
void notify_send(const char *state);

/* Send "STOPPING=1"; the end may take so much longer than the drain as the unit allows in all. */
void notify_stopping(uint64_t drain_timeout_s);

/* How often the watchdog must be fed, in milliseconds; 0: not at all. */
uint64_t notify_watchdog_ms(void);

/* The number of sockets handed over, now close-on-exec: descriptors from NOTIFY_FIRST on. */
enum { NOTIFY_FIRST = 3 }; /* SD_LISTEN_FDS_START */
int notify_sockets(void);

/* The server's options: one table makes command line, environment, --help and the manual. */
#pragma once

#include <stdint.h>

enum { CONFIG_LISTEN_MAX = 8 };

#define CONFIG_BUSY_POLL_AUTO UINT64_MAX /* as server/io/turn.h finds it best */

struct config {
    const char *listen[CONFIG_LISTEN_MAX]; /* "unix:PATH"; none: the default place */
    int listen_count;
    const char *group;      /* of the sockets; NULL: the process's own */
    uint64_t mode;          /* of the sockets */
    const char *device;     /* "auto" or a list of "host" and "cuda:N" */
    uint64_t threads;       /* that each worker computes with; 0: one for each core */
    uint64_t staging_bytes; /* of the arena */
    uint64_t front_bytes;   /* of the front's own memory, for all users */
    uint64_t user_bytes;    /* of one user on the device; 0: no limit of its own */
    uint64_t device_memory; /* bytes that arrays may take; 0: what the device has free */
    uint64_t region_bytes;  /* of one user's registered memory; 0: no limit of its own */
    uint64_t region_memory; /* of all users' */
    uint64_t max_regions;   /* of one user */
    /* Jobs that are accepted and not yet answered, and bytes of their arrays: of one user, of all.
     * Bytes 0: no limit of its own. */
    uint64_t user_queue_jobs, user_queue_bytes;
    uint64_t max_queue_jobs, max_queue_bytes;
    uint64_t max_fields; /* of one user */
    uint64_t max_connections;
    uint64_t max_work; /* points × steps of one job */
    uint64_t upload_timeout_s;
    uint64_t drain_timeout_s;
    uint64_t busy_poll_us; /* before the loop blocks; 0: never; or CONFIG_BUSY_POLL_AUTO */
    uint64_t log_level;
    const char *trace;    /* a file; NULL: none */
    uint64_t trace_bytes; /* of it, before the next is begun */
};

enum config_result { CONFIG_RUN, CONFIG_EXIT, CONFIG_ERROR };

/* Read environment and command line. CONFIG_EXIT: --help, --version or --manual was printed.
 * CONFIG_ERROR: a line on stderr says why. Strings point into argv and the environment. */
enum config_result config_read(struct config *config, int argc, char **argv);

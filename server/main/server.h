/* The front's state, one per process; everything runs on its loop's thread, but for what carriers
 * and the closer of passed descriptors are given.
 *
 *   a request:  listener → connection (its arrays: upload) → method → task (admission) → device
 *   its answer: device → task → outbox → connection
 *
 * field, region, user and arena are what all of them draw on. Calls against the first order are
 * what comes back, and callbacks (settled, resume, changed, ready, copied) or named in task.h:
 * task_granted(), task_region_lost(), task_progress(), task_finished(), task_put_arrived(),
 * task_device_lost(), task_replied(), task_snapshot_sent(); region_mapped(), region_worker_ready(),
 * region_worker_gone().
 */
#ifndef SERVER_MAIN_SERVER_H
#define SERVER_MAIN_SERVER_H

#include "server/io/io_threads.h"
#include "server/config/config.h"
#include "server/jobs/deadline.h"
#include "server/io/fair.h"
#include "server/devices/devices.h"
#include "base/list.h"
#include "server/io/report.h"
#include "server/jobs/task_state.h"
#include "server/io/turn.h"
#include "server/users/user.h"

#include <msgpack.h>
#include <uv.h>

enum { SERVER_READ_BYTES = 4 << 10, SERVER_DROP_BYTES = 64 << 10 };

struct server {
    uv_loop_t loop;
    struct config config;
    struct carriers carriers;
    struct devices devices;
    struct users users;
    struct list connections; /* struct connection */
    struct list listeners;   /* struct listener */
    struct list changed;     /* struct connection: to be settled at the end of the turn */
    struct list closed;      /* struct connection: to be freed then */
    struct fair fair;
    struct list granted; /* struct task: has the last of its fields, and is to go on */
    bool granting;       /* they are at it */
    uint64_t connection_count;
    uint64_t last_task;
    uint64_t started_ns; /* uv_hrtime() */
    struct report_coarse coarse;
    uint64_t jobs;                    /* of all users, accepted and not yet answered */
    uint64_t tasks[TASK_STATE_COUNT]; /* of those */
    struct deadlines deadlines;
    bool auto_device; /* --device auto, still looking for GPUs */
    bool listening;
    bool draining;
    uint64_t drain_until_ns;
    bool stopped;
    int exit_status;
    struct turn turn;
    uv_timer_t tick; /* stalls, drain, heartbeats */
    uv_timer_t watchdog;
    uv_signal_t terminate, interrupt;
    msgpack_zone message;                   /* the objects of the one at work */
    uint8_t read_buffer[SERVER_READ_BYTES]; /* control bytes, for one connection at a time */
    uint8_t drop_buffer[SERVER_DROP_BYTES]; /* payload that nobody wants */
};

#endif

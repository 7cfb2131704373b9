/* All devices of the front, what they share, and their events for the layer above. Devices know
 * nothing of a task but its address. */
#pragma once

#include "server/config/config.h"
#include "server/metrics/trace.h"
#include "server/users/user.h"

#include <uv.h>

struct channel_message;
struct device;
struct order;
struct task;

/* Called on the loop's thread; none of them may free the device. */
struct device_events {
    /* An access to a field, or a place in a region, that the task waited for is granted; … */
    void (*granted)(struct task *task);
    /* … or its region cannot be mapped. */
    void (*region_lost)(struct task *task, enum status status);
    /* All copies to the field that it puts have ended. */
    void (*put_arrived)(struct task *task);
    /* So many passes of a RUN are done. */
    void (*progress)(struct order *order, uint64_t passes);
    /* The order has ended, once; what its FINISHED said, NULL where it was a copy. */
    void (*finished)(struct order *order, enum status status, const struct channel_message *said);
    /* The worker is gone and its arrays are lost: fail the device's tasks. No order of theirs is
     * with a worker any more. Nothing is dispatched while device->losing. */
    void (*worker_lost)(struct device *device);
    void (*dispatch)(struct device *device);
    /* Once: its worker was ready for the first time, or the first one ended before it was. */
    void (*settled)(struct device *device, bool ready);
};

struct devices {
    uv_loop_t *loop;
    const struct config *config;
    struct users *users;
    const struct device_events *events;
    struct trace *trace;    /* NULL: off */
    char worker_path[4096]; /* fdworker, beside this program */
    struct arena arena;
    struct list list;  /* struct device */
    uv_signal_t ended; /* SIGCHLD */
    unsigned hosts;    /* of them on the host, which share its memory */
    bool has_gpu;
    uint64_t heard_ns; /* when a worker last sent something */
    uint64_t last_array, last_region;
    uint64_t regions, region_bytes; /* of all users; charged */
    uint64_t queue_bytes;           /* of the arrays of all users' jobs */
};

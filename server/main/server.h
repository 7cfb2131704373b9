/* The front, one per process, put together from its layers; everything runs on its loop's thread,
 * but for what I/O threads and the closer of passed descriptors are given.
 *
 *   io        sockets → messages       │ a request: listener → connection → message
 *   jobs      admission, tasks         │   → task (its arrays: upload) → order
 *   devices   workers, arrays, regions │   → device → worker
 *   users     shares, turns, limits    │
 *   metrics, config                    │
 *
 * A layer knows those below it (tests/unit/test_layers.py). What comes back goes through the tables
 * that the layer above hands down: struct device_events (devices.h), struct client_calls (jobs.h),
 * struct region_owner, and callbacks named resume, changed, ready, copied.
 */
#pragma once

#include "server/io/io.h"

struct server {
    uv_loop_t loop;
    struct config config;
    struct users users;
    struct devices devices;
    struct jobs jobs;
    struct io io;
    bool auto_device; /* --device auto, still looking for GPUs */
    bool listening;
    uint64_t drain_until_ns;
    bool stopped;
    int exit_status;
    uv_timer_t tick; /* stalls, drain, heartbeats */
    uv_timer_t watchdog;
    uv_signal_t terminate, interrupt;
};

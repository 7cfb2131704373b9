/* Devices of other nodes. --device names them ("NODE/cuda:0"); each has a bridge
 * (gpu/bridge/bridge.h) in the place of a worker:
 *
 *   connection ─► fdbridge, which proves the key ─► JOIN with the device's name ─► the device's
 *
 * A stranger's connection costs a process for BRIDGE_JOIN_S at most, and NODES_JOINING of them at
 * once: then a new connection takes the place of an old one, from where the most are. A node that
 * has gone leaves its devices down until it joins again. */
#pragma once

#include "base/list.h"

#include <stdbool.h>
#include <uv.h>

struct device;
struct devices;

enum { NODES_JOINING = 16 };

struct nodes {
    char bridge_path[4096]; /* fdbridge; "": it was not built */
    int listener;           /* −1: none, and until it is open */
    uv_poll_t poll;
    struct list joining; /* bridges of which no device is known yet */
};

/* Listen at --nodes, if it is given. False: a line of the log says why. */
bool nodes_open(struct devices *devices);
/* Stop listening, and end the bridges that have not joined. */
void nodes_close(struct devices *devices);
/* Some process has ended: reap those of bridges that have not joined. */
void nodes_reap(struct devices *devices);

/* LEAVING has come of the device: begin nothing there any more. False: it is not on another node,
 * or has not joined. And at its beats from then on: end its bridge when it has nothing to do. */
bool nodes_leave(struct device *device);
void nodes_end_if_idle(const struct device *device);

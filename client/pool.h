/* Regions registered with the server: the caller's, and the pool that ordinary arrays are copied
 * through. The pool grows behind the jobs: one that finds no room in it goes over the socket, and
 * what it lacked is registered for those that follow (but for the first one's, who may be the only
 * one), by a ticket that the caller never sees. */
#pragma once

#include "client/connection.h"

/* Read FDCLIENT_TRANSPORT. False: it makes no sense. */
bool pool_open(struct fdclient *client, struct fdclient_error *error);
/* Once the connection is broken. */
void pool_close(struct fdclient *client);

/* Which way the job's arrays go; may wait for the server where FDCLIENT_TRANSPORT is "region".
 * False: only by regions, and there are none; then there is nothing to release. */
bool pool_route(struct fdclient *client, struct route *route, const struct routed *job,
                struct fdclient_error *error);

/* fdclient_alloc() and fdclient_dealloc(). */
void *pool_alloc(struct fdclient *client, size_t bytes);
void pool_dealloc(struct fdclient *client, void *memory);

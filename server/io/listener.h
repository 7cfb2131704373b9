/* Sockets that clients connect to. */
#pragma once

#include "base/list.h"

#include <sys/stat.h>
#include <uv.h>

struct listener {
    struct list link;
    struct io *io;
    uv_poll_t poll;
    int socket;
    char *path;   /* bound by us and removed at the end; NULL: handed over */
    dev_t device; /* of the socket file that we made: no other is removed */
    ino_t inode;
    bool paused; /* no descriptor was left; tried again at the next tick */
};

/* Listen on all configured sockets and those from systemd. False: a log line says why. */
bool listener_open_all(struct io *io);
void listener_close_all(struct io *io);
/* Try again where accepting had to pause. */
void listener_tick(struct listener *listener);

/* The clients' memory that a worker has mapped, by the front's ids. To map and pin takes some 100
 * ms for 512 MiB: a thread of its own does it, one region after another (of the host's memory some
 * of each in turn), and undoes it.
 *
 *   worker's thread               mapper
 *   regions_map()    ── queue ──► mmap, backend->pin
 *   regions_mapped() ◄─ eventfd ──┘
 *   regions_unmap()  ── queue ──► backend->unpin, munmap
 *
 * All functions are for the worker's thread. An order that breaks a rule of channel.h ends the
 * process. */
#pragma once

#include "base/list.h"
#include "gpu/backend.h"
#include "gpu/worker/channel.h"
#include "gpu/worker/ids.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct region {
    uint64_t id, bytes;
    bool writable;
    bool answered;      /* MAPPED has been sent */
    bool is_mailbox;    /* not a client's */
    bool is_imported;   /* by the backend, as device memory */
    uint32_t users;     /* unfinished copies and jobs that name it */
    enum status status; /* of mapping it */
    /* The mapper's, until it has been answered, and again when it goes. */
    struct list link;
    uint8_t *memory;
    uint64_t populated; /* bytes of it, or all */
    bool addressable;   /* backend.h */
    int memfd;
    bool goes;
};

struct regions {
    const struct backend *backend;
    struct ids ids;
    pthread_t mapper;
    bool ending;
    pthread_mutex_t mutex; /* guards what follows, and the regions in the queues */
    pthread_cond_t ordered;
    struct list orders, mapped;
    int wake; /* eventfd, the caller's: written when regions_mapped() has something */
};

/* The backend is open. False with the failure set: there is no thread. */
bool regions_init(struct regions *regions, const struct backend *backend, int wake,
                  struct failure *failure);
/* No region has a user. Waits for the mapper. */
void regions_free(struct regions *regions);

/* REGION: begin to map one, or map a mailbox; takes the descriptor. False: there is no memory for
 * it, and it is forgotten. */
bool regions_map(struct regions *regions, const struct channel_message *message, int memfd);
/* UNREGION. */
void regions_unmap(struct regions *regions, uint64_t id);
/* The next region that is mapped, or could not be, to be answered: *id and *status. One that could
 * not be is forgotten. False: there is none. */
bool regions_mapped(struct regions *regions, uint64_t *id, enum status *status);

/* The region that holds so many bytes at the place, to be written to or only read. */
struct region *regions_find(const struct regions *regions, const struct place *place,
                            uint64_t bytes, bool write);

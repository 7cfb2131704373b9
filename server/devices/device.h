/* One device as the front sees it: its worker process, the channel to it, and what it holds.
 *
 * The worker is watched and, when it ends, started again (at once, then with a back-off of at most
 * 100 ms; the front never gives up). Until it has been reaped, its slabs are not touched: its DMA
 * may still run. Orders given while there is no worker wait for the next one.
 *
 * It hangs where it says nothing for 5 s (while it starts: 65 s), or where its device ends nothing
 * of what it was given (heartbeat.h); then it is killed.
 */
#pragma once

#include "gpu/worker/channel.h"
#include "server/devices/devices.h"
#include "server/devices/heartbeat.h"
#include "base/list.h"

#include <stdbool.h>
#include <uv.h>

struct field;
struct region;
struct region_use;

enum device_state {
    DEVICE_STARTING, /* the worker was started and has not answered yet */
    DEVICE_READY,
    DEVICE_DOWN,  /* the worker ended; another is about to be started */
    DEVICE_CLOSED /* the front is leaving */
};

enum { DEVICE_BUCKETS = 256 };

struct device {
    struct list link;
    struct devices *devices;
    char name[24]; /* "host", "cuda:0" */
    enum device_state state;
    uint64_t generation;  /* of the worker: 1, 2, … */
    uint64_t short_lives; /* workers in a row that ended before they had served for long */
    uint64_t ready_ns;    /* when this one was */
    bool once_ready;
    bool losing; /* what was on a lost worker is being failed: nothing is dispatched */
    struct device_info info;
    uint64_t memory_bytes; /* that arrays may take */
    uint64_t bytes;        /* that they take */
    uint64_t coarse_bytes; /* the same in report_coarse */
    char refusal[200];     /* why the worker would not start, where it said so */
    pid_t pid;             /* of its process, until that is reaped; 0: there is none */
    uv_poll_t poll;
    uv_timer_t timer; /* restart, and the worker's heartbeat */
    bool poll_open, poll_writes;
    int socket;                 /* −1: no channel */
    struct channel_queue queue; /* orders of this turn of the loop */
    struct channel_inbox inbox;
    struct heartbeat heartbeat;
    struct list arrays;                    /* struct field */
    struct list regions;                   /* struct region */
    struct list copies;                    /* struct slab: a worker reads or writes it */
    struct order *running[DEVICE_BUCKETS]; /* with the worker, by id */
    struct list tasks; /* struct task, all of the device's that are not finished */
    struct schedule schedule;
    struct contention contention; /* between the users */
    uint32_t users;               /* placed here */
};

/* Be ready to start workers, before there is any client. False: a line of the log says why. */
bool devices_open(struct devices *devices);

/* Start `name` ("host" or "cuda:N"); settled() follows. False: no memory. */
bool device_open(struct devices *devices, const char *name);
/* Stop all workers for good; `devices->list` empties once they are reaped. */
void device_close_all(struct devices *devices);

/* Leave a device that was never ready out; it goes when its worker has been reaped. */
void device_forget(struct device *device);

/* Send the orders that wait: at the end of a turn of the loop. */
void device_flush(struct device *device);

/* It goes out with what else this turn of the loop has to say, with a RUN the job's block behind it
 * (else NULL). Without a socket it waits for the next worker. */
void device_tell(struct device *device, const struct channel_message *message,
                 const uint8_t *block);

/* It hangs: its exit starts it again. */
void device_give_up(struct device *device, const char *why);

/* Orders to the worker; see gpu/worker/channel.h for their rules. */
void device_allocate(struct device *device, const struct field *field);
void device_release(struct device *device, const struct field *field);

/* Copy `bytes` between the slab and the array at `offset`. The slab is the worker's until copied()
 * is called, once: ok false where the worker was lost. Holds a reference to the field meanwhile. */
void device_upload(struct field *field, uint64_t offset, struct slab *slab, uint64_t bytes,
                   void (*copied)(struct slab *, void *, bool), void *context);
void device_download(struct field *field, uint64_t offset, struct slab *slab, uint64_t bytes,
                     void (*copied)(struct slab *, void *, bool), void *context);

/* Let the worker map a region; region_mapped() follows. False: not now, there is no descriptor for
 * it. And let it go again, once it is mapped. */
bool device_map(struct device *device, const struct region *region);
void device_unmap(struct device *device, const struct region *region);

/* Copy an operand that lies in a region to its array, which stays until that is done, whatever
 * becomes of its task: before the orders that read it. */
void device_copy_operand(struct device *device, struct field *field, const struct region_use *use);

/* Hand an order over, which has an id; finished() follows, once. */
void device_order(struct device *device, struct order *order);
void device_cancel(struct device *device, struct order *order);

/* "starting", "ready", "down", "closed"; "stalled": ready, and silent for a second. */
const char *device_state_name(const struct device *device);

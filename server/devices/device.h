/* A device as the front sees it: its worker process, the channel to it and its arrays; all devices,
 * their shared state, and their events for the layer above. A device knows only a task's address.
 *
 * The worker is watched and, when it ends, started again (at once, then with a back-off of at most
 * 100 ms; the front never gives up). Until it has been reaped, its slabs are not touched: its DMA
 * may still run. Orders given while there is no worker wait for the next one.
 *
 * A worker that is silent for 5 s (while it starts, or is held in the kernel: 65 s), or whose
 * device completes none of its work (heartbeat.h), hangs and is killed. */
#pragma once

#include "server/devices/heartbeat.h"
#include "server/devices/kernels.h"
#include "server/devices/link_rate.h"
#include "server/devices/nodes.h"
#include "server/metrics/trace.h"
#include "server/users/user.h"

#include <string.h>

struct group;
struct group_run;
struct mailbox;
struct region;

/* What a worker is told to do for a task, and answers once: a RUN, a MEASURE, a copy between an
 * array and a region, or an EXPORT. */
enum order_kind {
    ORDER_RUN,
    ORDER_MEASURE, /* in[0], or its distances from in[1], with out[0] to work in; in[0] = out[0]: of
                      results of blocks, with which it begins */
    ORDER_READ,    /* in[0] from its place in a region */
    ORDER_WRITE,   /* in[0] to its place */
    ORDER_EXPORT   /* in[0], which exchanges its memory with scratch[0] */
};

/* Arrays, places and parameters are the task's, and stay while the order is with the worker. */
struct order {
    struct order *next_running; /* in its bucket of the device */
    struct task *task;          /* of this user: */
    struct user *user;
    int priority;         /* its task's, and */
    uint64_t arrival;     /* when that came: for the turns of its parts on a group's members */
    bool is_short;        /* else it goes alone, and must not hold up its user's others meanwhile */
    struct record record; /* in its user's send window */
    bool stopped;         /* while it waited there */
    uint64_t id;          /* on the channel; 0: it is not with the worker */
    enum order_kind kind;
    bool progress;   /* RUN: the worker is to tell */
    bool sums;       /* MEASURE: its sum counts, which depends on the order of elements */
    uint64_t chain;  /* RUN: of which it is one (channel.h); 0: of none */
    bool ends_round; /* … and the last of those that are likely to come again */
    const struct job *job;
    const uint8_t *block;
    uint64_t ahead, behind; /* bytes of each array before and behind its own (channel.h) */
    uint64_t probed;        /* RUN: bytes of its probes, of earlier steps (channel.h) */
    struct own_planes own;  /* RUN: that it computes (channel.h) */
    struct leg leg;         /* RUN: that it is (channel.h) */
    struct group_run *run;  /* whose part it is, of an order to a group; NULL: it is a task's */
    struct field *in[AXIS_COUNT], *out[AXIS_COUNT], *scratch[AXIS_COUNT];
    struct field *operand[OPERANDS];
    const struct region_use *in_place, *out_place; /* of each component; NULL: none has any */
    struct measured measured;                      /* MEASURE, once it has ended well */
};

/* Called on the loop's thread; none of them may free the device. */
struct device_events {
    /* An access to a field, or a place in a region, that the task waited for is granted; … */
    void (*granted)(struct task *task);
    /* … or its region cannot be mapped. */
    void (*region_lost)(struct task *task, enum status status);
    /* All copies of a field that the task awaited have ended. */
    void (*copied)(struct task *task, const struct field *field);
    /* So many passes of a RUN are done. */
    void (*progress)(struct order *order, uint64_t passes);
    /* The order has ended; called once. said: its FINISHED; NULL for a copy or an EXPORT. */
    void (*finished)(struct order *order, enum status status, const struct channel_message *said);
    /* The worker is gone and its arrays are lost: fail the device's tasks, then end
     * device->losing, during which nothing is dispatched. No order of theirs is with a worker. */
    void (*worker_lost)(struct device *device);
    /* The device's node leaves: fail tasks that have not begun. */
    void (*leaving)(struct device *device);
    /* Entries of the device's schedule may have their turn. */
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
    struct kernels kernels;
    struct nodes nodes;
    struct list list; /* struct device */
    struct list gone; /* … that have ended: arrays may still name them */
    uint32_t count;   /* numbers given out; devices left out at the start keep theirs */
    uint32_t hosts;   /* devices on this host, which share its memory */
    int child_signal; /* the descriptor of SIGCHLD, … */
    uv_poll_t ended;  /* … and its watch */
    bool has_gpu;
    struct device *group;      /* the one that is a group (group.h); NULL: there is none */
    struct list communicators; /* struct communicator */
    uint64_t last_communicator, last_exchange; /* numbers given to these, and to what they do */
    uint64_t heard_ns;                         /* when a worker last sent something */
    uint64_t last_array, last_region;          /* numbers given on the channels, */
    uint64_t last_part;                        /* and to orders to members of a group */
};

enum device_state {
    DEVICE_STARTING, /* the worker was started and has not answered yet */
    DEVICE_READY,
    DEVICE_DOWN,  /* the worker ended; another is about to be started, or to be joined to */
    DEVICE_CLOSED /* the front is leaving */
};

enum { DEVICE_BUCKETS = 256 };

struct device {
    struct list link;
    struct devices *devices;
    uint32_t number; /* 0, 1, … in the order in which they were opened */
    char name[48];   /* "host", "cuda:0", "NODE/cuda:0" */
    bool bridged;    /* on another node; its process is that of the bridge (nodes.h) */
    enum device_state state;
    uint64_t generation;  /* of the worker: 1, 2, … */
    uint64_t short_lives; /* workers in a row that ended before they had served for long */
    uint64_t ready_ns;    /* when this one was */
    bool once_ready;
    bool is_given_up; /* its worker has been killed, and has not ended yet */
    bool leaving;     /* its node takes nothing new, and goes when what it has has ended */
    bool losing;      /* its lost worker's tasks are being failed: nothing is dispatched */
    struct device_info info;
    uint64_t memory_bytes; /* that arrays may take */
    uint64_t bytes;        /* that they take */
    uint64_t array_count;  /* their number */
    uint64_t coarse_bytes; /* the same in report_coarse */
    char refusal[200];     /* why the worker would not start, where it said so */
    bool is_absent;        /* since there is no such device */
    pid_t pid;             /* of its process, until that is reaped; 0: there is none */
    uv_poll_t poll;
    uv_timer_t timer; /* restart, and the worker's heartbeat */
    bool poll_open, poll_writes;
    bool rests; /* the channel has room, but there is no memory to send: until the next beat */
    int socket; /* −1: no channel */
    struct channel_queue queue; /* orders of this turn of the loop */
    struct channel_inbox inbox;
    struct heartbeat heartbeat;
    struct kernels_sent kernels;
    struct list arrays;                    /* struct field */
    struct list operands;                  /* … that are being copied from regions */
    struct list regions;                   /* struct mapping: of regions that it was asked for */
    struct list copies;                    /* struct slab: a worker reads or writes it */
    uint32_t sends;                        /* copies between devices that have not ended */
    struct link_rate rate;                 /* of copies, of a device on another node */
    struct order *running[DEVICE_BUCKETS]; /* with the worker, by id */
    struct list tasks; /* struct task, all of the device's that are not finished */
    struct schedule schedule;
    struct contention contention; /* between the users */
    struct mailbox *mailbox;      /* of a member of a group (mailbox.h); owned. NULL: it has none */
    struct group *group;          /* its members, whose workers compute (group.h); owned. NULL: it
                                     has a worker of its own */
    uint32_t due_users;           /* users whose due_ns here is not 0 (server/users/user.h) */
};

/* Be ready to start workers, before there is any client. False: a line of the log says why. */
bool devices_open(struct devices *devices);

/* A device without a worker, the last of the list, owned by it. NULL: no memory. */
struct device *device_new(struct devices *devices, const char *name);
/* Start `name` ("host" or "cuda:N"); settled() follows. One of another node ("NODE/host") is down
 * until that joins. False: no memory, or there are DEVICES_MOST already: a line of the log says so.
 */
bool device_open(struct devices *devices, const char *name);
/* Its node has joined, by a bridge in that process with that channel, which are the device's from
 * here on. False: it is not down, or its last bridge is not quite gone. */
bool device_joins(struct device *device, int channel, pid_t pid);
/* Is it, or a member of it, on a node that has not joined, or leaves? Nothing is begun there then.
 */
bool device_is_away(const struct device *device);
/* Stop all workers for good; `devices->list` empties once they are reaped. */
void device_close_all(struct devices *devices);

/* At the end, after the loop. */
void devices_free(struct devices *devices);

/* Leave out a device that was never ready; it is freed when its worker has been reaped. */
void device_forget(struct device *device);

/* Send the orders that wait: at the end of a turn of the loop. */
void device_flush(struct device *device);

/* Queue a message, which is sent at the end of this turn of the loop; block: of a RUN's job, else
 * NULL. Without a socket it waits for the next worker. */
void device_tell(struct device *device, const struct channel_message *message,
                 const uint8_t *block);

/* Queue a message with a copy of the descriptor. False: there is no memory, or no descriptor is
 * left for it now. */
bool device_pass(struct device *device, const struct channel_message *message, int descriptor);

/* Kill a worker that is of no use; another is started once it has exited. Nothing is placed on the
 * device meanwhile, and the log says so if that takes long. */
void device_give_up(struct device *device, const char *why);

/* The array's number on the channel, for a record that goes out now: the worker is told of an array
 * before the first record that uses it, and of no other. So what it is told is bounded by orders
 * and copies, however many arrays are made and freed unused. NULL: 0. */
uint64_t device_array(struct field *field);
/* Its last reference is gone: the worker releases it, if it knows of it. */
void device_release(const struct field *field);

/* Copy `bytes` from the slab to the array at `offset`, or from there. Meanwhile the slab is the
 * worker's, and the field is referenced. An upload ends with the release of the slab, a download
 * with one call of copied(), whose ok is false if the worker was lost. */
void device_upload(struct field *field, uint64_t offset, struct slab *slab, uint64_t bytes);
void device_download(struct field *field, uint64_t offset, struct slab *slab, uint64_t bytes,
                     void (*copied)(struct slab *, void *, bool), void *context);
/* After field->copies became less: go on with what waited until there are none. */
void device_settle_copies(struct field *field);
/* Release a slab to the arena or, if it is a slot of a mailbox, there. */
void device_release_slab(struct arena *arena, struct slab *slab);

/* The estimated time of a copy between this node's memory and the device's. */
double device_copy_ns(const struct device *device, uint64_t bytes);

/* Let the worker map a region; region_mapped() follows. False: no descriptor is left for it now.
 * device_unmap(): of one that is mapped. */
bool device_map(struct device *device, const struct region *region);
void device_unmap(struct device *device, const struct region *region);

/* Copy an operand from its region to its array, before the orders that read it. The array stays
 * until the copy has ended, even if its task ends earlier. */
void device_copy_operand(struct field *field, const struct region_use *use);

/* Hand an order over, which has an id; finished() follows, once. */
void device_order(struct device *device, struct order *order);
void device_cancel(struct device *device, struct order *order);

/* "starting", "ready", "down", "closed"; of one that is ready: "leaving", or "stalled" where it has
 * been silent for a second. */
const char *device_state_name(const struct device *device);

/* Does it compute on a host's cores? */
static inline bool device_is_host(const struct device *device)
{
    return strcmp(device->info.kind, "host") == 0;
}

/* pieces.c: the longest that the device should be at one thing of what it was given. */
double device_longest_piece_ns(const struct device *device);

/* orders.c, for device.c. Handle a message of the worker; *descriptor becomes −1 if it is taken.
 * False: the worker breaks the channel's rules. */
bool orders_take(struct device *device, const struct channel_message *message, int *descriptor);
/* The worker is gone, and all orders with it. */
void orders_forget(struct device *device);
/* The same of its copies; call it after the arrays were lost. */
void orders_lose(struct device *device);

/* operands.c, for orders.c. In the tag of a copy of an operand from a region, beside its array's
 * number. */
#define DEVICE_OPERAND_TAG (UINT64_C(1) << 62)
/* Such a copy has ended. False: there is none. */
bool operands_take(struct device *device, uint64_t array);
/* The worker is gone, and all of them with it. */
void operands_lose(struct device *device);

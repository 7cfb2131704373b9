/* Mailboxes: memory on a member of a group that the workers of other members map, so that bytes of
 * arrays go from one to another without the host's memory (between GPUs by their links). Members of
 * this node map each other's, and so do those of the other nodes; none maps one across.
 *
 *   worker of `from` ──download──► slot of the mailbox of `to` ──upload──► its array
 *
 * A slot is a struct slab of its own. A mailbox is opened when its worker is ready, and told to the
 * workers of those other members when they are; where it cannot be had or mapped, copies go through
 * the staging arena, and nodes that did not reach each other try again later. When its worker has
 * ended, it is opened again once its slots have come back.
 */
#pragma once

#include "gpu/worker/channel.h"
#include "server/devices/rest.h"
#include "server/users/arena.h"
#include "server/users/user.h"

struct device;

enum { MAILBOX_SLOTS = 16, MAILBOX_GRAIN = MAILBOX_SLOTS * CHANNEL_SLOT_BYTES };

/* A worker and a mailbox. */
struct mailbox_reach {
    /* What the worker has heard of it, and has answered. CUT_OFF: it has mapped it, but a copy did
     * not arrive. */
    enum {
        MAILBOX_UNTOLD,
        MAILBOX_TOLD,
        MAILBOX_MAPPED,
        MAILBOX_CUT_OFF,
        MAILBOX_OUT_OF_REACH
    } known;
    struct rest rest; /* of a node that did not reach it */
};

struct mailbox {
    struct device *device;
    enum { MAILBOX_NONE, MAILBOX_OPENING, MAILBOX_OPEN, MAILBOX_LEAVING } state;
    int descriptor;                           /* OPEN: owned; else −1 */
    uint64_t bytes;                           /* in slots of equal size */
    uint64_t region;                          /* its number on the channels of all members */
    struct mailbox_reach reach[DEVICES_MOST]; /* of the worker of a device, by its number */
    struct slab *slot;                        /* MAILBOX_SLOTS of them, owned */
    struct list free;
    uint32_t taken;
    struct list waiting; /* struct slab_waiter, first come first */
};

/* Give a member of a new group its mailbox, unless --mailbox-bytes asks for none. False: no memory.
 */
bool mailbox_open(struct device *device);
void mailbox_free(struct device *device);

/* Can bytes go from an array of `from` to one of `to` through the mailbox of `to`? */
bool mailbox_reaches(const struct device *from, const struct device *to);

/* Take a slot of the device's mailbox for the user, who has an array there; NULL: none is free.
 * mailbox_wait() calls the waiter once when one is: the first of the user who has the fewest, so
 * that a user with many copies under way does not keep others waiting for all of them. It waits for
 * one thing at a time, and arena_forget() ends its wait. */
struct slab *mailbox_take(struct device *device, struct user *user);
void mailbox_wait(struct device *device, struct slab_waiter *waiter);
void mailbox_release(struct slab *slot);

uint64_t mailbox_slot_bytes(const struct device *device);
/* Where a slot lies in its mailbox. */
uint64_t mailbox_offset(const struct slab *slot);
/* The number of the present use of a slot: no other has it, and those of one slot rise. And the
 * slot whose present use has that number; NULL: none. */
uint64_t mailbox_use_number(const struct slab *slot);
struct slab *mailbox_slot(const struct device *device, uint64_t number);

/* The device's worker is ready, and has a beat from then on, or is gone; of a device without a
 * mailbox these do nothing. */
void mailbox_worker_ready(struct device *device);
void mailbox_worker_lost(struct device *device);

/* MAILBOX of the device's worker, which has opened its own or had no memory; *descriptor becomes −1
 * if it is taken. */
void mailbox_opened(struct device *device, const struct channel_message *message, int *descriptor);
/* MAPPED of a region. False: it is no mailbox. */
bool mailbox_mapped(struct device *device, uint64_t region, enum status status);
/* A DOWNLOAD of the device's has arrived in the slot, or has not: then others take another way. */
void mailbox_copied(const struct device *device, const struct slab *slot, bool ok);

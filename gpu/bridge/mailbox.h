/* The mailbox of this node's device (server/devices/mailbox.h), and the threads that take what
 * other nodes write to it: each PUT begins with its head, and is answered with one byte. */
#pragma once

#include "gpu/worker/channel.h"

/* What another node finds the mailbox by. */
struct mailbox_address {
    char magic[8]; /* "fdnode" */
    uint8_t token[16];
    char address[64]; /* "HOST:PORT"; the node's end leaves out HOST, which the head's knows */
};

/* A PUT: bytes of a copy to a slot, which follow. */
struct put_head {
    uint64_t tag;       /* of the DOWNLOAD */
    uint64_t offset;    /* … in the mailbox */
    uint64_t at, bytes; /* from there */
};
enum {
    PUT_TAKEN = 1,   /* the answer */
    PUT_SILENCES = 3 /* of BRIDGE_JOIN_S each, until one that is under way is given up */
};

/* Listen for others. False: the node has no mailbox. */
bool mailbox_listen(void);

/* MAILBOX: memory of that size, which others then may write to. False: there is none. */
bool mailbox_open(uint64_t bytes, struct mailbox_address *address);

/* Is that the address of this one? Its memory, of that size; −1: there is none. */
bool mailbox_is_own(const struct mailbox_address *address);
int mailbox_memfd(uint64_t bytes);

/* The worker itself is about to write there. */
void mailbox_note(uint64_t offset, uint64_t tag);

/* Mailboxes between nodes (server/devices/mailbox.h). The bytes that one node's device copies to
 * another one's go straight from node to node:
 *
 *   worker ──► memory of the mailbox here ══PUT══► memory of the mailbox there ──► worker
 *
 * A DOWNLOAD to such a mailbox is COPIED only once the other node has the bytes. Each node listens
 * for the others, which have the cluster's key and the mailbox's token. There are several
 * connections to each peer, since one is as fast as a core encrypts. Each has a thread of its own,
 * which waits for nothing else; one that breaks is made again, and its PUT again. Of the node's end
 * of a bridge, on its thread, but where it is said. */
#pragma once

#include "gpu/bridge/mailbox.h"

/* Be ready to have peers; the bridge has joined. False: the node has no mailbox. */
bool peers_open(void);

/* REGION of a mailbox: of the node's own, or of another one's, to which a connection is then made.
 * The worker is told of the memory, or MAPPED with INTERNAL goes to the head, now or later. */
void peers_map(const struct channel_message *record, const struct mailbox_address *address);
void peers_unmap(uint64_t region);

/* A DOWNLOAD to another node's mailbox is noted; its COPIED is taken, and goes to the head once the
 * other node has the bytes, with INTERNAL if it never has. False: it is another one. */
void peers_note(const struct channel_message *download);
bool peers_take_copied(const struct channel_message *copied);

/* The descriptor that is readable when a thread has something to say, and what to do then; −1, as
 * at the head: there is none. */
int peers_descriptor(void);
void peers_serve(void);

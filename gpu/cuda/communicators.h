/* Communicators of NCCL's, a library that is loaded at run time where FDSERVER_NCCL names it. Each
 * has a stream, and a thread that makes it, puts one exchange after another on the stream, and
 * aborts it: the calls do not block, but NCCL does not tell when they have done their work.
 *
 *   worker's thread                       thread
 *   connect()    ───────────────────────► make, await ────────────────► completion
 *   exchange()   ── queue ──────────────► send and receive, await ────► completion
 *   disconnect() ── leaves ─────────────► abort, fail what is left ───► completion
 *
 * A peer that is gone shows in nothing that NCCL says: the exchange with it waits until it is given
 * up. Whatever failed is aborted at once. */
#pragma once

#include "gpu/backend.h"

/* Load the library, for this device. False: none is named, or it cannot be used. */
bool communicators_open(int device, int wake);

/* As in backend.h. */
struct communicator *communicators_connect(int rank, uint8_t id[COMMUNICATOR_ID_BYTES],
                                           struct token token);
void communicators_exchange(struct communicator *communicator, const void *sent, size_t sent_bytes,
                            void *received, size_t received_bytes, struct token token);
void communicators_disconnect(struct communicator *communicator, struct token token);
bool communicators_reap(struct completion *completion);

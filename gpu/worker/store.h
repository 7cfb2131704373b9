/* What a worker stores, and the orders about it: arrays on its device, the clients' regions that it
 * has mapped, and copies between arrays and the arena or a region. An order that breaks a rule of
 * channel.h ends the process. */
#pragma once

#include "gpu/worker/holding.h"
#include "gpu/worker/worker.h"

/* The backend is open. False with the failure set: there is no thread, or no descriptor. */
bool store_open(struct worker *worker, struct failure *failure);
/* Release all of it. Nothing is under way. */
void store_close(struct worker *worker);

/* REGION (takes the descriptor), UNREGION. */
void store_map(struct worker *worker, const struct channel_message *message, int memfd);
void store_unmap(struct worker *worker, uint64_t id);
/* MAPPED of each region that has been mapped, or could not be, since the last call. */
void store_answer_mapped(struct worker *worker);

/* ALLOCATE, RELEASE. */
void store_allocate(struct worker *worker, uint64_t id, uint64_t bytes, uint64_t owner);
void store_release(struct worker *worker, uint64_t id);

/* UPLOAD, DOWNLOAD. The backend's completion, or the pipeline's, is for store_copied(). */
void store_copy(struct worker *worker, const struct channel_message *message);
void store_copied(struct worker *worker, struct copy *copy);

/* Is there memory behind the array, and what was copied to it? */
bool store_has_memory(const struct holding *holding);
/* The array of that id, which is there; or one of no bytes, where it may be one that there was no
 * memory to note. */
struct holding *store_find(const struct worker *worker, uint64_t id);
/* So many bytes at a place, and the region that holds them. */
uint8_t *store_find_place(const struct worker *worker, const struct place *place, uint64_t bytes,
                          bool write, struct region **region);

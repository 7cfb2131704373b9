/* Clients' memory, pinned piece by piece. A call that pins may keep all others waiting, so that one
 * pins no more than BACKEND_PIN_BYTES; and no copy reaches from one piece into the next. */
#pragma once

#include "gpu/backend.h"

/* Bytes from the address to the end of its piece, or all there are. */
size_t pin_piece(const void *memory, size_t bytes);

/* addresses: the device finds memory that is pinned where the host does. */
void pin_open(int device, bool addresses);

/* As backend.h's pin() and unpin(). Memory that may only be read cannot be pinned on every system:
 * then it stays as it is, and its uploads go through the driver's own memory, slower. */
enum status pin_memory(void *memory, size_t bytes, bool writable, bool *addressable);
void unpin_memory(void *memory, size_t bytes);

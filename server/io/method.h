/* Methods: a decoded request → a task, or an answer at once. */
#pragma once

#include "protocol/request.h"

struct connection;
struct region;
struct region_owner;

/* The arrays that came with it are in the connection's upload. Every request gets exactly one
 * reply. */
void method_call(struct connection *connection, struct request *request);

/* Answers register or unregister for the connection whose regions these are (region.h). */
void method_region_answered(struct region_owner *owner, uint64_t msgid, const struct region *region,
                            const struct failure *failure);

/* A message of a connection whose bytes are complete: to be unpacked, decoded and acted upon. */
#pragma once

#include "server/devices/region.h"

struct connection;

/* Act upon the complete message; or leave it where it is, to be taken again when bounds_due(). */
void message_take(struct connection *connection);

/* The bytes cannot be followed any further: say why, then close. */
void message_fail(struct connection *connection, enum status status, const char *text);

/* Answers register or unregister for the connection whose regions these are (region.h). */
void message_region_answered(struct region_owner *owner, uint64_t msgid,
                             const struct region *region, const struct failure *failure);

/* A message of a connection whose bytes are complete: to be unpacked, decoded and acted upon. */
#pragma once

#include "base/status.h"

struct connection;

/* Act upon the complete message; or leave it where it is, to be taken again when bounds_due(). */
void message_take(struct connection *connection);

/* The bytes cannot be followed any further: say why, then close. */
void message_fail(struct connection *connection, enum status status, const char *text);

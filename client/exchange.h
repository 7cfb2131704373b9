/* Requests out and replies in, with and without waiting. */
#pragma once

#include "client/connection.h"

/* The ticket is under way from here on; its first bytes go out at once where they can. */
void exchange_begin(struct fdclient *client, struct ticket *ticket);

/* What to poll for: POLLIN, POLLOUT. */
short exchange_events(const struct fdclient *client);

/* Send and receive what is possible without waiting. */
void exchange_now(struct fdclient *client);

/* Wait until something can be sent or received, and do so. Something must be under way. */
void exchange_wait(struct fdclient *client);

/* Exported fields, by the connections that took their descriptors. The memory of one stays charged
 * while such a connection is open, freed or not: its client has it mapped, as far as we know. */
#pragma once

#include "server/jobs/jobs.h"

/* The client takes the field's descriptor; again: nothing changes. False with the failure set:
 * there is no memory. */
bool exports_take(struct client *client, struct field *field, struct failure *failure);

/* The client is gone. */
void exports_forget(struct client *client);

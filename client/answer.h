/* What a reply says, put where its ticket's caller wants it: arrays, fields, JSON, an error. What
 * makes no sense, or has no place, fails the ticket alone. */
#pragma once

#include "client/ticket.h"
#include "protocol/splitter.h"

#include <msgpack.h>

/* Payload of a reply comes next. True: it goes to *component's memory, behind what that part has
 * received. False: it is to be dropped. */
bool answer_payload(struct ticket *ticket, const struct splitter_payload *payload,
                    uint32_t *component);

/* The whole reply but for its payload, which has come: [1, msgid, error, result]. */
void answer_take(struct ticket *ticket, const msgpack_object *error, const msgpack_object *result);

/* The type and shape beside a field's id; false: they are not there. */
bool answer_field_type(const msgpack_object *out, struct array_type *type);

/* The packed answer of a task: text, and arrays in it. */
#pragma once

#include "protocol/reply.h"
#include "protocol/request.h"

struct task;

enum { ANSWER_PARTS = 12 };

/* An array inside a message. */
struct answer_part {
    struct field *field;
    size_t text_end; /* of the message's text before its bytes, its header included */
};

/* A message: after answer_init(), pack into `packer`; it ends with its last array, if it has one.
 * An outbox that it is pushed to takes it over. */
struct answer {
    msgpack_sbuffer text;
    msgpack_packer packer;
    struct field *exported; /* whose descriptor goes with it; NULL: none does */
    uint32_t parts;
    struct answer_part part[ANSWER_PARTS];
};

void answer_init(struct answer *answer);
/* An array comes next; its field is not referenced here. */
void answer_array(struct answer *answer, struct field *field);

/* The results of a finished task, or where they are. False: no memory. */
bool answer_task(struct answer *answer, const struct task *task);

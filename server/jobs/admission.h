/* The admission of jobs. All that a job needs is reserved here, before anything is done, or nothing
 * is: so no task ever waits for memory while it holds some. */
#pragma once

#include "server/jobs/task.h"

/* May the user have one job more? SHUTTING_DOWN or QUEUE_FULL where not. */
bool admission_open(const struct jobs *jobs, const struct user *user, struct failure *failure);

/* Take the request's inputs, make its job, its operands and its outputs, and queue for the resident
 * ones among them; upload: the request's payload. False with the failure set: end the task, which
 * holds all that was reserved until then. */
bool admission_take(struct task *task, struct request *request, const struct upload *upload,
                    struct failure *failure);

/* Charge so many bytes of a block to the queue: it waits with its task, as the arrays of jobs do.
 * False with the failure set: they are over a limit, TOO_LARGE where no waiting helps. */
bool admission_charge(struct task *task, uint64_t bytes, struct failure *failure);

/* End the charge of all its blocks. */
void admission_uncharge(struct task *task);

/* A new array of the task, for the caller to release. NULL with the failure set where there is no
 * room for it; where there would be none if the task were alone, TOO_LARGE: no waiting helps. */
struct field *admission_new_array(const struct task *task, const struct array_type *type,
                                  struct failure *failure);

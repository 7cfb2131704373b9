/* May a job come in, and all that it needs with it? Everything is reserved here, before anything
 * is done, or nothing is: so no task ever waits for memory while it holds some. */
#ifndef SERVER_ADMISSION_H
#define SERVER_ADMISSION_H

#include "server/task.h"

/* May the user have one job more? SHUTTING_DOWN or QUEUE_FULL where not. */
bool admission_open(const struct server *server, const struct user *user, struct failure *failure);

/* Take the request's inputs, make its job and its outputs, and queue for the resident ones among
 * them. `uploads` as in task_accept(). False with the failure set: the task holds what it had come
 * to, and is to be ended. */
bool admission_take(struct task *task, const struct request *request,
                    struct field *const uploads[AXIS_COUNT], struct failure *failure);

#endif

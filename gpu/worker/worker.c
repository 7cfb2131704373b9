#include "gpu/worker/worker.h"

#include "base/log.h"

#include <poll.h>
#include <unistd.h>

_Noreturn void worker_broken(const char *rule, uint64_t id)
{
    log_fatal(WORKER_BROKEN_FRONT_EXIT, "the front broke the channel's rules: %s (%llu)", rule,
              (unsigned long long)id);
}

_Noreturn void worker_out_of_memory(void)
{
    log_fatal(BACKEND_FAULT_EXIT, "no memory for the worker's own tables");
}

void worker_answer(struct worker *worker, const struct channel_message *message)
{
    struct pollfd front = {.fd = CHANNEL_DESCRIPTOR, .events = POLLOUT};
    while (!channel_queue_push(&worker->answers, message, NULL, -1)) {
        if (!worker->answers.count)
            worker_out_of_memory();
        const enum channel_result result =
            channel_queue_flush(&worker->answers, CHANNEL_DESCRIPTOR);
        if (result == CHANNEL_CLOSED)
            _exit(0);
        if (result == CHANNEL_AGAIN)
            poll(&front, 1, -1);
    }
}

#include "gpu/worker.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void worker_log(const struct worker *worker, int priority, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "<%d>fdworker %s: %s\n", priority, worker->name, text);
}

_Noreturn void worker_broken(const struct worker *worker, const char *rule, uint64_t id)
{
    worker_log(worker, 2, "the front broke the channel's rules: %s (%llu)", rule,
               (unsigned long long)id);
    _exit(WORKER_BROKEN_FRONT_EXIT);
}

_Noreturn void worker_out_of_memory(const struct worker *worker)
{
    worker_log(worker, 2, "no memory for the worker's own tables");
    _exit(BACKEND_FAULT_EXIT);
}

void worker_answer(struct worker *worker, const struct channel_message *message)
{
    if (!channel_queue_push(&worker->answers, message, -1))
        worker_out_of_memory(worker);
}

/* Threads of the front and of a worker, beside the one that serves the loop. */
#pragma once

#include <pthread.h>
#include <signal.h>

/* pthread_create() of a thread in which signals are blocked: they are for the process's first one.
 * Returns 0 or an errno. */
static inline int thread_start(pthread_t *thread, void *(*run)(void *), void *context)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

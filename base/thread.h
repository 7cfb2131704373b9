/* Threads of the front and of a worker, beside the one that serves the loop. */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

/* Block all signals in the calling thread, and in threads that it then creates; returns what was
 * blocked before, for pthread_sigmask(). */
static inline sigset_t signals_block(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    return before;
}

/* pthread_create() of a thread in which signals are blocked: they are for the process's first one.
 * Returns 0 or an errno. */
static inline int thread_start(pthread_t *thread, void *(*run)(void *), void *context)
{
    const sigset_t before = signals_block();
    const int error = pthread_create(thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* Wake the thread that polls a non-blocking eventfd. From any thread. */
static inline void thread_wake(int eventfd)
{
    const uint64_t one = 1;
    while (write(eventfd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

/* The thread is awake, and looks for what it was woken for after this. */
static inline void thread_awake(int eventfd)
{
    uint64_t times;
    while (read(eventfd, &times, sizeof times) < 0 && errno == EINTR)
        ;
}

/* Waking a thread that polls, in the front and in a worker. */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

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

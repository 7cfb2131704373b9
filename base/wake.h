/* Waking a thread that polls a non-blocking eventfd, in a worker. */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

/* From any thread. */
static inline void wake_send(int eventfd)
{
    const uint64_t one = 1;
    while (write(eventfd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

/* Called by the thread that was woken, before it looks for the reason. */
static inline void wake_take(int eventfd)
{
    uint64_t times;
    while (read(eventfd, &times, sizeof times) < 0 && errno == EINTR)
        ;
}

/* Threads that nobody waits for. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

/* Start one. False: there is none to be had. */
static inline bool thread_start(void *(*run)(void *), void *of)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, run, of) == 0 && pthread_detach(thread) == 0;
}

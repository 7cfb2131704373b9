/* Signals that a process waits for: blocked, and read from a descriptor. No handler interrupts
 * anything (libuv's wait for one another through a pipe, and one of them could interrupt another
 * there, for ever). */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Block SIGTERM, SIGINT and SIGCHLD in the calling thread and in those that it then creates: called
 * while there is no other. */
static inline void signals_block(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGCHLD, SIG_DFL); /* a parent may have had it ignored: children would reap themselves */
}

/* A descriptor that is readable while this blocked signal is pending; −1 with errno. */
static inline int signal_descriptor(int number)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* It is pending no more, until it is sent again. */
static inline void signal_take(int descriptor)
{
    struct signalfd_siginfo said;
    while (read(descriptor, &said, sizeof said) == sizeof said)
        ;
}

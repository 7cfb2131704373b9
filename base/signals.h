/* Signals that a process reads from descriptors. They are blocked, so that no handler interrupts
 * anything: a handler of libuv's takes a lock, and one that interrupted another there would wait
 * for ever. */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Block SIGTERM, SIGINT and SIGCHLD in the calling thread, which must be the only one: threads
 * inherit this. */
static inline void signals_block(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGCHLD, SIG_DFL); /* if a parent has it ignored, children cannot be waited for */
}

/* Of a program that the front starts, by a descriptor, which its name would be: it ends with the
 * front, which handles what a terminal or an operator sends to the whole group. That a front has
 * died before this shows by its socket. */
static inline void signals_leave_to_front(const char *name)
{
    prctl(PR_SET_NAME, name);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
}

/* A descriptor that is readable while this blocked signal is pending; −1 with errno. */
static inline int signals_open(int number)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* Read the pending signal: the descriptor is readable again once another one is sent. */
static inline void signals_take(int descriptor)
{
    struct signalfd_siginfo info;
    while (read(descriptor, &info, sizeof info) == sizeof info)
        ;
}

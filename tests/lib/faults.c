/* Preloaded into the front or a worker: calls that fail, or wait, at a test's request
 * (tests/lib/faults.py).
 *
 * FAULTS_PROCESS names the program, and FAULTS_CONTROL a file of 64-bit numbers that the test
 * writes while the program runs: see enum control. FAULTS_HANG names a file; to close one of its
 * descriptors, or to allocate its blocks, waits until GO_ON is 1. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum control {
    FAIL_AT,     /* which allocation from here on is to fail, from 1; 0: none */
    ALLOCATIONS, /* so many there have been since it was set */
    FAILED,      /* so many have failed */
    NO_THREADS,  /* 1: no thread can be made */
    NO_WATCHES,  /* 1: epoll takes no further descriptor */
    HOLD,        /* 1: a thread of the front's that is to work for a user does not begin … */
    HELD,        /* … and so many wait */
    HANG,  /* so many threads of a worker's hang before they compute what comes next: asleep, … */
    GO_ON, /* … until this is 1 */
    SPIN,  /* … in a loop */
    NO_MEMFDS,     /* 1: no memfd can be made */
    MEMFDS_FAILED, /* so many were not */
    CONTROL_COUNT
};

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

static _Atomic uint64_t *control; /* NULL: nothing fails here */

__attribute__((constructor)) static void begin(void)
{
    const char *program = getenv("FAULTS_PROCESS"), *path = getenv("FAULTS_CONTROL");
    if (!program || !path || strcmp(program, program_invocation_short_name) != 0)
        return;
    const int file = open(path, O_RDWR | O_CLOEXEC);
    void *memory =
        mmap(NULL, CONTROL_COUNT * sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (memory != MAP_FAILED)
        control = memory;
}

static bool fails(void)
{
    if (!control || !control[FAIL_AT] || ++control[ALLOCATIONS] != control[FAIL_AT])
        return false;
    control[FAILED]++;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes)
{
    return fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    return fails() ? NULL : __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return fails() ? NULL : __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    void *const made = fails() ? NULL : __libc_memalign(alignment, bytes);
    if (made)
        *memory = made;
    return made ? 0 : ENOMEM;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return control && control[NO_THREADS] ? EAGAIN : real(thread, attributes, run, argument);
}

int epoll_ctl(int epoll, int operation, int descriptor, struct epoll_event *event)
{
    if (control && control[NO_WATCHES] && operation == EPOLL_CTL_ADD) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, epoll, operation, descriptor, event);
}

int memfd_create(const char *name, unsigned flags)
{
    if (control && control[NO_MEMFDS]) {
        control[MEMFDS_FAILED]++;
        errno = ENOMEM;
        return -1;
    }
    return (int)syscall(SYS_memfd_create, name, flags);
}

/* Whether this call is affected; it then decrements the count. */
static bool is_next(enum control which)
{
    for (uint64_t left = control[which]; left;)
        if (atomic_compare_exchange_weak(&control[which], &left, left - 1))
            return true;
    return false;
}

/* Called before a user is charged for a thread's time, and by a worker's computing thread, which
 * measures its work. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (control && clock == CLOCK_MONOTONIC && gettid() != getpid()) {
        if (control[SPIN] && is_next(SPIN))
            for (volatile int forever = 1; forever;)
                ;
        if (control[HANG] && is_next(HANG))
            while (!control[GO_ON])
                usleep(1000);
    }
    if (control && control[HOLD] && clock == CLOCK_THREAD_CPUTIME_ID) {
        control[HELD]++;
        while (control[HOLD])
            usleep(1000);
        control[HELD]--;
    }
    return (int)syscall(SYS_clock_gettime, clock, time);
}

/* If it is of the file that hangs. */
static void wait_to_go_on(int descriptor)
{
    const char *hanging = control ? getenv("FAULTS_HANG") : NULL;
    char own[64], path[4096] = "";
    snprintf(own, sizeof own, "/proc/thread-self/fd/%d", descriptor);
    if (hanging && readlink(own, path, sizeof path - 1) > 0 && strcmp(path, hanging) == 0)
        while (!control[GO_ON])
            usleep(1000);
}

int close(int descriptor)
{
    wait_to_go_on(descriptor);
    return (int)syscall(SYS_close, descriptor);
}

int fallocate(int descriptor, int mode, off_t offset, off_t bytes)
{
    wait_to_go_on(descriptor);
    return (int)syscall(SYS_fallocate, descriptor, mode, offset, bytes);
}

/* A worker's computing threads: tasks, each begun by one of them, and loops that a thread shares
 * with those that are free. The threads are made when the pool is opened, never more, and sleep
 * while there is nothing to do.
 *
 *   thread_pool_give() → short tasks ─┐                  ┌─► run ─► thread_pool_share() ─┐
 *                 long slices ─┼─► free threads ──┤                       │
 *                 wide slices ─┘                  └─► join a loop ◄────────┘
 *
 * A short task goes before slices of long jobs, but for one slice after each POOL_TURN_US that
 * short ones have had while slices waited; so it waits until one of the slices under way ends and,
 * at most, for one more. Pieces that stay on one thread and those that are wide take turns. Of wide
 * ones one is under way at a time: it has all threads that find no task, which leave it between two
 * parts when a short task comes.
 *
 * A thread that shares its loop waits for parts that helpers have begun, never for a helper to
 * come: on a machine that is busy with other things it goes on alone.
 *
 * A thread that hangs shows in thread_pool_still_us(): it begins no other part. */
#ifndef BASE_THREAD_POOL_H
#define BASE_THREAD_POOL_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    POOL_TURN_US = 10000, /* as long as a slice of a long job */
    POOL_THREADS_MOST = 1024
};

enum thread_pool_length {
    POOL_SHORT, /* a whole job of a few milliseconds at most */
    POOL_LONG,  /* a slice of a longer one, on one thread */
    POOL_WIDE,  /* … that shares loops */
    POOL_LENGTHS
};

struct thread_pool_task {
    struct thread_pool_task *next;
    enum thread_pool_length length;
    /* On a thread of the pool. Returns the tasks, linked by next, that may begin now. */
    struct thread_pool_task *(*run)(struct thread_pool_task *task);
};

/* Make the threads; 0: one for each core that this process may run on. Fewer where the system
 * gives no more, INTERNAL where it gives none; those of a pool that is open already stay. Signals
 * are blocked in them. */
bool thread_pool_open(int threads, struct failure *failure);
/* End them. No task is waiting or under way. */
void thread_pool_close(void);
/* How many there are; 1 where the pool is not open: loops are then the caller's alone. */
int thread_pool_threads(void);

/* From any thread. The pool is open; the task lives until it runs. */
void thread_pool_give(struct thread_pool_task *task);

/* Work whose parts are taken from where all that share it look, until none is left. `slot` tells
 * those apart that are at it: 0 is the caller. Between two parts it asks thread_pool_stays(), and
 * returns where that is false. */
typedef void thread_pool_work(void *context, int slot);
bool thread_pool_stays(void);
/* Do the work on this thread, and on others as they are free: `most` in all. Returns when all parts
 * are done. From any thread; not from within such work. */
void thread_pool_share(int most, thread_pool_work *work, void *context);

/* For how long the slowest thread has been at the part, or the task, that it is at: microseconds in
 * which it ran or slept, not those in which it waited for a CPU or a page. So a thread that hangs,
 * in a loop or asleep, is told from one that a busy machine is slow to run. Counted from one call
 * to the next, and of a longer pause between two (the process was stopped) one second; one caller.
 */
uint64_t thread_pool_still_us(void);

/* The same of parts [0, count), in any order and one at a time. */
typedef void thread_pool_part(void *context, int64_t part);
void thread_pool_for(int most, int64_t count, thread_pool_part *part, void *context);

/* This thread's own memory, of so many bytes at least, in whole pages; what it holds is lost with
 * the next call. Kept until the thread ends. NULL where there is none. */
void *thread_pool_scratch(size_t bytes);

#endif

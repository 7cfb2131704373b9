/* The computing threads of a worker. They run tasks, and share loops with threads that are free.
 * All threads are made when the pool is opened and sleep while there is no work.
 *
 *   thread_pool_give() → short tasks ─┐                  ┌─► run ─► thread_pool_share() ─┐
 *                        long slices ─┼─► free threads ──┤                               │
 *                        wide slices ─┘                  └─► join a loop ◄───────────────┘
 *
 * Short tasks go first, but for one slice after each POOL_TURN_US of them while slices waited: a
 * short task waits for the end of a slice under way and for one more at most. Long slices, on one
 * thread each, and wide ones, which share loops, alternate. One wide slice is under way at a time:
 * it uses all threads without a task, which leave it between two parts for a short task.
 *
 * A thread that shares its loop waits for parts that helpers have begun, never for a helper: on a
 * busy machine it continues alone. A thread that hangs begins no other part, which shows in
 * thread_pool_still_us(). */
#pragma once

#include "base/list.h"
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
    struct list link;
    enum thread_pool_length length;
    /* On a thread of the pool. Adds the tasks that may begin now to `next`. */
    void (*run)(struct thread_pool_task *task, struct list *next);
};

/* Make the threads; 0: one for each core that this process may run on. Fewer if the system refuses
 * some, INTERNAL if it refuses all; those of a pool that is open already stay. Signals are blocked
 * in them. */
bool thread_pool_open(int threads, struct failure *failure);
/* End them. No task is waiting or under way. */
void thread_pool_close(void);
/* How many there are; 1 where the pool is not open: loops are then the caller's alone. */
int thread_pool_threads(void);

/* From any thread. The pool is open; the task lives until it runs. */
void thread_pool_give(struct thread_pool_task *task);

/* Work in parts, which all threads that share it take from one place until none is left. `slot`
 * numbers the threads: 0 is the caller. Between two parts the work asks thread_pool_stays(), and
 * returns if that is false. */
typedef void thread_pool_work(void *context, int slot);
bool thread_pool_stays(void);
/* Do the work on this thread and on free ones: `most` in all. Returns when all parts are done. From
 * any thread; not from within such work. */
void thread_pool_share(int most, thread_pool_work *work, void *context);

/* The longest time, in microseconds, that a thread has spent on its present part or task. Time in
 * which it waited for a CPU or a page does not count, so that a thread that hangs, in a loop or
 * asleep, is told from one on a busy machine. Counted from one call to the next, at most one second
 * for a longer pause between two (the process was stopped); one caller. */
uint64_t thread_pool_still_us(void);

/* The same of parts [0, count), in any order and one at a time. */
typedef void thread_pool_part(void *context, int64_t part);
void thread_pool_for(int most, int64_t count, thread_pool_part *part, void *context);

/* This thread's own memory, of so many bytes at least, in whole pages; what it holds is lost with
 * the next call. Kept until the thread of the pool, or the process, ends. NULL where there is none.
 */
void *thread_pool_scratch(size_t bytes);

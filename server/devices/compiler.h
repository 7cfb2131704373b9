/* fdcompile as the front sees it (gpu/compile/compiler.h): one process, started when the first
 * kernel is asked for, which compiles one at a time. One that dies, hangs or has served for long is
 * replaced by the next order; one that does not start is tried again after a second, then less and
 * less often. It cannot be used where it is not installed or has no NVRTC: then kernels are done
 * without.
 *
 * All on the loop's thread. */
#pragma once

#include "gpu/compile/compiler.h"

#include <sys/types.h>
#include <uv.h>

enum compiler_state {
    COMPILER_DOWN, /* no process, or one that is about to end */
    COMPILER_STARTING,
    COMPILER_IDLE,
    COMPILER_BUSY,
    COMPILER_UNUSABLE
};

struct compiler {
    uv_loop_t *loop;
    char path[4096]; /* fdcompile, beside this program; empty: it is not installed */
    enum compiler_state state;
    uint32_t nvrtc; /* its version, once it has been ready; 0: unknown */
    /* Its state has changed; an order has ended: with code, or NULL, since it does not compile
     * (`why`); or its process has. None of them may close the compiler. */
    void (*changed)(struct compiler *compiler);
    void (*compiled)(struct compiler *compiler, const uint8_t *code, uint32_t bytes,
                     const char *why);
    void (*lost)(struct compiler *compiler);
    pid_t pid;  /* until it has been reaped; 0: there is none */
    int socket; /* −1: none */
    uv_poll_t poll;
    uv_timer_t timer; /* it hangs */
    bool poll_open;
    bool closed;       /* the front is leaving */
    unsigned failures; /* starts in a row, as far as they matter */
    unsigned served;
    union {
        struct compiler_hello hello;
        struct compiler_reply reply;
    } said;
    uint8_t *code; /* that follows it; NULL: none yet */
    size_t received;
};

void compiler_open(struct compiler *compiler, uv_loop_t *loop);
void compiler_close(struct compiler *compiler);

/* Start it, where it is down. */
void compiler_start(struct compiler *compiler);

/* Where it is idle: compile a kernel; compiled() or lost() follows, once. */
void compiler_order(struct compiler *compiler, uint32_t architecture, const struct kernel_key *key);

/* SIGCHLD has come: reap it, if it has ended. */
void compiler_reap(struct compiler *compiler);

#include "server/devices/compiler.h"

#include "base/log.h"
#include "base/rights.h"
#include "server/devices/start.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PAUSE_FIRST_S = 1, /* after a start that failed; then it doubles, so many times at most: */
    PAUSE_DOUBLINGS = 9,
    SERVED_MOST = 256, /* then a fresh process bounds what NVRTC has not freed */
    HANG_MS = 30000
};

_Static_assert((int)START_DESCRIPTOR == (int)COMPILER_DESCRIPTOR, "where fdcompile has its socket");

static void change(struct compiler *compiler, enum compiler_state state)
{
    compiler->state = state;
    compiler->changed(compiler);
}

static void give_up(struct compiler *compiler, const char *why)
{
    log_info("no kernels are compiled for stencils: %s", why);
    change(compiler, COMPILER_UNUSABLE);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct compiler *compiler = handle->data;
    compiler->poll_open = false;
    if (!compiler->closed)
        compiler->changed(compiler); /* another may be started */
}

/* Give up a process that is of no use or has ended: it is reaped later, and the next may start. */
static void leave_process(struct compiler *compiler)
{
    if (compiler->pid > 0)
        kill(compiler->pid, SIGKILL);
    uv_timer_stop(&compiler->timer);
    if (compiler->poll_open && !uv_is_closing((uv_handle_t *)&compiler->poll))
        uv_close((uv_handle_t *)&compiler->poll, on_poll_closed);
    rights_close(compiler->socket);
    compiler->socket = -1;
    free(compiler->code);
    compiler->code = NULL;
    compiler->received = 0;
}

static void on_pause(uv_timer_t *timer)
{
    struct compiler *compiler = timer->data;
    compiler->changed(compiler);
}

/* It has died, hangs, or breaks the rules. A start that fails may do so for what is short just now:
 * another one is tried later. */
static void fail(struct compiler *compiler, const char *why)
{
    const enum compiler_state state = compiler->state;
    leave_process(compiler);
    if (compiler->closed)
        return;
    log_warning("the compiler of kernels: %s", why);
    compiler->state = COMPILER_DOWN;
    if (state == COMPILER_STARTING) {
        const uint64_t pause_s = (uint64_t)PAUSE_FIRST_S << compiler->failures;
        compiler->failures += compiler->failures < PAUSE_DOUBLINGS;
        log_info("no kernels are compiled for stencils in the next %llu s",
                 (unsigned long long)pause_s);
        uv_timer_start(&compiler->timer, on_pause, pause_s * 1000, 0);
        return;
    }
    if (state == COMPILER_BUSY)
        compiler->lost(compiler);
    compiler->changed(compiler);
}

static void take_hello(struct compiler *compiler)
{
    struct compiler_hello *hello = &compiler->said.hello;
    hello->text[sizeof hello->text - 1] = 0;
    compiler->received = 0;
    compiler->failures = 0;
    uv_timer_stop(&compiler->timer);
    if (!hello->nvrtc) {
        const struct compiler_hello said = *hello;
        leave_process(compiler);
        give_up(compiler, said.text);
        return;
    }
    compiler->nvrtc = hello->nvrtc;
    change(compiler, COMPILER_IDLE);
}

static void take_reply(struct compiler *compiler)
{
    struct compiler_reply reply = compiler->said.reply;
    uint8_t *code = compiler->code;
    reply.text[sizeof reply.text - 1] = 0;
    compiler->code = NULL;
    compiler->received = 0;
    uv_timer_stop(&compiler->timer);
    compiler->state = COMPILER_IDLE;
    if (++compiler->served == SERVED_MOST) {
        leave_process(compiler);
        compiler->state = COMPILER_DOWN;
    }
    compiler->compiled(compiler, code, reply.bytes, reply.text);
    free(code);
    compiler->changed(compiler);
}

/* Where the next bytes go, and how many are missing until something is complete; 0: it breaks the
 * rules, or there is no memory. */
static size_t next_bytes(struct compiler *compiler, uint8_t **to)
{
    const size_t head = sizeof compiler->said;
    const uint32_t bytes = compiler->said.reply.bytes;
    *to = (uint8_t *)&compiler->said + compiler->received;
    if (compiler->received < head)
        return compiler->state == COMPILER_IDLE ? 0 : head - compiler->received;
    if (bytes > COMPILER_CODE_BYTES)
        return 0;
    if (!compiler->code && !(compiler->code = malloc(bytes)))
        return 0;
    *to = compiler->code + (compiler->received - head);
    return head + bytes - compiler->received;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct compiler *compiler = poll->data;
    const size_t head = sizeof compiler->said;
    uint8_t *to;
    (void)events;
    const size_t wanted = status < 0 ? 0 : next_bytes(compiler, &to);
    if (!wanted) {
        fail(compiler, "its socket broke");
        return;
    }
    const ssize_t n = recv(compiler->socket, to, wanted, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        fail(compiler, "it ended");
        return;
    }
    compiler->received += (size_t)n;
    if (compiler->state == COMPILER_STARTING && compiler->received == head)
        take_hello(compiler);
    else if (compiler->state == COMPILER_BUSY && compiler->received >= head &&
             compiler->received == head + compiler->said.reply.bytes)
        take_reply(compiler);
}

static void on_hang(uv_timer_t *timer)
{
    fail(timer->data, "it took too long");
}

void compiler_open(struct compiler *compiler, uv_loop_t *loop)
{
    compiler->loop = loop;
    compiler->socket = -1;
    uv_timer_init(loop, &compiler->timer);
    compiler->timer.data = compiler;
}

void compiler_close(struct compiler *compiler)
{
    if (compiler->closed || !compiler->loop)
        return;
    compiler->closed = true;
    compiler->state = COMPILER_UNUSABLE;
    leave_process(compiler);
    uv_close((uv_handle_t *)&compiler->timer, NULL);
}

void compiler_start(struct compiler *compiler)
{
    /* The one before has to be gone, and the pause after a start that failed to be over. */
    if (compiler->state != COMPILER_DOWN || compiler->pid > 0 || compiler->poll_open ||
        uv_is_active((const uv_handle_t *)&compiler->timer))
        return;
    if (!compiler->path[0]) {
        give_up(compiler, "fdcompile is not beside fdserver");
        return;
    }
    compiler->state = COMPILER_STARTING;
    compiler->served = 0;
    const int error =
        start_program(compiler->path, NULL, SOCK_STREAM, &compiler->socket, &compiler->pid);
    if (error || uv_poll_init(compiler->loop, &compiler->poll, compiler->socket) != 0) {
        fail(compiler, error ? strerror(error) : "its socket cannot be watched");
        return;
    }
    compiler->poll.data = compiler;
    compiler->poll_open = true;
    uv_poll_start(&compiler->poll, UV_READABLE, on_readable);
    uv_timer_start(&compiler->timer, on_hang, HANG_MS, 0);
}

void compiler_order(struct compiler *compiler, uint32_t architecture, const struct kernel_key *key)
{
    const struct compiler_order order = {.architecture = architecture, .key = *key};
    compiler->state = COMPILER_BUSY;
    uv_timer_start(&compiler->timer, on_hang, HANG_MS, 0);
    /* A short one fills its socket: it hangs, and the timer will tell. */
    (void)!send(compiler->socket, &order, sizeof order, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void compiler_reap(struct compiler *compiler)
{
    if (compiler->pid <= 0 || waitpid(compiler->pid, NULL, WNOHANG) != compiler->pid)
        return;
    compiler->pid = 0;
    if (!compiler->closed)
        compiler->changed(compiler);
}

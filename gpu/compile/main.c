/* fdcompile: compiles kernels for the front, which starts it with their socket on descriptor 3
 * (compiler.h). What it compiles is made of integers that it has checked; still it locks itself in
 * before the first of them comes, and runs when nothing else wants the core.
 *
 * Ways to end: 0, the socket closed; 1, it could not lock itself in; 2, started wrongly; 3, NVRTC
 * compiled nothing, maybe for want of memory. */
#include "base/signals.h"
#include "gpu/compile/compiler.h"
#include "gpu/compile/nvrtc.h"
#include "gpu/compile/sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EXIT_SANDBOX = 1, EXIT_USAGE = 2, EXIT_WARM = 3, NICE = 10, WARM_ARCHITECTURE = 80 };

static char text[KERNEL_SOURCE_BYTES];

static void receive(void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        const ssize_t n = read(COMPILER_DESCRIPTOR, (char *)bytes + done, count - done);
        if (n <= 0)
            _exit(0);
        done += (size_t)n;
    }
}

static void say(const void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        const ssize_t n = write(COMPILER_DESCRIPTOR, (const char *)bytes + done, count - done);
        if (n <= 0)
            _exit(0);
        done += (size_t)n;
    }
}

/* NULL: `why` says so. */
static void *compile(const struct compiler_order *order, size_t *bytes, char *why, size_t room)
{
    if (!kernel_key_check(&order->key) ||
        !kernel_source(&order->key, KERNEL_ASKED, text, sizeof text)) {
        snprintf(why, room, "no kernel is made for such a stencil");
        return NULL;
    }
    return nvrtc_compile(text, order->architecture, bytes, why, room);
}

/* What NVRTC loads and allocates once it does for a kernel as large as they come. */
static bool warm_up(char *why, size_t room)
{
    static struct compiler_order order = {.architecture = WARM_ARCHITECTURE};
    size_t bytes;
    kernel_common_key(&order.key, 0);
    void *code = compile(&order, &bytes, why, room);
    free(code);
    return code != NULL;
}

static void serve_order(const struct compiler_order *order)
{
    struct compiler_reply reply = {0};
    size_t bytes = 0;
    void *code = compile(order, &bytes, reply.text, sizeof reply.text);
    if (code && bytes <= COMPILER_CODE_BYTES)
        reply.bytes = (uint32_t)bytes;
    else if (code)
        snprintf(reply.text, sizeof reply.text, "its code has %zu bytes", bytes);
    say(&reply, sizeof reply);
    say(code, reply.bytes);
    free(code);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("fdcompile " FDSERVER_VERSION);
        return 0;
    }
    int kind = 0;
    socklen_t length = sizeof kind;
    if (getsockopt(COMPILER_DESCRIPTOR, SOL_SOCKET, SO_TYPE, &kind, &length) < 0 ||
        kind != SOCK_STREAM) {
        fprintf(stderr,
                "usage: fdcompile\nStarted by fdserver, with its socket on descriptor %d.\n",
                COMPILER_DESCRIPTOR);
        return EXIT_USAGE;
    }
    signals_leave_to_front("fdcompile");
    setpriority(PRIO_PROCESS, 0, NICE);
    struct compiler_hello hello = {0};
    hello.nvrtc = nvrtc_open(hello.text, sizeof hello.text);
    if (hello.nvrtc && !warm_up(hello.text, sizeof hello.text)) {
        fprintf(stderr, "<4>fdcompile: %.*s\n", (int)sizeof hello.text, hello.text);
        return EXIT_WARM;
    }
    if (!sandbox_enter(COMPILER_MEMORY_BYTES)) {
        fprintf(stderr, "<4>fdcompile: no sandbox: %s\n", strerror(errno));
        return EXIT_SANDBOX;
    }
    say(&hello, sizeof hello);
    for (;;) {
        static struct compiler_order order;
        receive(&order, sizeof order);
        serve_order(&order);
    }
}

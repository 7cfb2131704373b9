#include "server/devices/starter.h"

#include "base/log.h"
#include "base/rights.h"
#include "base/thread.h"
#include "gpu/worker/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* On the stack of the caller, which waits for it. */
struct start {
    const char *program, *argument;
    pid_t pid;
    int error;
    sem_t ended;
};

static int entrance = -1, outlet = -1; /* of pointers to struct start, each with its channel */

static int spawn(struct start *start, int channel)
{
    char *const arguments[] = {(char *)(uintptr_t)start->program,
                               (char *)(uintptr_t)start->argument, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawn_file_actions_init(&actions);
    int error = posix_spawn_file_actions_adddup2(&actions, channel, CHANNEL_DESCRIPTOR);
    if (!error)
        error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    if (!error)
        error = posix_spawn(&start->pid, start->program, &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

static void *run_starter(void *unused)
{
    (void)unused;
    if (!rights_own_table(outlet))
        log_warning("no table of descriptors to start workers from: %s", strerror(errno));
    for (;;) {
        struct start *start = NULL;
        int channel;
        rights_receive(outlet, &start, sizeof start, 0, &channel);
        if (!start)
            continue;
        start->error = channel < 0 ? EMFILE : spawn(start, channel);
        if (channel >= 0)
            close(channel);
        sem_post(&start->ended);
    }
    return NULL;
}

bool starter_open(void)
{
    int ends[2];
    pthread_t thread;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        log_error("socketpair: %s", strerror(errno));
        return false;
    }
    entrance = ends[0];
    outlet = ends[1];
    if (thread_start(&thread, run_starter, NULL) != 0) {
        log_error("no thread to start workers");
        return false;
    }
    pthread_detach(thread);
    return true;
}

int starter_start(const char *program, const char *argument, int channel, pid_t *pid)
{
    struct start start = {.program = program, .argument = argument}, *sent = &start;
    struct iovec piece = {&sent, sizeof sent};
    sem_init(&start.ended, 0, 0);
    if (rights_send(entrance, &piece, 1, channel) < 0)
        return errno;
    while (sem_wait(&start.ended) != 0)
        ;
    sem_destroy(&start.ended);
    *pid = start.pid;
    return start.error;
}

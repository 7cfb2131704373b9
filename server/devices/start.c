#include "server/devices/start.h"

#include "base/log.h"
#include "base/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Programs are started from a thread with a table of descriptors of its own, in which nothing of
 * the clients' ever is. A program that starts first closes what it inherited and is not to keep,
 * and its parent waits for that: with our table, a file of a client's, whose file system a user
 * serves, could be closed there for as long as that user likes. */

/* On the stack of the caller, which waits for it. */
struct start {
    const char *program, *argument;
    pid_t pid;
    int error;
    sem_t ended;
};

static int entrance = -1, outlet = -1; /* of pointers to struct start, each with its channel */

/* It reads /dev/null, writes to our stderr, has `channel` as START_DESCRIPTOR, and signals as
 * they are by default. Returns 0 or an errno. */
static int spawn(struct start *start, int channel)
{
    char name[PATH_MAX]; /* of the file, where the program is one that is kept open */
    const ssize_t length = readlink(start->program, name, sizeof name - 1);
    if (length >= 0)
        name[length] = 0;
    else
        snprintf(name, sizeof name, "%s", start->program);
    char *const arguments[] = {name, (char *)(uintptr_t)start->argument, NULL};
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
    int error = posix_spawn_file_actions_adddup2(&actions, channel, START_DESCRIPTOR);
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
        rights_close(channel);
        sem_post(&start->ended);
    }
    return NULL;
}

int start_program_at(const char *program, const char *argument, int end, pid_t *pid)
{
    struct start start = {.program = program, .argument = argument}, *sent = &start;
    struct iovec piece = {&sent, sizeof sent};
    sem_init(&start.ended, 0, 0);
    if (rights_send(entrance, &piece, 1, end) < 0)
        start.error = errno;
    else
        while (sem_wait(&start.ended) != 0)
            ;
    sem_destroy(&start.ended);
    *pid = start.pid;
    return start.error;
}

int start_program(const char *program, const char *argument, int type, int *channel, pid_t *pid)
{
    int ends[2];
    *channel = -1;
    *pid = 0;
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0)
        return errno;
    const int error = start_program_at(program, argument, ends[1], pid);
    close(ends[1]);
    if (error)
        close(ends[0]);
    else
        *channel = ends[0];
    return error;
}

bool start_open(void)
{
    entrance = rights_thread(run_starter, &outlet, "start programs");
    return entrance >= 0;
}

bool start_is_held(pid_t pid)
{
    char path[32], stat[256] = {0};
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const size_t bytes = fread(stat, 1, sizeof stat - 1, file);
    fclose(file);
    const char *name_end = bytes ? strrchr(stat, ')') : NULL; /* "PID (NAME) STATE …" */
    return name_end && strncmp(name_end, ") D", 3) == 0;
}

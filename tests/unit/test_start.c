/* Programs that the front starts: whether the kernel holds one. */
#include "server/devices/start.h"
#include "tests/unit/unit.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
}

/* As vfork(), which sanitizers replace by fork(): whoever calls it is held until the child ends. */
static pid_t fork_and_be_held(void)
{
    return (pid_t)syscall(SYS_clone, CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL);
}

TEST(test_a_process_that_is_held_in_the_kernel, NULL, NULL)
{
    int ends[2];
    char byte = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        if (fork_and_be_held() == 0)
            _exit(read(ends[0], &byte, 1) != 1);
        pause();
    }
    assert_true(pid > 0);
    assert_false(start_is_held(getpid()));
    while (!start_is_held(pid))
        rest();
    assert_int_equal(write(ends[1], &byte, 1), 1);
    while (start_is_held(pid))
        rest();
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(start_is_held(pid));
    close(ends[0]);
    close(ends[1]);
}

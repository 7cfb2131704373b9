#include "gpu/compile/sandbox.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

/* Address space mapped by now, by /proc; 0: unknown. */
static uint64_t mapped_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%llu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* To `most`, or what there is where that is less: nobody may raise a hard limit. */
static bool limit(int resource, uint64_t most)
{
    struct rlimit limits;
    if (getrlimit(resource, &limits) != 0)
        return false;
    const rlim_t to = limits.rlim_max < most ? limits.rlim_max : (rlim_t)most;
    limits = (struct rlimit){to, to};
    return setrlimit(resource, &limits) == 0;
}

#ifdef ARCHITECTURE
#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)
#define REFUSE RETURN(SECCOMP_RET_ERRNO | EPERM)
#define ALLOW(call)                                                                                \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##call, 0, 1), RETURN(SECCOMP_RET_ALLOW)
/* Memory, but none to be executed: the protection is the third argument. */
#define ALLOW_DATA(call)                                                                           \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##call, 0, 4), LOAD(args[2]),                         \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1), REFUSE, RETURN(SECCOMP_RET_ALLOW)

static bool filter_calls(void)
{
    static struct sock_filter filter[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
        RETURN(SECCOMP_RET_KILL_PROCESS),
        LOAD(nr),
        ALLOW(read),
        ALLOW(write),
        ALLOW(futex),
        ALLOW(brk),
        ALLOW_DATA(mmap),
        ALLOW_DATA(mprotect),
        ALLOW(munmap),
        ALLOW(mremap),
        ALLOW(madvise),
        ALLOW(rt_sigprocmask),
        ALLOW(rt_sigreturn),
        ALLOW(clock_gettime),
        ALLOW(gettimeofday),
        ALLOW(getrusage),
        ALLOW(getpid),
        ALLOW(gettid),
        ALLOW(getrandom),
        ALLOW(sched_yield),
        ALLOW(exit),
        ALLOW(exit_group),
        REFUSE,
    };
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
#else
static bool filter_calls(void)
{
    errno = ENOSYS;
    return false;
}
#endif

bool sandbox_enter(uint64_t bytes)
{
    const uint64_t mapped = mapped_bytes();
    if (!mapped)
        return false;
    return limit(RLIMIT_AS, mapped + bytes) && limit(RLIMIT_FSIZE, 0) && limit(RLIMIT_CORE, 0) &&
           limit(RLIMIT_NOFILE, 0) && prctl(PR_SET_DUMPABLE, 0) == 0 &&
           prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && filter_calls();
}

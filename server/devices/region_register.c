/* How a region comes to be: checks of what a client passed, and its blocks, which threads allocate.
 * From region_begin() on it is region.c's. */
#include "server/devices/region.h"

#include "base/log.h"
#include "server/devices/device.h"
#include "server/devices/field.h"
#include "server/users/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* A thread allocates so much before other users have their turn. */
#define ALLOCATE_BYTES (UINT64_C(256) << 20)

/* First the checks that ask no file system, since a user's own may never answer. */
static bool check_memory(struct region *region, const struct request *request,
                         struct failure *failure)
{
    struct stat stat;
    struct statfs system;
    const int seals = fcntl(region->descriptor, F_GET_SEALS);
    if (seals < 0 || fstatfs(region->descriptor, &system) != 0 || system.f_type != TMPFS_MAGIC)
        return failure_set(failure, STATUS_UNSUPPORTED, NULL,
                           "the descriptor is no memfd (huge pages are not accepted)");
    if (!(seals & F_SEAL_SHRINK) || !(seals & F_SEAL_GROW))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, NULL,
                           "the memfd must be sealed: F_SEAL_SHRINK and F_SEAL_GROW");
    if (fstat(region->descriptor, &stat) != 0 || (uint64_t)stat.st_size != request->bytes)
        return failure_set_limit(failure, STATUS_INVALID_ARGUMENT, "bytes", request->bytes,
                                 stat.st_size, "the memfd has %llu bytes, not %llu",
                                 (unsigned long long)stat.st_size,
                                 (unsigned long long)request->bytes);
    const int mode = fcntl(region->descriptor, F_GETFL) & O_ACCMODE;
    if (mode == O_WRONLY)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, NULL, "the memfd cannot be read");
    region->bytes = request->bytes;
    region->inode = stat.st_ino;
    region->writable =
        request->writable && mode == O_RDWR && !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE));
    return true;
}

static bool check_budget(const struct region *region, struct failure *failure)
{
    const struct config *config = region->devices->config;
    const struct user *user = region->user;
    const struct counters *own = &user->counters, *total = &user->users->counters;
    const uint64_t need = region->bytes;
    const uint64_t quota = config->region_bytes, all = config->region_memory;
    if (!descriptors_allow_memory(user, region->descriptor, failure))
        return false;
    if (quota && (need > quota || own->region_bytes > quota - need))
        return failure_set_limit(failure, STATUS_OVER_BUDGET, "bytes", need, quota,
                                 "%llu bytes more are over your limit of %llu for regions (you "
                                 "hold %llu)",
                                 (unsigned long long)need, (unsigned long long)quota,
                                 (unsigned long long)own->region_bytes);
    if (!reserve_allows(all, total->region_bytes, own->region_bytes, need))
        return failure_set_limit(failure, STATUS_OVER_BUDGET, "bytes", need, reserve_most(all),
                                 "no room for %llu bytes more: all regions may take %llu, the last "
                                 "eighth of which is for users who have few",
                                 (unsigned long long)need, (unsigned long long)all);
    return true;
}

static void *wait_for_others(void *mutex)
{
    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    return NULL;
}

static void do_nothing(uv_work_t *work)
{
    (void)work;
}

/* libuv starts its pool of threads for the first work, and ends the process where it cannot. So it
 * gets work at the start, after a trial that as many threads can run at once. */
bool regions_open(uv_loop_t *loop)
{
    enum { POOL = 4 };
    static uv_work_t work;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[POOL];
    int count = 0, error = 0;
    pthread_mutex_lock(&mutex);
    while (count < POOL &&
           !(error = pthread_create(&threads[count], NULL, wait_for_others, &mutex)))
        count++;
    pthread_mutex_unlock(&mutex);
    while (count > 0)
        pthread_join(threads[--count], NULL);
    if (error) {
        log_error("no threads to allocate regions: %s", strerror(error));
        return false;
    }
    return uv_queue_work(loop, &work, do_nothing, NULL) == 0;
}

/* On a thread of the loop's pool. Where the descriptor cannot be written, nothing can be allocated
 * by it: its owner has to have done that. */
static void allocate(uv_work_t *work)
{
    struct region *region = work->data;
    const uint64_t left = region->bytes - region->allocated_bytes;
    const uint64_t bytes = left < ALLOCATE_BYTES ? left : ALLOCATE_BYTES;
    struct stat stat;
    if ((fcntl(region->descriptor, F_GETFL) & O_ACCMODE) == O_RDONLY) {
        if (fstat(region->descriptor, &stat) != 0 || (uint64_t)stat.st_blocks * 512 < region->bytes)
            region->error = EBADF;
        region->allocated_bytes = region->bytes;
        return;
    }
    while (fallocate(region->descriptor, FALLOC_FL_KEEP_SIZE, (off_t)region->allocated_bytes,
                     (off_t)bytes) != 0) {
        if (errno == EINTR)
            continue;
        region->error = errno;
        return;
    }
    region->allocated_bytes += bytes;
}

static void on_allocated(uv_work_t *work, int status);

/* Let a thread work on the user's first region that needs blocks. One thread for each user, since a
 * user can make the kernel block a thread that allocates their memory. */
static void allocate_next(struct user *user)
{
    struct region *next = NULL;
    LIST_EACH (struct region, region, &user->region_list, user_link) {
        if (region->working)
            return;
        if (!next && !region->allocated && !region->leaving)
            next = region;
    }
    if (!next)
        return;
    next->working = true;
    uv_queue_work(next->devices->loop, &next->work, allocate, on_allocated);
}

static void on_allocated(uv_work_t *work, int status)
{
    struct region *region = work->data;
    struct user *user = region->user;
    const bool failed = status != 0 || region->error;
    region->working = false;
    if (!failed && !region->leaving && region->allocated_bytes < region->bytes) {
        allocate_next(user);
        return;
    }
    region->allocated = true;
    allocate_next(user);
    if (failed && region->error == EBADF)
        region_allocated(region, STATUS_INVALID_ARGUMENT,
                         "the memfd has holes, and is not open for writing: allocate its blocks");
    else
        region_allocated(region, failed ? STATUS_OUT_OF_MEMORY : STATUS_OK,
                         "there is no memory for the region's blocks");
}

bool region_register(struct devices *devices, struct region_owner *owner, struct device *device,
                     const struct request *request, int descriptor, struct failure *failure)
{
    struct region *region = calloc(1, sizeof *region + devices->count * sizeof region->mapping[0]);
    if (!region) {
        passing_close(descriptor, &owner->user->passed);
        return failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
    }
    region->devices = devices;
    region->owner = owner;
    region->user = owner->user;
    region->descriptor = descriptor;
    region->number = ++devices->last_region;
    if (!check_memory(region, request, failure) || !check_budget(region, failure) ||
        !field_make_id(&region->id, failure)) {
        passing_close(descriptor, &region->user->passed);
        free(region);
        return false;
    }
    region->msgid = request->msgid;
    region->work.data = region;
    region_begin(region, device);
    allocate_next(region->user);
    return true;
}

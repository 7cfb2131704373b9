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
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* A thread allocates so much before it is asked whether the region is leaving. */
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

/* The next of its blocks. Where the descriptor cannot be written, nothing can be allocated by it:
 * its owner has to have done that. Returns 0 or an errno. */
static int allocate(struct region *region)
{
    const uint64_t left = region->bytes - region->allocated_bytes;
    const uint64_t bytes = left < ALLOCATE_BYTES ? left : ALLOCATE_BYTES;
    struct stat stat;
    if ((fcntl(region->descriptor, F_GETFL) & O_ACCMODE) == O_RDONLY) {
        region->allocated_bytes = region->bytes;
        return fstat(region->descriptor, &stat) == 0 &&
                       (uint64_t)stat.st_blocks * 512 >= region->bytes
                   ? 0
                   : EBADF;
    }
    while (fallocate(region->descriptor, FALLOC_FL_KEEP_SIZE, (off_t)region->allocated_bytes,
                     (off_t)bytes) != 0)
        if (errno != EINTR)
            return errno;
    region->allocated_bytes += bytes;
    return 0;
}

static void on_allocated(uv_handle_t *ended);

static void *allocate_on_own(void *of)
{
    struct region *region = of;
    region->error = allocate(region);
    uv_async_send(&region->ended); /* the last use of the region */
    return NULL;
}

static void on_own_ended(uv_async_t *ended)
{
    const struct region *region = LIST_ENTRY(ended, struct region, ended);
    pthread_join(region->thread, NULL);
    uv_close((uv_handle_t *)ended, on_allocated);
}

static void allocate_on_pool(uv_work_t *work)
{
    struct region *region = LIST_ENTRY(work, struct region, work);
    region->error = allocate(region);
}

static void on_pool_ended(uv_work_t *work, int status)
{
    struct region *region = LIST_ENTRY(work, struct region, work);
    (void)status; /* none is cancelled */
    uv_close((uv_handle_t *)&region->ended, on_allocated);
}

/* Let a thread work on the user's first region that needs blocks. One for each user, made for that,
 * since a user can make the kernel block a thread that allocates their memory: there are no more
 * than regions (descriptors.h). Where none can be made, one of the loop's pool. */
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
    uv_loop_t *loop = next->devices->loop;
    next->working = true;
    uv_async_init(loop, &next->ended, on_own_ended);
    if (pthread_create(&next->thread, NULL, allocate_on_own, next) != 0)
        uv_queue_work(loop, &next->work, allocate_on_pool, on_pool_ended);
}

static void on_allocated(uv_handle_t *ended)
{
    struct region *region = LIST_ENTRY(ended, struct region, ended);
    struct user *user = region->user;
    region->working = false;
    if (!region->error && !region->leaving && region->allocated_bytes < region->bytes) {
        allocate_next(user);
        return;
    }
    region->allocated = true;
    allocate_next(user);
    if (region->error == EBADF)
        region_allocated(region, STATUS_INVALID_ARGUMENT,
                         "the memfd has holes, and is not open for writing: allocate its blocks");
    else
        region_allocated(region, region->error ? STATUS_OUT_OF_MEMORY : STATUS_OK,
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
    region_begin(region, device);
    allocate_next(region->user);
    return true;
}

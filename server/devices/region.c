/* Happy path: register → checks, charge → blocks allocated on a thread → REGION → MAPPED → answer …
 * jobs … unregister or hang-up → the last job is done → UNREGION, descriptor closed, charge given
 * back. What can go wrong: the descriptor is not a sealed memfd of its size (refused at once);
 * there is no memory for its blocks, or the worker cannot map it (the answer to register); the
 * worker ends (its successor maps it again before the jobs that name it continue); the client hangs
 * up at any of these points. Each ends in settle(). */
#include "server/devices/region.h"

#include "base/log.h"
#include "server/devices/device.h"
#include "server/devices/field.h"
#include "server/users/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static void answer(struct region_owner *owner, uint64_t msgid, const struct region *region,
                   const struct failure *failure)
{
    owner->answers_due--;
    owner->answer(owner, msgid, region, failure);
}

/* In modular arithmetic: −1 gives back. */
static void charge(struct region *region, uint64_t sign)
{
    const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t bytes = (region->bytes + page_bytes - 1) / page_bytes * page_bytes * sign;
    USER_COUNT(region->user, regions, sign);
    USER_COUNT(region->user, region_bytes, bytes);
    memory_hold(region->user, sizeof *region * sign);
}

static void settle(struct region *region)
{
    if (!region->leaving || !list_empty(&region->uses) || region->busy || region->working ||
        region->state == REGION_MAPPING)
        return;
    struct region_owner *owner = region->unregistering ? region->owner : NULL;
    const uint64_t msgid = region->msgid;
    struct user *user = region->user;
    if (region->state == REGION_MAPPED)
        device_unmap(region->device, region);
    list_remove(&region->user_link);
    list_remove(&region->owner_link);
    list_remove(&region->device_link);
    charge(region, (uint64_t)-1);
    passing_close(region->descriptor, &user->passed);
    const bool placed = region->device != NULL;
    free(region);
    if (placed) {
        user->mapped_regions--;
        device_unplace(user);
    }
    if (owner)
        answer(owner, msgid, NULL, NULL);
}

/* Its id is void from here on. */
static void leave(struct region *region)
{
    region->leaving = true;
    settle(region);
}

static void refuse(struct region *region, enum status status, const char *text)
{
    struct region_owner *owner = region->owner;
    const bool due = region->registering;
    const uint64_t msgid = region->msgid;
    region->registering = false;
    leave(region);
    if (!due)
        return;
    struct failure failure = {0};
    failure_set(&failure, status, NULL, "%s", text);
    answer(owner, msgid, NULL, &failure);
}

void region_hang_up(struct region_owner *owner)
{
    LIST_DRAIN (struct region, region, &owner->regions, owner_link) {
        region->owner = NULL;
        region->registering = region->unregistering = false;
        leave(region);
    }
    owner->answers_due = 0;
}

static void map_region(struct region *region)
{
    if (region->device->state == DEVICE_READY && device_map(region->device, region))
        region->state = REGION_MAPPING;
}

void region_worker_ready(struct device *device)
{
    LIST_EACH (struct region, region, &device->regions, device_link)
        if (region->state == REGION_UNMAPPED)
            map_region(region);
}

void region_worker_gone(struct device *device)
{
    LIST_EACH (struct region, region, &device->regions, device_link)
        region->state = REGION_UNMAPPED;
    /* One that goes is answered, and an answer may make others go: the scan begins anew. */
    for (struct list *link = device->regions.next; link != &device->regions;) {
        struct region *region = LIST_ENTRY(link, struct region, device_link);
        const bool goes = region->leaving && list_empty(&region->uses) && !region->busy;
        settle(region);
        link = goes ? device->regions.next : link->next;
    }
}

/* A use that waits for the region; NULL: none does. */
static struct region_use *first_waiting(struct region *region)
{
    LIST_EACH (struct region_use, use, &region->uses, link)
        if (use->waits)
            return use;
    return NULL;
}

/* The jobs that wait for the region go on, or fail where it is lost. settle() is to follow. */
static void end_waits(struct region *region)
{
    region->busy = true;
    for (struct region_use *use; (use = first_waiting(region));) {
        use->waits = false;
        if (region->state == REGION_MAPPED)
            region->devices->events->granted(use->task);
        else
            region->devices->events->region_lost(use->task, region->loss);
    }
    region->busy = false;
}

bool region_mapped(struct device *device, uint64_t number, enum status status)
{
    struct region *region = NULL;
    LIST_EACH (struct region, one, &device->regions, device_link)
        if (one->number == number)
            region = one;
    if (!region || region->state != REGION_MAPPING)
        return false;
    region->state = status == STATUS_OK ? REGION_MAPPED : REGION_LOST;
    region->loss = status;
    if (region->registering && status == STATUS_OK) {
        region->registering = false;
        answer(region->owner, region->msgid, region, NULL);
    } else if (region->registering) {
        refuse(region, status, "the device could not map the region");
        return true;
    }
    end_waits(region);
    settle(region);
    return true;
}

/* The user's region with that id; NULL: none. */
static struct region *find_region(const struct user *user, uint64_t id)
{
    LIST_EACH (struct region, region, &user->region_list, user_link)
        if (region->id == id && !region->leaving && !region->registering)
            return region;
    return NULL;
}

static bool not_found(uint64_t id, const char *parameter, struct failure *failure)
{
    return failure_set(failure, STATUS_NOT_FOUND, parameter, "there is no region %llu",
                       (unsigned long long)id);
}

bool region_unregister(struct region_owner *owner, const struct request *request,
                       struct failure *failure)
{
    struct region *region = find_region(owner->user, request->region);
    if (!region || region->owner != owner)
        return not_found(request->region, "region", failure);
    region->unregistering = true;
    region->msgid = request->msgid;
    owner->answers_due++;
    leave(region);
    return true;
}

struct region *region_check(const struct user *user, const struct array *array, uint64_t bytes,
                            bool writes, const char *parameter, struct failure *failure)
{
    struct region *region = find_region(user, array->region);
    if (!region)
        not_found(array->region, parameter, failure);
    else if (region->state == REGION_LOST)
        failure_set(failure, region->loss, parameter,
                    "region %llu could not be mapped again when the worker of %s had ended; "
                    "register it again",
                    (unsigned long long)region->id, region->device->name);
    else if (writes && !region->writable)
        failure_set(failure, STATUS_INVALID_ARGUMENT, parameter, "region %llu is read-only",
                    (unsigned long long)region->id);
    else if (bytes > region->bytes || array->offset > region->bytes - bytes)
        failure_set_limit(failure, STATUS_INVALID_ARGUMENT, parameter,
                          (double)array->offset + (double)bytes, region->bytes,
                          "the array reaches past the end of region %llu",
                          (unsigned long long)region->id);
    return failure->code ? NULL : region;
}

bool region_use(struct region_use *use, const struct user *user, struct task *task,
                const struct array *array, uint64_t bytes, bool writes, const char *parameter,
                struct failure *failure)
{
    struct region *region = region_check(user, array, bytes, writes, parameter, failure);
    if (!region)
        return false;
    use->region = region;
    use->task = task;
    use->offset = array->offset;
    use->waits = region->state != REGION_MAPPED || region->held;
    list_push(&region->uses, &use->link);
    return true;
}

void region_use_share(struct region_use *use, const struct region_use *with)
{
    *use = (struct region_use){.region = with->region, .task = with->task, .offset = with->offset};
    list_push(&use->region->uses, &use->link);
}

void region_use_end(struct region_use *use)
{
    struct region *region = use->region;
    if (!region)
        return;
    use->region = NULL;
    list_remove(&use->link);
    region->held -= use->holds;
    if (use->holds && !region->held && region->state == REGION_MAPPED && !region->busy)
        end_waits(region);
    use->holds = false;
    settle(region);
}

void region_use_hold(struct region_use *use)
{
    if (!use->region || use->holds)
        return;
    use->holds = true;
    use->region->held++;
}

bool region_would_overlap(const struct user *user, const struct array *a, const struct array *b,
                          uint64_t bytes)
{
    if (a->kind != ARRAY_REGION || b->kind != ARRAY_REGION)
        return false;
    const struct region *one = find_region(user, a->region), *other = find_region(user, b->region);
    return one && other && one->inode == other->inode && a->offset < b->offset + bytes &&
           b->offset < a->offset + bytes;
}

/* ---- registration ---- */

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
                           "the descriptor is no memfd (huge pages are not taken)");
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
    const struct devices *devices = region->devices;
    const struct config *config = devices->config;
    const struct user *user = region->user;
    const struct counters *own = &user->counters, *total = &user->users->counters;
    const uint64_t need = region->bytes;
    const uint64_t quota = config->region_bytes, all = config->region_memory;
    const uint64_t descriptors = devices->users->descriptors / 2; /* the rest is for connections */
    if (!descriptors_allow(devices->users, region->descriptor,
                           own->connections > 1 || own->regions || user->passed.awaiting))
        return failure_set(failure, STATUS_OVER_BUDGET, NULL,
                           "few descriptors are left: they are for users who hold none");
    if (total->regions >= descriptors)
        return failure_set_limit(failure, STATUS_OVER_BUDGET, NULL, total->regions + 1, descriptors,
                                 "all users have %llu regions already: each holds a descriptor",
                                 (unsigned long long)total->regions);
    if (own->regions >= config->max_regions)
        return failure_set_limit(failure, STATUS_OVER_BUDGET, NULL, own->regions + 1,
                                 config->max_regions, "you have %llu regions already",
                                 (unsigned long long)own->regions);
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
        if (!next && region->state == REGION_ALLOCATING && !region->leaving)
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
    region->state = REGION_UNMAPPED;
    allocate_next(user);
    if (region->leaving) {
        settle(region);
    } else if (failed && region->error == EBADF) {
        refuse(region, STATUS_INVALID_ARGUMENT,
               "the memfd has holes, and is not open for writing: allocate its blocks");
    } else if (failed) {
        refuse(region, STATUS_OUT_OF_MEMORY, "there is no memory for the region's blocks");
    } else {
        region->device = device_place(region->devices, region->user);
        region->user->mapped_regions++;
        list_push(&region->device->regions, &region->device_link);
        map_region(region);
    }
}

bool region_register(struct devices *devices, struct region_owner *owner,
                     const struct request *request, int descriptor, struct failure *failure)
{
    struct region *region = calloc(1, sizeof *region);
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
    charge(region, 1);
    region->registering = true;
    region->msgid = request->msgid;
    owner->answers_due++;
    list_init(&region->uses);
    list_init(&region->device_link);
    list_push(&region->user->region_list, &region->user_link);
    list_push(&owner->regions, &region->owner_link);
    region->work.data = region;
    allocate_next(region->user);
    return true;
}

/* Happy path: register → checks, charge → blocks allocated on a thread → REGION → MAPPED → answer …
 * jobs, the first on another device after REGION → MAPPED there … unregister or hang-up → the last
 * job is done → UNREGION to each, descriptor closed, charge given back. What can go wrong: the
 * descriptor is not a sealed memfd of its size (refused at once); there is no memory for its
 * blocks, or the first worker cannot map it (the answer to register); another worker cannot (its
 * device's jobs that name it fail); a worker ends (its successor maps it again before the jobs that
 * name it continue; on another node, register is answered with DEVICE_LOST if it still waits for
 * that); the client hangs up at any of these points. Each ends in settle(). */
#include "server/devices/region.h"

#include "server/devices/device.h"
#include "server/devices/group.h"
#include "server/users/memory.h"

#include <stdlib.h>
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
    memory_hold(region->user,
                (sizeof *region + region->devices->count * sizeof(struct mapping)) * sign);
}

/* It is leaving, and no thread or worker works on it. */
static bool may_go(const struct region *region)
{
    for (uint32_t i = 0; i < region->devices->count; i++)
        if (region->mapping[i].state == REGION_MAPPING)
            return false;
    return region->leaving && list_empty(&region->uses) && !region->busy && !region->working;
}

static void settle(struct region *region)
{
    if (!may_go(region))
        return;
    struct region_owner *owner = region->unregistering ? region->owner : NULL;
    const uint64_t msgid = region->msgid;
    for (uint32_t i = 0; i < region->devices->count; i++) {
        struct mapping *mapping = &region->mapping[i];
        if (mapping->state == REGION_MAPPED)
            device_unmap(mapping->device, region);
        list_remove(&mapping->link);
    }
    list_remove(&region->user_link);
    list_remove(&region->owner_link);
    charge(region, (uint64_t)-1);
    passing_close_own(region->descriptor);
    free(region);
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

/* Begin what the device was asked for, if it can be now: else after the user's one before it, at
 * the next beat, or worker. A worker maps one region after another, which for a large one takes
 * seconds: so it has one of a user's at a time, and others wait for no more than that one. */
static void map(struct mapping *mapping)
{
    bool *const maps =
        mapping->device ? &mapping->region->user->maps[mapping->device->number] : NULL;
    if (maps && !*maps && mapping->region->allocated && mapping->state == REGION_UNMAPPED &&
        mapping->device->state == DEVICE_READY && device_map(mapping->device, mapping->region)) {
        mapping->state = REGION_MAPPING;
        *maps = true;
    }
}

static void end_mapping(struct mapping *mapping, enum mapping_state state)
{
    mapping->region->user->maps[mapping->device->number] = false;
    mapping->state = state;
}

static void map_next(struct device *device, const struct user *user)
{
    LIST_EACH (struct mapping, mapping, &device->regions, link) {
        if (user->maps[device->number])
            return;
        if (mapping->region->user == user)
            map(mapping);
    }
}

/* Ask the device to map the region, if it was not yet. */
static struct mapping *ask_one(struct region *region, struct device *device)
{
    struct mapping *mapping = &region->mapping[device->number];
    if (!mapping->device) {
        mapping->device = device;
        list_push(&device->regions, &mapping->link);
        map(mapping);
    }
    return mapping;
}

/* The same of all members of a group: the mapping of the one that is the furthest from MAPPED. */
static struct mapping *ask(struct region *region, struct device *device)
{
    const struct group *group = device->group;
    if (!group)
        return ask_one(region, device);
    struct mapping *last = ask_one(region, group->member[0]);
    for (uint32_t i = 1; i < group->count; i++) {
        struct mapping *mapping = ask_one(region, group->member[i]);
        if (mapping->state == REGION_LOST || last->state == REGION_MAPPED)
            last = mapping;
    }
    return last;
}

/* The device, or member of a group, that could not map it; NULL: none. */
static const struct mapping *lost_mapping(const struct region *region, const struct device *device)
{
    const struct mapping *lost = &region->mapping[device->number];
    for (uint32_t i = 0; device->group && i < device->group->count && lost->state != REGION_LOST;
         i++)
        lost = &region->mapping[device->group->member[i]->number];
    return lost->state == REGION_LOST ? lost : NULL;
}

void region_begin(struct region *region, struct device *device)
{
    charge(region, 1);
    region->registering = true;
    region->owner->answers_due++;
    for (uint32_t i = 0; i < region->devices->count; i++)
        region->mapping[i].region = region;
    ask(region, device); /* once its blocks are there */
    list_push(&region->user->region_list, &region->user_link);
    list_push(&region->owner->regions, &region->owner_link);
}

void region_allocated(struct region *region, enum status status, const char *text)
{
    if (region->leaving) {
        settle(region);
    } else if (status != STATUS_OK) {
        refuse(region, status, text);
    } else {
        for (uint32_t i = 0; i < region->devices->count; i++)
            map(&region->mapping[i]);
    }
}

void region_worker_ready(struct device *device)
{
    LIST_EACH (struct mapping, mapping, &device->regions, link)
        map(mapping);
}

void region_worker_lost(struct device *device)
{
    LIST_EACH (struct mapping, mapping, &device->regions, link)
        end_mapping(mapping, REGION_UNMAPPED);
}

/* Its next worker maps it; but nothing waits for a node, which may never join again. */
static bool register_is_lost(const struct region *region, const struct device *device)
{
    return region->registering && device->bridged && device->state != DEVICE_CLOSED;
}

void region_worker_gone(struct device *device)
{
    /* One that goes is answered, and an answer may make others go: the scan begins anew. */
    for (struct list *link = list_begin(&device->regions); link != &device->regions;) {
        struct region *region = LIST_ENTRY(link, struct mapping, link)->region;
        const bool is_lost = register_is_lost(region, device), goes = is_lost || may_go(region);
        if (is_lost)
            refuse(region, STATUS_DEVICE_LOST, "the node that was to map the region has gone");
        else
            settle(region);
        link = goes ? device->regions.next : link->next;
    }
}

/* Jobs that have waited for the region go on, or fail where it is lost: each use is looked at once,
 * since there may be many, and any of them may end meanwhile. settle() is to follow. */
static void end_waits(struct region *region)
{
    struct list uses = {0};
    list_move(&region->uses, &uses);
    region->busy = true;
    LIST_DRAIN (struct region_use, use, &uses, link) {
        if (use->waits)
            use->mapping = ask(region, use->device);
        const enum mapping_state state = use->mapping->state;
        list_push(&region->uses, &use->link);
        if (!use->waits || (state != REGION_LOST && (state != REGION_MAPPED || region->held)))
            continue;
        use->waits = false;
        if (state == REGION_MAPPED)
            region->devices->events->granted(use->task);
        else
            region->devices->events->region_lost(use->task, use->mapping->loss);
    }
    region->busy = false;
}

bool region_mapped(struct device *device, uint64_t number, enum status status)
{
    struct mapping *mapping = NULL;
    LIST_EACH (struct mapping, one, &device->regions, link)
        if (one->region->number == number)
            mapping = one;
    if (!mapping || mapping->state != REGION_MAPPING)
        return false;
    struct region *region = mapping->region;
    end_mapping(mapping, status == STATUS_OK ? REGION_MAPPED : REGION_LOST);
    mapping->loss = status;
    map_next(device, region->user);
    if (region->registering && status == STATUS_OK) {
        region->registering = false;
        answer(region->owner, region->msgid, region, NULL);
    } else if (region->registering) {
        char text[96];
        snprintf(text, sizeof text, "%s could not map the region", device->name);
        refuse(region, status, text);
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

struct region *region_check(const struct user *user, const struct device *device,
                            const struct array *array, uint64_t bytes, bool writes,
                            const char *parameter, struct failure *failure)
{
    struct region *region = find_region(user, array->region);
    const struct mapping *lost;
    if (!region)
        not_found(array->region, parameter, failure);
    else if ((lost = lost_mapping(region, device)))
        failure_set(failure, lost->loss, parameter,
                    "%s could not map region %llu; register it again", lost->device->name,
                    (unsigned long long)region->id);
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

bool region_use(struct region_use *use, const struct user *user, struct device *device,
                struct task *task, const struct array *array, uint64_t bytes, bool writes,
                const char *parameter, struct failure *failure)
{
    struct region *region = region_check(user, device, array, bytes, writes, parameter, failure);
    if (!region)
        return false;
    use->region = region;
    use->device = device;
    use->mapping = ask(region, device);
    use->task = task;
    use->offset = array->offset;
    use->waits = use->mapping->state != REGION_MAPPED || region->held;
    list_push(&region->uses, &use->link);
    return true;
}

bool region_is_lost(const struct user *user, uint64_t id, const struct device *device)
{
    const struct region *region = find_region(user, id);
    return region && lost_mapping(region, device);
}

void region_use_share(struct region_use *use, const struct region_use *with)
{
    *use = (struct region_use){.region = with->region,
                               .device = with->device,
                               .mapping = with->mapping,
                               .task = with->task,
                               .offset = with->offset};
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
    if (use->holds && !region->held && !region->busy)
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

#include "server/users/user.h"

#include "server/devices/device.h"
#include "server/main/server.h"

#include <stdlib.h>

struct user *user_find(struct server *server, uid_t uid)
{
    for (struct list *link = server->users.next; link != &server->users; link = link->next) {
        struct user *user = LIST_ENTRY(link, struct user, link);
        if (user->uid == uid)
            return user;
    }
    struct user *user = calloc(1, sizeof *user);
    if (!user)
        return NULL;
    user->uid = uid;
    list_init(&user->region_list);
    RB_INIT(&user->field_tree);
    arena_init_queues(user->slab_queues, user);
    flow_init(&user->flow);
    lane_init(&user->lane);
    fair_user_init(&user->fair);
    bounds_user_init(&user->bounds);
    list_push(&server->users, &user->link);
    return user;
}

struct device *user_device(struct server *server, struct user *user)
{
    if (user->device)
        return user->device;
    struct device *best = NULL;
    for (struct list *link = server->devices.next; link != &server->devices; link = link->next) {
        struct device *device = LIST_ENTRY(link, struct device, link);
        const bool ready = device->state == DEVICE_READY;
        const bool best_ready = best && best->state == DEVICE_READY;
        if (!best || (ready && !best_ready) ||
            (ready == best_ready && (device->users < best->users || (device->users == best->users &&
                                                                     device->bytes < best->bytes))))
            best = device;
    }
    user->device = best;
    best->users++;
    return best;
}

void user_count_refused(struct server *server, struct user *user)
{
    user->counters.jobs[TASK_REFUSED]++;
    server->totals.jobs[TASK_REFUSED]++;
}

void user_settle(struct user *user)
{
    if (!user->device || user->jobs || user->fields || user->arrays || user->mapped_regions)
        return;
    user->device->users--;
    user->device = NULL;
}

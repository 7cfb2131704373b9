#include "server/users/user.h"

#include <stdlib.h>
#include <string.h>

struct user *user_find(struct users *users, uid_t uid)
{
    LIST_EACH (struct user, user, &users->list, link)
        if (user->uid == uid)
            return user;
    struct user *user = calloc(1, sizeof *user);
    if (!user)
        return NULL;
    user->users = users;
    user->uid = uid;
    list_push(&users->list, &user->link);
    users->count++;
    return user;
}

void user_left(struct user *user)
{
    list_remove(&user->link);
    list_push(&user->users->list, &user->link);
}

/* Is nothing of the user's on the device, or on its way there, and would a newcomer's work stand no
 * better than the user's? */
static bool part_is_idle(const struct device_user *part, uint64_t now_ns)
{
    return list_empty(&part->flow.link) && part->flow.level_ns <= now_ns &&
           list_empty(&part->window.waiting) && !part->arrays && !part->slots && !part->homes &&
           !part->due_ns;
}

/* Has nobody the user's address, or that of a part, and has the user used up none of what is given
 * over time? Connections have it, and all that is theirs; tasks, with their orders; regions. All
 * else that is on the heap is charged as the front's memory: fields, and so also copies between
 * devices and runs of groups, which reference fields; replies that outlive their connection,
 * kernels, and bounds that a thread computes. A thread that closes a descriptor has it until the
 * count of these is 0. */
static bool user_is_idle(const struct user *user, uint64_t now_ns)
{
    const struct counters *own = &user->counters;
    bool idle = !own->connections && !own->jobs && !own->regions && !own->front_bytes &&
                !user->passed.awaiting && !user->turn.watch && list_empty(&user->turn.link) &&
                user->turn.credit_ns >= 0 && !user->bounds.busy && !user->kernels.kept &&
                user->kernels.next_ns <= now_ns;
    for (int i = 0; i < SHARE_COUNT; i++)
        idle = idle && !user->slabs[i] && list_empty(&user->slab_queues[i].link);
    for (int i = 0; i < DEVICES_MOST; i++)
        idle = idle && (!user->part[i] || part_is_idle(user->part[i], now_ns));
    return idle;
}

static void forget(struct user *user)
{
    list_remove(&user->link);
    user->users->count--;
    for (int i = 0; i < DEVICES_MOST; i++)
        free(user->part[i]);
    free(user);
}

void users_forget_idle(struct users *users)
{
    const uint64_t now_ns = uv_hrtime();
    LIST_EACH (struct user, user, &users->list, link) {
        if (users->count <= USERS_KEPT)
            return;
        if (user_is_idle(user, now_ns))
            forget(user);
    }
}

struct device_user *user_part(struct user *user, uint32_t device, struct failure *failure)
{
    struct device_user **part = &user->part[device];
    if (*part)
        return *part;
    if (!(*part = calloc(1, sizeof **part)))
        failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
    return *part;
}

void users_forget_plans(struct users *users, uint32_t device)
{
    LIST_EACH (struct user, user, &users->list, link) {
        struct device_user *part = user->part[device];
        if (part)
            memset(part->flow.planned, 0, sizeof part->flow.planned);
    }
}

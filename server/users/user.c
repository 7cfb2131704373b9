#include "server/users/user.h"

#include <stdlib.h>

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
    list_init(&user->region_list);
    RB_INIT(&user->field_tree);
    arena_init_queues(user->slab_queues, user);
    list_init(&user->turn.link);
    list_init(&user->turn.again);
    list_init(&user->bounds.waiting);
    list_push(&users->list, &user->link);
    return user;
}

struct device_user *user_part(struct user *user, uint32_t device, struct failure *failure)
{
    struct device_user **part = &user->part[device];
    if (*part)
        return *part;
    if (!(*part = calloc(1, sizeof **part))) {
        failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
        return NULL;
    }
    flow_init(&(*part)->flow);
    list_init(&(*part)->window.waiting);
    return *part;
}

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
    list_push(&users->list, &user->link);
    return user;
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

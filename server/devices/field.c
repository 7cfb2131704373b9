#include "server/devices/field.h"

#include "server/devices/device.h"
#include "server/devices/placement.h"
#include "server/users/memory.h"
#include "server/users/reserve.h"

#include <stdlib.h>
#include <sys/random.h>

static void charge_queue(struct field *field, int sign)
{
    const uint64_t bytes = sign > 0 ? field->type.bytes : -field->type.bytes;
    field->user->queue_bytes += bytes;
    field->device->devices->queue_bytes += bytes;
}

static void charge(struct field *field, int sign)
{
    const uint64_t bytes = sign > 0 ? field->type.bytes : -field->type.bytes;
    field->user->bytes += bytes;
    field->device->bytes += bytes;
    if (!field->resident)
        charge_queue(field, sign);
}

/* Something that arrays are charged to. */
struct budget {
    enum status when_full;
    const char *whose;
    uint64_t limit, taken;
};

static bool full(const struct budget *budget, uint64_t need, struct failure *failure)
{
    const bool never = need > budget->limit;
    return failure_set_limit(
        failure, never ? STATUS_TOO_LARGE : budget->when_full, NULL, (double)need,
        (double)budget->limit, "%llu bytes more are over the limit of %s, %llu%s",
        (unsigned long long)need, budget->whose, (unsigned long long)budget->limit,
        never ? "" : ", of which some are taken");
}

static bool has_memory_room(const struct budget *budget, uint64_t need, struct failure *failure)
{
    if (need <= budget->limit && budget->taken <= budget->limit - need)
        return true;
    return full(budget, need, failure);
}

static bool device_has_room(const struct device *device, const struct user *user, uint64_t need,
                            struct failure *failure)
{
    const struct budget most = {STATUS_OVER_BUDGET, device->name,
                                reserve_most(device->memory_bytes), device->bytes};
    return reserve_allows(device->memory_bytes, device->bytes, user->bytes, need) ||
           full(&most, need, failure);
}

/* An option that sets no limit where it is 0. */
static uint64_t limit_of(uint64_t option)
{
    return option ? option : UINT64_MAX;
}

struct field *field_new(struct devices *devices, struct user *user, const struct array_type *type,
                        struct failure *failure)
{
    struct device *device = placement_device(devices, user);
    const struct config *config = devices->config;
    const struct budget budgets[] = {
        {STATUS_OVER_BUDGET, "your arrays", limit_of(config->user_bytes), user->bytes},
        {STATUS_QUEUE_FULL, "your jobs' arrays", limit_of(config->user_queue_bytes),
         user->queue_bytes},
        {STATUS_QUEUE_FULL, "all jobs' arrays", limit_of(config->max_queue_bytes),
         devices->queue_bytes}};
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++)
        if (!has_memory_room(&budgets[i], type->bytes, failure))
            return NULL;
    if (!device_has_room(device, user, type->bytes, failure))
        return NULL;
    if (!memory_take(user, sizeof(struct field), NULL, failure))
        return NULL;
    struct field *field = calloc(1, sizeof *field);
    if (!field) {
        memory_release(user, sizeof *field);
        failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
        return NULL;
    }
    field->user = user;
    field->device = device;
    field->array = ++devices->last_array;
    field->type = *type;
    field->references = 1;
    list_init(&field->accesses);
    list_push(&device->arrays, &field->device_link);
    user->arrays++;
    charge(field, +1);
    device_allocate(device, field);
    return field;
}

struct field *field_reference(struct field *field)
{
    field->references++;
    return field;
}

void field_release(struct field *field)
{
    if (!field || --field->references)
        return;
    list_remove(&field->device_link);
    if (!field->lost) {
        device_release(field->device, field);
        charge(field, -1);
    }
    field->user->arrays--;
    placement_settle(field->user);
    memory_release(field->user, sizeof *field);
    free(field);
}

static int compare(const struct field *a, const struct field *b)
{
    return (a->id > b->id) - (a->id < b->id);
}

RB_GENERATE_STATIC(field_tree, field, by_id, compare)

/* The tree's macros change nothing here, but take no const. */
static struct field_tree *tree_of(const struct user *user)
{
    return (struct field_tree *)(uintptr_t)&user->field_tree;
}

bool field_publish(struct field *field, struct failure *failure)
{
    const struct config *config = field->user->users->config;
    if (field->user->fields >= config->max_fields)
        return failure_set_limit(failure, STATUS_OVER_BUDGET, NULL, (double)field->user->fields + 1,
                                 (double)config->max_fields, "you have %llu fields already",
                                 (unsigned long long)field->user->fields);
    do {
        if (getrandom(&field->id, sizeof field->id, 0) != (ssize_t)sizeof field->id)
            return failure_set(failure, STATUS_INTERNAL, NULL, "no randomness for an id");
        field->id >>= 1; /* some languages have no unsigned integers */
    } while (!field->id || RB_INSERT(field_tree, tree_of(field->user), field));
    field_reference(field);
    field->user->fields++;
    if (!field->resident && !field->lost)
        charge_queue(field, -1);
    field->resident = true;
    return true;
}

void field_withdraw(struct field *field)
{
    RB_REMOVE(field_tree, tree_of(field->user), field);
    field->id = 0;
    field->user->fields--;
    placement_settle(field->user);
    field_release(field);
}

void field_withdraw_all(const struct users *users)
{
    LIST_EACH (const struct user, user, &users->list, link) {
        for (struct field *field; (field = field_after(user, 0));)
            field_withdraw(field);
    }
}

struct field *field_after(const struct user *user, uint64_t after)
{
    struct field key = {.id = after + 1};
    return after < UINT64_MAX ? RB_NFIND(field_tree, tree_of(user), &key) : NULL;
}

struct field *field_find_any(const struct user *user, uint64_t id, const char *parameter,
                             struct failure *failure)
{
    struct field key = {.id = id};
    struct field *field = RB_FIND(field_tree, tree_of(user), &key);
    if (!field) {
        failure_set(failure, STATUS_NOT_FOUND, parameter, "there is no field %llu",
                    (unsigned long long)id);
        return NULL;
    }
    return field;
}

struct field *field_find(const struct user *user, uint64_t id, const char *parameter,
                         struct failure *failure)
{
    struct field *field = field_find_any(user, id, parameter, failure);
    if (field && field->lost) {
        failure_set(failure, STATUS_FIELD_LOST, parameter,
                    "field %llu was lost when the worker of %s ended; put it again",
                    (unsigned long long)id, field->device->name);
        return NULL;
    }
    return field;
}

void field_lose(struct field *field)
{
    if (field->lost)
        return;
    field->lost = true;
    charge(field, -1);
}

bool field_access(struct field *field, struct access *access, struct task *task, bool writes)
{
    access->field = field;
    access->task = task;
    access->writes = writes;
    access->granted = writes ? list_empty(&field->accesses) : !field->writers;
    field->writers += writes;
    list_push(&field->accesses, &access->link);
    return access->granted;
}

/* The task's own reference keeps the field here while its accesses stand. */
void field_access_end(struct access *access)
{
    struct field *field = access->field;
    if (!field)
        return;
    list_remove(&access->link);
    access->field = NULL;
    if (!field->writers)
        return; /* everybody reads, and was granted */
    field->writers -= access->writes;
    /* Whoever is granted may act at once and change the list: the scan begins anew after each. */
    bool again = true;
    while (again) {
        again = false;
        LIST_EACH (struct access, next, &field->accesses, link) {
            if (next->writes && &next->link != field->accesses.next)
                break;
            if (!next->granted) {
                next->granted = true;
                again = true;
                field->device->devices->events->granted(next->task);
                break;
            }
            if (next->writes)
                break;
        }
    }
}

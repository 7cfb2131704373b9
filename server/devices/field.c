#include "server/devices/field.h"

#include "base/rights.h"
#include "numerics/subdomain.h"
#include "server/devices/group.h"
#include "server/users/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

/* Its memory, in modular arithmetic: sign −1 gives back. */
static void charge(struct field *field, uint64_t sign)
{
    const uint64_t bytes = field->memory.bytes * sign;
    if (field_is_exported(field))
        USER_COUNT(field->user, exports, sign);
    USER_COUNT(field->user, bytes, bytes);
    field->user->part[field->device->number]->bytes += bytes;
    field->user->part[field->device->number]->arrays += sign;
    field->device->bytes += bytes;
    field->device->array_count += sign;
    if (!field->resident)
        USER_COUNT(field->user, queue_bytes, bytes);
}

static bool full(enum status when_full, const char *unit, const char *whose, uint64_t limit,
                 uint64_t need, struct failure *failure)
{
    const bool never = need > limit;
    return failure_set_limit(failure, never ? STATUS_TOO_LARGE : when_full, NULL, need, limit,
                             "%llu %s more would exceed the limit of %s, %llu%s",
                             (unsigned long long)need, unit, whose, (unsigned long long)limit,
                             never ? "" : ", which are partly in use");
}

/* limit 0: there is none. */
static bool has_room(enum status when_full, const char *whose, uint64_t limit, uint64_t taken,
                     uint64_t need, struct failure *failure)
{
    return !limit || (need <= limit && taken <= limit - need) ||
           full(when_full, "bytes", whose, limit, need, failure);
}

bool field_queue_has_room(const struct user *user, uint64_t bytes, struct failure *failure)
{
    const struct config *config = user->users->config;
    return has_room(STATUS_QUEUE_FULL, "your jobs' arrays", config->user_queue_bytes,
                    user->counters.queue_bytes, bytes, failure) &&
           has_room(STATUS_QUEUE_FULL, "all jobs' arrays", config->max_queue_bytes,
                    user->users->counters.queue_bytes, bytes, failure);
}

static bool has_number(const struct device *device, const struct device_user *part,
                       struct failure *failure)
{
    const uint64_t most = device->info.arrays_most;
    return !most || reserve_allows(most, device->array_count, part ? part->arrays : 0, 1) ||
           full(STATUS_OVER_BUDGET, "array", device->name, reserve_most(most), 1, failure);
}

bool field_fits(const struct device *device, uint64_t bytes)
{
    return bytes <= reserve_most(device->memory_bytes);
}

/* Each member of a group holds an equal share of an array. */
static bool device_has_room(const struct device *device, const struct user *user, uint64_t bytes,
                            struct failure *failure)
{
    const struct group *group = device->group;
    const struct device_user *part = user->part[device->number];
    for (uint32_t i = 0; group && i < group->count; i++)
        if (!device_has_room(group->member[i], user, bytes / group->count + 1, failure))
            return false;
    if (group)
        return true;
    return has_number(device, part, failure) &&
           (reserve_allows(device->memory_bytes, device->bytes, part ? part->bytes : 0, bytes) ||
            full(STATUS_OVER_BUDGET, "bytes", device->name, reserve_most(device->memory_bytes),
                 bytes, failure));
}

bool field_has_room(const struct device *device, const struct user *user, uint64_t bytes,
                    struct failure *failure)
{
    return has_room(STATUS_OVER_BUDGET, "your arrays", user->users->config->user_bytes,
                    user->counters.bytes, bytes, failure) &&
           field_queue_has_room(user, bytes, failure) &&
           device_has_room(device, user, bytes, failure);
}

uint64_t field_bytes(const struct field *field)
{
    uint64_t bytes = field->memory.bytes;
    for (uint32_t i = 0; field->parts && i < field->parts->count; i++)
        bytes += field->parts->at[i] ? field->parts->at[i]->memory.bytes : 0;
    return bytes;
}

/* Its memory is gone, or goes. */
static void uncharge(struct field *field)
{
    charge(field, (uint64_t)-1);
    if (field_is_exported(field))
        passing_close_own(field->memory.descriptor);
    field->memory.descriptor = -1;
}

/* The descriptor is that of its memory, or −1. */
static struct field *new_field(struct device *device, struct user *user,
                               const struct array_type *type, const struct field_memory *memory,
                               struct failure *failure)
{
    if (!user_part(user, device->number, failure) ||
        !field_has_room(device, user, memory->bytes, failure))
        return NULL;
    struct field *field = memory_new(user, sizeof *field, NULL, failure);
    if (!field)
        return NULL;
    field->user = user;
    field->device = device;
    field->array = ++device->devices->last_array;
    field->type = *type;
    field->memory = *memory;
    field->references = 1;
    list_push(&device->arrays, &field->device_link);
    charge(field, 1);
    return field;
}

/* --- on a group --- */

static uint64_t parts_bytes(uint32_t count)
{
    return sizeof(struct field_parts) + count * sizeof(struct field *);
}

void field_drop_parts(struct field *field)
{
    for (uint32_t i = 0; i < field->parts->count; i++) {
        field_release(field->parts->at[i]);
        field->parts->at[i] = NULL;
    }
}

static void free_parts(struct field *field)
{
    field_drop_parts(field);
    memory_release(field->user, parts_bytes(field->parts->count));
    free(field->parts);
}

static struct array_type part_type(const struct field *field, uint32_t i)
{
    const struct field_parts *parts = field->parts;
    struct array_type type = field->type;
    if (parts->is_cut) {
        const struct subdomain own = subdomain_of(parts->planes, parts->count, i);
        type.shape[0] = SUBDOMAIN_GHOSTS + own.end - own.begin + parts->behind;
        type.bytes = type.shape[0] * parts->plane_bytes;
    }
    return type;
}

/* It has no memory of its own beside its parts. */
static struct field *new_in_parts(struct device *device, struct user *user,
                                  const struct array_type *type, struct failure *failure)
{
    static const struct field_memory none = {0, -1};
    const struct group *group = device->group;
    struct field_parts *parts = memory_new(user, parts_bytes(group->count), NULL, failure);
    struct field *field = parts ? new_field(device, user, type, &none, failure) : NULL;
    if (!field) {
        memory_release(user, parts ? parts_bytes(group->count) : 0);
        free(parts);
        return NULL;
    }
    const uint64_t planes = type->shape[0], plane_bytes = type->bytes / planes;
    *parts = (struct field_parts){
        .count = group->count,
        .is_cut = subdomain_fits(planes, group->count),
        .planes = planes,
        .plane_bytes = plane_bytes,
        .behind =
            subdomain_behind(planes, plane_bytes / dtype_element_bytes(type->dtype), group->count)};
    field->parts = parts;
    for (uint32_t i = 0; i < parts->count; i++) {
        const struct array_type own = part_type(field, i);
        if (!(parts->at[i] = field_new(group->member[i], user, &own, failure))) {
            field_release(field);
            return NULL;
        }
    }
    return field;
}

/* The part that holds the byte at `offset`, and its planes. Of an array that is not cut each part
 * is the whole: the first one's bytes are the array's. */
static uint32_t part_of(const struct field_parts *parts, uint64_t offset, struct subdomain *own)
{
    uint32_t i = 0;
    *own = parts->is_cut ? subdomain_of(parts->planes, parts->count, i)
                         : (struct subdomain){0, parts->planes};
    while (offset >= own->end * parts->plane_bytes)
        *own = subdomain_of(parts->planes, parts->count, ++i);
    return i;
}

struct field *field_at(struct field *field, uint64_t offset, uint64_t *there)
{
    const struct field_parts *parts = field->parts;
    struct subdomain own;
    *there = offset;
    if (!parts)
        return field;
    const uint32_t i = part_of(parts, offset, &own);
    if (parts->is_cut)
        *there += SUBDOMAIN_GHOSTS * parts->plane_bytes - own.begin * parts->plane_bytes;
    return parts->at[i];
}

uint64_t field_stretch(const struct field *field, uint64_t offset)
{
    struct subdomain own;
    if (!field->parts)
        return field->type.bytes - offset;
    part_of(field->parts, offset, &own);
    return own.end * field->parts->plane_bytes - offset;
}

bool field_is_refused(const struct field *field)
{
    bool refused = field->refused;
    for (uint32_t i = 0; field->parts && i < field->parts->count; i++)
        refused = refused || (field->parts->at[i] && field->parts->at[i]->refused);
    return refused;
}

struct field *field_new(struct device *device, struct user *user, const struct array_type *type,
                        struct failure *failure)
{
    const struct field_memory memory = {type->bytes, -1};
    if (device->group)
        return new_in_parts(device, user, type, failure);
    return new_field(device, user, type, &memory, failure);
}

/* A descriptor that holds the number of the one that is to come: the process has as many as it
 * admits (descriptors.h), whatever workers send. −1 with the failure set. */
static int hold_descriptor(const struct user *user, struct failure *failure)
{
    const int descriptor = eventfd(0, EFD_CLOEXEC);
    if (descriptors_allow_memory(user, descriptor, failure))
        return descriptor;
    rights_close(descriptor);
    return -1;
}

struct field *field_new_exportable(const struct field *of, struct failure *failure)
{
    struct device *device = of->device;
    const uint64_t grain = device->info.export_bytes, bytes = of->type.bytes;
    if (!grain || device->bridged) {
        failure_set(failure, STATUS_UNSUPPORTED, NULL, "%s cannot export memory", device->name);
        return NULL;
    }
    const struct field_memory memory = {(bytes + grain - 1) / grain * grain,
                                        hold_descriptor(of->user, failure)};
    if (memory.descriptor < 0)
        return NULL;
    struct field *field = new_field(device, of->user, &of->type, &memory, failure);
    if (!field)
        close(memory.descriptor);
    return field;
}

void field_take_exported(struct field *field, struct field *other, int descriptor)
{
    const struct field_memory memory = other->memory;
    while (dup3(descriptor, memory.descriptor, O_CLOEXEC) < 0 && (errno == EINTR || errno == EBUSY))
        ;
    close(descriptor);
    charge(other, (uint64_t)-1);
    charge(field, (uint64_t)-1);
    other->memory = field->memory;
    field->memory = memory;
    charge(other, 1);
    charge(field, 1);
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
        device_release(field);
        uncharge(field);
    }
    if (field->parts)
        free_parts(field);
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

bool field_make_id(uint64_t *id, struct failure *failure)
{
    do {
        if (getrandom(id, sizeof *id, 0) != (ssize_t)sizeof *id)
            return failure_set(failure, STATUS_INTERNAL, NULL, "no randomness for an id");
        *id >>= 1;
    } while (!*id);
    return true;
}

/* Its memory no longer counts as that of a job in the queue. */
static void become_resident(struct field *field)
{
    if (!field->resident && !field->lost)
        USER_COUNT(field->user, queue_bytes, -field->memory.bytes);
    field->resident = true;
    for (uint32_t i = 0; field->parts && i < field->parts->count; i++)
        if (field->parts->at[i])
            become_resident(field->parts->at[i]);
}

bool field_publish(struct field *field, struct failure *failure)
{
    const uint64_t own = field->user->counters.fields,
                   most = field->user->users->config->max_fields;
    if (own >= most)
        return failure_set_limit(failure, STATUS_OVER_BUDGET, NULL, own + 1, most,
                                 "you have %llu fields already; free some of them (list)",
                                 (unsigned long long)own);
    do {
        if (!field_make_id(&field->id, failure))
            return false;
    } while (RB_INSERT(field_tree, tree_of(field->user), field));
    field_reference(field);
    USER_COUNT(field->user, fields, 1);
    become_resident(field);
    return true;
}

void field_withdraw(struct field *field)
{
    RB_REMOVE(field_tree, tree_of(field->user), field);
    field->id = 0;
    USER_COUNT(field->user, fields, -1);
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
    if (!field)
        failure_set(failure, STATUS_NOT_FOUND, parameter, "there is no field %llu",
                    (unsigned long long)id);
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
    uncharge(field);
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

#include "server/jobs/placement.h"

#include "server/devices/group.h"
#include "server/jobs/task.h"
#include "server/jobs/upload.h"

#include <string.h>

/* As many jobs as a server may have sum up to less than 2^63. */
#define DUE_MOST_NS (INT64_C(1) << 38)

/* The demand of a job or an array on a device. */
struct demand {
    const struct client *client;
    const struct upload *upload;
    const struct field *read[CHAIN_LINKS * (AXIS_COUNT + OPERANDS)]; /* each once; count of them */
    uint32_t count;
    uint64_t region[CHAIN_LINKS * (2 * AXIS_COUNT + OPERANDS)]; /* ids; regions of them */
    uint32_t regions;
    uint64_t new_bytes;    /* of arrays that it brings, or that lie in regions */
    uint64_t result_bytes; /* by guess: as much as its largest input */
    /* Overwritten, exported, or read by a get: it runs where that lies. NULL: none. */
    const struct field *pinned;
};

/* Costs of a device, compared in order: the first that differs decides. */
enum { COST_DOWN, COST_REFUSES, COST_OWN, COSTS = COST_OWN + 5 };

static bool is_less(const double a[COSTS], const double b[COSTS])
{
    int i = 0;
    while (i < COSTS - 1 && a[i] == b[i])
        i++;
    return a[i] < b[i];
}

/* The lists are as long as their counts say: none of them is cleared for each job. */
static void demand_begin(struct demand *demand, const struct client *client,
                         const struct upload *upload)
{
    demand->client = client;
    demand->upload = upload;
    demand->count = demand->regions = 0;
    demand->new_bytes = demand->result_bytes = 0;
    demand->pinned = NULL;
}

/* Bytes of its inputs that lie on other devices. */
static uint64_t copied_bytes(const struct demand *demand, const struct device *device)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < demand->count; i++)
        bytes += demand->read[i]->device != device ? demand->read[i]->type.bytes : 0;
    return bytes;
}

/* Would the device refuse it, for want of room or of a region that it could not map? */
static bool refuses(const struct device *device, const struct demand *demand)
{
    const struct user *user = demand->client->user;
    struct failure failure = {0};
    const uint64_t bytes = demand->new_bytes + demand->result_bytes + copied_bytes(demand, device);
    bool refuses = !field_has_room(device, user, bytes, &failure);
    for (uint32_t i = 0; i < demand->regions; i++)
        refuses = refuses || region_is_lost(user, demand->region[i], device);
    return refuses;
}

/* A worker that has ended is back soon; a node, perhaps never. */
static double down_cost(const struct device *device)
{
    return device_is_away(device) ? 2 : device->state != DEVICE_READY || device->is_given_up;
}

/* Devices whose workers are ready come first, and of them those that would not refuse it. */
static struct device *cheapest(const struct demand *demand,
                               void (*cost_of)(double cost[5], const struct device *device,
                                               const struct demand *demand))
{
    const struct client *client = demand->client;
    struct device *best = NULL;
    double least[COSTS] = {0};
    LIST_EACH (struct device, device, &client->jobs->devices->list, link) {
        if (device->group)
            continue; /* group_if_larger() and choose() choose it */
        double cost[COSTS] = {
            [COST_DOWN] = down_cost(device), [COST_REFUSES] = refuses(device, demand)};
        cost_of(cost + COST_OWN, device, demand);
        if (!best || is_less(cost, least)) {
            best = device;
            memcpy(least, cost, sizeof least);
        }
    }
    return best;
}

/* The group, for an array or a job that it can cut and that the device could never hold; else the
 * device. */
static struct device *group_if_larger(const struct demand *demand, struct device *device,
                                      bool can_cut)
{
    struct device *group = device->devices->group;
    const uint64_t bytes = demand->new_bytes + demand->result_bytes + copied_bytes(demand, device);
    return can_cut && !field_fits(device, bytes) && !refuses(group, demand) ? group : device;
}

/* A node that has not joined may never do so, and one that leaves takes nothing new: nothing waits
 * for it. */
static bool is_there(const struct device *device, struct failure *failure)
{
    return !device_is_away(device) ||
           failure_set(failure, STATUS_DEVICE_LOST, NULL,
                       "%s is on a node that has not joined, or leaves", device->name);
}

/* --- homes --- */

static uint32_t homes_of_all(const struct device *device)
{
    const struct users *users = device->devices->users;
    uint32_t homes = 0;
    LIST_EACH (const struct user, user, &users->list, link)
        homes += user->part[device->number] ? user->part[device->number]->homes : 0;
    return homes;
}

/* A user's connections are spread over the devices of this node, if it has any; the first one goes
 * where the user's arrays lie. */
static void home_cost(double cost[5], const struct device *device, const struct demand *demand)
{
    const struct device_user *part = demand->client->user->part[device->number];
    cost[0] = device->bridged;
    cost[1] = part ? part->homes : 0;
    cost[2] = part ? -(double)part->bytes : 0;
    cost[3] = homes_of_all(device);
    cost[4] = (double)device->bytes;
}

void placement_forget(struct client *client)
{
    if (client->home)
        client->user->part[client->home->number]->homes--;
    client->home = NULL;
}

struct device *placement_of_array(struct client *client, const struct array_type *type,
                                  struct failure *failure)
{
    struct device *home = client->home;
    struct demand demand;
    demand_begin(&demand, client, NULL);
    demand.new_bytes = type->bytes;
    if (home && down_cost(home) == 0 && !home->leaving && !refuses(home, &demand))
        return home;
    const struct device *group = client->jobs->devices->group;
    struct device *device =
        group_if_larger(&demand, cheapest(&demand, home_cost), group && group_cuts(group, type));
    struct device_user *part =
        is_there(device, failure) ? user_part(client->user, device->number, failure) : NULL;
    if (!home && part && !device->group) {
        client->home = device;
        part->homes++;
    }
    return part ? device : NULL;
}

/* --- jobs --- */

void placement_set_due(struct task *task, int64_t ns)
{
    struct device_user *const part = task->part;
    const bool was_due = part->due_ns > 0;
    ns = ns < DUE_MOST_NS ? ns : DUE_MOST_NS;
    part->due_ns += ns - task->due_ns;
    task->due_ns = ns;
    task->device->due_users += (uint32_t)(part->due_ns > 0) - (uint32_t)was_due;
}

static void note_bytes(struct demand *demand, uint64_t bytes)
{
    demand->result_bytes = bytes > demand->result_bytes ? bytes : demand->result_bytes;
}

static void note_read(struct demand *demand, const struct field *field)
{
    uint32_t at = 0;
    while (at < demand->count && demand->read[at] != field)
        at++;
    if (!field || at < demand->count)
        return;
    demand->read[demand->count++] = field;
    note_bytes(demand, field->type.bytes);
}

/* NULL: it was lost, or there is none; admission tells of it. */
static const struct field *field_of(const struct demand *demand, uint64_t id)
{
    struct failure failure = {0};
    return field_find(demand->client->user, id, NULL, &failure);
}

/* The same of one that decides where the job goes: also one that was lost, of which admission can
 * tell whether its device is there or not. */
static const struct field *pinned_field_of(const struct demand *demand, uint64_t id)
{
    struct failure failure = {0};
    return field_find_any(demand->client->user, id, NULL, &failure);
}

static void find_read(struct demand *demand, const struct array *array)
{
    if (array->kind == ARRAY_NONE)
        return;
    if (array->kind == ARRAY_FIELD) {
        note_read(demand, field_of(demand, array->field));
        return;
    }
    struct failure failure = {0}; /* admission tells of it */
    const struct arrival *arrival = array->kind == ARRAY_INLINE && array->payload_count
                                        ? upload_find(demand->upload, array, false, NULL, &failure)
                                        : NULL;
    if (arrival) {
        note_read(demand, arrival->field);
    } else {
        demand->new_bytes += array->type.bytes;
        note_bytes(demand, array->type.bytes);
    }
    if (array->kind == ARRAY_REGION)
        demand->region[demand->regions++] = array->region;
}

/* False with the failure set: it overwrites fields of two devices. */
static bool find_written(struct demand *demand, const struct arrays *out, struct failure *failure)
{
    for (int i = 0; i < AXIS_COUNT; i++) {
        const struct array *array = &out->at[i];
        const struct field *field =
            array->kind == ARRAY_FIELD ? pinned_field_of(demand, array->field) : NULL;
        if (array->kind == ARRAY_REGION)
            demand->region[demand->regions++] = array->region;
        if (!field)
            continue;
        if (demand->pinned && demand->pinned->device != field->device)
            return failure_set(failure, STATUS_INVALID_ARGUMENT, "out",
                               "field %llu lies on %s, field %llu on %s: a job overwrites fields "
                               "of one device",
                               (unsigned long long)demand->pinned->id, demand->pinned->device->name,
                               (unsigned long long)field->id, field->device->name);
        demand->pinned = field;
    }
    return true;
}

static bool find_arrays(struct demand *demand, const struct request *request,
                        struct failure *failure)
{
    for (int i = 0; i < AXIS_COUNT; i++)
        find_read(demand, &request->f.at[i]);
    for (int i = 0; i < OPERANDS; i++)
        find_read(demand, &request->operand[i]);
    if ((request->out == OUT_FIELD || request->out == OUT_REGION) &&
        !find_written(demand, &request->out_place, failure))
        return false;
    const struct request_chain *chain = request->chain;
    for (uint32_t i = 0; chain && i < chain->count; i++)
        if (!find_arrays(demand, &chain->link[i].request, failure))
            return request_chain_place(chain, failure, i);
    return true;
}

static double wait_ns(const struct device *device, const struct user *user)
{
    const struct device_user *part = user->part[device->number];
    return part ? (double)part->due_ns * device->due_users : 0;
}

/* Down from where they lie, and up to the device. */
static double copy_ns(const struct demand *demand, const struct device *device)
{
    double ns = 0;
    for (uint32_t i = 0; i < demand->count; i++)
        if (demand->read[i]->device != device)
            ns += device_copy_ns(demand->read[i]->device, demand->read[i]->type.bytes) +
                  device_copy_ns(device, demand->read[i]->type.bytes);
    return ns;
}

static void finish_cost(double cost[5], const struct device *device, const struct demand *demand)
{
    cost[0] = wait_ns(device, demand->client->user) + copy_ns(demand, device);
    cost[1] = device->due_users;
    cost[2] = device != demand->client->home;
}

/* Wherever the inputs lie. */
static void wait_cost(double cost[5], const struct device *device, const struct demand *demand)
{
    cost[0] = wait_ns(device, demand->client->user);
    cost[1] = device->due_users;
    cost[2] = (double)device->bytes;
}

/* But for what has come with the request. */
static void bytes_cost(double cost[5], const struct device *device, const struct demand *demand)
{
    cost[0] = (double)device->bytes;
    for (uint32_t i = 0; i < demand->count; i++)
        if (demand->read[i]->device == device)
            cost[0] -= (double)demand->read[i]->type.bytes;
}

static struct device *find_named(const struct devices *devices, const char *name,
                                 struct failure *failure)
{
    LIST_EACH (struct device, device, &devices->list, link)
        if (strcmp(device->name, name) == 0)
            return device;
    failure_set(failure, STATUS_INVALID_ARGUMENT, "placement",
                "there is no device %s; info names the devices", name);
    return NULL;
}

/* Does anything that it reads or overwrites lie on the group? */
static bool is_distributed(const struct demand *demand)
{
    bool is = demand->pinned && demand->pinned->device->group;
    for (uint32_t i = 0; i < demand->count; i++)
        is = is || demand->read[i]->device->group;
    return is;
}

/* The type of a request's first input; of 0 dimensions: an earlier link makes it. */
static const struct array_type *type_of(const struct demand *demand, const struct request *request)
{
    const struct array *f = &request->f.at[0];
    const struct field *field = f->kind == ARRAY_FIELD ? field_of(demand, f->field) : NULL;
    return field ? &field->type : &f->type;
}

/* Can the arrays of all links be cut? An operand of a thin f may lie on the group, too. */
static bool can_be_cut(const struct device *group, const struct demand *demand,
                       const struct request *request)
{
    const struct request_chain *chain = request->chain;
    bool can = true;
    for (uint32_t i = 0; i < (chain ? chain->count : 1); i++) {
        const struct array_type *type = type_of(demand, chain ? &chain->link[i].request : request);
        can = can && (!type->dimensions || group_cuts(group, type));
    }
    return can;
}

/* A device that was named must be that of the pinned field. */
static struct device *choose(struct client *client, const struct request *request,
                             const struct demand *demand, struct failure *failure)
{
    struct device *group = client->jobs->devices->group;
    const bool can_cut = group && can_be_cut(group, demand, request);
    const char *placement = request->placement;
    if (request->distribute && *placement) {
        failure_set(failure, STATUS_INVALID_ARGUMENT, "distribute",
                    "distribute and placement do not go together");
        return NULL;
    }
    if (group && (request->distribute || strcmp(placement, group->name) == 0))
        placement = can_cut ? group->name : "";
    const bool is_put = request->method == METHOD_PUT, spread = strcmp(placement, "spread") == 0;
    struct device *named = NULL;
    if (*placement && !spread && !(named = find_named(client->jobs->devices, placement, failure)))
        return NULL;
    if (named && demand->pinned && demand->pinned->device != named) {
        failure_set(failure, STATUS_INVALID_ARGUMENT, "placement",
                    "field %llu, which the job overwrites, lies on %s",
                    (unsigned long long)demand->pinned->id, demand->pinned->device->name);
        return NULL;
    }
    if (named || demand->pinned)
        return named ? named : demand->pinned->device;
    if (!spread && can_cut && is_distributed(demand))
        return group;
    if (spread)
        return cheapest(demand, is_put ? bytes_cost : wait_cost);
    if (is_put)
        return demand->count ? demand->read[0]->device
                             : placement_of_array(client, type_of(demand, request), failure);
    return group_if_larger(demand, cheapest(demand, finish_cost), can_cut);
}

struct device *placement_of_job(struct client *client, const struct request *request,
                                const struct upload *upload, uint64_t *relayed,
                                struct failure *failure)
{
    struct demand demand;
    demand_begin(&demand, client, upload);
    if (!find_arrays(&demand, request, failure))
        return NULL;
    const bool reads = request->method == METHOD_GET || request->method == METHOD_EXPORT;
    if (reads)
        demand.pinned = pinned_field_of(&demand, request->field);
    if (request->method == METHOD_PUT)
        demand.result_bytes = 0;
    struct device *device = choose(client, request, &demand, failure);
    const bool is_found = demand.pinned && (reads || demand.pinned->lost);
    if (!device || (!is_found && !is_there(device, failure)))
        return NULL;
    *relayed = copied_bytes(&demand, device);
    return user_part(client->user, device->number, failure) ? device : NULL;
}

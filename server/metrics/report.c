#include "server/metrics/report.h"

#include "protocol/reply.h"
#include "protocol/request.h"
#include "server/devices/device.h"
#include "server/users/memory.h"
#include "server/server.h"

#include <string.h>
#include <unistd.h>

static void put_number(msgpack_packer *packer, const char *key, uint64_t value)
{
    reply_write_str(packer, key);
    msgpack_pack_uint64(packer, value);
}

static void put_text(msgpack_packer *packer, const char *key, const char *value)
{
    reply_write_str(packer, key);
    reply_write_str(packer, value);
}

static size_t length_of(const struct list *list)
{
    size_t n = 0;
    for (const struct list *link = list->next; link != list; link = link->next)
        n++;
    return n;
}

/* --- what all users come to --- */

#define COARSE_NS UINT64_C(10000000000)
#define COARSE_LEAST_COUNT 64
#define COARSE_LEAST_BYTES (UINT64_C(64) << 20)

/* Exact totals are for root and for the user who runs the server. */
static bool is_operator(const struct user *user)
{
    return user->uid == 0 || user->uid == geteuid();
}

static void add_up(const struct server *server, uint64_t totals[REPORT_TOTALS])
{
    const struct counters *counters = &server->totals;
    const struct arena *arena = &server->arena;
    uint64_t bytes = 0, fields = 0;
    for (const struct list *link = server->devices.next; link != &server->devices;
         link = link->next)
        bytes += LIST_ENTRY(link, struct device, link)->bytes;
    for (const struct list *link = server->users.next; link != &server->users; link = link->next)
        fields += LIST_ENTRY(link, struct user, link)->fields;
    const uint64_t all[REPORT_TOTALS] = {
        [REPORT_CONNECTIONS] = server->connection_count,
        [REPORT_JOBS] = server->jobs,
        [REPORT_FIELDS] = fields,
        [REPORT_DONE] = counters->jobs[TASK_DONE],
        [REPORT_FAILED] = counters->jobs[TASK_FAILED],
        [REPORT_CANCELLED] = counters->jobs[TASK_CANCELLED],
        [REPORT_TIMED_OUT] = counters->jobs[TASK_TIMED_OUT],
        [REPORT_REFUSED] = counters->jobs[TASK_REFUSED],
        [REPORT_WAITING] = server->tasks[TASK_WAITING],
        [REPORT_QUEUED] = server->tasks[TASK_QUEUED],
        [REPORT_RUNNING] = server->tasks[TASK_RUNNING] + server->tasks[TASK_STOPPING],
        [REPORT_REPLYING] = server->tasks[TASK_REPLYING],
        [REPORT_BYTES] = bytes,
        [REPORT_REGION_BYTES] = server->region_bytes,
        [REPORT_FRONT_BYTES] = server->front_bytes,
        [REPORT_BYTES_IN] = counters->bytes_in,
        [REPORT_BYTES_OUT] = counters->bytes_out,
        [REPORT_QUEUE_BYTES] = server->queue_bytes,
        [REPORT_UPLOAD_BYTES] = (uint64_t)arena->taken[SHARE_UPLOAD] * arena->slab_bytes,
        [REPORT_REPLY_BYTES] = (uint64_t)arena->taken[SHARE_REPLY] * arena->slab_bytes};
    memcpy(totals, all, sizeof all);
}

/* The power of two below it; 0 where it is small. */
static uint64_t coarse(uint64_t value, uint64_t least)
{
    uint64_t power = least;
    while (power <= value / 2)
        power *= 2;
    return value < least ? 0 : power;
}

/* So seldom that no single job shows. */
static void refresh_coarse(struct server *server)
{
    struct report_coarse *known = &server->coarse;
    const uint64_t now_ns = uv_hrtime();
    if (known->at_ns && now_ns - known->at_ns < COARSE_NS)
        return;
    known->at_ns = now_ns;
    add_up(server, known->totals);
    for (int i = 0; i < REPORT_TOTALS; i++)
        known->totals[i] =
            coarse(known->totals[i], i < REPORT_COUNTS ? COARSE_LEAST_COUNT : COARSE_LEAST_BYTES);
    for (struct list *link = server->devices.next; link != &server->devices; link = link->next) {
        struct device *device = LIST_ENTRY(link, struct device, link);
        device->coarse_bytes = coarse(device->bytes, COARSE_LEAST_BYTES);
    }
}

static void put_device(msgpack_packer *packer, const struct device *device, bool exact)
{
    msgpack_pack_map(packer, 10);
    put_text(packer, "name", device->name);
    put_text(packer, "kind", device->info.kind);
    put_text(packer, "model", device->info.name);
    put_text(packer, "state", device_state_name(device));
    put_number(packer, "generation", device->generation);
    put_number(packer, "pid", device->alive ? (uint64_t)device->process.pid : 0);
    put_number(packer, "units", device->info.units);
    put_number(packer, "driver", device->info.driver);
    put_number(packer, "memory_bytes", device->memory_bytes);
    put_number(packer, "fields_bytes", exact ? device->bytes : device->coarse_bytes);
}

void report_info(msgpack_packer *packer, struct server *server, const struct user *user)
{
    static const char *const methods[] = {
#define NAME(enumerator, name) name,
        OPERATOR_LIST(NAME) METHOD_LIST(NAME)
#undef NAME
    };
    const size_t method_count = sizeof methods / sizeof methods[0];
    refresh_coarse(server);
    msgpack_pack_map(packer, 5);
    put_text(packer, "version", FDSERVER_VERSION);
    put_number(packer, "pid", (uint64_t)getpid());
    reply_write_str(packer, "devices");
    msgpack_pack_array(packer, length_of(&server->devices));
    for (const struct list *link = server->devices.next; link != &server->devices;
         link = link->next)
        put_device(packer, LIST_ENTRY(link, struct device, link), is_operator(user));
    reply_write_str(packer, "methods");
    msgpack_pack_array(packer, method_count);
    for (size_t i = 0; i < method_count; i++)
        reply_write_str(packer, methods[i]);
    const struct config *config = &server->config;
    reply_write_str(packer, "limits");
    msgpack_pack_map(packer, 20);
    put_number(packer, "staging_bytes", server->arena.bytes);
    put_number(packer, "front_bytes", config->front_bytes);
    put_number(packer, "user_bytes", config->user_bytes);
    put_number(packer, "region_bytes", config->region_bytes);
    put_number(packer, "region_memory", config->region_memory);
    put_number(packer, "max_regions", config->max_regions);
    put_number(packer, "user_queue_jobs", config->user_queue_jobs);
    put_number(packer, "user_queue_bytes", config->user_queue_bytes);
    put_number(packer, "max_queue_jobs", config->max_queue_jobs);
    put_number(packer, "max_queue_bytes", config->max_queue_bytes);
    put_number(packer, "max_jobs", config->user_queue_jobs); /* its older name */
    put_number(packer, "max_fields", config->max_fields);
    put_number(packer, "max_connections", config->max_connections);
    put_number(packer, "max_work", config->max_work);
    put_number(packer, "upload_timeout_s", config->upload_timeout_s);
    put_number(packer, "control_bytes", LIMIT_CONTROL_BYTES);
    put_number(packer, "elements", LIMIT_ELEMENTS);
    put_number(packer, "depth", LIMIT_DEPTH);
    put_number(packer, "dimensions", LIMIT_DIMENSIONS);
    put_number(packer, "points", LIMIT_POINTS);
}

static void put_latency(msgpack_packer *packer, const struct latency *latency)
{
    reply_write_str(packer, "latency_us");
    msgpack_pack_map(packer, 4);
    put_number(packer, "count", latency->count);
    put_number(packer, "p50", latency_quantile(latency, 0.50));
    put_number(packer, "p99", latency_quantile(latency, 0.99));
    put_number(packer, "max", latency->max_us);
}

static void put_user(msgpack_packer *packer, const struct server *server, const struct user *user)
{
    const struct counters *counters = &user->counters;
    msgpack_pack_map(packer, 18);
    put_number(packer, "uid", user->uid);
    put_number(packer, "connections", user->connections);
    put_number(packer, "jobs", user->jobs);
    put_number(packer, "fields", user->fields);
    put_number(packer, "bytes", user->bytes);
    put_number(packer, "queue_bytes", user->queue_bytes);
    put_number(packer, "quota_bytes", server->config.user_bytes);
    put_number(packer, "regions", user->regions);
    put_number(packer, "region_bytes", user->region_bytes);
    put_number(packer, "front_bytes", user->front_bytes);
    put_number(packer, "done", counters->jobs[TASK_DONE]);
    put_number(packer, "failed", counters->jobs[TASK_FAILED]);
    put_number(packer, "cancelled", counters->jobs[TASK_CANCELLED]);
    put_number(packer, "timed_out", counters->jobs[TASK_TIMED_OUT]);
    put_number(packer, "refused", counters->jobs[TASK_REFUSED]);
    put_number(packer, "bytes_in", counters->bytes_in);
    put_number(packer, "bytes_out", counters->bytes_out);
    put_latency(packer, &counters->latency);
}

/* Those of the totals that `which` lists, by name. */
static void put_totals(msgpack_packer *packer, const uint64_t totals[REPORT_TOTALS],
                       const enum report_total *which, uint32_t count)
{
    static const char *const names[REPORT_TOTALS] = {[REPORT_CONNECTIONS] = "connections",
                                                     [REPORT_JOBS] = "jobs",
                                                     [REPORT_FIELDS] = "fields",
                                                     [REPORT_DONE] = "done",
                                                     [REPORT_FAILED] = "failed",
                                                     [REPORT_CANCELLED] = "cancelled",
                                                     [REPORT_TIMED_OUT] = "timed_out",
                                                     [REPORT_REFUSED] = "refused",
                                                     [REPORT_WAITING] = "waiting",
                                                     [REPORT_QUEUED] = "queued",
                                                     [REPORT_RUNNING] = "running",
                                                     [REPORT_REPLYING] = "replying",
                                                     [REPORT_BYTES] = "bytes",
                                                     [REPORT_REGION_BYTES] = "region_bytes",
                                                     [REPORT_FRONT_BYTES] = "front_bytes",
                                                     [REPORT_BYTES_IN] = "bytes_in",
                                                     [REPORT_BYTES_OUT] = "bytes_out",
                                                     [REPORT_QUEUE_BYTES] = "bytes",
                                                     [REPORT_UPLOAD_BYTES] = "upload_bytes",
                                                     [REPORT_REPLY_BYTES] = "reply_bytes"};
    for (uint32_t i = 0; i < count; i++)
        put_number(packer, names[which[i]], totals[which[i]]);
}

void report_stats(msgpack_packer *packer, struct server *server, const struct user *user)
{
    static const enum report_total of_all[] = {
        REPORT_JOBS,        REPORT_FIELDS,  REPORT_BYTES,    REPORT_REGION_BYTES,
        REPORT_FRONT_BYTES, REPORT_DONE,    REPORT_FAILED,   REPORT_CANCELLED,
        REPORT_TIMED_OUT,   REPORT_REFUSED, REPORT_BYTES_IN, REPORT_BYTES_OUT};
    static const enum report_total queue[] = {REPORT_WAITING, REPORT_QUEUED, REPORT_RUNNING,
                                              REPORT_REPLYING, REPORT_QUEUE_BYTES};
    enum { OF_ALL = sizeof of_all / sizeof *of_all, QUEUE = sizeof queue / sizeof *queue };
    static const enum report_total connections[] = {REPORT_CONNECTIONS};
    static const enum report_total staging[] = {REPORT_UPLOAD_BYTES, REPORT_REPLY_BYTES};
    const bool exact = is_operator(user);
    uint64_t now[REPORT_TOTALS];
    refresh_coarse(server);
    add_up(server, now);
    const uint64_t *totals = exact ? now : server->coarse.totals;
    msgpack_pack_map(packer, 6);
    put_number(packer, "uptime_s", (uv_hrtime() - server->started_ns) / UINT64_C(1000000000));
    put_totals(packer, totals, connections, 1);
    reply_write_str(packer, "user");
    put_user(packer, server, user);
    reply_write_str(packer, "totals");
    msgpack_pack_map(packer, OF_ALL + exact);
    put_totals(packer, totals, of_all, OF_ALL);
    if (exact)
        put_latency(packer, &server->totals.latency);
    reply_write_str(packer, "queue");
    msgpack_pack_map(packer, QUEUE);
    put_totals(packer, totals, queue, QUEUE);
    reply_write_str(packer, "staging");
    msgpack_pack_map(packer, 3);
    put_number(packer, "bytes", server->arena.bytes);
    put_totals(packer, totals, staging, 2);
}

static void put_field(msgpack_packer *packer, const struct field *field)
{
    msgpack_pack_map(packer, 6);
    put_number(packer, "field", field->id);
    reply_write_type(packer, &field->type);
    put_number(packer, "bytes", field->type.bytes);
    put_text(packer, "device", field->device->name);
    put_text(packer, "state", field->lost || field->torn ? "lost" : "resident");
}

bool report_fields(msgpack_packer *packer, struct server *server, struct user *user,
                   const struct request *request, struct failure *failure)
{
    enum { ENTRY_BYTES = 160 }; /* at most, but for shapes of many axes */
    const uint64_t limit = request->list.limit;
    const uint64_t most = user->fields < limit ? user->fields : limit;
    if (!request->list.pages && user->fields > limit)
        return failure_set_limit(failure, STATUS_TOO_LARGE, NULL, (double)user->fields,
                                 (double)limit,
                                 "you have %llu fields, and one answer holds %llu: ask for them "
                                 "with after and limit",
                                 (unsigned long long)user->fields, (unsigned long long)limit);
    /* Is there room for the answer? It is counted itself once it is packed. */
    if (!memory_take(server, user, most * ENTRY_BYTES, NULL, failure))
        return false;
    memory_release(server, user, most * ENTRY_BYTES);
    uint64_t count = 0;
    for (const struct field *field = field_after(user, request->list.after); field && count < limit;
         field = field_after(user, field->id))
        count++;
    msgpack_pack_map(packer, 1);
    reply_write_str(packer, "fields");
    msgpack_pack_array(packer, count);
    for (uint64_t after = request->list.after; count; count--) {
        const struct field *field = field_after(user, after);
        put_field(packer, field);
        after = field->id;
    }
    return true;
}

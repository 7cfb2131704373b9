#include "server/io/io.h"

#include "protocol/reply.h"
#include "server/devices/field.h"
#include "server/users/memory.h"

#include <unistd.h>

#define COARSE_NS UINT64_C(10000000000)
#define COARSE_LEAST_COUNT 64
#define COARSE_LEAST_BYTES (UINT64_C(64) << 20)

/* Exact totals are for root and for the user who runs the server. */
static bool is_operator(const struct user *user)
{
    return user->uid == 0 || user->uid == geteuid();
}

static uint64_t staged_by(const struct io *io, enum share share)
{
    return (uint64_t)io->jobs->devices->arena.taken[share] * io->jobs->devices->arena.slab_bytes;
}

/* The counters in `stats`: the map, the unit, the name, and the value of all users or of one, by
 * the `counters`. The maps FIRST and TOTALS are the user's, too. */
#define COUNTED(X)                                                                                 \
    X(FIRST, COUNT, "connections", counters->connections)                                          \
    X(TOTALS, COUNT, "jobs", counters->jobs)                                                       \
    X(TOTALS, COUNT, "fields", counters->fields)                                                   \
    X(TOTALS, BYTES, "bytes", counters->bytes)                                                     \
    X(TOTALS, BYTES, "region_bytes", counters->region_bytes)                                       \
    X(TOTALS, BYTES, "front_bytes", counters->front_bytes)                                         \
    X(TOTALS, COUNT, "done", counters->ended[TASK_DONE])                                           \
    X(TOTALS, COUNT, "failed", counters->ended[TASK_FAILED])                                       \
    X(TOTALS, COUNT, "cancelled", counters->ended[TASK_CANCELLED])                                 \
    X(TOTALS, COUNT, "timed_out", counters->ended[TASK_TIMED_OUT])                                 \
    X(TOTALS, COUNT, "refused", counters->ended[TASK_REFUSED])                                     \
    X(TOTALS, BYTES, "bytes_in", counters->bytes_in)                                               \
    X(TOTALS, BYTES, "bytes_out", counters->bytes_out)                                             \
    X(QUEUE, COUNT, "waiting", io->jobs->tasks[TASK_WAITING])                                      \
    X(QUEUE, COUNT, "queued", io->jobs->tasks[TASK_QUEUED])                                        \
    X(QUEUE, COUNT, "running", io->jobs->tasks[TASK_RUNNING] + io->jobs->tasks[TASK_STOPPING])     \
    X(QUEUE, COUNT, "replying", io->jobs->tasks[TASK_REPLYING])                                    \
    X(QUEUE, BYTES, "bytes", counters->queue_bytes)                                                \
    X(STAGING, BYTES, "upload_bytes", staged_by(io, SHARE_UPLOAD))                                 \
    X(STAGING, BYTES, "reply_bytes", staged_by(io, SHARE_REPLY))

enum map { FIRST, TOTALS, QUEUE, STAGING };
enum unit { COUNT, BYTES };

static const struct {
    enum map map;
    enum unit unit;
    const char *name;
} rows[] = {
#define ROW(map, unit, name, value) {map, unit, name},
    COUNTED(ROW)
#undef ROW
};
_Static_assert(sizeof rows / sizeof *rows == REPORT_COUNTED, "a row for each value");

static void count(const struct io *io, const struct counters *counters,
                  uint64_t values[REPORT_COUNTED])
{
#define VALUE(map, unit, name, value) *values++ = value;
    COUNTED(VALUE)
#undef VALUE
}

static uint32_t map_size(enum map map)
{
    uint32_t size = 0;
    for (int i = 0; i < REPORT_COUNTED; i++)
        size += rows[i].map == map;
    return size;
}

static void put_counted(msgpack_packer *packer, enum map map, const uint64_t values[REPORT_COUNTED])
{
    for (int i = 0; i < REPORT_COUNTED; i++)
        if (rows[i].map == map)
            reply_write_count(packer, rows[i].name, values[i]);
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
static void refresh_coarse(struct io *io)
{
    struct report_coarse *known = &io->coarse;
    const uint64_t now_ns = uv_hrtime();
    if (known->at_ns && now_ns - known->at_ns < COARSE_NS)
        return;
    known->at_ns = now_ns;
    count(io, &io->jobs->devices->users->counters, known->values);
    for (int i = 0; i < REPORT_COUNTED; i++)
        known->values[i] = coarse(known->values[i],
                                  rows[i].unit == COUNT ? COARSE_LEAST_COUNT : COARSE_LEAST_BYTES);
    LIST_EACH (struct device, device, &io->jobs->devices->list, link)
        device->coarse_bytes = coarse(device->bytes, COARSE_LEAST_BYTES);
}

static void put_device(msgpack_packer *packer, const struct device *device, bool exact)
{
    msgpack_pack_map(packer, 11);
    reply_write_text(packer, "name", device->name);
    reply_write_text(packer, "kind", device->info.kind);
    reply_write_text(packer, "model", device->info.name);
    reply_write_text(packer, "state", device_state_name(device));
    reply_write_count(packer, "generation", device->generation);
    reply_write_count(packer, "pid", (uint64_t)device->pid);
    reply_write_count(packer, "units", device->info.units);
    reply_write_count(packer, "driver", device->info.driver);
    reply_write_count(packer, "kernels", kernels_count(device));
    reply_write_count(packer, "memory_bytes", device->memory_bytes);
    reply_write_count(packer, "fields_bytes", exact ? device->bytes : device->coarse_bytes);
}

void report_info(msgpack_packer *packer, struct io *io, const struct user *user)
{
    static const char *const methods[] = {
#define NAME(enumerator, name) name,
        OPERATOR_LIST(NAME) METHOD_LIST(NAME)
#undef NAME
    };
    const size_t method_count = sizeof methods / sizeof methods[0];
    refresh_coarse(io);
    msgpack_pack_map(packer, 5);
    reply_write_text(packer, "version", FDSERVER_VERSION);
    reply_write_count(packer, "pid", (uint64_t)getpid());
    reply_write_str(packer, "devices");
    size_t devices = 0;
    LIST_EACH (const struct device, device, &io->jobs->devices->list, link)
        devices++;
    msgpack_pack_array(packer, devices);
    LIST_EACH (const struct device, device, &io->jobs->devices->list, link)
        put_device(packer, device, is_operator(user));
    reply_write_str(packer, "methods");
    msgpack_pack_array(packer, method_count);
    for (size_t i = 0; i < method_count; i++)
        reply_write_str(packer, methods[i]);
    const struct config *config = io->config;
    reply_write_str(packer, "limits");
    msgpack_pack_map(packer, 20);
    reply_write_count(packer, "staging_bytes", io->jobs->devices->arena.bytes);
    reply_write_count(packer, "front_bytes", config->front_bytes);
    reply_write_count(packer, "user_bytes", config->user_bytes);
    reply_write_count(packer, "region_bytes", config->region_bytes);
    reply_write_count(packer, "region_memory", config->region_memory);
    reply_write_count(packer, "max_regions", config->max_regions);
    reply_write_count(packer, "user_queue_jobs", config->user_queue_jobs);
    reply_write_count(packer, "user_queue_bytes", config->user_queue_bytes);
    reply_write_count(packer, "max_queue_jobs", config->max_queue_jobs);
    reply_write_count(packer, "max_queue_bytes", config->max_queue_bytes);
    reply_write_count(packer, "max_jobs", config->user_queue_jobs); /* its older name */
    reply_write_count(packer, "max_fields", config->max_fields);
    reply_write_count(packer, "max_connections", config->max_connections);
    reply_write_count(packer, "max_work", config->max_work);
    reply_write_count(packer, "upload_timeout_s", config->upload_timeout_s);
    reply_write_count(packer, "control_bytes", LIMIT_CONTROL_BYTES);
    reply_write_count(packer, "elements", LIMIT_ELEMENTS);
    reply_write_count(packer, "depth", LIMIT_DEPTH);
    reply_write_count(packer, "dimensions", LIMIT_DIMENSIONS);
    reply_write_count(packer, "points", LIMIT_POINTS);
}

static void put_latency(msgpack_packer *packer, const struct latency *latency)
{
    reply_write_str(packer, "latency_us");
    msgpack_pack_map(packer, 4);
    reply_write_count(packer, "count", latency->count);
    reply_write_count(packer, "p50", latency_quantile(latency, 0.50));
    reply_write_count(packer, "p99", latency_quantile(latency, 0.99));
    reply_write_count(packer, "max", latency->max_us);
}

static void put_user(msgpack_packer *packer, const struct io *io, const struct user *user)
{
    enum { OTHERS = 6 };
    uint64_t values[REPORT_COUNTED];
    count(io, &user->counters, values);
    msgpack_pack_map(packer, OTHERS + map_size(FIRST) + map_size(TOTALS));
    reply_write_count(packer, "uid", user->uid);
    put_counted(packer, FIRST, values);
    put_counted(packer, TOTALS, values);
    reply_write_count(packer, "queue_bytes", user->counters.queue_bytes);
    reply_write_count(packer, "quota_bytes", io->config->user_bytes);
    reply_write_count(packer, "regions", user->counters.regions);
    reply_write_count(packer, "exports", user->counters.exports);
    put_latency(packer, &user->counters.latency);
}

void report_stats(msgpack_packer *packer, struct io *io, const struct user *user)
{
    const bool exact = is_operator(user);
    uint64_t now[REPORT_COUNTED];
    refresh_coarse(io);
    count(io, &io->jobs->devices->users->counters, now);
    const uint64_t *values = exact ? now : io->coarse.values;
    msgpack_pack_map(packer, 5 + map_size(FIRST));
    reply_write_count(packer, "uptime_s", (uv_hrtime() - io->started_ns) / UINT64_C(1000000000));
    put_counted(packer, FIRST, values);
    reply_write_str(packer, "user");
    put_user(packer, io, user);
    reply_write_str(packer, "totals");
    msgpack_pack_map(packer, map_size(TOTALS) + exact);
    put_counted(packer, TOTALS, values);
    if (exact)
        put_latency(packer, &io->jobs->devices->users->counters.latency);
    reply_write_str(packer, "queue");
    msgpack_pack_map(packer, map_size(QUEUE));
    put_counted(packer, QUEUE, values);
    reply_write_str(packer, "staging");
    msgpack_pack_map(packer, 1 + map_size(STAGING));
    reply_write_count(packer, "bytes", io->jobs->devices->arena.bytes);
    put_counted(packer, STAGING, values);
}

static void put_field(msgpack_packer *packer, const struct field *field)
{
    msgpack_pack_map(packer, 7);
    reply_write_count(packer, "field", field->id);
    reply_write_type(packer, &field->type);
    reply_write_count(packer, "bytes", field_bytes(field));
    reply_write_text(packer, "device", field->device->name);
    reply_write_flag(packer, "exported", field_is_exported(field));
    reply_write_text(packer, "state", field->lost || field->torn ? "lost" : "resident");
}

bool report_fields(msgpack_packer *packer, struct user *user, const struct request *request,
                   struct failure *failure)
{
    enum { ENTRY_BYTES = 176 }; /* at most, but for shapes of many axes */
    const uint64_t limit = request->limit;
    const uint64_t own = user->counters.fields, most = own < limit ? own : limit;
    if (!(request->given & (PARAMETER_BIT(after) | PARAMETER_BIT(limit))) && own > limit)
        return failure_set_limit(failure, STATUS_TOO_LARGE, NULL, own, limit,
                                 "you have %llu fields, and one answer holds %llu: ask for them "
                                 "with after and limit",
                                 (unsigned long long)own, (unsigned long long)limit);
    /* Is there room for the answer? It is counted itself once it is packed. */
    if (!memory_take(user, most * ENTRY_BYTES, NULL, failure))
        return false;
    memory_release(user, most * ENTRY_BYTES);
    uint64_t count = 0;
    for (const struct field *field = field_after(user, request->after); field && count < limit;
         field = field_after(user, field->id))
        count++;
    msgpack_pack_map(packer, 1);
    reply_write_str(packer, "fields");
    msgpack_pack_array(packer, count);
    for (uint64_t after = request->after; count; count--) {
        const struct field *field = field_after(user, after);
        put_field(packer, field);
        after = field->id;
    }
    return true;
}

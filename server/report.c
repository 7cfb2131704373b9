#include "server/report.h"

#include "protocol/reply.h"
#include "protocol/request.h"
#include "server/device.h"
#include "server/server.h"

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

static void put_device(msgpack_packer *packer, const struct device *device)
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
    put_number(packer, "fields_bytes", device->bytes);
}

void report_info(msgpack_packer *packer, const struct server *server)
{
    static const char *const methods[] = {
#define NAME(enumerator, name) name,
        OPERATOR_LIST(NAME) METHOD_LIST(NAME)
#undef NAME
    };
    const size_t method_count = sizeof methods / sizeof methods[0];
    msgpack_pack_map(packer, 5);
    put_text(packer, "version", FDSERVER_VERSION);
    put_number(packer, "pid", (uint64_t)getpid());
    reply_write_str(packer, "devices");
    msgpack_pack_array(packer, length_of(&server->devices));
    for (const struct list *link = server->devices.next; link != &server->devices;
         link = link->next)
        put_device(packer, LIST_ENTRY(link, struct device, link));
    reply_write_str(packer, "methods");
    msgpack_pack_array(packer, method_count);
    for (size_t i = 0; i < method_count; i++)
        reply_write_str(packer, methods[i]);
    const struct config *config = &server->config;
    reply_write_str(packer, "limits");
    msgpack_pack_map(packer, 19);
    put_number(packer, "staging_bytes", server->arena.bytes);
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

enum { COUNTER_KEYS = 8 };

static void put_counters(msgpack_packer *packer, const struct counters *counters)
{
    put_number(packer, "done", counters->jobs[TASK_DONE]);
    put_number(packer, "failed", counters->jobs[TASK_FAILED]);
    put_number(packer, "cancelled", counters->jobs[TASK_CANCELLED]);
    put_number(packer, "timed_out", counters->jobs[TASK_TIMED_OUT]);
    put_number(packer, "refused", counters->jobs[TASK_REFUSED]);
    put_number(packer, "bytes_in", counters->bytes_in);
    put_number(packer, "bytes_out", counters->bytes_out);
    put_latency(packer, &counters->latency);
}

void report_stats(msgpack_packer *packer, const struct server *server, const struct user *user)
{
    uint64_t bytes = 0, fields = 0;
    for (const struct list *link = server->devices.next; link != &server->devices;
         link = link->next)
        bytes += LIST_ENTRY(link, struct device, link)->bytes;
    for (const struct list *link = server->users.next; link != &server->users; link = link->next)
        fields += LIST_ENTRY(link, struct user, link)->fields;

    msgpack_pack_map(packer, 6);
    put_number(packer, "uptime_s", (uv_hrtime() - server->started_ns) / UINT64_C(1000000000));
    put_number(packer, "connections", server->connection_count);
    reply_write_str(packer, "user");
    msgpack_pack_map(packer, COUNTER_KEYS + 9);
    put_number(packer, "uid", user->uid);
    put_number(packer, "connections", user->connections);
    put_number(packer, "jobs", user->jobs);
    put_number(packer, "fields", user->fields);
    put_number(packer, "bytes", user->bytes);
    put_number(packer, "queue_bytes", user->queue_bytes);
    put_number(packer, "quota_bytes", server->config.user_bytes);
    put_number(packer, "regions", user->regions);
    put_number(packer, "region_bytes", user->region_bytes);
    put_counters(packer, &user->counters);
    reply_write_str(packer, "totals");
    msgpack_pack_map(packer, COUNTER_KEYS + 4);
    put_number(packer, "jobs", server->jobs);
    put_number(packer, "fields", fields);
    put_number(packer, "bytes", bytes);
    put_number(packer, "region_bytes", server->region_bytes);
    put_counters(packer, &server->totals);
    reply_write_str(packer, "queue");
    msgpack_pack_map(packer, 5);
    put_number(packer, "waiting", server->tasks[TASK_WAITING]);
    put_number(packer, "queued", server->tasks[TASK_QUEUED]);
    put_number(packer, "running", server->tasks[TASK_RUNNING] + server->tasks[TASK_STOPPING]);
    put_number(packer, "replying", server->tasks[TASK_REPLYING]);
    put_number(packer, "bytes", server->queue_bytes);
    reply_write_str(packer, "staging");
    msgpack_pack_map(packer, 3);
    put_number(packer, "bytes", server->arena.bytes);
    put_number(packer, "upload_bytes",
               (uint64_t)server->arena.taken[SHARE_UPLOAD] * server->arena.slab_bytes);
    put_number(packer, "reply_bytes",
               (uint64_t)server->arena.taken[SHARE_REPLY] * server->arena.slab_bytes);
}

void report_fields(msgpack_packer *packer, const struct server *server, const struct user *user)
{
    msgpack_pack_map(packer, 1);
    reply_write_str(packer, "fields");
    msgpack_pack_array(packer, user->fields);
    for (size_t i = 0; i < FIELD_BUCKETS; i++) {
        for (const struct field *field = server->fields.bucket[i]; field; field = field->next) {
            if (field->user != user)
                continue;
            msgpack_pack_map(packer, 6);
            put_number(packer, "field", field->id);
            reply_write_type(packer, &field->type);
            put_number(packer, "bytes", field->type.bytes);
            put_text(packer, "device", field->device->name);
            put_text(packer, "state", field->lost || field->torn ? "lost" : "resident");
        }
    }
}

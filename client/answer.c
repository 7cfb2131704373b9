#include "client/connection.h"

#include "client/error.h"
#include "client/json.h"
#include "protocol/object.h"
#include "protocol/reply.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The ticket fails. */
__attribute__((format(printf, 3, 4))) static bool fail(struct ticket *ticket, const char *code,
                                                       const char *format, ...)
{
    struct fdclient_error error;
    char message[sizeof error.message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    error_set(&error, code, strcmp(code, ERROR_CONNECTION) == 0 ? "" : "result", "%s", message);
    ticket_fail(ticket, &error);
    return false;
}

static bool bad_reply(struct ticket *ticket, const char *reason)
{
    return fail(ticket, ERROR_CONNECTION, "the server's reply makes no sense: %s", reason);
}

/* Has the caller a place for the component? */
static bool has_place(struct ticket *ticket, uint32_t component)
{
    if (ticket_result(ticket, component))
        return true;
    if (component == TICKET_PROBES)
        return fail(ticket, "TOO_LARGE", "there is no room for the values at the probes");
    return fail(ticket, "TOO_LARGE",
                "the result is several arrays, and there is no room for its component %s (see "
                "fdclient_run_vector())",
                ticket->names[component]);
}

/* Find memory for an array of that type. */
static bool result_prepare(struct ticket *ticket, uint32_t component, const struct array_type *type)
{
    if (!has_place(ticket, component))
        return false;
    struct fdclient_result *result = ticket_result(ticket, component);
    if (result->data && type->bytes > result->capacity) {
        fail(ticket, "TOO_LARGE", "the result has %" PRIu64 " bytes, and there is room for %zu",
             type->bytes, result->capacity);
        ticket->error.has_limit = true;
        ticket->error.need = (double)type->bytes;
        ticket->error.limit = (double)result->capacity;
        return false;
    }
    if (!result->data) {
        result->data = malloc(type->bytes);
        result->allocated = result->data != NULL;
    }
    ticket->parts[component] = (struct part){.data = result->data, .type = *type};
    return result->data || fail(ticket, "OUT_OF_MEMORY",
                                "no memory for a result of %" PRIu64 " bytes", type->bytes);
}

void answer_describe(const struct array_type *type, enum fdclient_dtype *dtype,
                     uint32_t *dimensions, uint64_t shape[FDCLIENT_DIMENSIONS])
{
    *dtype = type->dtype == DTYPE_F64 ? FDCLIENT_F64 : FDCLIENT_F32;
    *dimensions = type->dimensions;
    memcpy(shape, type->shape, sizeof type->shape);
}

static void result_describe(struct fdclient_result *result, const struct array_type *type)
{
    answer_describe(type, &result->dtype, &result->dimensions, result->shape);
    result->bytes = type->bytes;
}

static bool is_named(const struct splitter_payload *payload, const char *name)
{
    return payload->name.bytes == strlen(name) &&
           memcmp(payload->name.text, name, payload->name.bytes) == 0;
}

/* Which of the results, by the key that the array stands under; or probes; 0 where it is neither.
 */
static uint32_t payload_component(const struct ticket *ticket,
                                  const struct splitter_payload *payload)
{
    for (uint32_t i = 0; ticket->names[i]; i++)
        if (is_named(payload, ticket->names[i]))
            return i;
    return is_named(payload, "probes") ? TICKET_PROBES : 0;
}

struct part *answer_payload(struct ticket *ticket, const struct splitter_payload *payload)
{
    struct array_type type;
    struct failure failure = {0};
    if (ticket->replied || ticket->answer != ANSWER_ARRAY || ticket->failed)
        return NULL;
    const uint32_t component = payload_component(ticket, payload);
    struct part *part = &ticket->parts[component];
    if (!part->data && !array_type_peek(payload, "out", false, &type, &failure))
        bad_reply(ticket, failure.message);
    else if (part->data || result_prepare(ticket, component, &type)) {
        if (payload->bytes <= part->type.bytes - part->received_bytes)
            return part;
        bad_reply(ticket, "more data than its shape says");
    }
    return NULL;
}

bool answer_field_type(const msgpack_object *out, struct array_type *type)
{
    const msgpack_object *dtype = object_find(out, "type"), *shape = object_find(out, "shape");
    if (!dtype || !shape || shape->type != MSGPACK_OBJECT_ARRAY ||
        shape->via.array.size > FDCLIENT_DIMENSIONS)
        return false;
    *type = (struct array_type){.dtype = object_is(dtype, "<f8") ? DTYPE_F64 : DTYPE_F32,
                                .dimensions = shape->via.array.size};
    type->bytes = dtype_element_bytes(type->dtype);
    for (uint32_t i = 0; i < type->dimensions; i++)
        if (!object_unsigned(&shape->via.array.ptr[i], &type->shape[i]) ||
            __builtin_mul_overflow(type->bytes, type->shape[i], &type->bytes))
            return false;
    return true;
}

/* A result that lies in a region: where the caller wants it, or in the pool. */
static bool region_take(struct ticket *ticket, uint32_t component, const struct array *array)
{
    const struct way *way = component < ticket->route.outs ? &ticket->route.out[component] : NULL;
    if (!way || array->region != way->region || array->offset != way->offset ||
        array->type.bytes == 0 || (way->pooled && array->type.bytes > way->pooled->bytes))
        return bad_reply(ticket, "a place in a region that was not asked for");
    if (!result_prepare(ticket, component, &array->type))
        return false;
    if (way->pooled)
        memcpy(ticket->results[component].data, way->pooled->memory, array->type.bytes);
    result_describe(&ticket->results[component], &array->type);
    return true;
}

/* A result that stayed resident. Its description is of no memory here: it must not stand beside
 * any. */
static bool field_take(struct ticket *ticket, uint32_t component, uint64_t field,
                       const msgpack_object *object)
{
    struct array_type type;
    if (!ticket->takes_fields)
        return bad_reply(ticket, "a field that was not asked for");
    if (ticket->parts[component].data)
        return bad_reply(ticket, "data beside its array");
    if (!has_place(ticket, component))
        return false;
    ticket->results[component].field = field;
    if (answer_field_type(object, &type))
        result_describe(&ticket->results[component], &type);
    return true;
}

static bool array_take(struct ticket *ticket, uint32_t component, const struct array *array,
                       const msgpack_object *object)
{
    const struct part *part = &ticket->parts[component];
    if (array->kind == ARRAY_REGION)
        return region_take(ticket, component, array);
    if (array->kind == ARRAY_FIELD)
        return field_take(ticket, component, array->field, object);
    if (array->payload_count > 0 && (!part->data || part->received_bytes != part->type.bytes ||
                                     memcmp(&part->type, &array->type, sizeof array->type) != 0))
        return bad_reply(ticket, "less data than its shape says");
    if (array->payload_count == 0) {
        if (part->data)
            return bad_reply(ticket, "data beside its array");
        if (!result_prepare(ticket, component, &array->type))
            return false;
        memcpy(part->data, array->small, array->type.bytes);
    }
    result_describe(ticket_result(ticket, component), &array->type);
    return true;
}

/* A result under its key, or the only one. `object` NULL: there is none. */
static bool component_take(struct ticket *ticket, uint32_t component, const msgpack_object *object)
{
    struct array array;
    struct failure failure = {0};
    if (!object)
        return !ticket->parts[component].data || bad_reply(ticket, "data beside its array");
    if (!array_read(object, "out", &array, &failure))
        return bad_reply(ticket, failure.message);
    if (array.kind == ARRAY_DESCRIBED)
        return bad_reply(ticket, "an array without its data");
    return array_take(ticket, component, &array, object);
}

/* An array, or a map of several by their names. */
static bool out_take(struct ticket *ticket, const msgpack_object *out)
{
    uint32_t named = 0;
    if (!out)
        return bad_reply(ticket, "it has no \"out\"");
    for (uint32_t i = 0; ticket->names[i]; i++)
        named += object_find(out, ticket->names[i]) != NULL;
    if (named > 0 && named != out->via.map.size)
        return bad_reply(ticket, "\"out\" has a key twice, or one that is no result's");
    const char *const *name = named > 0 ? ticket->names : NULL;
    for (uint32_t i = 0; i < TICKET_PROBES; i++) {
        const msgpack_object *one = i == 0 && !name ? out : NULL;
        if (name && *name)
            one = object_find(out, *name++);
        if (!component_take(ticket, i, one))
            return false;
    }
    return true;
}

/* The values at probes, an inline array. */
static bool probes_take(struct ticket *ticket, const msgpack_object *probes)
{
    struct array array;
    struct failure failure = {0};
    if (!probes && !ticket->parts[TICKET_PROBES].data)
        return true;
    if (!probes || !array_read(probes, "probes", &array, &failure) || array.kind != ARRAY_INLINE)
        return bad_reply(ticket, "its probes are no array");
    return array_take(ticket, TICKET_PROBES, &array, probes);
}

static bool json_take(struct ticket *ticket, const msgpack_object *object)
{
    size_t length;
    FILE *text = open_memstream(&ticket->results->json, &length);
    if (text)
        json_write(text, object, 0);
    if (text && fclose(text) == 0)
        return true;
    free(ticket->results->json);
    ticket->results->json = NULL;
    return fail(ticket, "OUT_OF_MEMORY", "no memory for the answer's text");
}

static bool text_take(const msgpack_object *map, const char *key, char *text, size_t room)
{
    const msgpack_object *object = object_find(map, key);
    const char *bytes;
    uint32_t length;
    if (!object || !object_bytes(object, &bytes, &length) || length >= room)
        return false;
    memcpy(text, bytes, length); /* the rest is 0 */
    return true;
}

static bool export_take(struct fdclient *client, struct ticket *ticket,
                        const msgpack_object *result)
{
    struct fdclient_export *exported = ticket->exported;
    struct fdclient_error error;
    struct array_type type;
    if (!text_take(result, "kind", exported->kind, sizeof exported->kind) ||
        !text_take(result, "device", exported->device, sizeof exported->device) ||
        !object_find_unsigned(result, "bytes", &exported->bytes) ||
        !object_find_unsigned(result, "offset", &exported->offset) ||
        !answer_field_type(result, &type) || exported->offset > exported->bytes ||
        type.bytes > exported->bytes - exported->offset)
        return bad_reply(ticket, "it describes no memory with a field");
    text_take(result, "uuid", exported->uuid, sizeof exported->uuid);
    answer_describe(&type, &exported->dtype, &exported->dimensions, exported->shape);
    /* It comes with the first byte of the answer that it is of, so that it is here now. */
    exported->descriptor = client->passed;
    client->passed = -1;
    if (exported->descriptor >= 0)
        return true;
    error_set(&error, "OUT_OF_MEMORY", "",
              "the field's descriptor did not come: has this process as many as it may?");
    ticket_fail(ticket, &error);
    return false;
}

static bool result_take(struct fdclient *client, struct ticket *ticket,
                        const msgpack_object *result)
{
    const msgpack_object *const report = object_find(result, "report");
    switch (ticket->answer) {
    case ANSWER_ARRAY:
        return out_take(ticket, object_find(result, "out")) &&
               probes_take(ticket, object_find(result, "probes")) &&
               (!report || json_take(ticket, report));
    case ANSWER_FIELD:
        return object_find_unsigned(result, "field", &ticket->results->field) ||
               bad_reply(ticket, "it has no \"field\"");
    case ANSWER_JSON:
        return json_take(ticket, result);
    case ANSWER_REGION:
        return (object_find_unsigned(result, "region", &ticket->region->id) &&
                ticket->region->id) ||
               bad_reply(ticket, "it has no \"region\"");
    case ANSWER_EXPORT:
        return export_take(client, ticket, result);
    case ANSWER_NOTHING:
        break;
    }
    return true;
}

void answer_take(struct fdclient *client, struct ticket *ticket, const msgpack_object *error,
                 const msgpack_object *result)
{
    if (error->type != MSGPACK_OBJECT_NIL) {
        struct failure failure;
        struct fdclient_error read;
        reply_read_failure(error, &failure);
        error_from_failure(&read, &failure);
        /* A field that does not fit its place, said as for one that comes over the socket. */
        if (ticket->route.outs && read.has_limit && strncmp(read.parameter, "out", 3) == 0 &&
            strcmp(read.code, "INVALID_ARGUMENT") == 0) {
            strcpy(read.code, "TOO_LARGE");
            strcpy(read.parameter, "result");
        }
        ticket_fail(ticket, &read);
        return;
    }
    if (!ticket->failed)
        result_take(client, ticket, result);
}

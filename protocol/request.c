#include "protocol/request.h"

#include "protocol/request_read.h"
#include "protocol/splitter.h"

#include <stdlib.h>

static bool malformed(struct failure *failure, const char *text)
{
    return failure_set(failure, STATUS_PROTOCOL, NULL, "%s", text);
}

bool request_decode(const msgpack_object *object, struct request *request, bool *has_msgid,
                    struct failure *failure)
{
    request_begin(request);
    *has_msgid = false;
    if (object->type != MSGPACK_OBJECT_ARRAY || object->via.array.size < 1)
        return malformed(failure, "a message is [0, msgid, method, [params]]");
    const msgpack_object *const items = object->via.array.ptr;
    const uint32_t count = object->via.array.size;
    uint64_t type;
    if (items[0].type != MSGPACK_OBJECT_POSITIVE_INTEGER ||
        ((type = items[0].via.u64) != SPLITTER_REQUEST && type != SPLITTER_NOTIFICATION))
        return malformed(failure, "a message's type must be 0 (request) or 2 (notification)");
    if (type == SPLITTER_NOTIFICATION) {
        request->is_notification = true;
        return true;
    }
    if (count < 2 || items[1].type != MSGPACK_OBJECT_POSITIVE_INTEGER)
        return malformed(failure, "a request's msgid must be an unsigned integer");
    request->msgid = items[1].via.u64;
    *has_msgid = true;
    if (count != 4)
        return malformed(failure, "a request is [0, msgid, method, [params]]");
    if (!object_is_text(&items[2]))
        return malformed(failure, "a request's method must be a string");
    if (!request_find_method(&items[2], request, failure))
        return false;
    if (items[3].type != MSGPACK_OBJECT_ARRAY)
        return malformed(failure, "a request's params must be a list of one map");
    const uint32_t given = items[3].via.array.size;
    const msgpack_object *map = given == 1 ? &items[3].via.array.ptr[0] : NULL;
    if (map && map->type == MSGPACK_OBJECT_NIL)
        map = NULL;
    if (given > 1 || (map && map->type != MSGPACK_OBJECT_MAP))
        return invalid_argument(
            failure, NULL, "params must be one map of named parameters: [{\"name\": value, …}]");
    return request_read_parameters(map, request, failure) && request_make_chain(request, failure) &&
           request_check_inputs(request, request->dry_run, failure);
}

void request_free(struct request *request)
{
    free(request->chain);
    request->chain = NULL;
}

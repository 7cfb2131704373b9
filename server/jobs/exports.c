#include "server/jobs/exports.h"

#include "server/devices/field.h"
#include "server/users/memory.h"

#include <stdlib.h>

/* A client has the descriptor of a field, which is referenced. */
struct export
{
    struct list link;
    struct field *field;
};

bool exports_take(struct client *client, struct field *field, struct failure *failure)
{
    LIST_EACH (const struct export, export, &client->exports, link)
        if (export->field == field)
            return true;
    struct export *export = calloc(1, sizeof *export);
    if (!export)
        return failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
    memory_hold(client->user, sizeof *export); /* without a limit: the field is exported already */
    export->field = field_reference(field);
    list_push(&client->exports, &export->link);
    return true;
}

void exports_forget(struct client *client)
{
    LIST_DRAIN (struct export, export, &client->exports, link) {
        field_release(export->field);
        memory_release(client->user, sizeof *export);
        free(export);
    }
}

#include "server/jobs/exports.h"

#include "server/devices/field.h"
#include "server/users/memory.h"

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
    struct export *export = memory_new(client->user, sizeof *export, NULL, failure);
    if (!export)
        return false;
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

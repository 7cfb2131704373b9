#include "server/devices/device_copy.h"

#include "server/devices/device.h"
#include "server/devices/mailbox.h"
#include "server/users/memory.h"

#include <stdlib.h>

/* Slabs of one copy: while one worker fills some, the other empties some. */
enum { UNDER_WAY = 4 };

static void free_if_unused(struct device_copy *copy)
{
    struct user *user = copy->from->user;
    if (copy->ended || copy->under_way)
        return;
    copy->from->device->sends--;
    field_release(copy->from);
    field_release(copy->to);
    memory_release(user, sizeof *copy);
    free(copy);
}

void device_copy_forget(struct device_copy *copy)
{
    copy->ended = NULL;
    arena_forget(&copy->waiter);
    free_if_unused(copy);
}

static void end(struct device_copy *copy, bool ok)
{
    void (*const ended)(void *, bool) = copy->ended;
    void *const context = copy->context;
    device_copy_forget(copy);
    ended(context, ok);
}

static void on_downloaded(struct slab *slab, void *context, bool ok);

/* The bytes of the next slab, of so many at most. */
static uint64_t next_bytes(const struct device_copy *copy, uint64_t most)
{
    const uint64_t left = copy->bytes - copy->asked,
                   here = field_stretch(copy->from, copy->from_offset + copy->asked),
                   there = field_stretch(copy->to, copy->to_offset + copy->asked);
    most = left < most ? left : most;
    most = here < most ? here : most;
    return there < most ? there : most;
}

/* A slot of the mailbox of the device that the next bytes go to, or else a slab of the arena; NULL:
 * it waits for one. */
static struct slab *take_slab(struct device_copy *copy, uint64_t *bytes)
{
    uint64_t at;
    struct slab *slab;
    struct device *from = field_at(copy->from, copy->from_offset + copy->asked, &at)->device,
                  *to = field_at(copy->to, copy->to_offset + copy->asked, &at)->device;
    if (mailbox_reaches(from, to)) {
        *bytes = next_bytes(copy, mailbox_slot_bytes(to));
        if (!(slab = mailbox_take(to, copy->from->user)))
            mailbox_wait(to, &copy->waiter);
        return slab;
    }
    *bytes = next_bytes(copy, copy->arena->slab_bytes);
    if (arena_take(copy->arena, copy->from->user, SHARE_UPLOAD, 1, &slab))
        return slab;
    arena_wait(copy->arena, &copy->waiter);
    return NULL;
}

/* False: an array is lost. */
static bool go_on(struct device_copy *copy)
{
    while (copy->asked < copy->bytes && copy->under_way < UNDER_WAY) {
        uint64_t bytes;
        if (copy->from->lost || copy->to->lost)
            return false;
        struct slab *slab = take_slab(copy, &bytes);
        if (!slab)
            return true;
        const uint64_t offset = copy->from_offset + copy->asked;
        copy->asked += bytes;
        copy->under_way++;
        device_download(copy->from, offset, slab, bytes, on_downloaded, copy);
    }
    return true;
}

/* A slab was filled by the one device; it is released when the other has emptied it. */
static void on_downloaded(struct slab *slab, void *context, bool ok)
{
    struct device_copy *copy = context;
    struct field *from = copy->from, *to = copy->to;
    bool complete = false;
    ok = ok && copy->ended && !to->lost && !field_is_refused(from);
    if (ok) {
        copy->sent += slab->bytes;
        complete = copy->sent == copy->bytes;
        device_upload(to, slab->offset - copy->from_offset + copy->to_offset, slab, slab->bytes);
        ok = go_on(copy);
    } else {
        device_release_slab(copy->arena, slab);
    }
    copy->under_way--; /* not before: until here it keeps the copy */
    if (copy->ended && (complete || !ok))
        end(copy, ok);
    else
        free_if_unused(copy);
}

static void on_slab(struct slab_waiter *waiter)
{
    struct device_copy *copy = LIST_ENTRY(waiter, struct device_copy, waiter);
    if (!go_on(copy))
        end(copy, false);
}

bool device_copy_begin(struct device_copy **copy, struct field *from, uint64_t from_offset,
                       struct field *to, uint64_t to_offset, uint64_t bytes,
                       void (*ended)(void *context, bool ok), void *context)
{
    struct device_copy *new = calloc(1, sizeof *new);
    *copy = new;
    if (!new)
        return false;
    memory_hold(from->user, sizeof *new);
    *new = (struct device_copy){
        .arena = &from->device->devices->arena,
        .from = field_reference(from),
        .to = field_reference(to),
        .from_offset = from_offset,
        .to_offset = to_offset,
        .bytes = bytes,
        .waiter = {.user = from->user, .share = SHARE_UPLOAD, .count = 1, .ready = on_slab},
        .ended = ended,
        .context = context};
    from->device->sends++;
    if (!go_on(new))
        end(new, false);
    return true;
}

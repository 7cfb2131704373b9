#include "server/devices/device_copy.h"

#include "server/devices/device.h"
#include "server/devices/mailbox.h"
#include "server/users/memory.h"

#include <stdlib.h>

static void free_if_unused(struct device_copy *copy)
{
    struct user *user = copy->from->user;
    if (copy->ended || copy->under_way)
        return;
    copy->from->device->sends--;
    copy->to->device->sends--;
    field_release(copy->from);
    field_release(copy->to);
    memory_release(user, sizeof *copy);
    free(copy);
}

/* Take back the passages that no worker has been told of: the arrays may be others' from now on,
 * and a task that they were awaited by may end, and forget this copy. */
static void withdraw(struct device_copy *copy)
{
    copy->under_way++; /* until the end it keeps the copy */
    for (int i = 0; i < DEVICE_COPY_UNDER_WAY; i++) {
        struct passage *passage = &copy->passage[i];
        if (!communicator_withdraw(passage))
            continue;
        *passage = (struct passage){0};
        copy->under_way--;
        copy->from->copies--;
        device_settle_copies(copy->from);
    }
    copy->under_way--;
}

void device_copy_forget(struct device_copy *copy)
{
    copy->ended = NULL;
    arena_forget(&copy->waiter);
    withdraw(copy);
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
static void on_passed(struct passage *passage, bool ok);

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
static struct slab *take_slab(struct device_copy *copy, const struct device *from,
                              struct device *to, uint64_t *bytes)
{
    struct slab *slab;
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

/* Send the next bytes, between the arrays of these two devices. */
static uint64_t pass(struct device_copy *copy, struct communicator *communicator)
{
    struct passage *passage = copy->passage;
    while (passage->from)
        passage++;
    *passage = (struct passage){
        .bytes = next_bytes(copy, COMMUNICATOR_PASSAGE_BYTES), .ended = on_passed, .context = copy};
    passage->from = field_at(copy->from, copy->from_offset + copy->asked, &passage->from_offset);
    passage->to = field_at(copy->to, copy->to_offset + copy->asked, &passage->to_offset);
    copy->from->copies++;
    communicator_pass(communicator, passage);
    return passage->bytes;
}

/* False: an array is lost. */
static bool go_on(struct device_copy *copy)
{
    while (copy->asked < copy->bytes && copy->under_way < DEVICE_COPY_UNDER_WAY) {
        uint64_t bytes, at;
        if (copy->from->lost || copy->to->lost)
            return false;
        const uint64_t offset = copy->from_offset + copy->asked;
        struct device *from = field_at(copy->from, offset, &at)->device,
                      *to = field_at(copy->to, copy->to_offset + copy->asked, &at)->device;
        struct communicator *communicator = communicator_between(from, to);
        struct slab *slab = communicator ? NULL : take_slab(copy, from, to, &bytes);
        if (!communicator && !slab)
            return true;
        if (communicator)
            bytes = pass(copy, communicator);
        copy->asked += bytes;
        copy->under_way++;
        if (slab)
            device_download(copy->from, offset, slab, bytes, on_downloaded, copy);
    }
    return true;
}

/* Both workers may still write for it. */
static bool has_passages(const struct device_copy *copy)
{
    bool has = false;
    for (int i = 0; i < DEVICE_COPY_UNDER_WAY; i++)
        has = has || copy->passage[i].from;
    return has;
}

/* Is it the way that has failed? The next copy takes another one. */
static bool can_begin_again(const struct device_copy *copy)
{
    return copy->ended && copy->failures <= DEVICE_COPY_AGAIN && !copy->from->lost &&
           !copy->to->lost && !field_is_refused(copy->from);
}

/* Order no more of it and, once nobody writes for it, begin it again or end it. */
static void fail(struct device_copy *copy)
{
    copy->failures += !copy->failed;
    copy->failed = true;
    arena_forget(&copy->waiter);
    withdraw(copy);
    if (can_begin_again(copy)) {
        if (copy->under_way)
            return;
        copy->failed = false;
        copy->asked = copy->sent = 0;
        if (go_on(copy))
            return;
        copy->failed = true;
    }
    if (copy->ended && !has_passages(copy))
        end(copy, false);
    else
        free_if_unused(copy);
}

/* So many more bytes have been sent; ok: and there is no reason to stop. */
static void piece_ended(struct device_copy *copy, uint64_t bytes, bool ok)
{
    bool complete = false;
    if (ok && !copy->failed) {
        copy->sent += bytes;
        complete = copy->sent == copy->bytes;
        ok = go_on(copy);
    }
    copy->under_way--; /* not before: until here it keeps the copy */
    if (complete && copy->ended)
        end(copy, true);
    else if (!ok || copy->failed)
        fail(copy);
    else
        free_if_unused(copy);
}

static void on_passed(struct passage *passage, bool ok)
{
    struct device_copy *copy = passage->context;
    struct field *from = field_reference(copy->from);
    const uint64_t bytes = passage->bytes;
    *passage = (struct passage){0};
    ok = ok && copy->ended && !copy->to->lost && !field_is_refused(from);
    from->copies--;
    piece_ended(copy, bytes, ok);
    device_settle_copies(from);
    field_release(from);
}

/* A slab was filled by the one device; it is released when the other has emptied it. */
static void on_downloaded(struct slab *slab, void *context, bool ok)
{
    struct device_copy *copy = context;
    struct field *to = copy->to;
    const uint64_t bytes = slab->bytes;
    ok = ok && copy->ended && !to->lost && !field_is_refused(copy->from);
    if (ok)
        device_upload(to, slab->offset - copy->from_offset + copy->to_offset, slab, bytes);
    else
        device_release_slab(copy->arena, slab);
    piece_ended(copy, bytes, ok);
}

static void on_slab(struct slab_waiter *waiter)
{
    struct device_copy *copy = LIST_ENTRY(waiter, struct device_copy, waiter);
    if (!go_on(copy))
        fail(copy);
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
    to->device->sends++;
    if (!go_on(new))
        fail(new);
    return true;
}

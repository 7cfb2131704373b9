#include "server/devices/mailbox.h"

#include "base/log.h"
#include "server/devices/device.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool mailbox_open(struct device *device)
{
    const uint64_t bytes = device->devices->config->mailbox_bytes / MAILBOX_GRAIN * MAILBOX_GRAIN;
    if (!bytes)
        return true;
    struct mailbox *mailbox = calloc(1, sizeof *mailbox);
    struct slab *slots = calloc(MAILBOX_SLOTS, sizeof *slots);
    if (!mailbox || !slots) {
        free(mailbox);
        free(slots);
        return false;
    }
    mailbox->device = device;
    mailbox->descriptor = -1;
    mailbox->bytes = bytes;
    mailbox->slot = slots;
    list_init(&mailbox->free);
    list_init(&mailbox->waiting);
    for (uint32_t i = 0; i < MAILBOX_SLOTS; i++) {
        slots[i].number = i;
        slots[i].mailbox = mailbox;
        list_push(&mailbox->free, &slots[i].link);
    }
    device->mailbox = mailbox;
    return true;
}

static void close_descriptor(struct mailbox *mailbox)
{
    if (mailbox->descriptor >= 0)
        close(mailbox->descriptor);
    mailbox->descriptor = -1;
}

void mailbox_free(struct device *device)
{
    if (!device->mailbox)
        return;
    close_descriptor(device->mailbox);
    free(device->mailbox->slot);
    free(device->mailbox);
}

bool mailbox_reaches(const struct device *from, const struct device *to)
{
    const struct mailbox *mailbox = to->mailbox;
    return mailbox && mailbox->state == MAILBOX_OPEN &&
           mailbox->known[from->number] == MAILBOX_MAPPED &&
           mailbox->known[to->number] == MAILBOX_MAPPED;
}

/* --- slots --- */

struct slab *mailbox_take(struct device *device, struct user *user)
{
    struct mailbox *mailbox = device->mailbox;
    struct slab *slot = LIST_TAKE(&mailbox->free, struct slab, link);
    if (!slot)
        return NULL;
    slot->user = user;
    slot->uses++;
    mailbox->taken++;
    return slot;
}

void mailbox_wait(struct device *device, struct slab_waiter *waiter)
{
    if (list_empty(&waiter->link))
        list_push(&device->mailbox->waiting, &waiter->link);
}

static void wake_all(struct mailbox *mailbox)
{
    struct list woken;
    list_init(&woken);
    list_move(&mailbox->waiting, &woken);
    LIST_DRAIN (struct slab_waiter, waiter, &woken, link)
        waiter->ready(waiter);
}

/* One that needs no slot any more leaves it to the next. */
static void wake_some(struct mailbox *mailbox)
{
    while (!list_empty(&mailbox->free) && !list_empty(&mailbox->waiting)) {
        struct slab_waiter *waiter = LIST_TAKE(&mailbox->waiting, struct slab_waiter, link);
        waiter->ready(waiter);
    }
}

static void settle(struct mailbox *mailbox);

void mailbox_release(struct slab *slot)
{
    struct mailbox *mailbox = slot->mailbox;
    slot->user = NULL;
    mailbox->taken--;
    list_push(&mailbox->free, &slot->link);
    wake_some(mailbox);
    settle(mailbox);
}

uint64_t mailbox_slot_bytes(const struct device *device)
{
    return device->mailbox->bytes / MAILBOX_SLOTS;
}

uint64_t mailbox_offset(const struct slab *slot)
{
    return slot->number * mailbox_slot_bytes(slot->mailbox->device);
}

uint64_t mailbox_use_number(const struct slab *slot)
{
    const uint64_t before = slot->uses * DEVICES_MOST + slot->mailbox->device->number;
    return before * MAILBOX_SLOTS + slot->number;
}

struct slab *mailbox_slot(const struct device *device, uint64_t number)
{
    LIST_EACH (const struct device, member, &device->devices->list, link) {
        struct mailbox *mailbox = member->mailbox;
        struct slab *slot = mailbox ? &mailbox->slot[number % MAILBOX_SLOTS] : NULL;
        if (slot && mailbox_use_number(slot) == number)
            return slot;
    }
    return NULL;
}

/* --- workers --- */

/* Let the device's worker map it. Without a descriptor it is told at the device's next beat. */
static void tell(struct mailbox *mailbox, struct device *device)
{
    const struct channel_message message = {
        .type = CHANNEL_REGION,
        .u.region = {
            .region = mailbox->region, .bytes = mailbox->bytes, .writable = 1, .is_mailbox = 1}};
    if (device_pass(device, &message, mailbox->descriptor))
        mailbox->known[device->number] = MAILBOX_TOLD;
}

/* A node's mailbox is found by an address, and this node's by a descriptor: neither is of use to
 * the other. */
static void tell_all(struct mailbox *mailbox)
{
    LIST_EACH (struct device, member, &mailbox->device->devices->list, link)
        if (member->mailbox && member->state == DEVICE_READY &&
            member->bridged == mailbox->device->bridged &&
            mailbox->known[member->number] == MAILBOX_UNTOLD)
            tell(mailbox, member);
}

/* The workers that have mapped it unmap it. */
static void untell_all(struct mailbox *mailbox)
{
    const struct channel_message message = {.type = CHANNEL_UNREGION,
                                            .u.region.region = mailbox->region};
    LIST_EACH (struct device, member, &mailbox->device->devices->list, link) {
        if (mailbox->known[member->number] == MAILBOX_MAPPED ||
            mailbox->known[member->number] == MAILBOX_CUT_OFF)
            device_tell(member, &message, NULL);
        mailbox->known[member->number] = MAILBOX_UNTOLD;
    }
}

/* Are its slots in use, or is a worker about to map it? */
static bool is_awaited(const struct mailbox *mailbox)
{
    return mailbox->taken || memchr(mailbox->known, MAILBOX_TOLD, sizeof mailbox->known);
}

/* A mailbox whose worker has ended is gone when nothing of it is awaited; the next worker opens
 * another. */
static void settle(struct mailbox *mailbox)
{
    struct device *device = mailbox->device;
    if (mailbox->state == MAILBOX_LEAVING && !is_awaited(mailbox)) {
        untell_all(mailbox);
        mailbox->state = MAILBOX_NONE;
    }
    if (mailbox->state == MAILBOX_NONE && device->state == DEVICE_READY &&
        device->info.export_bytes && mailbox->bytes % device->info.export_bytes == 0) {
        const struct channel_message message = {.type = CHANNEL_MAILBOX,
                                                .u.mailbox.bytes = mailbox->bytes};
        mailbox->state = MAILBOX_OPENING;
        mailbox->region = ++device->devices->last_region;
        device_tell(device, &message, NULL);
    }
}

void mailbox_worker_ready(struct device *device)
{
    if (!device->mailbox)
        return;
    settle(device->mailbox);
    LIST_EACH (const struct device, member, &device->devices->list, link)
        if (member->mailbox && member->mailbox->state == MAILBOX_OPEN)
            tell_all(member->mailbox);
}

void mailbox_worker_lost(struct device *device)
{
    struct mailbox *own = device->mailbox;
    if (!own || device->state == DEVICE_CLOSED) /* the front is leaving */
        return;
    LIST_EACH (const struct device, member, &device->devices->list, link) {
        if (!member->mailbox)
            continue;
        member->mailbox->known[device->number] = MAILBOX_UNTOLD;
        if (member != device)
            settle(member->mailbox);
    }
    close_descriptor(own);
    own->state = own->state == MAILBOX_NONE ? MAILBOX_NONE : MAILBOX_LEAVING;
    settle(own);
    wake_all(own);
}

void mailbox_opened(struct device *device, const struct channel_message *message, int *descriptor)
{
    struct mailbox *mailbox = device->mailbox;
    if (!mailbox || mailbox->state != MAILBOX_OPENING || message->status != STATUS_OK ||
        *descriptor < 0) {
        log_warning("%s: no memory for a mailbox; copies go through the host", device->name);
        return;
    }
    mailbox->descriptor = *descriptor;
    *descriptor = -1;
    mailbox->state = MAILBOX_OPEN;
    tell_all(mailbox);
}

bool mailbox_mapped(struct device *device, uint64_t region, enum status status)
{
    LIST_EACH (const struct device, member, &device->devices->list, link) {
        struct mailbox *mailbox = member->mailbox;
        if (!mailbox || mailbox->region != region || mailbox->known[device->number] != MAILBOX_TOLD)
            continue;
        mailbox->known[device->number] =
            status == STATUS_OK ? MAILBOX_MAPPED : MAILBOX_OUT_OF_REACH;
        settle(mailbox);
        if (status != STATUS_OK)
            log_warning("%s cannot reach memory of %s; copies go through the host", device->name,
                        member->name);
        return true;
    }
    return false;
}

void mailbox_missed(struct device *device, const struct slab *slot)
{
    const struct device *owner = slot->mailbox->device;
    uint8_t *known = &slot->mailbox->known[device->number];
    if (*known != MAILBOX_MAPPED)
        return;
    *known = MAILBOX_CUT_OFF;
    log_warning("%s does not reach %s any more; copies go through the host", device->name,
                owner->name);
}

#include "server/devices/mailbox.h"

#include "base/log.h"
#include "base/rights.h"
#include "server/devices/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    rights_close(mailbox->descriptor);
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
           mailbox->reach[from->number].known == MAILBOX_MAPPED &&
           mailbox->reach[to->number].known == MAILBOX_MAPPED;
}

/* --- slots --- */

/* How many the user has taken. */
static uint32_t *slots_of(const struct mailbox *mailbox, const struct user *user)
{
    return &user->part[mailbox->device->number]->slots;
}

struct slab *mailbox_take(struct device *device, struct user *user)
{
    struct mailbox *mailbox = device->mailbox;
    struct slab *slot = LIST_TAKE(&mailbox->free, struct slab, link);
    if (!slot)
        return NULL;
    slot->user = user;
    ++*slots_of(mailbox, user);
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
    struct list woken = {0};
    list_move(&mailbox->waiting, &woken);
    LIST_DRAIN (struct slab_waiter, waiter, &woken, link)
        waiter->ready(waiter);
}

/* The first to come of those whose user has the fewest slots, taken out; NULL: none waits. */
static struct slab_waiter *take_waiter(struct mailbox *mailbox)
{
    struct slab_waiter *next = NULL;
    LIST_EACH (struct slab_waiter, waiter, &mailbox->waiting, link) {
        if (!next || *slots_of(mailbox, waiter->user) < *slots_of(mailbox, next->user))
            next = waiter;
        if (*slots_of(mailbox, next->user) == 0)
            break;
    }
    if (next)
        list_remove(&next->link);
    return next;
}

/* One that needs no slot any more leaves it to the next. */
static void wake_some(struct mailbox *mailbox)
{
    struct slab_waiter *waiter;
    while (!list_empty(&mailbox->free) && (waiter = take_waiter(mailbox)))
        waiter->ready(waiter);
}

static void settle(struct mailbox *mailbox);

void mailbox_release(struct slab *slot)
{
    struct mailbox *mailbox = slot->mailbox;
    --*slots_of(mailbox, slot->user);
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
        mailbox->reach[device->number].known = MAILBOX_TOLD;
}

/* A node's mailbox is found by an address, and this node's by a descriptor: neither is of use to
 * the other. */
static void tell_all(struct mailbox *mailbox)
{
    LIST_EACH (struct device, member, &mailbox->device->devices->list, link)
        if (member->mailbox && member->state == DEVICE_READY &&
            member->bridged == mailbox->device->bridged &&
            mailbox->reach[member->number].known == MAILBOX_UNTOLD)
            tell(mailbox, member);
}

/* A worker that has mapped it unmaps it. */
static void untell(struct mailbox *mailbox, struct device *device)
{
    const struct channel_message message = {.type = CHANNEL_UNREGION,
                                            .u.region.region = mailbox->region};
    struct mailbox_reach *reach = &mailbox->reach[device->number];
    if (reach->known == MAILBOX_MAPPED || reach->known == MAILBOX_CUT_OFF)
        device_tell(device, &message, NULL);
    reach->known = MAILBOX_UNTOLD;
}

static void untell_all(struct mailbox *mailbox)
{
    LIST_EACH (struct device, member, &mailbox->device->devices->list, link)
        untell(mailbox, member);
    memset(mailbox->reach, 0, sizeof mailbox->reach);
}

/* Are its slots in use, or is a worker about to map it? */
static bool is_awaited(const struct mailbox *mailbox)
{
    bool awaited = mailbox->taken > 0;
    for (int i = 0; i < DEVICES_MOST; i++)
        awaited = awaited || mailbox->reach[i].known == MAILBOX_TOLD;
    return awaited;
}

/* A beat of the worker of a node that did not reach the mailbox: when it has rested, it is told
 * anew, as soon as no copy of its own names the mailbox. Only a node that has connected again has
 * copies to it, so that none fails for being the one that tries. */
static void try_again(struct mailbox *mailbox, struct device *device)
{
    struct mailbox_reach *reach = &mailbox->reach[device->number];
    if (!device->bridged ||
        (reach->known != MAILBOX_CUT_OFF && reach->known != MAILBOX_OUT_OF_REACH))
        return;
    const bool rested = rest_beat(&reach->rest);
    LIST_EACH (const struct slab, slab, &device->copies, link)
        if (slab->mailbox == mailbox)
            return;
    if (rested)
        untell(mailbox, device);
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
        if (member->mailbox && member->mailbox->state == MAILBOX_OPEN) {
            try_again(member->mailbox, device);
            tell_all(member->mailbox);
        }
}

void mailbox_worker_lost(struct device *device)
{
    struct mailbox *own = device->mailbox;
    if (!own || device->state == DEVICE_CLOSED) /* the front is leaving */
        return;
    LIST_EACH (const struct device, member, &device->devices->list, link) {
        if (!member->mailbox)
            continue;
        member->mailbox->reach[device->number] = (struct mailbox_reach){0};
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

static void rest(struct mailbox *mailbox, const struct device *device, const char *text)
{
    struct rest *rest = &mailbox->reach[device->number].rest;
    char until[32] = "until its worker ends";
    rest_begin(rest);
    if (device->bridged)
        snprintf(until, sizeof until, "for %u s", rest->left * HEARTBEAT_MS / 1000);
    log_warning("%s %s %s; copies go through the host %s", device->name, text,
                mailbox->device->name, until);
}

bool mailbox_mapped(struct device *device, uint64_t region, enum status status)
{
    LIST_EACH (const struct device, member, &device->devices->list, link) {
        struct mailbox *mailbox = member->mailbox;
        struct mailbox_reach *reach = mailbox ? &mailbox->reach[device->number] : NULL;
        if (!mailbox || mailbox->region != region || reach->known != MAILBOX_TOLD)
            continue;
        reach->known = status == STATUS_OK ? MAILBOX_MAPPED : MAILBOX_OUT_OF_REACH;
        if (status != STATUS_OK) {
            rest(mailbox, device, "cannot reach memory of");
        } else if (reach->rest.pause) {
            log_info("%s reaches %s again", device->name, member->name);
        }
        settle(mailbox);
        return true;
    }
    return false;
}

void mailbox_copied(const struct device *device, const struct slab *slot, bool ok)
{
    struct mailbox_reach *reach = &slot->mailbox->reach[device->number];
    if (reach->known != MAILBOX_MAPPED)
        return;
    if (ok) {
        rest_forget(&reach->rest);
        return;
    }
    reach->known = MAILBOX_CUT_OFF;
    rest(slot->mailbox, device, "no longer reaches");
}

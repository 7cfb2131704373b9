/* Slots of a mailbox, by user: many copies of one keep another's waiting for no more than a slot.
 */
#include "server/devices/device.h"
#include "server/devices/mailbox.h"
#include "tests/unit/unit.h"

#include <string.h>

enum { WAITING = 40 };

static struct config config;
static struct devices devices;
static struct device device;
static struct mailbox mailbox;
static struct slab slots[MAILBOX_SLOTS];
static struct user many, one;
static struct device_user part_of_many, part_of_one;

/* A copy that waits for a slot. */
struct copy {
    struct slab_waiter waiter;
    struct slab *slot; /* NULL: it waits */
};

/* ---- what it calls ---- */

void device_tell(struct device *to, const struct channel_message *message, const uint8_t *block)
{
    fail();
}

bool device_pass(struct device *to, const struct channel_message *message, int descriptor)
{
    fail();
    return false;
}

/* ---- what the test does ---- */

static void on_ready(struct slab_waiter *waiter)
{
    struct copy *copy = LIST_ENTRY(waiter, struct copy, waiter);
    assert_null(copy->slot);
    copy->slot = mailbox_take(&device, waiter->user);
    assert_non_null(copy->slot);
}

static void begin(struct copy *copy, struct user *user)
{
    *copy = (struct copy){.waiter = {.user = user, .count = 1, .ready = on_ready}};
    if (!(copy->slot = mailbox_take(&device, user)))
        mailbox_wait(&device, &copy->waiter);
}

static void end(struct copy *copy)
{
    struct slab *slot = copy->slot;
    copy->slot = NULL;
    mailbox_release(slot);
}

static int open_mailbox(void **state)
{
    memset(slots, 0, sizeof slots);
    devices = (struct devices){.config = &config, .count = 1};
    device = (struct device){.devices = &devices, .state = DEVICE_READY, .mailbox = &mailbox};
    mailbox = (struct mailbox){.device = &device, .state = MAILBOX_OPEN, .slot = slots};
    for (int i = 0; i < MAILBOX_SLOTS; i++) {
        slots[i].mailbox = &mailbox;
        list_push(&mailbox.free, &slots[i].link);
    }
    part_of_many = part_of_one = (struct device_user){.slots = 0};
    many = (struct user){.uid = 1000, .part = {&part_of_many}};
    one = (struct user){.uid = 1001, .part = {&part_of_one}};
    return 0;
}

TEST(test_a_user_with_none_goes_before_one_with_many, open_mailbox, NULL)
{
    struct copy copies[WAITING], other[2];
    for (int i = 0; i < WAITING; i++)
        begin(&copies[i], &many);
    assert_int_equal(part_of_many.slots, MAILBOX_SLOTS);
    begin(&other[0], &one);
    begin(&other[1], &one);
    assert_null(other[0].slot);
    end(&copies[0]);
    assert_non_null(other[0].slot); /* though it came last */
    end(&copies[1]);
    assert_non_null(other[1].slot); /* who has fewer */
    end(&copies[2]);
    assert_non_null(copies[MAILBOX_SLOTS].slot); /* then the first of the others */
    assert_int_equal(part_of_one.slots, 2);
    end(&other[0]);
    end(&other[1]);
    for (int i = 3; i < WAITING; i++)
        end(&copies[i]);
    assert_int_equal(part_of_one.slots + part_of_many.slots + mailbox.taken, 0);
}

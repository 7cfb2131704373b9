#include "server/devices/placement.h"

#include "server/devices/device.h"

struct device *placement_device(struct devices *devices, struct user *user)
{
    if (user->device)
        return user->device;
    struct device *best = NULL;
    LIST_EACH (struct device, device, &devices->list, link) {
        const bool ready = device->state == DEVICE_READY;
        const bool best_ready = best && best->state == DEVICE_READY;
        if (!best || (ready && !best_ready) ||
            (ready == best_ready && (device->users < best->users || (device->users == best->users &&
                                                                     device->bytes < best->bytes))))
            best = device;
    }
    user->device = best;
    best->users++;
    return best;
}

void placement_settle(struct user *user)
{
    if (!user->device || user->jobs || user->fields || user->arrays || user->mapped_regions)
        return;
    user->device->users--;
    user->device = NULL;
}

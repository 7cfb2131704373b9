/* How long a device is at one thing at most: one that ends nothing for much longer hangs. */
#include "server/devices/device.h"
#include "server/users/user.h"

/* The longest time of a point of a pass on one of the host's cores. */
#define HOST_POINT_NS 10.0

/* The longest that the device should be at one thing of the order's. On a GPU a pass: those of many
 * points are cut into less, and of few points into more, of some milliseconds. On the host, where
 * several threads are at a pass, what one of them does alone: a row along x at least, and as much
 * as all of it where each line is solved from end to end (gpu/host/share.c). */
static double piece_ns(const struct device *device, const struct order *order)
{
    const struct job *job = order->job;
    if (!device_is_host(device))
        return (double)schedule_estimate(&order->user->part[device->number]->flow, job) /
               (double)job_passes(job);
    const bool solves = job->operator_id == OPERATOR_DIFFUSION && job->more.scheme == SCHEME_ADI;
    return HOST_POINT_NS * job_point_work(job) *
           (double)(solves ? job_points(job) : job->n[AXIS_X]);
}

double device_longest_piece_ns(const struct device *device)
{
    double longest_ns = 0;
    for (size_t i = 0; i < DEVICE_BUCKETS; i++)
        for (const struct order *order = device->running[i]; order; order = order->next_running) {
            const double ns = order->kind == ORDER_RUN ? piece_ns(device, order) : 0;
            longest_ns = ns > longest_ns ? ns : longest_ns;
        }
    return longest_ns;
}

/* The choice of the device for an array or a job (protocol/PROTOCOL.md, "Placement").
 *
 * A job goes where its estimated finish time is the earliest, as in list scheduling (HEFT:
 * Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002): after its user's own work that waits there,
 * which proceeds at the pace of one user among those who have work there (server/users/schedule.h),
 * and after the copies of inputs that lie elsewhere. An array that arrives before its job is known
 * goes to its connection's home device, so that what one connection puts lies together; the
 * connections of a user have different homes.
 *
 * The user has a part (server/users/user.h) of every device that is returned here. */
#pragma once

#include "server/jobs/jobs.h"
#include "protocol/request_chain.h"

struct upload;

/* The device for an array that arrives from the client: its home, another that has room or, if it
 * is larger than a device, the group (server/devices/group.h). NULL with OUT_OF_MEMORY. */
struct device *placement_of_array(struct client *client, const struct array_type *type,
                                  struct failure *failure);

/* The device for a request that makes a job, whose payloads are in `upload`; *relayed: the bytes of
 * its inputs that lie on other devices, and are copied there. NULL with the failure set:
 * `distribute`, `placement` or `out` is wrong, or OUT_OF_MEMORY. */
struct device *placement_of_job(struct client *client, const struct request *request,
                                const struct upload *upload, uint64_t *relayed,
                                struct failure *failure);

/* The task is expected to take so long on its device; 0: it is answered. Later jobs of its user are
 * placed accordingly. */
void placement_set_due(struct task *task, int64_t ns);

/* The client is gone. */
void placement_forget(struct client *client);

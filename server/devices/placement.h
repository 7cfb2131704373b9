/* Which device a user's work goes to: all of it to one, while there is any. */
#pragma once

struct device;
struct devices;
struct user;

/* The device for the user's next array: the one where the user's other things are, else the one
 * with the most room. */
struct device *placement_device(struct devices *devices, struct user *user);

/* Call when a job, field, array or region is gone: a user who holds nothing may be placed anew. */
void placement_settle(struct user *user);

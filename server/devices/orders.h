/* What passes between a device and its worker: arrays, copies and orders that way (device.h), and
 * what the worker says of them. For device.c, which has the process and the channel. */
#pragma once

#include <stdbool.h>

struct channel_message;
struct device;

/* The worker says something. False: it does not keep to the channel's rules. */
bool orders_take(struct device *device, const struct channel_message *message);

/* The worker is gone. No order is with it any more; … */
void orders_forget(struct device *device);
/* … and its copies have failed, after the arrays were lost. */
void orders_lose(struct device *device);
